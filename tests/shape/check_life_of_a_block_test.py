#!/usr/bin/env python3
"""The check of the life of a block reports every name that no source has, and nothing else."""

import pathlib
import tempfile
import unittest

import check_life_of_a_block

SOURCE = """bool Run::Declared(Worker& worker) {
  Called(worker);
  return Returned(worker) || !Negated();
  const bool is = Assigned();
  worker.Method();
  std::move(worker);
}
Run::Constructed(int number) : number_(number) {}
  std::shared_ptr<const Format> Pointer(const std::map<int, int>& map);
std::vector<std::pair<int, int>>* Lane::Inner::Nested(int lane) const {
template <typename T>
  T Templated(T value) {
"""


class LifeOfABlockTest(unittest.TestCase):
    def check(self, page):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "engine").mkdir()
            (root / "engine" / "run.cc").write_text(SOURCE, encoding="utf-8")
            return check_life_of_a_block.check(root, page)

    def test_what_is_declared_or_defined_is_there(self):
        names = ("Declared", "Constructed", "Pointer", "Nested", "Templated")
        page = "\n".join(f"| step | `engine/run.cc: {name}` |" for name in names)
        self.assertEqual(self.check(page), [])

    def test_what_is_only_called_is_not_there(self):
        for name in ("Called", "Returned", "Negated", "Assigned", "Method", "move", "Worker", "De"):
            self.assertEqual(self.check(f"text\n`engine/run.cc: {name}`"),
                             [f"docs/internals/LIFE_OF_A_BLOCK.md:2: engine/run.cc has no function {name}"])

    def test_a_file_that_is_gone_is_found_with_and_without_a_function(self):
        found = self.check("`engine/gone.cc: Declared`, `engine/other.h`, `engine/run.cc: Declared`")
        self.assertEqual([each.split(": ")[1] for each in found],
                         ["there is no file engine/gone.cc", "there is no file engine/other.h"])

    def test_a_name_that_is_broken_over_two_lines_is_read(self):
        self.assertEqual(self.check("`engine/run.cc:\n  Declared`"), [])
        self.assertEqual(len(self.check("`engine/run.cc:\n  Gone`")), 1)

    def test_other_code_is_no_name_but_a_page_without_names_is_wrong(self):
        self.assertEqual(self.check("`pass_ends`, `run.cc`, `OpenFiles` `engine/run.cc: Nested`"), [])
        self.assertEqual(self.check("`engine/run.cc`"),
                         ["docs/internals/LIFE_OF_A_BLOCK.md: names no function"])


if __name__ == "__main__":
    unittest.main()
