"""close(), Ctrl-C and the end of the process wait for no record that is framed and not asked of."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER

import ringfeed

_ROWS = 200_000
#: From here on a record takes its time: behind the first block, and in the middle of one.
_SLOW_FROM = 100_000
#: More than records that are under way in as many threads when it closes.
_MORE = 100


def _rows(folder: Path) -> Path:
    path = folder / "many.rows"
    path.write_bytes(struct.pack(f"<{_ROWS}q", *range(_ROWS)))
    return path


class _Calls:
    """Counts the calls of a function of records that is slow from some record on."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()
        self.slow = threading.Event()

    def note(self, record: bytes) -> None:
        with self.lock:
            self.count += 1
        if int.from_bytes(record, "little") >= _SLOW_FROM:
            self.slow.set()
            time.sleep(0.01)


def _filtered(path: Path, calls: _Calls) -> Any:
    def keep(record: bytes) -> bool:
        calls.note(record)
        return True

    return ringfeed.Loader(
        path, format="rows:8", parse=ringfeed.rows(NUMBER), batch=32, filter=keep, threads=2
    )


def _grouped(path: Path, calls: _Calls) -> Any:
    def group_of(record: bytes) -> int:
        calls.note(record)
        return 0

    records = ringfeed.open_files(path, format="rows:8", threads=2)
    return ringfeed.group_batch(ringfeed.parse(records, ringfeed.rows(NUMBER)), 32, group_of)


def _parsed(path: Path, calls: _Calls) -> Any:
    class Numbers(ringfeed.Parser):
        fields = {"x": ("int64", (-1,))}

        def parse(self, sample: bytes) -> Any:
            calls.note(sample)
            return {"x": sample}

    return ringfeed.Loader(path, format="rows:8", parse=Numbers(), batch=32, threads=2)


CHAINS = {
    "filter": _filtered,
    "group_batch": _grouped,
    "a parser of ragged fields": _parsed,
}


def _read(chain: Any) -> None:
    with contextlib.suppress(ringfeed.errors.Cancelled, StopIteration):
        while True:
            next(chain)


@pytest.mark.parametrize("what", CHAINS)
def test_close_is_looked_at_between_records(tmp_path: Path, what: str) -> None:
    calls = _Calls()
    chain = CHAINS[what](_rows(tmp_path), calls)
    reading = threading.Thread(target=_read, args=(chain,), daemon=True)
    reading.start()
    assert calls.slow.wait(60)
    before = calls.count
    chain.close()
    after = calls.count
    assert after - before < _MORE
    reading.join(60)
    assert not reading.is_alive()
    assert calls.count == after


_SLOW = """
import os, signal, sys, threading, time
import ringfeed

slow = threading.Event()

def keep(record):
    if int.from_bytes(record, "little") >= 100_000:
        if not slow.is_set():
            slow.set()
            if sys.argv[2] == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    return True

loader = ringfeed.Loader(sys.argv[1], format="rows:8", batch=64, filter=keep, threads=2)
if sys.argv[2] == "interrupt":
    for batch in loader:
        pass
reading = threading.Thread(target=lambda: list(loader), daemon=True)
reading.start()
assert slow.wait(30)
"""


@pytest.mark.parametrize("how", ["exit", "interrupt"])
def test_a_process_with_a_slow_filter_ends(tmp_path: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SLOW, str(_rows(tmp_path)), how],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == (0 if how == "exit" else -2), done.stderr
