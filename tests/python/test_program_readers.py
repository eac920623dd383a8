"""open_file, create_recordio_reader, create_multiplex_reader and read_recordio."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

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
