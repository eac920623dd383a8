"""A parser that does not fit the data is a mistake of the program's, and is told as one."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Callable

import pytest
from loader_data import tfrecord

import ringfeed

numpy = pytest.importorskip("numpy")

RECORDS = 150


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def _entry(name: str, value: bytes) -> bytes:
    return _field(1, _field(1, name.encode()) + _field(2, value))


def _ints(kind: int, number: int) -> bytes:
    """A feature of one int64; of an OFRecord `kind` is 5."""
    return _field(kind, _field(1, bytes([number % 100])))


def _examples(path: Path) -> dict[str, Any]:
    records = [
        _field(1, _entry("label", _ints(3, i)) + _entry("id", _ints(3, i))) for i in range(RECORDS)
    ]
    path.write_bytes(b"".join(map(tfrecord, records)))
    return {"files": path, "format": "tfrecord"}


def _sequences(path: Path) -> dict[str, Any]:
    steps = _field(1, _ints(3, 1)) * 2
    records = [
        _field(1, _entry("id", _ints(3, i))) + _field(2, _entry("label", steps))
        for i in range(RECORDS)
    ]
    path.write_bytes(b"".join(map(tfrecord, records)))
    return {"files": path, "format": "tfrecord"}


def _ofrecords(path: Path) -> dict[str, Any]:
    records = [_entry("label", _ints(5, i)) for i in range(RECORDS)]
    path.write_bytes(b"".join(struct.pack("<q", len(r)) + r for r in records))
    return {"files": path, "format": "ofrecord"}


def _lines(path: Path) -> dict[str, Any]:
    path.write_text("".join(json.dumps({"label": i, "id": str(i)}) + "\n" for i in range(RECORDS)))
    return {"files": path, "format": "lines"}


def _samples(path: Path) -> dict[str, Any]:
    with tarfile.open(path, "w") as tar:
        for i in range(RECORDS):
            for extension in ("id", "label"):
                content = str(i).encode()
                member = tarfile.TarInfo(f"{i:05}.{extension}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return {"files": path, "format": "tar"}


def _columns(path: Path) -> dict[str, Any]:
    path.write_text("".join(f"{i};{i}\n" for i in range(RECORDS)))
    return {"files": path, "format": "csv"}


LABEL = ("int64", [1])
MISSPELT = {
    "example": (_examples, lambda: ringfeed.example({"labl": LABEL}), '"label"'),
    "example of two phases": (
        _examples,
        lambda: ringfeed.example({"id": LABEL, "labl": ("int64", [-1])}),
        '"label"',
    ),
    "sequence": (
        _sequences,
        lambda: ringfeed.sequence_example({"id": LABEL}, {"lable": ("int64", [-1])}),
        '"label"',
    ),
    "ofrecord": (_ofrecords, lambda: ringfeed.ofrecord({"Label": LABEL}), '"label"'),
    "jsonl": (_lines, lambda: ringfeed.jsonl({"lebal": LABEL}), '"label"'),
    "tar": (_samples, lambda: ringfeed.tar({"lab": LABEL}), '"label"'),
    "csv": (_columns, lambda: ringfeed.csv({"a": LABEL, "b": LABEL}), "column 0 (a)"),
}


@pytest.mark.parametrize("what", MISSPELT)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shuffle", [None, True])
def test_a_parser_that_fits_no_record_fails_also_where_damage_is_skipped(
    tmp_path: Path, what: str, threads: int, shuffle: Any
) -> None:
    write, parser, nearest = MISSPELT[what]
    data = write(tmp_path / "data")
    loader = ringfeed.Loader(
        **data, parse=parser(), batch=16, skip_damaged=True, threads=threads, shuffle=shuffle
    )
    with pytest.raises(ringfeed.errors.InvalidArgument, match="first 100 records") as caught:
        next(loader)
    assert nearest in str(caught.value)


def test_a_header_without_the_column_names_the_nearest_one() -> None:
    with pytest.raises(ringfeed.errors.InvalidArgument, match='nearest name there is: "label"'):
        ringfeed.csv({"lable": LABEL}, header="id,label")


def _npy(path: Path, dtype: str) -> dict[str, Any]:
    numpy.save(path, numpy.arange(60, dtype=dtype).reshape(20, 3))
    return {"files": path}


def _llmc(path: Path, dtype: str) -> dict[str, Any]:
    magic, version = (20240520, 1) if dtype == "uint16" else (20240801, 7)
    header = struct.pack("<3i", magic, version, 60).ljust(1024, b"\0")
    path.write_bytes(header + numpy.arange(60, dtype=dtype).tobytes())
    return {"files": path, "format": "tokens:block=3"}


def _megatron(path: Path, dtype: str) -> dict[str, Any]:
    code = {"int32": 4, "uint16": 8}[dtype]
    tokens = numpy.arange(60, dtype=dtype)
    size = tokens.itemsize
    path.with_suffix(".bin").write_bytes(tokens.tobytes())
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, 20, 1)
    index += struct.pack("<20i", *[3] * 20)
    index += struct.pack("<20q", *[3 * size * i for i in range(20)]) + struct.pack("<q", 0)
    path.with_suffix(".idx").write_bytes(index)
    return {"files": path.with_suffix(".idx")}


Write = Callable[[Path, str], dict[str, Any]]
WRONG: list[tuple[Write, str, str]] = [
    (_npy, "<f4", "int32"),
    (_npy, ">f8", "float64"),
    (_npy, "<i8", "float64"),
    (_npy, "<u2", "int16"),
    (_llmc, "uint16", "uint32"),
    (_llmc, "uint32", "uint16"),
    (_megatron, "int32", "float32"),
    (_megatron, "uint16", "int16"),
]


@pytest.mark.parametrize("write, has, takes", WRONG)
@pytest.mark.parametrize("more", [{}, {"skip_damaged": True}, {"shuffle": "global"}])
@pytest.mark.parametrize("kind", ["rows", "tokens"])
def test_a_wrong_type_is_refused_with_both(
    tmp_path: Path, write: Write, has: str, takes: str, more: dict[str, Any], kind: str
) -> None:
    data = write(tmp_path / "data.npy", has)
    parser = (
        ringfeed.rows({"x": (takes, [3])}) if kind == "rows" else ringfeed.tokens(takes, shape=[-1])
    )
    with pytest.raises(ringfeed.errors.InvalidArgument) as caught:
        next(ringfeed.Loader(**data, parse=parser, batch=4, **more))
    text = str(caught.value)
    assert f"takes them for {takes}" in text
    assert (has if has[0] == ">" else numpy.dtype(has).name) in text
    assert "take the order of files" not in text


@pytest.mark.parametrize(
    "write, has",
    [
        (_npy, "<f4"),
        (_npy, "|u1"),
        (_npy, "<i8"),
        (_llmc, "uint16"),
        (_llmc, "uint32"),
        (_megatron, "int32"),
        (_megatron, "uint16"),
    ],
)
@pytest.mark.parametrize("shuffle", [None, "global"])
def test_the_right_type_is_read(tmp_path: Path, write: Write, has: str, shuffle: Any) -> None:
    data = write(tmp_path / "data.npy", has)
    dtype = numpy.dtype(has).name
    for parser in (ringfeed.rows({"x": (dtype, [3])}), ringfeed.tokens(dtype, [3], name="x")):
        loader = ringfeed.Loader(**data, parse=parser, batch=20, shuffle=shuffle)
        (batch,) = [batch["x"].numpy().copy() for batch in loader]
        assert sorted(batch.ravel().tolist()) == list(range(60))


def test_bytes_are_what_they_are_and_tokens_are_converted_where_asked(tmp_path: Path) -> None:
    data = _npy(tmp_path / "data.npy", ">f8")
    (batch,) = ringfeed.Loader(**data, batch=20)
    expected = numpy.arange(60, dtype=">f8").tobytes()
    assert batch["bytes"].tobytes() == expected
    data = _llmc(tmp_path / "tokens", "uint16")
    (batch,) = ringfeed.Loader(**data, parse=ringfeed.tokens("uint16", [3], "int64"), batch=20)
    assert batch["tokens"].numpy().ravel().tolist() == list(range(60))


def test_a_compressed_file_knows_its_type_too(tmp_path: Path) -> None:
    import gzip

    data = _npy(tmp_path / "data.npy", "<f4")
    packed = tmp_path / "packed.npy.gz"
    packed.write_bytes(gzip.compress(Path(data["files"]).read_bytes()))
    loader = ringfeed.Loader(
        packed, parse=ringfeed.rows({"x": ("int32", [3])}), batch=4, skip_damaged=True
    )
    with pytest.raises(ringfeed.errors.InvalidArgument, match="float32.*int32"):
        next(loader)


@pytest.mark.parametrize("command", [["cat", "--as", "json"], ["feed"]])
def test_the_command_refuses_it_too(tmp_path: Path, command: list[str]) -> None:
    data = _npy(tmp_path / "data.npy", "<f4")
    done = subprocess.run(
        [sys.executable, "-m", "ringfeed", command[0], str(data["files"]), *command[1:]]
        + ["--parse", "rows: x:i4[3]"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode not in (0, None)
    assert "float32" in done.stderr and "int32" in done.stderr
