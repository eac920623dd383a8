#!/usr/bin/env python3
"""The page that `ringfeed trace --page` makes, as it stands and as a browser draws it."""

import json
import re

from browser import Page, browse
from command_line import CommandTest, main, run, run_json

# What somebody does with the page; each word gives a line of what the page then says.
DRIVER = """<script>
function say(what) { document.body.append(what + ": " + document.getElementById("state").textContent + "\\n"); }
function bars(of) { return document.querySelectorAll(of + " rect.bar, " + of + " rect.many").length; }
const settle = () => new Promise((done) => setTimeout(done, 100));
(async () => {
  await settle();
  say("whole"); document.body.append(`bars: ${bars("svg")}\\n`);
  document.getElementById("in").click(); await settle(); say("in");
  dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"})); await settle(); say("later");
  dispatchEvent(new KeyboardEvent("keydown", {key: "0"})); await settle(); say("all");
  const svg = document.querySelector("svg"), box = svg.getBoundingClientRect();
  const bar = svg.querySelectorAll("rect.bar")[0].getBoundingClientRect();
  const at = {clientX: bar.left + bar.width / 2, clientY: bar.top + bar.height / 2};
  svg.dispatchEvent(new PointerEvent("pointermove", at));
  document.body.append(`told: ${document.getElementById("told").textContent}\\n`);
  svg.dispatchEvent(new WheelEvent("wheel", {...at, deltaY: -1, cancelable: true})); await settle(); say("wheel");
  svg.dispatchEvent(new PointerEvent("pointerdown", at));
  svg.dispatchEvent(new PointerEvent("pointermove", {...at, clientX: at.clientX - 40}));
  dispatchEvent(new PointerEvent("pointerup")); await settle(); say("drag");
  document.querySelector("details").open = false; await settle();
  document.body.append(`shut: ${document.getElementById("figures").rows.length}\\n`);
})();
</script>"""


