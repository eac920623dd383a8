"""The command `ringfeed feed`: the same chains in C++ without Python, in a process of its own.

A measurement is the difference of two runs, of one pass and of several: start and end of a run
cancel out, as in a stream in full flow. The environment variable RINGFEED_COMMAND says which
command, RINGFEED_THREADS how many threads read (0: one a core)."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Dict, List

from works import SAMPLE_BYTES, WORKS, Work

OPTIONS = {
    "images": ["--parse", f"example: image=u1[{SAMPLE_BYTES}] label=i8[1]"],
    "table": ["--parse", "example: dense=f4[13] cat=i8[26] label=i8[1]"],
    "samples": ["--format", f"rows:{SAMPLE_BYTES}", "--parse", f"rows: u1[{SAMPLE_BYTES}]",
                "--shuffle-mode", "global", "--seed", "7"],
    "tiny": ["--format", "rows:160", "--parse", "rows: u1[160]"],
}


def feed(work: Work, files: List[str], *options: str) -> Dict[str, Any]:
    """Runs the command on a work; its report.

    Raises:
        subprocess.CalledProcessError: it failed, and has said why on stderr.
    """
    command = [os.environ.get("RINGFEED_COMMAND", "ringfeed"), "feed", *files, "--batch",
               str(work.batch), "--threads", os.environ.get("RINGFEED_THREADS", "0"), "--json",
               *OPTIONS[work.name], *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def measured(work: Work, files: List[str], seconds: float) -> Dict[str, Any]:
    """What passes behind the first one take, as many as take about so many CPU seconds."""
    one = feed(work, files, "--passes", "1", "--no-digest")
    passes = 1 + max(8, round(seconds / max(one["cpu_s"], 1e-3)))
    many = feed(work, files, "--passes", str(passes), "--no-digest")
    rows = many["records"] - one["records"]
    return {"rows": rows, "batches": many["batches"] - one["batches"],
            "bytes": rows * work.row_bytes, "wall_s": many["wall_s"] - one["wall_s"],
            "cpu_s": many["cpu_s"] - one["cpu_s"]}


def main() -> int:
    """Measures, or with --digest looks that one pass delivers each row once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=sorted(OPTIONS))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--pass-rows", type=int, required=True)
    parser.add_argument("--digest", action="store_true")
    options = parser.parse_args()
    work = WORKS[options.work]
    files = work.files(options.data)
    if options.digest:
        report = feed(work, files, "--verify")
        result: Dict[str, Any] = {"rows": report["records"], "verified": report["verified"]}
    else:
        result = measured(work, files, options.seconds)
    print(json.dumps({"work": work.name, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
