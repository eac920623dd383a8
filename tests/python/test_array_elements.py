"""An Array's elements without another package: items, lists, text, copies and pickles."""

from __future__ import annotations

import copy
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from loader_data import number_loader, numbers, open_sequences, write_rows, write_sequences

import ringfeed


def batch_of(folder: Path, dtype: str, shape: tuple[int, ...], content: bytes) -> ringfeed.Array:
    """The field "x" of a batch of one row, which is `content`."""
    path = folder / "one.rows"
    path.write_bytes(content)
    parser = ringfeed.rows({"x": (dtype, shape)})
    return next(ringfeed.Loader(path, format=f"rows:{len(content)}", parse=parser, batch=1))["x"]


def matrices(folder: Path) -> ringfeed.Array:
    """int16 [2, 3, 2], 0, 1, 2, …"""
    path = folder / "m.rows"
    path.write_bytes(struct.pack("<12h", *range(12)))
    parser = ringfeed.rows({"x": ("int16", (3, 2))})
    return next(ringfeed.Loader(path, format="rows:12", parse=parser, batch=2))["x"]


def ragged(folder: Path) -> ringfeed.Array:
    path = write_sequences(folder / "a.jsonl", [[5, 6, 7], [], [-8]])
    (array,) = next(ringfeed.batch(open_sequences(path), 3))
    return array


def scalar(folder: Path) -> ringfeed.Array:
    records = ringfeed.open_files(write_rows(folder, 1), format="rows:8")
    (array,) = next(ringfeed.parse(records, ringfeed.rows({"x": ("int64", ())})))
    return array


def test_a_list_of_offsets_is_one_of_numbers(tmp_path: Path) -> None:
    values = ragged(tmp_path)
    offsets = list(values.lod[0])
    assert offsets == values.lod[0].tolist() == [0, 3, 3, 4]
    assert {type(offset) for offset in offsets} == {int}
    rows = [values[begin:end].tolist() for begin, end in zip(offsets, offsets[1:])]
    assert rows == [[5, 6, 7], [], [-8]]


ELEMENTS: list[tuple[str, str, list[Any]]] = [
    ("bool", "?", [True, False]),
    ("uint8", "B", [0, 255]),
    ("int8", "b", [-128, 127]),
    ("uint16", "H", [0, 65535]),
    ("int16", "h", [-32768, 32767]),
    ("uint32", "I", [0, 2**32 - 1]),
    ("int32", "i", [-(2**31), 2**31 - 1]),
    ("uint64", "Q", [0, 2**64 - 1]),
    ("int64", "q", [-(2**63), 2**63 - 1]),
    ("float16", "e", [1.5, -65504.0, 2.0**-24, 2.0**-14, float("inf"), -0.0, 0.0999755859375]),
    ("float32", "f", [1.5, -(2.0**-149), float("-inf")]),
    ("float64", "d", [0.1, -1e300]),
]


@pytest.mark.parametrize("dtype, code, values", ELEMENTS, ids=[row[0] for row in ELEMENTS])
def test_elements_are_pythons_numbers_and_bools(
    tmp_path: Path, dtype: str, code: str, values: list[Any]
) -> None:
    content = struct.pack(f"<{len(values)}{code}", *values)
    array = batch_of(tmp_path, dtype, (len(values),), content)
    (row,) = array.tolist()
    assert row == list(array[0]) == [array[0][i] for i in range(len(values))] == values
    assert [type(value) for value in row] == [type(value) for value in values]
    assert [str(value) for value in row] == [str(value) for value in values]  # -0.0, too


@pytest.mark.parametrize("dtype, bits", [("bfloat16", 0x7FC0), ("float16", 0xFE00)])
def test_what_is_no_number_is_none(tmp_path: Path, dtype: str, bits: int) -> None:
    (value,) = batch_of(tmp_path, dtype, (), struct.pack("<H", bits)).tolist()
    assert value != value


