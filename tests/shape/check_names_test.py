#!/usr/bin/env python3
"""Tests of check_names.py: that it sees names without a comment or a program, and nothing else."""

import pathlib
import tempfile
import unittest

import check_names

HEADER = "include/ringfeed/a.h"
RINGFEED = "using namespace ringfeed;\n"


def member(kind, name, brief="Word.", prot="public", parameters="", result="void", arguments="()"):
    params = "".join(f"<param><type>{each}</type></param>" for each in parameters.split())
    return (f'<memberdef kind="{kind}" id="a_1b" prot="{prot}"><type>{result}</type><name>{name}</name>{params}'
            f"<argsstring>{arguments}</argsstring>"
            f'<briefdescription>{brief and f"<para>{brief}</para>"}</briefdescription>'
            f'<location file="{HEADER}" line="7"/></memberdef>')


def compound(kind, name, members="", brief="Word.", prot="public", base=""):
    base = base and f"<basecompoundref>{base}</basecompoundref>"
    return (f'<doxygen><compounddef id="x" kind="{kind}" prot="{prot}"><compoundname>{name}</compoundname>{base}'
            f'<briefdescription>{brief and f"<para>{brief}</para>"}</briefdescription>'
            f'<sectiondef>{members}</sectiondef><location file="{HEADER}" line="3"/></compounddef></doxygen>')


def methods(*names, **options):
    return "".join(member("function", name, **options) for name in names)


class Checked(unittest.TestCase):
    def check(self, compounds, files, exceptions=()):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            index = ""
            for number, (kind, name, *rest) in enumerate(compounds):
                (root / f"x{number}.xml").write_text(compound(kind, name, *rest), encoding="utf-8")
                index += f'<compound refid="x{number}" kind="{kind}"><name>{name}</name></compound>'
            (root / "index.xml").write_text(f"<doxygenindex>{index}</doxygenindex>", encoding="utf-8")
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return check_names.check(root, root, dict.fromkeys(exceptions, "why"))

    def namespace(self, members, files, exceptions=()):
        return self.check([("namespace", "ringfeed", members)], files, exceptions)

    def missing(self, compounds, code):
        """The names that a program of that code does not use."""
        found = self.check(compounds, {"examples/a.cc": code})
        return {line.partition("no program that is shown uses ")[2] for line in found}


class NamesTest(Checked):
    def test_a_name_in_a_program_is_used(self):
        for name in ("examples/a.cc", "examples/a.h", "examples/topics/a.cc", "tests/consumer/a.cc"):
            self.assertEqual(self.namespace(member("function", "Open"), {name: "ringfeed::Open();"}), [])
        found = self.namespace(member("function", "Open"), {"examples/training/a.cc": "ringfeed::Open();"})
        self.assertEqual(found, [f"{HEADER}:7: no program that is shown uses Open"])  # runs where LibTorch is

    def test_a_name_in_a_guide_is_used_where_it_is_code(self):
        text = "\n   ```cpp\n   Open();\n   ```\n"
        self.assertEqual(self.namespace(member("function", "Open"), {"docs/A.md": text}), [])
        found = self.namespace(member("function", "Open"), {"docs/A.md": "Open\n```sh\nOpen\n```\n"})
        self.assertEqual(found, [f"{HEADER}:7: no program that is shown uses Open"])

    def test_comments_texts_and_longer_words_are_no_use(self):
        for text in ("// Open()", "/* Open() */", 'Say("Open");', "OpenFiles();", "", 'Say(R"(say "Open" and)");',
                     'Say(R"x(")" Open)x");', '#include "Open"', "ReOpen();", "Open_();", 'Say("\\"Open");',
                     "Say('\"'); // Open"):
            found = self.namespace(member("enum", "Open"), {"examples/a.cc": RINGFEED + text})
            self.assertEqual(found, [f"{HEADER}:7: no program that is shown uses Open"], text)

    def test_what_stands_behind_a_text_is_code(self):
        for text in ("Say('\"'); Open();", 'Say(R"(")"); Open();', "Say(1'000); Open(1'000);", 'Say("\\\\"); Open();'):
            self.assertEqual(self.namespace(member("function", "Open"), {"examples/a.cc": RINGFEED + text}), [], text)

    def test_a_name_of_the_programs_own_is_no_use(self):
        wanted = [f"{HEADER}:7: no program that is shown uses Open"]
        for text in ("void Open(); Open();", "mine::Open();", "options.Open = 1;", "options->Open();",
                     "namespace rf = ringfeed; rf::Other::Open();"):
            self.assertEqual(self.namespace(member("function", "Open"), {"examples/a.cc": text}), wanted, text)
        self.assertEqual(self.namespace(member("function", "Open"), {"examples/a.cc":
                                        "namespace rf = ringfeed; auto x = rf::Open();"}), [])

    def test_a_constant_must_be_used_and_needs_no_comment(self):
        constant = member("variable", "kEnd", brief="")
        self.assertEqual(self.namespace(constant, {"examples/a.cc": "ringfeed::kEnd"}), [])
        self.assertEqual(self.namespace(constant, {"examples/a.cc": "kEnd"}),
                         [f"{HEADER}:7: no program that is shown uses kEnd"])

    def test_a_class_is_used_by_a_function_that_takes_or_gives_it(self):
        members = member("function", "Batch", parameters="Options", result="Rows")
        compounds = [("namespace", "ringfeed", members), ("struct", "ringfeed::Options"),
                     ("class", "ringfeed::Rows", member("function", "Stats", result="Report")),
                     ("struct", "ringfeed::Report")]
        self.assertEqual(self.missing(compounds, "ringfeed::Batch({}).Stats();"), set())
        self.assertEqual(self.missing(compounds, "ringfeed::Batch({});"), {"Rows::Stats", "Report"})

    def test_what_is_without_a_comment_is_found(self):
        members = member("function", "Open", brief="") + member("typedef", "Shape", brief="")
        found = self.namespace(members, {"examples/a.cc": "ringfeed::Open"})
        self.assertEqual(found, [f"{HEADER}:7: Open has no comment", f"{HEADER}:7: Shape has no comment"])

    def test_of_overloads_one_has_the_comment(self):
        members = member("function", "Open") + member("function", "Open", brief="")
        self.assertEqual(self.namespace(members, {"examples/a.cc": "ringfeed::Open"}), [])

    def test_what_is_private_or_of_others_needs_nothing(self):
        compounds = [("class", "ringfeed::Ring::Cell", "", "", "private"),
                     ("class", "ringfeed::detail::Ring", "", ""), ("class", "prometheus::Collectable", "", ""),
                     ("namespace", "ringfeed", member("function", "operator==", brief=""))]
        self.assertEqual(self.check(compounds, {}), [])

    def test_an_exception_must_be_needed(self):
        self.assertEqual(self.namespace(member("function", "Open"), {}, ["Open"]), [])
        found = self.namespace(member("function", "Open"), {"examples/a.cc": "ringfeed::Open"}, ["Open"])
        self.assertEqual(found, ["check_names.py: Open needs no exception any more"])


