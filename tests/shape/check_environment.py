#!/usr/bin/env python3
"""Checks that docs/ENVIRONMENT.md has a row for each environment variable that the code reads.

check_environment.py ROOT: prints each variable that only one of the two has; exit status 1 if there
is one. A variable is a literal in capitals: the value of a constant k…Variable, and, in a source that
reads the environment, any with an underscore, or that a call or a row of the document names.
"""

import pathlib
import re
import sys

DOCUMENT = "docs/ENVIRONMENT.md"
FOLDERS = ("base", "gpu", "include", "io", "metrics", "python/ringfeed", "python/src", "queue", "readers", "tools")
READS = re.compile(r"\bgetenv\b|\bEnvironmentText\b|\bEnvironmentLookup\b|\benviron\b|\bProcessVariable\b")
LITERAL = re.compile(r'"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*)"')
CONSTANT = re.compile(r'\bk\w*Variable = "(\w+)"')
CALL = re.compile(r'(?:getenv|EnvironmentText|lookup|environ\.get)\(\s*"(\w+)"|environ\["(\w+)"\]')
ROW = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)
NAME = re.compile(r"`([A-Z][A-Z0-9_]+)`")


def documented(text):
    return {name for row in ROW.findall(text) for name in NAME.findall(row)}


def read_by(text, known):
    """The variables that a source reads."""
    constants = set(CONSTANT.findall(text))
    if not READS.search(text):
        return constants
    called = {name for names in CALL.findall(text) for name in names if name}
    return constants | called | {name for name in LITERAL.findall(text) if "_" in name or name in known}


def differences(root):
    known = documented((root / DOCUMENT).read_text())
    read = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".py"):
                for name in read_by(path.read_text(), known):
                    read.setdefault(name, path.relative_to(root))
    return [f"{read[name]}: {DOCUMENT} has no row for {name}" for name in sorted(read.keys() - known)] + [
        f"{DOCUMENT}: nothing reads {name}" for name in sorted(known - read.keys())]


def main():
    found = differences(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "the document has all variables, and no others")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
