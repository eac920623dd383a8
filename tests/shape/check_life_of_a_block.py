#!/usr/bin/env python3
"""Holds docs/internals/LIFE_OF_A_BLOCK.md to the sources: each `file: Function` that it names exists.

check_life_of_a_block.py ROOT: prints each name that is wrong; exit status 1 if one is.
"""

import pathlib
import re
import sys

PAGE = "docs/internals/LIFE_OF_A_BLOCK.md"
QUOTED = re.compile(r"`([^`]*)`")
STEP = re.compile(r"(\S+/\S+\.\w+):\s+(\w+)")
FILE = re.compile(r"\S+/\S+\.(?:cc|h|py)")
# What stands in front of a name that is called, and looks like a type.
NO_TYPE = r"(?!(?:return|co_return|throw|new|delete|else|case|goto)\b)"
TYPE = rf"{NO_TYPE}(?:[\w:]+(?:<[^()=;]*>)?[*&\s]+)+"


def named(text):
    """Number of the line, file and function of each step; the function of a file alone is None."""
    for match in QUOTED.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        step = STEP.fullmatch(match[1])
        if step:
            yield number, step[1], step[2]
        elif FILE.fullmatch(match[1]):
            yield number, match[1], None


def has_function(source, name):
    """Whether a line declares or defines a function of that name: a type, a class or both are in
    front of it, and no call is."""
    of_class = rf"(?:\w+(?:<[^()=;]*>)?::)*{re.escape(name)}\("
    member = rf"(?:\w+::)+{re.escape(name)}\("  # of a constructor, or behind a long type
    return re.search(rf"^(?:[ \t]*{TYPE}{of_class}|{member})", source, re.MULTILINE) is not None


def check(root, text):
    """What is wrong, as PAGE:LINE: MESSAGE."""
    found = []
    steps = 0
    for number, path, name in named(text):
        steps += name is not None
        if not (root / path).is_file():
            found.append(f"{PAGE}:{number}: there is no file {path}")
        elif name and not has_function((root / path).read_text(encoding="utf-8"), name):
            found.append(f"{PAGE}:{number}: {path} has no function {name}")
    return found if steps else [f"{PAGE}: names no function"]


def main():
    root = pathlib.Path(sys.argv[1])
    found = check(root, (root / PAGE).read_text(encoding="utf-8"))
    print("\n".join(found) or "every function that the page names exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
