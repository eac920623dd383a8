"""One pass over reader creators: opened together, and closed however the pass ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, TypeVar

T = TypeVar("T")

ReaderCreator = Callable[[], Iterable[T]]
"""A function without arguments that returns a fresh iterator over the samples of one pass."""


@contextmanager
def opened(*readers: ReaderCreator[Any]) -> Iterator[list[Iterator[Any]]]:
    """Opens an iterator of each reader, in their order, and closes those that can be closed.

    They are closed in the reverse order, also if one of them failed to open.
    """
    with ExitStack() as stack:
        iterators: list[Iterator[Any]] = []
        for reader in readers:
            iterator = iter(reader())
            close = getattr(iterator, "close", None)
            if close is not None:
                stack.callback(close)
            iterators.append(iterator)
        yield iterators
