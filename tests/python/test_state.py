"""A Loader goes on from a state exactly: in a new process, with other ranks; other data no."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loader_data import (
    all_numbers,
    number_loader,
    numbers,
    open_sequences,
    write_rows,
    write_sequences,
)

import ringfeed

SHUFFLES: list[Any] = [
    None,
    "global",
    ringfeed.Shuffle("window", 32),
    ringfeed.Shuffle("block", 32),
    ringfeed.Shuffle("stripes", 16),
]

_GO_ON = """
import json, sys
sys.path.insert(0, sys.argv[1])
from loader_data import number_loader
import ringfeed
state, files, arguments = json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
if isinstance(arguments.get("shuffle"), list):
    arguments["shuffle"] = ringfeed.Shuffle(*arguments["shuffle"])
loader = number_loader(files, **arguments)
loader.load_state_dict(state)
for batch in loader.rest():
    sys.stdout.buffer.write(batch["x"].tobytes())
"""


@pytest.mark.parametrize("size", [2, 40, 10_000])
def test_a_number_is_a_window_shuffle_of_so_many_records(tmp_path: Path, size: int) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, shuffle=size, seed=3)
    window = number_loader(files, shuffle=ringfeed.Shuffle("window", size), seed=3)
    order = all_numbers(window)
    assert order != sorted(order)
    assert all_numbers(loader) == order
    assert all_numbers(loader) == all_numbers(window) != order  # the second epoch's


def test_a_state_of_a_window_is_one_of_its_number_and_of_no_other(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    window = number_loader(files, shuffle=ringfeed.Shuffle("window", 40))
    for _ in range(20):
        next(window)
    state = window.state_dict()
    loader = number_loader(files, shuffle=40)
    loader.load_state_dict(state)
    assert all_numbers(loader) == all_numbers(window.rest())
    for other in (41, True, None):
        with pytest.raises(ringfeed.errors.InvalidArgument):
            number_loader(files, shuffle=other).load_state_dict(state)


def test_a_number_of_numpys_is_a_window_too(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    files = write_rows(tmp_path)
    taken = all_numbers(number_loader(files, shuffle=numpy.int64(40)))
    assert taken == all_numbers(number_loader(files, shuffle=40))


def _elsewhere(files: str, state: dict[str, Any], arguments: dict[str, Any]) -> bytes:
    """What a new process reads from `state` on."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", _GO_ON, here, json.dumps(state), files, json.dumps(arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=60).stdout


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("taken", [0, 1, 20, 43])
def test_a_new_process_goes_on_with_the_very_next_byte(
    tmp_path: Path, shuffle: Any, taken: int
) -> None:
    arguments = {"shuffle": shuffle, "seed": 9}
    files = write_rows(tmp_path)
    loader = number_loader(files, **arguments)
    for _ in range(taken):
        next(loader)
    state = loader.state_dict()
    rest = b"".join(batch["x"].tobytes() for batch in loader.rest())
    assert len(rest) == 8 * max(300 - 7 * taken, 0)
    assert _elsewhere(files, state, arguments) == rest


def test_a_later_epoch_goes_on_with_its_own_shuffle(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, shuffle=True)
    for _ in range(2):
        assert sum(1 for _ in loader) == 43
    for batch in loader:
        if loader.batch_number == 10:
            break
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [numbers(batch) for batch in loader.rest()]
    other = number_loader(files, shuffle=True)
    other.load_state_dict(state)
    assert (other.epoch, other.batch_number) == (2, 10)
    assert [numbers(batch) for batch in other] == rest
    assert [numbers(batch) for batch in other] == [numbers(batch) for batch in loader]


def test_a_state_behind_an_epochs_end_goes_on_with_the_next(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, shuffle=True)
    assert sum(1 for _ in loader) == 43
    state = loader.state_dict()
    second = [numbers(batch) for batch in loader]
    other = number_loader(files, shuffle=True)
    other.load_state_dict(state)
    assert other.epoch == 1
    assert [numbers(batch) for batch in other] == second


