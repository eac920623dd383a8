#!/usr/bin/env python3
"""Tests of check_site.py: that it sees what is wrong with a site, and nothing else."""

import pathlib
import tempfile
import unittest

import check_site


class SiteTest(unittest.TestCase):
    def check(self, **files):
        """What is wrong with a site of these files; _html and _css stand for suffixes, __ for a slash."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                for suffix in ("html", "css", "js"):
                    name = name.replace(f"_{suffix}", f".{suffix}")
                path = pathlib.Path(folder, name.replace("__", "/"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_site.check_site(pathlib.Path(folder))

    def test_a_good_site_passes(self):
        index = ('<a href="a.html#x">1</a><a href="#y">2</a><p id="y"></p><a href="https://x.y/z">3</a>'
                 '<link href="s.css"/><img src="data:image/png;base64,AA"/>')
        self.assertEqual(self.check(index_html=index, s_css="p { background: url(s.css); }",
                                    a_html='<a name="x"></a><a href="index.html?q#y">back</a>'), [])

    def test_a_link_to_no_page_is_found(self):
        self.assertEqual(self.check(index_html='<a href="b.html">b</a>'),
                         ["index.html: links to b.html, which is not there"])

    def test_a_link_out_of_the_folder_is_found(self):
        self.assertEqual(self.check(index_html='<a href="../README.md">b</a>'),
                         ["index.html: links to ../README.md, which is not there"])

    def test_a_link_to_no_anchor_is_found(self):
        found = self.check(index_html='<a href="a.html#z">a</a><a href="#z">z</a>', a_html="<p id='y'></p>")
        self.assertEqual(found, ["index.html: links to #z, an anchor that is not there",
                                 "index.html: links to a.html#z, an anchor that is not there"])

    def test_links_by_other_ways_than_https_are_found(self):
        self.assertEqual(self.check(index_html='<a href="file:///etc/passwd">b</a>'),
                         ["index.html: links to file:///etc/passwd"])

    def test_what_is_loaded_from_outside_is_found(self):
        for what in ('<script src="https://x.y/a.js"></script>', '<img src="//x.y/a.png"/>',
                     '<link href="http://x.y/a.css"/>', '<style>@import "https://x.y/a.css";</style>',
                     '<p style="background: url(https://x.y/a.png)"></p>', '<iframe src="../a.html"></iframe>'):
            with self.subTest(what):
                found = self.check(index_html=what)
                self.assertEqual([each.split()[-1] for each in found], ["outside"])
        found = self.check(index_html="", s_css="p { background: url('https://x.y/a.png') }")
        self.assertEqual(found, ["s.css: loads https://x.y/a.png from outside"])

    def test_what_is_loaded_and_not_there_is_found(self):
        self.assertEqual(self.check(index_html='<img src="a.png"/>'),
                         ["index.html: loads a.png, which is not there"])

    def test_a_page_that_nothing_leads_to_is_found(self):
        found = self.check(index_html="", a_html='<a href="b.html">b</a>', b_html='<a href="a.html">a</a>')
        self.assertEqual(found, ["a.html: no link leads there", "b.html: no link leads there"])

    def test_results_of_the_search_lead_somewhere(self):
        found = self.check(index_html="", search__a_html="", search__a_js="[['x',['../b.html#c',1]]]")
        self.assertEqual(found, ["search/a.js: links to ../b.html#c, which is not there"])

    def test_a_folder_without_a_first_page_is_no_site(self):
        self.assertEqual(self.check(a_html=""), ["index.html is missing"])


if __name__ == "__main__":
    unittest.main()
