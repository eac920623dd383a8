#!/usr/bin/env python3
"""Tests of check_documents.py: that it sees what is wrong, and nothing else."""

import pathlib
import tempfile
import unittest

import check_documents

TERMS = "| term | meaning | header |\n|---|---|---|\n"


class DocumentsTest(unittest.TestCase):
    def check(self, **files):
        """What is wrong in a tree of these files; __ stands for a slash, _md and _h for a suffix."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name.replace("__", "/").replace("_md", ".md").replace("_h", ".h")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_documents.check_tree(root)

    def test_a_good_document_passes(self):
        text = "[there](docs/A.md), [up](https://x.y/z), [here](#here)\n| " + "x" * 200 + " |\n"
        self.assertEqual(self.check(README_md=text, docs__A_md="[back](../README.md#x)\n"), [])

    def test_a_long_line_is_found(self):
        found = self.check(docs__A_md="short\n" + "x" * 101 + "\n")
        self.assertEqual(found, ["docs/A.md:2: has 101 characters, more than 100"])

    def test_characters_count_and_not_bytes(self):
        self.assertEqual(self.check(docs__A_md="─" * 100 + "\n"), [])

    def test_a_long_sentence_is_found(self):
        found = self.check(docs__A_md="Short.\n\n- Short. " + "word\n  " * 41 + "\n- item\n")
        self.assertEqual(found, ["docs/A.md:3: has a sentence of 41 words, more than 40: "
                                 "word word word word word …"])

    def test_sentences_end_and_code_and_tables_are_none(self):
        words, code = "word " * 39, "`code of several words.` " * 20
        text = (f"# {words * 2}\n{words}end. {words}end?\n(One: {words[5:]}end.) {code}\n\n"
                f"| {words * 2} |\n\n    {words * 2}\n```\n{words * 2}\n```\n"
                f"- {words}\n- {words}\n")
        self.assertEqual([each for each in self.check(docs__A_md=text) if "sentence" in each], [])

    def test_a_link_to_nothing_is_found_but_not_in_code(self):
        text = "`[a](b.md)`\n```\n[a](b.md)\n```\n[a](b.md)\n"
        found = self.check(docs__A_md=text)
        self.assertEqual(found, ["docs/A.md:5: links to b.md, which does not exist"])

    def test_a_picture_that_no_script_makes_is_found(self):
        files = {"docs__A_md": "![a](one.png)\n![b](two.png), `![c](three.png)`\n", "docs__one.png": "",
                 "docs__two.png": "", "scripts__pictures": "make_one() {\n}\n"}
        self.assertEqual(self.check(**files), ["docs/A.md:2: shows two.png, which scripts/pictures does not make"])

    def test_long_pages_are_found(self):
        found = self.check(README_md="x.\n" * 131, docs__ARCHITECTURE_md="x.\n" * 151)
        self.assertEqual(len(found), 2)
        self.assertEqual(self.check(README_md="x.\n" * 130, docs__ARCHITECTURE_md="x.\n" * 150), [])

    def test_terms_stand_in_their_headers(self):
        table = TERMS + "| `Lane` | an input | `a.h` |\n| hole | nothing | `a.h` |\n"
        good = self.check(docs__GLOSSARY_md=table, a_h="class Lane; // holes are\n")
        self.assertEqual(good, [])
        self.assertEqual(len(self.check(docs__GLOSSARY_md=table, a_h="class Other;\n")), 2)
        self.assertEqual(len(self.check(docs__GLOSSARY_md=table)), 2)

    def test_a_term_stands_once_and_there_are_few(self):
        row = "| `Lane` | an input | `a.h` |\n"
        found = self.check(docs__GLOSSARY_md=TERMS + row * 41, a_h="class Lane;\n")
        self.assertEqual(len(found), 41)


if __name__ == "__main__":
    unittest.main()
