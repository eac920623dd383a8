"""The threads of this process, as the kernel lists them."""

from __future__ import annotations

import os
import time


def thread_ids() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def threads_left(before: set[str]) -> set[str]:
    """Threads that are there still and were not before. One that was joined stays listed for a
    moment: so it waits until there is none, 30 s at most."""
    deadline = time.monotonic() + 30
    while (left := thread_ids() - before) and time.monotonic() < deadline:
        time.sleep(0.001)
    return left
