"""Small data sets for the tests of Loader and chains."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Sequence

import ringfeed

#: What write_rows writes: int64 numbers, eight bytes a record.
NUMBER = {"x": ("int64", ())}


def write_rows(folder: Path, files: int = 3, rows: int = 100) -> str:
    """Files of `rows` int64 each, 0, 1, 2, … over all of them; the glob of their names."""
    for file in range(files):
        numbers = range(file * rows, (file + 1) * rows)
        (folder / f"part-{file}.rows").write_bytes(struct.pack(f"<{rows}q", *numbers))
    return str(folder / "part-*.rows")


def number_loader(files: Any, batch: int = 7, **arguments: Any) -> ringfeed.Loader:
    """A Loader of what write_rows wrote."""
    return ringfeed.Loader(
        files, format="rows:8", parse=ringfeed.rows(NUMBER), batch=batch, **arguments
    )


def numbers(batch: Any) -> list[int]:
    """The int64 elements of an Array, or of the field "x" of a batch."""
    array = batch["x"] if isinstance(batch, dict) else batch
    content = array.tobytes()
    return list(struct.unpack(f"<{len(content) // 8}q", content))


def all_numbers(loader: Any) -> list[int]:
    """Of all batches of one `for`."""
    return [number for batch in loader for number in numbers(batch)]


def write_sequences(path: Path, sequences: Sequence[Sequence[int]]) -> str:
    """Lines {"t": [...]}, as JSON."""
    path.write_text("".join(json.dumps({"t": list(s)}) + "\n" for s in sequences))
    return str(path)


def open_sequences(path: str) -> ringfeed.Reader:
    """Its records, parsed to the ragged int64 field "t"."""
    return ringfeed.parse(
        ringfeed.open_files(path, format="lines"), ringfeed.jsonl({"t": ("int64", (-1,))})
    )


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit: for small data."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(payload: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(payload))
    return length + _masked(length) + payload + _masked(payload)


def write_damaged_tfrecords(path: Path, records: int, damaged: int) -> str:
    """`records` of 8 bytes each, their numbers; number `damaged` has a wrong payload. Each takes
    24 bytes of the file."""
    framed = [bytearray(tfrecord(struct.pack("<q", number))) for number in range(records)]
    framed[damaged][12] ^= 0xFF
    path.write_bytes(b"".join(framed))
    return str(path)
