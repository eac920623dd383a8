"""What goes in where an array is asked for, shown by a queue."""

from __future__ import annotations

import array
from typing import Any

import pytest

import ringfeed


def pushed(value: Any, dtype: str, dims: tuple[int, ...], copy: Any = True) -> ringfeed.Array:
    """`value` as it comes out of a queue."""
    queue = ringfeed.LoDTensorBlockingQueue(1, [("x", dtype, dims, 0)])
    queue.push((value,), copy=copy)
    return queue.pop()[0]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: array.array("B", b)])
def test_what_exports_a_buffer_goes_in(wrap: Any) -> None:
    assert pushed(wrap(b"\x01\x02\x03"), "uint8", (-1,)).tobytes() == b"\x01\x02\x03"


def test_memory_that_may_be_written_is_shared_where_asked_for() -> None:
    source = array.array("q", [1, 2, 3])
    shared, copy = pushed(source, "int64", (3,), False), pushed(source, "int64", (3,), True)
    source[0] = 9
    assert memoryview(shared).tolist() == [9, 2, 3]
    assert memoryview(copy).tolist() == [1, 2, 3]


def test_what_is_read_only_is_copied_or_refused() -> None:
    assert pushed(b"ab", "uint8", (2,), None).tobytes() == b"ab"
    with pytest.raises(ValueError, match="read-only"):
        pushed(b"ab", "uint8", (2,), False)


def test_strides_of_any_sign_are_copied_in_c_order() -> None:
    numpy = pytest.importorskip("numpy")
    matrix = numpy.arange(12, dtype="int32").reshape(3, 4)
    for view in (matrix.T, matrix[::-1], matrix[:, ::-2], matrix[1:, 1:3]):
        taken = pushed(view, "int32", (-1, -1))
        assert numpy.asarray(taken).tolist() == view.tolist()
        with pytest.raises(ValueError, match="C order"):
            pushed(view, "int32", (-1, -1), False)


def test_scalars_and_empty_arrays_go_through() -> None:
    numpy = pytest.importorskip("numpy")
    assert numpy.asarray(pushed(numpy.array(7.5), "float64", ())).tolist() == 7.5
    empty = pushed(numpy.empty((0, 4), "float32"), "float32", (-1, 4))
    assert numpy.from_dlpack(empty).shape == (0, 4)


def test_numpys_times_are_refused() -> None:
    numpy = pytest.importorskip("numpy")
    for kind in (numpy.datetime64, numpy.timedelta64):
        for value in (kind(1, "s"), numpy.array(kind(1, "s")), numpy.array([kind(1, "s")])):
            with pytest.raises((TypeError, ValueError)):
                pushed(value, "int64", (-1,))
        with pytest.raises(TypeError, match="an array is needed"):
            pushed(kind(1, "s"), "int64", ())


def test_what_is_no_array_is_refused() -> None:
    numpy = pytest.importorskip("numpy")
    for value in ([1, 2], 3, "text", numpy.array([1, 2], dtype=">i4"), numpy.array([1j])):
        with pytest.raises((TypeError, ringfeed.Error)):
            pushed(value, "int32", (-1,))
