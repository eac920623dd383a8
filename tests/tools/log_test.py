#!/usr/bin/env python3
"""Set-backs that cost time are told on stderr, once each, as RINGFEED_LOG says."""

import os

from command_line import CommandTest, forbid_io_uring, main, run, run_json


class LogTest(CommandTest):
    def told(self, *words, log="warn", before=None, **variables):
        """What a command that ends well says on stderr."""
        kept = dict(os.environ)
        os.environ.update(variables, RINGFEED_LOG=log)
        try:
            result = run(*words, before=before)
        finally:
            os.environ.clear()
            os.environ.update(kept)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [line for line in result.stderr.splitlines() if "4 KiB" not in line]  # this machine's memory

    def test_an_index_in_memory_alone_is_told_once_for_all_files(self):
        files = [self.write(f"{name}.tfrecord", [b"one", b"two"]) for name in "abc"]
        feed = ["feed", *files, "--shuffle", "global"]
        (line,) = self.told(*feed, RINGFEED_INDEX_FOLDER="/proc/none")
        self.assertRegex(line, r"^ringfeed: the index of \S+\.tfrecord, perhaps of others, is in memory alone")
        self.assertIn("RINGFEED_INDEX_FOLDER", line)
        self.assertEqual(self.told(*feed, log="off", RINGFEED_INDEX_FOLDER="/proc/none"), [])
        self.assertEqual(self.told(*feed), [])

    def test_info_says_where_each_index_was_put(self):
        files = [self.write(f"{name}.tfrecord", [b"one"] * (2000 if name in "ab" else 2)) for name in "abcdef"]
        folder = self.folder / "indexes"
        folder.mkdir()
        lines = self.told("feed", *files, "--shuffle", "global", log="info", RINGFEED_INDEX_FOLDER=str(folder))
        self.assertEqual(len(lines), 3)  # that of the small files together
        self.assertTrue(all(str(folder) in line for line in lines), lines)

    def test_io_uring_refused_is_told_if_files_are_cold(self):
        path = self.write("a.tfrecord", [bytes(1 << 20)] * 64)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if run_json("info", path)["resident"]:
            self.skipTest("the file stays in memory")
        lines = self.told("feed", path, before=forbid_io_uring)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("io_uring", lines[0])


if __name__ == "__main__":
    main()
