#!/usr/bin/env python3
"""Checks the project's documents: how long they, their lines and sentences are, that links lead
somewhere, that a script makes each picture, and that each term of the glossary stands in its header.

check_documents.py ROOT: prints what is wrong; exit status 1 if anything is.
"""

import pathlib
import re
import subprocess
import sys

LONGEST_LINE = 100
MOST_WORDS = 40
MOST_LINES = {"README.md": 130, "docs/ARCHITECTURE.md": 150}
GLOSSARY = "docs/GLOSSARY.md"
MOST_TERMS = 40
PICTURES = "scripts/pictures"
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s:]+)\)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`]*`")
ITEM = re.compile(r"\s*([-*]|\d+\.) ")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\W*\s")


def documents(root):
    """The Markdown files that the project keeps, as paths from its root."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return listed.stdout.splitlines()
    skipped = {"build", "dist", ".git"}
    found = (path.relative_to(root) for path in sorted(root.rglob("*.md")))
    return [str(path) for path in found if not skipped & set(path.parts)]


def long_lines(lines):
    """Rows of tables cannot be broken."""
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE and not line.startswith("|"):
            yield number, f"has {len(line)} characters, more than {LONGEST_LINE}"


def dead_links(root, path, lines):
    in_code = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if in_code:
            continue
        for target in LINK.findall(CODE.sub("", line)):
            name = target.split("#")[0]
            if name and "://" not in name and not (root / path).parent.joinpath(name).exists():
                yield number, f"links to {name}, which does not exist"


def pictures_by_hand(root, lines):
    """A picture that no script makes shows what once was."""
    script = root / PICTURES
    made = re.findall(r"^make_(\w+)\(\)", script.read_text() if script.exists() else "", re.M)
    for number, line in enumerate(lines, 1):
        for target in PICTURE.findall(CODE.sub("", line)):
            if pathlib.Path(target).stem not in made:
                yield number, f"shows {target}, which {PICTURES} does not make"


def paragraphs(lines):
    """(number of its first line, text) of each paragraph and item; no code, table or heading."""
    first, text, in_code = 0, "", False
    for number, line in enumerate([*lines, ""], 1):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        indented = line.startswith("    ") and not text
        prose = line.strip() and not (in_code or fence or indented or line.startswith(("|", "#")))
        if text and (not prose or ITEM.match(line)):
            yield first, text
            text = ""
        if prose:
            first = first if text else number
            text += line.strip() + " "


def long_sentences(lines):
    """What stands quoted as code is one word, whatever it is."""
    for number, text in paragraphs(lines):
        for sentence in END_OF_SENTENCE.split(CODE.sub("code", text)):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                yield number, (f"has a sentence of {len(words)} words, more than {MOST_WORDS}: "
                               f"{' '.join(words[:5])} …")


def rows_of_terms(lines):
    """Number, term and header of each row of the glossary's table."""
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[2].startswith("`"):
            yield number, cells[0].strip("`"), cells[2].strip("`")


def wrong_terms(root, lines):
    terms = list(rows_of_terms(lines))
    if len(terms) > MOST_TERMS:
        yield terms[-1][0], f"has {len(terms)} terms, more than {MOST_TERMS}"
    seen = set()
    for number, term, header in terms:
        if term in seen:
            yield number, f"has {term} twice"
        seen.add(term)
        if not (root / header).is_file():
            yield number, f"names {header}, which does not exist"
        elif not re.search(rf"\b(Basic)?{re.escape(term)}(s|es)?\b", (root / header).read_text(), re.I):
            yield number, f"says that {term} stands in {header}"


def check_tree(root):
    """What is wrong, as PATH:LINE: MESSAGE."""
    found = []
    for path in documents(root):
        if path.startswith("tests/data/"):
            continue
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        wrong = [*long_lines(lines), *long_sentences(lines), *dead_links(root, path, lines),
                 *pictures_by_hand(root, lines)]
        if len(lines) > MOST_LINES.get(path, len(lines)):
            wrong.append((len(lines), f"has more than {MOST_LINES[path]} lines"))
        if path == GLOSSARY:
            wrong += wrong_terms(root, lines)
        found += [f"{path}:{number}: {message}" for number, message in wrong]
    return found


def main():
    found = check_tree(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "the documents are as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
