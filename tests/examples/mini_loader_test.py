#!/usr/bin/env python3
"""The loader of one's own: what it prints, and that it is short.

mini_loader_test.py PROGRAM EXAMPLES
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
DATA = EXAMPLES / "mini_data"
MOST_LINES = 80


def run(folder):
    return subprocess.run([PROGRAM, str(folder)], capture_output=True, text=True, check=False)


class MiniLoader(unittest.TestCase):
    def test_a_pass_has_every_line_of_both_parts(self):
        for part in ("part-000", "part-001"):
            content = (DATA / part).read_bytes()
            self.assertEqual(len(content.splitlines()), 9)
            self.assertFalse(content.endswith(b"\n"), "no end of the last line: the original's trap")
        result = run(DATA)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("18 samples a pass\n", result.stdout)

    def test_the_loss_falls_and_the_line_is_found(self):
        output = run(DATA).stdout
        losses = [float(loss) for loss in re.findall(r"^\d+/1000: (\S+)$", output, re.M)]
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[1], losses[0] / 10)
        self.assertLess(max(losses[5:]), 0.005)
        weight, bias = map(float, re.search(r"^y = (\S+) x \+ (\S+)$", output, re.M).groups())
        self.assertAlmostEqual(weight, 2, delta=0.02)
        self.assertAlmostEqual(bias, 0, delta=0.1)

    def test_a_missing_part_and_a_bad_line_are_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            first = pathlib.Path(folder, "part-000")
            first.write_text("1,2\n")
            result = run(folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn("part-001", result.stderr)
            for line in ("1,two", "1", "1,", ""):
                pathlib.Path(folder, "part-001").write_text(f"1,2\n{line}\n1,2")
                result = run(folder)
                self.assertEqual(result.returncode, 1, line)
                self.assertIn("no two numbers", result.stderr)

    def test_it_is_short(self):
        lines = (EXAMPLES / "mini_loader.cc").read_text().splitlines()
        self.assertLess(len(lines), MOST_LINES)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
