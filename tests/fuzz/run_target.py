#!/usr/bin/env python3
"""Runs one fuzz target on a copy of its seeds, from the same seed of random numbers every time.

run_target.py PROGRAM TARGET CORPUS WORK SECONDS: a million inputs, or SECONDS of them where the machine is
too slow for that. RINGFEED_FUZZ_SECONDS in the environment makes it that many seconds, whatever the
number of inputs. What is found in them is kept in WORK/TARGET. Exit status 1 where an input fails: at the
end stand what is wrong, the first frames of the stack, the input's file, and its bytes where they are few.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

RUNS = 1_000_000
LONGEST_SHOWN = 400
FRAMES_SHOWN = 18
# Most of the time goes to the allocator. Without the stacks of allocations, and with freed memory kept
# for fewer of them, it is half as much; an input that fails is run again by hand, with everything.
OPTIONS = "malloc_context_size=0:quarantine_size_mb=8:thread_local_quarantine_size_kb=256"


def command(program, target, corpus, work, seconds):
    longest = max(path.stat().st_size for path in corpus.iterdir())
    words = [program, f"--target={target}", "-seed=1", f"-max_len={max(longest, 128)}", "-timeout=10",
             "-rss_limit_mb=2048", "-print_final_stats=1", "-reload=0", f"-artifact_prefix={work}/"]
    given = os.environ.get("RINGFEED_FUZZ_SECONDS")
    words += [f"-max_total_time={given}"] if given else [f"-runs={RUNS}", f"-max_total_time={seconds}"]
    return words + [str(corpus)]


def show_reason(output):
    """The end of a log may be all that is kept of it."""
    lines = output.splitlines()
    first = next((i for i, line in enumerate(lines) if re.match("The property|==\\d+==|.*runtime error", line)), 0)
    print("\n".join(line[:160] for line in lines[first : first + FRAMES_SHOWN]))


def show_findings(work, program, target):
    for path in sorted(work.glob("*-*")):
        if not path.is_file():
            continue
        print(f"The input is {path}; again: {program} --target={target} {path}")
        data = path.read_bytes()
        print(data.hex() if len(data) <= LONGEST_SHOWN else f"{len(data)} bytes")


def main():
    program, target, seeds, work, seconds = sys.argv[1:]
    work = pathlib.Path(work) / target
    shutil.rmtree(work, ignore_errors=True)
    corpus = work / "corpus"
    shutil.copytree(pathlib.Path(seeds) / target, corpus)
    started = time.monotonic()
    run = subprocess.run(command(program, target, corpus, work, seconds), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, errors="replace", env={**os.environ, "ASAN_OPTIONS": OPTIONS})
    took = time.monotonic() - started
    tail = run.stdout.splitlines()
    print("\n".join(tail if run.returncode else tail[-12:]))
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", run.stdout)
    count = int(executed[1]) if executed else 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = used.ru_utime + used.ru_stime
    print(f"fuzz {target}: {count} inputs in {took:.1f} s, {count / busy:.0f} a second of a processor")
    if run.returncode:
        show_reason(run.stdout)
        show_findings(work, program, target)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
