"""Arguments that cannot work: a TypeError or ValueError that names them, where they are given."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER, all_numbers, number_loader, tfrecord, write_rows

import ringfeed


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"batch": -1}, ValueError),
        ({"batch": 0}, ValueError),
        ({"batch": 2.5}, TypeError),
        ({"batch": "7"}, TypeError),
        ({"batch": 2**70}, ValueError),
        ({"seed": -1}, ValueError),
        ({"seed": 2**64}, ValueError),
        ({"seed": 1.5}, TypeError),
        ({"passes": -1}, ValueError),
        ({"passes": 1.5}, TypeError),
        ({"slots": -1}, ValueError),
        ({"slots": 1.0}, TypeError),
        ({"pad": "x"}, TypeError),
        ({"drop_remainder": None}, TypeError),
        ({"shuffle": 8192.0}, TypeError),
        ({"shuffle": 1}, ValueError),
        ({"shuffle": 0}, ValueError),
        ({"shuffle": -5}, ValueError),
        ({"shuffle": ("window", 10)}, TypeError),
        ({"map": 3}, TypeError),
        ({"threads": "a"}, TypeError),
        ({"threads": 2**40}, ValueError),
        ({"index": "never"}, TypeError),
        ({"skip_damaged": "yes"}, TypeError),
        ({"arena_bytes": -1}, ValueError),
        ({"first_epoch": -1}, ValueError),
        ({"io": "fast"}, ValueError),
    ],
    ids=str,
)
def test_an_argument_that_cannot_work_is_named(
    tmp_path: Path, arguments: dict[str, Any], error: type
) -> None:
    files = write_rows(tmp_path)
    (name,) = arguments
    with pytest.raises(error, match=rf"\b{name}\b"):
        number_loader(files, **arguments)


def test_a_number_is_no_mode_of_a_shuffle(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    with pytest.raises(TypeError, match=r'"window", 8192.*100 is no mode'):
        number_loader(files, shuffle=ringfeed.Shuffle(100))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'"window", 8192.*100 is no mode'):
        ringfeed.shuffle(ringfeed.open_files(files, format="rows:8"), 100)  # type: ignore[arg-type]


def test_integers_and_flags_may_be_numpys(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    files = write_rows(tmp_path)
    arguments = {"batch": numpy.int64(7), "seed": numpy.uint32(3), "passes": numpy.int8(1)}
    flags = {"drop_remainder": numpy.False_, "pad": 0}
    with number_loader(files, shuffle=True, **arguments, **flags) as loader:
        assert sorted(all_numbers(loader)) == list(range(300))


@pytest.mark.parametrize("files", [None, 5, [5], "x\0y", "x\udc80"], ids=repr)
def test_what_is_no_files_name_is_refused(files: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ringfeed.open_files(files)


def test_a_path_may_be_bytes(tmp_path: Path) -> None:
    files = os.fsencode(write_rows(tmp_path))
    for given in (files, [files]):
        with number_loader(given) as loader:
            assert all_numbers(loader) == list(range(300))


def test_the_folder_of_indices_may_be_a_path(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    indices = tmp_path / "indices"
    with number_loader(files, shuffle="global", index_folder=indices) as loader:
        assert len(all_numbers(loader)) == 300


def test_what_is_no_reader_is_refused_with_the_remedy() -> None:
    feed = ringfeed.py_reader(capacity=2, shapes=[[-1, 1]], dtypes=["float32"])
    with pytest.raises(TypeError, match=r"not on a PyReader: take its \.reader"):
        ringfeed.batch(feed, 2)  # type: ignore[arg-type]
    feed.close()
    for function in (ringfeed.share, ringfeed.next_pass, ringfeed.Loader.from_reader):
        with pytest.raises(TypeError, match="not on a str: open_files"):
            function("data/*")  # type: ignore[operator]
    with pytest.raises(TypeError, match="not on a str: open_files"):
        ringfeed.mix([("data/*", 1)])
    with pytest.raises(TypeError, match="next"):
        ringfeed.from_dataset([b"sample"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is a function"):
        ringfeed.from_iterable([], [("x", "float32", [1])])  # type: ignore[arg-type]


def test_what_is_no_parser_is_refused_with_the_remedy(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    with pytest.raises(TypeError, match="ringfeed.example"):
        ringfeed.Loader(files, parse=NUMBER, batch=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields, error",
    [
        ("x", TypeError),
        (3, TypeError),
        ({}, ValueError),
        ({3: ("int64", [])}, TypeError),
        ({"x": ("int64", 8)}, TypeError),
        ({"x": ("int64", "8")}, TypeError),
        ({"x": ("int64", [8.0])}, TypeError),
        ({"x": ("int64", [], None, -1, 7)}, TypeError),
        ({"x": ("i8", [])}, ValueError),
        ([("x", "int64", []), ("x", "int32", [])], ValueError),
    ],
    ids=str,
)
def test_fields_that_cannot_be_are_refused(fields: Any, error: type) -> None:
    for parser in (ringfeed.rows, ringfeed.jsonl, ringfeed.example):
        with pytest.raises(error):
            parser(fields)


@pytest.mark.parametrize("shape", [[2**62, 4], [2**61 + 1], [2**32, 2**32]], ids=str)
def test_a_shape_of_more_elements_than_there_can_be_is_refused(tmp_path: Path, shape: Any) -> None:
    files = write_rows(tmp_path)
    fields = {"x": ("int64", shape)}
    with pytest.raises(ValueError, match="too many elements"):
        ringfeed.rows(fields)
    with pytest.raises(ValueError, match="too many elements"):
        number_loader(files, map=ringfeed.compiled(1, outputs=fields))

    class Wide(ringfeed.Parser):
        pass

    Wide.fields = fields
    with pytest.raises(ValueError, match="too many elements"):
        ringfeed.parse(ringfeed.open_files(files, format="rows:8"), Wide())


def test_a_dtype_of_the_other_byte_order_is_refused() -> None:
    numpy = pytest.importorskip("numpy")
    ringfeed.rows({"x": (numpy.dtype("int64"), [])})
    with pytest.raises(ValueError, match="byte order"):
        ringfeed.rows({"x": (numpy.dtype("int64").newbyteorder("S"), [])})


def test_defaults_are_text_bytes_numbers_and_numpys(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    (tmp_path / "a.jsonl").write_text("{}\n")
    fields = {
        "text": ("uint8", [-1], "né"),
        "bytes": ("uint8", [-1], b"\0a"),
        "number": ("int64", [2], 7),
        "numpys": ("float32", [], numpy.float32(0.5)),
    }
    with ringfeed.Loader(tmp_path / "a.jsonl", parse=ringfeed.jsonl(fields), batch=1) as loader:
        batch = next(loader)
        assert batch["text"].tobytes() == "né".encode()
        assert batch["bytes"].tobytes() == b"\0a"
        assert batch["number"].numpy().tolist() == [[7, 7]]
        assert batch["numpys"].numpy().tolist() == [0.5]
    for wrong in (2**70, "\udc80", [1]):
        with pytest.raises((TypeError, ValueError), match="default"):
            ringfeed.jsonl({"x": ("int64", [], wrong)})


def _only_row(path: Path, parser: ringfeed.RecordParser) -> dict[str, ringfeed.Array]:
    with ringfeed.Loader(path, parse=parser, batch=1) as loader:
        return dict(next(loader))


def test_a_default_of_an_empty_list_is_an_empty_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    fields = {"n": ("int64", [-1], []), "m": ("float32", [-1, 2], ()), "t": ("uint8", [-1], [])}
    row = _only_row(path, ringfeed.jsonl(fields))
    assert {name: (row[name].shape, row[name].lod[0].tolist()) for name in row} == {
        "n": ((0,), [0, 0]),
        "m": ((0, 2), [0, 0]),
        "t": ((0,), [0, 0]),
    }
    for parser in (ringfeed.example, ringfeed.ofrecord, ringfeed.csv, ringfeed.tar):
        parser({"t": ("uint8", [-1], [])})
    ringfeed.sequence_example({}, {"s": ("int64", [-1, 3], [])})
    for wrong in ([0], (1.5, 2)):
        with pytest.raises(TypeError, match=r"default of 'n'.*\[\]"):
            ringfeed.jsonl({"n": ("int64", [-1], wrong)})
    for shape in ([], [3]):
        with pytest.raises(ValueError, match="'n'.*not ragged"):
            ringfeed.example({"n": ("int64", shape, [])})


def test_a_feature_that_a_record_lacks_gets_the_empty_list(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "a.tfrecord"
    path.write_bytes(tfrecord(b""))  # an Example without features
    fields = {"n": ("int64", [-1], []), "m": ("float32", [-1, 2], numpy.zeros((0, 2)))}
    row = _only_row(path, ringfeed.example(fields))
    assert (row["n"].shape, row["m"].shape) == ((0,), (0, 2))


def test_the_header_of_csv_is_a_line_that_names_the_columns(tmp_path: Path) -> None:
    fields = {"x": ("int64", []), "y": ("int64", [])}
    with pytest.raises(TypeError, match=r"header is True.*or the line"):
        ringfeed.csv(fields, header=7)  # type: ignore[call-overload]
    (tmp_path / "a.csv").write_text("y,x\n1,2\n")
    parser = ringfeed.csv(fields, header="y,x")
    with ringfeed.Loader(tmp_path / "a.csv", format="csv:header", parse=parser, batch=1) as loader:
        row = next(loader)
        assert (row["x"].tolist(), row["y"].tolist()) == ([2], [1])


def test_a_members_extension_may_have_its_dot(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in (("1.bin", b"one"), ("1.seg.png", b"two")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    fields = {".bin": ("uint8", [-1]), ".jpg;.seg.png": ("uint8", [-1])}
    row = _only_row(tmp_path / "a.tar", ringfeed.tar(fields))
    assert {name: row[name].tobytes() for name in row} == {".bin": b"one", ".jpg;.seg.png": b"two"}


def test_a_sample_has_arrays_and_values_of_json(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype="uint16").reshape(2, 3)
    saved = io.BytesIO()
    numpy.save(saved, array)
    json = b'{"a": {"tags": ["b", "cd"]}}'
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in (("1.npy", saved.getvalue()), ("1.json", json)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    fields = {"npy": ("uint16", [-1, 3]), "json/a/tags": ("uint8", [-1, -1])}
    row = _only_row(tmp_path / "a.tar", ringfeed.tar(fields))
    assert row["npy"].tolist() == array.tolist()
    assert row["json/a/tags"].tobytes() == b"bcd"
    assert [level.tolist() for level in row["json/a/tags"].lod] == [[0, 2], [0, 1, 3]]
    with pytest.raises(ringfeed.Error, match='"<u2" where float32 is expected'):
        _only_row(tmp_path / "a.tar", ringfeed.tar({"npy": ("float32", [-1, 3])}))


def test_csv_has_truth_values_and_words_for_missing_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("True,NA,null\n")
    fields = {"ok": ("bool", []), "x": ("float32", []), "n": ("int64", [], -1)}
    row = _only_row(tmp_path / "a.csv", ringfeed.csv(fields))
    assert (row["ok"].tolist(), row["n"].tolist()) == ([True], [-1])
    assert row["x"].tolist()[0] != row["x"].tolist()[0]  # NaN


@pytest.mark.parametrize(
    "capacity, error",
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), (None, TypeError), (2**62, MemoryError)],
)
def test_a_capacity_that_cannot_be_is_named(capacity: Any, error: type) -> None:
    with pytest.raises(error, match="capacity"):
        ringfeed.LoDTensorBlockingQueue(capacity, [("x", "float32", [1])])
    with pytest.raises(error, match="capacity"):
        ringfeed.py_reader(capacity, [[1]], ["float32"])


@pytest.mark.parametrize(
    "slot, error",
    [
        ("x", TypeError),
        (("x",), TypeError),
        ((1, "float32", [1]), TypeError),
        (("x", "float32", 3), TypeError),
        (("x", "float32", [1], -1), ValueError),
        (("x", "float32", [1], 0, 3), TypeError),
    ],
    ids=str,
)
def test_a_slot_that_cannot_be_is_refused(slot: Any, error: type) -> None:
    with pytest.raises(error):
        ringfeed.LoDTensorBlockingQueue(1, [slot])


def test_none_is_no_array() -> None:
    with ringfeed.py_reader(capacity=2, shapes=[[-1]], dtypes=["float32"]) as feed:
        for wrong in ([None], [(None, [[0]])], [(b"", [None])]):
            with pytest.raises(TypeError, match='slot 0 "py_reader_0"'):
                feed.queue.push(wrong)


def test_an_empty_array_is_shared_whatever_its_strides() -> None:
    numpy = pytest.importorskip("numpy")
    queue = ringfeed.LoDTensorBlockingQueue(1, [("x", "float32", [-1, 3])])
    queue.push([numpy.zeros((0, 3), "float32")], copy=False)
    popped = queue.pop()
    assert popped is not None and popped[0].shape == (0, 3)


def test_what_is_called_to_begin_a_pass_is_a_function() -> None:
    with ringfeed.py_reader(capacity=2, shapes=[[-1]], dtypes=["float32"]) as feed:
        begun = (row for row in [])  # type: ignore[var-annotated]
        with pytest.raises(TypeError, match="is a function, not generator"):
            feed.decorate_tensor_provider(begun)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="is a function, not list"):
            feed.decorate_paddle_reader([])  # type: ignore[arg-type]


def test_the_name_of_a_reader_is_in_front_of_its_slots_names() -> None:
    slot = ringfeed.data("x", [-1, 2], "float32")
    named = ringfeed.create_py_reader_by_data(2, [slot], "train", False)
    other = ringfeed.py_reader(2, [[-1, 2]], ["float32"], None, "train", False)
    for feed, name in ((named, "train_x"), (other, "train_0")):
        with feed, pytest.raises(TypeError, match=f'slot 0 "{name}"'):
            feed.queue.push([3])


def test_a_flag_in_the_place_of_a_readers_name_is_refused() -> None:
    with pytest.raises(TypeError, match="use_double_buffer"):
        ringfeed.py_reader(2, [[-1]], ["float32"], None, False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use_double_buffer"):
        ringfeed.create_py_reader_by_data(2, [], False)  # type: ignore[arg-type]


def test_a_wrong_type_is_told_in_one_line_by_the_arguments_name(tmp_path: Path) -> None:
    reader = ringfeed.open_files(write_rows(tmp_path), format="rows:8")
    field: dict[str, Any] = {"x": ("int64", [])}
    wrong: Any = 5
    calls: dict[str, Any] = {
        "format": lambda: ringfeed.read_as(reader, wrong),
        "field": lambda: ringfeed.truncate(reader, wrong, 3),
        "field ": lambda: ringfeed.pad(reader, wrong, 3),
        "field is": lambda: ringfeed.bucket_batch(reader, 2, wrong, [3]),
        "field is a": lambda: ringfeed.token_batch(reader, wrong, 3),
        "field is a ": lambda: ringfeed.pack(reader, wrong, 3, 3),
        "delimiter": lambda: ringfeed.csv(field, delimiter=wrong),
        "quotes": lambda: ringfeed.csv(field, quotes=wrong),
        "columns": lambda: ringfeed.csv(field, columns="3"),  # type: ignore[call-overload]
        "truncate": lambda: ringfeed.ofrecord(field, truncate=wrong),
        "name": lambda: ringfeed.tokens(name=wrong),
        "the function's name": lambda: ringfeed.FeedProgram("main { }").register_function(
            wrong, print
        ),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name}") as caught:
            call()
        assert "\n" not in str(caught.value)
