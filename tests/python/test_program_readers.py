"""open_file, create_recordio_reader, create_multiplex_reader and read_recordio."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import ringfeed
from ringfeed import errors


def write_recordio(path: Path, count: int, first: int = 0) -> Path:
    with ringfeed.open_record_writer(path, "recordio:fluid,none") as writer:
        for i in range(first, first + count):
            writer.write(b"%d" % i)
    return path


def fifo_of(path: Path, content: bytes) -> Path:
    """A FIFO that a thread writes `content` into."""
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return path


def numbers(instances: list[tuple[ringfeed.Array, ...]]) -> list[int]:
    return [int(record.tobytes()) for (record,) in instances]


def test_records_of_an_open_file_are_read_so_many_at_a_time(tmp_path: Path) -> None:
    path = write_recordio(tmp_path / "numbers", 7)  # no name that tells the format
    reader = ringfeed.create_recordio_reader(ringfeed.open_file(path))
    assert numbers(ringfeed.read_recordio(reader, 4)) == [0, 1, 2, 3]
    assert numbers(ringfeed.read_recordio(reader)) == [4]
    assert ringfeed.read_recordio(reader, 0) == []
    assert numbers(ringfeed.read_recordio(reader, 4)) == [5, 6]
    assert ringfeed.read_recordio(reader, 4) == []
    reader.reset()
    assert len(ringfeed.read_recordio(ringfeed.create_recordio_reader(str(path)), 100)) == 7


def test_a_fifo_is_read_from_each_of_its_generators(tmp_path: Path) -> None:
    record_file = write_recordio(tmp_path / "numbers", 3).read_bytes()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    first_is_read, all_is_read = threading.Event(), threading.Event()

    def generate() -> None:
        fifo.write_bytes(record_file)
        first_is_read.wait(60)
        fifo.write_bytes(record_file)
        # If the reader had not noticed the first one's end, both were one generator to it, and it
        # waits for another one: that has nothing to say.
        while not all_is_read.wait(0.01):
            with contextlib.suppress(OSError):  # no reader any more
                os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))

    generator = threading.Thread(target=generate, daemon=True)
    generator.start()
    with_limit = ringfeed.open_file(fifo, reopen_limit=1)
    reader = ringfeed.create_recordio_reader(with_limit)
    assert numbers(ringfeed.read_recordio(reader, 3)) == [0, 1, 2]
    first_is_read.set()
    assert numbers(ringfeed.read_recordio(reader, 100)) == [0, 1, 2]
    all_is_read.set()
    generator.join(60)


def test_records_are_parsed_as_the_commands_texts_say(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "a.recordio"
    with ringfeed.open_record_writer(path, "recordio") as writer:
        for i in range(3):
            x = numpy.full((1, 2), i, "float32")
            writer.write(ringfeed.build_lod_tensors([x, numpy.array([[i]], "int64")]))
    reader = ringfeed.create_recordio_reader(path, parse="lod: x=f4[,2] y=i8[,1]")
    assert [slot[0] for slot in reader.slots] == ["x", "y"]
    ((x, y),) = ringfeed.batch(reader, 3)
    assert x.numpy()[:, 0].tolist() == [0, 1, 2] and y.numpy().ravel().tolist() == [0, 1, 2]


def test_streams_are_multiplexed(tmp_path: Path) -> None:
    files = [write_recordio(tmp_path / f"{i}.recordio", 5, 10 * i) for i in range(3)]
    fifos = [fifo_of(file.with_suffix(".fifo"), file.read_bytes()) for file in files]
    streams = [ringfeed.create_recordio_reader(ringfeed.open_file(fifo)) for fifo in fifos]
    reader = ringfeed.create_multiplex_reader(streams)
    found = numbers(ringfeed.read_recordio(reader, 100))
    assert sorted(found) == [10 * i + k for i in range(3) for k in range(5)]


def test_a_stream_that_is_damaged_fails_all_or_is_reported(tmp_path: Path) -> None:
    whole = write_recordio(tmp_path / "whole.recordio", 5).read_bytes()

    def opened(on_damage: str) -> ringfeed.Reader:
        good = fifo_of(tmp_path / f"good-{on_damage}", whole)
        bad = fifo_of(tmp_path / f"bad-{on_damage}", whole[:-3])
        streams = [ringfeed.create_recordio_reader(ringfeed.open_file(f)) for f in (good, bad)]
        return ringfeed.create_multiplex_reader(streams, on_damage=on_damage)

    skipping = opened("skip")
    assert sorted(numbers(ringfeed.read_recordio(skipping, 100))) == [0, 1, 2, 3, 4]
    assert skipping.stats()["damage"]
    failing = opened("fail")
    with pytest.raises(errors.Damaged):
        while ringfeed.read_recordio(failing, 2):
            pass
    with pytest.raises(errors.Damaged):
        ringfeed.read_recordio(failing, 2)


def test_what_comes_before_a_failure_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "a.recordio"
    with ringfeed.open_record_writer(path, "recordio:fluid,none") as writer:
        for i in range(4):
            writer.write(b"%d" % i)
            writer.flush()  # a chunk each
    path.write_bytes(path.read_bytes()[:-1])
    reader = ringfeed.create_recordio_reader(path)
    assert numbers(ringfeed.read_recordio(reader, 100)) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(errors.Damaged):
            ringfeed.read_recordio(reader, 100)


def test_what_cannot_work_names_the_reader_and_the_attribute(tmp_path: Path) -> None:
    path = write_recordio(tmp_path / "a.recordio", 1)
    with pytest.raises(errors.NotFound):
        next(ringfeed.open_file(tmp_path / "none"))
    with pytest.raises(errors.InvalidArgument, match="streams"):
        ringfeed.create_multiplex_reader([ringfeed.open_file(path)])
    with pytest.raises(errors.InvalidArgument, match="reopen_limit"):
        ringfeed.open_file(path, reopen_limit=-1)
    with pytest.raises(TypeError, match="reopen_limit"):
        ringfeed.open_file(path, reopen_limit=1.5)  # type: ignore[arg-type]
    fifo = fifo_of(tmp_path / "fifo", b"")
    with pytest.raises(errors.InvalidArgument, match="on_damage"):
        ringfeed.create_multiplex_reader([ringfeed.open_file(fifo)], on_damage="ignore")
    with pytest.raises(errors.InvalidArgument):
        ringfeed.create_recordio_reader(path, parse="lod")
    with pytest.raises(TypeError, match="Reader"):
        ringfeed.create_multiplex_reader([path])  # type: ignore[list-item]
    opened = ringfeed.open_file(path)
    ringfeed.create_recordio_reader(opened)
    with pytest.raises(errors.InvalidArgument):
        ringfeed.create_recordio_reader(opened)
    with pytest.raises(TypeError, match="takes a Reader|stands on a Reader"):
        ringfeed.read_recordio(path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="count"):
        ringfeed.read_recordio(ringfeed.open_file(path), -1)


PROGRAMS = Path(__file__).resolve().parents[2] / "docs" / "PROGRAMS.md"


def attributes_of(operation: str) -> set[str]:
    """Those that the guide's table lists for an operation, and its inputs."""
    row = re.search(rf"^\| `{operation}` \| (.*) \|", PROGRAMS.read_text(), re.MULTILINE)
    assert row is not None
    without_values = re.sub(r"\([^)]*\)", "", row[1])
    names = set(re.findall(r"`(\w+)`", without_values))
    return {"input" if name == "input" else name for name in names}


