"""A batch counts when the caller has it: what a signal's handler comes between is given again."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable

import pytest
from loader_data import NUMBER, all_numbers, number_loader, numbers, write_rows

import ringfeed

# How often a loop is interrupted. Before, one in three of a Loader's lost a batch.
_ROUNDS = 60

_INTERRUPTED = """
import itertools, os, signal, sys, threading
import ringfeed

files, kind, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
parser = ringfeed.rows({"x": ("int64", ())})

def loader(**more):
    return ringfeed.Loader(files, format="rows:8", parse=parser, batch=4, passes=0, **more)

def first(batch):
    array = batch["x"] if isinstance(batch, dict) else batch[0]
    return memoryview(array)[0]

def again():
    n = 0
    while True:
        yield [bytes([n % 100] * 8)]
        n += 1

where, before = None, None
if kind == "loader":
    batches = where = loader()
elif kind == "tuples":
    batches = where = loader(as_tuple=True)
elif kind == "map":
    batches = where = loader(map=lambda batch: dict(batch))
elif kind == "reader":
    reader = ringfeed.parse(ringfeed.open_files(files, format="rows:8"), parser)
    batches = ringfeed.batch(ringfeed.multi_pass(reader, 0), 4)
elif kind == "devices":
    batches = where = loader(devices="emu:2")
elif kind == "a device":
    where = loader(devices="emu:1")
    batches = where.device(0)
elif kind == "a split device":
    plan = ringfeed.devices.DevicePlan("emu:1", distribution="split")
    batches = where = loader(devices=plan)
elif kind == "py_reader":
    batches = ringfeed.py_reader(8, [[8]], ["uint8"])
    batches.decorate_tensor_provider(again)
    batches.start()
elif kind == "torch":
    import ringfeed.torch
    where = loader()
    batches = iter(ringfeed.torch.IterableDataset(where))
    first = lambda batch: int(batch["x"][0])

