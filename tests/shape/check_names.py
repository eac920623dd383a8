#!/usr/bin/env python3
"""Checks that each public class, enumeration and function is used in a program that is shown, and that
these and the names of types have a comment.

check_names.py ROOT XML: XML is what Doxygen says of the public headers (build/docs/xml, by
scripts/docs). Prints what is wrong; exit status 1 if anything is.

Programs are those of examples/, of tests/consumer/ and of the guides (```cpp). A name is used where it
stands in one, outside of comments and texts. A class is also used where a function is whose options or
result it is, since a program seldom names these: Batch(samples, {.size = 256}) uses BatchOptions.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

NAMESPACE = "ringfeed::"
PROGRAMS = ["examples/**/*.cc", "examples/**/*.h", "examples/**/*.cu", "tests/consumer/*.cc"]
GUIDES = ["README.md", "docs/**/*.md", "examples/**/*.md"]
FENCE = re.compile(r"^ *```cpp\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
CLASSES = ("class", "struct", "union")

#: Names that no program uses, and why.
EXCEPTIONS = {
}


class Name:
    """A public name: its kind, its place, whether it has a comment, and, of a class's or a function's,
    the names that stand in its functions' declarations."""

    def __init__(self, kind, where, has_comment):
        self.kind = kind
        self.where = where
        self.has_comment = has_comment
        self.functions = {}  #: by their names: the words of their declarations


def text_of(element):
    return "".join(element.itertext()) if element is not None else ""


def has_comment(element):
    return bool(text_of(element.find("briefdescription")).strip())


def where(element, root):
    location = element.find("location")
    path = pathlib.PurePosixPath(location.get("file"))
    path = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{path}:{location.get('line')}"


def declared_words(member):
    """The names in the declaration of a function: of its result and its parameters."""
    parts = [member.find("type"), *member.iter("param")]
    return set(re.findall(r"\w+", " ".join(text_of(part) for part in parts)))


def public_names(root, folder):
    """All public names by what follows the namespace."""
    names = {}
    for entry in xml.parse(folder / "index.xml").getroot():
        if entry.get("kind") in (*CLASSES, "namespace"):
            add_compound(names, root, xml.parse(folder / f"{entry.get('refid')}.xml").getroot()[0])
    return names


def add_compound(names, root, compound):
    full = compound.findtext("compoundname")
    short = full.split("<")[0].strip().removeprefix(NAMESPACE)
    is_class = compound.get("kind") in CLASSES
    if is_class and compound.get("prot") != "public":
        return
    if is_class and full.startswith(NAMESPACE) and "::detail::" not in full:
        names[short] = Name("class", where(compound, root), has_comment(compound))
    elif is_class or not f"{full}::".startswith(NAMESPACE):
        return
    for member in compound.iter("memberdef"):
        if member.get("prot") != "public" or "/detail/" in where(member, root):
            continue
        kind, name = member.get("kind"), member.findtext("name")
        if is_class and kind == "function":
            names[short].functions.setdefault(name, set()).update(declared_words(member))
        elif kind == "enum" or kind in ("function", "typedef") and not is_class:
            if name.startswith("operator"):
                continue
            inner = f"{full}::{name}".removeprefix(NAMESPACE)
            found = names.setdefault(inner, Name(kind, where(member, root), False))
            found.has_comment |= has_comment(member)  # of several the first has it
            found.functions.setdefault(name, set()).update(declared_words(member))


def shown_code(root):
    """The words of all programs that are shown."""
    texts = [path.read_text(encoding="utf-8") for each in PROGRAMS for path in sorted(root.glob(each))]
    for path in (path for each in GUIDES for path in sorted(root.glob(each))):
        texts += FENCE.findall(path.read_text(encoding="utf-8"))
    return set(re.findall(r"\w+", " ".join(NO_CODE.sub(" ", text) for text in texts)))


def used_names(names, code):
    """Those that stand in a program, and the classes of what is called there."""
    used, found = set(), {name for name in names if name.rpartition("::")[2] in code}
    while found - used:
        used |= found
        called = set()
        for name in used:
            for function, words in names[name].functions.items():
                called |= words if function in code else set()
        found = {name for name, each in names.items()
                 if each.kind == "class" and name.rpartition("::")[2] in called}
    return used


def check(root, folder, exceptions):
    """What is wrong, as PATH:LINE: MESSAGE."""
    names = public_names(root, folder)
    found = [f"{each.where}: {name} has no comment" for name, each in names.items() if not each.has_comment]
    wanted = {name for name, each in names.items() if each.kind != "typedef"}
    unused = wanted - used_names(names, shown_code(root))
    found += [f"{names[name].where}: no program that is shown uses {name}"
              for name in unused - exceptions.keys()]
    found += [f"{pathlib.Path(__file__).name}: {name} needs no exception any more"
              for name in exceptions.keys() - unused]
    return sorted(found)


def main():
    root, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    found = check(root, folder, EXCEPTIONS)
    print("\n".join(found) or "each public name has a comment and is used in a program that is shown")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
