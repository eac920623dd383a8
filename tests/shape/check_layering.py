#!/usr/bin/env python3
"""Checks that each folder includes only what its row of docs/ARCHITECTURE.md names, and all that it
names, that folders that share a row do not include each other, that every public header has a home
there, and is listed where it is installed from and in docs/HEADERS.md, and that the root of
include/ringfeed/ stays small.

check_layering.py ROOT: prints each violation as FILE:LINE: MESSAGE; exit status 1 if there is one.
"""

import collections
import pathlib
import re
import sys

from layering_table import DOCUMENT, PROGRAMS, WHOLE, Table

FOLDERS = {"base", "queue", "io", "readers", "gpu", "metrics", "include"} | PROGRAMS
#: These include public headers and their own alone, whatever the headers' homes.
OUTSIDE = {"examples", "python"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
STANDARD_HEADER = re.compile(r"^[a-z_0-9]+$")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
PUBLIC = "ringfeed"
#: In the root of include/ringfeed/ is what a training loop needs.
MOST_IN_ROOT = 28


def judge_spelling(top, quote, target):
    """What is wrong with how a file under `top` writes an include, whoever may include it; or None."""
    first = target.split("/")[0]
    if quote == "<":
        if first in FOLDERS | {PUBLIC} and "/" in target and first != PUBLIC:
            return f'"{target}" is a header of this project: include it with quotes'
        if top == "include" and first != PUBLIC and not STANDARD_HEADER.match(target):
            return f"<{target}>: a public header includes the standard library and public headers only"
        return None
    if "/" not in target and not is_foreign(top, quote, target):
        return f'"{target}": name a header by its path from the root of the project'
    if first == "include":
        return f'"{target}": a public header is included as "{PUBLIC}/…"'
    if top == "include" and first != PUBLIC:
        return f'"{target}": a public header includes the standard library and public headers only'
    if top in OUTSIDE and first not in (top, PUBLIC) and "/" in target:
        return f'{top}/ must not include "{target}"'
    return None


def is_foreign(top, quote, target):
    """Whether the include is none of what the table is about."""
    if quote == "<" and not target.startswith(f"{PUBLIC}/"):
        return True
    if target.endswith(".pb.h"):  # made in the build tree, from a .proto file
        return True
    return top == "python" and "/" not in target  # python/src, the module's own headers


class Check:
    def __init__(self, root):
        self.root = root
        document = root / DOCUMENT
        self.table = Table(document.read_text(encoding="utf-8") if document.exists() else "")
        self.found = list(self.table.faults)
        self.used = set()  #: exceptions
        self.edges = collections.defaultdict(list)  #: (folder, folder): where, by the rule or not
        self.inner_edges = collections.defaultdict(list)  #: the same of folders that share a row

    def judge(self, name, quote, target):
        """What is wrong with the file `name` including `target`, or None."""
        top = name.split("/")[0]
        wrong = judge_spelling(top, quote, target)
        if wrong or is_foreign(top, quote, target) or top in OUTSIDE:
            return wrong
        folder, below = self.table.folder_of(name), self.table.folder_of(target)
        if folder is None or below is None:
            # A public header without a home, or a folder without a row, is reported by itself.
            has_folder = target.startswith(f"{PUBLIC}/") or target.split("/")[0] in FOLDERS
            return None if has_folder else f'"{target}" is in no folder of the project'
        if folder == below:
            self.note_inner(folder, name, target)
            return None
        self.edges[folder, below].append(name)
        if below in self.table.below[folder]:
            return None
        exception = self.table.exception_for(name, target)
        if exception:
            self.used.add(exception)
            return None
        mutual = f", which includes {folder}/" if folder in self.table.below[below] else ""
        where = f" (at home in {below}/)" if target.startswith(f"{PUBLIC}/") else ""
        return f'{folder}/ must not include "{target}"{where}: its row does not name {below}/{mutual}'

    def note_inner(self, folder, name, target):
        """Remembers an include of one folder beneath the row's by another one. Its root is none."""
        if folder in WHOLE or target.startswith(f"{PUBLIC}/") or name.startswith("include/"):
            return
        depth = folder.count("/") + 1
        inner = [path.split("/")[depth:-1] for path in (name, target)]
        if all(inner) and inner[0][0] != inner[1][0]:
            pair = tuple(f"{folder}/{each[0]}" for each in inner)
            self.inner_edges[pair].append(name)

    def check_file(self, path):
        name = path.relative_to(self.root).as_posix()
        if not name.startswith("include/") and self.table.folder_of(name) is None:
            self.found.append(f"{name}:1: its folder has no row in {DOCUMENT}")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            message = self.judge(name, *match.groups()) if match else None
            if message:
                self.found.append(f"{name}:{number}: {message}")

    def check_inner(self):
        for (folder, below), names in sorted(self.inner_edges.items()):
            back = self.inner_edges.get((below, folder))
            if back and folder < below:
                self.found.append(
                    f"{names[0]}:1: {folder}/ and {below}/ include each other (so does {back[0]})")

    def check_tops(self):
        """Folders of the first level that include each other are reported, exceptions or not told."""
        tops = collections.defaultdict(list)
        for (folder, below), names in self.edges.items():
            if folder.split("/")[0] != below.split("/")[0]:
                tops[folder.split("/")[0], below.split("/")[0]] += names
        for (top, below), names in sorted(tops.items()):
            back = tops.get((below, top))
            if back and top < below and not any(self.excepted(pair) for pair in ((top, below), (below, top))):
                self.found.append(f"{names[0]}:1: {top}/ and {below}/ include each other (so does {back[0]})")

    def excepted(self, tops):
        """Whether all that leads from the one folder to the other is an exception."""
        pairs = [pair for pair in self.edges if tuple(each.split("/")[0] for each in pair) == tops]
        return all(below not in self.table.below[folder] for folder, below in pairs)

    def check_headers(self):
        """A public header is installed only if the library lists it, and found only if docs/HEADERS.md does."""
        folder = self.root / "include" / PUBLIC
        headers = {header.relative_to(folder).as_posix() for header in folder.rglob("*.h")}
        for list_file in [folder / "CMakeLists.txt", self.root / "docs/HEADERS.md"]:
            text = list_file.read_text(encoding="utf-8") if list_file.exists() else ""
            listed = set(re.findall(r"[\w/.]+\.h\b", text))
            self.found += [f"include/{PUBLIC}/{header}:1: not listed in {list_file.relative_to(self.root)}"
                           for header in sorted(headers - listed)]
        self.found += [f"include/{PUBLIC}/{header}:1: no folder of {DOCUMENT} is its home"
                       for header in sorted(headers - set(self.table.home))]
        self.found += [f"{DOCUMENT}:1: {header}, at home in {home}/, is not there"
                       for header, home in self.table.home.items() if header not in headers]
        in_root = [header for header in headers if "/" not in header]
        if len(in_root) > MOST_IN_ROOT:
            self.found.append(f"include/{PUBLIC}/CMakeLists.txt:1: {len(in_root)} headers in the root, more than"
                              f" {MOST_IN_ROOT}: what a training loop does not need has a folder")

    def check_used(self):
        """What a row allows and nobody uses is not allowed: else an arrow could grow unseen."""
        for line, folders, named in self.table.named:
            self.found += [f"{DOCUMENT}:{line}: the row of {folders[0]}/ names {below}/, "
                           "and nothing there includes it"
                           for below in named
                           if not any((folder, below) in self.edges for folder in folders)]

    def check_exceptions(self):
        self.found += [f"{DOCUMENT}:{line}: {pair[0]} needs no exception for {pair[1]} any more"
                       for pair, line in self.table.exceptions.items() if pair not in self.used]

    def run(self):
        for folder in sorted(FOLDERS):
            for path in sorted((self.root / folder).glob("**/*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.check_file(path)
        self.check_tops()
        self.check_inner()
        self.check_headers()
        self.check_used()
        self.check_exceptions()
        return self.found


def check_tree(root):
    return Check(root).run()


def main():
    found = check_tree(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "every folder includes only what it may")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
