#!/usr/bin/env python3
"""The text of a file of results: JSON with a line for each record.

  bench/results_text.py FILE…   lays out files of JSON again

scripts/bench, scripts/gpu and bench/peers/run.py write their results by it. A list or an object that
fits a line stands on one. Of a longer one each list and object begins a line, and members that
are neither share lines. `grep ROW FILE` prints a whole row, and a change of it is a line of a diff.
"""

import json
import pathlib
import sys

LONGEST_LINE = 320


def results_text(value):
    """The text of a value that is written to a file of its own."""
    return laid_out(value, 0) + "\n"


def laid_out(value, depth):
    """A value whose line begins with `depth` blanks; the lines after its first one have them, too."""
    whole = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or depth + len(whole) < LONGEST_LINE:
        return whole
    lines, shared = [], False
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        text = laid_out(member, depth + 1)
        if isinstance(value, dict):
            text = f"{json.dumps(key, ensure_ascii=False)}: {text}"
        alone = isinstance(member, (dict, list))
        if shared and not alone and depth + len(lines[-1]) + len(text) + 4 <= LONGEST_LINE:
            lines[-1] += f", {text}"
        else:
            lines.append(text)
        shared = not alone
    begin, end = "{}" if isinstance(value, dict) else "[]"
    margin = "\n" + " " * depth
    return begin + margin + " " + f",{margin} ".join(lines) + margin + end


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        path.write_text(results_text(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
