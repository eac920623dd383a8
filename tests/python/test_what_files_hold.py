"""Lists of lists, overlapping tokens, headers of CSV files, streams that are opened again."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path

import pytest

import ringfeed
from loader_data import tfrecord

numpy = pytest.importorskip("numpy")


def _words(number: int) -> list[bytes]:
    return [bytes([97 + number % 26]) * ((number + i) % 5) for i in range(number % 4)]


def _write_words(path: Path, count: int) -> str:
    with ringfeed.open_record_writer(path, "tfrecord") as writer:
        for number in range(count):
            words = {"words": _words(number)} if _words(number) else {}
            writer.write(ringfeed.build_example({"id": number, **words}))
    return str(path)


def _rows(array: ringfeed.Array) -> list[list[bytes]]:
    rows, ends = (level.tolist() for level in array.lod)
    letters = array.tobytes()
    return [
        [letters[ends[i] : ends[i + 1]] for i in range(rows[row], rows[row + 1])]
        for row in range(len(rows) - 1)
    ]


WORDS = {"id": ("int64", []), "words": ("uint8", [-1, -1], [])}


@pytest.mark.parametrize("shuffle", [None, 20, "global"])
def test_lists_of_bytes_are_rows_of_sequences(tmp_path: Path, shuffle: object) -> None:
    files = _write_words(tmp_path / "a.tfrecord", 100)
    seen = []
    parse = ringfeed.example(WORDS)
    with ringfeed.Loader(files, parse=parse, batch=8, shuffle=shuffle, seed=3) as loader:
        for batch in loader:
            for number, words in zip(batch["id"].tolist(), _rows(batch["words"])):
                assert words == _words(number)
                seen.append(number)
    assert sorted(seen) == list(range(100))


def test_a_record_without_the_list_has_no_sequence_and_a_wrong_one_is_damage(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(tfrecord(b""))
    fields = {"words": ("uint8", [-1, -1], [])}
    with ringfeed.Loader(path, parse=ringfeed.example(fields), batch=1) as loader:
        assert _rows(next(loader)["words"]) == [[]]
    with ringfeed.open_record_writer(path, "tfrecord") as writer:
        writer.write(ringfeed.build_example({"words": 1.5}))
    with ringfeed.Loader(path, parse=ringfeed.example(fields), batch=1) as loader:
        with pytest.raises(ringfeed.Error, match="holds floats where bytes"):
            next(loader)


def test_what_cuts_rows_refuses_two_levels(tmp_path: Path) -> None:
    records = ringfeed.open_files(_write_words(tmp_path / "a.tfrecord", 4))
    rows = ringfeed.parse(records, ringfeed.example(WORDS))
    with pytest.raises(ringfeed.errors.InvalidArgument, match="two levels"):
        next(iter(ringfeed.batch(ringfeed.truncate(rows, "words", 2), 2)))


def test_blocks_of_tokens_may_overlap(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    path.write_bytes(struct.pack("<103H", *range(103)))
    options = {"parse": ringfeed.tokens("uint16", [11], "int64"), "batch": 4}
    for shuffle in (None, "global"):
        format = "tokens:u2,block=11,stride=10,tail=drop"
        with ringfeed.Loader(path, format=format, shuffle=shuffle, **options) as loader:
            blocks = [row for batch in loader for row in numpy.asarray(batch["tokens"]).tolist()]
        assert sorted(blocks) == [list(range(at, at + 11)) for at in range(0, 92, 10)]
    with pytest.raises(ValueError, match="leaves some"):
        ringfeed.Loader(path, format="tokens:u2,block=10,stride=11", **options)


def _write_csv(path: Path, header: str, numbers: range, separator: str = ",") -> Path:
    rows = "".join(f"{n * n}{separator}{n}\n" for n in numbers)
    path.write_text(f"{header}\n{rows}")
    return path


def test_the_first_row_of_csv_files_names_their_columns(tmp_path: Path) -> None:
    fields = {"n": ("int64", [])}
    _write_csv(tmp_path / "1.csv", "square,n", range(0, 50))
    _write_csv(tmp_path / "2.csv", "square,n", range(50, 100))
    parse = ringfeed.csv(fields, header=True)
    with ringfeed.Loader(tmp_path / "*.csv", parse=parse, batch=10, shuffle="global") as loader:
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == list(range(100))
    (tmp_path / "3.csv").write_text("n,more,square\n100,x,0\n")
    with ringfeed.Loader(tmp_path / "*.csv", parse=parse, batch=10, shuffle="global") as loader:
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == list(range(101))
    other = _write_csv(tmp_path / "4.csv", "cube,n", range(100, 150))
    with ringfeed.Loader(tmp_path / "*.csv", parse=parse, batch=10, cycle=1) as loader:
        with pytest.raises(ringfeed.errors.Damaged, match='it lacks "square"') as caught:
            list(batch["n"].tolist() for batch in loader)
    assert caught.value.file == str(other)
    semicolons = _write_csv(tmp_path / "a.txt", "square;n", range(5), ";")
    parse = ringfeed.csv(fields, delimiter=";", header=True)
    with ringfeed.Loader(semicolons, parse=parse, batch=5) as loader:
        assert next(loader)["n"].tolist() == [0, 1, 2, 3, 4]


def test_a_chain_takes_the_columns_by_a_call_of_its_own(tmp_path: Path) -> None:
    path = _write_csv(tmp_path / "1.csv", "square,n", range(7))
    by_name = ringfeed.csv({"n": ("int64", [])}, header=True)
    with pytest.raises(TypeError, match="csv_columns"):
        ringfeed.parse(ringfeed.open_files(path), by_name)  # type: ignore[arg-type]
    header, format = ringfeed.csv_columns(path)
    assert (header, format) == ("square,n", "csv:header=" + b"square,n".hex())
    rows = ringfeed.parse(
        ringfeed.open_files(path, format=format),
        ringfeed.csv({"n": ("int64", [])}, header=header),
    )
    assert [n for (batch,) in ringfeed.batch(rows, 3) for n in batch.tolist()] == list(range(7))
    with pytest.raises(ValueError, match="stream"):
        ringfeed.csv_columns("-")
    with pytest.raises(ValueError, match="no column|in the header"):
        ringfeed.Loader(path, parse=ringfeed.csv({"m": ("int64", [])}, header=True), batch=1)


def test_a_stream_is_opened_again_until_nothing_comes(tmp_path: Path) -> None:
    fifo = tmp_path / "online.fifo"
    os.mkfifo(fifo)

    def generate() -> None:
        with open(fifo, "w", encoding="ascii") as stream:
            stream.write("1\n2\n3\n")

    parse = ringfeed.csv({"n": ("int64", [])})
    generator = threading.Thread(target=generate)
    generator.start()
    options = {"format": "lines", "parse": parse, "batch": 2}
    with ringfeed.Loader(fifo, reopen_until=0.05, **options) as loader:
        assert [n for batch in loader for n in batch["n"].tolist()] == [1, 2, 3]
    generator.join()
    with pytest.raises(ValueError, match="reopen_until"):
        ringfeed.Loader(tmp_path / "none.csv", reopen_until="close", parse=parse, batch=1)
    with pytest.raises(TypeError, match="reopen_until is a number"):
        ringfeed.Loader(fifo, reopen_until="soon", **options)


def test_rows_are_all_records_where_there_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1\n2\n")
    for header in (False, "", None):
        with ringfeed.Loader(
            path, parse=ringfeed.csv({"n": ("int64", [])}, header=header), batch=2
        ) as loader:
            assert next(loader)["n"].tolist() == [1, 2]


def test_a_header_that_is_read_as_a_row_is_told_how_to_be_none(tmp_path: Path) -> None:
    path = _write_csv(tmp_path / "a.csv", "square,n", range(5))
    wrong = {"square": ("int64", []), "n": ("int64", [])}
    told = r'"square" is no int64.*line 1 looks like a header: .*, say csv\(…, header=True\)$'
    with pytest.raises(ringfeed.Error, match=told):
        next(ringfeed.Loader(path, parse=ringfeed.csv(wrong), batch=1))
    for text, format in (
        ("1,2\ny,x\n", "csv"),
        ("1,x\n", "csv"),
        ("-y,x\n", "csv"),
        ("square,n\ny,x\n", "csv:header"),
    ):
        path.write_text(text)
        with pytest.raises(ringfeed.Error, match="is no int64") as caught:
            list(ringfeed.Loader(path, parse=ringfeed.csv(wrong), format=format, batch=2))
        assert "looks like a header" not in str(caught.value)


def test_a_csv_header_in_latin_1_names_the_columns_that_it_can(tmp_path: Path) -> None:
    path = tmp_path / "latin1.csv"
    path.write_bytes("id,größe\n1,2\n3,4\n".encode("latin-1"))
    by_name = ringfeed.csv({"id": ("int64", [])}, header=True)
    with ringfeed.Loader(path, parse=by_name, batch=4) as loader:
        assert next(loader)["id"].tolist() == [1, 3]
    header, format = ringfeed.csv_columns(path)
    assert header.encode("utf-8", "surrogateescape") == "id,größe".encode("latin-1")
    with pytest.raises(ringfeed.Error, match=r"größe.*gr\\xf6\\xdfe"):
        ringfeed.csv({"größe": ("int64", [])}, header=header)
    parser = ringfeed.csv([ringfeed.Field("size", "int64", column=1)], header=header)
    chain = ringfeed.parse(ringfeed.open_files(path, format=format), parser)
    assert next(ringfeed.batch(chain, 2))[0].tolist() == [2, 4]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_csv_header_in_utf_16_is_refused_by_name(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "wide.csv"
    path.write_bytes("id,x\r\n1,2\r\n".encode(encoding))
    by_name = ringfeed.csv({"id": ("int64", [])}, header=True)
    with pytest.raises(ringfeed.Error, match=r"wide\.csv.*UTF-16"):
        ringfeed.Loader(path, parse=by_name, batch=4)
