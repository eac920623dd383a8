#!/usr/bin/env python3
"""Has Spin look through waiting.pml: nobody sleeps for ever, and each mistake that is built in is found.

check_waiting_model.py [-v] [NAME…]   all, or the sizes and breaks of these names

Ends with 77 where spin or a C compiler is not installed. What each break stands for is said in
docs/internals/WAITING.md.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent / "waiting.pml"
SKIPPED = 77

#: The protocol as it is, in several sizes: no hang, nothing lost.
SIZES = {
    "rows of all kinds, 1 credit": "TURNS_OF_OTHERS=1",
    "rows of all kinds, 2 credits": "TURNS_OF_OTHERS=1 CREDITS=2",
    "every task wakes whoever is idle": "TURNS_OF_OTHERS=1 KINDS=2 SHARE=1",
    "a consumer that leaves": "TURNS=1 LEAVES=1",
    "a thread that stops the run": "LANES=1 TURNS=2 EVENTS=1 STOPPER=1 KINDS=2",
    "turns of two blocks, framed ahead": "LANES=3 CREDITS=3 AHEAD=1 PARTS_OF_FIRST=2 KINDS=1",
    "rows left, framed ahead": "LANES=3 AHEAD=1 TURNS=1 PARTS_OF_FIRST=2 KINDS=2",
    "records, 1 credit": "SINK=RECORDS TURNS_OF_OTHERS=1 KINDS=2 SLOTS=1",
    "records, 2 credits": "SINK=RECORDS TURNS_OF_OTHERS=1 KINDS=2 SLOTS=1 CREDITS=2",
    "a shuffle": "SINK=SHUFFLE LANES=1 TURNS=3 KINDS=2",
    "a shuffle without memory": "SINK=SHUFFLE TURNS=1 HELD=1",
    "files of unknown length": "SCHEDULE=1 TURNS=3 CREDITS=4 KINDS=1",
    "an engine": "ENGINE=1 TURNS=1",
    "a stream": "STREAM=1 LANES=1 TURNS=3",
}

#: Mistakes, each in a size in which it hangs.
SMALL = "TURNS_OF_OTHERS=1 KINDS=2"
TURNS = "LANES=3 CREDITS=3 AHEAD=1 PARTS_OF_FIRST=2 KINDS=1"
EVENTS = "EVENTS=1 TURNS=1 KINDS=2"
BREAKS = {
    # A wake that is left out.
    "STOP_WAKE": SMALL,
    "ASK_WAKE": SMALL,
    "TASK_WAKE": "STREAM=1 LANES=1 TURNS=3",
    "CREDIT_WAKE": SMALL,
    "DUE_WAKE": TURNS,
    "ENGINE_WAKE": "ENGINE=1 KINDS=1 TURNS=1 LEAVES=1",
    "PUBLISH_REQUEST": SMALL,
    "RELEASE_ASK": SMALL,
    "BATCH_DONE_ASK": "SINK=SHUFFLE HELD=1 LANES=1 TURNS=3",
    "ROOM_ASK": "SINK=RECORDS SLOTS=1 " + SMALL,
    "DELIVERY_WAKE": EVENTS,
    "END_WAKE": EVENTS,
    "CANCEL_WAKE": EVENTS + " STOPPER=1",
    # A wake that comes too early or too seldom, or a look that is missing.
    "DUE_WAKE_AT_FIRST_POP_ALONE": TURNS,
    "DUE_WAKE_TOO_EARLY": TURNS,
    "CREDIT_WAKE_TOO_EARLY": SMALL,
    "ASK_WAKE_TOO_EARLY": SMALL,
    "NO_SECOND_LOOK": SMALL,
    "LOOK_BEFORE_REGISTERING": SMALL,
    "NO_SECOND_LOOK_IN_ENGINE": "ENGINE=1 KINDS=1 TURNS=1 LEAVES=1",
    "ENGINE_WAKE_NOT_KEPT": "ENGINE=1 KINDS=1 TURNS=1 LEAVES=1",
    "NO_SECOND_LOOK_FOR_ROOM": "SINK=RECORDS SLOTS=1 " + SMALL,
    "NO_SECOND_LOOK_OF_CONSUMER": EVENTS,
    "PLAN_WITHOUT_LOOP": SMALL,
}

#: Wakes without which nobody hangs: they bring somebody to work earlier.
SPARED = {
    "IDLE_WAKE": "SHARE=1 " + SMALL,
    "AHEAD_WAKE": TURNS,
    "MOVED_WAKE": "SCHEDULE=1 TURNS=3 CREDITS=4 KINDS=1",
    "RECYCLE_ASK": "SINK=SHUFFLE LANES=1 TURNS=3 KINDS=2",
}


#: What takes longer to look through than to compile well.
LONG = {"NOTHING", "BATCH_DONE_ASK", *SPARED}


def look_through(size, mistake):
    """What Spin says of the model in this size with this mistake: ("passes" or "hangs", states)."""
    definitions = [f"-D{word}" for word in size.split()] + [f"-DBREAK={mistake}"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(MODEL, folder)  # Spin writes beside it

        def run(*command):
            return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=250)

        made = run("spin", "-a", *definitions, MODEL.name)
        if made.returncode or not (pathlib.Path(folder) / "pan.c").exists():
            raise RuntimeError(f"spin: {made.stdout}{made.stderr}")
        compiler = os.environ.get("CC", "cc")
        level = "-O1" if mistake in LONG else "-O0"
        made = run(compiler, level, "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000", "-o", "pan", "pan.c")
        if made.returncode:
            raise RuntimeError(f"{compiler}: {made.stderr}")
        said = run("./pan", "-m100000").stdout
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"([\d.e+]+) states, stored", said)
    complete = "Search not completed" not in said or (errors and errors[1] != "0")
    if not errors or not states or not complete or "max search depth too small" in said:
        raise RuntimeError(f"the search did not end:\n{said}")
    why = re.search(r"pan:1: (invalid end state|assertion violated)", said)
    return ("hangs" if why else "passes"), int(float(states[1]))


def check(job):
    name, size, mistake, expected = job
    started = time.monotonic()
    try:
        found, states = look_through(size, mistake)
    except (RuntimeError, subprocess.TimeoutExpired) as problem:
        return False, f"{name}: {problem}"
    line = f"{found:6} {states:9} states {time.monotonic() - started:5.1f} s  {name}"
    if found == expected:
        return True, line
    return False, f"{line}: it {expected} no more" if expected == "hangs" else f"{line}: a hang"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("-v", action="store_true", help="a line for each, also where all is well")
    arguments.add_argument("names", nargs="*")
    given = arguments.parse_args()
    for tool in ("spin", os.environ.get("CC", "cc")):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            return SKIPPED
    jobs = [(name, size, "NOTHING", "passes") for name, size in SIZES.items()]
    jobs += [(name, size, name, "hangs") for name, size in BREAKS.items()]
    jobs += [(name, size, name, "passes") for name, size in SPARED.items()]
    jobs = [job for job in jobs if not given.names or job[0] in given.names]
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        results = list(pool.map(check, jobs))
    failed = [line for good, line in results if not good]
    if given.v:
        print("\n".join(line for good, line in results if good))
    print("\n".join(failed))
    print(f"{len(results)} models, {len(failed)} not as expected")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