def test_numpy_finds_the_same_halves(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    halves = numpy.arange(65536, dtype="uint16").view("float16")
    taken = batch_of(tmp_path, "float16", (65536,), halves.tobytes())[0].tolist()
    numpy.testing.assert_array_equal(taken, halves.astype("float64"))
    (brain,) = batch_of(tmp_path, "bfloat16", (2,), struct.pack("<2H", 0x3F80, 0xC040)).tolist()
    assert brain == [1.0, -3.0]


def test_items_of_several_dimensions_share_the_memory(tmp_path: Path) -> None:
    array = matrices(tmp_path)
    assert (len(array), len(array[0]), array[1].shape) == (2, 3, (3, 2))
    assert array.tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    assert [step.tolist() for step in array] == array.tolist()
    assert (array[-1][1].tolist(), array[1][2][0], 11 in array[1][2]) == ([8, 9], 10, True)
    view = memoryview(array[1][1])
    assert (view.format, view.shape) == ("h", (2,))
    view[0] = 77
    assert array.tolist()[1][1] == [77, 9]


@pytest.mark.parametrize(
    "key", [slice(None), slice(1, 5), slice(-3, None), slice(5, 2), slice(3, 99), slice(7, 7)]
)
def test_a_slice_is_that_of_a_list(tmp_path: Path, key: slice) -> None:
    array = next(number_loader(write_rows(tmp_path)))["x"]
    part = array[key]
    assert isinstance(part, ringfeed.Array)
    assert list(part) == part.tolist() == numbers(part) == list(range(7))[key]
    assert (part.shape, part.dtype, part.device) == ((len(part),), "int64", "CPU")


def test_what_is_no_item_is_refused_with_the_remedy(tmp_path: Path) -> None:
    array = matrices(tmp_path)
    for beyond in (2, -3, 2**70):
        with pytest.raises(IndexError):
            array[beyond]
    with pytest.raises(ValueError, match=r"numpy\(\)"):
        array[::2]
    for key in ((0, 1), "x", None, [0, 1], 1.0):
        with pytest.raises(TypeError, match=r"numpy\(\)"):
            array[key]  # type: ignore[index]
    alone = scalar(tmp_path)
    assert alone.tolist() == 0
    for use in (len, iter, lambda a: a[0]):
        with pytest.raises(TypeError, match="scalar"):
            use(alone)


def test_a_part_keeps_the_batch_and_has_no_lod(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), slots=2)
    kept = [next(loader)["x"][2:4], next(loader)["x"][5:]]
    with pytest.raises(ringfeed.errors.ResourceExhausted):
        next(loader)
    assert [list(part) for part in kept] == [[2, 3], [12, 13]]
    values = ragged(tmp_path)
    assert (len(values.lod), values[:].lod, values[:].offsets) == (1, [], None)


def test_the_text_shows_the_first_elements(tmp_path: Path) -> None:
    array = next(number_loader(write_rows(tmp_path), batch=100))["x"]
    assert repr(array) == "<ringfeed.Array int64 [100], CPU: [0, 1, 2, 3, 4, 5, 6, 7, …]>"
    assert repr(array[:2]) == str(array[:2]) == "<ringfeed.Array int64 [2], CPU: [0, 1]>"
    assert repr(array[:0]) == "<ringfeed.Array int64 [0], CPU: []>"
    assert repr(ragged(tmp_path)) == "<ringfeed.Array int64 [4], lod of 1, CPU: [5, 6, 7, -8]>"
    assert repr(matrices(tmp_path)).endswith("[[[0, 1], [2, 3], [4, 5]], [[6, 7], …]]>")
    assert repr(scalar(tmp_path)) == "<ringfeed.Array int64 [], CPU: 0>"
    reals = batch_of(tmp_path, "float32", (4,), struct.pack("<4f", 0.1, -2, 1e30, float("inf")))
    assert repr(reals).endswith("[[0.1, -2.0, 1e+30, inf]]>")
    assert repr(batch_of(tmp_path, "bool", (2,), b"\1\0")).endswith("[[True, False]]>")


def copies(array: ringfeed.Array) -> list[ringfeed.Array]:
    pickled = [pickle.loads(pickle.dumps(array, protocol)) for protocol in (2, 4, 5)]
    return [array.copy(), copy.copy(array), copy.deepcopy(array), *pickled]


