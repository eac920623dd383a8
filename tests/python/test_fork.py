"""A forked child gets an error and ends; a process that leaves readers open ends too."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from loader_data import all_numbers, number_loader, numbers, write_rows
from own_threads import thread_ids, threads_left

import ringfeed

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def _try_to_read(loader: Any) -> int:
    """0 where reading says that the process was forked."""
    try:
        next(loader)
    except RuntimeError as error:
        return 0 if "forked" in str(error) and "spawn" in str(error) else 2
    return 3


def test_a_forked_child_gets_an_error_and_its_parent_goes_on(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    next(loader)
    child = os.fork()
    if child == 0:
        os._exit(_try_to_read(loader))
    _, status = os.waitpid(child, 0)
    assert os.WEXITSTATUS(status) == 0
    assert numbers(next(loader)) == list(range(7, 14))


def _finds_no_memory(array: ringfeed.Array, copied: ringfeed.Array) -> int:
    """How a child finds its parent's array: 0 as it should be."""
    uses: list[Callable[[], Any]] = [
        array.tolist,
        array.tobytes,
        array.copy,
        lambda: list(array),
        lambda: array[0],
        lambda: pickle.dumps(array),
        lambda: memoryview(array),
        array.__dlpack__,
        lambda: array[2:].tolist(),
    ]
    for number, use in enumerate(uses, 1):
        try:
            use()
        except RuntimeError as error:
            if "copy()" in str(error):
                continue
        return number
    shows = repr(array) == "<ringfeed.Array int64 [7], CPU>"
    return 0 if shows and copied.tolist() == list(range(7)) else 99


def test_a_forked_child_is_told_that_an_array_is_its_parents_and_has_copies(
    tmp_path: Path,
) -> None:
    array = next(number_loader(write_rows(tmp_path, 1)))["x"]
    copied = array.copy()
    child = os.fork()
    if child == 0:
        os._exit(_finds_no_memory(array, copied))
    _, status = os.waitpid(child, 0)
    assert (os.WIFEXITED(status), os.WEXITSTATUS(status)) == (True, 0)


def _child_reads(loader: Any, results: Any) -> None:
    results.put(_try_to_read(loader))


def test_a_child_of_multiprocessings_fork_ends_clean(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    loader = number_loader(write_rows(tmp_path, 1))
    next(loader)
    results = context.Queue()
    child = context.Process(target=_child_reads, args=(loader, results))
    child.start()
    assert results.get(timeout=30) == 0
    child.join(timeout=30)
    assert child.exitcode == 0


def _child_opens(files: str, results: Any) -> None:
    results.put(all_numbers(number_loader(files)))


def test_a_forked_child_may_open_files_of_its_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    files = write_rows(tmp_path, 1)
    results = context.Queue()
    child = context.Process(target=_child_opens, args=(files, results))
    child.start()
    assert results.get(timeout=30) == list(range(100))
    child.join(timeout=30)
    assert child.exitcode == 0


_FORKED_IN_A_PRODUCER = """
import os, sys, threading
import ringfeed

feed = ringfeed.py_reader(2, [[4]], ["uint8"])
feed.decorate_tensor_provider(lambda: ([b"1234"] for _ in range(9)))
feed.start()
held, forked = threading.Event(), threading.Event()

def hold():
    with feed._producer._lock:  # as another thread that starts the chain again does for a moment
        held.set()
        forked.wait()

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child:
    forked.set()
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_waits_for_no_generator_of_its_parents() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FORKED_IN_A_PRODUCER], timeout=20, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


_LEFT_OPEN = """
import sys
sys.path.insert(0, sys.argv[1])
from loader_data import number_loader
loader = number_loader(sys.argv[2], passes=0, shuffle=True)
held = [next(loader) for _ in range(3)]
iterator = iter(loader)
"""

_ENDS = {
    "at the program's end": "",
    "by an exception": "raise SystemExit(0)",
    "in a cycle": "class Node: pass\nnode = Node(); node.self = node; node.loader = loader",
    "with a Python filter at work": (
        "import ringfeed\n"
        "other = number_loader(sys.argv[2], passes=0, filter=lambda record: True)\n"
        "next(other)"
    ),
}


@pytest.mark.parametrize("end", _ENDS)
def test_a_process_that_leaves_a_loader_open_ends_in_time(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", _LEFT_OPEN + _ENDS[end], str(Path(__file__).parent)]
    ended = subprocess.run(
        [*command, write_rows(tmp_path)], timeout=60, stderr=subprocess.PIPE, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_thread_is_left_behind_close(tmp_path: Path) -> None:
    before = thread_ids()
    loader = number_loader(write_rows(tmp_path))
    next(loader)
    assert thread_ids() - before
    loader.close()
    assert not threads_left(before)


# What is done at exit behind ringfeed's own part of it tells what that part did.
_IN_A_CHILD = """
import atexit, os, sys, threading, time

def look():
    print(*report(), flush=True)

atexit.register(look)
sys.path.insert(0, sys.argv[1])
import ringfeed
from loader_data import number_loader

mine = number_loader(sys.argv[2], passes=0)
batch = next(mine)
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

_OPENED_THERE = {
    "a loader": (
        """
loader = number_loader(sys.argv[2], passes=0)
thread = threading.Thread(target=lambda: list(map(id, loader)), daemon=True)
thread.start()
time.sleep(0.1)
report = lambda: (thread.join(20), thread.is_alive())
""",
        "None False\n",
    ),
    "a queue": (
        """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
thread = threading.Thread(target=queue.pop, daemon=True)
thread.start()
time.sleep(0.1)
report = lambda: (thread.join(20), thread.is_alive())
""",
        "None False\n",
    ),
    "a writer": (
        """
writer = ringfeed.open_record_writer(os.path.join(sys.argv[3], "made.tfrecord"), "tfrecord")
writer.write(b"abc")
report = lambda: (writer.closed, os.listdir(sys.argv[3]))
""",
        "True []\n",
    ),
}


@pytest.mark.parametrize("what", _OPENED_THERE)
def test_at_exit_a_forked_child_closes_what_it_opened(tmp_path: Path, what: str) -> None:
    program, said = _OPENED_THERE[what]
    files = write_rows(tmp_path)
    (tmp_path / "made").mkdir()
    command = [sys.executable, "-W", "ignore", "-c", _IN_A_CHILD + program]
    ended = subprocess.run(
        [*command, str(Path(__file__).parent), files, str(tmp_path / "made")],
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")
