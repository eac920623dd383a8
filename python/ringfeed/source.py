"""Bytes of a store of the user's own: a bucket, a database, a file object."""

from __future__ import annotations

import threading
from typing import Any, Callable, NamedTuple, Union


class Source(NamedTuple):
    """Bytes that can be read at any place, in place of a file: in the lists of `open_files` and
    Loader.

    Attributes:
        name: shown in reports and errors, and what a format is detected by ("train.tfrecord").
        size: bytes in all; they do not change while they are read.
        read_at: ``read_at(offset, size)`` gives up to `size` bytes; fewer only at the end. Several
            threads call it. An OSError is tried again (`retries`), then it is an I/O error; what
            else it raises comes out at the loop.
        version: names the state of the bytes: an ETag, a generation, a checksum. Sources of one
            name, size and version have the same bytes, so that their index is kept in
            `index_folder`. "": each process makes the index anew.
    """

    name: str
    size: int
    read_at: Callable[[int, int], Union[bytes, bytearray, memoryview]]
    version: str = ""

    @classmethod
    def of(cls, file: Any) -> "Source":
        """Of a file object: one of fsspec, which reads ranges side by side and tells a version, or
        any other that seeks, whose reads wait for each other.

        Raises:
            TypeError: `file` is no such thing, or gives text.
        """
        system, path = getattr(file, "fs", None), getattr(file, "path", None)
        if system is not None and path is not None and hasattr(system, "cat_file"):

            def read_range(offset: int, size: int) -> bytes:
                found: bytes = system.cat_file(path, start=offset, end=offset + size)
                return found

            name = getattr(file, "full_name", path)
            return cls(str(name), int(file.size), read_range, str(system.ukey(path)))
        if not (hasattr(file, "seek") and hasattr(file, "read") and hasattr(file, "tell")):
            raise TypeError(f"a file object has seek, tell and read, {file!r} has not")
        lock = threading.Lock()

        def read_at(offset: int, size: int) -> bytes:
            with lock:
                file.seek(offset)
                found: bytes = file.read(size)
            return found

        with lock:
            file.seek(0, 2)
            size = file.tell()
        if not isinstance(read_at(0, 0), bytes):
            raise TypeError(f"{file!r} gives text: open it in binary mode")
        return cls(str(getattr(file, "name", "a file object")), size, read_at)
