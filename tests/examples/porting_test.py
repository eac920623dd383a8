#!/usr/bin/env python3
"""docs/PORTING.md: its program runs, and a reader with Paddle's methods does not compile.

porting_test.py PROGRAM COMPILER INCLUDE
"""

import atexit
import functools
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, COMPILER, INCLUDE = sys.argv[1:]
FLAGS = ["-std=c++20", "-fsyntax-only"]
WARNINGS = ["-Wall", "-Wextra", "-Woverloaded-virtual", "-Werror"]

HEADERS = """
#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/compat/ported.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/file_reader.h"

using ringfeed::Instance;
using ringfeed::ReadResult;
using ringfeed::Status;
using ringfeed::Tensor;
struct PaddlesTensor {};
"""
CONSTRUCTORS = {  # a reader's, and what it is made with
    "InstanceSource": ("", ""),
    "DecoratedReader": ("using Ported::Ported;", "ringfeed::Reader()"),
    "FileReader": ("using Ported::Ported;", '"file", std::vector<ringfeed::SlotSpec>()'),
    "ReaderBase": ("", ""),
}
READ_NEXT = "ReadResult ReadNext(Instance*, std::stop_token, Status*) override { return ReadResult::kEnd; }"
REQUIRED = {  # what each base class asks for
    "InstanceSource": READ_NEXT,
    "DecoratedReader": READ_NEXT,
    "FileReader": "bool ReadNextImpl(Instance*) override { return false; }",
    "ReaderBase": "",
}
BESIDES = {  # what one may write besides
    "InstanceSource": "bool ReInit() override { return true; } using InstanceSource::slots;",
    "DecoratedReader": "bool ReInit() override { return true; } using InstanceSource::ReadNext;",
    "FileReader": "bool ReInitImpl() override { return true; } using Ported::ReadNextImpl;"
                  "using InstanceSource::ReadNext;",
    "ReaderBase": "using ReaderBase::ReadNext;",
}

READS = [
    "void ReadNext(std::vector<Tensor>* out) override {}",
    "void ReadNext(std::vector<Tensor>* out) {}",
    "bool ReadNext(std::vector<Tensor>* out) override { return false; }",
    "void ReadNext(std::vector<Instance>* out) override {}",
    "void ReadNext(Instance* out) override {}",
    "ReadResult ReadNext(Instance* out) { return ReadResult::kEnd; }",
    "protected: void ReadNextImpl(std::vector<Tensor>* out) override {}",
    "protected: void ReadNextImpl(std::vector<Tensor>* out) {}",
    "protected: void ReadNextImpl(std::vector<Instance>* out) override {}",
]
STARTS = ["void Start() override {}", "protected: void StartImpl() override {}", "void StartImpl() {}"]
ENDS = ["void Shutdown() override {}", "protected: void ShutdownImpl() override {}", "void ShutdownImpl() {}"]
HAS_NEXT = ["bool HasNext() const override { return true; }", "bool HasNext() const { return true; }"]


def instead(read_next, has_next, start):
    """By each of Paddle's methods, what the compiler is to name."""
    return {**dict.fromkeys(READS, read_next), **dict.fromkeys(HAS_NEXT, has_next),
            **dict.fromkeys(STARTS, start), **dict.fromkeys(ENDS, "EndInTheDestructorInstead")}


SOURCE_INSTEAD = instead("OverrideReadNextOfInstanceSourceInstead", "ReturnKEndFromReadNextInstead",
                         "OverrideReInitInstead")
FILE_INSTEAD = instead("OverrideReadNextImplOfFileReaderInstead", "ReturnFalseFromReadNextImplInstead",
                       "OverrideReInitImplInstead")
RE_INIT = "void ReInit() override {}"
INSTEAD = {
    # What the class has by another return type is named by the compiler itself.
    "InstanceSource": {**SOURCE_INSTEAD, RE_INIT: r"bool ringfeed::InstanceSource::ReInit|'bool'"},
    "DecoratedReader": {**SOURCE_INSTEAD, RE_INIT: r"bool ringfeed::DecoratedReader::ReInit|'bool'"},
    "FileReader": {**FILE_INSTEAD, RE_INIT: r"bool ringfeed::FileReader::ReInit|'bool'"},
    "ReaderBase": SOURCE_INSTEAD,
}

