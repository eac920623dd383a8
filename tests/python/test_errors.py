"""Failures are exceptions that name the place; the end of data is StopIteration."""

from __future__ import annotations

import inspect
import io
import os
import re
import struct
import sys
import tarfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER, number_loader, numbers, write_damaged_tfrecords, write_rows

import ringfeed
from ringfeed import errors


def test_damage_is_an_exception_with_file_offset_and_record(tmp_path: Path) -> None:
    path = write_damaged_tfrecords(tmp_path / "a.tfrecord", 10, damaged=5)
    loader = ringfeed.Loader(path, parse=ringfeed.rows(NUMBER), batch=2)
    assert [numbers(next(loader)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(errors.Damaged) as caught:
        while True:
            next(loader)
    error = caught.value
    assert (error.file, error.record, error.code) == (path, 5, "damaged")
    assert error.offset == 5 * 24
    assert path in str(error) and "record 5" in str(error)


def test_an_archive_without_its_end_is_a_warning_and_with_strict_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(4):
            member = tarfile.TarInfo(f"{number}.x")
            member.size = 1
            archive.addfile(member, io.BytesIO(str(number).encode()))
    path.write_bytes(path.read_bytes()[: 4 * 1024])  # without the two blocks of zeros
    parse = ringfeed.tar({"x": ("int64", ())})
    with ringfeed.Loader(path, parse=parse, batch=2) as loader:
        assert [numbers(batch) for batch in loader] == [[0, 1], [2, 3]]
        warnings = loader.stats()["warnings"]
        assert [warning["file"] for warning in warnings] == [str(path)]
        assert "end" in warnings[0]["text"]
    strict = ringfeed.Loader(path, parse=parse, batch=2, strict=True)
    assert [numbers(next(strict)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(errors.Damaged, match="end"):
        next(strict)


def test_damage_that_is_passed_over_is_in_the_report(tmp_path: Path) -> None:
    path = write_damaged_tfrecords(tmp_path / "a.tfrecord", 10, damaged=5)
    loader = ringfeed.Loader(path, parse=ringfeed.rows(NUMBER), batch=4, skip_damaged=True)
    assert [numbers(batch) for batch in loader] == [[0, 1, 2, 3], [4, 6, 7], [8, 9]]
    report = loader.stats()
    assert report["damaged_records"] == 1
    assert report["lost_ranges"] == 0
    assert [report[f"files_{fate}"] for fate in ("read", "refused", "missing")] == [1, 0, 0]
    assert [entry["file"] for entry in report["damage"]] == [path]


def test_the_end_is_the_end_each_time(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1), batch=100)
    next(loader)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(loader)


def test_files_that_there_are_not_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none-"):
        ringfeed.Loader(tmp_path / "none-*", batch=1)
    loader = ringfeed.Loader(tmp_path / "missing.tfrecord", batch=1)
    with pytest.raises(errors.NotFound) as caught:
        next(loader)
    assert "missing.tfrecord" in str(caught.value)


@pytest.mark.parametrize("name", ["ftp://b/a.tfrecord", Path("abfs://b/a"), "memory://h/*.tar"])
def test_an_address_is_told_how_to_be_read(name: str | Path) -> None:
    for opened in (
        lambda: ringfeed.open_files(name, format="tfrecord"),
        lambda: ringfeed.open_record_writer(name, format="tfrecord"),
        lambda: ringfeed.Loader(name, format="tfrecord", batch=1),
    ):
        with pytest.raises(errors.Unsupported, match="is an address.*copy.*mount.*fsspec"):
            opened()


def test_who_holds_all_slots_is_told_how_many_in_pythons_words(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), batch=10, slots=4)
    held = []
    with pytest.raises(errors.ResourceExhausted) as caught:
        for batch in loader:
            held.append(batch)
    assert len(held) == 4
    assert "4" in str(caught.value)
    assert "slots=" in str(caught.value)
    assert "::" not in str(caught.value)


def test_failures_are_the_built_in_kinds_too() -> None:
    assert issubclass(errors.NotFound, FileNotFoundError)
    assert issubclass(errors.InvalidArgument, ValueError)
    assert issubclass(errors.IoError, OSError)
    assert issubclass(errors.DeadlineExceeded, TimeoutError)


def test_what_a_python_filter_raises_comes_out_with_its_traceback(tmp_path: Path) -> None:
    def refuse(record: bytes) -> bool:
        raise LookupError("not this one")

    loader = number_loader(write_rows(tmp_path, 1), filter=refuse)
    with pytest.raises(LookupError, match="not this one") as caught:
        next(loader)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert "refuse" in [frame.name for frame in frames]
    if sys.version_info >= (3, 11):
        (note,) = caught.value.__notes__
        assert note.endswith("part-0.rows: record 0")


class Several(ringfeed.Parser):
    """Fails at each record; at that of number 0 behind others."""

    fields = NUMBER

    def __init__(self) -> None:
        self.others = threading.Event()

    def parse(self, sample: bytes) -> dict[str, bytes]:
        (number,) = struct.unpack("<q", sample)
        if number > 0:
            self.others.set()
        elif self.others.wait(1):
            time.sleep(0.05)  # what they raise is kept by then
        raise LookupError(f"number {number}")


@pytest.mark.parametrize("at", ["parse", "filter"])
def test_of_functions_that_throw_at_once_the_first_record_counts(tmp_path: Path, at: str) -> None:
    parser = Several()
    function = {"parse": parser} if at == "parse" else {"filter": parser.parse}
    files = write_rows(tmp_path, 2, 1000)
    loader = ringfeed.Loader(files, format="rows:8", batch=10, threads=4, cycle=2, **function)
    with pytest.raises(LookupError, match=r"number 0\b") as caught:
        next(loader)
    if sys.version_info >= (3, 11):
        (note,) = caught.value.__notes__
        assert note.endswith("part-0.rows: record 0")


def test_a_parser_that_does_not_suit_names_the_record(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    loader = ringfeed.Loader(
        files, format="rows:8", parse=ringfeed.rows({"x": ("int64", (2,))}), batch=1
    )
    with pytest.raises(ringfeed.Error) as caught:
        next(loader)
    assert caught.value.record == 0
    assert caught.value.file.endswith("part-0.rows")


def _stop(_: Any) -> Any:
    raise StopIteration


class _Stopping(ringfeed.Parser):
    fields = {"x": ("int64", [])}

    def parse(self, sample: bytes) -> Any:
        return _stop(sample)


@pytest.mark.parametrize("where", ["map", "filter", "parse"])
def test_a_stop_of_a_users_function_is_not_the_end_of_the_data(tmp_path: Path, where: str) -> None:
    function: Any = _Stopping() if where == "parse" else _stop
    arguments = {"format": "rows:8", "batch": 7, where: function}
    with ringfeed.Loader(write_rows(tmp_path), **arguments) as loader:
        with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
            list(loader)
        assert isinstance(raised.value.__cause__, StopIteration)


def test_damage_that_quotes_bytes_which_are_no_text_has_its_place(tmp_path: Path) -> None:
    lines = tmp_path / "latin.csv"
    lines.write_bytes(b"1\ncaf\xe9\n")
    fields = {"x": ("int64", [])}
    arguments: dict[str, Any] = {"format": "lines", "parse": ringfeed.csv(fields), "batch": 2}
    with ringfeed.Loader(lines, **arguments) as loader:
        with pytest.raises(errors.Damaged, match=r"caf\\xe9") as raised:
            list(loader)
    assert (raised.value.file, raised.value.offset, raised.value.record) == (str(lines), 2, 1)
    with ringfeed.Loader(lines, skip_damaged=True, **arguments) as loader:
        assert sum(len(batch["x"]) for batch in loader) == 1
        (damage,) = loader.stats()["damage"]
        assert r"caf\xe9" in damage["reason"]


def test_a_files_name_that_is_no_text_is_as_python_gives_it(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.rows"
    with open(name, "wb") as file:
        file.write(struct.pack("<q", 1) + b"?")
    with number_loader(tmp_path / "*.rows") as loader:
        with pytest.raises(errors.Truncated, match=r"caf\\xe9\.rows") as raised:
            list(loader)
        assert os.fsencode(raised.value.file) == name
        assert os.fsencode(loader.stats()["io"][0]["file"]) == name


def _texts_with_options() -> list[str]:
    """The library's texts that name an option, a line's each."""
    project = Path(__file__).resolve().parents[2]
    sources = [path for folder in ("readers", "gpu") for path in (project / folder).rglob("*.cc")]
    lines = [line for path in sources for line in path.read_text(encoding="utf-8").splitlines()]
    named = re.compile(r'"[^"]*\b\w*Options::[a-z_]+\b[^"]*"')
    return [text for line in lines for text in named.findall(line)]


def test_each_option_that_the_library_names_is_told_as_an_argument() -> None:
    texts = _texts_with_options()
    assert len(texts) > 8
    arguments = set(inspect.signature(ringfeed.Loader).parameters)
    arguments |= set(inspect.signature(ringfeed.devices.DevicePlan).parameters)
    arguments |= set(inspect.signature(ringfeed.Pack).parameters)
    arguments |= set(inspect.signature(ringfeed.table).parameters)
    for text in texts:
        told = str(errors.from_status("invalid_argument", text.strip('"'), "", -1, -1))
        assert "Options::" not in told
        assert set(re.findall(r"(\w+)=", told)) <= arguments, told


def test_a_bound_that_files_do_not_have_is_told_by_its_argument(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="^ahead and ahead_bytes bound"):
        number_loader(write_rows(tmp_path, 1), ahead=5)
