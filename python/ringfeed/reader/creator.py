"""Reader creators over arrays and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Callable, TypeVar, Union

from ..arguments import at_least, some_callables
from .passes import ReaderCreator
from .threaded import buffered

R = TypeVar("R")

PathLike = Union[str, "os.PathLike[str]"]


def np_array(x: Any) -> ReaderCreator[Any]:
    """The elements of a vector, the rows of a matrix, and so on along the first dimension.

    `x` is an array or what ``numpy.asarray`` makes one of; the samples are views of it. An array
    without dimensions is one sample.
    """
    import numpy

    array = numpy.asarray(x)

    def elements() -> Iterator[Any]:
        if array.ndim == 0:
            yield array[()]
        else:
            yield from array

    return elements


def text_file(path: PathLike, encoding: str = "utf-8") -> ReaderCreator[str]:
    """The lines of a text file, without their line ends.

    The file is opened anew for each pass. Raises OSError and UnicodeDecodeError from there.
    """

    def lines() -> Iterator[str]:
        with open(path, encoding=encoding) as file:
            for line in file:
                yield line[:-1] if line.endswith("\n") else line

    return lines


def recordio(
    paths: Union[PathLike, Iterable[PathLike]],
    buf_size: int = 100,
    decode: Callable[[memoryview], R] = bytes,  # type: ignore[assignment]
) -> ReaderCreator[R]:
    """The records of RecordIO files, each as `decode` makes it of the record's bytes.

    `paths` is a path, paths joined by commas in one string, or an iterable of paths, in which a
    comma is a character; ``ringfeed.open_files`` finds them (globs too) and reads one after the
    other. Up to `buf_size` samples are read ahead (see `ringfeed.reader.buffered`).

    PaddlePaddle unpickled every record. Unpickling runs whatever code the file asks for, so here a
    record arrives as ``bytes`` and it is the caller who decides: ``decode=pickle.loads`` is right
    for files of one's own, and for no others. The argument of `decode` is a memoryview of the
    kernel's memory: it is good for the call, and not to be kept.

    Raises what open_files and its reader raise, from the pass.
    """
    some_callables([decode], "decode")
    ahead = at_least(0, buf_size, "buf_size")
    names = _names(paths)

    def records() -> Iterator[R]:
        import ringfeed

        files = ringfeed.open_files(names, format="recordio", cycle=1)
        try:
            for (record,) in files:
                yield decode(memoryview(record))
        finally:
            files.close()

    return buffered(records, ahead)


def _names(paths: Union[PathLike, Iterable[PathLike]]) -> list[str]:
    if isinstance(paths, str):
        return paths.split(",")
    if isinstance(paths, os.PathLike):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]
