"""Puts a test's switches into sources of the library."""

import pathlib
import sys


def write(sources, changes, header):
    """For a script called with ROOT OUTPUT: the source OUTPUT includes `header` and has `sources`, one
    after another, with `changes`: (source, what is there, what stands in its place). A text that is not
    there exactly once is an error: so what a switch changes is in what ships."""
    root, output = map(pathlib.Path, sys.argv[1:3])
    shipped = {source: (root / source).read_text(encoding="utf-8") for source in sources}
    texts = dict(shipped)
    for source, old, new in changes:
        if shipped[source].count(old) != 1 or texts[source].count(old) != 1:
            sys.exit(f"it is not once in {source}: {old}")
        texts[source] = texts[source].replace(old, new)
    output.write_text(f'#include "{header}"\n' + "".join(texts.values()), encoding="utf-8")
