"""What a program uses of ringfeed's public names, by its text.

A name counts where it stands as a whole word in the code, and not in a comment or a text, and where it
is ringfeed's: behind its namespace or an alias of that (rf::Share), or alone in a program with
`using namespace ringfeed`. A member of the same name (options.Share) and a function of the program's
own (Share) are no uses.

A class is known to a program that names it, or that uses what declares it: Batch(rows, {.size = 2})
takes BatchOptions, feed.Next() gives a DeviceLease, opened.writer is a RecordWriter. The bases of a
class that is known are known.

A method counts for a class that the program knows, by a call (x.Close(), x->Close(), Class::Close()),
by an override, or by its name alone in a class of the program's that derives from that class. What x
was declared as last says whose it is: one of ringfeed's classes, or none. Where that does not say
(auto, a function's result), the call counts if the program knows just one class with such a method,
and the standard's classes have none of that name.
"""

import re

import public_names

RAW_TEXT = r'R"(?P<end>[^\s()]*)\(.*?\)(?P=end)"'
NO_CODE = re.compile(RAW_TEXT + r"""|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#[^\n]*""",
                     re.DOTALL | re.MULTILINE)
ALIAS = re.compile(r"\bnamespace (\w+) = (ringfeed\b[\w:]*);")
WHOLE_NAMESPACE = re.compile(r"\busing namespace (ringfeed\b[\w:]*);")
QUALIFIED = re.compile(r"(?<![\w.])(?<!->)(?:::)?\w+(?:::\w+)*\b")
CALL = re.compile(r"(?:(?P<owner>[.]|->)?\b(?P<what>\w+)|[\])>}])\s*(?P<how>\.|->|::)\s*(?:template\s+)?(?P<name>\w+)"
                  r"(?:<[^;(){}]*>)?\(")
OVERRIDE = re.compile(r"\b(\w+)\([^;{}]*\)\s*(?:const\s*)?(?:noexcept\s*)?(?:override|final)\b")
MEMBER = re.compile(r"(?:\.|->)\s*(\w+)\b")
DERIVED = re.compile(r"\bclass \w+(?: final)? : public ([\w:]+)")
ALONE = re.compile(r"(?<![\w.:~])(?<!->)(\w+)\(")
DECLARED = re.compile(r"(?<![\w:.])(?P<type>[A-Za-z_][\w:]*(?:<[^;=(){}]*>)?)(?:\s+const)?(?:\s+|\s*[&*]+\s*)"
                      r"(?P<name>\w+)\s*(?:[;=({,)\[]|:(?!:))")
NO_WORDS = {"return", "throw", "case", "new", "delete", "else", "const", "namespace", "using", "class",
            "struct", "enum", "public", "co_return", "typename", "goto", "operator"}
HOLDERS = ("std::optional", "std::unique_ptr", "std::shared_ptr")

#: Methods that the standard's classes have, too.
STANDARD = {"at", "back", "begin", "bytes", "clear", "count", "data", "emplace_back", "empty", "end", "front", "name",
            "names", "pop_back", "push_back", "reserve", "resize", "size", "status", "code", "message", "values"}


def code_of(text):
    """A program without comments, texts and lines of the preprocessor."""
    return NO_CODE.sub(" ", text)


class Program:
    """The words that are ringfeed's in a program, and what it calls."""

    def __init__(self, text):
        code = code_of(text)
        aliases = dict(ALIAS.findall(code))
        self.open = [found + "::" for found in WHOLE_NAMESPACE.findall(code)]
        whole = (self.whole(word, aliases).split("::") for word in QUALIFIED.findall(code))
        self.words = {"::".join(parts[:count + 1]) for parts in whole for count in range(len(parts))}
        self.calls = {}  #: by the name of the method
        for found in CALL.finditer(code):
            self.calls.setdefault(found["name"], []).append({**found.groupdict(), "place": found.start()})
        self.overrides = set(OVERRIDE.findall(code))
        self.members = set(MEMBER.findall(code))
        self.derived = {base.rpartition("::")[2] for base in DERIVED.findall(code)}
        self.alone = set(ALONE.findall(code))
        self.types = {}  #: of variables: where they are declared, and the texts of their types
        for found in DECLARED.finditer(code):
            if found["type"].split("::")[0] not in NO_WORDS:
                self.types.setdefault(found["name"], []).append((found.start(), found["type"]))

    def types_of(self, variable, place):
        """What a variable was declared as last, before a place; of a member that stands below all."""
        every = self.types.get(variable, [])
        before = [text for start, text in every if start < place]
        return before[-1:] or [text for _, text in every]

    @staticmethod
    def whole(word, aliases):
        """A word with the namespace that its alias stands for."""
        first, colons, rest = word.removeprefix("::").partition("::")
        return aliases.get(first, first) + colons + rest

    def names(self, full):
        """Whether a name of ringfeed's stands in the program."""
        return any(word in self.words for word in
                   ("ringfeed::" + full, *(("ringfeed::" + full).removeprefix(each) for each in self.open)))


