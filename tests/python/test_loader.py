"""What a loop gets of a Loader."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER, all_numbers, number_loader, numbers, write_rows
from loader_data import write_sequences

import ringfeed


def test_every_record_comes_once_in_batches_of_the_size_asked_for(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path))
    sizes = [len(batch["x"]) for batch in loader]
    assert sizes == [7] * 42 + [6]
    assert sorted(all_numbers(loader)) == list(range(300))


def test_files_are_a_path_a_glob_or_a_list(tmp_path: Path) -> None:
    glob = write_rows(tmp_path)
    paths = sorted(tmp_path.glob("*.rows"))
    assert all_numbers(number_loader(paths)) == all_numbers(number_loader(glob))
    assert all_numbers(number_loader(paths[1])) == list(range(100, 200))
    assert all_numbers(number_loader(str(paths[1]))) == list(range(100, 200))


def test_without_a_parser_batches_hold_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\nthree\n")
    (batch,) = ringfeed.Loader(path, format="lines", batch=4)
    assert batch["bytes"].tobytes() == b"onethree"
    assert numbers(batch["bytes"].lod[0]) == [0, 3, 8]


def test_batches_are_tuples_where_asked_for(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1), as_tuple=True)
    batch = next(iter(loader))
    assert isinstance(batch, tuple)
    assert numbers(batch[0]) == list(range(7))
    assert loader.names == ("x",)


def test_a_function_maps_each_batch_in_the_loop(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1), map=lambda batch: sum(numbers(batch)))
    assert sum(loader) == sum(range(100))


def test_what_a_mapping_function_raises_comes_out_and_the_loop_may_go_on(tmp_path: Path) -> None:
    def refuse_the_first(batch: dict) -> int:
        if numbers(batch)[0] == 0:
            raise KeyError("no zero")
        return numbers(batch)[0]

    loader = number_loader(write_rows(tmp_path, 1), map=refuse_the_first)
    with pytest.raises(KeyError, match="no zero"):
        next(loader)
    assert next(loader) == 7


def test_a_for_behind_the_end_reads_the_next_epoch_with_a_shuffle_of_its_own(
    tmp_path: Path,
) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, shuffle=True, seed=5)
    epochs = [all_numbers(loader) for _ in range(3)]
    assert all(sorted(epoch) == list(range(300)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    again = number_loader(files, shuffle=True, seed=5)
    assert epochs == [all_numbers(again) for _ in range(3)]
    assert loader.epoch == 3


def test_reset_starts_again_at_the_epoch_asked_for(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle="global", seed=1)
    first, second = all_numbers(loader), all_numbers(loader)
    loader.reset()
    assert all_numbers(loader) == first
    loader.reset(1)
    next(loader)
    loader.reset(1)
    assert all_numbers(loader) == second
    assert loader.epoch == 2


def test_a_reset_that_fails_leaves_the_loop_where_it_is(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle=True)
    expected = all_numbers(number_loader(str(tmp_path / "part-*.rows"), shuffle=True))
    assert numbers(next(loader)) == expected[:7]
    state = {**loader.state_dict(), "epoch": 1}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in tmp_path.glob("part-*"):
        path.rename(elsewhere / path.name)
    for fails in (lambda: loader.reset(1), lambda: loader.load_state_dict(state)):
        with pytest.raises(ringfeed.Error):
            fails()
        assert (loader.epoch, loader.batch_number) == (0, 1)
    for path in elsewhere.glob("part-*"):
        path.rename(tmp_path / path.name)
    assert all_numbers(loader.rest()) == expected[7:]


def test_copies_outlive_the_places_for_batches_and_may_be_written(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    with number_loader(files, copy=True, slots=3) as loader:
        batches = list(loader)
    assert [row for batch in batches for row in numbers(batch)] == list(range(100))
    path = write_sequences(tmp_path / "a.jsonl", [[1, 2], [], [3]])
    parser = ringfeed.jsonl({"t": ("int64", [-1])})
    (batch,) = ringfeed.Loader(path, parse=parser, batch=3, copy=True, map=lambda batch: batch)
    assert batch["t"].lod[0].tolist() == batch["t"].offsets.tolist() == [0, 2, 2, 3]


def test_copies_are_of_batches_in_host_memory(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="copy=True .*devices="):
        number_loader(write_rows(tmp_path, 1), copy=True, devices="emu:1")
    with pytest.raises(TypeError, match="copy must be True or False"):
        number_loader(write_rows(tmp_path, 1), copy="deep")


def test_a_loader_tells_at_a_glance_what_it_reads(tmp_path: Path) -> None:
    files = sorted(tmp_path.glob(write_rows(tmp_path, 2).rpartition("/")[2]))
    rank = ringfeed.Rank(1, 2)
    loader = number_loader(files, 8, shuffle="global", seed=7, rank=rank)
    next(loader)
    told = repr(loader)
    for part in (f"'{files[0]}' and 1 more", "batch=8", "shuffle='global', seed=7", "rank 1 of 2"):
        assert part in told
    assert told.endswith("{x: int64 [-1]}, at batch 1 of epoch 0>")
    loader.close()
    assert "x: int64" in repr(loader)
    chain = ringfeed.batch(ringfeed.open_files(files, format="rows:8"), 4)
    assert "{bytes: uint8 [-1] ragged}" in repr(ringfeed.Loader.from_reader(chain))


def test_each_option_stands_in_the_signature(tmp_path: Path) -> None:
    for function in (ringfeed.Loader, ringfeed.open_files, ringfeed.mix, ringfeed.csv_columns):
        parameters = inspect.signature(function).parameters
        assert {"format", "skip_damaged", "seed", "tuned"} <= set(parameters)
        assert parameters["threads"].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters["threads"].annotation == "Optional[int]"


def test_waits_are_told_step_by_step(tmp_path: Path) -> None:
    with number_loader(write_rows(tmp_path, 1)) as loader:
        steps = sum(1 for _ in loader)
        waits = loader.stats()["step_waits"]
    assert waits["steps"] == steps == 15
    assert 0 <= waits["p50_s"] <= waits["p99_s"] <= waits["max_s"] < 60
    with number_loader(write_rows(tmp_path, 1), devices="emu:2") as loader:
        assert sum(1 for _ in loader) == 15
        devices = loader.stats()["devices"]
    assert [device["step_waits"]["steps"] for device in devices] == [8, 7]


def test_passes_are_one_stream_of_batches(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1), passes=3)
    assert all_numbers(loader) == [*range(100)] * 3
    assert loader.epoch == 3


@pytest.mark.parametrize("batch", [43, 44, 10**9])
def test_seeking_beyond_the_end_is_its_end(tmp_path: Path, batch: int) -> None:
    loader = number_loader(write_rows(tmp_path))  # 43 batches
    loader.seek_to(batch)
    assert list(loader) == []
    assert loader.epoch == 1
    assert all_numbers(loader) == list(range(300))


@pytest.mark.parametrize("batches", [2**64 - 1, 2**64 - 3, 2**63])
@pytest.mark.parametrize("shuffle", [None, True, 50])
def test_skipping_beyond_the_end_is_its_end(tmp_path: Path, batches: int, shuffle: Any) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle=shuffle)
    for _ in range(7):
        next(loader)
    loader.skip_batches(batches)
    assert list(loader) == []
    assert loader.epoch == 1


def test_a_loader_has_no_items(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="iterate over it, .*seek_to"):
        number_loader(write_rows(tmp_path))[0]


def test_seeking_and_skipping_leave_batches_out(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    loader.seek_to(3)
    assert loader.batch_number == 3
    assert numbers(next(loader))[0] == 21
    loader.skip_batches(2)
    assert numbers(next(loader))[0] == 42
    assert loader.batch_number == 7
    loader.seek_to(0)
    assert numbers(next(loader))[0] == 0


def test_progress_is_told(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1), batch=50, passes=2)
    assert (loader.epoch, loader.batch_number) == (0, 0)
    seen = [(loader.epoch, loader.batch_number) for _ in loader]
    assert seen == [(0, 1), (0, 2), (1, 3), (1, 4)]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"drop_remainder": True},
        {"pad": True},
        {"passes": 2},
        {"batch": 100},
        {"shuffle": "global"},
        {"batch": 8, "rank": ringfeed.Rank(0, 4)},
        {"batch": 8, "rank": ringfeed.Rank(1, 4)},
        {"batch": 8, "rank": ringfeed.Rank(2, 4)},
        {"batch": 8, "rank": ringfeed.Rank(3, 4), "pad": True},
        {"batch": 8, "rank": ringfeed.Rank(3, 4), "drop_remainder": True},
    ],
)
def test_the_length_is_the_number_of_batches_that_come(tmp_path: Path, arguments: dict) -> None:
    loader = number_loader(write_rows(tmp_path, 3, 33), **arguments)
    assert len(loader) == sum(1 for _ in loader)


@pytest.mark.parametrize(
    "arguments",
    [{"passes": 0}, {"filter": bool}, {"skip_damaged": True}, {"index": False}],
)
def test_there_is_no_length_where_it_is_not_known_beforehand(
    tmp_path: Path, arguments: dict
) -> None:
    loader = number_loader(write_rows(tmp_path, 1), **arguments)
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    assert loader


def test_the_length_may_be_asked_for_in_the_middle(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    next(loader)
    assert len(loader) == 15
    assert numbers(next(loader))[0] == 7


def test_a_stream_is_read_once(tmp_path: Path) -> None:
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("a\nb\nc\n",))
    writer.start()
    loader = ringfeed.Loader(fifo, format="lines", batch=2, shuffle=ringfeed.Shuffle("window", 2))
    assert sum(len(batch["bytes"]) for batch in loader) == 3
    writer.join()
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    with pytest.raises(ringfeed.errors.Unsupported, match="stream"):
        for _ in loader:
            pass


def test_ranks_get_their_parts_of_every_batch(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    parts = [number_loader(files, 10, rank=ringfeed.Rank(r, 2)) for r in range(2)]
    for number, batches in enumerate(zip(*parts)):
        together = [x for batch in batches for x in numbers(batch)]
        assert together == list(range(number * 10, number * 10 + 10))


def test_the_launchers_rank_is_taken_unless_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_rows(tmp_path, 1)
    for name, value in dict(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2).items():
        monkeypatch.setenv(name, str(value))
    loader = number_loader(files, 10)
    assert numbers(next(loader)) == [5, 6, 7, 8, 9]
    assert loader.rank.source == "torchrun"
    assert numbers(next(number_loader(files, 10, rank=None))) == list(range(10))


def test_a_loader_of_any_chain_is_the_same_iterator(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1, 5), format="rows:8")
    chain = ringfeed.parse(records, ringfeed.rows(NUMBER))
    loader = ringfeed.Loader.from_reader(chain)
    assert all_numbers(loader) == list(range(5))
    assert all_numbers(loader) == list(range(5))
    with pytest.raises(TypeError, match="length"):
        len(loader)


def test_a_loader_is_not_pickled_or_copied(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="state_dict"):
            call(loader)


def test_behind_close_reading_fails_and_batches_stay_valid(tmp_path: Path) -> None:
    with number_loader(write_rows(tmp_path, 1)) as loader:
        held = next(loader)
    assert numbers(held) == list(range(7))
    with pytest.raises(ringfeed.errors.Cancelled):
        next(loader)
    loader.close()


def test_a_closed_loader_stays_closed_whatever_the_epoch(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle=True)
    next(loader)
    loader.close()
    with pytest.raises(ringfeed.errors.Cancelled):
        loader.reset(1)
    with pytest.raises(ringfeed.errors.Cancelled):
        next(loader)


@pytest.mark.parametrize("wrong, error", [(-1, ValueError), (1.5, TypeError), (2**64, ValueError)])
def test_where_to_go_on_is_a_number_from_0(tmp_path: Path, wrong: Any, error: type) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle=True)
    next(loader)
    for method in (loader.reset, loader.seek_to, loader.skip_batches):
        with pytest.raises(error):
            method(wrong)
    assert loader.batch_number == 1
    next(loader)


def test_the_report_counts_what_was_delivered(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    all_numbers(loader)
    report = loader.stats()
    assert (report["records"], report["batches"]) == (100, 15)


def test_a_slow_map_is_told_from_a_slow_loop(tmp_path: Path) -> None:
    def take_long(batch: Any) -> Any:
        time.sleep(0.03)
        return batch

    files = write_rows(tmp_path, 1)
    with number_loader(files, map=take_long) as loader:
        batches = sum(1 for _ in loader)
        report = loader.stats()
        assert "waits for your map function" in report["advice"]
        assert "map" in report["bottleneck"]
        assert report["map_s"] >= 0.03 * batches
        loader.reset()
        assert loader.stats()["map_s"] == 0
    with number_loader(files, map=lambda batch: batch) as loader:
        batches = sum(1 for batch in loader if take_long(batch) is batch)
        report = loader.stats()
        assert "The loop that takes the batches is the slow end" in report["advice"]
        assert 0 < report["map_s"] < 0.03 * batches / 2  # the loop's time is not in it


def test_an_option_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="stripes"):
        number_loader(write_rows(tmp_path, 1), stripes=3)


def test_windows_of_tokens_come_as_rows_of_int64(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    path.write_bytes(struct.pack("<64H", *range(64)))
    loader = ringfeed.Loader(
        path,
        format="tokens:u2,block=16,tail=drop",
        parse=ringfeed.tokens("uint16", (16,), convert="int64"),
        batch=2,
    )
    assert len(loader) == 2
    batches = [memoryview(batch["tokens"]).tolist() for batch in loader]
    assert batches == [[list(range(i, i + 16)) for i in (b, b + 16)] for b in (0, 32)]


def test_ragged_fields_come_with_their_offsets(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "a.jsonl", [[1, 2], [], [3]])
    parse = ringfeed.jsonl({"t": ("int64", (-1,))})
    (batch,) = ringfeed.Loader(path, format="lines", parse=parse, batch=3)
    assert numbers(batch["t"]) == [1, 2, 3]
    assert numbers(batch["t"].lod[0]) == [0, 2, 2, 3]


def test_many_loaders_stand_open_beside_each_other(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    shuffles = [None, "global", ringfeed.Shuffle("window", 50)]
    loaders = [number_loader(files, shuffle=shuffles[i % 3]) for i in range(18)]
    held = [next(loader) for loader in loaders]
    for loader, batch in zip(loaders, held):
        assert sorted(numbers(batch) + all_numbers(loader.rest())) == list(range(300))


def test_braces_stand_for_files_as_a_shell_has_them(tmp_path: Path) -> None:
    write_rows(tmp_path, files=3, rows=10)
    assert all_numbers(number_loader(tmp_path / "part-{0..2}.rows", cycle=1)) == list(range(30))
    backwards = number_loader(str(tmp_path / "part-{2,0}.ro?s"), cycle=1)
    assert all_numbers(backwards) == [*range(20, 30), *range(10)]
    with number_loader(tmp_path / "part-{0..3}.rows") as loader:
        with pytest.raises(FileNotFoundError, match=r"part-3\.rows"):
            all_numbers(loader)
    with pytest.raises(FileNotFoundError, match=r"part-3\*"):
        number_loader(tmp_path / "part-{0..3}*")
    with pytest.raises(ValueError, match="1000000 names"):
        number_loader(tmp_path / "part-{0..1000000}.rows")
    (tmp_path / "part-{0..2}.rows").write_bytes(bytes(8))
    assert all_numbers(number_loader(tmp_path / "part-{0..2}.rows")) == [0]
