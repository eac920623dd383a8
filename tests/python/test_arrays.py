"""What an Array is to others: DLPack, buffers, array interfaces; and how long its memory lives."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any, Optional

import pytest
from loader_data import NUMBER, number_loader, numbers, open_sequences
from loader_data import write_rows, write_sequences

import ringfeed


def one_array(folder: Path, dtype: str, shape: tuple[int, ...], content: bytes) -> ringfeed.Array:
    """The field "x" of a batch whose rows, of that type and shape, are `content`."""
    path = folder / "one.rows"
    path.write_bytes(content)
    loader = ringfeed.Loader(
        path,
        format=f"rows:{len(content)}",
        parse=ringfeed.rows({"x": (dtype, shape)}),
        batch=1,
    )
    return next(loader)["x"]


def first_array(folder: Path) -> ringfeed.Array:
    return next(number_loader(write_rows(folder)))["x"]


def test_numpy_takes_the_memory_without_a_copy_and_may_write(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    array = first_array(tmp_path)
    address = array.__array_interface__["data"][0]
    for taken in (numpy.asarray(array), numpy.asarray(memoryview(array)), array.numpy()):
        assert taken.__array_interface__["data"][0] == address
        assert taken.flags.writeable
    shared = numpy.from_dlpack(array)
    assert shared.__array_interface__["data"][0] == address
    numpy.asarray(array)[0] = 77
    assert numbers(array)[0] == shared[0] == 77


def test_torch_takes_the_memory_without_a_copy(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    array = first_array(tmp_path)
    tensor = torch.from_dlpack(array)
    assert tensor.data_ptr() == array.__array_interface__["data"][0]
    tensor[1] = 5
    assert numbers(array)[1] == 5


DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_knows_each_dtype(tmp_path: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.tensor([[1, 0]], dtype=getattr(torch, dtype))
    content = expected.view(torch.uint8).numpy().tobytes()
    array = one_array(tmp_path, dtype, (2,), content)
    tensor = torch.from_dlpack(array)
    assert tensor.dtype == expected.dtype
    assert torch.equal(tensor, expected)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bfloat16"])
def test_numpy_knows_each_dtype_but_bfloat16(tmp_path: Path, dtype: str) -> None:
    numpy = pytest.importorskip("numpy")
    expected = numpy.array([[1, 0]], dtype=dtype)
    array = one_array(tmp_path, dtype, (2,), expected.tobytes())
    for taken in (numpy.from_dlpack(array), numpy.asarray(array)):
        assert taken.dtype == expected.dtype
        assert (taken == expected).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax_knows_each_dtype(tmp_path: Path, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    expected = jax.numpy.array([[1, 0]], dtype=dtype)
    content = jax.device_get(expected).tobytes()
    taken = jax.dlpack.from_dlpack(one_array(tmp_path, dtype, (2,), content))
    assert taken.dtype == expected.dtype
    assert (taken == expected).all()


def test_jax_takes_the_memory_without_a_copy(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    array = one_array(tmp_path, "float32", (16,), bytes(64))
    assert (
        jax.dlpack.from_dlpack(array).unsafe_buffer_pointer()
        == (array.__array_interface__["data"][0])
    )


def test_capsules_are_of_the_version_that_the_consumer_knows(tmp_path: Path) -> None:
    array = first_array(tmp_path)
    assert '"dltensor"' in repr(array.__dlpack__())
    assert '"dltensor"' in repr(array.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(2, 3)))


def test_the_host_is_the_device_of_arrays_in_host_memory(tmp_path: Path) -> None:
    array = first_array(tmp_path)
    assert array.__dlpack_device__() == (1, 0)
    array.__dlpack__(dl_device=(1, 0))
    for elsewhere in [(2, 0), (1, 1), (3, 0)]:
        with pytest.raises(BufferError, match="device"):
            array.__dlpack__(dl_device=elsewhere)


class _DlTensor(ctypes.Structure):
    """DLManagedTensorVersioned, as DLPack's header has it, to the strides."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


