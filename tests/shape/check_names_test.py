#!/usr/bin/env python3
"""Tests of check_names.py: that it sees names without a comment or a program, and nothing else."""

import pathlib
import tempfile
import unittest

import check_names

HEADER = "include/ringfeed/a.h"


def member(kind, name, brief="Word.", prot="public", parameters="", result="void"):
    params = "".join(f"<param><type>{each}</type></param>" for each in parameters.split())
    return (f'<memberdef kind="{kind}" id="a_1b" prot="{prot}"><type>{result}</type><name>{name}</name>{params}'
            f'<briefdescription>{brief and f"<para>{brief}</para>"}</briefdescription>'
            f'<location file="{HEADER}" line="7"/></memberdef>')


def compound(kind, name, members="", brief="Word.", prot="public"):
    return (f'<doxygen><compounddef id="x" kind="{kind}" prot="{prot}"><compoundname>{name}</compoundname>'
            f'<briefdescription>{brief and f"<para>{brief}</para>"}</briefdescription>'
            f'<sectiondef>{members}</sectiondef><location file="{HEADER}" line="3"/></compounddef></doxygen>')


class NamesTest(unittest.TestCase):
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

    def test_a_name_in_a_program_is_used(self):
        for name in ("examples/a.cc", "examples/topics/a.h", "tests/consumer/a.cc"):
            self.assertEqual(self.namespace(member("function", "Open"), {name: "Open();"}), [])

    def test_a_name_in_a_guide_is_used_where_it_is_code(self):
        text = "\n   ```cpp\n   Open();\n   ```\n"
        self.assertEqual(self.namespace(member("function", "Open"), {"docs/A.md": text}), [])
        found = self.namespace(member("function", "Open"), {"docs/A.md": "Open\n```sh\nOpen\n```\n"})
        self.assertEqual(found, [f"{HEADER}:7: no program that is shown uses Open"])

    def test_comments_texts_and_longer_words_are_no_use(self):
        for text in ("// Open()", "/* Open() */", 'Say("Open");', "OpenFiles();", ""):
            found = self.namespace(member("enum", "Open"), {"examples/a.cc": text})
            self.assertEqual(found, [f"{HEADER}:7: no program that is shown uses Open"])

    def test_a_class_is_used_by_a_function_that_takes_or_gives_it(self):
        members = member("function", "Batch", parameters="Options", result="Rows")
        compounds = [("namespace", "ringfeed", members), ("struct", "ringfeed::Options"),
                     ("class", "ringfeed::Rows", member("function", "Stats", result="Report")),
                     ("struct", "ringfeed::Report")]
        self.assertEqual(self.check(compounds, {"examples/a.cc": "Batch({}).Stats();"}), [])
        found = self.check(compounds, {"examples/a.cc": "Batch({});"})
        self.assertEqual(found, [f"{HEADER}:3: no program that is shown uses Report"])

    def test_what_is_without_a_comment_is_found(self):
        members = member("function", "Open", brief="") + member("typedef", "Shape", brief="")
        found = self.namespace(members, {"examples/a.cc": "Open"})
        self.assertEqual(found, [f"{HEADER}:7: Open has no comment", f"{HEADER}:7: Shape has no comment"])

    def test_of_overloads_one_has_the_comment(self):
        members = member("function", "Open") + member("function", "Open", brief="")
        self.assertEqual(self.namespace(members, {"examples/a.cc": "Open"}), [])

    def test_what_is_private_or_of_others_needs_nothing(self):
        compounds = [("class", "ringfeed::Ring::Cell", "", "", "private"),
                     ("class", "ringfeed::detail::Ring", "", ""), ("class", "prometheus::Collectable", "", ""),
                     ("namespace", "ringfeed", member("function", "operator==", brief=""))]
        self.assertEqual(self.check(compounds, {}), [])

    def test_an_exception_must_be_needed(self):
        self.assertEqual(self.namespace(member("function", "Open"), {}, ["Open"]), [])
        found = self.namespace(member("function", "Open"), {"examples/a.cc": "Open"}, ["Open"])
        self.assertEqual(found, ["check_names.py: Open needs no exception any more"])


if __name__ == "__main__":
    unittest.main()
