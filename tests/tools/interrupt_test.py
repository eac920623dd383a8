#!/usr/bin/env python3
"""Ctrl-C: the first ends a run with the report so far, a second one kills it; terminals get a bar."""

import gzip
import json
import os
import pty
import signal
import subprocess
import time

from command_line import (
    BINARY, CommandTest, await_drawn, await_interrupt, await_that, frame, main, run, run_json, unread)


class InterruptTest(CommandTest):
    def setUp(self):
        super().setUp()
        run_json("make", self.folder / "d", "--bytes", "32MiB", "--files", 2)
        self.files = [str(path) for path in sorted((self.folder / "d").iterdir())]

    def start(self, *words, **options):
        return subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, text=True, **options)

    def start_on_terminal(self, *words):
        """The command, and the other end of the terminal that it draws its bar on."""
        ours, theirs = pty.openpty()
        child = self.start(*words, stderr=theirs, env=dict(os.environ, TERM="xterm"))
        os.close(theirs)
        self.addCleanup(os.close, ours)
        return child, ours

    def start_on_half_a_record(self, *words, **options):
        """The command once it waits for the rest of a record on its stdin, which stays open."""
        child = self.start(*words, "-", "--format", "tfrecord", stdin=subprocess.PIPE, **options)
        child.stdin.buffer.write(frame(b"half of it")[:16])
        child.stdin.flush()
        await_interrupt(child)
        await_that(lambda: unread(child.stdin) == 0, "reading what there is", child)
        return child

    def test_an_endless_feed_ends_with_its_report(self):
        for words in ([], ["--batch", "16"], ["--batch", "16", "--shuffle", "100", "--verify"]):
            for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with self.subTest((words, signal_number)):
                    child, terminal = self.start_on_terminal(
                        "feed", *self.files, "--passes", "0", "--json", *words)
                    await_drawn(terminal, child, rb"[GM]B/s")  # records came
                    child.send_signal(signal_number)
                    out, _ = child.communicate(timeout=60)
                    ended_by = 0 if signal_number == signal.SIGINT else 128 + signal_number
                    self.assertEqual(child.returncode, ended_by)
                    report = json.loads(out)
                    self.assertIs(report["interrupted"], True)
                    self.assertGreater(report["records"], 0)
                    self.assertNotIn("error", report)

    def test_a_feed_that_waits_for_a_pipe_ends_too(self):
        child = self.start_on_half_a_record("feed", "--json")
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertEqual(json.loads(child.stdout.read())["records"], 0)
        child.stdout.close()
        child.stdin.close()

    def test_an_ignored_signal_stays_ignored(self):
        # As a shell's job in the background ignores Ctrl-C, and what nohup starts SIGHUP.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                child = self.start(
                    "cat", "-", "--format", "lines", stdin=subprocess.PIPE,
                    preexec_fn=lambda ignored=number: signal.signal(ignored, signal.SIG_IGN))
                child.stdin.write("one\n")
                child.stdin.flush()
                await_interrupt(child, but=number)
                await_that(lambda: unread(child.stdin) == 0, "reading the line", child)
                child.send_signal(number)
                time.sleep(0.2)
                out, _ = child.communicate("two\n", timeout=60)
                self.assertEqual((child.returncode, out), (0, "one\ntwo\n"))

    def test_an_order_of_which_only_the_beginning_was_read_says_so(self):
        self.assertIs(run_json("shuffle-quality", *self.files)["interrupted"], False)
        child = self.start_on_half_a_record("shuffle-quality", "--json", stderr=subprocess.PIPE)
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        self.assertIs(json.loads(child.stdout.read())["interrupted"], True)
        self.assertIn("interrupted", child.stderr.read())
        child.communicate()

    def test_an_order_without_what_was_skipped_says_so(self):
        path = self.write("a.tfrecord", [bytes([i]) * 9 for i in range(10)])
        data = bytearray(path.read_bytes())
        data[25 * 4 + 15] ^= 4
        path.write_bytes(data)
        result = run("shuffle-quality", path, "--on-damage=skip", "--json")
        self.assertEqual(result.returncode, 1)
        report = json.loads(result.stdout)
        self.assertEqual((report["records"], report["damaged_records"]), (9, 1))
        self.assertEqual(report["damaged"][0]["begin"], 100)
        self.assertIn("skipped bytes 100 to 125", result.stderr)

    def test_an_unfinished_digest_is_no_success(self):
        child = self.start_on_half_a_record("digest", stderr=subprocess.PIPE)
        child.send_signal(signal.SIGINT)
        # Its input stays open until it has ended: the end of the data would be a success.
        child.wait(timeout=60)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)

    def test_a_small_file_of_much_content_ends_at_once(self):
        path = self.folder / "much.txt.gz"
        member = gzip.compress(b"line\n" * (1 << 20))
        path.write_bytes(member * ((3 << 20) // len(member)))
        child = self.start("verify", str(path), stderr=subprocess.PIPE)
        await_interrupt(child)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)
        self.assertIn("interrupted", told)

    def test_making_leaves_no_half_written_file(self):
        folder = self.folder / "made"
        child = self.start("make", str(folder), "--bytes", "100GiB", "--files", "2", stderr=subprocess.PIPE)
        await_interrupt(child)
        await_that(lambda: folder.is_dir() and any(folder.iterdir()), "a file", child)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)
        self.assertEqual(list(folder.iterdir()), [])

    def test_a_bar_is_drawn_on_a_terminal(self):
        child, terminal = self.start_on_terminal("feed", *self.files, "--passes", "0", "--batch", "16")
        await_drawn(terminal, child, rb"feeding", rb"[GM]B/s")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0)


if __name__ == "__main__":
    main()
