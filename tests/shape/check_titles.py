#!/usr/bin/env python3
"""Checks the titles of commits: `area: what`, at most 72 characters, since this check is there.
Merges are left out.

check_titles.py ROOT: prints each title that is not so; exit status 1 if there is one, 77 where ROOT
is no clone, as the sources in an archive.
"""

import pathlib
import re
import subprocess
import sys

MOST = 72
TITLE = re.compile(r"[a-z][\w./-]*(, [a-z][\w./-]*)*: \S.*")
ITSELF = "tests/shape/check_titles.py"
SKIPPED = 77


def git(root, *words):
    """What git prints, or None where it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True,
                              encoding="utf-8", errors="replace", check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def is_clone(root):
    """Whether the repository that git finds there is the project's, not one around it."""
    top = git(root, "rev-parse", "--show-toplevel")
    return top is not None and pathlib.Path(top.rstrip("\n")).resolve() == root.resolve()


def cut_commits(root):
    """Commits that lost their parents in a clone without all of the history: maybe merges."""
    path = git(root, "rev-parse", "--git-path", "shallow")
    shallow = root / path.rstrip("\n") if path else None
    return set(shallow.read_text().split()) if shallow and shallow.is_file() else set()


def titles(root):
    """(commit, title) of all after the one that brought this check; none before it is committed."""
    brought = git(root, "log", "--diff-filter=A", "--format=%H", "HEAD", "--", ITSELF)
    if not brought:
        return []
    since = f"{brought.split()[-1]}..HEAD"
    listed = git(root, "log", "--no-merges", "--format=%H %s", since) or ""
    lost = cut_commits(root)
    found = (line.partition(" ")[::2] for line in listed.splitlines())
    return [(commit, title) for commit, title in found if commit not in lost]


def fault(title):
    """What is wrong with a title, or None."""
    if len(title) > MOST:
        return f"{len(title)} characters, more than {MOST}"
    if not TITLE.fullmatch(title):
        return "it is not of the form `area: what`"
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    if not is_clone(root):
        print("skipped: no clone of the project, or git is missing")
        return SKIPPED
    checked = titles(root)
    wrong = [f"{commit[:12]} \"{title}\": {fault(title)}"
             for commit, title in checked if fault(title)]
    print("\n".join(wrong) if wrong else f"{len(checked)} titles are as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
