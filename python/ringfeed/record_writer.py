"""Writers of record files, and builders of the records that go into them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from . import _core
from .chains import PathLike, file_name

__all__ = [
    "build_example",
    "build_instance",
    "build_lod_tensors",
    "build_ofrecord",
    "open_record_writer",
]


def open_record_writer(path: PathLike, format: str) -> _core.RecordWriter:
    """A writer of one file, which gets its name when `close` succeeds: nobody reads half of it.

    Use it by ``with``: the end of the block closes it, an exception in the block leaves no file. A
    writer that is neither closed nor discarded leaves none either, and a RuntimeWarning says so.

    Args:
        path: of a regular file, which is replaced if it is there. Its folder must be there. An
            address (docs/REMOTE.md) is an object of a store.
        format: "tfrecord", "recordio", "recordio:go,gzip", "ofrecord", "rows:160", "lines",
            "jsonl", "csv", "tar:ext=jpg", "npy:f4[3]", "tokens:u2", "raw", …; "+gzip", "+zlib" or
            "+zstd" after most. docs/FORMATS.md has them all.

    Raises:
        InvalidArgument: a format that there is not, a path that is a folder or a device.
        Unsupported: a format that can only be read, one that cannot be compressed as it is written.
        NotFound, PermissionDenied, IoError: the file cannot be made.
    """
    if not isinstance(format, str):
        raise TypeError(f'a format is a str, as "tfrecord", not {format!r}')
    name = file_name(path)
    # The file gets its name later, when the program may stand in another folder. An address stays
    # as it is: the message of its refusal names it.
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", name):
        name = os.path.join(os.getcwd(), name)
    return _core.RecordWriter(name, format)


def build_example(features: Mapping[str, Any]) -> bytes:
    """The bytes of a tf.Example of these features, in their order: `ringfeed.example` reads them.

    Bytes, and text as UTF-8, become a list of bytes; ints and bools one of int64; floats one of
    float32. A list or a tuple holds several of them. Of an array (NumPy's or another one of host
    memory, of any shape) uint8 becomes one value of bytes, other integers and bools become int64,
    float32 and float64 float32.

    Raises, naming the feature:
        TypeError: a value of another type; an empty list, which does not say of what; float16.
        ValueError: an int beyond 64 bits, a number beyond float32, text that is no UTF-8.
    """
    return _core.build_example(_mapping(features, "features"))


def build_ofrecord(features: Mapping[str, Any]) -> bytes:
    """The bytes of OneFlow's OFRecord of these features, as `ringfeed.ofrecord` reads them.

    As `build_example`, but nothing is narrowed: ints become int64, floats float64. An array of
    float32, float64, int32 or int64 becomes a list of that type, a smaller integer or a bool int32,
    uint32 and uint64 int64. An OFRecord file cannot hold a record without a feature.
    """
    return _core.build_ofrecord(_mapping(features, "features"))


def build_lod_tensors(tensors: Iterable[Any]) -> bytes:
    """The bytes of a record of Paddle's LoDTensors, as `ringfeed.lod_tensors` reads them. Each is
    an array, or (array, lod) with the offsets of each level, as LoDTensorBlockingQueue.push takes
    it.

    Raises:
        TypeError: what is no array of host memory.
        InvalidArgument: LoD that does not fit its array; uint16 and uint32, which Paddle lacks.
    """
    return _core.build_lod_tensors(tensors)


def build_instance(fields: Mapping[str, Any]) -> bytes:
    """The bytes of an Instance (proto/ringfeed/instance.proto), as `ringfeed.instance` reads them:
    an array, or (array, lod), by the name of each field. Raises as `build_lod_tensors` does."""
    return _core.build_instance(_mapping(fields, "fields"))


def _mapping(given: Any, what: str) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    raise TypeError(f"{what} are {{name: value}}, not {type(given).__name__}")
