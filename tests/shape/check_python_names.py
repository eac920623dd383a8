#!/usr/bin/env python3
"""Checks that each name of ringfeed.__all__ is used in a program of Python that is shown.

check_python_names.py ROOT: prints the names that are not; exit status 1 if there are any.

Programs are those of examples/ and of the guides (```python, but for those that say not-run). A name is used where code has it: as an
attribute of the package (ringfeed.mix), or imported from it. Comments and texts are no use.
"""

import ast
import pathlib
import re
import sys
import textwrap

PACKAGE = "ringfeed"
PROGRAMS = ["examples/**/*.py"]
GUIDES = ["README.md", "docs/**/*.md", "examples/**/*.md"]
FENCE = re.compile(r"^ *```python(?![^\n]*not-run)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

#: Names that no program uses, and why.
EXCEPTIONS = {
    "__version__": "a program that needs it asks pip",
}


def public_names(root):
    """What the package says that it exports."""
    path = root / "python" / PACKAGE / "__init__.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    raise ValueError(f"{path} has no __all__")


def shown_programs(root):
    """(path, text) of each, a guide's one by one."""
    for path in (path for each in PROGRAMS for path in sorted(root.glob(each))):
        yield path, path.read_text(encoding="utf-8")
    for path in (path for each in GUIDES for path in sorted(root.glob(each))):
        for text in FENCE.findall(path.read_text(encoding="utf-8")):
            yield path, textwrap.dedent(text)


def used_names(text):
    """The names of the package that a program uses."""
    used, aliases = set(), {PACKAGE}
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                first, *inner = each.name.split(".")
                if first == PACKAGE:
                    used.update(inner[:1])
                    aliases.add(each.asname if each.asname and not inner else PACKAGE)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            first, *inner = node.module.split(".")
            if first == PACKAGE:
                used.update(inner[:1] or [each.name for each in node.names])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            used.add(node.attr)
    return used


def check(root, exceptions):
    """What is wrong, a line each."""
    used, found = set(), []
    for path, text in shown_programs(root):
        try:
            used |= used_names(text)
        except SyntaxError as error:
            found.append(f"{path.relative_to(root)}: a program that is none: {error.msg}: {error.text}".rstrip())
    unused = public_names(root) - used
    found += [f"no program that is shown uses {PACKAGE}.{name}" for name in unused - exceptions.keys()]
    found += [f"{pathlib.Path(__file__).name}: {name} needs no exception any more"
              for name in exceptions.keys() - unused]
    return sorted(found)


def main():
    found = check(pathlib.Path(sys.argv[1]).resolve(), EXCEPTIONS)
    print("\n".join(found) or f"each name of {PACKAGE}.__all__ is used in a program that is shown")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
