"""Tables of every kind of column, and files of them by pyarrow."""

from __future__ import annotations

import datetime
import decimal
import random
from pathlib import Path
from typing import Any

import pytest

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet")
ipc = pytest.importorskip("pyarrow.ipc")

GENUINE = Path(__file__).parent.parent / "data" / "tables"
ROWS = 97


def made(seed: int = 1, rows: int = ROWS, start: int = 0) -> Any:
    """A table of every kind of column that has a field, with nulls and slices."""
    draw = random.Random(seed)

    def some(value: Any) -> Any:
        return None if draw.random() < 0.15 else value

    text = pyarrow.string()
    columns = {
        "id": pyarrow.array(range(start, start + rows), pyarrow.int32()),
        "x": pyarrow.array([some(draw.random()) for _ in range(rows)], pyarrow.float64()),
        "flag": pyarrow.array([some(draw.random() < 0.5) for _ in range(rows)], pyarrow.bool_()),
        "text": pyarrow.array([some("é" * draw.randrange(9)) for _ in range(rows)], text),
        "kind": pyarrow.array(
            [some(draw.choice("abc")) for _ in range(rows)], text
        ).dictionary_encode(),
        "money": pyarrow.array(
            [some(decimal.Decimal(draw.randrange(-9999, 9999)) / 100) for _ in range(rows)],
            pyarrow.decimal128(12, 2),
        ),
        "when": pyarrow.array(
            [some(datetime.datetime(2026, 1, 1 + draw.randrange(28))) for _ in range(rows)],
            pyarrow.timestamp("us"),
        ),
        "tokens": pyarrow.array(
            [some([draw.randrange(99) for _ in range(draw.randrange(5))]) for _ in range(rows)],
            pyarrow.list_(pyarrow.int16()),
        ),
        "image": pyarrow.array(
            [some({"bytes": draw.randbytes(draw.randrange(30)), "size": n}) for n in range(rows)],
            pyarrow.struct([("bytes", pyarrow.binary()), ("size", pyarrow.int64())]),
        ),
    }
    return pyarrow.table(columns)


def plain(table: Any) -> list[dict[str, Any]]:
    """The rows as fields have them."""
    flat = table.flatten() if "image" in table.column_names else table
    scaled = {"text": str.encode, "kind": str.encode}
    found = []
    for row in flat.to_pylist():
        for name, value in row.items():
            if value is None:
                continue
            if name in scaled:
                row[name] = scaled[name](value)
            elif isinstance(value, decimal.Decimal):
                row[name] = int(value * 100)
            elif isinstance(value, datetime.datetime):
                seconds = value.replace(tzinfo=datetime.timezone.utc).timestamp()
                row[name] = round(seconds) * 10**6
        found.append(row)
    return found


def unmasked(row: dict[str, Any]) -> dict[str, Any]:
    """The row with a null where its mask says so."""
    masks = {name: row.pop(name) for name in list(row) if name.endswith("_valid")}
    for name, valid in masks.items():
        if not valid:
            row[name.removesuffix("_valid")] = None
    return row


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["id"]))


def write_parquet(table: Any, path: Path) -> None:
    parquet.write_table(table, path, row_group_size=8)


def write_arrow(table: Any, path: Path) -> None:
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table.unify_dictionaries(), max_chunksize=8)


def write_stream(table: Any, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=8)
