"""Each iter(loader) starts an epoch, whatever the loop before it took; rest() goes on in one."""

from __future__ import annotations

import itertools
import json
import os
import struct
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest
from loader_data import NUMBER, all_numbers, number_loader, numbers, write_rows

import ringfeed

#: write_rows' three files in batches of 7.
BATCHES = 43


def _taken(loader: Any, batches: int) -> list[int]:
    """The numbers of so many batches of a new epoch."""
    return [n for batch in itertools.islice(loader, batches) for n in numbers(batch)]


def _epochs(files: str, count: int, **arguments: Any) -> list[list[int]]:
    with number_loader(files, **arguments) as loader:
        return [all_numbers(loader) for _ in range(count)]


@pytest.mark.parametrize(
    "arguments", [{}, {"shuffle": True}, {"shuffle": 50}, {"devices": "emu:1"}]
)
def test_a_loop_that_takes_as_many_batches_as_there_are_gets_each_epoch_whole(
    tmp_path: Path, arguments: dict
) -> None:
    files = write_rows(tmp_path)
    expected = _epochs(files, 4, **arguments)
    with number_loader(files, **arguments) as loader:
        for epoch in range(4):
            assert _taken(loader, len(loader)) == expected[epoch]
            assert loader.epoch == epoch


@pytest.mark.parametrize("arguments", [{}, {"shuffle": True}, {"devices": "emu:2"}])
def test_an_epoch_that_was_left_in_the_middle_counts_and_the_next_one_is_whole(
    tmp_path: Path, arguments: dict
) -> None:
    files = write_rows(tmp_path)
    expected = _epochs(files, 3, **arguments)
    with number_loader(files, **arguments) as loader:
        for epoch in range(2):
            assert _taken(loader, 2) == expected[epoch][:14]
        assert all_numbers(loader) == expected[2]
        assert loader.epoch == 3


