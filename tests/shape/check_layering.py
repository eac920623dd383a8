#!/usr/bin/env python3
"""Checks that each folder includes only what its row of docs/ARCHITECTURE.md allows, and that every
public header is listed where it is installed from and in the README.

check_layering.py ROOT: prints each violation as FILE:LINE: MESSAGE; exit status 1 if there is one.
"""

import pathlib
import re
import sys

LAYERS = {
    "base": set(),
    "queue": {"base"},
    "io": {"base", "queue"},
    "readers": {"base", "queue", "io"},
    "gpu": {"base", "queue"},
}
# Programs stand on top of all layers; the tests see everything.
PROGRAMS = {"tools", "bench"}
FOLDERS = set(LAYERS) | PROGRAMS | {"include", "tests", "examples", "python"}

ALLOWED = {folder: below | {folder} for folder, below in LAYERS.items()}
ALLOWED |= {program: set(LAYERS) | {program} for program in PROGRAMS}
ALLOWED["bench"] |= {"tools"}
ALLOWED |= {"include": set(), "examples": {"examples"}, "python": set(), "tests": FOLDERS}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
STANDARD_HEADER = re.compile(r"^[a-z_0-9]+$")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
PUBLIC = "ringfeed"


def judge(folder, quote, target):
    """What is wrong with a file of `folder` including `target`, or None."""
    top = target.split("/")[0]
    if top == PUBLIC:
        return None
    if quote == "<":
        if top in FOLDERS and "/" in target:
            return f'"{target}" is a header of this project: include it with quotes'
        if folder == "include" and not STANDARD_HEADER.match(target):
            return f"<{target}>: a public header includes the standard library and public headers only"
        return None
    if target.endswith(".pb.h"):  # made in the build tree, from a .proto file
        return None
    if folder == "python" and "/" not in target:  # python/src, the module's own headers
        return None
    if "/" not in target:
        return f'"{target}": name a header by its path from the root of the project'
    if top == "include":
        return f'"{target}": a public header is included as "{PUBLIC}/…"'
    if top not in ALLOWED[folder]:
        return f'{folder}/ must not include "{target}"'
    return None


def check_file(folder, path, name):
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        message = judge(folder, *match.groups()) if match else None
        if message:
            found.append(f"{name}:{number}: {message}")
    return found


def check_listed(root):
    """A public header is installed only if the library lists it, and found only if the README does."""
    folder = root / "include" / PUBLIC
    found = []
    for list_file in [folder / "CMakeLists.txt", root / "README.md"]:
        text = list_file.read_text(encoding="utf-8") if list_file.exists() else ""
        listed = set(re.findall(r"[\w/.]+\.h\b", text))
        found += [
            f"include/{PUBLIC}/{header.name}:1: not listed in {list_file.relative_to(root)}"
            for header in sorted(folder.glob("*.h"))
            if header.name not in listed
        ]
    return found


def check_tree(root):
    found = []
    for folder in sorted(FOLDERS):
        for path in sorted((root / folder).glob("**/*")):
            if path.suffix in SUFFIXES and path.is_file():
                found += check_file(folder, path, path.relative_to(root).as_posix())
    return found + check_listed(root)


def main():
    found = check_tree(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "every folder includes only what it may")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
