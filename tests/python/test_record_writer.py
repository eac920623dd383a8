"""Files of records that Python writes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import ringfeed
from ringfeed import errors

RECORDS = [b"", b"one", bytes(range(256)) * 300]


def records_of(path: Path, **options: Any) -> list[bytes]:
    """All records of a file, as the kernel reads them."""
    return [record.tobytes() for (record,) in ringfeed.open_files(path, **options)]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "format", ["tfrecord", "tfrecord+gzip", "recordio", "recordio:go,gzip", "recordio:fluid,none"]
)
def test_what_is_written_is_read_again(tmp_path: Path, format: str) -> None:
    path = tmp_path / "data"
    with ringfeed.open_record_writer(path, format=format) as writer:
        for record in RECORDS:
            writer.write(record)
        writer.flush()
        writer.write(b"behind the flush")
        assert writer.records == 4 and not writer.closed
        assert writer.path == str(path) and writer.format == format
    assert writer.closed and writer.records == 4
    assert records_of(path, format=format) == [*RECORDS, b"behind the flush"]
    assert names_in(tmp_path) == ["data"]


def test_records_are_whatever_exports_bytes(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype="int32").reshape(2, 3)
    path = tmp_path / "a.rows"
    with ringfeed.open_record_writer(str(path), "rows:24") as writer:
        reused = bytearray(24)
        writer.write(reused)
        reused[:] = b"x" * 24
        writer.write(memoryview(reused))
        writer.write(array)
        with pytest.raises(TypeError, match="takes record: bytes .*, not str"):
            writer.write("text")
        with pytest.raises((ValueError, BufferError)):
            writer.write(array.T)
    assert path.read_bytes() == bytes(24) + b"x" * 24 + array.tobytes()


def test_there_is_no_file_before_close_and_none_where_the_block_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with pytest.raises(KeyError):
        with ringfeed.open_record_writer(path, "tfrecord") as writer:
            writer.write(b"record")
            writer.flush()
            assert not path.exists()
            raise KeyError("the program's")
    assert names_in(tmp_path) == [] and writer.closed
    with pytest.raises(errors.InvalidArgument, match="discarded"):
        writer.write(b"more")
    writer.close()
    writer.discard()


def test_a_file_that_was_there_stays_until_another_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.lines"
    path.write_bytes(b"old\n")
    writer = ringfeed.open_record_writer(path, "lines")
    writer.write(b"new")
    writer.discard()
    assert path.read_bytes() == b"old\n" and names_in(tmp_path) == ["a.lines"]
    writer = ringfeed.open_record_writer(path, "lines")
    writer.write(b"new")
    writer.close()
    writer.close()
    assert path.read_bytes() == b"new\n"
    with pytest.raises(errors.InvalidArgument, match="was closed"):
        writer.flush()


def test_what_a_format_cannot_hold_is_raised_by_every_later_call(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="4"):
        with ringfeed.open_record_writer(tmp_path / "a", "rows:4") as writer:
            writer.write(b"abcd")
            with pytest.raises(errors.InvalidArgument):
                writer.write(b"abc")
            assert writer.records == 1
    assert writer.closed and names_in(tmp_path) == []


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="tfrecord"):
        ringfeed.open_record_writer(tmp_path / "a", "tfrecords")
    with pytest.raises(errors.Unsupported, match="written last"):
        ringfeed.open_record_writer(tmp_path / "a", "npy:f4+gzip")
    with pytest.raises(FileNotFoundError):
        ringfeed.open_record_writer(tmp_path / "none" / "a", "lines")
    with pytest.raises(errors.InvalidArgument, match="folder"):
        ringfeed.open_record_writer(tmp_path, "lines")
    with pytest.raises(TypeError, match="format"):
        ringfeed.open_record_writer(tmp_path / "a", None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="null"):
        ringfeed.open_record_writer("a\0b", "lines")
    assert names_in(tmp_path) == []


def test_the_name_is_that_of_the_folder_in_which_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with ringfeed.open_record_writer("a.lines", "lines") as writer:
        writer.write(b"here")
        monkeypatch.chdir("elsewhere")
    assert (tmp_path / "a.lines").read_bytes() == b"here\n"


FULL_DISK = """
import resource, sys, ringfeed
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = ringfeed.open_record_writer(sys.argv[1], "tfrecord")
try:
    with writer:
        writer.write(bytes(200_000))  # kept back until the end
except ringfeed.errors.IoError as error:
    print(type(error).__name__, writer.closed)
"""


def test_what_close_fails_of_is_raised_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a.tfrecord")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.stdout == "IoError True\n", run.stderr
    assert names_in(tmp_path) == []


def test_a_writer_that_is_dropped_leaves_nothing_and_warns(tmp_path: Path) -> None:
    writer = ringfeed.open_record_writer(tmp_path / "a.tfrecord", "tfrecord")
    writer.write(b"record")
    with pytest.warns(RuntimeWarning, match="a.tfrecord: the writer was not closed"):
        del writer
        gc.collect()
    assert names_in(tmp_path) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = ringfeed.open_record_writer(tmp_path / "a.tfrecord", "tfrecord")
        done.close()
        del done
        gc.collect()


def test_threads_write_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"

    def write(number: int) -> None:
        for i in range(200):
            writer.write(b"%d:" % number + bytes([number]) * (i * 37))

    with ringfeed.open_record_writer(path, "tfrecord") as writer:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert writer.records == 800
    expected = [b"%d:" % n + bytes([n]) * (i * 37) for n in range(4) for i in range(200)]
    assert sorted(records_of(path)) == sorted(expected)


def _write_in_child(writer: ringfeed.RecordWriter) -> int:
    """0 where writing says that the process was forked, and the end of it changes nothing."""
    try:
        writer.write(b"of the child")
    except RuntimeError as error:
        writer.close()
        writer.discard()
        return 0 if "forked" in str(error) else 2
    return 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing_and_takes_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "a.lines"
    with ringfeed.open_record_writer(path, "lines") as writer:
        writer.write(b"of the parent")
        child = os.fork()
        if child == 0:
            status = _write_in_child(writer)
            del writer
            os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 0
        assert not path.exists() and len(names_in(tmp_path)) == 1
    assert path.read_bytes() == b"of the parent\n"


LEFT_OPEN = """
import sys, ringfeed
kept = {}
kept["itself"] = kept  # nobody frees it before the end
kept["writer"] = ringfeed.open_record_writer(sys.argv[1], "tfrecord")
kept["writer"].write(b"record")
"""


def test_the_programs_end_discards_what_is_open_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEFT_OPEN, str(tmp_path / "a.tfrecord")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and names_in(tmp_path) == []
    assert "RuntimeWarning" in run.stderr and "a.tfrecord" in run.stderr
