"""The public names of ringfeed's headers, from what Doxygen says of them."""

import dataclasses
import pathlib
import re
import xml.etree.ElementTree as xml

NAMESPACE = "ringfeed::"
CLASSES = ("class", "struct", "union")


@dataclasses.dataclass
class Name:
    """A public name. Its words are those of its declaration: of a function's result and parameters, of
    what an alias stands for, of a constant's type."""

    full: str  #: without the outermost namespace
    kind: str
    where: str
    has_comment: bool = False
    words: set = dataclasses.field(default_factory=set)
    bases: set = dataclasses.field(default_factory=set)  #: of a class: the words of what it derives from
    methods: dict = dataclasses.field(default_factory=dict)  #: by name: (place, words)
    members: dict = dataclasses.field(default_factory=dict)  #: variables by name: the words of their types

    @property
    def last(self):
        return self.full.rpartition("::")[2]


def text_of(element):
    return "".join(element.itertext()) if element is not None else ""


def words_of(text):
    return set(re.findall(r"\w+", text))


def has_comment(element):
    return bool(text_of(element.find("briefdescription")).strip())


def where(element, root):
    location = element.find("location")
    path = pathlib.PurePosixPath(location.get("file"))
    path = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{path}:{location.get('line')}"


def declared_words(member):
    """The words of a function's result and parameters, or of the type of something else."""
    return words_of(" ".join(text_of(part) for part in [member.find("type"), *member.iter("param")]))


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
        names[short] = Name(short, "class", where(compound, root), has_comment(compound))
        for base in compound.iter("basecompoundref"):
            names[short].bases |= words_of(text_of(base))
    elif is_class or not f"{full}::".startswith(NAMESPACE):
        return
    for member in compound.iter("memberdef"):
        if member.get("prot") != "public" or "/detail/" in where(member, root):
            continue
        if is_class:
            add_member(names[short], root, member)
        if not is_class or member.get("kind") == "enum":
            add_name(names, root, full, member)


def add_member(owner, root, member):
    """A method or a variable of a class. Constructors, destructors and operators have no name that a
    program could write, and nobody can call what is deleted."""
    kind, name = member.get("kind"), member.findtext("name")
    if kind == "variable":
        owner.members.setdefault(name, set()).update(declared_words(member))
    if kind != "function":
        return
    if name in (owner.last, f"~{owner.last}") or name.startswith("operator"):
        owner.words |= declared_words(member)
    elif not (member.findtext("argsstring") or "").replace(" ", "").endswith("=delete"):
        _, words = owner.methods.setdefault(name, (where(member, root), set()))
        words |= declared_words(member)


def add_name(names, root, outer, member):
    """A function, an enumeration, an alias or a constant of a namespace, an enumeration of a class."""
    kind, name = member.get("kind"), member.findtext("name")
    if kind not in ("enum", "function", "typedef", "variable") or name.startswith("operator"):
        return
    full = f"{outer}::{name}".removeprefix(NAMESPACE)
    found = names.setdefault(full, Name(full, "constant" if kind == "variable" else kind, where(member, root)))
    found.has_comment |= has_comment(member)  # of several the first has it
    found.words |= declared_words(member)


def by_last(names):
    """Names by their last word."""
    found = {}
    for each in names.values():
        found.setdefault(each.last, []).append(each)
    return found


def family(names, name, lasts=None):
    """The class and all of its bases, by their full names."""
    lasts = lasts or by_last(names)
    found, left = set(), [name]
    while left:
        each = left.pop()
        if each.full not in found:
            found.add(each.full)
            left += [base for word in each.bases for base in lasts.get(word, ()) if base.kind == "class"]
    return found
