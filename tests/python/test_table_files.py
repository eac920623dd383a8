"""Parquet and Arrow files as data sets, beside what pyarrow reads of them."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

import ringfeed
from ringfeed import errors
from table_data import (
    GENUINE,
    ROWS,
    by_id,
    ipc,
    made,
    parquet,
    plain,
    pyarrow,
    unmasked,
    write_arrow,
    write_parquet,
    write_stream,
)


def rows_of(reader: Any, stats: Optional[dict[str, Any]] = None) -> list[dict[str, Any]]:
    """The rows of all batches, a null where the mask says so; fills `stats` at the end."""
    found = []
    with ringfeed.Loader.from_reader(ringfeed.batch(reader, 16)) as loader:
        for batch in loader:
            for row in pyarrow.record_batch(ringfeed.to_arrow(batch)).to_pylist():
                found.append(unmasked(row))
        if stats is not None:
            stats.update(loader.stats())
    return found


Opened = Callable[..., Any]
WRITERS = [
    pytest.param(ringfeed.parquet, write_parquet, id="parquet"),
    pytest.param(ringfeed.arrow_ipc, write_arrow, id="file"),
    pytest.param(ringfeed.arrow_ipc, write_stream, id="stream"),
]


@pytest.mark.parametrize(("opened", "write"), WRITERS)
def test_rows_are_those_that_pyarrow_reads(opened: Opened, write: Any, tmp_path: Path) -> None:
    tables = [made(1, 50), made(2, 0), made(3, 47, start=50)]
    for number, table in enumerate(tables):
        write(table, tmp_path / f"{number}.data")
    expected = [row for table in tables for row in plain(table)]
    for files in (
        tmp_path,
        tmp_path / "*.data",
        [str(tmp_path / f"{number}.data") for number in range(3)],
        f"file://{tmp_path}/*.data",
    ):
        assert rows_of(opened(files, nulls="mask")) == expected
    shuffled = ringfeed.shuffle(opened(tmp_path, nulls="mask"), "stripes", 20, seed=3)
    found = rows_of(shuffled)
    assert found != expected
    assert by_id(found) == expected
    some = rows_of(opened(tmp_path, ["image.size", "id"], nulls="mask"))
    assert some == [{"image.size": row["image.size"], "id": row["id"]} for row in expected]


@pytest.mark.parametrize(("opened", "write"), WRITERS)
def test_columns_may_stand_in_another_order_in_each_file(
    opened: Opened, write: Any, tmp_path: Path
) -> None:
    table = made(1, 20).select(["id", "x", "text"])
    write(table, tmp_path / "a")
    write(table.select(["text", "id", "x"]), tmp_path / "b")
    write(table.append_column("more", table["id"]), tmp_path / "c")
    assert rows_of(opened(tmp_path, nulls="mask")) == plain(table) * 3


@pytest.mark.parametrize(("opened", "write"), WRITERS)
def test_positions_and_ranks_go_on(opened: Opened, write: Any, tmp_path: Path) -> None:
    write(made(), tmp_path / "a")

    def chain(rank: Any = None) -> Any:
        rows = ringfeed.shuffle(opened(tmp_path / "a", ["id"]), "stripes", 20, seed=5)
        return ringfeed.batch(rows, 8, rank=rank)

    whole = chain()
    ids, positions = [], [whole.position()]
    for batch in whole:
        ids.append(batch[0].tolist())
        positions.append(whole.position())
    for number in (0, 3, len(ids) - 1):
        again = chain()
        again.restore(positions[number])
        assert [batch[0].tolist() for batch in again] == ids[number:]
    parts = [
        [batch[0].tolist() for batch in chain(ringfeed.Rank(number, 2))] for number in range(2)
    ]
    together = [sorted(one + other) for one, other in zip(*parts)]
    assert together == [sorted(batch) for batch in ids]


def test_genuine_files_are_read_whole() -> None:
    files = sorted(GENUINE.glob("*.parquet")) + sorted(GENUINE.glob("*.arrow*"))
    assert len(files) > 2
    for path in files:
        if path.suffix == ".parquet":
            table, opened = parquet.read_table(path), ringfeed.parquet
        else:
            opening = ipc.open_stream if path.suffix == ".arrows" else ipc.open_file
            table, opened = opening(path).read_all(), ringfeed.arrow_ipc
        for name in table.column_names:
            whole = table.select([name]).flatten()
            expected = [
                {key: value.encode() if isinstance(value, str) else value for key, value in each}
                for each in (row.items() for row in whole.to_pylist())
            ]
            assert repr(rows_of(opened(path, [name], nulls="mask"))) == repr(expected), (path, name)


def test_files_of_a_store_are_named_as_there(tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    (tmp_path / "set" / "deep").mkdir(parents=True)
    for name in ("set/a.parquet", "set/b.parquet", "set/deep/c.parquet"):
        write_parquet(made(1, 5), tmp_path / name)
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for files, count in [("set", 15), ("set/*.parquet", 10), (["set/deep/c.parquet"], 5)]:
        assert len(rows_of(ringfeed.parquet(files, ["id"], filesystem=store))) == count
    with pytest.raises(errors.NotFound, match="there are no files set/x-"):
        ringfeed.parquet("set/x-*", filesystem=store)
    with pytest.raises(FileNotFoundError):
        ringfeed.parquet("set/x", filesystem=store)


def test_a_group_that_arrow_refuses_is_the_damage_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(made(), path, row_group_size=8, write_page_checksum=True)
    chunk = parquet.read_metadata(path).row_group(3).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    left = [n for n in range(ROWS) if not 24 <= n < 32]
    stats: dict[str, Any] = {}
    reader = ringfeed.parquet(path, ["id"], skip_damaged=True)
    assert [row["id"] for row in rows_of(reader, stats)] == left
    damage = stats["damage"]
    assert damage[0]["file"] == f"{path}#3" and "row group 3: " in damage[0]["reason"]
    with pytest.raises(ringfeed.Damaged, match="row group 3: .*integrity"):
        rows_of(ringfeed.parquet(path, ["id"]))
    assert len(rows_of(ringfeed.parquet(path, ["x"], nulls="default"))) == ROWS


def test_a_store_that_fails_is_no_damage(tmp_path: Path) -> None:
    write_parquet(made(1, 20), tmp_path / "a")
    reader = ringfeed.parquet(tmp_path / "a", ["id"], skip_damaged=True)
    (tmp_path / "a").unlink()
    with pytest.raises(FileNotFoundError):
        rows_of(reader)


def test_a_file_without_a_footer_is_refused_or_one_damaged_row(tmp_path: Path) -> None:
    for write, opened in ((write_parquet, ringfeed.parquet), (write_arrow, ringfeed.arrow_ipc)):
        folder = tmp_path / write.__name__
        folder.mkdir()
        for name in "abc":
            write(made(1, 20), folder / name)
        (folder / "b").write_bytes((folder / "b").read_bytes()[:-9])
        with pytest.raises(ringfeed.Damaged, match="b: no footer of"):
            opened(folder, ["id"])
        stats: dict[str, Any] = {}
        assert len(rows_of(opened(folder, ["id"], skip_damaged=True), stats)) == 40
        assert stats["damaged_records"] == 1
        with pytest.raises(ringfeed.Damaged, match="no other file has one"):
            opened(folder / "b", skip_damaged=True)


def test_a_stream_that_ends_before_its_file_is_damaged(tmp_path: Path) -> None:
    write_stream(made(1, 20), tmp_path / "a")
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes() * 2)
    with pytest.raises(ringfeed.Damaged, match="it ends at byte"):
        ringfeed.arrow_ipc(tmp_path / "a")


def test_encrypted_columns_are_refused_in_time(tmp_path: Path) -> None:
    encryption: Any = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc]
        """Keys that are not wrapped."""

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

    factory = encryption.CryptoFactory(lambda _: Keys())
    kinds = encryption.EncryptionConfiguration("f", column_keys={"c": ["x"]}, plaintext_footer=True)
    secret = factory.file_encryption_properties(encryption.KmsConnectionConfig(), kinds)
    table = made(1, 9).select(["id", "x"])
    parquet.write_table(table, tmp_path / "a", encryption_properties=secret)
    with pytest.raises(errors.Unsupported, match="encrypted columns"):
        ringfeed.parquet(tmp_path / "a", skip_damaged=True)


def test_what_is_not_read_is_refused_by_name(tmp_path: Path) -> None:
    write_parquet(made(1, 20), tmp_path / "a.parquet")
    write_arrow(made(1, 20), tmp_path / "a.arrow")
    write_stream(made(1, 20), tmp_path / "a.arrows")
    with pytest.raises(errors.Unsupported, match="ringfeed.arrow_ipc reads it"):
        ringfeed.parquet(tmp_path / "a.arrow")
    with pytest.raises(errors.Unsupported, match="ringfeed.parquet reads it"):
        ringfeed.arrow_ipc(tmp_path / "a.parquet")
    with pytest.raises(errors.InvalidArgument, match="one call each"):
        ringfeed.arrow_ipc([tmp_path / "a.arrow", tmp_path / "a.arrows"])
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "secret").write_bytes(data[:-4] + b"PARE")
    with pytest.raises(errors.Unsupported, match="encrypted"):
        ringfeed.parquet(tmp_path / "secret")
    (tmp_path / "old").write_bytes(b"FEA1" + bytes(20))
    with pytest.raises(errors.Unsupported, match="Feather 1"):
        ringfeed.arrow_ipc(tmp_path / "old")
    parquet.write_table(pyarrow.table({"id": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(errors.InvalidArgument, match='b.parquet: column "id" is string'):
        ringfeed.parquet(tmp_path / "*.parquet", ["id"])
    with pytest.raises(errors.NotFound, match='no column "ids"'):
        ringfeed.parquet(tmp_path / "a.parquet", ["ids"])
    with pytest.raises(TypeError, match="formt"):
        ringfeed.parquet(tmp_path / "a.parquet", formt="x")


@pytest.mark.parametrize(("opened", "write"), WRITERS)
def test_damage_gives_right_rows_or_says_so(opened: Opened, write: Any, tmp_path: Path) -> None:
    """A cut never gives a wrong row; a flipped bit changes values at most where nothing covers
    them, and never ends the process."""
    path, table = tmp_path / "a", made(4, 40)
    write(table.combine_chunks(), path)
    data, draw = path.read_bytes(), random.Random(7)
    expected = plain(table)
    for trial in range(60):
        is_cut, at = trial % 2 == 0, draw.randrange(len(data))
        changed = bytearray(data[:at] if is_cut else data)
        if not is_cut:
            changed[at] ^= 1 << draw.randrange(8)
        other = tmp_path / f"changed{trial}"
        other.write_bytes(changed)
        try:
            found = rows_of(opened(other, nulls="mask", skip_damaged=True))
        except (errors.Error, ValueError):
            continue
        assert len(found) <= len(expected)
        if is_cut:
            assert all(row in expected for row in found)


@pytest.mark.parametrize(
    ("opened", "write"), [(ringfeed.parquet, write_parquet), (ringfeed.arrow_ipc, write_arrow)]
)
@pytest.mark.parametrize("skip_damaged", [False, True])
def test_a_file_that_is_replaced_while_it_is_read_gives_no_row_of_the_new_one(
    opened: Opened, write: Any, tmp_path: Path, skip_damaged: bool
) -> None:
    for number in range(20):
        write(made(number, 20, start=20 * number), tmp_path / f"{number:02}.data")
    rows = opened(tmp_path, nulls="mask", skip_damaged=skip_damaged, threads=1)
    loader = ringfeed.Loader.from_reader(ringfeed.batch(rows, 10))
    batches = iter(loader)
    found = next(batches)["id"].tolist()
    for number in range(20):
        write(made(number, 20, start=-9999), tmp_path / "new.data")
        (tmp_path / "new.data").replace(tmp_path / f"{number:02}.data")
    with pytest.raises(errors.Damaged, match="was replaced since it was found"):
        for batch in batches:
            found += batch["id"].tolist()
        damaged = loader.stats()["damaged_records"]
        assert skip_damaged and damaged == 400 - len(found)
        raise errors.Damaged("was replaced since it was found")
    assert min(found) >= 0 and len(set(found)) == len(found) < 400


def test_a_folder_that_holds_more_than_the_rows_of_its_files_is_refused(tmp_path: Path) -> None:
    for name, words in (
        ("year=2020/0.parquet", "hold a column"),
        ("README.md", "no file of a table"),
        ("_delta_log/0.json", "outdated rows"),
        (".hoodie/0.json", "outdated rows"),
        ("metadata/0.metadata.json", "outdated rows"),
    ):
        folder = tmp_path / name[:4]
        (folder / name).parent.mkdir(parents=True)
        write_parquet(made(1, 20), folder / "a.parquet")
        (folder / name).write_bytes(b"PAR1" if name.endswith(".parquet") else b"words")
        for skip_damaged in (False, True):
            with pytest.raises(errors.Error, match=words):
                ringfeed.parquet(folder, skip_damaged=skip_damaged)
        assert len(rows_of(ringfeed.parquet(folder / "*.parquet", nulls="mask"))) == 20