class Uses:
    """What a program uses of the names, and the methods of their classes."""

    def __init__(self, names, text):
        self.names = names
        self.program = Program(text)
        self.by_last = public_names.by_last(names)
        self.used = {each.full for each in names.values() if self.program.names(each.full)}
        self.methods = set()  #: (class, method)
        before = -1
        while before != len(self.used) + len(self.methods):
            before = len(self.used) + len(self.methods)
            for each in sorted(self.used):
                self.follow(names[each])
        # A class that became known later may have a method of the same name.
        self.methods = {(each, method) for each, method in self.methods if self.calls(names[each], method)}

    def follow(self, name):
        """Adds what the declarations of a used name lead to, and the calls of its methods."""
        words = set(name.bases)
        if name.kind != "constant":
            words |= name.words
        for member in name.members.keys() & self.program.members:
            words |= name.members[member]
        for method in name.methods:
            if (name.full, method) not in self.methods and self.calls(name, method):
                self.methods.add((name.full, method))
            if (name.full, method) in self.methods:
                words |= name.methods[method][1]
        for word in words:
            self.used |= {found.full for found in self.by_last.get(word, ())
                          if found.kind in ("class", "enum", "typedef")}

    def classes_in(self, text):
        """The public classes that stand in the text of a type, with their bases; of an alias what it means."""
        found = set()
        for word in re.findall(r"\w+", text):
            for each in self.by_last.get(word, ()):
                if each.kind == "class":
                    found |= public_names.family(self.names, each, self.by_last)
                elif each.kind == "typedef":
                    found |= self.classes_in(" ".join(sorted(each.words - {word})))
        return found

    def calls(self, name, method):
        """Whether the program calls, overrides or names a method of a class that it knows."""
        program = self.program
        for base in program.derived:
            if name.full in self.classes_in(base) and method in program.overrides | program.alone:
                return True
        return any(self.is_of(call, name, method) for call in program.calls.get(method, ()))

    def is_of(self, call, name, method):
        """Whether a call is one of that class."""
        what, how = call["what"], call["how"]
        if how == "::":
            return what is not None and name.full in self.classes_in(what)
        types = [text for text in self.types_of(call) if text != "auto"]
        if types:
            return any(name.full in self.classes_in(text) and self.reaches(text, how) for text in types)
        return method not in STANDARD and self.roots_with(method) == self.roots(name, method)

    def roots(self, name, method):
        """Where a class has a method from: those of its family that have it, and no base of theirs."""
        having = {full for full in public_names.family(self.names, name, self.by_last)
                  if method in self.names[full].methods}
        return {full for full in having
                if not (public_names.family(self.names, self.names[full], self.by_last) - {full}) & having}

    def roots_with(self, method):
        """The same of all classes that the program knows."""
        return {root for full in self.used if method in self.names[full].methods
                for root in self.roots(self.names[full], method)}

    def types_of(self, call):
        """The texts of the types of the thing that a method is called of; none where they are not known."""
        what = call["what"]
        if what is None:
            return []
        if call["owner"] is None:
            return self.program.types_of(what, call["place"])
        return [" ".join(sorted(self.names[each].members[what])) for each in self.used
                if what in self.names[each].members]

    @staticmethod
    def reaches(text, how):
        """Whether a call by . or -> is one of the class itself, not of a container of it."""
        return (text.startswith(HOLDERS) and how == "->") or not text.startswith("std::")
