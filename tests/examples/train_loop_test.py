#!/usr/bin/env python3
"""examples/train_loop.cc: it trains on what "ringfeed make" makes, as its first lines say, and a loop
that gives its memory back too early is told so.

train_loop_test.py PROGRAM EXAMPLES RINGFEED RELEASED_EARLY
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, EXAMPLES, RINGFEED, RELEASED_EARLY = sys.argv[1:5]
MOST_LINES = 60
RECORDS = 40_000


def run(program, *files):
    return subprocess.run([program, *files], capture_output=True, text=True, check=False)


class TrainLoop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        made = [RINGFEED, "make", cls.folder.name, "--kind", "table", "--records", str(RECORDS)]
        subprocess.run(made, check=True, capture_output=True)
        cls.files = sorted(map(str, pathlib.Path(cls.folder.name).glob("*.tfrecord")))

    def results(self, program):
        result = run(program, *self.files)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = re.fullmatch(r"(\d+) batches, loss (\S+), hazards: (\d+)\n", result.stdout)
        self.assertTrue(found, result.stdout)
        return int(found[1]), float(found[2]), int(found[3])

    def test_it_trains_on_every_batch_without_a_hazard(self):
        batches, loss, hazards = self.results(PROGRAM)
        self.assertEqual(batches, -(-RECORDS // 256))
        self.assertEqual(hazards, 0)
        # A quarter of the labels, which nothing predicts, are 1: 0.693 before, 0.562 at best.
        self.assertLess(loss, 0.59)
        self.assertGreater(loss, 0.55)

    def test_a_lease_that_is_released_before_the_step_is_a_hazard(self):
        _, _, hazards = self.results(RELEASED_EARLY)
        self.assertGreater(hazards, 100)

    def test_no_files_missing_files_and_other_records_are_errors(self):
        other = pathlib.Path(self.folder.name, "other.jsonl")
        other.write_text('{"dense": 1}\n')
        for files, reason in ([], "empty"), (["missing.tfrecord"], "missing.tfrecord"), ([str(other)], "other.jsonl"):
            result = run(PROGRAM, *files)
            self.assertEqual(result.returncode, 1, files)
            self.assertIn(reason, result.stderr)

    def test_it_is_short(self):
        lines = pathlib.Path(EXAMPLES, "train_loop.cc").read_text().splitlines()
        self.assertLess(len(lines), MOST_LINES)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
