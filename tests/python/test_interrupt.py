"""Waits end on Ctrl-C, and reading goes on behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from loader_data import number_loader, tfrecord, write_rows

import ringfeed


@contextmanager
def started(
    program: str, *arguments: str | Path
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A program at work, and what it prints. It is gone at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


_BLOCKED = """
import sys, time
import ringfeed
loader = ringfeed.Loader(sys.argv[1], format="lines", batch=2)
print("reading", flush=True)
try:
    next(loader)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(next(loader)["bytes"].tobytes().decode(), flush=True)
"""


@pytest.mark.parametrize("writer_is_there", [False, True])
def test_ctrl_c_ends_a_wait_and_the_loader_is_read_on(
    tmp_path: Path, writer_is_there: bool
) -> None:
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    with started(_BLOCKED, fifo) as (reader, output):
        assert output.readline() == "reading\n"
        writer = open(fifo, "w") if writer_is_there else None
        time.sleep(0.3)  # it waits by then
        began = time.monotonic()
        reader.send_signal(signal.SIGINT)
        assert output.readline() == "interrupted\n"
        took = time.monotonic() - began
        print(f"KeyboardInterrupt came {took * 1000:.1f} ms behind the signal")
        assert took < 10  # nothing else ends the wait
        with writer or open(fifo, "w") as stream:
            stream.write("one\ntwo\n")
        assert output.readline() == "onetwo\n"
        assert reader.wait(timeout=30) == 0


_BLOCKED_PASS = """
import sys, threading
import ringfeed
chain = ringfeed.open_files(sys.argv[1], format="lines")
def look():
    try:
        ringfeed.next_pass(chain)
    except ringfeed.Error:
        pass
if sys.argv[2] == "another":
    threading.Thread(target=look, daemon=True).start()
print("reading", flush=True)
try:
    ringfeed.next_pass(chain)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(ringfeed.next_pass(chain), len(list(chain)), ringfeed.next_pass(chain), flush=True)
"""


@pytest.mark.parametrize("others", ["nobody", "another"])
def test_ctrl_c_ends_the_wait_for_the_next_pass(tmp_path: Path, others: str) -> None:
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    with started(_BLOCKED_PASS, fifo, others) as (reader, output):
        assert output.readline() == "reading\n"
        time.sleep(0.3)  # it waits by then
        reader.send_signal(signal.SIGINT)
        assert output.readline() == "interrupted\n"
        fifo.write_text("one\ntwo\n")
        assert output.readline() == "0 2 None\n"
        assert reader.wait(timeout=30) == 0


_BLOCKED_POSITION = """
import sys, threading
import ringfeed
goes_on = threading.Event()
loader = ringfeed.Loader(
    sys.argv[1],
    format="lines",
    batch=1,
    filter=lambda record: goes_on.wait() or True,
    devices=sys.argv[2] or None,
)
loader.seek_to(2)
print("reading", flush=True)
try:
    loader.state_dict()
except KeyboardInterrupt:
    print("interrupted", flush=True)
goes_on.set()
state = loader.state_dict()
print(next(loader)["bytes"].tobytes().decode(), flush=True)
loader.load_state_dict(state)
print(next(loader)["bytes"].tobytes().decode(), flush=True)
"""


@pytest.mark.parametrize("devices", ["", "emu:1"])
def test_ctrl_c_ends_the_wait_for_where_a_loader_stands(tmp_path: Path, devices: str) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\nthree\n")
    with started(_BLOCKED_POSITION, lines, devices) as (reader, output):
        assert output.readline() == "reading\n"
        time.sleep(0.3)  # it waits by then
        reader.send_signal(signal.SIGINT)
        assert output.readline() == "interrupted\n"
        assert output.readline() == "three\n"
        assert output.readline() == "three\n"
        assert reader.wait(timeout=30) == 0


def test_a_wait_lets_other_threads_run(tmp_path: Path) -> None:
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    ran = threading.Event()

    def write_later() -> None:
        time.sleep(0.1)
        ran.set()
        fifo.write_text("one\ntwo\n")

    thread = threading.Thread(target=write_later)
    thread.start()
    batch = next(ringfeed.Loader(fifo, format="lines", batch=2))
    thread.join()
    assert ran.is_set()
    assert batch["bytes"].tobytes() == b"onetwo"


def test_another_threads_wait_ends_with_close(tmp_path: Path) -> None:
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    loader = ringfeed.Loader(fifo, format="lines", batch=2)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            next(loader)
        except ringfeed.Error as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.1)
    loader.close()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert [type(error) for error in raised] == [ringfeed.errors.Cancelled]


def test_a_handler_that_returns_does_not_end_a_read(tmp_path: Path) -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: calls.append(number))
    try:
        fifo = tmp_path / "records"
        os.mkfifo(fifo)
        loader = ringfeed.Loader(fifo, format="lines", batch=1)
        timer = threading.Timer(0.5, lambda: fifo.write_text("late\n"))
        timer.start()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert next(loader)["bytes"].tobytes() == b"late"
        timer.join()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert calls == [signal.SIGALRM]


def test_reading_needs_no_main_thread(tmp_path: Path) -> None:
    counts: list[int] = []
    loader = number_loader(write_rows(tmp_path))
    thread = threading.Thread(target=lambda: counts.append(sum(1 for _ in loader)))
    thread.start()
    thread.join(timeout=60)
    assert counts == [43]


_INDEXING = """
import os, sys
import ringfeed

def open_loader(path, **more):
    return ringfeed.Loader(path, batch=2, shuffle="global", seed=1, **more)

path, small, what = sys.argv[1:]
loader = open_loader(path, **({"devices": "emu:2"} if what == "devices" else {}))
state = open_loader(small).state_dict()
actions = {
    "next": lambda: next(loader),
    "devices": lambda: next(loader),
    "len": lambda: len(loader),
    "seek_to": lambda: loader.seek_to(1),
    "state_dict": lambda: loader.state_dict(),
    "load_state_dict": lambda: loader.load_state_dict(state),
}
print("indexing", flush=True)
try:
    actions[what]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
os.replace(small, path)
print(len(loader), sum(len(batch["bytes"].lod[0]) - 1 for batch in loader), flush=True)
"""


# A file of nothing but holes is searched for records to its end.
@pytest.mark.parametrize(
    "what", ["next", "devices", "len", "seek_to", "state_dict", "load_state_dict"]
)
def test_ctrl_c_ends_the_making_of_an_index_and_the_next_call_makes_it(
    tmp_path: Path, what: str
) -> None:
    data, small = tmp_path / "data.tfrecord", tmp_path / "small.tfrecord"
    with open(data, "wb") as file:
        file.truncate(1 << 36)
    small.write_bytes(b"".join(tfrecord(b"%d" % i) for i in range(10)))
    with started(_INDEXING, data, small, what) as (program, output):
        assert output.readline() == "indexing\n"
        time.sleep(0.3)  # it is in the middle of it
        began = time.monotonic()
        program.send_signal(signal.SIGINT)
        assert output.readline() == "interrupted\n"
        took = time.monotonic() - began
        print(f"KeyboardInterrupt came {took * 1000:.1f} ms behind the signal")
        assert took < 10  # all of it takes longer
        assert output.readline() == "5 10\n"
        assert program.wait(timeout=30) == 0
