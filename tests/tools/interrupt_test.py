#!/usr/bin/env python3
"""Ctrl-C: the first ends a run with the report so far, a second one kills it; terminals get a bar."""

import json
import os
import pty
import select
import signal
import subprocess
import time

from command_line import BINARY, CommandTest, main, run_json


class InterruptTest(CommandTest):
    def setUp(self):
        super().setUp()
        run_json("make", self.folder / "d", "--bytes", "32MiB", "--files", 2)
        self.files = [str(path) for path in sorted((self.folder / "d").iterdir())]

    def start(self, *words, **options):
        return subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, text=True, **options)

    def test_an_endless_feed_ends_with_its_report(self):
        for words in ([], ["--batch", "16"], ["--batch", "16", "--shuffle", "100", "--verify"]):
            for signal_number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest((words, signal_number)):
                    child = self.start("feed", *self.files, "--passes", "0", "--json", *words)
                    time.sleep(1)
                    child.send_signal(signal_number)
                    out, _ = child.communicate(timeout=60)
                    self.assertEqual(child.returncode, 0)
                    report = json.loads(out)
                    self.assertIs(report["interrupted"], True)
                    self.assertGreater(report["records"], 0)
                    self.assertNotIn("error", report)

    def test_a_feed_that_waits_for_a_pipe_ends_too(self):
        child = self.start("feed", "-", "--format", "tfrecord", "--json", stdin=subprocess.PIPE)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertEqual(json.loads(child.stdout.read())["records"], 0)
        child.stdout.close()
        child.stdin.close()

    def test_an_unfinished_digest_is_no_success(self):
        child = self.start("digest", "-", "--format", "tfrecord", stdin=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        # Its input stays open until it has ended: the end of the data would be a success.
        child.wait(timeout=60)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)

    def test_making_leaves_no_half_written_file(self):
        folder = self.folder / "made"
        child = self.start("make", str(folder), "--bytes", "100GiB", "--files", "2", stderr=subprocess.PIPE)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)
        self.assertEqual(list(folder.iterdir()), [])

    def test_a_bar_is_drawn_on_a_terminal(self):
        ours, theirs = pty.openpty()
        child = self.start("feed", *self.files, "--passes", "0", "--batch", "16", stderr=theirs,
                           env=dict(os.environ, TERM="xterm"))
        os.close(theirs)
        drawn = b""
        deadline = time.monotonic() + 60
        while b"GB/s" not in drawn and b"MB/s" not in drawn and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                drawn += os.read(ours, 4096)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        os.close(ours)
        self.assertIn(b"feeding", drawn)
        self.assertEqual(child.returncode, 0)


if __name__ == "__main__":
    main()
