"""Sources: bytes that Python gives in place of files."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import ringfeed

ROWS = 500
DATA = numpy.arange(ROWS, dtype="<i8").tobytes()
PARSE = ringfeed.rows({"n": ("int64", ())})


class Store:
    """Objects of one size each, that counts its reads and fails some of them."""

    def __init__(self, failures: int = 0) -> None:
        self.reads = 0
        self.failures = failures

    def source(self, name: str, version: str = "") -> ringfeed.Source:
        def read_at(offset: int, size: int) -> bytes:
            self.reads += 1
            if self.failures > 0:
                self.failures -= 1
                raise OSError("the store is busy")
            return DATA[offset : offset + size]

        return ringfeed.Source(name, len(DATA), read_at, version)


def read(sources: Any, **options: Any) -> list[int]:
    options = {"format": "rows:8", "parse": PARSE, "batch": 50, "rank": None, **options}
    loader = ringfeed.Loader(sources, **options)
    return [int(n) for batch in loader for n in numpy.asarray(batch["n"])]


def test_sources_are_read_as_files_are() -> None:
    store = Store()
    assert read(store.source("bucket/a")) == list(range(ROWS))
    both = [store.source("bucket/a"), store.source("bucket/b")]
    assert sorted(read(both, shuffle="global")) == sorted(2 * list(range(ROWS)))


def test_an_os_error_is_tried_again_and_then_is_an_io_error() -> None:
    assert read(Store(failures=3).source("a"), retries=3) == list(range(ROWS))
    with pytest.raises(ringfeed.errors.IoError, match="the store is busy"):
        read(Store(failures=50).source("a"), retries=1)


def test_a_read_that_hangs_is_given_up_and_tried_again() -> None:
    released, calls = threading.Event(), []

    def read_at(offset: int, size: int) -> bytes:
        calls.append(offset)
        if len(calls) == 2:
            released.wait()
        return DATA[offset : offset + size]

    source = ringfeed.Source("a", len(DATA), read_at)
    options = {"format": "rows:8", "parse": PARSE, "batch": 50, "rank": None}
    loader = ringfeed.Loader(source, read_timeout_ms=1000, **options)
    try:
        assert [int(n) for batch in loader for n in numpy.asarray(batch["n"])] == list(range(ROWS))
        assert loader.stats()["given_up_reads"] == 1
    finally:
        released.set()
    with pytest.raises(ringfeed.errors.InvalidArgument, match="read_timeout_ms"):
        ringfeed.Loader(__file__, read_timeout_ms=1000, **options)


def test_what_else_it_raises_comes_out_at_the_loop() -> None:
    def read_at(offset: int, size: int) -> bytes:
        raise LookupError("no such object")

    with pytest.raises(LookupError, match="no such object"):
        read(ringfeed.Source("a", 800, read_at))


def test_an_index_is_kept_for_a_version(tmp_path: Path) -> None:
    """Lines need an index for a global order; it lies in the folder by name and version."""
    text = "".join(f"line {number}\n" for number in range(4000)).encode()

    def lines(version: str) -> bytes:
        reads = []

        def read_at(offset: int, size: int) -> bytes:
            reads.append(size)
            return text[offset : offset + size]

        source = ringfeed.Source("s3://bucket/a.txt", len(text), read_at, version)
        loader = ringfeed.Loader(
            source, batch=4000, shuffle="global", rank=None, index_folder=str(tmp_path)
        )
        (batch,) = loader
        assert len(batch["bytes"].lod[0]) == 4001
        counts.append(sum(reads))
        return bytes(batch["bytes"].tobytes())

    counts: list[int] = []
    first = lines("1")
    (kept,) = tmp_path.iterdir()
    written = kept.stat().st_mtime_ns
    assert lines("1") == first
    assert kept.stat().st_mtime_ns == written
    assert counts[1] < counts[0]
    assert lines("2") == first
    assert kept.stat().st_mtime_ns != written


def test_an_index_folder_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ringfeed.errors.InvalidArgument, match="Version"):
        read(Store().source("a"), index_folder=str(tmp_path))


def test_file_objects_are_sources(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(DATA)
    assert read(ringfeed.Source.of(io.BytesIO(DATA))) == list(range(ROWS))
    with open(path, "rb") as file:
        assert read(ringfeed.Source.of(file)) == list(range(ROWS))
    with open(path, encoding="latin-1") as text:
        with pytest.raises(TypeError, match="binary"):
            ringfeed.Source.of(text)
    with pytest.raises(TypeError, match="seek"):
        ringfeed.Source.of(b"bytes")


def test_a_file_of_fsspec_is_read_in_ranges_and_tells_its_version(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "rows"
    path.write_bytes(DATA)
    with fsspec.open(str(path), "rb") as file:
        source = ringfeed.Source.of(file)
    assert source.size == len(DATA)
    assert read(source) == list(range(ROWS))
    first = source.version
    path.write_bytes(DATA[::-1])
    with fsspec.open(str(path), "rb") as file:
        assert first != "" and ringfeed.Source.of(file).version != first


def test_files_and_sources_do_not_share_a_list() -> None:
    with pytest.raises(TypeError, match="mix"):
        read([Store().source("a"), "b"])
