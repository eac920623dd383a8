#!/usr/bin/env python3
"""make_switched_run.py ROOT OUTPUT: writes a run's sources with the switches of run_switches.h."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True
import switched_sources  # noqa: E402

ENGINE = "readers/engine/"
RUN = ENGINE + "run.cc"
SUMS = ENGINE + "blocks/late_sums.cc"
#: What the worker calls has to be compiled with it.
SOURCES = [RUN, SUMS, ENGINE + "run_worker.cc"]

CHANGES = [
    (RUN, "if (!stopping()) parts_.plan_requests.Ask();",
     "if (!stopping() && !LeavesOutWake()) parts_.plan_requests.Ask();"),
    (SUMS, "!block.files.empty()) && block", "!block.files.empty()) && !TakesSumsAtOnce() && block"),
]

switched_sources.write(SOURCES, CHANGES, "tests/readers/run_switches.h")
