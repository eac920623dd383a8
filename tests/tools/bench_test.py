#!/usr/bin/env python3
"""`ringfeed bench`: every path and cache state, and a recommendation that `feed` takes."""

import shlex

from command_line import CommandTest, main, run, run_json


class BenchTest(CommandTest):
    def setUp(self):
        super().setUp()
        run_json("make", self.folder / "d", "--bytes", "4MiB", "--files", 2)
        self.files = sorted((self.folder / "d").iterdir())

    def test_rows_and_recommendation(self):
        words = ["--parse", "example: image=u1[] label=i8[1]", "--seconds", "0.02", "--pairs", "1"]
        report = run_json("bench", *self.files, *words)
        seen = {(row["io"], row["cache"]) for row in report["rows"]}
        self.assertLessEqual({(io, cache) for io in ("auto", "pread", "mmap", "uring")
                              for cache in ("warm", "cold")}, seen)
        for row in report["rows"]:
            self.assertTrue("error" in row or row["gb_per_s"] > 0, row)
        best = report["recommended"]
        self.assertGreaterEqual(best["ratio"]["median"], 1)
        fed = run_json("feed", *self.files, *words[:2], *shlex.split(best["options"]))
        self.assertGreater(fed["records"], 0)

    def test_text(self):
        result = run("bench", *self.files, "--seconds", "0.02", "--pairs", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("CPU s/GB", result.stdout)
        self.assertIn("the defaults", result.stdout)

    def test_damaged_files_are_no_figure(self):
        data = bytearray(self.files[0].read_bytes())
        data[20] ^= 1
        for path in self.files:
            path.write_bytes(data)
        self.assert_refused(1, "bench", *self.files, "--seconds", "0.02", "--pairs", "1")


if __name__ == "__main__":
    main()
