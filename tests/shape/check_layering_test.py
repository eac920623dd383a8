#!/usr/bin/env python3
"""The layering check reports each kind of violation, and nothing else."""

import pathlib
import tempfile
import unittest

import check_layering

TABLE = """
## Who may include whom

| folder | may include | public headers at home there |
|---|---|---|
| `tests/` | everything below | |
| `tools/run/` | `tools/show/`, `tools/`, the library | |
| `tools/show/`, `tools/tell/` | `tools/` | |
| `tools/` | the library | |
| `bench/` | the library | |
| `examples/`, public headers alone | | |
| `python/` | | |
| `gpu/feed/` | `base/`, `gpu/`, `readers/` | `device_feed.h` |
| `gpu/` | `base/` | |
| `readers/` | `base/`, `readers/formats/` | `reader.h` |
| `readers/formats/` | `base/` | |
| `base/` | | `status.h`, `tensor.h`, `queue/ring.h` |
"""
EXCEPTIONS = """
Exceptions:

| who | includes | because |
|---|---|---|
"""
UNUSED = "and nothing there includes it"
HEADERS = ["status.h", "tensor.h", "queue/ring.h", "reader.h", "device_feed.h"]


class LayeringTest(unittest.TestCase):
    def violations(self, files, table=TABLE, exceptions=()):
        """All but names of rows that nobody uses: these trees are small."""
        return [each for each in self.all_violations(files, table, exceptions) if UNUSED not in each]

    def all_violations(self, files, table=TABLE, exceptions=()):
        rows = "".join(f"| `{who}` | `{what}` | {why} |\n" for who, what, why in exceptions)
        tree = {f"include/ringfeed/{header}": "" for header in HEADERS}
        tree |= {"include/ringfeed/CMakeLists.txt": " ".join(HEADERS), "docs/HEADERS.md": " ".join(HEADERS)}
        tree |= {"docs/ARCHITECTURE.md": table + EXCEPTIONS + rows + "\n## Order\n\n| `x` | `y` | z |\n"}
        with tempfile.TemporaryDirectory() as root:
            for name, text in (tree | files).items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layering.check_tree(pathlib.Path(root))

    def assert_fails(self, name, line, words=""):
        found = self.violations({name: f"// first line\n{line}\n"})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:2: "), found[0])
        self.assertIn(words, found[0])

    def assert_passes(self, name, line):
        self.assertEqual(self.violations({name: line + "\n"}), [])

    def assert_table_fails(self, old, new, words):
        found = self.violations({}, table=TABLE.replace(old, new))
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("docs/ARCHITECTURE.md:"), found[0])
        self.assertIn(words, found[0])

    def test_a_folder_includes_itself_and_what_its_row_names(self):
        for name in ["base/a.cc", "gpu/a.cu", "readers/formats/a.h", "readers/formats/deep/a.cc"]:
            self.assert_passes(name, '#include "base/a.h"')
            self.assert_passes(name, '#include "ringfeed/status.h"')
            self.assert_passes(name, "#include <vector>")
        self.assert_passes("readers/graph.cc", '#include "readers/formats/a.h"')
        self.assert_passes("readers/formats/a.cc", '#include "readers/formats/deep/a.h"')
        self.assert_passes("gpu/feed/a.cc", '#include "gpu/a.h"')

    def test_nothing_includes_upward(self):
        for name, target in [("base/a.h", "readers/a.h"), ("base/a.h", "readers/formats/a.h"),
                             ("readers/a.cc", "gpu/a.h"), ("gpu/a.cc", "gpu/feed/a.h")]:
            self.assert_fails(name, f'#include "{target}"')
            self.assert_fails(name, f'  #  include "{target}"')

    def test_what_stands_below_and_is_not_named_must_not_be_included(self):
        self.assert_fails("gpu/a.cc", '#include "readers/a.h"')
        self.assert_fails("gpu/feed/a.cc", '#include "readers/formats/a.h"')

    def test_an_include_of_who_includes_it_is_reported_as_mutual(self):
        self.assert_fails("readers/formats/a.cc", '#include "readers/a.h"', "which includes readers/formats/")

    def test_a_public_header_counts_as_the_folder_where_it_is_at_home(self):
        self.assert_passes("gpu/feed/a.cc", '#include "ringfeed/reader.h"')
        self.assert_fails("gpu/a.cc", '#include "ringfeed/reader.h"', "at home in readers/")
        self.assert_fails("readers/formats/a.cc", '#include "ringfeed/reader.h"')
        self.assert_fails("readers/a.cc", '#include "ringfeed/device_feed.h"', "at home in gpu/feed/")
        self.assert_fails("base/a.cc", "#include <ringfeed/reader.h>")

    def test_a_public_header_in_a_folder_is_named_with_it(self):
        self.assert_passes("gpu/a.cc", '#include "ringfeed/queue/ring.h"')
        found = self.violations({"include/ringfeed/queue/ring.h": '#include "ringfeed/reader.h"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertIn("at home in readers/", found[0])
        found = self.violations({"include/ringfeed/queue/status.h": ""})
        self.assertEqual(len(found), 3, found)
        self.assertTrue(found[0].startswith("include/ringfeed/queue/status.h:1: not listed"), found)

    def test_public_headers_keep_to_the_rows_of_their_homes(self):
        line = '#include <span>\n#include "ringfeed/status.h"\n'
        self.assertEqual(self.violations({"include/ringfeed/reader.h": line}), [])
        found = self.violations({"include/ringfeed/reader.h": '#include "ringfeed/device_feed.h"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("include/ringfeed/reader.h:1: "), found)

    def test_a_folder_without_a_row_is_reported(self):
        self.assertEqual(len(self.violations({"readers/new/a.cc": ""})), 1)
        self.assertEqual(len(self.violations({"io/a.cc": ""})), 1)
        self.assertEqual(len(self.violations({"tools/new/a.cc": ""})), 1)
        self.assertEqual(self.violations({"bench/new/a.cc": '#include "gpu/feed/a.h"\n'}), [])

    def test_the_table_names_nothing_above_and_nothing_twice(self):
        self.assert_table_fails("| `gpu/` | `base/` |", "| `gpu/` | `base/`, `gpu/feed/` |",
                                "would include each other")
        self.assert_table_fails("| `base/` | | `s", "| `base/` | `readers/formats/` | `s",
                                "would include each other")
        self.assert_table_fails("| `base/` | | `s", "| `base/` | `gpu/feed/` | `s", "would include each other")
        self.assert_table_fails("| `gpu/` | `base/` |", "| `gpu/` | `base/`, `tools/` |", "not stand below")
        self.assert_table_fails("| `gpu/` | `base/` |", "| `gpu/` | `base/`, `odd/` |", "has no row")
        self.assert_table_fails("`status.h`,", "`status.h`, `reader.h`,", "two homes")

    def test_a_missing_table_is_reported(self):
        self.assertIn("there is no", self.violations({}, table="# Architecture\n")[0])

    def test_folders_of_the_first_level_do_not_include_each_other(self):
        table = TABLE.replace("| `gpu/feed/`", "| `readers/program/` | `gpu/feed/` | |\n| `gpu/feed/`")
        files = {"gpu/feed/a.cc": '#include "readers/a.h"\n',
                 "readers/program/a.cc": '#include "gpu/feed/a.h"\n'}
        found = self.violations(files, table=table)
        self.assertEqual(len(found), 1, found)
        self.assertIn("gpu/ and readers/ include each other", found[0])

    def test_folders_of_a_program_keep_to_their_rows(self):
        for name, target in [("tools/run/a.cc", "tools/show/a.h"), ("tools/run/a.cc", "tools/a.h"),
                             ("tools/run/a.cc", "gpu/feed/a.h"), ("tools/show/a.cc", "tools/a.h"),
                             ("tools/a.cc", "base/a.h"), ("tests/tools/a.cc", "tools/run/a.h")]:
            self.assert_passes(name, f'#include "{target}"')
        self.assert_fails("tools/show/a.cc", '#include "tools/run/a.h"', "includes tools/show/")
        self.assert_fails("tools/a.cc", '#include "tools/run/a.h"', "which includes tools/")
        self.assert_fails("tools/show/a.cc", '#include "base/a.h"')
        self.assert_fails("bench/a.cc", '#include "tools/run/a.h"')
        self.assert_fails("base/a.cc", '#include "tools/run/a.h"')
        self.assert_table_fails("tell/` | `tools/` |", "tell/` | `tools/`, `tools/tell/` |",
                                "names tools/tell/, which does not stand below it")

    def test_folders_of_one_row_do_not_include_each_other(self):
        self.assert_passes("tools/tell/a.cc", '#include "tools/a.h"')
        self.assert_fails("tools/tell/a.cc", '#include "tools/show/a.h"')
        self.assert_fails("tools/show/a.cc", '#include "tools/tell/a.h"')

    def test_folders_that_share_a_row_do_not_include_each_other(self):
        one = {"readers/formats/tar/a.cc": '#include "readers/formats/text/a.h"\n'}
        self.assertEqual(self.violations(one), [])
        back = {"readers/formats/text/deep/b.h": '#include "readers/formats/tar/b.h"\n'}
        found = self.violations(one | back)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("readers/formats/tar/a.cc:1: "), found)
        self.assertIn("readers/formats/tar/ and readers/formats/text/ include each other", found[0])

    def test_the_root_of_a_row_and_what_is_beneath_it_may_include_each_other(self):
        files = {"readers/formats/tar/a.cc": '#include "readers/formats/format.h"\n',
                 "readers/formats/format.cc": '#include "readers/formats/tar/a.h"\n'}
        self.assertEqual(self.violations(files), [])

    def test_a_name_of_a_row_that_nothing_there_uses_is_reported(self):
        files = {"readers/a.cc": '#include "base/a.h"\n#include "readers/formats/a.h"\n',
                 "readers/formats/deep/a.cc": '#include "ringfeed/status.h"\n',
                 "gpu/a.cc": '#include "base/a.h"\n',
                 "include/ringfeed/device_feed.h": '#include "ringfeed/reader.h"\n',
                 "gpu/feed/a.cc": '#include "base/a.h"\n#include "gpu/a.h"\n',
                 "tools/run/a.cc": '#include "tools/show/a.h"\n#include "tools/a.h"\n',
                 "tools/tell/a.cc": '#include "tools/a.h"\n'}  # for tools/show/ as well
        self.assertEqual(self.all_violations(files), [])
        for name, folder, below in [("gpu/a.cc", "gpu", "base"), ("tools/tell/a.cc", "tools/show", "tools"),
                                    ("readers/formats/deep/a.cc", "readers/formats", "base"),
                                    ("include/ringfeed/device_feed.h", "gpu/feed", "readers")]:
            found = self.all_violations({**files, name: ""})
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith("docs/ARCHITECTURE.md:"), found[0])
            self.assertTrue(found[0].endswith(f"{folder}/ names {below}/, {UNUSED}"), found[0])

    def test_an_exception_lets_one_include_pass(self):
        files = {"base/a.cc": '#include "readers/a.h"\n', "base/b.cc": '#include "readers/a.h"\n'}
        for who, what in [("base/a.cc", "readers/a.h"), ("base/a.cc", "readers/")]:
            found = self.violations(files, exceptions=[(who, what, "why")])
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith("base/b.cc:1: "), found)
        self.assertEqual(self.violations(files, exceptions=[("base/", "readers/a.h", "why")]), [])

    def test_an_exception_that_nothing_needs_is_reported(self):
        found = self.violations({}, exceptions=[("base/a.cc", "readers/a.h", "why")])
        self.assertEqual(len(found), 1, found)
        self.assertIn("needs no exception", found[0])

    def test_an_exception_has_a_reason(self):
        found = self.violations({"base/a.cc": '#include "readers/a.h"\n'},
                                exceptions=[("base/a.cc", "readers/a.h", "")])
        self.assertEqual(len(found), 1, found)
        self.assertIn("needs its reason", found[0])

    def test_the_library_includes_no_program_and_no_test(self):
        for folder in ["tools", "tests"]:
            self.assert_fails("base/a.cc", f'#include "{folder}/a.h"')
        for folder in ["tests", "bench", "examples"]:
            self.assert_fails("tools/a.cc", f'#include "{folder}/a.h"')
        self.assert_fails("bench/a.cc", '#include "tools/a.h"')
        self.assert_passes("bench/a.cc", '#include "gpu/feed/a.h"')

    def test_examples_and_the_python_module_stand_on_the_public_headers_alone(self):
        self.assert_passes("python/src/a.cc", '#include "ringfeed/reader.h"')
        self.assert_passes("python/src/a.cc", '#include "a.h"')
        self.assert_passes("python/src/a.cc", "#include <nanobind/stl/string.h>")
        self.assert_passes("examples/a.cc", '#include "examples/a.h"')
        for folder in ["base", "readers", "gpu", "tools"]:
            self.assert_fails("python/src/a.cc", f'#include "{folder}/a.h"')
            self.assert_fails("examples/a.cc", f'#include "{folder}/a.h"')

    def test_public_headers_include_public_and_standard_headers_only(self):
        for line in ['#include "base/a.h"', "#include <liburing.h>", "#include <sys/uio.h>"]:
            found = self.violations({"include/ringfeed/reader.h": line})
            self.assertEqual(len(found), 1, found)

    def test_a_public_header_that_is_not_listed_or_has_no_home_is_reported(self):
        listed = {"include/ringfeed/CMakeLists.txt": " ".join(HEADERS), "docs/HEADERS.md": "new.h " * 2 +
                  " ".join(HEADERS)}
        found = self.violations(listed | {"include/ringfeed/new.h": ""})
        self.assertEqual(len(found), 2, found)
        self.assertEqual(found[0], "include/ringfeed/new.h:1: not listed in include/ringfeed/CMakeLists.txt")
        self.assertIn("is its home", found[1])

    def test_more_headers_than_a_training_loop_needs_are_reported(self):
        for count, wrong in [(check_layering.MOST_IN_ROOT, 0), (check_layering.MOST_IN_ROOT + 1, 1)]:
            names = [f"h{number}.h" for number in range(count - len([name for name in HEADERS if "/" not in name]))]
            listed = " ".join(HEADERS + names)
            table = TABLE.replace("`status.h`,", "`status.h`, " + "".join(f"`{name}`, " for name in names))
            files = {f"include/ringfeed/{name}": "" for name in names}
            files |= {"include/ringfeed/CMakeLists.txt": listed, "docs/HEADERS.md": listed}
            self.assertEqual(len(self.violations(files, table=table)), wrong)

    def test_a_home_of_a_header_that_is_not_there_is_reported(self):
        self.assert_table_fails("`status.h`,", "`status.h`, `gone.h`,", "is not there")

    def test_includes_are_written_from_the_root(self):
        self.assert_fails("base/a.cc", '#include "a.h"')
        self.assert_fails("base/a.cc", '#include "../queue/a.h"')
        self.assert_fails("base/a.cc", "#include <base/a.h>")
        self.assert_fails("base/a.cc", '#include "include/ringfeed/status.h"')

    def test_what_protobuf_generates_has_no_path(self):
        self.assert_passes("tests/readers/a_test.cc", '#include "example.pb.h"')

    def test_comments_and_other_lines_are_not_includes(self):
        self.assert_passes("base/a.cc", '// #include "readers/a.h"')

    def test_tests_see_everything(self):
        self.assert_passes("tests/base/a_test.cc", '#include "readers/a.h"')


if __name__ == "__main__":
    unittest.main()
