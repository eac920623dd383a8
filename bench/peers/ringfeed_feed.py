"""The command `ringfeed feed`: the same chains in C++ without Python, in a process of its own.

A measurement is the difference of two runs, of one pass and of several: start and end of a run
cancel out, as in a stream in full flow. The environment variable RINGFEED_COMMAND says which
command, RINGFEED_THREADS how many threads read (0: one a core)."""

import json
import os
import pathlib
import subprocess
from typing import Any, Dict

from data_sets import SAMPLE_BYTES, Work

OPTIONS = {
    "images": ["--parse", f"example: image=u1[{SAMPLE_BYTES}] label=i8[1]"],
    "table": ["--parse", "example: dense=f4[13] cat=i8[26] label=i8[1]"],
    "samples": ["--format", f"rows:{SAMPLE_BYTES}", "--parse", f"rows: u1[{SAMPLE_BYTES}]",
                "--shuffle-mode", "global", "--seed", "7"],
    "tiny": ["--format", "rows:160", "--parse", "rows: u1[160]"],
}


def feed(work: Work, data: pathlib.Path, *options: str) -> Dict[str, Any]:
    """Runs the command on a work; its report.

    Raises:
        subprocess.CalledProcessError: it failed, and has said why on stderr.
    """
    command = [os.environ.get("RINGFEED_COMMAND", "ringfeed"), "feed", *work.files(data), "--batch",
               str(work.batch), "--threads", os.environ.get("RINGFEED_THREADS", "0"), "--json",
               *OPTIONS[work.name], *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def digest(work: Work, data: pathlib.Path) -> Dict[str, Any]:
    """Whether one pass delivers each row once: the command compares them with the files."""
    report = feed(work, data, "--verify")
    return {"rows": report["records"], "verified": report["verified"]}


def measured(work: Work, data: pathlib.Path, seconds: float) -> Dict[str, Any]:
    """What passes after the first one take, as many as take about so many CPU seconds."""
    one = feed(work, data, "--passes", "1", "--no-digest")
    passes = 1 + max(8, round(seconds / max(one["cpu_s"], 1e-3)))
    many = feed(work, data, "--passes", str(passes), "--no-digest")
    rows = many["records"] - one["records"]
    return {"rows": rows, "batches": many["batches"] - one["batches"],
            "bytes": rows * work.row_bytes, "wall_s": many["wall_s"] - one["wall_s"],
            "cpu_s": many["cpu_s"] - one["cpu_s"]}
