#!/usr/bin/env python3
"""Makes one program of the pieces of C++ (```cpp) in the documents. A piece with functions of its
own compiles as it stands; of each other one it makes a function, in what it takes for granted, which
page_pieces.h calls.

page_pieces.py ROOT OUTPUT   writes the program; status 1 where a piece is not known here
page_pieces.py ROOT          prints the documents that have pieces
"""

import pathlib
import re
import sys

FENCE = re.compile(r"^ *```cpp\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
#: Whole programs, which other tests build: the first of these pages.
PROGRAMS = {"README.md", "docs/PORTING.md"}
#: The function of each other piece, by its page and number there; None: it has its own.
FUNCTIONS = {
    ("README.md", 1): None,
    ("README.md", 2): "void TrainFrom(const Reader& records, const std::shared_ptr<const Parser>& parser,\n"
                      "               std::string saved, Instance batch)",
    ("docs/PACKING.md", 0): "void PackOnRanks()",
    ("docs/PROGRAMS.md", 0): "void RunProgram()",
    ("docs/PROGRAMS.md", 1): "void RegisterWindowReader()",
    ("docs/TUNING.md", 0): "void OpenTuned(const std::vector<std::string>& files)",
}
#: A text that a piece reads as a file.
PROGRAM_TEXT = re.compile(r"^```\n(startup \{.*?)^```$", re.MULTILINE | re.DOTALL)


def documents(root):
    return sorted([root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")])


def pieces(root):
    """The pieces by page and number."""
    found = {}
    for path in documents(root):
        page = path.relative_to(root).as_posix()
        for number, text in enumerate(FENCE.findall(path.read_text(encoding="utf-8"))):
            if number > 0 or page not in PROGRAMS:
                found[page, number] = text
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    found = pieces(root)
    if len(sys.argv) == 2:
        print(";".join(sorted({str(root / page) for page, _ in found})), end="")
        return 0
    if found.keys() != FUNCTIONS.keys():
        for page, number in sorted(found.keys() ^ FUNCTIONS.keys()):
            print(f"{page}: piece {number} of C++ is on one side alone of the page and {__file__}")
        return 1
    program = PROGRAM_TEXT.search((root / "docs/PROGRAMS.md").read_text(encoding="utf-8"))[1]
    lines = [text for place, text in found.items() if FUNCTIONS[place] is None]
    lines += ['#include "tests/examples/page_pieces.h"', "", "using namespace ringfeed;", "",
              f'const char kProgramOfThePage[] = R"page({program})page";']
    lines += [f"{FUNCTIONS[place]} {{\n{text}}}" for place, text in found.items() if FUNCTIONS[place]]
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
