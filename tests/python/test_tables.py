"""Tables as data sets: pyarrow's, Polars', DuckDB's, and Parquet's row groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest

import ringfeed

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "point": [n / 2, -n / 2],
        "tokens": list(range(n % 4)),
        "text": "é" * (n % 3),
        "kind": ["cat", "a dog of some length"][n % 2],
        "image": {"bytes": bytes([n]) * (n % 20), "width": n},
    }
    for n in range(100)
]


def small_table() -> Any:
    table = pyarrow.Table.from_pylist(ROWS)
    point = table.column("point").cast(pyarrow.list_(pyarrow.float32(), 2))
    kind = table.column("kind").dictionary_encode()
    at = table.schema.get_field_index
    return table.set_column(at("point"), "point", point).set_column(at("kind"), "kind", kind)


def batches_of(reader: ringfeed.Reader, size: int = 16) -> Iterator[dict[str, Any]]:
    with ringfeed.Loader.from_reader(ringfeed.batch(reader, size)) as loader:
        yield from loader


def rows_of(reader: ringfeed.Reader) -> list[dict[str, Any]]:
    """The rows of all batches, by Arrow's own way out."""
    found = []
    for batch in batches_of(reader):
        found += pyarrow.record_batch(ringfeed.to_arrow(batch)).to_pylist()
    return found


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "id": row["id"],
            "point": row["point"],
            "tokens": row["tokens"],
            "text": row["text"].encode(),
            "kind": row["kind"].encode(),
            "image.bytes": row["image"]["bytes"],
            "image.width": row["image"]["width"],
        }
        for row in rows
    ]


def test_a_pyarrow_table_is_a_data_set() -> None:
    assert rows_of(ringfeed.table(small_table())) == expected(ROWS)
    slices = pyarrow.concat_tables([small_table().slice(3, 20), small_table().slice(50)])
    assert rows_of(ringfeed.table(slices)) == expected(ROWS[3:23] + ROWS[50:])
    reader = small_table().to_reader(max_chunksize=7)
    assert rows_of(ringfeed.table(reader)) == expected(ROWS)


