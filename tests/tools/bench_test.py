#!/usr/bin/env python3
"""`ringfeed bench`: every path, number of threads and cache state."""

import shlex

from command_line import CommandTest, main, run, run_json


class BenchTest(CommandTest):
    def setUp(self):
        super().setUp()
        run_json("make", self.folder / "d", "--bytes", "4MiB", "--files", 2)
        self.files = sorted((self.folder / "d").iterdir())

    def test_rows_have_options_that_feed_takes(self):
        words = ["--parse", "example: image=u1[] label=i8[1]"]
        report = run_json("bench", *self.files, *words, "--seconds", "0.02")
        seen = {(row["io"], row["cache"]) for row in report["rows"]}
        self.assertLessEqual({(io, cache) for io in ("auto", "pread", "mmap", "uring")
                              for cache in ("warm", "cold")}, seen)
        for row in report["rows"]:
            self.assertTrue("error" in row or row["gb_per_s"] > 0, row)
        options = next(row["options"] for row in report["rows"] if row["io"] == "pread")
        fed = run_json("feed", *self.files, *words, *shlex.split(options))
        self.assertGreater(fed["records"], 0)

    def test_text(self):
        result = run("bench", *self.files, "--seconds", "0.02")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("CPU s/GB", result.stdout)
        self.assertIn("(defaults)", result.stdout)

    def test_damaged_files_are_no_figure(self):
        data = bytearray(self.files[0].read_bytes())
        data[20] ^= 1
        for path in self.files:
            path.write_bytes(data)
        self.assert_refused(1, "bench", *self.files, "--seconds", "0.02")


if __name__ == "__main__":
    main()
