#!/usr/bin/env python3
"""What scripts/changed_tests.py says of changes in a small project."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "changed_tests.py"
FILES = {
    "base/word.h": "",
    "base/word.cc": '#include "base/word.h"\n',
    "include/ringfeed/page.h": '#include "base/word.h"\n',
    "readers/page.cc": '#include "ringfeed/page.h"\n',
    "tools/main.cc": '#include <cstdio>\n#include "tools/main.h"\n#include "ringfeed/page.h"\n',
    "tools/main.h": "",
    "python/src/module.cc": '#include "ringfeed/page.h"\n',
    "tests/base/word_test.cc": '#include "base/word.h"\n',
    "tests/readers/page_test.cc": '#include "ringfeed/page.h"\n#include "fixture.h"\n',
    "tests/readers/fixture.h": "",
    "tests/tools/feed_test.py": "",
    "docs/PAGE.md": "",
    "cmake/Compile.cmake": "",
}
PROGRAMS = {
    "word_tests": "tests/base/word_test.cc",
    "page_tests": "tests/readers/page_test.cc",
    "ringfeed_command": "tools/main.cc",
}


class ChangedTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name, text in FILES.items():
            self.write(name, text)
        build = self.root / "build"
        build.mkdir()
        (build / "compile_commands.json").write_text(json.dumps([
            {"file": str(self.root / source), "command": f"c++ -o x/CMakeFiles/{target}.dir/a.o -c a"}
            for target, source in PROGRAMS.items()]))
        self.write(".gitignore", "build\n")
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b",
                                                     "commit", "-qm", "first"]):
            subprocess.run(["git", *words], cwd=self.root, check=True)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_after(self, *changed):
        for name in changed:
            self.write(name, FILES.get(name, "") + "\n")
        done = subprocess.run([sys.executable, SCRIPT, "build", "HEAD"], cwd=self.root, check=True,
                              capture_output=True, text=True)
        targets, expression, python = done.stdout.split("\n")[:3]
        return targets.split(), expression, python

    def test_a_header_reaches_all_that_includes_it(self):
        targets, expression, python = self.run_after("base/word.h")
        self.assertEqual(targets, ["page_tests", "ringfeed_command", "word_tests"])
        self.assertIn(r"word_tests\.", expression)
        self.assertEqual(python, "python")

    def test_a_source_reaches_what_includes_its_header(self):
        targets, _, _ = self.run_after("readers/page.cc")
        self.assertEqual(targets, ["page_tests", "ringfeed_command"])

    def test_a_test_reaches_itself(self):
        targets, expression, python = self.run_after("tests/readers/fixture.h")
        self.assertEqual(targets, ["page_tests"])
        self.assertNotIn("word_tests", expression)
        self.assertEqual(python, "")

    def test_a_script_that_runs_the_command_needs_it(self):
        targets, expression, _ = self.run_after("tests/tools/feed_test.py")
        self.assertEqual(targets, ["ringfeed_command"])
        self.assertIn(r"tools\.", expression)

    def test_words_reach_the_shape_of_the_project_alone(self):
        targets, expression, python = self.run_after("docs/PAGE.md")
        self.assertEqual((targets, expression, python), ([], r"^(shape\.)", ""))

    def test_a_new_file_counts_before_it_is_added(self):
        self.write("tests/readers/page_test.cc", '#include "tests/readers/new.h"\n')
        self.assertEqual(self.run_after("tests/readers/new.h")[0], ["page_tests"])

    def test_what_builds_everything_reaches_everything(self):
        self.assertEqual(self.run_after("cmake/Compile.cmake"), (["*"], "*", "python"))


if __name__ == "__main__":
    unittest.main()
