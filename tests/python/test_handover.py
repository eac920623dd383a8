"""A batch counts when the caller has it: what a signal's handler comes between is given again."""

from __future__ import annotations

import itertools
import signal
import struct
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
    assert all_numbers(loader.rest()) == list(range(20, 100))


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
    assert all_numbers(loader.rest()) == list(range(10, 100))


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


def _sent_elsewhere(loader: Any, go: Any, stops: bool) -> Callable[[Any], Any]:
    """A function of batches that sends its Loader elsewhere in the third one, once, as a handler of
    signals may in the middle of any call."""
    calls = itertools.count(1)

    def send(batch: Any) -> Any:
        if next(calls) == 3:
            go(loader())
            if stops:
                raise _Stop
        return batch

    return send


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("devices", [None, "emu:1", "emu:2"])
@pytest.mark.parametrize("to", [0, 5, 9])
@pytest.mark.parametrize("how", ["seek_to", "load_state_dict"])
def test_a_batch_that_is_under_way_does_not_count_where_the_loader_was_sent_to(
    tmp_path: Path, how: str, to: int, devices: Any, stops: bool
) -> None:
    files = write_rows(tmp_path, 1)
    aimed = number_loader(files, batch=10)
    aimed.seek_to(to)
    state = aimed.state_dict()

    def go(loader: Any) -> None:
        if how == "seek_to":
            loader.seek_to(to)
        else:
            loader.load_state_dict(state)
        assert loader.batch_number == loader.state_dict()["position"]["batch"] == to

    loader: Any = None
    loader = number_loader(
        files, batch=10, map=_sent_elsewhere(lambda: loader, go, stops), devices=devices
    )
    assert numbers(next(loader)) == list(range(10))
    assert numbers(next(loader)) == list(range(10, 20))
    if stops:
        with pytest.raises(_Stop):
            next(loader)
    else:
        assert numbers(next(loader)) == list(range(20, 30))
    assert (loader.batch_number, loader.state_dict()["position"]["batch"]) == (to, to)
    assert all_numbers(loader) == list(range(10 * to, 100))


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("devices", [None, "emu:1"])
@pytest.mark.parametrize("skipped", [0, 1, 3])
def test_batches_are_skipped_from_the_one_on_that_is_under_way(
    tmp_path: Path, skipped: int, devices: Any, stops: bool
) -> None:
    def go(loader: Any) -> None:
        loader.skip_batches(skipped)
        assert loader.batch_number == loader.state_dict()["position"]["batch"] == 2 + skipped

    files = write_rows(tmp_path, 1)
    loader: Any = None
    loader = number_loader(
        files, batch=10, map=_sent_elsewhere(lambda: loader, go, stops), devices=devices
    )
    next(loader)
    next(loader)
    if stops:
        with pytest.raises(_Stop):
            next(loader)
    else:
        assert numbers(next(loader)) == list(range(20, 30))
    assert all_numbers(loader) == list(range(20 + 10 * skipped, 100))


_AT_THE_END = """
import os, signal, sys, threading, time
import ringfeed

last_is_taken = threading.Event()

def keeps(record):
    if record[0] == 99:
        last_is_taken.wait()
        time.sleep(0.02)  # the loop waits for the end by then
        os.kill(os.getpid(), signal.SIGUSR1)
    return record[0] < 90

signal.signal(signal.SIGUSR1, lambda number, frame: loader.load_state_dict(state))
loader = ringfeed.Loader(
    sys.argv[1],
    format="rows:8",
    parse=ringfeed.rows({"x": ("int64", ())}),
    batch=10,
    cycle=1,
    filter=keeps,
    devices=sys.argv[2] or None,
)
batches = 0
for batch in loader:
    batches += 1
    if batches == 3:
        state = loader.state_dict()
    if batches == 9:
        last_is_taken.set()
signal.signal(signal.SIGUSR1, lambda number, frame: None)
print(batches + sum(1 for batch in loader))
"""


@pytest.mark.parametrize("devices", ["", "emu:1"])
def test_a_loader_that_is_sent_elsewhere_as_it_ends_goes_on_there(
    tmp_path: Path, devices: str
) -> None:
    files = write_rows(tmp_path, 1, 90)
    (tmp_path / "part-1.rows").write_bytes(struct.pack("<q", 99))
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_END, files, devices],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "15\n", "")
