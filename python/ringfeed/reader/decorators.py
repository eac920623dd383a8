"""Decorators of reader creators that work in the thread which takes the samples."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from itertools import count, islice, zip_longest
from typing import Any, Callable, Optional, TypeVar

from ..arguments import at_least, some_callables
from .passes import ReaderCreator, opened

T = TypeVar("T")
R = TypeVar("R")


class ComposeNotAligned(ValueError):
    """Readers that were composed do not have the same number of samples."""


def cache(reader: ReaderCreator[T]) -> ReaderCreator[T]:
    """Keeps all samples of `reader` in memory; it is read once.

    The first ``next`` reads the whole pass, other threads wait for it. If reading fails nothing is
    kept: the exception leaves that iterator, and the next one reads again. The samples themselves
    are handed out, not copies.
    """
    some_callables([reader], "reader")
    filling = threading.RLock()  # a reader that reads itself recurses and does not hang
    kept: list[tuple[T, ...]] = []

    def cached() -> Iterator[T]:
        with filling:
            if not kept:
                with opened(reader) as (samples,):
                    kept.append(tuple(samples))
        yield from kept[0]

    return cached


def map_readers(func: Callable[..., R], *readers: ReaderCreator[Any]) -> ReaderCreator[R]:
    """Calls `func` with one sample of each reader, and gives what it returns.

    A pass ends with the shortest reader.
    """
    some_callables([func], "function")
    some_callables(readers, "reader")

    def mapped() -> Iterator[R]:
        with opened(*readers) as iterators:
            # Called here and not by map(), which would take a StopIteration of func's for the end.
            for samples in zip(*iterators):
                yield func(*samples)

    return mapped


def shuffle(
    reader: ReaderCreator[T], buf_size: int, seed: Optional[int] = None
) -> ReaderCreator[T]:
    """Shuffles by blocks: fills a buffer of `buf_size` samples, shuffles it, hands all of it out.

    No sample leaves its block; the last, shorter block is shuffled too. A `buf_size` of 0 or 1
    changes nothing.

    With a `seed` the order is a function of the seed, of `buf_size` and of how many iterators the
    creator made before: every pass has an order of its own, and a second creator with the same
    seed repeats them pass by pass, on every machine. Without one the order comes from the module
    `random`, thus from ``random.seed``.
    """
    some_callables([reader], "reader")
    size = at_least(0, buf_size, "buf_size")
    if seed is not None:
        seed = at_least(-(1 << 64), seed, "seed")
    if size <= 1:
        return reader
    passes = count()
    counting = threading.Lock()

    def shuffled() -> Iterator[T]:
        with counting:
            number = next(passes)
        # A string, because its hash in Random is defined and keeps (seed, number) apart.
        generator = random if seed is None else random.Random(f"{seed}/{number}")
        return _shuffled_pass(reader, size, generator.shuffle)

    return shuffled


def _shuffled_pass(
    reader: ReaderCreator[T], size: int, exchange: Callable[[list[T]], None]
) -> Iterator[T]:
    with opened(reader) as (samples,):
        while True:
            block = list(islice(samples, size))
            if not block:
                return
            exchange(block)
            while block:  # handed over, so that two blocks are never in memory
                yield block.pop()


def chain(*readers: ReaderCreator[T]) -> ReaderCreator[T]:
    """All samples of the first reader, then all of the second, and so on.

    A reader is opened when its turn comes, and closed before the next one is opened.
    """
    some_callables(readers, "reader")

    def chained() -> Iterator[T]:
        for reader in readers:
            with opened(reader) as (samples,):
                yield from samples

    return chained


def compose(
    *readers: ReaderCreator[Any], check_alignment: bool = True
) -> ReaderCreator[tuple[Any, ...]]:
    """Joins the samples of several readers into one flat tuple.

    A sample that is a tuple gives all its entries, every other sample is an entry itself: readers
    of ``(1, 2)``, ``3`` and ``(4, 5)`` give ``(1, 2, 3, 4, 5)``.

    With `check_alignment` readers of different lengths raise ComposeNotAligned after the last
    whole sample. Without, a pass ends with the shortest reader and what the others have left is
    dropped.
    """
    some_callables(readers, "reader")

    def composed() -> Iterator[tuple[Any, ...]]:
        with opened(*readers) as iterators:
            rows = _aligned(iterators) if check_alignment else zip(*iterators)
            for samples in rows:
                yield tuple(entry for sample in samples for entry in _entries(sample))

    return composed


_ENDED = object()


def _aligned(iterators: list[Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    for number, samples in enumerate(zip_longest(*iterators, fillvalue=_ENDED)):
        ended = [str(i) for i, sample in enumerate(samples) if sample is _ENDED]
        if ended:
            raise ComposeNotAligned(
                f"outputs of readers are not aligned: of {len(samples)} readers those numbered "
                f"{', '.join(ended)} (from 0) ended after {number} samples, the others did not"
            )
        yield samples


def _entries(sample: Any) -> tuple[Any, ...]:
    return sample if isinstance(sample, tuple) else (sample,)


def firstn(reader: ReaderCreator[T], n: int) -> ReaderCreator[T]:
    """The first `n` samples, or all if there are fewer. No sample after them is read."""
    some_callables([reader], "reader")
    limit = at_least(0, n, "n")

    def limited() -> Iterator[T]:
        with opened(reader) as (samples,):
            yield from islice(samples, limit)

    return limited


def batch(
    reader: ReaderCreator[T], batch_size: int, drop_last: bool = False
) -> ReaderCreator[list[T]]:
    """Lists of `batch_size` samples.

    The last list is shorter if the samples do not divide evenly; with `drop_last` it is left
    out.
    """
    some_callables([reader], "reader")
    size = at_least(1, batch_size, "batch_size")

    def batched() -> Iterator[list[T]]:
        with opened(reader) as (samples,):
            while True:
                taken = list(islice(samples, size))
                if not taken or (drop_last and len(taken) < size):
                    return
                yield taken
                del taken  # who took it decides alone how long it lives

    return batched
