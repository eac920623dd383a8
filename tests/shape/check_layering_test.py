#!/usr/bin/env python3
"""The layering check reports each kind of violation, and nothing else."""

import pathlib
import tempfile
import unittest

import check_layering


class LayeringTest(unittest.TestCase):
    def violations(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layering.check_tree(pathlib.Path(root))

    def assert_fails(self, name, line):
        found = self.violations({name: f"// first line\n{line}\n"})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:2: "), found[0])

    def assert_passes(self, name, line):
        self.assertEqual(self.violations({name: line + "\n"}), [])

    def test_a_folder_includes_itself_what_is_below_and_the_public_headers(self):
        for name in ["base/a.cc", "queue/a.h", "io/a.cc", "readers/formats/a.cc", "gpu/a.cc"]:
            self.assert_passes(name, '#include "base/a.h"')
            self.assert_passes(name, '#include "ringfeed/status.h"')
            self.assert_passes(name, "#include <vector>")
        self.assert_passes("readers/graph.cc", '#include "io/a.h"')
        self.assert_passes("readers/graph.cc", '#include "readers/formats/a.h"')

    def test_base_includes_no_other_layer(self):
        for layer in ["queue", "io", "readers", "gpu"]:
            self.assert_fails("base/a.h", f'#include "{layer}/a.h"')

    def test_queue_includes_base_alone(self):
        for layer in ["io", "readers", "gpu"]:
            self.assert_fails("queue/a.cc", f'#include "{layer}/a.h"')

    def test_io_includes_nothing_above(self):
        self.assert_fails("io/a.cc", '#include "readers/a.h"')
        self.assert_fails("io/a.cc", '  #  include "gpu/a.h"')

    def test_readers_never_include_gpu(self):
        self.assert_fails("readers/decorators/a.cc", '#include "gpu/a.h"')

    def test_gpu_includes_neither_io_nor_readers(self):
        self.assert_fails("gpu/a.cc", '#include "io/a.h"')
        self.assert_fails("gpu/a.cc", '#include "readers/a.h"')
        self.assert_fails("gpu/a.cu", '#include "readers/a.h"')

    def test_the_library_includes_no_program_and_no_test(self):
        for folder in ["tools", "bench", "tests"]:
            self.assert_fails("base/a.cc", f'#include "{folder}/a.h"')
        self.assert_fails("tools/a.cc", '#include "tests/support/a.h"')

    def test_the_python_module_stands_on_the_public_headers_alone(self):
        self.assert_passes("python/src/a.cc", '#include "ringfeed/reader.h"')
        self.assert_passes("python/src/a.cc", '#include "a.h"')
        self.assert_passes("python/src/a.cc", "#include <nanobind/stl/string.h>")
        for folder in ["base", "readers", "gpu", "tools"]:
            self.assert_fails("python/src/a.cc", f'#include "{folder}/a.h"')

    def test_public_headers_include_public_and_standard_headers_only(self):
        listed = {"include/ringfeed/CMakeLists.txt": "a.h b.h", "README.md": "a.h b.h"}
        self.assertEqual(
            self.violations(
                listed | {"include/ringfeed/a.h": '#include <span>\n#include "ringfeed/b.h"\n'}
            ),
            [],
        )
        for line in ['#include "base/a.h"', "#include <liburing.h>", "#include <sys/uio.h>"]:
            self.assertEqual(len(self.violations(listed | {"include/ringfeed/a.h": line})), 1)

    def test_a_public_header_that_is_not_listed_is_reported(self):
        listed = {"include/ringfeed/CMakeLists.txt": "a.h", "README.md": "`a.h` `b.h`"}
        found = self.violations(listed | {"include/ringfeed/b.h": ""})
        self.assertEqual(found, ["include/ringfeed/b.h:1: not listed in include/ringfeed/CMakeLists.txt"])

    def test_includes_are_written_from_the_root(self):
        self.assert_fails("base/a.cc", '#include "a.h"')
        self.assert_fails("base/a.cc", '#include "../queue/a.h"')
        self.assert_fails("io/a.cc", "#include <base/a.h>")
        self.assert_fails("io/a.cc", '#include "include/ringfeed/status.h"')

    def test_what_protobuf_generates_has_no_path(self):
        self.assert_passes("tests/readers/a_test.cc", '#include "example.pb.h"')

    def test_comments_and_other_lines_are_not_includes(self):
        self.assert_passes("base/a.cc", '// #include "readers/a.h"')

    def test_tests_see_everything(self):
        self.assert_passes("tests/base/a_test.cc", '#include "readers/a.h"')


if __name__ == "__main__":
    unittest.main()
