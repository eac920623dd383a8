#!/usr/bin/env python3
"""Tests of check_python_names.py: that it sees names without a program, and nothing else."""

import pathlib
import tempfile
import unittest

import check_python_names

UNUSED = ["no program that is shown uses ringfeed.mix"]


class PythonNamesTest(unittest.TestCase):
    def check(self, files, names=("mix",), exceptions=()):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            package = {"python/ringfeed/__init__.py": f"__all__ = {list(names)!r}\n"}
            for name, text in {**package, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return check_python_names.check(root, dict.fromkeys(exceptions, "why"))

    def program(self, text, names=("mix",)):
        return self.check({"examples/python/a.py": text}, names)

    def test_an_attribute_and_an_import_are_uses(self):
        for text in ("ringfeed.mix(a)", "f = ringfeed.mix", "from ringfeed import batch, mix",
                     "import ringfeed as feed\nfeed.mix()", "x = [ringfeed.mix.y for _ in z]"):
            self.assertEqual(self.program(text), [])

    def test_comments_texts_and_other_things_names_are_no_use(self):
        for text in ("# ringfeed.mix()", "'ringfeed.mix()'", "mix()", "other.mix()", "ringfeed.mixed()",
                     "from other import mix", "ringfeed.reader.mix()", "f(mix=1)", ""):
            self.assertEqual(self.program(text), UNUSED)

    def test_a_module_is_used_by_what_is_imported_of_it(self):
        for text in ("import ringfeed.devices", "from ringfeed.devices import Pad", "ringfeed.devices.Pad"):
            self.assertEqual(self.program(text, ["devices"]), [])

    def test_a_name_of_a_module_is_none_of_the_packages(self):
        self.assertEqual(self.program("from ringfeed.reader import mix"), UNUSED)

    def test_a_guide_is_read_where_it_has_programs(self):
        guide = "ringfeed.mix\n```sh\nringfeed.mix\n```\n"
        self.assertEqual(self.check({"docs/A.md": guide}), UNUSED)
        self.assertEqual(self.check({"docs/A.md": guide + "  ```python\n  ringfeed.mix()\n  ```\n"}), [])
        self.assertEqual(self.check({"README.md": "```python needs=a\nringfeed.mix()\n```\n"}), [])
        self.assertEqual(self.check({"README.md": "```python not-run\nringfeed.mix()\n```\n"}), UNUSED)

    def test_a_program_that_is_none_is_told(self):
        (first, *rest) = self.check({"docs/A.md": "```python\nringfeed.mix(\n```\n"})
        self.assertTrue(first.startswith("docs/A.md: a program that is none"), first)
        self.assertEqual(rest, UNUSED)

    def test_an_exception_is_needed(self):
        self.assertEqual(self.check({}, exceptions=["mix"]), [])
        found = self.check({"README.md": "```python\nringfeed.mix()\n```\n"}, exceptions=["mix"])
        self.assertEqual(found, ["check_python_names.py: mix needs no exception any more"])


if __name__ == "__main__":
    unittest.main()
