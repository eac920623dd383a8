"""CPU time of a process with all that it started, in nanoseconds' resolution."""

import os
import resource
import time
from typing import List

_CPU_CLOCK_OF_PROCESS = 2


def cpu_seconds() -> float:
    """CPU seconds, user and system, of all threads of this process, of its descendants that run,
    and of its children that have ended and were waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(_process_seconds(pid) for pid in _descendants(os.getpid()))
    return time.process_time() + running + ended.ru_utime + ended.ru_stime


def _process_seconds(pid: int) -> float:
    # The clock of another process, as clock_getcpuclockid(3) computes its number.
    try:
        return time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_PROCESS)
    except OSError:  # it has just ended
        return 0.0


def _descendants(pid: int) -> List[int]:
    found: List[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
                own = [int(child) for child in children.read().split()]
        except OSError:  # the thread has just ended
            continue
        for child in own:
            found += [child, *_descendants_or_none(child)]
    return found


def _descendants_or_none(pid: int) -> List[int]:
    try:
        return _descendants(pid)
    except OSError:  # it has just ended
        return []
