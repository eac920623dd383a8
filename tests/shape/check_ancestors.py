#!/usr/bin/env python3
"""Holds docs/ANCESTORS.md to the tests that there are: every row names one, and each exists.

check_ancestors.py ROOT: prints each row that does not; exit status 1 if there is one.
"""

import pathlib
import re
import sys

QUOTED = re.compile(r"`([^`]*)`")
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
# Suites of tests that ctest knows by file: tools.feed is tests/tools/feed_test.py.
FOLDERS = ("tools", "examples")


def known_tests(root):
    tests = set()
    for path in (root / "tests").rglob("*.cc"):
        tests |= {f"{suite}.{name}" for suite, name in TEST.findall(path.read_text())}
    for folder in FOLDERS:
        for path in (root / "tests" / folder).glob("*_test.py"):
            tests.add(f"{folder}.{path.name.removesuffix('_test.py')}")
    return tests


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def named_tests(lines):
    """The number of each row and what stands quoted in its table's column of tests."""
    column = None
    for number, line in enumerate(lines, 1):
        cells = cells_of(line)
        if not cells:
            column = None
        elif column is None:
            column = cells.index("test")
        elif set("".join(cells)) != {"-"}:
            yield number, QUOTED.findall(cells[column])


def main():
    root = pathlib.Path(sys.argv[1])
    tests = known_tests(root)
    wrong = 0
    for number, named in named_tests((root / "docs" / "ANCESTORS.md").read_text().splitlines()):
        problems = [f"there is no test {name}" for name in named if name not in tests]
        if not named:
            problems.append("names no test")
        for problem in problems:
            print(f"docs/ANCESTORS.md:{number}: {problem}")
        wrong += len(problems)
    if wrong == 0:
        print("every row names a test that exists")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
