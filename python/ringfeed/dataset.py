"""Data sets, iterables and parsers of the user's own, as Python has them."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _core, counterparts
from .arguments import counted, some_callables
from .fields import Field, Fields, dtype_name, field_list, field_tuples, slot_tuples

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
        what ``numpy.asarray`` takes. What it raises comes out at the loop. There a field without a
        value, or with None, or with one of another size, is a ValueError, and so is a number that
        the type of an integer field cannot hold: 300.5, or 300 of uint8."""
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


def parse_samples(records: _core.Reader, parser: Parser) -> _core.Reader:
    """Records into the fields of a Parser of the user's."""
    fields = field_list(parser.fields)
    names = [field.name for field in fields]
    who = f"{type(parser).__name__}.parse"

    def row_of(sample: bytes) -> tuple[Any, ...]:
        values = _values(parser.parse(sample), names, who)
        return tuple(_buffer(value, place) for value, place in zip(values, places))

    reader = _core.parse_samples(records, row_of, field_tuples(parser.fields))
    places = [_Place(field, who) for field in fields]  # after the check of the dtypes
    return reader


class _Place:
    """Where a Parser's values of a field go.

    Attributes:
        dtype: its name.
        bytes: of a record's values; of a ragged field those of one unit.
        name: the Parser's class and the field, as errors begin.
    """

    def __init__(self, field: Field, who: str) -> None:
        self.dtype = dtype_name(field.dtype)
        self._shape = list(field.shape)
        self._ragged = any(dimension < 0 for dimension in self._shape)
        self._item_bytes = int("".join(filter(str.isdigit, self.dtype)) or 8) // 8
        inner = math.prod(dimension for dimension in self._shape if dimension >= 0)
        self.bytes = self._item_bytes * inner
        self.name = f'{who}: field "{field.name}"'

    def fits(self, count: int) -> bool:
        """Whether that many bytes are a row."""
        return count % self.bytes == 0 if self._ragged and self.bytes else count == self.bytes

    def misfit(self, count: int, shape: str) -> ValueError:
        """For so many bytes, of an array of that shape if they are one."""
        unit = "units of " if self._ragged else "of "
        return ValueError(
            f"{self.name} has {self.dtype} {self._shape} a record, {unit}{self.bytes} bytes, got "
            f"{shape}{count} bytes"
        )


def _values(row: Any, names: list[str], who: str) -> list[Any]:
    """A row's values in the order of the fields; ValueError if one of them is missing."""
    if isinstance(row, Mapping):
        values = [row.get(name) for name in names]
    else:
        values = [] if row is None else list(row)
        if len(values) > len(names):
            raise ValueError(f"{who} gave {len(values)} values, declared are {', '.join(names)}")
        values += [None] * (len(names) - len(values))
    for name, value in zip(names, values):
        if value is None:
            raise ValueError(
                f'field "{name}" was not written by {who}: it must give every declared field'
            )
    return values


def _buffer(value: Any, place: _Place) -> Any:
    """What is stored of a value; an error of its type or its size names the class and the field."""
    if isinstance(value, (bytes, bytearray)):
        if not place.fits(len(value)):
            raise place.misfit(len(value), "")
        return value
    import numpy

    try:
        given = numpy.asarray(value)
        is_complex = given.dtype.kind == "c" and numpy.dtype(place.dtype).kind in "iu"
        with numpy.errstate(invalid="ignore"):  # the comparison below finds what is invalid
            array = numpy.ascontiguousarray(given.real if is_complex else given, place.dtype)
        changed = numpy.empty(0)
        # Objects, too: Decimals and Fractions are cut off as floats are.
        if given.dtype.kind in "iufcO" and array.dtype.kind in "iu" and given.dtype != array.dtype:
            changed = numpy.atleast_1d(given)[array != given]
    except (ArithmeticError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place.name} is no {place.dtype}: {error}") from error
    if changed.size:
        raise ValueError(f"{place.name} is no {place.dtype}: it cannot hold {changed[0]}")
    if not place.fits(array.nbytes):
        raise place.misfit(array.nbytes, f"an array {list(given.shape)} of ")
    return array
