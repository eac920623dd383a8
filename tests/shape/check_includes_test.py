#!/usr/bin/env python3
"""Tests of check_includes.py: that it sees a missing header of the standard library, and nothing else."""

import pathlib
import tempfile
import unittest

import check_includes


class IncludesTest(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return check_includes.check(root)

    def test_a_name_needs_its_header(self):
        self.assertEqual(self.check({"base/a.cc": "std::vector<int> a;\n"}),
                         ["base/a.cc:1: std::vector without <vector>"])
        self.assertEqual(self.check({"base/a.cc": "#include <vector>\nstd::vector<int> a;\n"}), [])

    def test_each_missing_header_is_told_once_where_it_is_first_used(self):
        self.assertEqual(self.check({"io/a.h": "\nstd::ranges::sort(std::move(a));\nstd::swap(a, b);\n"}),
                         ["io/a.h:2: std::move without <utility>", "io/a.h:2: std::sort without <algorithm>"])

    def test_headers_of_the_project_bring_theirs(self):
        files = {"queue/a.cc": '#include "ringfeed/a.h"\nstd::span<int> a;\n',
                 "include/ringfeed/a.h": '#include "base/b.h"\n', "base/b.h": "#include <span>\n"}
        self.assertEqual(self.check(files), [])
        files["base/b.h"] = ""
        self.assertEqual(self.check(files), ["queue/a.cc:2: std::span without <span>"])

    def test_comments_and_others_names_need_nothing(self):
        self.assertEqual(self.check({"gpu/a.cc": "// std::vector\nother::vector b;\nstd::size(c);\n"}), [])

    def test_a_name_that_it_does_not_know_is_told(self):
        self.assertEqual(self.check({"gpu/a.cc": "#include <vector>\nstd::unknown a;\n"}),
                         ["gpu/a.cc:2: std::unknown without <a header that check_includes.py knows>"])

    def test_programs_of_other_folders_are_not_looked_at(self):
        self.assertEqual(self.check({"tests/a.cc": "std::vector<int> a;\n", "base/a.cu": "std::vector<int> a;\n"}), [])


if __name__ == "__main__":
    unittest.main()
