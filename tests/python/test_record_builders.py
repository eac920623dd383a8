"""Records that Python makes of values, and reads again by the kernel's parsers."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import ringfeed
from ringfeed import errors

numpy = pytest.importorskip("numpy")

#: A tf.Example of one feature "x" of int64 7, and of float32 1.5, as TensorFlow serialises them.
SEVEN = bytes.fromhex("0a0c0a0a0a017812051a030a0107")
ONE_AND_A_HALF = bytes.fromhex("0a0f0a0d0a0178120812060a040000c03f")
#: The OFRecord of docs/FORMATS.md, as OneFlow writes it.
OF_RECORD = bytes.fromhex("0a140a0b636c6173732f6c6162656c120522030a0107") + bytes.fromhex(
    "0a0d0a0178120812060a040000c03f"
)


def parsed(record: bytes, parser: ringfeed.RecordParser) -> dict[str, Any]:
    """What the parser finds in the one record."""

    class One(ringfeed.RandomAccessDataset):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> bytes:
            return record

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(One()), parser), 1)
    with ringfeed.Loader.from_reader(chain) as loader:
        return {name: array.numpy().ravel().tolist() for name, array in next(loader).items()}


def test_examples_have_the_bytes_that_tensorflow_gives_them() -> None:
    assert ringfeed.build_example({"x": 7}) == SEVEN
    for value in (1.5, [1.5], numpy.float32(1.5), numpy.array([[1.5]]), numpy.float64(1.5)):
        assert ringfeed.build_example({"x": value}) == ONE_AND_A_HALF
    for value in (True + 6, [7], (7,), numpy.int16(7), numpy.array(7, "uint8"), [numpy.uint8(7)]):
        assert ringfeed.build_example({"x": value}) == SEVEN
    assert ringfeed.build_example({}) == b"\x0a\x00"


def test_ofrecords_have_the_bytes_that_oneflow_gives_them() -> None:
    features = {"class/label": numpy.int32(7), "x": numpy.array([1.5], "float32")}
    assert ringfeed.build_ofrecord(features) == OF_RECORD
    assert ringfeed.build_ofrecord({}) == b""


def test_examples_are_read_as_they_were_built() -> None:
    image = numpy.arange(200_000, dtype="uint8").reshape(2, 1000, 100)
    record = ringfeed.build_example(
        {
            "image": image,
            "text": "grün",
            "buffer": bytearray(b"ab"),
            "label": -1,
            "flag": True,
            "weights": [1, 2.5],
            "column": numpy.arange(6, dtype="float64").reshape(2, 3).T,
            "ids": numpy.array([2**63 - 1, -(2**63)]),
            "none": numpy.empty(0, "int64"),
        }
    )
    fields = {
        "image": ("uint8", [-1]),
        "text": ("uint8", [-1]),
        "buffer": ("uint8", [-1]),
        "label": ("int64", []),
        "flag": ("int64", []),
        "weights": ("float32", [2]),
        "column": ("float32", [-1]),
        "ids": ("int64", [2]),
        "none": ("int64", [-1]),
    }
    found = parsed(record, ringfeed.example(fields))
    assert found["image"] == image.ravel().tolist()
    assert bytes(found["text"]).decode() == "grün" and bytes(found["buffer"]) == b"ab"
    assert found["label"] == [-1] and found["flag"] == [1]
    assert found["weights"] == [1, 2.5] and found["column"] == [0, 3, 1, 4, 2, 5]
    assert found["ids"] == [2**63 - 1, -(2**63)] and found["none"] == []


def test_ofrecords_keep_every_type() -> None:
    values = {
        "f4": numpy.array([0.1], "float32"),
        "f8": 0.1,
        "i4": numpy.array([-1, 2], "int32"),
        "i8": 2**40,
        "bytes": b"ab",
        "bool": numpy.array([True, False]),
    }
    fields = {
        "f4": ("float32", [1]),
        "f8": ("float64", [1]),
        "i4": ("int32", [2]),
        "i8": ("int64", [1]),
        "bytes": ("uint8", [2]),
        "bool": ("int8", [2]),
    }
    found = parsed(ringfeed.build_ofrecord(values), ringfeed.ofrecord(fields))
    assert found["f4"] == [float(numpy.float32(0.1))] and found["f8"] == [0.1]
    assert found["i4"] == [-1, 2] and found["i8"] == [2**40]
    assert found["bytes"] == list(b"ab") and found["bool"] == [1, 0]


def test_a_list_of_bytes_has_each_as_a_value() -> None:
    record = ringfeed.build_example({"x": [b"a", "b", bytearray(b"c"), memoryview(b"")]})
    values = b"\x0a\x01a\x0a\x01b\x0a\x01c\x0a\x00"
    assert record.endswith(b"\x0a" + bytes([len(values)]) + values)


@pytest.mark.parametrize(
    "value, error, message",
    [
        (None, TypeError, "leave the feature out"),
        ({}, TypeError, "not dict"),
        ([], TypeError, r"numpy.empty\(0, .*bytes and text are left out, and a parser's default"),
        ([b"a", 1], TypeError, "holds int"),
        ([1, b"a"], TypeError, "not bytes"),
        ([[1, 2]], TypeError, "not list"),
        (numpy.zeros(2, "float16"), TypeError, "float16"),
        (numpy.zeros(2, "complex64"), TypeError, "dtype"),
        (2**63, ValueError, "64 bits"),
        ([0, -(2**63) - 1], ValueError, "64 bits"),
        (numpy.array([2**63], "uint64"), ValueError, "64 bits"),
        (1e300, ValueError, "float32"),
        ("\udc00", ValueError, "UTF-8"),
    ],
)
def test_what_no_list_holds_is_refused_by_the_features_name(
    value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f'feature "x": .*{message}'):
        ringfeed.build_example({"good": 1, "x": value})


def test_names_and_arguments_that_cannot_be_are_refused() -> None:
    for build in (ringfeed.build_example, ringfeed.build_ofrecord, ringfeed.build_instance):
        with pytest.raises(TypeError, match="list"):
            build([("x", 1)])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="name is a str, not int"):
            build({1: numpy.zeros(1)})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="UTF-8"):
        ringfeed.build_ofrecord({"\udc00": 1})


def test_lod_tensors_and_instances_are_read_as_they_were_built() -> None:
    words = (numpy.arange(3, dtype="int64").reshape(3, 1), [[0, 2, 3]])
    dense = numpy.array([[1.5, 2.5]], "float32")
    slots = [("x", "float32", [-1, 2]), ("words", "int64", [-1, 1], 1)]
    record = ringfeed.build_lod_tensors([dense, words])
    assert record[:4] == b"\x02\0\0\0"
    found = parsed(record, ringfeed.lod_tensors(slots))
    assert found == {"x": [1.5, 2.5], "words": [0, 1, 2]}
    record = ringfeed.build_instance({"words": words, "x": dense})
    assert parsed(record, ringfeed.instance(slots)) == found
    with pytest.raises(errors.InvalidArgument, match="LoD"):
        ringfeed.build_lod_tensors([(dense, [[0, 2]])])
    with pytest.raises(errors.InvalidArgument, match="uint16"):
        ringfeed.build_lod_tensors([numpy.zeros(1, "uint16")])
    with pytest.raises(TypeError, match='slot 0 "x"'):
        ringfeed.build_instance({"x": 1})


def test_an_array_of_a_batch_goes_into_a_record_with_its_levels() -> None:
    queue = ringfeed.LoDTensorBlockingQueue(1, [("words", "int64", [-1, 1], 1)])
    values = (numpy.arange(3, dtype="int64").reshape(3, 1), [[0, 2, 3]])
    queue.push([values])
    popped = queue.pop()
    assert popped is not None
    assert ringfeed.build_lod_tensors(popped) == ringfeed.build_lod_tensors([values])


def test_records_are_built_by_several_threads() -> None:
    image = numpy.arange(100_000, dtype="uint8")
    expected = ringfeed.build_example({"image": image, "label": 3})
    wrong: list[int] = []

    def build() -> None:
        for i in range(50):
            if ringfeed.build_example({"image": image, "label": 3}) != expected:
                wrong.append(i)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_refused_value_is_let_go_of() -> None:
    value = bytearray(10)
    before = sys.getrefcount(value)
    with pytest.raises(TypeError):
        ringfeed.build_example({"x": [value, 1]})
    value.extend(b"more")  # no buffer of it is held
    assert sys.getrefcount(value) == before
