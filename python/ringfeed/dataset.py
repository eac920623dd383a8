"""Data sets, iterables and parsers of the user's own, as Python has them."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _core, counterparts
from .arguments import counted, some_callables
from .fields import Fields, slot_tuples

__all__ = ["Dataset", "Parser", "RandomAccessDataset", "from_dataset", "from_iterable"]


class Dataset:
    """Samples, one after another. A chain calls one method at a time, on a thread of its own."""

    def next(self) -> Optional[Union[bytes, bytearray, memoryview]]:
        """The next sample's bytes; None at the end of the pass. What it raises comes out at the
        loop, after the samples before it."""
        raise NotImplementedError("a Dataset has next()")

    def reset(self) -> Optional[bool]:
        """Starts the next pass. False if that cannot be done."""
        return False


class RandomAccessDataset(Dataset):
    """Samples that have numbers: `__len__` and `__getitem__` from 0, in order in each pass."""

    _next = 0

    def __len__(self) -> int:
        raise NotImplementedError("a RandomAccessDataset has __len__()")

    def __getitem__(self, index: int) -> Union[bytes, bytearray, memoryview]:
        raise NotImplementedError("a RandomAccessDataset has __getitem__()")

    def next(self) -> Optional[Union[bytes, bytearray, memoryview]]:
        if self._next >= len(self):
            return None
        self._next += 1
        return self[self._next - 1]

    def reset(self) -> Optional[bool]:
        self._next = 0
        return True


class Parser:
    """Turns samples into fields. Several threads call `parse`: what it changes in the parser it
    guards. NumPy is needed but for values that are bytes."""

    fields: Fields = ()

    def parse(self, sample: bytes) -> Union[Mapping[str, Any], Sequence[Any]]:
        """The values of all fields by name, or in their order: bytes as they are to be stored, or
        what ``numpy.asarray`` takes. Declare it as ``parse(self, sample, row)`` to get the Row,
        which tells file and record and draws random numbers. What it raises comes out at the loop.
        There a field without a value, or with None, or with one of another size, is a ValueError,
        and so is a number that the type of an integer field cannot hold: 300.5, or 300 of uint8.
        ringfeed.Damaged refuses the sample: with skip_damaged it is passed over, and counted."""
        raise NotImplementedError("a Parser has parse()")


@counterparts.hinting({})
def from_dataset(dataset: Dataset, ahead: int = 0, ahead_bytes: int = 0) -> _core.Reader:
    """The samples as records of a chain.

    Args:
        dataset: its next() is called on a thread of the chain's.
        ahead, ahead_bytes: so many samples, and so many of their bytes, are made beyond what the
            loop got; a shuffle and a batch get what they need all the same. 0 for both: the rows
            of `slots` - 1 batches (3 if `batch` is not told `slots`), without `batch` 64.
    """
    if not callable(getattr(dataset, "next", None)):
        raise TypeError(f"a Dataset has next() and reset(), a {type(dataset).__name__} has not")
    return _core.from_dataset(
        dataset, counted(ahead, "ahead"), counted(ahead_bytes, "ahead_bytes")
    )


@counterparts.hinting({})
def from_iterable(
    creator: Callable[[], Iterable[Any]],
    slots: Iterable[Sequence[Any]],
    ahead: int = 0,
    ahead_bytes: int = 0,
) -> _core.Reader:
    """A chain's reader of what creator()'s iterator gives: an array for each slot, as
    LoDTensorBlockingQueue.push takes and copies them. A thread of the chain's runs it; each pass
    calls `creator` again. What it raises comes out at the loop. `ahead` and `ahead_bytes` as of
    from_dataset; 0 for both and no `batch` after it: 4 items."""
    some_callables([creator], "creator of an iterator")
    return _core.from_iterable(
        creator, slot_tuples(slots), counted(ahead, "ahead"), counted(ahead_bytes, "ahead_bytes")
    )