class MethodsTest(Checked):
    READER = ("class", "ringfeed::Reader", methods("Close", "Read", "size"))
    QUEUE = ("class", "ringfeed::Queue", methods("Close"))
    OPEN = ("namespace", "ringfeed", member("function", "Open", result="Reader"))
    EVERY = {"Reader::Close", "Reader::Read", "Reader::size"}

    def missing_of_reader(self, code, *others):
        return {name for name in self.missing([self.READER, *others], RINGFEED + code) if name.startswith("Reader::")}

    def test_a_call_is_a_use(self):
        self.assertEqual(self.missing_of_reader("Reader r; r.Close(); r.Read<int>(); f(r.size());"), set())
        self.assertEqual(self.missing_of_reader("Reader* r; r->Close(); Reader::Read(); r->size();"), set())

    def test_a_name_that_is_not_called_is_none(self):
        code = 'Reader r; // r.Close()\nSay("r.Close()"); r.Closed(); r.ReadAll(); r.size; Close(); Read(r);'
        self.assertEqual(self.missing_of_reader(code), self.EVERY)

    def test_a_method_of_another_class_is_none(self):
        for code in ("Reader r; Queue q; q.Close();", "Reader r; std::ifstream q; q.Close();",
                     "Reader r; Mine::Close();", "void F(Reader& r, Queue& q) { q.Close(); }",
                     "Reader x; x.other(); Queue x; x.Close();"):
            self.assertIn("Reader::Close", self.missing_of_reader(code, self.QUEUE), code)
        self.assertNotIn("Reader::Close", self.missing_of_reader("Queue x; Reader x; x.Close();", self.QUEUE))

    def test_a_container_of_the_class_has_methods_of_its_own(self):
        self.assertIn("Reader::size", self.missing_of_reader("std::vector<Reader> rs; rs.size();"))
        self.assertNotIn("Reader::Close", self.missing_of_reader("std::unique_ptr<Reader> r; r->Close();"))

    def test_of_a_thing_whose_class_is_not_told_the_program_must_know_one_such_class_alone(self):
        code = "auto r = Open(); r.Close(); Open().Read();"
        self.assertEqual(self.missing_of_reader(code, self.OPEN), {"Reader::size"})
        found = self.missing_of_reader(code + "Queue q;", self.OPEN, self.QUEUE)
        self.assertEqual(found, {"Reader::size", "Reader::Close"})
        self.assertEqual(self.missing_of_reader("auto r = Other(); r.Close();", self.OPEN), self.EVERY)

    def test_what_containers_have_counts_only_of_a_thing_that_is_declared(self):
        self.assertIn("Reader::size", self.missing_of_reader("auto r = Open(); r.size();", self.OPEN))

    def test_a_method_of_a_base_is_asked_for_once_and_used_through_any_class(self):
        base = ("class", "ringfeed::Source", methods("Next", "Ready"))
        derived = ("class", "ringfeed::FileSource", methods("Next"), "Word.", "public", "Source")
        self.assertEqual(self.missing([base, derived], RINGFEED + "FileSource s; s.Next(); s.Ready();"), set())
        self.assertEqual(self.missing([base, derived], RINGFEED + "FileSource s;"), {"Source::Next", "Source::Ready"})

    def test_an_override_of_a_class_of_ones_own_is_a_use(self):
        base = ("class", "ringfeed::Source", methods("Next", "Ready", "path"))
        code = "class Mine final : public Source { int Next(int* x) const override; int F() { return path(); } };"
        self.assertEqual(self.missing([base], RINGFEED + code), {"Source::Ready"})
        code = "Source* s; class M : public X { int Next() override; };"
        self.assertIn("Source::Next", self.missing([base], RINGFEED + code))

    def test_constructors_operators_and_what_is_deleted_need_no_call(self):
        members = methods("Reader", "~Reader", "operator=")
        members += member("function", "at", arguments="() const &amp;&amp;=delete")
        self.assertEqual(self.missing([("class", "ringfeed::Reader", members)], RINGFEED + "Reader r;"), set())

    def test_another_name_of_a_class_stands_for_it(self):
        compounds = [("class", "ringfeed::BasicEvents", methods("Notify")),
                     ("namespace", "ringfeed", member("typedef", "Events", result="BasicEvents&lt; Policy &gt;"))]
        self.assertEqual(self.missing(compounds, RINGFEED + "Events e; e.Notify();"), set())


if __name__ == "__main__":
    unittest.main()
