#!/usr/bin/env python3
"""Checks that whatever tells the project's version tells the same one.

The one place that has it is the CMakeLists.txt at the root.

check_version.py ROOT BUILD PREFIX COMMAND: of the sources in ROOT, the build in BUILD, what it
installed in PREFIX, and its command; prints what differs; exit status 1 if anything does.
"""

import os
import pathlib
import re
import subprocess
import sys


def found(pattern, path):
    """What `pattern` finds first in a file; None if there is nothing."""
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    return match and match[1]


def only(prefix, pattern):
    """The one file below `prefix` that has this name."""
    paths = list(prefix.glob(pattern))
    if len(paths) != 1:
        raise SystemExit(f"{prefix} has {len(paths)} files {pattern}, not one")
    return paths[0]


def printed(*command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    return done.stdout.strip() if done.returncode == 0 else f"nothing: {done.stderr.strip()}"


def of_the_wheel(root):
    """What the wheel's builder takes for the version, by the rule in pyproject.toml."""
    project = root / "python" / "pyproject.toml"
    if found(r'^version = "(.*)"', project):
        return "its own"
    rule = found(r"^regex = '(.*)'", project)
    source = found(r'^input = "(.*)"', project)
    return rule and source and found(rule, project.parent / source)


def told(root, build, prefix, command):
    """(where, the version told there); of some only the first two numbers."""
    package = only(prefix, "**/ringfeedConfigVersion.cmake")
    pkg_config = only(prefix, "**/ringfeed.pc").parent
    yield "ringfeed --version", printed(command, "--version").split()[-1]
    yield "the CMake package", found(r'^set\(PACKAGE_VERSION "(.*)"\)', package)
    yield "pkg-config", printed(
        "pkg-config", "--modversion", "ringfeed", PKG_CONFIG_PATH=str(pkg_config))
    yield "CPack", found(r'^set\(CPACK_PACKAGE_VERSION "(.*)"\)', build / "CPackConfig.cmake")
    yield "the wheel", of_the_wheel(root)
    yield "CHANGELOG.md's newest release", found(r"^## (\d\S*) \(\d{4}-\d\d-\d\d\)$",
                                                 root / "CHANGELOG.md")
    yield "README.md's find_package", found(r"find_package\(ringfeed ([\d.]+)", root / "README.md")


def main():
    root, build, prefix = (pathlib.Path(word) for word in sys.argv[1:4])
    version = found(r"^project\(ringfeed VERSION ([\d.]+)", root / "CMakeLists.txt")
    minor = version.rpartition(".")[0]
    wrong = [(where, there) for where, there in told(root, build, prefix, sys.argv[4])
             if there != (minor if "find_package" in where else version)]
    for where, there in wrong:
        print(f"CMakeLists.txt says {version}, {where} says {there}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