@pytest.mark.parametrize(
    "function, attributes",
    [
        (ringfeed.open_file, {"filename", "reopen_limit", "reopen_until"}),
        (ringfeed.create_recordio_reader, {"filename", "input", "parse"}),
        (ringfeed.create_multiplex_reader, {"input", "parse", "on_damage"}),
        (ringfeed.read_recordio, {"reader", "count"}),
    ],
)
def test_attributes_of_programs_are_arguments(function: Any, attributes: set[str]) -> None:
    listed = attributes_of(function.__name__)
    readers = {"open_file", "create_recordio_reader", "open_files", "output"}
    if "multiplex" in function.__name__:
        readers.add("reopen_limit")  # of its inputs
    assert listed - readers == attributes
    assert attributes <= set(inspect.signature(function).parameters)


def test_attributes_are_taken_by_the_names_of_programs(tmp_path: Path) -> None:
    path = write_recordio(tmp_path / "a.recordio", 3)
    readers = [
        ringfeed.create_recordio_reader(filename=path, parse=""),
        ringfeed.create_recordio_reader(input=ringfeed.open_file(filename=path)),
    ]
    for reader in readers:
        assert numbers(ringfeed.read_recordio(reader=reader, count=9)) == [0, 1, 2]
    fifo = fifo_of(tmp_path / "fifo", path.read_bytes())
    stream = ringfeed.create_recordio_reader(input=ringfeed.open_file(filename=fifo))
    joined = ringfeed.create_multiplex_reader(input=[stream], on_damage="fail")
    assert numbers(ringfeed.read_recordio(joined, 9)) == [0, 1, 2]


@pytest.mark.parametrize("until", ["close", math.inf, "2", 2, 0.5, "", None, 0])
def test_a_stream_is_opened_again_until_a_time(tmp_path: Path, until: Any) -> None:
    ringfeed.open_file(fifo_of(tmp_path / "fifo", b""), reopen_until=until)


def test_a_time_that_is_none_is_refused_by_its_name(tmp_path: Path) -> None:
    path = write_recordio(tmp_path / "a.recordio", 1)
    fifo = fifo_of(tmp_path / "fifo", b"")
    wrong: list[Any] = [-1, math.nan, "soon"]
    for until in wrong:
        with pytest.raises(errors.InvalidArgument, match="reopen_until"):
            ringfeed.open_file(fifo, reopen_until=until)
    with pytest.raises(TypeError, match="reopen_until"):
        ringfeed.open_file(fifo, reopen_until=True)
    with pytest.raises(errors.InvalidArgument, match="reopen_until is for streams"):
        ringfeed.open_file(path, reopen_until="close")


def test_a_source_is_given_once(tmp_path: Path) -> None:
    path = write_recordio(tmp_path / "a.recordio", 1)
    for arguments in ({}, {"source": path, "filename": path}):
        with pytest.raises(TypeError, match="a filename, or an open_file as its input"):
            ringfeed.create_recordio_reader(**arguments)
    with pytest.raises(TypeError, match="stands on a Reader"):
        ringfeed.create_recordio_reader(input=path)  # type: ignore[arg-type]


@pytest.mark.parametrize("join", [ringfeed.create_multiplex_reader, ringfeed.multiplex])
def test_what_is_no_stream_is_refused_in_pythons_names(tmp_path: Path, join: Any) -> None:
    files = ringfeed.open_files(write_recordio(tmp_path / "a.recordio", 1))
    with pytest.raises(errors.InvalidArgument, match="by open_file, .* or open_files") as caught:
        join([files])
    assert not re.search("OpenStreamSource|Multiplex", str(caught.value))
