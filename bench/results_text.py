#!/usr/bin/env python3
"""A file of results: JSON with a line for each record.

  bench/results_text.py FILE…   lays out files of JSON again

scripts/bench, scripts/gpu and bench/peers/run.py write their results by it. A list or an object that
fits a line stands on one. Of a longer one each list and object begins a line, and members that
are neither share lines. `grep ROW FILE` prints a whole row, and a change of it is a line of a diff.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
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


def machine():
    """This machine, as the results name it. Asked before the measurement: it has the load."""
    try:
        described = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        described = ""
    model = re.search(r"^model name\s*:\s*(.*)$", described, re.M)
    return {
        "processor": model.group(1).strip() if model else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def commit(*words):
    """Of this tree, by `git words`; "" if git does not know it."""
    try:
        done = subprocess.run(["git", *(words or ("rev-parse", "--short", "HEAD"))],
                              cwd=pathlib.Path(__file__).parent, capture_output=True, text=True,
                              check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def write_results(path, command, described, results):
    """Writes what was measured, with the day, the commit, the command and the machine."""
    document = {"date": datetime.date.today().isoformat(), "commit": commit(), "command": command,
                "machine": described, **results}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(results_text(document), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        path.write_text(results_text(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