def test_polars_and_duckdb_are_data_sets() -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    frame = polars.DataFrame(small_table())
    assert rows_of(ringfeed.table(frame)) == expected(ROWS)
    assert rows_of(ringfeed.table(frame[10:30])) == expected(ROWS[10:30])
    relation = duckdb.sql("SELECT id, text FROM frame WHERE id >= 90 ORDER BY id")
    named = [{"id": row["id"], "text": row["text"].encode()} for row in ROWS[90:]]
    assert rows_of(ringfeed.table(relation)) == named


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    """Two Parquet files of row groups of 8 rows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(small_table().slice(0, 60), tmp_path / "a.parquet", row_group_size=8)
    parquet.write_table(small_table().slice(60), tmp_path / "b.parquet", row_group_size=8)
    return pytest.importorskip("pyarrow.dataset").dataset(tmp_path)


def test_row_groups_of_parquet_are_read_in_every_order(dataset: Any) -> None:
    assert rows_of(ringfeed.table(dataset)) == expected(ROWS)
    for mode, size in [("stripes", 20), ("window", 20), ("global", 0)]:
        rows = ringfeed.table(dataset, kept_groups=13)
        shuffled = ringfeed.shuffle(rows, mode, size, seed=5)
        found = rows_of(shuffled)
        assert found != expected(ROWS)
        assert sorted(found, key=lambda row: int(row["id"])) == expected(ROWS)


def test_stats_tell_how_often_rows_were_decoded(dataset: Any) -> None:
    rows = ringfeed.shuffle(ringfeed.table(dataset), "stripes", 20, seed=5)
    with ringfeed.Loader.from_reader(ringfeed.batch(rows, 16)) as loader:
        assert sum(len(batch["id"]) for batch in loader) == 100
        cost = loader.stats()["tables"]
    assert cost == {"opened_groups": 13, "decoded_rows": 100, "taken_rows": 100}


def test_a_global_order_of_groups_is_refused_with_the_ways_out(dataset: Any) -> None:
    with pytest.raises(ringfeed.errors.InvalidArgument, match='"stripes" and a window.* all 13'):
        next(ringfeed.batch(ringfeed.shuffle(ringfeed.table(dataset), "global"), 8))


def test_a_position_goes_on_at_the_next_row(dataset: Any) -> None:
    def chain() -> ringfeed.Reader:
        rows = ringfeed.table(dataset, ["id"])
        return ringfeed.batch(ringfeed.shuffle(rows, "stripes", 20, seed=5), 8)

    whole = chain()
    ids, position = [], ""
    for number, batch in enumerate(whole):
        ids.append(batch[0].tolist())
        if number == 4:
            position = whole.position()
    again = chain()
    again.restore(position)
    assert [batch[0].tolist() for batch in again] == ids[5:]


def test_columns_are_chosen_by_name_and_by_path(dataset: Any) -> None:
    rows = rows_of(ringfeed.table(dataset, columns=["image.width", "id"]))
    assert rows == [{"image.width": n, "id": n} for n in range(100)]
    with pytest.raises(ringfeed.errors.NotFound, match='no column "images"'):
        ringfeed.table(dataset, columns=["images"])
    lists = pyarrow.table({"x": [["a"], ["b"]], "y": [1, 2]})
    with pytest.raises(ringfeed.errors.Unsupported, match='column "x" cannot be a field'):
        ringfeed.table(lists)
    assert rows_of(ringfeed.table(lists, ["y"])) == [{"y": 1}, {"y": 2}]


def test_nulls_are_damage_a_default_or_a_mask() -> None:
    holes = pyarrow.table({"n": [1, None, 3], "text": ["a", None, "c"]})
    with pytest.raises(ringfeed.Damaged, match='column "n": it is null'):
        rows_of(ringfeed.table(holes))
    kept = rows_of(ringfeed.table(holes, skip_damaged=True))
    assert kept == [{"n": 1, "text": b"a"}, {"n": 3, "text": b"c"}]
    filled = rows_of(ringfeed.table(holes, nulls={"n": ("mask", -1), "text": "default"}))
    assert filled[1] == {"n": -1, "n_valid": 0, "text": b""}
    assert filled[2] == {"n": 3, "n_valid": 1, "text": b"c"}
    with pytest.raises(ValueError, match='"fail", "default" or "mask"'):
        ringfeed.table(holes, nulls="none")


def test_what_a_group_raises_comes_out_at_the_loop(dataset: Any) -> None:
    class Torn:
        """A data set whose last group cannot be opened."""

        schema = dataset.schema

        def get_fragments(self) -> Any:
            groups = [g for f in dataset.get_fragments() for g in f.split_by_row_group()]
            return [*groups[:-1], Unreadable(groups[-1])]

    class Unreadable:
        """A group that has rows, and fails."""

        def __init__(self, group: Any) -> None:
            self._group = group

        def count_rows(self) -> int:
            return int(self._group.count_rows())

        def scanner(self, **_: Any) -> Any:
            raise PermissionError("not this one")

    found = 0
    with pytest.raises(PermissionError, match="not this one"):
        for batch in batches_of(ringfeed.table(Torn(), ["id"]), 4):
            found += len(batch["id"])
    assert found == 92


def test_what_is_no_table_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match="ringfeed.parquet"):
        ringfeed.table("data.parquet")
    with pytest.raises(TypeError, match="has __arrow_c_stream__, not int"):
        ringfeed.table(7)
    with pytest.raises(TypeError, match="formt"):
        ringfeed.table(small_table(), formt="tfrecord")


def test_times_and_decimals_tell_their_units_and_scales() -> None:
    kinds = {"t": pyarrow.timestamp("ms", "UTC"), "m": pyarrow.decimal128(12, 2)}
    table = pyarrow.table(
        {"i": [1], **{name: pyarrow.array([None], kind) for name, kind in kinds.items()}}
    )
    rows = ringfeed.table(table, nulls="mask")
    expected = {name: str(kind) for name, kind in kinds.items()}
    assert rows.logical_types == expected
    assert ringfeed.batch(ringfeed.shuffle(rows, "global"), 1).logical_types == expected


def test_a_table_without_rows_is_read_to_its_end(tmp_path: Path) -> None:
    none = pyarrow.table({"id": pyarrow.array([], pyarrow.int32())})
    for source in (none, none.to_reader(), pyarrow.dataset.dataset(tmp_path, none.schema)):
        assert rows_of(ringfeed.table(source)) == []


def test_columns_are_names_and_no_text() -> None:
    with pytest.raises(TypeError, match="several names"):
        ringfeed.table(pyarrow.table({"i": [1], "d": [2]}), columns="id")