@pytest.mark.parametrize("make", [matrices, ragged, scalar])
def test_copies_and_pickles_are_the_same_in_memory_of_their_own(tmp_path: Path, make: Any) -> None:
    array = make(tmp_path)
    for other in copies(array):
        assert isinstance(other, ringfeed.Array)
        assert (other.dtype, other.shape, other.device) == (array.dtype, array.shape, "CPU")
        assert other.tobytes() == array.tobytes()
        assert [list(level) for level in other.lod] == [list(level) for level in array.lod]
        address = other.__array_interface__["data"][0]
        assert address != array.__array_interface__["data"][0]
        memoryview(other).cast("B")[0] = 99  # may be written
        assert other.tobytes() != array.tobytes()


def test_a_list_of_all_batches_fails_and_names_the_remedy(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    for arguments in ({"slots": 4}, {"devices": "emu:1"}):
        with pytest.raises(ringfeed.errors.ResourceExhausted, match=r"\.copy\(\).*\bslots="):
            list(number_loader(files, **arguments))
    with number_loader(files, map=lambda batch: batch["x"].copy()) as loader:
        assert [number for array in list(loader) for number in array] == list(range(300))


def test_copies_hold_no_batch(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), slots=2)
    kept = [copies(batch["x"]) for batch in loader]
    assert [number for row in kept for number in row[0]] == list(range(300))
    assert all(list(other) == list(row[0]) for row in kept for other in row)


def test_a_batch_can_be_pickled_also_from_emulated_devices(tmp_path: Path) -> None:
    batch = next(number_loader(write_rows(tmp_path), devices="emu:1"))
    assert batch["x"].tolist() == list(range(7))
    other = pickle.loads(pickle.dumps(batch))
    assert (other["x"].tolist(), other["x"].device) == (list(range(7)), "CPU")


@pytest.mark.parametrize(
    "state",
    [
        ("int64", [2], b"1234567812345678", [[0, 1]]),
        ("int64", [3], b"1234567812345678", []),
        ("int64", [1], b"12345678123", []),
        ("int64", [-2], b"1234567812345678", []),
        ("int64", [-1, -2], b"1234567812345678", []),
        ("float32", [2**32, 2**32], b"", []),
        ("float32", [2**62], b"", []),
        ("int63", [2], b"1234567812345678", []),
        ("int64", [2], b"1234567812345678", [[0, 2, 1, 2]]),
    ],
    ids=str,
)
def test_a_pickle_that_does_not_fit_together_is_refused(state: Any) -> None:
    array = ringfeed.Array.__new__(ringfeed.Array)
    with pytest.raises(ValueError):
        array.__setstate__(state)


@pytest.mark.filterwarnings("ignore:nanobind:RuntimeWarning")
def test_an_array_that_was_not_made_has_no_buffer() -> None:
    with pytest.raises(BufferError):
        memoryview(ringfeed.Array.__new__(ringfeed.Array))


@pytest.mark.filterwarnings("ignore:nanobind:RuntimeWarning")
def test_an_array_that_is_there_takes_no_other_state(tmp_path: Path) -> None:
    array = ragged(tmp_path)
    with pytest.raises((RuntimeError, TypeError)):
        array.__setstate__(array.copy().__getstate__())
    assert array.tolist() == [5, 6, 7, -8]


@pytest.mark.parametrize("distribution", ["round_robin", "split"])
def test_ragged_parts_of_devices_are_copied_with_their_offsets(
    tmp_path: Path, distribution: Any
) -> None:
    path = write_sequences(tmp_path / "s.jsonl", [[i] * (i % 4) for i in range(40)])
    plan = ringfeed.devices.DevicePlan("emu:2", distribution=distribution)
    chain = ringfeed.batch(open_sequences(path), 8)
    with ringfeed.Loader.from_reader(chain, devices=plan) as loader:
        for batch in loader:
            other = batch["t"].copy()
            assert other.lod[0].tolist() == batch["t"].lod[0].tolist()
            assert other.tolist() == batch["t"].tolist()
