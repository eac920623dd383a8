#!/usr/bin/env python3
"""check_figures.py finds figures that were not measured, and results laid out by another hand."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import check_figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = [check_figures.DOCUMENT, "scripts/bench", "bench/peers/rows.py", "bench/results_text.py"]


class CheckFiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ringfeed-figures-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in [*KEPT, *(str(path.relative_to(ROOT))
                              for path in (ROOT / check_figures.RESULTS).iterdir())]:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.document = self.root / check_figures.DOCUMENT
        self.text = self.document.read_text(encoding="utf-8")

    def check(self, *words):
        """(exit status, what it prints)."""
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["check", str(self.root), *words]), \
                contextlib.redirect_stdout(out):
            status = check_figures.main()
        return status, out.getvalue()

    def test_the_document_as_it_is_passes(self):
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_another_figure_is_found_and_written_again(self):
        for right, wrong in [("12.8 GB/CPU s", "13.8 GB/CPU s"), ("| ≥ 0.95 |", "| ≥ 0.9 |"),
                             ("| **missed** |", "| reached |"), ("1.07, 0.86", "1.07, 0.96"),
                             ("36.6 µs", "3.66 µs"), ("6.66 (6.58 to 6.75)", "8.66 (6.58 to 6.75)")]:
            self.assertIn(right, self.text)
            self.document.write_text(self.text.replace(right, wrong, 1), encoding="utf-8")
            status, output = self.check()
            self.assertEqual((status, wrong in output), (1, True), output)
            self.assertEqual(self.check("--write")[0], 0)
            self.assertEqual(self.document.read_text(encoding="utf-8"), self.text)

    def test_a_row_that_was_not_measured_is_found(self):
        self.document.write_text(self.text.replace("`feed.rows_160b`", "`feed.rows_170b`", 1), encoding="utf-8")
        self.assertIn("no result has the row feed.rows_170b", self.check()[1])

    def test_results_of_another_layout_or_too_many_are_found(self):
        path = self.root / check_figures.RESULTS / f"{check_figures.GPU}.json"
        value = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("lays it out another way", output)
        self.assertIn("more than 2500", output)


class ResultsTextTest(unittest.TestCase):
    def setUp(self):
        module = check_figures.load(ROOT / "bench/results_text.py", "results_text")
        self.longest, self.results_text = module.LONGEST_LINE, module.results_text

    def test_the_value_stays(self):
        for value in [1, None, [], {}, "a\n\"ä\"", [[]] * 500, {"a": {"b": list(range(900)), "c": "x" * 999}},
                      [{"n": i, "list": [i / 3] * 20} for i in range(40)]]:
            self.assertEqual(json.loads(self.results_text(value)), value)

    def test_a_record_has_a_line(self):
        rows = [{"name": f"row {i}", "ratio": {"median": i / 7}} for i in range(50)]
        lines = self.results_text({"date": "d", "commit": "c", "rows": rows}).splitlines()
        self.assertEqual(lines[:3], ["{", ' "date": "d", "commit": "c",', ' "rows": ['])
        self.assertEqual([json.loads(line.rstrip(",")) for line in lines[3:-2]], rows)
        self.assertEqual(lines[-2:], [" ]", "}"])

    def test_members_share_lines_that_are_not_too_long(self):
        lines = self.results_text({f"key {i}": i for i in range(200)}).splitlines()
        self.assertLessEqual(max(map(len, lines)), self.longest)
        self.assertLess(len(lines), 15)


if __name__ == "__main__":
    unittest.main()
