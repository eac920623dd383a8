#!/usr/bin/env python3
"""Signals are a matter of the command's first thread: all others block what is not a fault of their own."""

import base64
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from command_line import BINARY, CommandTest, main, run, run_json

OF_THE_PROCESS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1, signal.SIGCHLD)
FAULTS = (signal.SIGBUS, signal.SIGSEGV)


def masks_of_others(process):
    """The signals that each thread but the first has blocked, by its name and number."""
    masks = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").glob("[0-9]*"):
        if task.name == str(process.pid):
            continue
        try:
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue  # it has ended
        if fields.get("Threads", "0") == "0":  # it has just ended: the kernel shows it with an empty mask
            continue
        if "SigBlk" in fields and not fields["Name"].startswith("iou-"):  # a worker of the kernel's own
            masks[fields["Name"], task.name] = int(fields["SigBlk"], 16)
    return masks


def has(mask, number):
    return mask >> (number - 1) & 1


class SignalsTest(CommandTest):
    def setUp(self):
        super().setUp()
        run_json("make", self.folder / "d", "--bytes", "16MiB", "--files", 3)
        self.files = [str(path) for path in sorted((self.folder / "d").iterdir())]

    def check(self, *words, feed=None):
        """Looks at the threads of a command; some end before they can be looked at. What it makes goes into a
        new folder, FOLDER."""
        for attempt in range(20):
            folder = self.folder / f"made-{attempt}"
            folder.mkdir()
            seen, bad, errors = self.look(*(str(word).replace("FOLDER", str(folder)) for word in words), feed=feed)
            self.assertEqual(bad, set())
            shutil.rmtree(folder)
            if seen > 0:
                return
        self.fail(f"no thread was seen: {errors}")

    @staticmethod
    def look(*words, seconds=20.0, enough=200, feed=None):
        """(how many threads were seen, what they take, messages) of a command that ends, or is looked at often
        enough."""
        process = subprocess.Popen([BINARY, *words], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        seen, bad, end = 0, set(), time.monotonic() + seconds
        try:
            if feed is not None:
                process.stdin.write(feed)
                process.stdin.flush()
            while process.poll() is None and seen < enough and time.monotonic() < end:
                for name, mask in masks_of_others(process).items():
                    seen += 1
                    bad.update((name[0], number.name) for number in OF_THE_PROCESS if not has(mask, number))
        finally:
            process.kill()
            _, errors = process.communicate()
        return seen, bad, errors

    def test_of_a_feed(self):
        for words in (["--threads", "3"], ["--threads", "2", "--batch", "16", "--shuffle", "100"],
                      ["--io", "pread", "--threads", "2", "--batch", "16", "--shuffle-mode", "global"]):
            with self.subTest(words):
                self.check("feed", *self.files, "--passes", "0", *words)

    def test_of_a_feed_to_devices(self):
        self.check("feed", *self.files, "--passes", "0", "--batch", "16", "--devices", "emu:2")

    def test_of_jobs_by_file(self):
        self.check("verify", *self.files * 40)
        # An index is made fast: of each file it is asked for by many names, so that there is time to look.
        names = {self.folder / f"{number}-{pathlib.Path(path).name}": path
                 for number in range(100) for path in self.files}
        for name, path in names.items():
            os.link(path, name)
        self.check("index", *names, "--folder", "FOLDER")
        self.check("convert", *self.files, "FOLDER/", "--to", "recordio")

    def test_of_data_that_are_made(self):
        self.check("make", "FOLDER/m", "--bytes", "20GiB", "--files", 4)

    def test_of_an_encoder(self):
        lines = b"".join(base64.b64encode(random.randbytes(40)) + b"\n" for _ in range(2000))
        self.check("encode", "FOLDER/e.recordio", feed=lines)

    def test_of_an_audit(self):
        journal = self.folder / "j"
        fed = run("feed", *self.files, "--passes", "3", "--batch", "2", "--journal", journal)
        self.assertEqual(fed.returncode, 0, fed.stderr)
        self.check("audit", journal, "--files", *self.files)

    def test_their_own_faults_reach_them(self):
        process = subprocess.Popen([BINARY, "feed", *self.files, "--passes", "0", "--threads", "3"], stdout=subprocess.DEVNULL)
        try:
            # A thread that is being made has all of them blocked for a moment, by the C library, and one that
            # ThreadSanitizer brings along has for ever.
            end = time.monotonic() + 20
            free = 0
            while time.monotonic() < end and free < 2:
                masks = masks_of_others(process).values()
                free = sum(not any(has(mask, fault) for fault in FAULTS) for mask in masks)
            self.assertGreaterEqual(free, 2)
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