#: With a tensor of which ringfeed knows nothing the class stays without what it must have.
UNKNOWN = ["void {}(std::vector<PaddlesTensor>* out) override {{}}", "void {}(std::vector<PaddlesTensor>* out) {{}}"]
READ_NEXT_OF_SOURCE = r"ReadResult .*ReadNext\(.*Instance ?\*.*, std::stop_token.*, .*Status ?\*.*\)"
WANTED = {
    "InstanceSource": READ_NEXT_OF_SOURCE,
    "DecoratedReader": READ_NEXT_OF_SOURCE,
    "FileReader": r"bool .*ReadNextImpl\(.*Instance ?\*.*\)",
}


def run(compiler, source, *flags):
    """The result of the compiler, and what it said."""
    result = subprocess.run([compiler, *FLAGS, *flags, f"-I{INCLUDE}", "-x", "c++", "-"], input=source,
                            capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return result.returncode, result.stderr


def compilers():
    """That of the build, and the others here that know the language."""
    found = {pathlib.Path(shutil.which(COMPILER)).resolve(): COMPILER}
    for other in filter(None, map(shutil.which, ("g++", "clang++"))):
        if run(other, "#include <span>\n#include <stop_token>\nstd::span<std::stop_token> tokens;")[0] == 0:
            found.setdefault(pathlib.Path(other).resolve(), other)
    return list(found.values())


@functools.cache
def headers_of(compiler):
    """What has the compiler know the headers without reading them again, and tell every error."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = pathlib.Path(folder, "headers.h")
    path.write_text(HEADERS)
    subprocess.run([compiler, "-std=c++20", f"-I{INCLUDE}", "-x", "c++-header", path, "-o", f"{path}.gch"], check=True)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return ["-include-pch", f"{path}.gch", "-ferror-limit=0"] if "clang" in version else ["-include", str(path)]


def errors_of(compiler, base, all_methods):
    """What the compiler says of readers with these methods, whatever their number."""
    return run(compiler, "".join(map(reader, itertools.repeat(base), itertools.count(), all_methods)),
               *headers_of(compiler))


def bases(base):
    """What a reader for `base` derives from while it is ported; of handles the class itself."""
    return f"ringfeed::{base}" if base == "ReaderBase" else f"ringfeed::Ported<ringfeed::{base}>"


def reader(base, number, methods):
    """A class whose errors are in the file `number`, and one of it that is made."""
    constructor, arguments = CONSTRUCTORS[base]
    return (f'#line 1 "reader{number}"\nclass Reader{number} : public {bases(base)} {{ public: {constructor}\n'
            f"{methods} }};\nauto* Make{number}() {{ return new Reader{number}({arguments}); }}\n")


def told(said, number, lines):
    """What stands in and below the first error in a reader's file, and each later one."""
    every = [line for line in said.splitlines() if not re.match("In file included| *from ", line)]
    places = [place for place, line in enumerate(every) if re.match(rf"reader{number}:.* error: ", line)]
    return ["\n".join(every[place:place + lines]) for place in places]


class Program(unittest.TestCase):
    def test_the_program_of_the_document_reads_two_passes(self):
        result = subprocess.run([PROGRAM], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, "pass 1: 22.5\npass 2: 22.5\n"), result.stderr)


@unittest.skipIf(os.environ.get("RINGFEED_SANITIZER"), "compilers say the same whatever is built")
class Porting(unittest.TestCase):
    def test_a_reader_without_paddles_methods_compiles_without_a_warning(self):
        source = HEADERS + "".join(reader(base, number, REQUIRED[base] + BESIDES[base])
                                   for number, base in enumerate(REQUIRED))
        source += "ringfeed::Instance Read(ringfeed::ReaderBase& one) { return one.ReadNext(); }"
        for compiler in compilers():
            self.assertEqual(run(compiler, source, *WARNINGS), (0, ""), compiler)

    def test_every_method_of_paddles_is_refused_by_what_to_write_instead(self):
        for base, methods in INSTEAD.items():
            for compiler in compilers():
                _, said = errors_of(compiler, base, [REQUIRED[base] + "\n" + method for method in methods])
                for number, (method, wanted) in enumerate(methods.items()):
                    with self.subTest(compiler=compiler, base=base, method=method):
                        self.assertRegex(told(said, number, 5)[0], wanted)

    def test_with_a_tensor_of_the_users_own_the_method_to_write_is_named(self):
        for base, wanted in WANTED.items():
            methods = [line.format(name) for line in UNKNOWN for name in ("ReadNext", "ReadNextImpl")]
            for compiler in compilers():
                _, said = errors_of(compiler, base, methods)
                for number, method in enumerate(methods):
                    with self.subTest(compiler=compiler, base=base, method=method):
                        self.assertRegex("\n".join(told(said, number, 6)), wanted)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
