#!/usr/bin/env python3
"""The check of commits' titles reports each that is wrong, and passes where there is no history."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import check_titles

SCRIPT = pathlib.Path(check_titles.__file__)
WRONG = "No area here"


class TitlesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ringfeed-titles-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.root = self.folder / "project"
        # Where git runs the tests, as `git rebase --exec` does, these name the repository it is in.
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]
        self.git("init", "-q", "-b", "main", ".")

    def git(self, *words):
        self.root.mkdir(exist_ok=True)
        who = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self, *some):
        for title in some:
            self.git("commit", "-q", "--allow-empty", "-m", title)

    def bring(self):
        """The commit that brings the check."""
        path = self.root / check_titles.ITSELF
        path.parent.mkdir(parents=True)
        path.write_text("")
        self.git("add", ".")
        self.commit("shape: check titles")

    def check(self, root=None):
        done = subprocess.run([sys.executable, str(SCRIPT), str(root or self.root)], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_a_title_is_an_area_and_what_and_not_long(self):
        longest = "a: " + "b" * 69
        for title in ["docs: say it", "readers/engine: x", "docs, tests: say why", longest]:
            self.assertIsNone(check_titles.fault(title), title)
        for title in [WRONG, "docs:say it", "docs: ", "Docs: say it", ": what", "two words: x",
                      longest + "b", 'Revert "docs: say it"']:
            self.assertIsNotNone(check_titles.fault(title), title)

    def test_what_came_before_the_check_is_not_its_matter(self):
        self.commit(WRONG)
        self.assertEqual(self.check()[0], 0)
        self.bring()
        self.assertEqual(self.check()[0], 0)

    def test_what_came_after_it_is(self):
        self.bring()
        self.commit("docs: say it", "x" * 80)
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertEqual(len(output.splitlines()), 1, output)
        self.assertIn("80 characters", output)
        self.git("checkout", "-q", "--detach", "HEAD")
        self.commit(WRONG)
        status, output = self.check()
        self.assertEqual((status, len(output.splitlines())), (1, 2), output)

    def test_merges_are_left_out(self):
        self.bring()
        self.git("checkout", "-q", "-b", "side")
        self.commit("docs: say it")
        self.git("checkout", "-q", "main")
        self.git("merge", "-q", "--no-ff", "-m", "Merge of anything", "side")
        self.assertEqual(self.check(), (0, "1 titles are as they should be\n"))

    def test_a_clone_without_history_passes(self):
        self.bring()
        self.commit(WRONG, "docs: say it", "docs: say more")
        for depth in [1, 2]:
            clone = self.folder / f"clone{depth}"
            self.git("clone", "-q", "--depth", str(depth), self.root.as_uri(), str(clone))
            self.assertEqual(self.check(clone)[0], 0)

    def test_sources_without_a_repository_are_skipped(self):
        self.bring()
        self.commit(WRONG)
        inner = self.root / "inner"  # as a part of another project's repository
        inner.mkdir()
        self.assertEqual(self.check(inner)[0], check_titles.SKIPPED)
        shutil.rmtree(self.root / ".git")
        self.assertEqual(self.check()[0], check_titles.SKIPPED)


if __name__ == "__main__":
    unittest.main()
