#!/usr/bin/env python3
"""Traces of several ranks, merged into one."""

import json
import random

from command_line import CommandTest, main, run, run_json


def trace_text(rank, start_ns, spans, host="h", names=((0, 0, "read"), (1, 1, "copy"))):
    """A trace as `feed --trace` writes it; spans are (pid, tid, name, begin, duration in us)."""
    other = json.dumps({"host": f"{host}{rank}", "rank": rank, "ranks": 4, "start_realtime_ns": start_ns})
    entries = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": process}}
        for pid, process in ((0, "reader"), (1, "device 0"))
    ]
    entries += [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        for pid, tid, name in names
    ]
    entries += [
        {"ph": "X", "name": name, "cat": name.split()[0], "pid": pid, "tid": tid, "ts": begin, "dur": duration}
        for pid, tid, name, begin, duration in spans
    ]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return '{"displayTimeUnit": "ms", "otherData": ' + other + ', "traceEvents": [\n' + lines + "\n]}\n"


class TraceTest(CommandTest):
    def trace(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def merge(self, *files):
        """The report, and the events of what was merged."""
        out = self.folder / "all.json"
        report = run_json("trace", *files, "--out", out)
        merged = json.loads(out.read_text())
        self.assertEqual(set(merged), {"displayTimeUnit", "traceEvents"})
        self.check_format(merged["traceEvents"])
        return report, merged["traceEvents"]

    def check_format(self, events):
        """What the trace event format asks for, and the order of time."""
        begins = []
        for event in events:
            self.assertIn(event["ph"], ("M", "X"))
            for key in ("pid", "tid"):
                self.assertIsInstance(event[key], int)
            self.assertIsInstance(event["name"], str)
            if event["ph"] == "X":
                self.assertIsInstance(event["cat"], str)
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
                begins.append(event["ts"])
            else:
                self.assertIn(event["name"], ("process_name", "process_sort_index", "thread_name"))
                self.assertEqual(begins, [], "names stand before spans")
        self.assertEqual(begins, sorted(begins))

    def test_clocks_are_aligned_and_each_rank_is_a_process(self):
        second = 1_000_000_000
        one = self.trace("b.json", trace_text(1, 7 * second + 500, [
            (0, 0, "read 0", 0.0, 2.5), (1, 1, "copy 0", 3.25, 1.0)]))
        none = self.trace("a.json", trace_text(0, 7 * second, [
            (0, 0, "read 0", 0.0, 1.0), (1, 1, "copy 0", 1.0, 0.5), (1, 1, "copy 1", 9.0, 0.5)]))
        report, events = self.merge(one, none)
        self.assertEqual([(t["rank"], t["events"], t["began_after_s"]) for t in report["traces"]],
                         [(0, 3, 0), (1, 2, 5e-7)])
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(names, {1: "rank 0 on h0", 2: "rank 1 on h1"})
        rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        spans = [(names[e["pid"]], rows[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"])
                 for e in events if e["ph"] == "X"]
        self.assertEqual(spans, [
            ("rank 0 on h0", "reader read", "read 0", 0.0, 1.0),
            ("rank 1 on h1", "reader read", "read 0", 0.5, 2.5),
            ("rank 0 on h0", "device 0 copy", "copy 0", 1.0, 0.5),
            ("rank 1 on h1", "device 0 copy", "copy 0", 3.75, 1.0),
            ("rank 0 on h0", "device 0 copy", "copy 1", 9.0, 0.5)])

    def test_a_trace_without_spans_moves_no_other_one(self):
        second = 1_000_000_000
        empty = self.trace("empty.json", trace_text(0, 7 * second, []))  # who knows when it was
        one = self.trace("one.json", trace_text(1, 9000 * second, [(0, 0, "read 0", 0.0, 2.5)]))
        report, events = self.merge(empty, one)
        self.assertEqual([(t["events"], t["began_after_s"]) for t in report["traces"]], [(0, None), (1, 0)])
        self.assertEqual([event["ts"] for event in events if event["ph"] == "X"], [0])
        self.assertIn("-", run("trace", empty, one, "--out", self.folder / "all.json").stdout)

    def test_rows_of_two_processes_stay_apart(self):
        most = 999_999
        path = self.trace("a.json", trace_text(0, 10**18, [(0, most, "read 0", 1.0, 1.0), (1, 0, "copy 0", 2.0, 1.0)],
                                               names=((0, most, "read"), (1, 0, "copy"))))
        _, events = self.merge(path)
        self.assertEqual(len({(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}), 2)
        path = self.trace("a.json", trace_text(0, 10**18, [(0, most + 1, "read 0", 1.0, 1.0)]))
        self.assertIn("no span", self.assert_refused(1, "trace", path, "--out", self.folder / "all.json"))

    def test_names_come_out_as_they_went_in(self):
        name = "</script>\"\\ \u00e4\n"
        path = self.trace("a.json", trace_text(0, 10**18, [(0, 0, name, 1.0, 1.0)], names=((0, 0, name),)))
        _, events = self.merge(path)
        self.assertEqual([event["name"] for event in events if event["ph"] == "X"], [name])
        rows = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
        self.assertEqual(rows, [f"reader {name}"])

    def test_many_long_traces_stay_in_the_order_of_time(self):
        source = random.Random(3)
        files, total = [], 0
        for rank in range(5):
            begins = sorted(source.randrange(10**9) / 1000 for _ in range(source.randrange(400)))
            total += len(begins)
            spans = [(1, 1, f"copy {i}", begin, source.randrange(1000) / 1000) for i, begin in enumerate(begins)]
            files.append(self.trace(f"{rank}.json", trace_text(rank % 4, 10**18 + source.randrange(10**8), spans)))
        _, events = self.merge(*files)
        self.assertEqual(sum(event["ph"] == "X" for event in events), total)
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        self.assertEqual(len(set(names)), 5)  # two of them are of rank 0

    def test_what_feed_writes_can_be_merged(self):
        data = self.write("a.tfrecord", [bytes(range(200))] * 300)
        files = []
        for rank in range(2):
            files.append(self.folder / f"rank-{rank}.json")
            run_json("feed", data, "--devices", "emu:1", "--batch", "10", "--rank", rank, "--ranks", "2",
                     "--trace", files[-1], "--no-digest")
        report, events = self.merge(*files)
        written = [json.loads(file.read_text()) for file in files]
        self.assertEqual([t["rank"] for t in report["traces"]], [0, 1])
        starts = [trace["otherData"]["start_realtime_ns"] for trace in written]
        self.assertAlmostEqual(report["traces"][1]["began_after_s"], (starts[1] - starts[0]) / 1e9, places=6)
        self.assertGreater(starts[1], starts[0])
        count = sum(event["ph"] == "X" for trace in written for event in trace["traceEvents"])
        self.assertEqual(sum(event["ph"] == "X" for event in events), count)

    def test_damaged_files_are_told_and_nothing_is_written(self):
        good = trace_text(0, 10**18, [(1, 1, "copy 0", 1.0, 1.0), (1, 1, "copy 1", 2.0, 1.0)])
        lines = good.splitlines(keepends=True)
        damaged = {
            "": "cut off",
            good[: len(good) // 2]: "line",
            "".join(lines[:-1]): "cut off",
            good + "x": "behind the end",
            good.replace('"ts": 1.0', '"ts": 3.0'): "began before",
            good.replace('"ts": 1.0', '"ts": -1.0'): "no span",
            good.replace('"ts": 1.0', '"ts": 1e300'): "no span",
            good.replace('"ts": 1.0', '"ts": "1"'): "no span",
            good.replace('"copy 0"', '"' + "c" * 5000 + '"'): "longer",
            good.replace('"copy 0"', '"' + "c" * 300 + '"'): "no span",
            good.replace('"ph": "X"', '"ph": "B"', 1): "no span",
            good.replace('"rank": 0', '"rank": 9'): "whose it is",
            good.replace('"h0"', r'"h\u001b[1m"'): "whose it is",
            good.replace('"start_realtime_ns": 1', '"start_realtime_ns": -1'): "whose it is",
            good.replace('"otherData"', '"others"'): "whose it is",
            '{"traceEvents": []}\n': "whose it is",
            good.replace("\n]}", ",\n]}"): "comma",
            good.replace('"copy 0"', '"copy \0"'): "line",
        }
        whole = self.trace("whole.json", good)
        out = self.folder / "all.json"
        for text, what in damaged.items():
            with self.subTest(what=what, text=text[-80:]):
                bad = self.trace("bad.json", text)
                message = self.assert_refused(1, "trace", whole, bad, "--out", out)
                self.assertIn(str(bad), message)
                self.assertIn(what, message)
                self.assertEqual({p.name for p in self.folder.iterdir()}, {"whole.json", "bad.json"})

    def test_what_cannot_be_is_refused(self):
        path = self.trace("a.json", trace_text(0, 10**18, []))
        missing = self.folder / "missing.json"
        self.assertIn(str(missing), self.assert_refused(2, "trace", path, missing, "--out", self.folder / "o"))
        message = self.assert_refused(2, "trace", path, "--out", path)
        self.assertIn("is an input", message)
        self.assertEqual(path.read_text(), trace_text(0, 10**18, []))
        self.assert_refused(2, "trace", path, "--out", self.folder / "missing" / "all.json")
        self.assertIn("--out", self.assert_refused(2, "trace", path))
        page = self.folder / "trace.html"
        self.assertIn("https://ui.perfetto.dev", self.assert_refused(2, "trace", path, "--page", page))
        self.assertFalse(page.exists())

    def test_a_trace_without_spans_is_a_process_without_any(self):
        path = self.trace("a.json", trace_text(3, 10**18, []))
        report, events = self.merge(path)
        self.assertEqual(report["traces"][0]["events"], 0)
        self.assertEqual(events[0]["args"]["name"], "rank 3 on h3")


if __name__ == "__main__":
    main()
