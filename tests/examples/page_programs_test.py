#!/usr/bin/env python3
"""The pieces of programs in the guides (```cpp) compile, each in what it takes for granted.

page_programs_test.py COMPILER ROOT
"""

import pathlib
import re
import subprocess
import sys
import unittest

COMPILER, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
FENCE = re.compile(r"^( *)```cpp\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

#: Whole programs, which other tests build: the first of these pages.
BUILT = {"README.md", "docs/PORTING.md"}
#: What stands around each other piece, %s, by its page and number.
AROUND = {
    ("README.md", 1): """
void Train(const Reader& batches, const std::vector<DeviceStream>& on) {
  struct { DeviceStream operator[](int device) const { return on->at(static_cast<std::size_t>(device)); }
           const std::vector<DeviceStream>* on; } streams{&on};
  %s
}""",
    ("README.md", 2): """
void Train(const Reader& records, const std::shared_ptr<const Parser>& parser, std::string saved) {
  Instance batch;
  %s
}""",
    ("docs/PROGRAMS.md", 0): "void Run() {\n%s }",
    ("docs/PROGRAMS.md", 1): "void Register() {\n%s }",
    ("docs/TUNING.md", 0): "void Open(const std::vector<std::string>& files) {\n%s }",
}
BEGIN = """
#include "ringfeed/compat/program.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/ringfeed.h"
using namespace ringfeed;
template <typename... Parts> double TrainStep(const Parts&...) { return 0; }
"""


def pieces():
    """(page, number, text) of each piece in a guide."""
    for path in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]):
        page = path.relative_to(ROOT).as_posix()
        for number, found in enumerate(FENCE.finditer(path.read_text(encoding="utf-8"))):
            if number > 0 or page not in BUILT:
                yield page, number, found[2]


class PagePrograms(unittest.TestCase):
    def test_each_piece_compiles(self):
        seen = set()
        for page, number, text in pieces():
            with self.subTest(page=page, number=number):
                self.assertIn((page, number), AROUND, "say what this piece takes for granted")
                seen.add((page, number))
                done = subprocess.run(
                    [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                     "-Wno-unused-variable", "-Wno-unused-but-set-variable", f"-I{ROOT}/include", "-x", "c++", "-"],
                    input=BEGIN + AROUND[page, number] % text, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(seen, AROUND.keys())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