def test_an_epoch_of_which_nothing_was_taken_is_not_left_out(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    first, second = _epochs(files, 2, shuffle=True)
    loader = number_loader(files, shuffle=True)
    for _ in range(3):
        iter(loader)
    assert all_numbers(loader) == first
    for _ in range(3):
        iter(loader)
    assert all_numbers(loader) == second


def test_rest_is_what_is_left_of_the_epoch(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    first, second = _epochs(files, 2, shuffle=True)
    loader = number_loader(files, shuffle=True)
    for batch in loader:
        if loader.batch_number == 3:
            break
    got = [n for batch in itertools.islice(loader.rest(), 2) for n in numbers(batch)]
    assert got == first[21:35]
    assert numbers(next(loader)) == first[35:42]
    assert all_numbers(loader.rest()) == first[42:]
    assert list(loader.rest()) == []
    assert next(loader, None) is None
    assert all_numbers(loader) == second


def test_next_begins_an_epoch_and_the_iter_after_it_another(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    first, second = _epochs(files, 2, shuffle=True)
    loader = number_loader(files, shuffle=True)
    assert numbers(next(loader)) == first[:7]
    assert all_numbers(loader) == second


def test_the_first_iter_after_a_place_was_chosen_begins_there(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    first, second, third = _epochs(files, 3, shuffle=True)
    loader = number_loader(files, shuffle=True)
    loader.seek_to(40)
    assert all_numbers(loader) == first[280:]
    assert _taken(loader, 2) == second[:14]
    loader.skip_batches(3)
    assert all_numbers(loader) == second[35:]
    loader.reset(1)
    assert _taken(loader, 1) == second[:7]
    assert all_numbers(loader) == third


def test_a_loop_over_an_epoch_that_is_over_says_so(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path))
    left = iter(loader)
    next(left)
    second = iter(loader)
    assert numbers(next(second)) == list(range(7))
    with pytest.raises(RuntimeError, match="one loop at a time .*loader.rest"):
        next(left)
    assert len(list(second)) == BATCHES - 1
    assert len(list(loader)) == BATCHES
    assert next(second, None) is None  # an iterator at its end stays there


def test_a_loop_within_a_loop_is_no_silent_end(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path))
    with pytest.raises(RuntimeError, match="one loop at a time"):
        for _ in loader:
            for _ in loader:
                break


def test_a_loop_goes_where_it_is_sent(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    got = []
    for batch in loader:
        got.append(numbers(batch)[0])
        if len(got) == 2:
            loader.seek_to(13)
    assert got == [0, 7, 91, 98]


@pytest.mark.parametrize(
    "arguments", [{}, {"shuffle": True}, {"shuffle": 50}, {"devices": "emu:2"}]
)
@pytest.mark.parametrize("taken", [0, 1, 20, BATCHES - 1, BATCHES])
def test_the_first_iter_after_a_state_goes_on_and_the_next_one_is_whole(
    tmp_path: Path, arguments: dict, taken: int
) -> None:
    files = write_rows(tmp_path)
    expected = _epochs(files, 3, **arguments)
    with number_loader(files, **arguments) as loader:
        _taken(loader, taken)
        state = json.loads(json.dumps(loader.state_dict()))
    with number_loader(files, **arguments) as other:
        other.load_state_dict(state)
        whole = taken == BATCHES
        assert (other.epoch, other.batch_number) == (int(whole), taken)
        assert all_numbers(other) == (expected[1] if whole else expected[0][7 * taken :])
        assert all_numbers(other) == expected[2 if whole else 1]
    with number_loader(files, **arguments) as other:
        other.load_state_dict(state)
        assert all_numbers(other.rest()) == expected[0][7 * taken :]


def test_a_state_that_was_loaded_and_saved_again_is_the_same_place(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    second = _epochs(files, 2, shuffle=True)[1]
    loader = number_loader(files, shuffle=True)
    _taken(loader, BATCHES)
    for _ in range(3):
        state = loader.state_dict()
        loader = number_loader(files, shuffle=True)
        loader.load_state_dict(state)
    assert all_numbers(loader) == second


def test_loading_a_state_waits_for_nothing(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    released = threading.Event()

    def wait_at_70(record: bytes) -> bool:
        if struct.unpack("<q", record)[0] == 70:
            released.wait(60)
        return True

    released.set()
    loader = number_loader(files, filter=wait_at_70, slots=4)
    _taken(loader, 2)
    state = loader.state_dict()
    released.clear()
    other = number_loader(files, filter=wait_at_70, slots=4)
    other.load_state_dict(state)  # returns, whatever a filter waits for
    assert (other.state_dict(), other.batch_number) == (state, 2)
    released.set()
    assert all_numbers(other) == list(range(14, 100))


def test_a_failure_after_a_state_comes_out_at_the_loop(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)

    def refuse(record: bytes) -> bool:
        if struct.unpack("<q", record)[0] == 70:
            raise KeyError("seventy")
        return True

    loader = number_loader(files, filter=refuse)
    _taken(loader, 10)
    state = loader.state_dict()
    other = number_loader(files, filter=refuse)
    other.load_state_dict(state)
    with pytest.raises(KeyError, match="seventy"):
        next(iter(other))


def test_passes_are_one_epoch(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    expected = _epochs(files, 2, shuffle=True, passes=3)
    loader = number_loader(files, shuffle=True, passes=3)
    assert _taken(loader, 60) == expected[0][:420]
    assert _taken(loader, len(loader)) == expected[1]
    assert loader.epoch == 5


def test_an_epoch_without_end_goes_on(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    (expected,) = _epochs(files, 1, shuffle=True, passes=4)
    loader = number_loader(files, shuffle=True, passes=0)
    got = [n for _ in range(15) for n in _taken(loader, 10)]
    assert got == expected[:1050]
    loader.reset()
    assert _taken(loader, 10) == expected[:70]


def _chain(files: str, passes: int = 1) -> ringfeed.Loader:
    records = ringfeed.parse(ringfeed.open_files(files, format="rows:8"), ringfeed.rows(NUMBER))
    return ringfeed.Loader.from_reader(
        ringfeed.batch(ringfeed.multi_pass(ringfeed.shuffle(records, "window", 50), passes), 7)
    )


@pytest.mark.parametrize("taken", [2, BATCHES])
def test_a_chain_of_ones_own_starts_again(tmp_path: Path, taken: int) -> None:
    files = write_rows(tmp_path)
    expected = all_numbers(_chain(files))
    loader = _chain(files)
    for _ in range(3):
        assert _taken(loader, taken) == expected[: 7 * taken]


def test_a_chain_of_ones_own_without_end_goes_on(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    expected = all_numbers(_chain(files, 3))
    loader = _chain(files, 0)
    assert [n for _ in range(10) for n in _taken(loader, 9)] == expected[:630]


def test_a_generator_is_called_again(tmp_path: Path) -> None:
    calls = []

    def rows() -> Iterator[Any]:
        calls.append(1)
        for number in range(20):
            yield [struct.pack("<q", number)]

    reader = ringfeed.from_iterable(rows, [("x", "uint8", [8])])
    loader = ringfeed.Loader.from_reader(ringfeed.batch(reader, 4))
    for _ in range(3):
        assert _taken(loader, 5) == list(range(20))
    assert len(calls) == 3


def test_a_queue_goes_on_until_it_is_closed() -> None:
    queue = ringfeed.LoDTensorBlockingQueue(8, [("x", "uint8", [-1, 8])])
    loader = ringfeed.Loader.from_reader(queue.reader())
    for epoch in range(3):
        for number in range(4):
            queue.push([memoryview(struct.pack("<q", number)).cast("B", (1, 8))])
        assert _taken(loader, 4) == list(range(4))
    queue.push([memoryview(struct.pack("<q", 7)).cast("B", (1, 8))])
    queue.close()
    assert all_numbers(loader) == [7]


def test_a_stream_that_is_left_says_how_to_go_on(tmp_path: Path) -> None:
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("a\nb\nc\n",))
    writer.start()
    loader = ringfeed.Loader(fifo, format="lines", batch=1)
    assert next(iter(loader))["bytes"].tobytes() == b"a"
    writer.join()
    with pytest.raises(ringfeed.errors.Unsupported, match=r"stream.*loader\.rest\(\)"):
        iter(loader)
    assert [batch["bytes"].tobytes() for batch in loader.rest()] == [b"b", b"c"]


@pytest.mark.parametrize("distribution", ["round_robin", "split"])
def test_loops_of_devices_are_of_the_epoch_that_iter_started(
    tmp_path: Path, distribution: str
) -> None:
    from ringfeed.devices import DevicePlan

    files = write_rows(tmp_path, 1, 112)  # 16 batches
    plan = DevicePlan("emu:2", distribution=distribution)
    expected = _epochs(files, 3, shuffle=True, devices=plan)
    with number_loader(files, shuffle=True, devices=plan) as loader:
        loops = [loader.device(0), loader.device(1)]
        for epoch in range(3):
            iter(loader)
            turns = [loop for _ in range(len(loader) // 2) for loop in loops]
            assert [n for loop in turns for n in numbers(next(loop))] == expected[epoch]


def test_loops_of_devices_go_on_after_a_state(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1, 112)
    (expected,) = _epochs(files, 1, shuffle=True)
    with number_loader(files, shuffle=True, devices="emu:2") as loader:
        _taken(loader, 5)
        state = loader.state_dict()
    with number_loader(files, shuffle=True, devices="emu:2") as loader:
        loader.load_state_dict(state)
        loops = [loader.device(0), loader.device(1)]
        got = [[n for batch in loop for n in numbers(batch)] for loop in loops]
        assert sorted(got[0] + got[1]) == sorted(expected[35:])


def test_a_journal_is_of_each_epoch_of_a_loop_that_takes_what_there_is(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    loader = number_loader(files, shuffle=True, note_records=True)
    for epoch in range(3):
        with ringfeed.Journal(tmp_path / f"journal-{epoch}", loader) as journal:
            batches = iter(loader)
            for _ in range(len(loader)):
                next(batches)
                journal.append()
            journal.end()
        assert (tmp_path / f"journal-{epoch}").read_text().count("\n") > len(loader)
