"""Decorators of reader creators that read, or read and map, in threads of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, TypeVar

from ..arguments import at_least, some_callables
from .passes import ReaderCreator
from .read_ahead import ReadAhead

T = TypeVar("T")
R = TypeVar("R")


def buffered(reader: ReaderCreator[T], size: int) -> ReaderCreator[T]:
    """Reads up to `size` samples ahead, in a thread per pass. 0 reads nothing ahead.

    (PaddlePaddle took 0 for a buffer without bounds.) The thread opens, reads and closes the
    iterator of `reader`; it starts with the first ``next``. An exception of the reader comes
    after the samples that were read before it.

    When the pass ends, is closed or dropped, the thread is woken and has ended, unless it is in
    the reader's code: that is waited for for a second at most (not at all on Ctrl-C), and the
    thread ends when the call returns. In a process that was forked after the pass began its
    iterator raises RuntimeError.
    """
    some_callables([reader], "reader")
    ahead = at_least(0, size, "size")
    if ahead == 0:
        return reader

    def read_ahead() -> Iterator[T]:
        return ReadAhead(
            reader, _unchanged, name="buffered", threads=1, ahead=ahead, ordered=True
        ).samples()

    return read_ahead


def _unchanged(sample: T) -> T:
    return sample


def xmap_readers(
    mapper: Callable[[Any], R],
    reader: ReaderCreator[Any],
    process_num: int,
    buffer_size: int,
    order: bool = False,
) -> ReaderCreator[R]:
    """Calls `mapper` with each sample, in `process_num` threads per pass.

    `reader` is read by one of the threads at a time. At most `process_num` + `buffer_size` samples
    are read that the consumer has not taken. With `order` the results come in the order of the
    samples, else as they are ready. Mappers run side by side if they release the interpreter's
    lock (as file access, decompression and most of NumPy do) or if there is none.

    The exception of a mapper or of the reader ends the pass: the results of all samples before it
    come first, without `order` also results after it that were ready. Of several exceptions the
    one of the earliest sample counts.

    The threads end as those of `buffered` do; at the end of the data none is left.
    """
    some_callables([mapper], "mapper")
    some_callables([reader], "reader")
    threads = at_least(1, process_num, "process_num")
    ahead = threads + at_least(0, buffer_size, "buffer_size")

    def mapped() -> Iterator[R]:
        return ReadAhead(
            reader, mapper, name="xmap", threads=threads, ahead=ahead, ordered=bool(order)
        ).samples()

    return mapped
