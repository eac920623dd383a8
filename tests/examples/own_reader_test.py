#!/usr/bin/env python3
"""The reader of one's own: every row it makes comes once, in batches.

own_reader_test.py PROGRAM EXAMPLES
"""

import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]


class OwnReader(unittest.TestCase):
    def test_every_row_comes_once(self):
        for count in (0, 1, 1000):
            result = subprocess.run([PROGRAM, str(count)], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows, right, text = map(int, re.findall(r"\d+", result.stdout))
            self.assertEqual(rows, count)
            self.assertGreaterEqual(right, 0.95 * count)
            self.assertEqual(text, sum(len(f"point {n + 1}") for n in range(count)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
