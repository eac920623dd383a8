#!/usr/bin/env python3
"""Tests of docs/site/make_site.py: what becomes of a guide's text on its way to Doxygen and back."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs" / "site"))
sys.dont_write_bytecode = True
import make_site  # noqa: E402


class Names:
    classes = {"Reader"}

    def place(self, code):
        return {"Reader": "classReader.html"}.get(code)


class SiteTest(unittest.TestCase):
    def there_and_back(self, text, path="docs/ORDER.md"):
        """What a page has, if Doxygen takes all words as they are; and what is wrong."""
        kept = []
        page = make_site.Page(path, Names(), kept)
        made = page.of(text)
        with tempfile.TemporaryDirectory() as folder:
            shown = pathlib.Path(folder, "a.html")
            shown.write_text(made, encoding="utf-8")
            make_site.fill_in(pathlib.Path(folder), kept)
            return shown.read_text(encoding="utf-8"), page

    def test_code_comes_back_as_it_was(self):
        shown, _ = self.there_and_back("a `{\"` b ``x`y`` c `<a> & 'b' \\0 @N`.")
        self.assertEqual(shown, "a <code>{&quot;</code> b <code>x`y</code> c "
                                "<code>&lt;a&gt; &amp; &#x27;b&#x27; \\0 @N</code>.")

    def test_lines_stay_where_they_are(self):
        text = "# Title\n\n`a\nb` [c\nd](../README.md)\n\n```cpp\nx\n```\n## End\n"
        shown, _ = self.there_and_back(text)
        self.assertEqual(shown.count("\n"), text.count("\n"))
        self.assertIn("\n<code>a b</code> \n<a ", shown)

    def test_public_names_lead_to_the_reference(self):
        link = '<a href="classReader.html"><code>Reader</code></a>'
        self.assertEqual(self.there_and_back("`Reader`")[0], link)
        self.assertEqual(self.there_and_back("`Reader`", "docs/PYTHON.md")[0], "<code>Reader</code>")

    def test_words_that_are_names_of_classes_stay_words(self):
        self.assertEqual(self.there_and_back("Reader a::b @c")[0], "%Reader a\\::b \\@c")

    def test_links_between_guides_lead_to_pages(self):
        for link, page in {"ORDER.md": "guide-order.html", "../README.md": "index.html",
                           "moving/README.md": "guide-moving.html",
                           "internals/PYTHON.md#The-end": "guide-internals-python.html#guide-internals-python-the-end",
                           "#draws": "guide-order.html#guide-order-draws", "https://x.y/z": "https://x.y/z"}.items():
            self.assertEqual(self.there_and_back(f"[a `b`]({link})")[0], f'<a href="{page}">a <code>b</code></a>')

    def test_links_to_files_lead_to_pages_that_show_them(self):
        shown, page = self.there_and_back("[a](../examples/train_loop.cc) [b](../LICENSE)")
        self.assertEqual(shown, '<a href="examples_2train_loop_8cc-example.html">a</a> '
                                '<a href="shown-license.html">b</a>')
        self.assertEqual(page.shown, {"examples/train_loop.cc", "LICENSE"})
        self.assertEqual(page.faults, [])

    def test_a_link_to_nothing_is_a_fault(self):
        _, page = self.there_and_back("[a](nothing.cc)")
        self.assertEqual(page.faults, ["docs/ORDER.md: links to nothing.cc, which the site has not"])

    def test_programs_are_left_alone(self):
        program = "auto x = \"`a`\"; // [a](b.md) @c Reader\n"
        for language, doxygens in {"cpp": "{.cpp}", "python needs=torch": "{.py}", "order": "{.unparsed}"}.items():
            shown, page = self.there_and_back(f"  ```{language}\n{program}  ```\n")
            self.assertEqual(shown, f"  ```{doxygens}\n{program}  ```\n")
            self.assertEqual(page.faults, [])

    def test_headings_have_anchors_and_two_of_one_name_have_two(self):
        shown, _ = self.there_and_back("# A\n## In `x`: b\n## In x b\n")
        self.assertEqual(shown, "# A {#guide-order}\n## In x: b {#guide-order-in-x-b}\n"
                                "## In x b {#guide-order-in-x-b-1}\n")

    def test_programs_that_are_shown_are_looked_for_where_nothing_is_built(self):
        folders = make_site.program_folders()
        self.assertLessEqual({"CMakeLists.txt", "examples", "tests"}, set(folders))
        self.assertEqual({"", ".", "build", "dist"} & set(folders), set())

    def test_each_guide_is_in_a_group_and_there(self):
        self.assertEqual([path for path in make_site.GUIDES if not (make_site.ROOT / path).is_file()], [])


if __name__ == "__main__":
    unittest.main()