def test_the_pass_within_an_epoch_is_kept(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    loader = number_loader(files, batch=50, passes=3)
    for _ in range(3):
        next(loader)
    other = number_loader(files, batch=50, passes=3)
    other.load_state_dict(loader.state_dict())
    assert (other.epoch, other.batch_number) == (1, 3)
    assert sum(1 for _ in other) == 3


@pytest.mark.parametrize("ranks_then", [1, 2, 4])
def test_other_numbers_of_ranks_go_on_with_the_same_batches(
    tmp_path: Path, ranks_then: int
) -> None:
    files = write_rows(tmp_path, 3, 96)

    def loaders(ranks: int) -> list[ringfeed.Loader]:
        return [
            number_loader(files, 16, shuffle=True, rank=ringfeed.Rank(rank, ranks))
            for rank in range(ranks)
        ]

    before = loaders(2)
    for _ in range(5):
        for loader in before:
            next(loader)
    states = [loader.state_dict() for loader in before]
    assert states[0] == states[1]
    expected = [sum(parts, []) for parts in zip(*[map(numbers, each.rest()) for each in before])]
    for loader in before:
        loader.close()  # each has half of the pinned memory that it finds free
    after = loaders(ranks_then)
    for loader in after:
        loader.load_state_dict(states[0])
    got = [sum(parts, []) for parts in zip(*[map(numbers, loader) for loader in after])]
    assert got == expected
    assert len(got) == 18 - 5


def test_other_data_are_refused_with_what_changed(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files)
    next(loader)
    state = loader.state_dict()
    (tmp_path / "part-1.rows").write_bytes(struct.pack("<101q", *range(101)))
    other = number_loader(files)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="what changed: .*bytes"):
        other.load_state_dict(state)
    assert numbers(next(other)) == list(range(7))


def test_a_refused_state_of_another_epoch_leaves_the_loop_where_it_is(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, shuffle=True, seed=1)
    expected = all_numbers(number_loader(files, shuffle=True, seed=1))
    next(loader)
    other = number_loader(files, shuffle=True, seed=2)
    other.reset(1)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="another order"):
        loader.load_state_dict(other.state_dict())
    assert (loader.epoch, loader.batch_number) == (0, 1)
    assert all_numbers(loader.rest()) == expected[7:]


def test_another_order_is_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    state = number_loader(files, shuffle=True, seed=1).state_dict()
    with pytest.raises(ringfeed.errors.InvalidArgument, match="another order.*seed 1.*seed 2"):
        number_loader(files, shuffle=True, seed=2).load_state_dict(state)


@pytest.mark.parametrize("state", [{}, {"version": 99}, {"batch": 3}, []])
def test_what_is_no_state_is_refused(tmp_path: Path, state: Any) -> None:
    with pytest.raises(ValueError, match="state"):
        number_loader(write_rows(tmp_path, 1)).load_state_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        {"position": None},
        {"position": {"batch": -1}},
        {"epoch": "1"},
        {"epoch": -1},
        {"pass": None},
        {"ended": 2},
    ],
    ids=str,
)
def test_a_broken_state_is_refused_and_the_loop_goes_on(tmp_path: Path, change: Any) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle=True)
    next(loader)
    state = loader.state_dict()
    expected = numbers(next(loader))
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="state"):
        loader.load_state_dict({**state, **change})
    with pytest.raises(ValueError, match="state"):
        loader.load_state_dict({name: state[name] for name in state if name not in change})
    assert numbers(next(loader)) == expected


def test_a_state_is_small_and_plain(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 30, 10), shuffle=True)
    next(loader)
    assert len(json.dumps(loader.state_dict())) < 1024 + 100


def test_a_state_behind_a_filter_is_exact(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"shuffle": True, "filter": lambda record: record[0] % 3 == 0}
    files = write_rows(tmp_path)
    loader = number_loader(files, **arguments)
    for _ in range(6):
        next(loader)
    other = number_loader(files, **arguments)
    other.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    rest = [numbers(batch) for batch in loader.rest()]
    assert len(rest) > 2
    assert [numbers(batch) for batch in other] == rest


def test_a_chain_of_ones_own_has_a_state(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "a.jsonl", [[n] * (n % 7) for n in range(100)])

    def open_buckets() -> ringfeed.Loader:
        chain = ringfeed.bucket_batch(open_sequences(path), 4, "t", [2, 4])
        return ringfeed.Loader.from_reader(chain)

    loader = open_buckets()
    for _ in range(9):
        next(loader)
    other = open_buckets()
    other.load_state_dict(loader.state_dict())
    rest = [batch["t"].tobytes() for batch in loader.rest()]
    assert len(rest) > 10
    assert [batch["t"].tobytes() for batch in other] == rest


def test_a_state_may_be_taken_at_any_batch_of_a_run(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 2, 30)
    loader = number_loader(files, shuffle=ringfeed.Shuffle("window", 16), passes=2)
    states = [loader.state_dict()]
    batches = []
    for batch in loader:
        batches.append(numbers(batch))
        states.append(loader.state_dict())
    for at, state in enumerate(states):
        other = number_loader(files, shuffle=ringfeed.Shuffle("window", 16), passes=2)
        other.load_state_dict(state)
        assert [numbers(batch) for batch in other.rest()] == batches[at:]
