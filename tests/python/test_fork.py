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
