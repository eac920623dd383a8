#!/usr/bin/env python3
"""A program of examples/topics prints what its first comment says.

topic_test.py PROGRAM SOURCE
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv[1:]


class Topic(unittest.TestCase):
    def test_it_prints_what_its_comment_says(self):
        lines = pathlib.Path(SOURCE).read_text(encoding="utf-8").splitlines()
        begin = lines.index("// Prints:") + 1
        end = next(number for number in range(begin, len(lines)) if not lines[number].startswith("//   "))
        wanted = [re.sub("^//   ", "", line) for line in lines[begin:end]]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM], cwd=folder, capture_output=True, text=True, check=False,
                                  timeout=250, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, wanted), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
