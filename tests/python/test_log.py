"""Set-backs that cost time are warnings on the main thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, warnings
import ringfeed
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for _ in range(2):
        with ringfeed.Loader(sys.argv[1], format="lines", batch=16, shuffle="global") as loader:
            for batch in loader:
                pass
texts = [str(one.message) for one in told if "4 KiB" not in str(one.message)]
print(len(texts), all(one.category is RuntimeWarning for one in told), *texts)
"""


@pytest.mark.parametrize(("level", "count"), [("off", "0"), ("warn", "1"), ("info", "1")])
def test_an_index_in_memory_alone_is_one_warning(tmp_path: Path, level: str, count: str) -> None:
    # No index can be put below /proc, even by root.
    settings = {"RINGFEED_LOG": level, "RINGFEED_INDEX_FOLDER": "/proc/none"}
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(lines)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{count} True"), ended.stdout
    assert ("in memory alone" in ended.stdout) == (count == "1")


WAIT_FOR_A_STORE = """
import time, warnings
import ringfeed

told = []
warnings.showwarning = lambda message, *_, **__: told.append(time.monotonic())
loader = ringfeed.Loader(
    "http://127.0.0.1:9/a.tfrecord", parse=ringfeed.raw(), batch=4, remote_patience_ms=5000
)
try:
    next(iter(loader))
except ringfeed.Error:
    print(time.monotonic() - told[0] > 2)
"""


def test_a_wait_for_a_store_is_told_while_it_lasts() -> None:
    environment = {**os.environ, "RINGFEED_LOG": "warn"}
    command = [sys.executable, "-W", "always", "-c", WAIT_FOR_A_STORE]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.stdout == "True\n", run.stdout + run.stderr
