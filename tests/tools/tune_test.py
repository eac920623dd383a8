#!/usr/bin/env python3
"""`ringfeed tune`: what it writes, who takes it, and who refuses it."""

import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import tempfile

from browser import Page, browse, print_page
from command_line import BINARY, CommandTest, await_drawn, await_that, main, run, run_json

CHAIN = ["--parse", "example: image=u1[] label=i8[1]", "--batch", "16", "--shuffle", "100"]


class ClosedPage(Page):
    """A page whose tags are closed in order."""

    VOID = {"meta", "line", "circle", "rect"}

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        if tag in self.VOID:
            self.inside.pop()

    def handle_endtag(self, tag):
        if tag in self.VOID:  # as a browser writes it
            return
        if self.inside.pop() != tag:
            raise AssertionError(f"</{tag}> closes another one")

    @property
    def drawings(self):
        return self.tags.count("svg")


def await_run(process):
    """Until `process` has a child: tune measures each run in a process of its own."""
    def has_child():
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = stat.read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue  # it ended meanwhile
            if int(parent) == process.pid:
                return True
        return False

    await_that(has_child, "a run", process)


class TuneTest(CommandTest):
    """One run serves most tests: a search takes seconds."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = tempfile.TemporaryDirectory(prefix="ringfeed-tune-")
        cls.addClassCleanup(cls.shared.cleanup)
        folder = pathlib.Path(cls.shared.name)
        run_json("make", folder / "d", "--bytes", "4MiB", "--files", 2)
        cls.files = sorted((folder / "d").iterdir())
        cls.page = folder / "tune.html"
        cls.tuned = folder / "tuned.json"
        cls.report = cls.tune(*CHAIN, "--cache", "warm", "--report", cls.page, "--out", cls.tuned)

    def setUp(self):
        super().setUp()
        self.out = self.folder / "tuned.json"

    @classmethod
    def tune(cls, *words, seconds=20):
        return run_json("tune", *cls.files, "--seconds", seconds, "--pairs", 3, *words)

    def changed(self, **changes):
        """The tuning with some of it changed, in a file of its own."""
        self.out.write_text(json.dumps({**json.loads(self.tuned.read_text()), **changes}))
        return self.out

    def test_what_it_writes_is_what_feed_takes(self):
        report = self.report
        self.assertEqual(report["format"], "tfrecord")
        self.assertEqual(report["cache"], "warm")
        self.assertGreater(report["before"]["gb_per_s"], 0)
        tried = {value["option"] for value in report["values"]}
        self.assertLessEqual({"io", "threads", "block-bytes", "slots"}, tried)
        for value in report["values"]:
            self.assertTrue("error" in value or value["ratio"]["median"] > 0, value)
        self.assertEqual({limit["name"] for limit in report["limits"]} - {"read"},
                         {"checksum", "copy"})
        tuning = json.loads(self.tuned.read_text())
        self.assertEqual(tuning["machine"], report["machine"])
        self.assertEqual((tuning["cache"], tuning["devices"], tuning["device_count"]), ("warm", "", 0))
        plain = run_json("feed", *self.files, *CHAIN)
        tuned = run_json("feed", *self.files, *CHAIN, "--tuned", self.tuned)
        by_hand = run_json("feed", *self.files, *CHAIN, *shlex.split(report["options"]))
        for fed in (tuned, by_hand):
            self.assertEqual(fed["order_digest"], plain["order_digest"])

    def test_what_is_given_beside_a_tuning_wins(self):
        tuned = self.changed(io="mmap", threads=2)
        for words in (["--tuned", tuned, "--io", "pread"], ["--io", "pread", "--tuned", tuned]):
            fed = run_json("feed", *self.files, *CHAIN, *words)
            self.assertEqual({file["path"] for file in fed["io"]}, {"pread"})
        fed = run_json("feed", *self.files, *CHAIN, "--tuned", tuned)
        self.assertEqual({file["path"] for file in fed["io"]}, {"mmap"})

    def test_another_machine_and_another_format_are_refused(self):
        lines = self.folder / "a.txt"
        lines.write_text("one\ntwo\n")
        self.assertIn("tfrecord", self.assert_refused(2, "feed", lines, "--tuned", self.tuned))
        other = self.changed(machine="Z80, 1 CPU")
        self.assertIn("Z80", self.assert_refused(2, "feed", *self.files, "--tuned", other))
        other.write_text("{}")
        self.assert_refused(2, "feed", *self.files, "--tuned", other)
        self.assert_refused(2, "feed", *self.files, "--tuned", self.folder / "not_there")

    def test_devices_are_tuned_for(self):
        report = self.tune(*CHAIN, "--devices", "emu:1", "--out", self.out)
        self.assertTrue(report["emulated"])
        self.assertIn("device-slots", {value["option"] for value in report["values"]})
        tuning = json.loads(self.out.read_text())
        self.assertGreaterEqual(tuning["device_slots"], 2)
        self.assertEqual((tuning["devices"], tuning["device_count"]), ("emu", 1))
        self.assertEqual((report["devices"], report["device_count"]), ("emu", 1))
        link = [limit for limit in report["limits"] if limit["name"] == "link"]
        self.assertEqual(len(link), 1)
        self.assertGreater(link[0]["gb_per_s"], 0)
        self.assertNotIn("error", link[0])
        fed = run_json("feed", *self.files, *CHAIN, "--devices", "emu:1", "--tuned", self.out)
        self.assertGreater(fed["records"], 0)

    def test_devices_of_another_kind_are_refused(self):
        tuned = self.changed(devices="cuda: NVIDIA H200", device_count=1, device_slots=4)
        why = self.assert_refused(2, "feed", *self.files, *CHAIN, "--devices", "emu:1", "--tuned", tuned)
        for words in ("NVIDIA H200", "device 0 is emu", "ringfeed tune"):
            self.assertIn(words, why)
        self.assertGreater(run_json("feed", *self.files, *CHAIN, "--tuned", tuned)["records"], 0)

    def test_cold_files_and_the_report_as_text(self):
        result = run("tune", *self.files, *CHAIN, "--seconds", 10, "--pairs", 3, "--out", self.out,
                     "--cache", "cold")
        if "stays in memory" in result.stderr:
            self.skipTest("files cannot be dropped from the page cache here")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in (", cold, on ", "of the defaults", "direct", f"--tuned {self.out}"):
            self.assertIn(words, result.stdout)

    def test_page(self):
        text = self.page.read_text()
        page = ClosedPage(text)
        self.assertEqual(page.inside, [])
        self.assertEqual(page.outside, [])
        self.assertNotRegex(text, r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(")
        data = re.search(r'<script id="report" type="application/json">(.*?)</script>', text)[1]
        data = json.loads(data)
        found = {key: value for key, value in self.report.items() if key not in ("version", "command")}
        self.assertEqual({key: data[key] for key in found}, found)
        self.assertIn("--shuffle 100", data["command"])

    def test_a_browser_shows_all_of_the_page(self):
        shown = ClosedPage(browse(self, self.page.as_uri(), 1))
        self.assertEqual(shown.inside, [])
        # How many options there was time for depends on the machine: each of these has its drawing.
        drawn = {f"--{value['option']}" for value in self.report["values"] if value["ratios"]}
        self.assertEqual(shown.drawings, 2 + len(drawn))
        failed = {value["error"] for value in self.report["values"] if "error" in value}
        limits = {limit["what"] for limit in self.report["limits"]}
        for words in {*drawn, *failed, *limits, *self.report["findings"], "GB/s", "of the defaults",
                      "time in each stage", "--tuned", "--shuffle 100"}:
            self.assertIn(words, shown.text)
        for stage in self.report["after"]["stages"]:
            self.assertIn(f"{stage['name']}{stage['busy_s']:.2f} s", shown.text)

    def test_a_browser_prints_the_page(self):
        self.assertTrue(print_page(self, self.page.as_uri()).startswith(b"%PDF-"))

    def test_interrupt_gives_the_best_so_far(self):
        command = [BINARY, "tune", *self.files, *CHAIN, "--seconds", "600", "--cache", "warm",
                   "--json", "--out", self.out]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            await_run(process)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        report = json.loads(output)
        self.assertTrue(report["interrupted"])
        self.assertIn("stopped", report["verdict"])
        json.loads(self.out.read_text())

    def test_interrupt_ends_the_run_that_is_measured(self):
        # Its runs take seconds each, as the files take their time.
        slow = self.folder / "slow"
        run_json("make", slow, "--bytes", "64MiB", "--files", 2)
        command = [BINARY, "tune", *sorted(slow.iterdir()), *CHAIN, "--seconds", "80000", "--pairs", "1000",
                   "--cache", "warm", "--json", "--out", self.out]
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                await_run(process)
                process.send_signal(number)
                output, _ = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0 if number == signal.SIGINT else 128 + number)
                report = json.loads(output)
                # Not one run was done, and no time went into what comes after the runs.
                self.assertTrue(report["interrupted"])
                self.assertEqual((report["values"], report["limits"]), ([], []))

    def test_what_there_is_no_time_for_is_left_untried(self):
        report = self.tune(*CHAIN, "--cache", "warm", "--out", self.out, seconds=3)
        self.assertIs(report["interrupted"], False)
        tried = {value["option"] for value in report["values"]}
        self.assertLessEqual({"io", "threads", "block-bytes", "slots"}, tried)
        json.loads(self.out.read_text())

    def test_the_bar_on_a_terminal_says_how_long_it_takes(self):
        ours, theirs = pty.openpty()
        command = [BINARY, "tune", *self.files, *CHAIN, "--seconds", "60", "--cache", "warm", "--out", self.out]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs,
                              env=dict(os.environ, TERM="xterm")) as process:
            os.close(theirs)
            drawn = await_drawn(ours, process, rb"tuning \[[#.]+\] \d+ %  about \d+ (s|min) left")
            process.send_signal(signal.SIGINT)
            process.wait(timeout=120)
        os.close(ours)
        self.assertNotIn(b"B/s", drawn)

    def test_options_that_it_chooses_are_told_as_such(self):
        for option in ("--threads", "--io", "--slots", "--block-bytes", "--transfer", "--device-slots"):
            said = self.assert_refused(2, "tune", *self.files, option, "3")
            self.assertIn(f"there is no option {option}: tune finds the best value for it", said)
        said = self.assert_refused(2, "tune", *self.files, "--passes", "3")
        self.assertIn("feed takes it", said)

    def test_what_cannot_be_tuned_is_refused(self):
        data = bytearray(self.files[0].read_bytes())
        data[20] ^= 1
        damaged = self.folder / "damaged.tfrecord"
        damaged.write_bytes(data)
        self.assert_refused(1, "tune", damaged, "--seconds", 1, "--out", self.out)
        self.assert_refused(2, "tune", "-", "--out", self.out)
        self.assert_refused(2, "tune", self.folder / "not_there", "--out", self.out)
        self.assert_refused(2, "tune", *self.files, "--out", self.folder / "no" / "folder")
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    main()
