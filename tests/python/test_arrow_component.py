"""ringfeed::arrow: what C++ programs and the command read of Parquet and Arrow files, beside what
pyarrow reads. It is built against the headers and libraries of pyarrow's wheel."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any, Optional, Union

import pytest

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

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "arrow"

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def programs() -> Path:
    for tool in ("cmake", "ninja", "ccache"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if not (ROOT / "build" / "release" / "libringfeed.a").exists():
        pytest.skip("the release build, of which ccache has the library, is not there")
    wheel = f"-DRINGFEED_PYARROW={Path(pyarrow.__file__).parent}"
    environment = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    targets = ("ringfeed_command", "read_tables", "topic_parquet")
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "tests_build_it").open("w") as one_at_a_time:  # the other workers find it built
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        for command in (
            ["cmake", "--preset", "release", "-B", BUILD, "-DRINGFEED_ARROW=ON", wheel],
            ["cmake", "--build", BUILD, "--target", *targets],
        ):
            run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            assert run.returncode == 0, run.stdout + run.stderr
    return BUILD


class Tables:
    """read_tables, with what it printed."""

    def __init__(self, programs: Path, tmp_path: Path) -> None:
        self.program = programs / "tests" / "table_files" / "read_tables"
        self.output = tmp_path / "read.arrows"
        self.error = ""
        self.opened_groups = self.decoded_rows = self.damaged = -1

    def rows(
        self,
        kind: str,
        *files: Union[Path, str],
        order: str = "none",
        on_damage: str = "fail",
        columns: str = "",
    ) -> Optional[list[dict[str, Any]]]:
        """The rows; None if it failed, with the reason in `error`."""
        words = [kind, self.output, order, on_damage, columns, *files]
        run = subprocess.run([self.program, *words], capture_output=True, text=True)
        self.error = run.stderr
        if run.returncode != 0:
            assert run.returncode == 1, run.stderr
            return None
        self.opened_groups, self.decoded_rows, self.damaged = map(int, run.stdout.split())
        with ipc.open_stream(self.output) as stream:
            return [unmasked(row) for batch in stream for row in batch.to_pylist()]


@pytest.fixture
def tables(programs: Path, tmp_path: Path) -> Tables:
    return Tables(programs, tmp_path)


WRITERS = [
    pytest.param("parquet", write_parquet, id="parquet"),
    pytest.param("arrow", write_arrow, id="file"),
    pytest.param("arrow", write_stream, id="stream"),
]


@pytest.mark.parametrize(("kind", "write"), WRITERS)
def test_rows_are_those_that_pyarrow_reads(
    kind: str, write: Any, tables: Tables, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    made_tables = [made(1, 50), made(2, 0), made(3, 47, start=50)]
    for number, table in enumerate(made_tables):
        write(table, folder / f"{number}.data")
    (folder / "_SUCCESS").touch()
    expected = [row for table in made_tables for row in plain(table)]
    assert tables.rows(kind, folder) == expected, tables.error
    assert tables.rows(kind, folder / "*.data") == expected
    found = tables.rows(kind, folder, order="stripes")
    assert found is not None and found != expected and by_id(found) == expected
    assert tables.decoded_rows == len(expected), "each row is decoded once"
    some = tables.rows(kind, folder, columns="image.size,id")
    assert some == [{"image.size": row["image.size"], "id": row["id"]} for row in expected]


@pytest.mark.parametrize(("kind", "write"), WRITERS)
def test_columns_may_stand_in_another_order_in_each_file(
    kind: str, write: Any, tables: Tables, tmp_path: Path
) -> None:
    table = made(1, 20).select(["id", "x", "text"])
    write(table, tmp_path / "a.data")
    write(table.select(["text", "id", "x"]), tmp_path / "b.data")
    write(table.append_column("more", table["id"]), tmp_path / "c.data")
    found = tables.rows(kind, *(tmp_path / f"{name}.data" for name in "abc"))
    assert found == plain(table) * 3, tables.error


def test_genuine_files_are_read_whole(tables: Tables) -> None:
    for path in sorted(GENUINE.glob("*.parquet")) + sorted(GENUINE.glob("*.arrow*")):
        if path.suffix == ".parquet":
            table, kind = parquet.read_table(path), "parquet"
        else:
            opening = ipc.open_stream if path.suffix == ".arrows" else ipc.open_file
            table, kind = opening(path).read_all(), "arrow"
        for name in table.column_names:
            if table.num_rows == 0:  # a stream without batches has no columns
                assert tables.rows(kind, path, columns=name) == [], tables.error
                continue
            expected = [
                {key: value.encode() if isinstance(value, str) else value for key, value in each}
                for each in (row.items() for row in table.select([name]).flatten().to_pylist())
            ]
            assert repr(tables.rows(kind, path, columns=name)) == repr(expected), (path, name)


def test_a_group_that_arrow_refuses_is_the_damage_of_its_rows(
    tables: Tables, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(made(), path, row_group_size=8, write_page_checksum=True)
    chunk = parquet.read_metadata(path).row_group(3).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    left = [{"id": n} for n in range(ROWS) if not 24 <= n < 32]
    assert tables.rows("parquet", path, columns="id", on_damage="skip") == left
    assert tables.damaged == 8
    assert tables.rows("parquet", path, columns="id") is None
    assert "row group 3: " in tables.error and "CRC" in tables.error
    found = tables.rows("parquet", path, columns="x")
    assert found is not None and len(found) == ROWS


def test_a_file_without_a_footer_is_refused_or_one_damaged_row(
    tables: Tables, tmp_path: Path
) -> None:
    for kind, write in (("parquet", write_parquet), ("arrow", write_arrow)):
        folder = tmp_path / kind
        folder.mkdir()
        for name in "abc":
            write(made(1, 20), folder / name)
        (folder / "b").write_bytes((folder / "b").read_bytes()[:-9])
        assert tables.rows(kind, folder, columns="id") is None
        assert "b: no footer of" in tables.error
        found = tables.rows(kind, folder, columns="id", on_damage="skip")
        assert found is not None and len(found) == 40
        assert tables.damaged == 1
        assert tables.rows(kind, folder / "b", on_damage="skip") is None


def test_what_is_not_read_is_refused_by_name(tables: Tables, tmp_path: Path) -> None:
    write_parquet(made(1, 20), tmp_path / "a.parquet")
    write_arrow(made(1, 20), tmp_path / "a.arrow")
    write_stream(made(1, 20), tmp_path / "a.arrows")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "secret").write_bytes(data[:-4] + b"PARE")
    (tmp_path / "old").write_bytes(b"FEA1" + bytes(20))
    parquet.write_table(pyarrow.table({"id": ["a"]}), tmp_path / "b.parquet")
    for kind, files, columns, reason in (
        ("parquet", ["a.arrow"], "", "OpenArrowIpc reads it"),
        ("arrow", ["a.parquet"], "", "OpenParquet reads it"),
        ("arrow", ["a.arrow", "a.arrows"], "", "one call each"),
        ("parquet", ["secret"], "", "encrypted"),
        ("arrow", ["old"], "", "Feather 1"),
        ("parquet", ["*.parquet"], "id", 'b.parquet: column "id" is string'),
        ("parquet", ["a.parquet"], "ids", 'no column "ids"'),
        ("parquet", ["none.parquet"], "", "none.parquet"),
    ):
        assert tables.rows(kind, *(tmp_path / file for file in files), columns=columns) is None
        assert reason in tables.error, (files, tables.error)


@pytest.mark.parametrize(("kind", "write"), WRITERS)
def test_damage_gives_right_rows_or_says_so(
    kind: str, write: Any, tables: Tables, tmp_path: Path
) -> None:
    """A cut never gives a wrong row; a flipped bit changes values at most where nothing covers
    them, and never ends the process."""
    path, table = tmp_path / "a", made(4, 40)
    write(table.combine_chunks(), path)
    data, draw = path.read_bytes(), random.Random(11)
    expected = plain(table)
    for trial in range(40):
        is_cut, at = trial % 2 == 0, draw.randrange(len(data))
        changed = bytearray(data[:at] if is_cut else data)
        if not is_cut:
            changed[at] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        found = tables.rows(kind, path, on_damage="skip")
        if found is None:
            continue
        assert len(found) <= len(expected)
        if is_cut:
            assert all(row in expected for row in found)


def test_the_example_reads_what_pyarrow_wrote(programs: Path, tmp_path: Path) -> None:
    columns = {"id": list(range(10)), "word": [str(n) for n in range(10)], "x": [0] * 10}
    words = pyarrow.table(columns)
    parquet.write_table(words, tmp_path / "words.parquet", row_group_size=3)
    program = programs / "examples" / "topic_parquet"
    run = subprocess.run([program, "words.parquet"], cwd=tmp_path, capture_output=True, text=True)
    assert run.stdout == "id word of 10 rows in 4 groups, ids sum up to 45\n", run.stderr


def test_the_command_feeds_tables(programs: Path, tmp_path: Path) -> None:
    write_parquet(made(1, 50).select(["id"]), tmp_path / "a.parquet")
    command = [programs / "tools" / "ringfeed", "feed", tmp_path / "a.parquet"]

    def report(*options: str) -> Any:
        run = subprocess.run(
            [*command, "--json", *options], cwd=tmp_path, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    whole = report("--shuffle", "stripes", "--seed", "3", "--batch", "8")
    assert whole["records"] == 50 and whole["batches"] == 7
    part = report("--batch", "8", "--max-batches", "2", "--position-out", "place")
    rest = report("--batch", "8", "--position-in", "place")
    assert part["records"] + rest["records"] == 50
    ranks = [report("--rank", str(rank), "--ranks", "2") for rank in range(2)]
    assert sum(each["records"] for each in ranks) == 50
    shown = [programs / "tools" / "ringfeed", "cat", tmp_path / "a.parquet"]
    lines = subprocess.run(shown, capture_output=True, text=True).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"id": n} for n in range(50)]
    some = subprocess.run([*shown, "--number", "7,40-41"], capture_output=True, text=True)
    assert [json.loads(line)["id"] for line in some.stdout.splitlines()] == [7, 40, 41]
    assert subprocess.run([*shown, "--as", "hex"], capture_output=True).returncode == 2
    convert = [command[0], "convert", tmp_path / "a.parquet", tmp_path / "a.tfrecord"]
    subprocess.run(convert, check=True, capture_output=True)
    shown[2:] = [tmp_path / "a.tfrecord", "--as", "json"]
    lines = subprocess.run(shown, capture_output=True, text=True).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"id": [n]} for n in range(50)]
    command[1] = "info"
    info = report()["files"][0]
    assert (info["format"], info["rows"], info["groups"]) == ("parquet", 50, 7)
    assert info["fields"] == [{"name": "id", "dtype": "int32", "shape": []}]
    command[1] = "feed"
    for option in ("--digest", "--verify", "--parse=raw"):
        run = subprocess.run([*command, option], capture_output=True, text=True)
        assert run.returncode == 2 and "rows of tables" in run.stderr, (option, run.stderr)


@pytest.fixture
def command(programs: Path, tmp_path: Path) -> Any:
    """Runs the command on tmp_path/"a"; gives its report, or its lines, or why it was refused."""

    def run(name: str, *options: Any, exit_status: int = 0) -> Any:
        words = [programs / "tools" / "ringfeed", name, tmp_path / "a", *options]
        ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == exit_status, ended.stderr
        if exit_status == 2:
            return ended.stderr
        if name in ("cat", "convert"):
            return [json.loads(line) for line in ended.stdout.splitlines() if name == "cat"]
        return json.loads(ended.stdout)

    return run


@pytest.mark.parametrize(("kind", "write"), WRITERS)
def test_the_command_chooses_columns_and_what_stands_for_nulls(
    kind: str, write: Any, command: Any, tmp_path: Path
) -> None:
    columns = {"id": [1, 2, 3], "x": [None, 5, 6], "s": ["a", None, "c"], "t": [["a"], [], []]}
    write(pyarrow.table(columns), tmp_path / "a")
    assert command("cat", "--columns", "id") == [{"id": n} for n in (1, 2, 3)]
    shown = command("cat", "--columns", "x,s", "--nulls", "mask")
    assert shown[0] == {"x": 0, "x_valid": 0, "s": "a", "s_valid": 1}
    assert shown[1] == {"x": 5, "x_valid": 1, "s": "", "s_valid": 0}
    assert [row["x"] for row in command("cat", "--columns=x", "--nulls=default")] == [0, 5, 6]
    assert command("feed", "--columns", "id,x", "--nulls=default", "--json")["records"] == 3
    some = ("--columns", "id", "--json")
    assert command("feed", *some)["records"] == 3
    command("convert", "b.tfrecord", "--columns", "id")
    command("convert", "b.tfrecord", "--columns", "id,x", "--nulls=default", "--force")
    shutil.copy(tmp_path / "b.tfrecord", tmp_path / "a")
    assert [row["x"] for row in command("cat", "--as=json")] == [[0], [5], [6]]
    for name, option in (("cat", "--columns=id"), ("feed", "--nulls=mask")):
        assert "none that this build reads" in command(name, option, exit_status=2)


@pytest.mark.parametrize(("kind", "write"), WRITERS[:2])
def test_the_command_verifies_tables(kind: str, write: Any, command: Any, tmp_path: Path) -> None:
    write(made(1, 50), tmp_path / "a")
    of_file = command("verify", "--json")["files"][0]
    assert (of_file["format"], of_file["intact"], of_file["records"]) == (kind, True, 50)
    assert of_file["payload_bytes"] > 50 * 40
    columns = {"id": pyarrow.array([1]), "t": [["a"]]}
    write(pyarrow.table(columns), tmp_path / "a")
    assert (
        "name the wanted columns of id, t"
        in command("verify", "--json", exit_status=1)["files"][0]["error"]
    )
    assert command("verify", "--json", "--columns=id")["files"][0]["intact"]
    refused = command("digest", exit_status=2)
    assert "verify and convert, which writes its rows as TFRecord" in refused


def test_the_command_tells_which_groups_of_a_table_are_damaged(
    command: Any, tmp_path: Path
) -> None:
    parquet.write_table(made(), tmp_path / "a", row_group_size=8, write_page_checksum=True)
    chunk = parquet.read_metadata(tmp_path / "a").row_group(3).column(0)
    data = bytearray((tmp_path / "a").read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    (tmp_path / "a").write_bytes(data)
    of_file = command("verify", "--json", exit_status=1)["files"][0]
    assert (of_file["intact"], of_file["records"], of_file["damaged_records"]) == (False, 89, 8)
    assert of_file["damaged"][0]["file"].endswith("a#3")
    assert "row group 3: " in of_file["damaged"][0]["reason"]


def test_the_command_tunes_tables(command: Any, tmp_path: Path) -> None:
    write_parquet(made(1, 200).select(["id", "x"]), tmp_path / "a")
    options = ("--nulls=default", "--seconds=2", "--pairs=3", "--out=tuned.json")
    command("tune", "--json", *options)
    assert json.loads((tmp_path / "tuned.json").read_text())["format"] == "table"
    fed = command("feed", "--nulls=default", "--tuned=tuned.json", "--json")
    assert fed["records"] == 200
    (tmp_path / "a").write_text("one\ntwo\n")
    refused = command("feed", "--format=lines", "--tuned=tuned.json", exit_status=2)
    assert "tuned for table files" in refused


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_what_was_read_is_what_the_wanted_columns_take_in_the_file(
    kind: str, command: Any, tmp_path: Path
) -> None:
    numbers = pyarrow.array(range(200_000), pyarrow.int64())
    table = pyarrow.table({"a": numbers, "b": numbers})
    if kind == "parquet":
        parquet.write_table(table, tmp_path / "a", row_group_size=50_000)
    else:
        with ipc.new_file(tmp_path / "a", table.schema) as writer:
            writer.write_table(table, max_chunksize=50_000)
    size = (tmp_path / "a").stat().st_size
    whole = command("feed", "--json")
    assert 0.9 * size < whole["read_bytes"] < 1.8 * size
    assert whole["read_per_byte"] == 0
    one = command("feed", "--columns=b", "--json")["read_bytes"]
    assert one < 0.75 * whole["read_bytes"]


def test_info_tells_the_units_of_times_and_the_scale_of_decimals(
    command: Any, tmp_path: Path
) -> None:
    types = [
        pyarrow.timestamp("us"),
        pyarrow.timestamp("ms", "UTC"),
        pyarrow.date32(),
        pyarrow.time64("ns"),
        pyarrow.duration("s"),
        pyarrow.decimal128(10, 2),
        pyarrow.list_(pyarrow.timestamp("ns")),
    ]
    columns = {str(n): pyarrow.array([], kind) for n, kind in enumerate([*types, pyarrow.int64()])}
    write_arrow(pyarrow.table(columns), tmp_path / "a")
    fields = command("info", "--json")["files"][0]["fields"]
    told = [field.get("logical_type") for field in fields]
    assert told == [*(str(kind) for kind in types[:-1]), "timestamp[ns]", None]


@pytest.mark.parametrize(("kind", "write"), [("parquet", write_parquet), ("arrow", write_arrow)])
def test_a_file_that_is_replaced_after_it_was_found_is_damage(
    programs: Path, tmp_path: Path, kind: str, write: Any
) -> None:
    for number in range(2):
        write(made(number, 20, start=20 * number), tmp_path / f"{number}.data")
    files = [tmp_path / "0.data", tmp_path / "1.data"]
    tables = Tables(programs, tmp_path)
    assert tables.rows(kind, *files, order="touched") is None
    assert "1.data" in tables.error and "was replaced since it was found" in tables.error
    write(made(1, 20, start=20), files[1])
    kept = tables.rows(kind, *files, order="touched", on_damage="skip")
    assert kept is not None and [row["id"] for row in kept] == list(range(20))
    assert tables.damaged == 20


def test_a_folder_that_holds_more_than_the_rows_of_its_files_is_refused(
    programs: Path, tmp_path: Path
) -> None:
    tables = Tables(programs, tmp_path)
    for name, words in (("year=2020/0.parquet", "hold a column"), ("README.md", "no file of a")):
        folder = tmp_path / name[:4]
        (folder / name).parent.mkdir(parents=True)
        write_parquet(made(1, 20), folder / "a.parquet")
        write_parquet(made(1, 20), folder / name)
        if name == "README.md":
            (folder / name).write_text("words")
        for on_damage in ("fail", "skip"):
            assert tables.rows("parquet", folder, on_damage=on_damage) is None
            assert words in tables.error
        found = tables.rows("parquet", Path(f"{folder}/*.parquet"))
        assert found is not None and len(found) == 20
    (tmp_path / "plain").mkdir()
    write_parquet(made(1, 20), tmp_path / "plain" / "a=1.parquet")
    for name in ("plain", "plain/"):
        found = tables.rows("parquet", f"{tmp_path}/{name}")
        assert found is not None and len(found) == 20


def test_convert_writes_tables_of_one_kind_as_columns(programs: Path, tmp_path: Path) -> None:
    for name, columns in (("a", {"id": [1, 2], "s": ["x", "yz"]}), ("b", {"id": [3]})):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
    a, b, mds = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "mds" / "a.mds"
    ringfeed_command = programs / "tools" / "ringfeed"
    subprocess.run([ringfeed_command, "convert", a, mds], check=True, capture_output=True)
    shard = json.loads((mds.parent / "index.json").read_text())["shards"][0]
    assert (shard["column_names"], shard["column_encodings"]) == (["id", "s"], ["int", "bytes"])
    for inputs, words in (((a, b), "other columns"), ((b, a), "other columns")):
        command = [ringfeed_command, "convert", *inputs, tmp_path / "both.tfrecord"]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 2 and words in run.stderr, run.stderr
        assert not (tmp_path / "both.tfrecord").exists()
    command = [ringfeed_command, "convert", a, tmp_path / "c.tfrecord", "--parse", "raw"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2 and "leave out --parse" in run.stderr, run.stderr


def test_convert_refuses_values_that_a_tf_example_has_no_place_for(
    programs: Path, tmp_path: Path
) -> None:
    convert = [programs / "tools" / "ringfeed", "convert", tmp_path / "a.parquet"]
    for values in (pyarrow.array([2**64 - 1], pyarrow.uint64()), pyarrow.array([1e300])):
        parquet.write_table(pyarrow.table({"value": values}), tmp_path / "a.parquet")
        run = subprocess.run([*convert, tmp_path / "a.tfrecord"], capture_output=True, text=True)
        assert run.returncode == 2 and 'column "value" has a value' in run.stderr, run.stderr
        assert not (tmp_path / "a.tfrecord").exists()
