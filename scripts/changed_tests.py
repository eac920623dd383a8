#!/usr/bin/env python3
"""Which tests a change can reach, for scripts/test --changed.

changed_tests.py BUILD [BASE]: compares the working tree with the commit BASE, by default the last one
that the branch shares with origin/main, main or HEAD. Prints three lines: the targets to build, an
expression for ctest -R, and "python" if the Python package's tests are reached, else an empty line. The
first two are "*" if all tests are reached.

A program reaches a source if the includes lead there from its own sources, and from each header to the
sources whose first include it is. Tests that run the command reach what that is made of.
"""

import functools
import json
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
#: A change here may reach everything.
ALL = re.compile(r"^(CMakeLists\.txt|CMakePresets\.json|cmake/|scripts/(test|packages)$|tests/CMakeLists\.txt)")
#: Here a source begins with the header of what it defines.
LIBRARY = ("base/", "io/", "queue/", "readers/", "gpu/", "metrics/", "tools/")
#: Tests that run the command, by the folder of their scripts.
OF_COMMAND = {"tests/tools": "tools", "tests/combinations": "combinations", "tests/order": "order",
              "tests/damage": "damage", "tests/examples": "examples"}
SHAPE = "shape"


def git(*arguments):
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def base_of_branch():
    for other in ("origin/main", "main", "HEAD"):
        found = git("merge-base", "HEAD", other)
        if found and (other == "HEAD" or found != git("rev-parse", "HEAD")):
            return found[0]
    return "HEAD"


class Sources:
    """The project's sources and what each of them leads to."""

    def __init__(self, files):
        self.files = {f for f in files if f.endswith((".h", ".cc", ".cu", ".cuh", ".inc"))}
        self.made_of = {}  #: by header, the sources whose first include it is
        for file in self.files:
            includes = self.includes(file)
            if file.endswith((".cc", ".cu")) and file.startswith(LIBRARY) and includes:
                self.made_of.setdefault(includes[0], []).append(file)

    @functools.cache
    def includes(self, file):
        text = pathlib.Path(file).read_text(encoding="utf-8", errors="replace")
        found = []
        for name in INCLUDE.findall(text):
            beside = str(pathlib.PurePosixPath(file).parent / name)
            found += [path for path in (name, "include/" + name, beside) if path in self.files][:1]
        return found

    def reached(self, starts):
        seen, left = set(), [file for file in starts if file in self.files]
        while left:
            file = left.pop()
            if file not in seen:
                seen.add(file)
                left += self.includes(file) + self.made_of.get(file, [])
        return seen


def sources_of_programs(build, root):
    """By target, the sources that the build compiles for it."""
    programs = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        target = re.search(r" -o \S*CMakeFiles/([^/]+)\.dir/", entry["command"])
        if not target:
            continue
        file = pathlib.Path(entry["file"])
        texts = [file]
        if file.is_relative_to(build) and "Unity" in file.parts:  # it includes those that it groups
            texts = [pathlib.Path(name) for name in INCLUDE.findall(file.read_text())]
        programs.setdefault(target.group(1), set()).update(
            str(path.relative_to(root)) for path in texts if path.is_relative_to(root))
    return programs


def main():
    root = pathlib.Path.cwd()
    build = (root / sys.argv[1]).resolve()
    base = sys.argv[2] if len(sys.argv) > 2 else base_of_branch()
    if not git("rev-parse", "--verify", "--quiet", base + "^{commit}"):
        sys.exit(f"{base} is no commit")
    files = git("ls-files") + git("ls-files", "--others", "--exclude-standard")
    changed = set(git("diff", "--name-only", base)) | set(
        git("ls-files", "--others", "--exclude-standard"))
    print(f"{len(changed)} files differ from {base[:12]}", file=sys.stderr)
    if any(ALL.search(file) for file in changed):
        print("*\n*\npython")
        return
    sources = Sources(file for file in files if pathlib.Path(file).exists())
    programs = sources_of_programs(build, root)
    reached = sorted(name for name, own in programs.items()
                     if name.endswith(("_tests", "_search")) and sources.reached(own) & changed)
    tests = [name.removesuffix("_search") + (r"\." if name.endswith("_tests") else "") for name in reached]
    command = {file for name, own in programs.items() if name.startswith("ringfeed_command")
               for file in sources.reached(own)}
    if command & changed:
        reached.append("ringfeed_command")
        tests += [name + r"\." for name in OF_COMMAND.values()]
    for folder, name in OF_COMMAND.items():
        if any(file.startswith(folder + "/") for file in changed):
            reached.append("ringfeed_command")
            tests.append(name + r"\.")
    bindings = sources.reached(file for file in files if file.startswith("python/src/"))
    of_python = any(file.startswith(("python/", "tests/python/")) for file in changed)
    tests.append(SHAPE + r"\.")
    print(" ".join(sorted(set(reached))))
    print("^(" + "|".join(sorted(set(tests))) + ")")
    print("python" if of_python or bindings & changed else "")


if __name__ == "__main__":
    main()