def in_capsule(capsule: Any) -> _DlTensor:
    """What a capsule that nobody took holds; as long as the capsule lives."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _DlTensor.from_address(pointer(capsule, b"dltensor_versioned"))


@pytest.mark.parametrize(("copy", "flags"), [(None, 0), (False, 0), (True, 2)])
def test_a_capsule_says_whether_it_is_a_copy_and_may_be_written(
    tmp_path: Path, copy: Optional[bool], flags: int
) -> None:
    array = first_array(tmp_path)
    capsule = array.__dlpack__(max_version=(1, 0), copy=copy)
    tensor = in_capsule(capsule)
    assert (tensor.major, tensor.flags) == (1, flags)
    assert (tensor.shape[0], tensor.strides[0]) == (7, 1)
    same = tensor.data == array.__array_interface__["data"][0]
    assert same == (not copy)


def test_an_array_without_elements_has_strides_and_no_memory(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s.jsonl", [[], []])
    (array,) = next(ringfeed.batch(open_sequences(path), 2))
    capsule = array.__dlpack__(max_version=(1, 0))
    tensor = in_capsule(capsule)
    assert (tensor.ndim, tensor.shape[0], tensor.strides[0], tensor.data) == (1, 0, 1, None)
    assert memoryview(array).tolist() == []
    numpy = pytest.importorskip("numpy")
    assert numpy.from_dlpack(array).shape == numpy.asarray(array).shape == (0,)


def test_a_scalar_is_an_array_of_no_dimensions(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1), format="rows:8")
    (array,) = next(ringfeed.parse(records, ringfeed.rows(NUMBER)))
    assert (array.shape, array.ndim) == ((), 0)
    assert in_capsule(array.__dlpack__(max_version=(1, 0))).ndim == 0
    assert memoryview(array).tolist() == 0
    with pytest.raises(TypeError, match="scalar"):
        len(array)
    numpy = pytest.importorskip("numpy")
    assert numpy.from_dlpack(array).shape == numpy.asarray(array).shape == ()


def test_arrays_of_emulated_devices_are_host_memory_to_others(tmp_path: Path) -> None:
    array = next(number_loader(write_rows(tmp_path), devices="emu:1"))["x"]
    assert array.device == "EMU:0"
    assert array.__dlpack_device__() == (1, 0)
    assert memoryview(array).tolist() == list(range(7))
    assert not hasattr(array, "__cuda_array_interface__")
    with pytest.raises(BufferError, match="device"):
        array.__dlpack__(dl_device=(2, 0))
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(array)
    assert tensor.data_ptr() == array.__array_interface__["data"][0]
    assert tensor.tolist() == list(range(7))


def test_a_copy_is_made_where_it_is_asked_for(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", minversion="2.1")
    array = first_array(tmp_path)
    copy = numpy.from_dlpack(array, copy=True)
    copy[0] = 99
    assert numbers(array)[0] == 0
    shared = numpy.from_dlpack(array, copy=False)
    assert shared.__array_interface__["data"][0] == array.__array_interface__["data"][0]


@pytest.mark.parametrize(
    ("dtype", "content", "format", "values"),
    [
        ("bool", b"\x00\x01", "?", [False, True]),
        ("uint8", b"\x01\xff", "B", [1, 255]),
        ("int16", b"\xff\xff\x02\x00", "h", [-1, 2]),
        ("float16", b"\x00\x3c\x00\xc0", "e", [1.0, -2.0]),
        ("float64", bytes(8) + b"\x00\x00\x00\x00\x00\x00\xf0\x3f", "d", [0.0, 1.0]),
    ],
)
def test_a_buffer_has_the_format_of_the_dtype(
    tmp_path: Path, dtype: str, content: bytes, format: str, values: list[Any]
) -> None:
    view = memoryview(one_array(tmp_path, dtype, (2,), content))
    assert (view.format, view.shape, view.readonly) == (format, (1, 2), False)
    if format != "e":  # memoryview cannot unpack it everywhere
        assert view.tolist() == [values]
    assert view.tobytes() == content


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


def test_a_buffer_in_the_order_of_fortran_is_had_only_where_both_are_the_same(
    tmp_path: Path,
) -> None:
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
    strides, c_order, fortran, any_order = 0x18, 0x38, 0x58, 0x98
    image = one_array(tmp_path, "uint8", (2, 3), bytes(range(6)))  # of shape (1, 2, 3)
    view = _PyBuffer(obj=1)
    with pytest.raises(BufferError, match="Fortran"):
        get(image, view, fortran)
    assert view.obj is None
    row = one_array(tmp_path, "uint8", (3,), bytes(range(3)))
    for array, flags in [
        (image, strides),
        (image, c_order),
        (image, any_order),
        (row, fortran),
    ]:
        view = _PyBuffer()
        assert get(array, view, flags) == 0
        assert view.strides[view.ndim - 1] == 1
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


@pytest.mark.parametrize(
    "name, conversion",
    [
        ("mean", r"array.numpy\(\).mean, or torch.from_dlpack\(array\).mean"),
        ("astype", r"array.numpy\(\).astype"),
        ("to", r"copies nothing: torch.from_dlpack\(array\).to$"),
        ("cuda", r"copies nothing: torch.from_dlpack\(array\).cuda$"),
    ],
)
def test_what_an_array_lacks_is_told_with_the_conversion_that_has_it(
    tmp_path: Path, name: str, conversion: str
) -> None:
    array = next(number_loader(write_rows(tmp_path, 1)))["x"]
    with pytest.raises(AttributeError, match=conversion):
        getattr(array, name)
    assert not hasattr(array, name) and getattr(array, name, 7) == 7
    assert not hasattr(array, "__array_struct__") and array.shape == (7,)


def test_bfloat16_goes_by_dlpack_alone(tmp_path: Path) -> None:
    array = one_array(tmp_path, "bfloat16", (2,), b"\x80\x3f\x00\xc0")
    with pytest.raises(BufferError, match="DLPack"):
        memoryview(array)
    assert not hasattr(array, "__array_interface__")
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="bfloat16"):
        numpy.asarray(array)
    with pytest.raises(TypeError, match="bfloat16"):
        array.numpy()
    assert '"dltensor"' in repr(array.__dlpack__())
    assert array.tobytes() == b"\x80\x3f\x00\xc0"


def test_memory_lives_as_long_as_what_was_made_of_it(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), slots=4)
    views = [memoryview(next(loader)["x"]) for _ in range(2)]
    loader.close()
    del loader
    gc.collect()
    assert [view.tolist() for view in views] == [list(range(7)), list(range(7, 14))]


def test_holding_too_many_batches_is_an_error_until_one_goes(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), slots=3)
    held = []
    with pytest.raises(ringfeed.errors.ResourceExhausted, match="3"):
        for batch in loader:
            held.append(memoryview(batch["x"]))
            del batch
    behind = 7 * len(held)
    held.pop(0)
    assert numbers(next(loader))[0] == behind
    assert held[0].tolist() == list(range(7, 14))


def test_a_capsule_that_nobody_takes_lets_the_batch_go(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), slots=2)
    for batch in loader:
        batch["x"].__dlpack__()
        batch["x"].__dlpack__(max_version=(1, 0))
    assert loader.stats()["records"] == 300


def test_offsets_of_ragged_rows_keep_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\nthree\n")
    loader = ringfeed.Loader(path, format="lines", batch=4)
    offsets = next(loader)["bytes"].lod[0]
    loader.close()
    gc.collect()
    assert memoryview(offsets).tolist() == [0, 3, 8]
    assert NUMBER["x"][0] == offsets.dtype


def test_host_memory_is_given_to_no_stream(tmp_path: Path) -> None:
    array = first_array(tmp_path)
    for stream in (None, -1):
        assert '"dltensor"' in repr(array.__dlpack__(stream=stream))
    for stream in (0, 2, "main"):
        with pytest.raises(BufferError, match="stream"):
            array.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="stream"):
        array.on(1)
    for number in (0, -1):
        with pytest.raises(ValueError, match="a stream is 1"):
            array.on(number)
