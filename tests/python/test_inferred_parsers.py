"""Without parse= a Loader takes the parser that its files tell, and says which one that is."""

from __future__ import annotations

import json
import math
import re
import struct
import tarfile
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER, tfrecord, write_rows

import ringfeed

numpy = pytest.importorskip("numpy")


def _parse_of(loader: ringfeed.Loader) -> str:
    """The call that repr shows, between the batch's size and what follows the parser."""
    shown = re.search(r"parse=(.*?\)|None), (?:shuffle=|rank |\{)", repr(loader))
    assert shown is not None, repr(loader)
    return shown.group(1)


def _pasted(call: str) -> Any:
    return eval(call, {"ringfeed": ringfeed})


def _lists(batch: Any) -> dict[str, Any]:
    return {name: (array.tolist(), array.lod and array.offsets) for name, array in batch.items()}


def _same(one: Any, other: Any) -> bool:
    return str(one) == str(other)  # NaN is NaN


def _check(files: Any, fields: dict[str, Any], **options: Any) -> list[Any]:
    """That the Loader has these fields (dtype, shape), that the call in its repr gives the same
    batches, and that each takes the other's state. Returns the first batch's arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto = ringfeed.Loader(files, batch=2, **options)
    call = _parse_of(auto)
    named = ringfeed.Loader(files, batch=2, parse=_pasted(call), **options)
    batches = [_lists(batch) for batch in auto]
    assert _same(batches, [_lists(batch) for batch in named])
    for one, other in ((auto, named), (named, auto)):
        one.reset()
        next(one)
        state = json.loads(json.dumps(one.state_dict()))
        other.load_state_dict(state)
        assert _same([_lists(batch) for batch in other], batches[1:])
    auto.reset()
    first = next(auto)
    assert {name: array.dtype for name, array in first.items()} == {
        name: dtype for name, (dtype, _) in fields.items()
    }
    for name, (_, shape) in fields.items():
        assert first[name].shape[1:] == tuple(shape), name
    return [first[name] for name in fields]


@pytest.mark.parametrize(
    "dtype, shape", [("float32", (3,)), ("uint8", (4, 2)), ("int64", ()), ("bool", (2,))]
)
def test_rows_of_numpys_arrays_have_their_type_and_shape(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    content = numpy.arange(5 * math.prod(shape)).reshape((5, *shape)).astype(dtype)
    numpy.save(tmp_path / "a.npy", content)
    (rows,) = _check(tmp_path / "a.npy", {"c0": (dtype, shape)})
    assert rows.tolist() == content[:2].tolist()


def test_complex_numbers_are_pairs(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.array([1 + 2j, 3 + 4j, 5], "complex64"))
    (rows,) = _check(tmp_path / "a.npy", {"c0": ("float32", (2,))})
    assert rows.tolist() == [[1, 2], [3, 4]]


def test_an_array_without_rows_has_its_fields(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros((0, 7), "float64"))
    loader = ringfeed.Loader(tmp_path / "a.npy", batch=2)
    assert loader.names == ("c0",) and list(loader) == []


def test_tokens_have_the_type_of_their_format(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(struct.pack("<20H", *range(20)))
    _check(tmp_path / "a.bin", {"tokens": ("uint16", (4,))}, format="tokens:u2,block=4,tail=drop")
    _check(tmp_path / "a.bin", {"tokens": ("uint16", ())}, format="tokens:u2,block=4")


def test_megatrons_index_tells_the_type(tmp_path: Path) -> None:
    with ringfeed.open_record_writer(tmp_path / "a.idx", "megatron:i4") as writer:
        for length in (3, 1, 2):
            writer.write(struct.pack(f"<{length}i", *range(length)))
    (tokens,) = _check(tmp_path / "a.idx", {"tokens": ("int32", ())})
    assert tokens.tolist() == [0, 1, 2, 0] and tokens.offsets.tolist() == [0, 3, 4]


def test_a_csv_header_names_columns_of_numbers_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'id,x,note,some\n1,0.5,"a, b",\n2,3,cd,4\n3,1e3,7,5\n', encoding="ascii"
    )
    fields = {
        "id": ("int64", ()),
        "x": ("float64", ()),
        "note": ("uint8", ()),
        "some": ("float64", ()),
    }
    ids, x, note, some = _check(tmp_path / "a.csv", fields)
    assert ids.tolist() == [1, 2] and x.tolist() == [0.5, 3]
    assert note.tobytes() == b"a, bcd"
    assert math.isnan(some.tolist()[0]) and some.tolist()[1] == 4


def test_truth_values_and_words_for_missing_ones_are_known(tmp_path: Path) -> None:
    rows = "id,ok,x,maybe\n1,true,NA,True\n2,FALSE,5,NA\n3,True,null,false\n"
    (tmp_path / "a.csv").write_text(rows)
    fields = {"id": ("int64", ()), "ok": ("bool", ()), "x": ("float64", ()), "maybe": ("uint8", ())}
    _, ok, x, maybe = _check(tmp_path / "a.csv", fields)
    assert ok.tolist() == [True, False] and maybe.tobytes() == b"TrueNA"
    assert math.isnan(x.tolist()[0]) and x.tolist()[1] == 5


@pytest.mark.parametrize(
    "name, format, delimiter", [("a.tsv", None, "\t"), ("a", "csv:delimiter=;", ";")]
)
def test_other_delimiters_are_told_by_name_and_format(
    tmp_path: Path, name: str, format: Any, delimiter: str
) -> None:
    (tmp_path / name).write_text(f"y{delimiter}x\n1{delimiter}2\n3{delimiter}4\n5{delimiter}6\n")
    fields = {"y": ("int64", ()), "x": ("int64", ())}
    y, x = _check(str(tmp_path / "a*"), fields, format=format)
    assert (y.tolist(), x.tolist()) == ([1, 3], [2, 4])


def test_a_format_with_a_header_says_that_words_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("word\nx\ny\nz\n")
    (word,) = _check(tmp_path / "a.csv", {"word": ("uint8", ())}, format="csv:header")
    assert word.tobytes() == b"xy"


def test_a_column_that_pandas_did_not_name_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",x\n0,5\n1,6\n2,7\n")
    _check(tmp_path / "a.csv", {"x": ("int64", ())})


@pytest.mark.parametrize("rows", ["1,2\n3,4\n", "a,b\nc,d\n", "x,x\n1,2\n", "x,y\n"])
def test_a_first_row_that_may_be_a_record_is_one(tmp_path: Path, rows: str) -> None:
    (tmp_path / "a.csv").write_text(rows)
    with pytest.warns(RuntimeWarning, match=r"a\.csv.*first row is no header.*parse=None"):
        loader = ringfeed.Loader(tmp_path / "a.csv", batch=2)
    assert _parse_of(loader) == "None"
    assert next(loader)["bytes"].tobytes() == rows.replace("\n", "").encode()


def test_lines_of_json_tell_flat_keys(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "x": 1, "ok": True, "text": "a\u00e9", "v": [1, 2], "w": [1], "deep": {"a": 1}},
        {"id": 2, "x": 0.5, "ok": False, "text": "", "v": [3, 4], "w": [], "deep": None},
        {"id": 3, "x": -1, "ok": True, "text": "b", "v": [5, 6.5], "w": [2], "more": 1, "a\n": "t"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    fields = {
        "id": ("int64", ()),
        "x": ("float64", ()),
        "ok": ("bool", ()),
        "text": ("uint8", ()),
        "v": ("float64", (2,)),
        "w": ("int64", ()),
        "more": ("float64", ()),
        "a\n": ("uint8", ()),
    }
    ids, x, ok, text, v, w, more, escaped = _check(tmp_path / "a.jsonl", fields)
    assert (ids.tolist(), x.tolist(), ok.tolist()) == ([1, 2], [1, 0.5], [True, False])
    assert text.tobytes().decode() == "a\u00e9" and v.tolist() == [[1, 2], [3, 4]]
    assert w.tolist() == [1] and w.offsets.tolist() == [0, 1, 1]
    assert all(map(math.isnan, more.tolist())) and escaped.tobytes() == b""


def test_lists_of_strings_and_keys_with_slashes_are_fields(tmp_path: Path) -> None:
    line = '{"tags": ["a", "bc"], "/n~": 1, "a/b": 2}\n{"tags": [], "/n~": 3, "a/b": 4}\n'
    (tmp_path / "a.jsonl").write_text(2 * line)
    fields = {"tags": ("uint8", ()), "/~1n~0": ("int64", ()), "a/b": ("int64", ())}
    tags, first, second = _check(tmp_path / "a.jsonl", fields)
    assert [level.tolist() for level in tags.lod] == [[0, 2, 2], [0, 1, 3]]
    assert first.tolist() == [1, 3] and second.tolist() == [2, 4]


@pytest.mark.parametrize("value", ['{"b": 1}', "[[1]]", "[[]]", "[]", "null", '[1, "x"]'])
def test_keys_of_other_values_are_none_of_the_fields(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": {value}, "n": 1}}\n' * 3)
    _check(tmp_path / "a.jsonl", {"n": ("int64", ())})
    (tmp_path / "b.jsonl").write_text(f'{{"a": {value}}}\n')
    with pytest.warns(RuntimeWarning, match=r"b\.jsonl.*no key"):
        ringfeed.Loader(tmp_path / "b.jsonl", batch=2)


def test_a_key_of_two_kinds_of_values_is_none_of_the_fields(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1, "n": 1}\n{"a": "x", "n": 1}\n{"a": [1], "n": 1}\n')
    _check(tmp_path / "a.jsonl", {"n": ("int64", ())})


def _write_tar(path: Path, samples: list[dict[str, bytes]]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number, members in enumerate(samples):
            for extension, content in members.items():
                info = tarfile.TarInfo(f"{number}.{extension}")
                info.size = len(content)
                archive.addfile(info, BytesIO(content))


def test_members_of_tar_files_are_fields_by_their_extensions(tmp_path: Path) -> None:
    samples = [
        {"jpg": b"abc", "cls": b"7\n", "seg.png": b"x"},
        {"JPG": b"de", "cls": b"8"},
        {"jpg": b"f", "cls": b"9", "seg.png": b"yz"},
    ]
    _write_tar(tmp_path / "a.tar", samples)
    fields = {"jpg": ("uint8", ()), "cls": ("int64", ()), "seg.png": ("uint8", ())}
    jpg, cls, seg = _check(tmp_path / "a.tar", fields)
    assert jpg.tobytes() == b"abcde" and cls.tolist() == [7, 8]
    assert seg.offsets.tolist() == [0, 1, 1]


def _npy(array: Any) -> bytes:
    file = BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def test_arrays_in_tar_files_are_fields_if_they_are_alike(tmp_path: Path) -> None:
    samples = [
        {
            "npy": _npy(numpy.full((2, 3), number, "<f4")),
            "a.npy": _npy(numpy.arange(number, dtype="<i8")),
            "b.npy": _npy(numpy.zeros((1, number + 1), "<i8")),
            "u.npy": _npy(numpy.zeros(number + 1, "u1")),
            "cls": b"%d" % number,
        }
        for number in range(3)
    ]
    samples[1]["c.npy"] = _npy(numpy.zeros(1))
    _write_tar(tmp_path / "a.tar", samples)
    fields = {"cls": ("int64", ()), "a.npy": ("int64", ()), "npy": ("float32", (2, 3))}
    cls, ids, image = _check(tmp_path / "a.tar", fields)
    assert cls.tolist() == [0, 1] and image.tolist() == [[[0] * 3] * 2, [[1] * 3] * 2]
    assert ids.tolist() == [0] and ids.offsets.tolist() == [0, 0, 1]


def test_a_class_that_is_no_number_is_its_text(tmp_path: Path) -> None:
    _write_tar(tmp_path / "a.tar", [{"cls": b"1"}, {"cls": b"cat"}, {"cls": b"2"}])
    (cls,) = _check(tmp_path / "a.tar", {"cls": ("uint8", ())})
    assert cls.tobytes() == b"1cat"


@pytest.mark.parametrize("format", ["tfrecord", "recordio", "tfrecord+gzip"])
def test_features_of_examples_are_fields(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    with ringfeed.open_record_writer(path, format) as writer:
        for number in range(5):
            features = {
                "image": [b"x" * number],
                "label": number,
                "box": [0.5, 1.5],
                "ids": list(range(number + 1)),
            }
            if number % 3:
                features["tags"] = [b"cat", b"dog"][: number % 3]
            if number:
                features["late"] = 1.5
            writer.write(ringfeed.build_example(features))
    fields = {
        "box": ("float32", (2,)),
        "ids": ("int64", ()),
        "image": ("uint8", ()),
        "label": ("int64", ()),
        "late": ("float32", ()),
        "tags": ("uint8", ()),
    }
    box, ids, image, label, late, tags = _check(path, fields)
    assert box.tolist() == [[0.5, 1.5]] * 2 and label.tolist() == [0, 1]
    assert ids.tolist() == [0, 0, 1] and image.tobytes() == b"x"
    assert late.tolist() == [1.5] and late.offsets.tolist() == [0, 0, 1]
    assert [level.tolist() for level in tags.lod] == [[0, 0, 1], [0, 3]]


def test_files_that_begin_with_no_intact_record_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "0.tfrecord").write_bytes(b"")
    example = ringfeed.build_example({"n": 1})
    damaged = bytearray(tfrecord(example))
    damaged[-1] ^= 1
    (tmp_path / "1.tfrecord").write_bytes(bytes(damaged) + tfrecord(example))
    with open(tmp_path / "2.tfrecord", "wb") as hole:
        hole.truncate(1 << 40)  # nobody searches it for a record
    with pytest.warns(RuntimeWarning, match="no file begins with an intact record"):
        ringfeed.Loader(str(tmp_path / "[12].tfrecord"), batch=2)
    (tmp_path / "3.tfrecord").write_bytes(tfrecord(example))
    assert ringfeed.Loader(str(tmp_path / "*.tfrecord"), batch=2).names == ("n",)


@pytest.mark.parametrize("skip", [False, True])
def test_a_later_record_that_does_not_fit_is_damaged(tmp_path: Path, skip: bool) -> None:
    lines = ['{"n": 1}\n'] * 101 + ['{"n": 0.5}\n', '{"n": 2}\n']
    (tmp_path / "a.jsonl").write_text("".join(lines))
    with ringfeed.Loader(tmp_path / "a.jsonl", batch=1000, skip_damaged=skip) as loader:
        if skip:
            assert next(loader)["n"].tolist() == [1] * 101 + [2]
            return
        assert len(next(loader)["n"]) == 101
        with pytest.raises(ringfeed.Error, match=r'"n" is no int64.*a\.jsonl: record 101|"n"') as e:
            next(loader)
        assert e.value.record == 101


def test_all_ranks_take_the_parser_of_the_first_file(tmp_path: Path) -> None:
    for file in range(3):
        (tmp_path / f"{file}.jsonl").write_text(f'{{"n": {file}}}\n' * 4)
    seen = []
    for rank in range(2):
        loader = ringfeed.Loader(
            str(tmp_path / "*.jsonl"),
            batch=4,
            shuffle="global",
            shuffle_files=True,
            rank=ringfeed.Rank(rank, 2),
        )
        assert _parse_of(loader) == "ringfeed.jsonl({'n': ('int64', [])})"
        seen += [n for batch in loader for n in batch["n"].tolist()]
    assert sorted(seen) == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize(
    "content, format, told",
    [
        (tfrecord(b"no example"), "tfrecord", "first records are no tf.Examples"),
        (struct.pack("<2q", 1, 2), "rows:8", "do not say which fields"),
        (b"", "tfrecord", "no file begins with an intact record"),
    ],
)
def test_records_that_tell_nothing_are_bytes_with_a_warning(
    tmp_path: Path, content: bytes, format: str, told: str
) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(content)
    with pytest.warns(RuntimeWarning, match=rf"a\.data.*{told}.*parse=ringfeed\.example") as caught:
        loader = ringfeed.Loader(path, format=format, batch=2)
    assert caught[0].filename == __file__
    assert _parse_of(loader) == "None" and loader.names == ("bytes",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ringfeed.Loader(path, format=format, batch=2, parse=None).names == ("bytes",)


def test_types_that_no_parser_has_are_bytes_with_a_warning(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.array([1, 2], ">f8"))
    with pytest.warns(RuntimeWarning, match='no parser has a type for its elements, ">f8"'):
        assert ringfeed.Loader(tmp_path / "a.npy", batch=2).names == ("bytes",)


@pytest.mark.parametrize("format", ["lines", "raw"])
def test_lines_and_raw_files_are_bytes(tmp_path: Path, format: str) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ringfeed.Loader(tmp_path / "a.txt", format=format, batch=2) as loader:
            assert next(loader)["bytes"].tobytes().startswith(b"one")


def test_sources_and_streams_are_not_looked_into(tmp_path: Path) -> None:
    source = ringfeed.Source("a.jsonl", 9, lambda at, size: b'{"n": 1}\n'[at:][:size])
    with pytest.warns(RuntimeWarning, match="Source"):
        assert ringfeed.Loader(source, batch=1).names == ("bytes",)
    with pytest.warns(RuntimeWarning, match="stream"):
        assert ringfeed.Loader("-", format="jsonl", batch=1).names == ("bytes",)


def test_a_function_of_each_row_gets_the_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    length = ringfeed.MapRows(lambda record: {"n": len(record)}, {"n": ("int64", [])})
    with ringfeed.Loader(tmp_path / "a.jsonl", batch=1, map=length) as loader:
        assert next(loader)["n"].tolist() == [8]


def test_a_file_that_cannot_be_read_fails_at_the_first_read(tmp_path: Path) -> None:
    (tmp_path / "a.unknown").write_bytes(bytes(range(256)))
    with pytest.warns(RuntimeWarning, match=r"nothing was read .*a\.unknown"):
        loader = ringfeed.Loader(tmp_path / "a.unknown", batch=1)
    with pytest.raises(ringfeed.Error, match=r"a\.unknown"):
        next(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = ringfeed.Loader(tmp_path / "none.tfrecord", batch=1)
    with pytest.raises(FileNotFoundError):
        next(loader)


def test_other_texts_than_auto_are_no_parser(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='parse is a parser, "auto" or None'):
        ringfeed.Loader(write_rows(tmp_path), format="rows:8", parse="rows", batch=1)  # type: ignore
    loader = ringfeed.Loader(
        write_rows(tmp_path), format="rows:8", parse=ringfeed.rows(NUMBER), batch=1
    )
    assert "parse=" not in repr(loader)


def test_columns_of_mds_are_fields() -> None:
    folder = Path(__file__).parents[1] / "data" / "mds" / "columns_none"
    with ringfeed.Loader(str(folder), batch=30, shuffle="global") as loader:
        assert 'parse="auto"' in repr(loader)
        batch = next(loader)
        ids, text = batch["id"].tolist(), batch["text"]
        assert sorted(ids) == list(range(-3, 27))
        assert batch["vec"].shape == (30, 4) and batch["vec"].dtype == "float32"
        row = ids.index(-2)
        letters = text.tolist()[text.offsets[row] : text.offsets[row + 1]]
        assert bytes(letters).decode() == "héllo 1"