def trace_text(rank, start_ns, spans, rows=((0, 0, "reader", "read"), (1, 1, "device 0", "copy"))):
    """A trace as `feed --trace` writes it; spans are (pid, tid, name, begin, duration in us)."""
    other = {"host": f"h{rank}", "rank": rank, "ranks": 2, "start_realtime_ns": start_ns}
    entries = [
        {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
        for pid, tid, process, thread in rows
        for kind, name in (("process_name", process), ("thread_name", thread))
    ]
    entries += [
        {"ph": "X", "name": name, "cat": name.split()[0], "pid": pid, "tid": tid, "ts": begin, "dur": duration}
        for pid, tid, name, begin, duration in spans
    ]
    lines = ",\n".join(map(json.dumps, entries))
    return '{"otherData": ' + json.dumps(other) + ', "traceEvents": [\n' + lines + "\n]}\n"


class TracePageTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "trace.html"

    def trace(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def two_ranks(self):
        start = 1_700_000_000 * 10**9
        spans = [(0, 0, "read 0", 0.0, 100.0), (1, 1, "copy 0", 100.0, 300.0), (1, 1, "copy 1", 300.0, 400.0)]
        many = [(1, 1, f"copy {i}", 0.2 * i, 0.1) for i in range(5000)]
        return [self.trace("0.json", trace_text(0, start, spans)), self.trace("1.json", trace_text(1, start, many))]

    def data(self):
        found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', self.page.read_text(), re.S)
        return json.loads(found[1])

    def drawn(self):
        """What the page and the driver say, by the driver's words."""
        text = self.page.read_text()
        self.page.write_text(text.replace("</body>", DRIVER + "</body>"))
        page = Page(browse(self, f"file://{self.page}", 10))
        return page, dict(re.findall(r"^(\w+): (.*)$", page.text, re.M))

    def test_it_is_one_file_that_takes_nothing_from_outside(self):
        report = run_json("trace", *self.two_ranks(), "--page", self.page)
        self.assertEqual((report["page"], report["out"]), (str(self.page), None))
        text = self.page.read_text()
        self.assertEqual(Page(text).outside, ["data:,"])
        self.assertNotRegex(text, r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(")

    def test_it_has_what_the_merged_trace_has(self):
        out = self.folder / "all.json"
        run_json("trace", *self.two_ranks(), "--page", self.page, "--out", out)
        events = json.loads(out.read_text())["traceEvents"]
        data = self.data()
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        merged = [(names[e["pid"]], rows[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"])
                  for e in events if e["ph"] == "X"]
        self.assertEqual(len(merged), 5003)
        shown = [(data["processes"][data["rows"][row][0]], data["rows"][row][1], name, begin / 1000, duration / 1000)
                 for row, begin, duration, name in data["spans"]]
        self.assertEqual(shown, merged)
        self.assertEqual(data["began_ms"], 1_700_000_000_000)

    def test_a_browser_draws_it_and_zooms_moves_and_tells(self):
        run_json("trace", *self.two_ranks(), "--page", self.page)
        page, said = self.drawn()
        self.assertIn("2 ranks, 4 rows, 5,003 spans from 2023-11-14 22:13:20.000 UTC on", said["whole"])
        whole, part = "Shown: 0.000 ms to 999.9 µs of 999.9 µs", r"Shown: ([\d.]+) µs to ([\d.]+) µs"
        self.assertIn(whole, said["whole"])
        self.assertIn(whole, said["all"])
        begin, end = map(float, re.search(part, said["in"]).groups())
        self.assertAlmostEqual(end - begin, 500, delta=0.3)
        self.assertAlmostEqual(begin, 250, delta=0.3)
        self.assertAlmostEqual(float(re.search(part, said["later"])[1]), begin + 125, delta=0.3)
        # Five thousand spans are drawn as no more bars than there are points.
        self.assertLess(int(said["bars"]), 1500)
        self.assertEqual(said["told"], "rank 0 on h0, reader read: read 0, from 0.000 ms on, 100.0 µs long")
        self.assertRegex(said["wheel"], "to 799.9 µs|to 8[0-9][0-9].")
        self.assertNotEqual(said["drag"], said["wheel"])
        # Readable without colours: rows are named, and every figure stands in the table.
        self.assertEqual(page.titles[-2:], ["rank 0 on h0", "rank 1 on h1"])
        self.assertIn("device 0 copy", page.text)
        self.assertEqual(said["shut"], "3")  # the head, and the other rank's rows

    def test_an_address_names_the_milliseconds_that_are_shown(self):
        run_json("trace", *self.two_ranks(), "--page", self.page)
        for named, shown in (("0.1-0.25", "Shown: 100.0 µs to 250.0 µs of"), ("x", "Shown: 0.000 ms to 999.9 µs of"),
                             ("5-9", "Shown: 0.000 ms to 999.9 µs of")):
            with self.subTest(named):
                self.assertIn(shown, Page(browse(self, f"file://{self.page}#{named}", 2)).text)

    def test_names_are_shown_as_they_are_and_do_nothing(self):
        name = "</script><img src=x onerror=document.body.append('done')>"
        start = 10**18
        path = self.trace("0.json", trace_text(0, start, [(0, 0, name, 0.0, 10.0)], rows=((0, 0, "reader", name),)))
        run_json("trace", path, "--page", self.page)
        self.assertEqual(self.data()["spans"][0][3], name)
        shown = Page(browse(self, f"file://{self.page}", 2))
        self.assertNotIn("img", shown.tags)
        self.assertIn(name, shown.text)

    def test_a_trace_without_spans_is_a_page_too(self):
        run_json("trace", self.trace("0.json", trace_text(0, 10**18, [])), "--page", self.page)
        self.assertEqual(self.data()["spans"], [])
        self.assertIn("1 rank, 2 rows, 0 spans", Page(browse(self, f"file://{self.page}", 2)).text)

    def test_what_feed_writes_is_drawn(self):
        data = self.write("a.tfrecord", [bytes(range(200))] * 300)
        trace = self.folder / "trace.json"
        run_json("feed", data, "--devices", "emu:2", "--step-ms", "1", "--batch", "10", "--trace", trace, "--no-digest")
        run_json("trace", trace, "--page", self.page)
        rows = {name for _, name in self.data()["rows"]}
        for device in "01":
            for what in ("copy", "lease", "step"):
                self.assertIn(f"device {device} {what}", rows)

    def test_what_cannot_be_is_refused_and_nothing_is_written(self):
        path, _ = self.two_ranks()
        before = path.read_text()
        self.assertIn("--page", self.assert_refused(2, "trace", path))
        self.assertIn("is an input", self.assert_refused(2, "trace", path, "--page", path))
        self.assertIn("named for two outputs", self.assert_refused(
            2, "trace", path, "--out", self.page, "--page", self.page.parent / "." / ".." /
            self.page.parent.name / self.page.name))
        self.assertIn("named for two outputs", self.assert_refused(2, "trace", path, "--out", self.page, "--page", self.page))
        self.assertEqual(path.read_text(), before)
        bad = self.trace("bad.json", before[:-20])
        self.assert_refused(1, "trace", bad, "--page", self.page, "--out", self.folder / "all.json")
        names = ["rows"] * 5000
        wide = trace_text(0, 10**18, [], rows=[(0, i, "reader", name) for i, name in enumerate(names)])
        self.assertIn("4,096", self.assert_refused(2, "trace", self.trace("wide.json", wide), "--page", self.page))
        self.assertEqual({p.suffix for p in self.folder.iterdir()}, {".json"})
        self.assertFalse((self.folder / "all.json").exists())


if __name__ == "__main__":
    main()
