#!/usr/bin/env python3
"""Which sources compile together, as one that includes them.

source_groups.py ROOT SIZE LIST: each line of LIST is "TARGET SOURCE"; prints CMake code that gives each
source its UNITY_GROUP, for groups of up to SIZE. A source that no other goes with, that several targets
have or that defines macros has none: it is compiled by itself.
"""

import functools
import pathlib
import re
import sys

WORD = re.compile(r"[A-Za-z_]\w*")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
HIDDEN = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
#: Types, functions, variables.
DECLARED = re.compile(r"^(?:enum class|class|struct|union|enum|using) (\w+)\b"
                      r"|^[^\s#/].*?(?<!::)\b(\w+)\("
                      r"|^[^\s#/].*?\b(\w+)(?: = |\{|;|\[)", re.MULTILINE)
COMMENT = re.compile(r"//.*")
MACRO = re.compile(r"^#\s*define|^using namespace", re.MULTILINE)


def declared(text):
    """The names that a text declares at the beginning of a line."""
    return frozenset(name for names in DECLARED.findall(text) for name in names if name)


class Sources:
    """Sources below `root`, by what they declare."""

    def __init__(self, root):
        self._root = root

    def own_words(self, text):
        """The words of a file that may be a name of another one's."""
        return frozenset(WORD.findall(COMMENT.sub("", text)))

    @functools.cache
    def words(self, path):
        """Those of a source and of those of the project's headers that it includes."""
        text = path.read_text(errors="replace")
        return self.own_words(text).union(*(self.words(self._root / name) for name in INCLUDE.findall(text)
                           if (self._root / name).exists() and self._root / name != path))

    @functools.cache
    def hidden_names(self, path):
        """What the source declares in namespaces without a name."""
        return frozenset(name for text in HIDDEN.findall(path.read_text(errors="replace"))
                         for name in declared(text))

    def go_together(self, path, others):
        """Whether no name that one of them hides is anything to another one."""
        return all(not self.hidden_names(path) & self.words(other) and
                   not self.hidden_names(other) & self.words(path) for other in others)

    def groups(self, paths, size):
        """Lists of sources that go together."""
        groups = []
        for path in paths:
            group = next((group for group in groups
                          if len(group) < size and self.go_together(path, group)), None)
            group.append(path) if group else groups.append([path])
        return groups


def main():
    root, size, listed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    targets, users = {}, {}
    for line in listed.read_text().splitlines():
        target, name = line.split(" ", 1)
        targets.setdefault(target, []).append(pathlib.Path(name))
        users.setdefault(name, set()).add(target)
    sources = Sources(root)
    for target, paths in targets.items():
        own = [path for path in sorted(paths)
               if len(users[str(path)]) == 1 and not MACRO.search(path.read_text(errors="replace"))]
        for number, group in enumerate(sources.groups(own, size)):
            if len(group) > 1:
                names = "\n  ".join(f'"{path}"' for path in group)
                print(f"set_source_files_properties(\n  {names}\n"
                      f"  TARGET_DIRECTORY {target} PROPERTIES UNITY_GROUP {target}_{number})")


if __name__ == "__main__":
    main()
