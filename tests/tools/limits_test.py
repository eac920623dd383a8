#!/usr/bin/env python3
"""A command that gets too little memory or too few threads says so: exit status 1 or 2, and words."""

import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

from command_line import BINARY, CommandTest, main

MIB = 1 << 20
ARENA = {**os.environ, "RINGFEED_ARENA_BYTES": "24M"}


def run_within(binary, words, before, environment=None):
    return subprocess.run([binary, *map(str, words)], capture_output=True, timeout=120, check=False,
                          text=True, preexec_fn=before, env=environment)


class LimitsTest(CommandTest):
    def check(self, result, limit):
        if "Fatal glibc error" in result.stderr:
            return  # without memory for a thread's own data the C library itself says so, and aborts
        self.assertIn(result.returncode, (0, 1, 2), f"{limit}: {result.stderr}")
        self.assertNotIn("terminate called", result.stderr, limit)
        if result.returncode != 0:
            self.assertRegex(result.stderr, "^ringfeed: .+", limit)

    def test_without_address_space_it_says_so(self):
        for number in range(200):
            self.write(f"{number}.tfrecord", [bytes([number])] * 3)

        def limited(mebibytes):
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (mebibytes * MIB, mebibytes * MIB))
            return limit

        # Below that the libraries find no room, and the command does not begin.
        least = next(mebibytes for mebibytes in range(16, 1024, 8)
                     if run_within(BINARY, ["--version"], limited(mebibytes)).returncode == 0)
        files = sorted(self.folder.glob("*.tfrecord"))
        for words in (["feed", *files, "--batch", "16", "--shuffle-mode", "global", "--threads", "2"],
                      ["feed", *files, "--batch", "16", "--devices", "emu:2", "--threads", "2"],
                      ["verify", *files]):
            for mebibytes in range(least, least + 160, 8):
                self.check(run_within(BINARY, words, limited(mebibytes), ARENA),
                           f"{words[0]} within {mebibytes} MiB")

    def test_without_a_thread_it_says_so(self):
        if os.geteuid() != 0:
            self.skipTest("only root can take the identity of a user who has no other threads")
        with tempfile.TemporaryDirectory() as folder:
            binary = pathlib.Path(folder) / "ringfeed"
            shutil.copy(BINARY, binary)
            path = pathlib.Path(folder) / "a.tfrecord"
            shutil.copy(self.write("a.tfrecord", [b"record"] * 300), path)
            os.chmod(folder, 0o755)
            os.chmod(path, 0o644)
            user = 65_000 + os.getpid() % 400

            def limited(threads):
                def limit():
                    resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
                    os.setgroups([])
                    os.setresuid(user, user, user)
                return limit

            for words in (["feed", path, "--batch", "16", "--threads", "3"],
                          ["feed", path, "--batch", "16", "--threads", "3", "--devices", "emu:2"],
                          ["verify", path, path, path], ["digest", path, path]):
                for threads in range(1, 22):
                    self.check(run_within(binary, words, limited(threads), ARENA),
                               f"{words[0]} with {threads} threads")

    def test_few_records_take_little_memory_in_a_large_batch(self):
        path = self.folder / "a.jsonl"
        path.write_text('{"a":"%s"}\n{}\n{}\n' % ("x" * 1_000_000))
        for order in (["--seed", "3", "--shuffle-mode", "global"], []):
            words = [BINARY, "feed", path, "--json", "--no-digest", "--batch", "5000", *order]
            with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0, order)
            self.assertLess(usage.ru_maxrss, 300 * 1024, order)


if __name__ == "__main__":
    main()
