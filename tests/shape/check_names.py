#!/usr/bin/env python3
"""Checks that each public class, enumeration, function, constant and method is used in a program that is
shown, and that all of these but methods, and the names of types, have a comment.

check_names.py ROOT XML: XML is what Doxygen says of the public headers (build/docs/xml, by
scripts/docs). Prints what is wrong; exit status 1 if anything is.

Programs are those that tests run: of examples/, of tests/consumer/ and of the guides (```cpp, each page
one program), but not those of examples/training, which run only where LibTorch is. program_uses.py says
what a use is. A method that a base class has, too, is asked for there alone. Enumerators, members and
types' other names are not asked for.
"""

import pathlib
import re
import sys

import program_uses
import public_names

PROGRAMS = ["examples/*.cc", "examples/*.h", "examples/topics/*.cc", "tests/consumer/*.cc"]
GUIDES = ["README.md", "docs/**/*.md", "examples/**/*.md"]
FENCE = re.compile(r"^ *```cpp\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

#: Names that no program uses, and why.
EXCEPTIONS = {
    "PinnedArena::arena": "for ringfeed's own parts, as its comment says",
}


def shown_programs(root):
    """The texts of all programs that are shown."""
    texts = [path.read_text(encoding="utf-8") for each in PROGRAMS for path in sorted(root.glob(each))]
    for path in (path for each in GUIDES for path in sorted(root.glob(each))):
        pieces = FENCE.findall(path.read_text(encoding="utf-8"))
        if pieces:  # page_pieces.py compiles them so
            texts.append("using namespace ringfeed;\n" + "\n".join(pieces))
    return texts


def wanted_methods(names):
    """The methods that must be used, as (class, method), by their places."""
    found = {}
    for each in names.values():
        bases = public_names.family(names, each) - {each.full}
        for method, (where, _) in each.methods.items():
            if not any(method in names[base].methods for base in bases):
                found[each.full, method] = where
    return found


def check(root, folder, exceptions):
    """What is wrong, as PATH:LINE: MESSAGE."""
    names = public_names.public_names(root, folder)
    found = [f"{each.where}: {each.full} has no comment"
             for each in names.values() if not each.has_comment and each.kind != "constant"]
    unused = {each.full: each.where for each in names.values() if each.kind != "typedef"}
    unused |= {"::".join(method): where for method, where in wanted_methods(names).items()}
    for text in shown_programs(root):
        uses = program_uses.Uses(names, text)
        for name in uses.used | {"::".join(method) for method in uses.methods}:
            unused.pop(name, None)
    found += [f"{where}: no program that is shown uses {name}"
              for name, where in unused.items() if name not in exceptions]
    found += [f"{pathlib.Path(__file__).name}: {name} needs no exception any more"
              for name in exceptions.keys() - unused.keys()]
    return sorted(found)


def main():
    root, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    found = check(root, folder, EXCEPTIONS)
    print("\n".join(found) or "each public name has a comment and is used in a program that is shown")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
