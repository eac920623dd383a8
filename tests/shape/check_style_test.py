#!/usr/bin/env python3
"""clang-tidy, as .clang-tidy configures it, reports what breaks the rules and nothing else."""

import pathlib
import re
import runpy
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / ".clang-tidy"
TIDY = runpy.run_path(str(ROOT / "scripts" / "style"))["clang_tidy"]()


def findings(source):
    """The names of the checks that fire on `source`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "source.cc")
        path.write_text(source)
        done = subprocess.run(
            [TIDY, "-quiet", f"--config-file={CONFIG}", path, "--", "-std=c++20"],
            capture_output=True, text=True)
    return re.findall(r"\[([a-z-]+),-warnings-as-errors\]", done.stdout)


def function_of(lines):
    return "int Count(int number) {\n" + "  ++number;\n" * (lines - 1) + "  return number;\n}\n"


class StyleTest(unittest.TestCase):
    def test_names_as_the_project_writes_them_pass(self):
        self.assertEqual(findings("""
            inline constexpr int kLimit = 3;
            enum class Answer { kYes, kNo };
            template <typename Item> struct Box { Item item; };
            class Counter {
             public:
              bool ok() const { return count_ < kLimit; }
              int Next() { return ++count_; }
             private:
              int count_ = 0;
            };
            int Sum(int first, int second) { const int sum = first + second; return sum; }
            """), [])

    def test_names_of_another_style_are_reported(self):
        for line in [
            "class counter {};",
            "void do_it() {}",
            "int Sum(int firstNumber) { return firstNumber; }",
            "class Counter { int count = 0; };",
            "struct Point { int x_; };",
            "enum class Answer { yes };",
            "constexpr int limit = 3;",
            "namespace Feed {}",
            "#define ANSWER 42",
        ]:
            self.assertEqual(findings(line), ["readability-identifier-naming"], line)

    def test_a_function_of_sixty_lines_passes_and_a_longer_one_is_reported(self):
        self.assertEqual(findings(function_of(59)), [])
        self.assertEqual(findings(function_of(61)), ["readability-function-size"])

    def test_an_implicit_constructor_is_reported(self):
        self.assertEqual(findings("class Limit { public: Limit(int bytes); };"), ["google-explicit-constructor"])


if __name__ == "__main__":
    unittest.main()
