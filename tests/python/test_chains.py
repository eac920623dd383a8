"""Chains by the functions of the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from loader_data import NUMBER, numbers, open_sequences, write_rows, write_sequences

import ringfeed

SEQUENCES = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [], [10, 11]]


def _rows(batch: tuple) -> list[list[int]]:
    """The rows of a ragged int64 Array."""
    values, offsets = numbers(batch[0]), numbers(batch[0].lod[0])
    return [values[begin:end] for begin, end in zip(offsets, offsets[1:])]


@pytest.fixture
def sequences(tmp_path: Path) -> ringfeed.Reader:
    return open_sequences(write_sequences(tmp_path / "a.jsonl", SEQUENCES))


def test_truncate_takes_the_first_units(sequences: ringfeed.Reader) -> None:
    (batch,) = ringfeed.batch(ringfeed.truncate(sequences, "t", 2), 5)
    assert _rows(batch) == [row[:2] for row in SEQUENCES]


def test_pad_fills_rows_up_and_tells_their_lengths(sequences: ringfeed.Reader) -> None:
    chain = ringfeed.batch(ringfeed.pad(sequences, "t", length=5, value=-1), 5)
    assert [slot[0] for slot in chain.slots] == ["t", "t_length"]
    ((padded, lengths),) = chain
    assert memoryview(padded).tolist() == [row + [-1] * (5 - len(row)) for row in SEQUENCES]
    assert numbers(lengths) == [3, 1, 5, 0, 2]


def test_pad_to_a_multiple_stays_ragged(sequences: ringfeed.Reader) -> None:
    (batch,) = ringfeed.batch(ringfeed.pad(sequences, "t", multiple=4), 5)
    assert [len(row) for row in _rows(batch)] == [4, 4, 8, 0, 4]


def test_buckets_hold_rows_that_are_alike(sequences: ringfeed.Reader) -> None:
    chain = ringfeed.bucket_batch(sequences, 2, "t", [2])
    assert [_rows(batch) for batch in chain] == [
        [[1, 2, 3], [5, 6, 7, 8, 9]],
        [[4], []],
        [[10, 11]],
    ]


def test_token_batches_hold_as_much_as_fits(sequences: ringfeed.Reader) -> None:
    chain = ringfeed.token_batch(sequences, "t", tokens=5)
    assert [_rows(batch) for batch in chain] == [
        [[1, 2, 3], [4]],
        [[5, 6, 7, 8, 9], []],
        [[10, 11]],
    ]


def test_records_are_packed_into_rows(sequences: ringfeed.Reader) -> None:
    chain = ringfeed.pack(sequences, "t", length=5, rows=3)
    ((packed, segments, positions),) = chain
    assert memoryview(packed).tolist() == [[1, 2, 3, 4, 0], [5, 6, 7, 8, 9], [10, 11, 0, 0, 0]]
    assert memoryview(segments).tolist() == [[1, 1, 1, 2, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert memoryview(positions).tolist()[0] == [0, 1, 2, 0, 0]


def test_rows_whose_sizes_cannot_be_counted_are_refused(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "t.jsonl", [[1, 2]])
    packed = ringfeed.pack(open_sequences(path), "t", length=2**30, rows=2**30)
    with pytest.raises(ringfeed.errors.ResourceExhausted, match="of 1073741824 rows needs"):
        next(packed)
    (tmp_path / "x.jsonl").write_text(json.dumps({"x": [[0.5] * 4096]}) + "\n")
    rows = ringfeed.parse(
        ringfeed.open_files(str(tmp_path / "x.jsonl"), format="lines"),
        ringfeed.jsonl({"x": ("float32", (-1, 4096))}),
    )
    padded = ringfeed.batch(ringfeed.pad(rows, "x", length=2**31), 2**19)
    with pytest.raises(ringfeed.errors.ResourceExhausted, match="of 524288 rows needs"):
        next(padded)


def test_groups_may_be_told_by_a_python_function(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1, 10), format="rows:8")
    chain = ringfeed.group_batch(
        ringfeed.parse(records, ringfeed.rows(NUMBER)), 5, lambda record: record[0] % 2
    )
    assert [numbers(arrays[0]) for arrays in chain] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_what_a_group_function_raises_comes_out(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1, 10), format="rows:8")
    chain = ringfeed.group_batch(records, 5, lambda record: "no number")
    with pytest.raises(TypeError):
        next(chain)


def test_next_pass_tells_where_a_pass_ends(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1, 4), format="rows:8")
    chain = ringfeed.multi_pass(ringfeed.batch(records, 2), 2)
    passes = []
    while (number := ringfeed.next_pass(chain)) is not None:
        passes.append(number)
        next(chain)
    assert passes == [0, 0, 1, 1]
    with pytest.raises(StopIteration):
        next(chain)


def test_origin_names_the_records_of_a_batch(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 2, 4), format="rows:8", note_records=True)
    chain = ringfeed.batch(records, 3)
    assert chain.origin() is None
    next(chain)
    assert chain.origin() == {"batch": 0, "pass": 0, "records": [(0, 0, 3)], "damaged": []}
    next(chain)
    assert chain.origin()["records"] == [(0, 3, 1), (1, 0, 2)]


def test_opened_files_are_read_as_another_format(tmp_path: Path) -> None:
    path = tmp_path / "a.rows"
    path.write_bytes(b"ab\ncd\n")
    chain = ringfeed.batch(ringfeed.read_as(ringfeed.open_files(path), "lines"), 2)
    ((batch,),) = chain
    assert batch.tobytes() == b"abcd"


def test_streams_are_joined_as_they_come(tmp_path: Path) -> None:
    fifos = [tmp_path / name for name in "ab"]
    for fifo in fifos:
        os.mkfifo(fifo)
    streams = [ringfeed.open_files(fifo, format="lines") for fifo in fifos]
    chain = ringfeed.batch(ringfeed.multiplex(streams), 4)
    writers = [
        threading.Thread(target=fifo.write_text, args=(f"{fifo.name}1\n{fifo.name}2\n",))
        for fifo in fifos
    ]
    for writer in writers:
        writer.start()
    ((batch,),) = chain
    for writer in writers:
        writer.join()
    text = batch.tobytes().decode()
    assert sorted(text[i : i + 2] for i in range(0, 8, 2)) == ["a1", "a2", "b1", "b2"]


def test_sets_are_mixed_by_their_weights(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "less").mkdir()
    sets = [
        ringfeed.open_files(write_rows(tmp_path / name, 1, rows), format="rows:8")
        for name, rows in (("more", 30), ("less", 10))
    ]
    chain = ringfeed.batch(ringfeed.mix([(sets[0], 3), (sets[1], 1)]), 4)
    assert sum(len(arrays[0].lod[0]) - 1 for arrays in chain) == 40


def test_weights_change_by_the_step_and_come_again_from_a_state(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("".join(f"{name}{i:02}\n" for i in range(40)))

    def opened(name: str) -> ringfeed.Reader:
        return ringfeed.open_files(tmp_path / name, format="lines")

    def loader() -> ringfeed.Loader:
        mixed = ringfeed.mix([(opened("a"), 1), opened("b")], [(0, (1, 1)), (3, (3, 1))])
        return ringfeed.Loader.from_reader(ringfeed.batch(mixed, 4))

    with loader() as whole:
        wanted = [batch["bytes"].tobytes() for batch in whole]
    assert [batch.count(b"a") for batch in wanted[:8]] == [2, 2, 2, 3, 3, 3, 3, 3]
    for taken in range(6):
        with loader() as first, loader() as rest:
            for _ in range(taken):
                next(first)
            rest.load_state_dict(first.state_dict())
            assert [batch["bytes"].tobytes() for batch in rest] == wanted[taken:]
    with pytest.raises(ringfeed.Error, match="begins at step 0"):
        ringfeed.mix([opened("a")], schedule=[(2, (1,))])
    with pytest.raises(TypeError, match="a step of schedule"):
        ringfeed.mix([], schedule=[("2", (1,))])  # type: ignore[list-item]


_READS_THE_END_OF_A_CHAIN = """
import sys
import ringfeed
records = ringfeed.open_files(sys.argv[1], format="lines")
chain = ringfeed.batch(records, 1)
next(chain)
"""


def test_a_handle_in_the_middle_of_a_chain_is_no_error_at_exit(tmp_path: Path) -> None:
    lines = tmp_path / "a.txt"
    lines.write_text("one\ntwo\nthree\n")
    done = subprocess.run(
        [sys.executable, "-c", _READS_THE_END_OF_A_CHAIN, str(lines)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
