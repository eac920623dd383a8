#!/usr/bin/env python3
"""Tests of check_environment.py: it misses no variable, and takes no other text for one."""

import pathlib
import tempfile
import unittest

import check_environment

ROWS = "| `RINGFEED_A`, `RANK` | x |\n| `UNREAD` | x |\n"
SOURCES = {
    "base/a.cc": 'getenv("RINGFEED_A"); {"MPICH", "PMI_RANK"}; Look("RANK"); lookup("HOME");',
    "base/b.h": 'constexpr const char* kPlaceVariable = "RINGFEED_B";',
    "tools/c.cc": 'text = "NO_VARIABLE";',
    "python/ringfeed/d.py": 'os.environ["RINGFEED_D"]',
}


class CheckEnvironmentTest(unittest.TestCase):
    def test_both_sides_are_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**SOURCES, check_environment.DOCUMENT: ROWS}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            found = [line.rpartition(" ")[2] for line in check_environment.differences(root)]
        self.assertEqual(found, ["HOME", "PMI_RANK", "RINGFEED_B", "RINGFEED_D", "UNREAD"])


if __name__ == "__main__":
    unittest.main()