step, count = (1, 100) if kind == "py_reader" else (4, 400)
lost = kept = 0
for _ in range(rounds):
    held = next(batches)
    main = threading.main_thread().ident
    timer = threading.Timer(0.01, lambda: signal.pthread_kill(main, signal.SIGINT))
    try:
        timer.start()
        for held in batches:
            pass
    except KeyboardInterrupt:
        pass
    timer.join()
    was = first(held)
    if where is not None:  # a state that is saved now counts what the loop has, and no more
        expected = (was // step + 1) % (count // step)
        position = where.state_dict()["position"]["batch"]
        lost += position % (count // step) != expected
        lost += where.batch_number != position
    lost += first(next(batches)) != (was + step) % count
print(lost)
"""

KINDS = [
    "loader",
    "tuples",
    "map",
    "reader",
    "devices",
    "a device",
    "a split device",
    "py_reader",
    "torch",
]


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_in_a_tight_loop_loses_no_batch(tmp_path: Path, kind: str) -> None:
    if kind == "torch":
        pytest.importorskip("torch")
    files = write_rows(tmp_path, 4)
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, files, kind, str(_ROUNDS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


class _Stop(BaseException):
    pass


def _stop_once() -> Callable[[Any], Any]:
    """A function of batches that is broken off in the third one, once."""
    calls = itertools.count(1)

    def broken_off(batch: Any) -> Any:
        if next(calls) == 3:
            batch.clear()  # it is given a fresh one then
            raise _Stop
        return batch

    return broken_off


@pytest.mark.parametrize("devices", [None, "emu:1", "emu:2"])
def test_a_batch_that_map_was_broken_off_in_does_not_count(tmp_path: Path, devices: Any) -> None:
    files = write_rows(tmp_path, 1)
    loader = number_loader(files, batch=10, map=_stop_once(), devices=devices)
    got = []
    with pytest.raises(_Stop):
        for batch in loader:
            got += numbers(batch)
    assert got == list(range(20))
    assert loader.batch_number == 2
    state = loader.state_dict()
    assert state["position"]["batch"] == 2
    other = number_loader(files, batch=10)
    other.load_state_dict(state)
    assert all_numbers(other) == list(range(20, 100))
    assert all_numbers(loader) == list(range(20, 100))


def test_the_first_batch_may_be_the_one_that_does_not_count(tmp_path: Path) -> None:
    def stop(batch: Any) -> Any:
        raise _Stop

    files = write_rows(tmp_path, 1)
    loader = number_loader(files, batch=10, map=stop)
    with pytest.raises(_Stop):
        next(loader)
    assert (loader.batch_number, loader.state_dict()["position"]["batch"]) == (0, 0)


@pytest.mark.parametrize(
    "go",
    [
        lambda loader: loader.reset(),
        lambda loader: loader.seek_to(5),
        lambda loader: loader.load_state_dict(loader.state_dict()),
        lambda loader: loader.skip_batches(0),
        lambda loader: loader.skip_batches(1),
        lambda loader: loader.skip_batches(3),
    ],
)
@pytest.mark.parametrize("devices", [None, "emu:1"])
def test_a_kept_batch_is_no_other_places(tmp_path: Path, go: Any, devices: Any) -> None:
    files = write_rows(tmp_path, 1)
    loader = number_loader(files, batch=10, map=_stop_once(), devices=devices)
    expected = number_loader(files, batch=10)
    with pytest.raises(_Stop):
        for _ in loader:
            pass
    expected.seek_to(2)
    go(loader)
    go(expected)
    assert loader.batch_number == expected.batch_number
    assert all_numbers(loader) == all_numbers(expected)


def test_what_map_raises_stands_for_its_batch(tmp_path: Path) -> None:
    calls = itertools.count()

    def refuse_the_first(batch: Any) -> Any:
        if next(calls) == 0:
            raise ValueError("no")
        return batch

    loader = number_loader(write_rows(tmp_path, 1), batch=10, map=refuse_the_first)
    with pytest.raises(ValueError):
        next(loader)
    assert (loader.batch_number, loader.state_dict()["position"]["batch"]) == (1, 1)
    assert all_numbers(loader) == list(range(10, 100))


def test_a_batch_comes_again_where_its_names_were_wrong(tmp_path: Path) -> None:
    files = ringfeed.open_files(write_rows(tmp_path, 1), format="rows:8")
    reader = ringfeed.batch(ringfeed.parse(files, ringfeed.rows(NUMBER)), 10)
    with pytest.raises(ValueError, match="one name"):
        reader.next_dict(("x", "y"))
    assert reader.origin() is None
    assert numbers(next(reader)[0]) == list(range(10))


def test_a_kept_batch_of_a_shared_chain_goes_with_a_new_start(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1), format="rows:8")
    shared = ringfeed.share(ringfeed.parse(records, ringfeed.rows(NUMBER)))
    one, other = ringfeed.batch(shared, 10), ringfeed.batch(shared, 10)
    loader = ringfeed.Loader.from_reader(one, map=_stop_once())
    with pytest.raises(_Stop):
        for _ in loader:
            pass
    other.reset_all()
    assert loader.batch_number == 0
    assert sorted(all_numbers(loader) + [n for b in other for n in numbers(b[0])]) == list(
        range(100)
    )


@pytest.mark.parametrize("by_thread", [False, True])
def test_a_state_that_is_saved_in_the_middle_of_a_call_leaves_its_batch_to_come(
    tmp_path: Path, by_thread: bool
) -> None:
    """By a handler of signals, or by a thread that saves beside the loop."""
    files = write_rows(tmp_path)
    states: list[Any] = []

    def save() -> None:
        states.append(loader.state_dict())

    def map_and_save(batch: Any) -> Any:
        if numbers(batch)[0] in (0, 14, 21):
            if by_thread:
                saver = threading.Thread(target=save)
                saver.start()
                saver.join()
            else:
                signal.raise_signal(signal.SIGUSR1)
        return numbers(batch)

    before = signal.signal(signal.SIGUSR1, lambda number, frame: save())
    try:
        loader = number_loader(files, map=map_and_save)
        batches = list(loader)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(states) == 3
    for state, begin in zip(states, (0, 2, 3)):
        again = number_loader(files, map=numbers)
        again.load_state_dict(state)
        assert list(again) == batches[begin:]
