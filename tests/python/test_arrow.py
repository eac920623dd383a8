"""Batches for Arrow's libraries, which take them as columns: pyarrow, Polars, DuckDB."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any, Iterator

import pytest
from test_arrays import one_array

import ringfeed

FIELDS = {
    "id": ("int64", ()),
    "point": ("float32", (2,)),
    "tokens": ("int32", (-1,)),
    "text": ("uint8", (-1,)),
}
ROWS: list[dict[str, Any]] = [
    {"id": n, "point": [n, n / 2], "tokens": list(range(n % 4)), "text": "x" * (n % 3)}
    for n in range(20)
]
EXPECTED = [{**row, "text": row["text"].encode()} for row in ROWS]


@pytest.fixture
def loader(tmp_path: Path) -> ringfeed.Loader:
    """The rows, in their order, seven a batch."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return ringfeed.Loader(path, parse=ringfeed.jsonl(FIELDS), batch=7)


def test_pyarrow_takes_a_batch(loader: ringfeed.Loader) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = next(loader)
    taken = pyarrow.record_batch(ringfeed.to_arrow(batch))
    taken.validate(full=True)
    assert taken.to_pylist() == EXPECTED[:7]
    assert taken.schema.field("point").type == pyarrow.list_(
        pyarrow.field("item", pyarrow.float32(), False), 2
    )
    assert taken.schema.field("text").type == pyarrow.large_binary()
    address = batch["id"].__array_interface__["data"][0]
    assert taken.column("id").buffers()[1].address == address
    as_table = pyarrow.table(ringfeed.to_arrow(batch))
    assert as_table.to_pylist() == EXPECTED[:7]
    as_tuple = pyarrow.record_batch(ringfeed.to_arrow(tuple(batch.values())))
    assert as_tuple.schema.names == ["0", "1", "2", "3"]


def test_pyarrow_takes_one_field(loader: ringfeed.Loader) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = next(loader)
    assert pyarrow.array(batch["tokens"]).to_pylist() == [row["tokens"] for row in ROWS[:7]]
    assert pyarrow.array(batch["text"])[2].as_py() == b"xx"


def test_what_pyarrow_took_holds_the_batch(loader: ringfeed.Loader) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    kept = []
    for batch in loader:
        kept.append(pyarrow.record_batch(ringfeed.to_arrow(batch)).column("id"))
        del batch
        gc.collect()
    assert [number for column in kept for number in column.to_pylist()] == list(range(20))


def test_a_slot_comes_back_if_nobody_takes_the_capsules(tmp_path: Path) -> None:
    (tmp_path / "one.rows").write_bytes(bytes(8 * 64))
    loader = ringfeed.Loader(
        tmp_path / "one.rows",
        format="rows:8",
        parse=ringfeed.rows({"x": ("int64", ())}),
        batch=1,
        slots=2,
    )
    for batch in loader:  # with two slots the third batch would fail
        exported = ringfeed.to_arrow(batch)
        exported.__arrow_c_array__()
        exported.__arrow_c_stream__()
        exported.__arrow_c_device_array__()
        del exported, batch


def test_pyarrow_takes_all_batches_of_a_loop(loader: ringfeed.Loader) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    stream = pyarrow.RecordBatchReader.from_stream(ringfeed.to_arrow(loader))
    assert [batch.num_rows for batch in stream] == [7, 7, 6]
    assert pyarrow.table(ringfeed.to_arrow(loader)).to_pylist() == EXPECTED


def test_a_failure_of_the_loop_comes_out_at_the_consumer(loader: ringfeed.Loader) -> None:
    pyarrow = pytest.importorskip("pyarrow")

    def batches() -> Iterator[Any]:
        yield next(loader)
        raise RuntimeError("no more of these")

    stream = pyarrow.RecordBatchReader.from_stream(ringfeed.to_arrow(batches()))
    assert stream.read_next_batch().num_rows == 7
    with pytest.raises(OSError, match="RuntimeError: no more of these"):
        stream.read_next_batch()


def test_polars_takes_batches(loader: ringfeed.Loader) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(ringfeed.to_arrow(next(loader)))
    assert frame.to_dicts() == EXPECTED[:7]
    assert polars.DataFrame(ringfeed.to_arrow(loader)).to_dicts() == EXPECTED


def test_duckdb_takes_batches(loader: ringfeed.Loader) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    batches = ringfeed.to_arrow(loader)
    query = "SELECT id, tokens, text FROM batches WHERE len(tokens) = 3 ORDER BY id"
    expected = [(r["id"], r["tokens"], r["text"]) for r in EXPECTED if len(r["tokens"]) == 3]
    assert duckdb.sql(query).fetchall() == expected
    del batches


def test_a_device_array_says_where_it_lies(loader: ringfeed.Loader) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    exported = ringfeed.to_arrow(next(loader))
    if not hasattr(pyarrow.RecordBatch, "_import_from_c_device_capsule"):
        pytest.skip("this pyarrow takes no arrays of devices")
    taken = pyarrow.RecordBatch._import_from_c_device_capsule(*exported.__arrow_c_device_array__())
    assert taken.to_pylist() == EXPECTED[:7]
    assert exported.__arrow_c_device_array__(None, unknown=None)
    with pytest.raises(NotImplementedError, match="unknown"):
        exported.__arrow_c_device_array__(None, unknown=1)


@pytest.mark.parametrize("content", [b"\x01\x00\x01\x01", b"\x00" * 4])
def test_bools_are_bools(tmp_path: Path, content: bytes) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    array = one_array(tmp_path, "bool", (4,), content)
    assert pyarrow.array(array).to_pylist() == [[byte == 1 for byte in content]]


def test_what_arrow_cannot_have_is_refused(tmp_path: Path, loader: ringfeed.Loader) -> None:
    half = one_array(tmp_path, "bfloat16", (), b"\x80\x3f")
    with pytest.raises(BufferError, match="no bfloat16"):
        half.__arrow_c_array__()
    with pytest.raises(BufferError, match='"x"'):
        ringfeed.to_arrow({"x": half}).__arrow_c_stream__()
    converted = {name: array.tolist() for name, array in next(loader).items()}
    with pytest.raises(TypeError, match="an Array for each field"):
        ringfeed.to_arrow(converted)
    with pytest.raises(TypeError, match="iterable of batches"):
        ringfeed.to_arrow(7)
