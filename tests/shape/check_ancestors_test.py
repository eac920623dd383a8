#!/usr/bin/env python3
"""The check of docs/ANCESTORS.md reports every name that no test has, and nothing else."""

import unittest

import check_ancestors

TABLE = """text with `Not.ATest`

| promise | name here | test | differs, and why |
|---|---|---|---|
| `Other.Thing` | | `A.One`, `B.Two` | `No.Test` |
| a \\| b | | the same, `A.One` | |

| theirs | test |
|---|---|
| x | `Misspelt.One`, `A.One` |
| y | |
"""


class AncestorsTest(unittest.TestCase):
    def test_only_the_column_of_tests_is_read_and_all_of_it(self):
        self.assertEqual(list(check_ancestors.named_tests(TABLE.splitlines())),
                         [(5, ["A.One", "B.Two"]), (6, ["A.One"]), (10, ["Misspelt.One", "A.One"]),
                          (11, [])])


if __name__ == "__main__":
    unittest.main()
