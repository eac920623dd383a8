#!/usr/bin/env python3
"""docs/PORTING.md: its program runs, and a reader with Paddle's methods does not compile.

porting_test.py PROGRAM COMPILER INCLUDE
"""

import re
import subprocess
import sys
import unittest

PROGRAM, COMPILER, INCLUDE = sys.argv[1:]

SOURCE = """
#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/file_reader.h"

using ringfeed::Instance;
using ringfeed::ReadResult;
using ringfeed::Status;

class Ported : public ringfeed::%s {
 public:
  using %s::%s;
  %s
  %s
};
"""
READ_NEXT = """ReadResult ReadNext(Instance* out, std::stop_token stop, Status* status) override {
    return ReadInput(out, stop, status);
  }"""
METHODS = {
    "protected: void ReadNextImpl(std::vector<ringfeed::Tensor>* out) override {}":
        "OverrideReadNextOfInstanceSourceInstead",
    "bool HasNext() const override { return true; }": "ReturnKEndFromReadNextInstead",
    "void Start() override {}": "OverrideReInitInstead",
    "protected: void StartImpl() override {}": "OverrideReInitInstead",
    "void Shutdown() override {}": "EndInTheDestructorInstead",
    "void ShutdownImpl() {}": "EndInTheDestructorInstead",
    # What the class has by another return type is named by the compiler itself.
    "void ReInit() override {}": r"bool ringfeed::DecoratedReader::ReInit|has return type 'bool'",
}


def compile_reader(method, base="DecoratedReader", read_next=READ_NEXT):
    """The result of a reader with that method, and what the compiler said of it."""
    source = SOURCE % (base, base, base, method, read_next)
    result = subprocess.run(
        [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-x", "c++", "-"],
        input=source, capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return result.returncode, result.stderr


class Porting(unittest.TestCase):
    def test_the_program_of_the_document_reads_two_passes(self):
        result = subprocess.run([PROGRAM], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, "pass 1: 22.5\npass 2: 22.5\n"), result.stderr)

    def test_a_reader_without_paddles_methods_compiles(self):
        self.assertEqual(compile_reader("bool ReInit() override { return true; }"), (0, ""))

    def test_every_method_of_paddles_is_refused_by_what_to_write_instead(self):
        status, said = compile_reader("\n public: ".join(METHODS))
        self.assertNotEqual(status, 0)
        for method, wanted in METHODS.items():
            with self.subTest(method):
                name = method.split("(")[0].split()[-1]
                lines = [line for line in said.splitlines() if re.search(wanted, line)]
                self.assertTrue([line for line in lines if name in line], said)

    def test_without_a_read_next_the_one_to_write_is_named(self):
        method = "void ReadNext(std::vector<ringfeed::Tensor>* out) override {}"
        status, said = compile_reader(method, read_next="};\nstruct Made { Ported reader{ringfeed::Reader()};")
        self.assertNotEqual(status, 0)
        self.assertRegex(said, r"ReadNext\(.*Instance ?\*, std::stop_token, .*Status ?\*\)|pure virtual.*'ReadNext'")

    def test_paddles_base_class_is_not_the_one_to_derive_from(self):
        method = "protected: void ReadNextImpl(std::vector<ringfeed::Tensor>* out) override {}"
        status, said = compile_reader(method, "ReaderBase", "")
        self.assertNotEqual(status, 0)
        self.assertIn("OverrideReadNextOfInstanceSourceInstead", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
