"""Mini-batches of Python samples to arrays, as PaddlePaddle's DataFeeder makes them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

if TYPE_CHECKING:
    import numpy

__all__ = ["DataFeeder", "Fed", "Slot"]

Shape = tuple[int, ...]

_AT_ONCE = (bool, int, float, list, tuple)  # no arrays of others: they go block by block


class Slot(NamedTuple):
    """What one entry of a sample is to become."""

    name: str
    """Names the slot in errors."""
    shape: Sequence[int]
    """Of one element; -1 is taken from the data. A first dimension of -1 is the batch's and does
    not count: ``[-1, 784]`` and ``[784]`` are the same. (An element whose own first dimension is
    open is ``[-1, -1, ...]``.)"""
    dtype: Any
    """What ``numpy.dtype`` takes, for instance ``"float32"``."""
    lod_level: int = 0
    """How deep the ragged nesting of an entry is; 0: none, an entry is one element."""


class Fed(NamedTuple):
    """One slot of a mini-batch."""

    values: numpy.ndarray
    """``[batch, *shape]``, or with LoD ``[elements of all sequences, *shape]``: a C-contiguous
    array of the slot's dtype that shares no memory with the samples."""
    lod: list[list[int]]
    """Offsets per level, the top level first: entry i of a level spans ``[lod[l][i], lod[l][i+1])``
    of the next level, of `values` in the last one. Empty for lod_level 0."""


class DataFeeder:
    """Converts mini-batches: lists of samples, which are tuples with one entry per slot.

    ::

        feeder = DataFeeder([("image", [-1, 784], "float32", 0), ("words", [-1, 1], "int64", 1)])
        image, words = feeder.feed([(pixels, [2, 5, 7]), (more_pixels, [4])])
        image.values.shape   # (2, 784)
        words.values.shape   # (4, 1)
        words.lod            # [[0, 3, 4]]

    `slots` are `Slot`, or tuples of its fields. A feeder keeps nothing between calls; several
    threads may use it. NumPy is needed.
    """

    def __init__(self, slots: Iterable[Union[Slot, tuple[Any, ...]]]) -> None:
        """Raises TypeError or ValueError for a slot whose shape, dtype or lod_level is none."""
        self._slots = [_Converter(Slot(*slot)) for slot in slots]
        if not self._slots:
            raise ValueError("no slot given")

    @property
    def slots(self) -> list[Slot]:
        """The slots as they were given."""
        return [converter.slot for converter in self._slots]

    def feed(self, samples: Iterable[Sequence[Any]]) -> list[Fed]:
        """One Fed per slot.

        An entry is what ``numpy.asarray`` takes; with LoD it is a list of lists, as deep as
        lod_level says, of such elements, where the innermost list may be an array
        ``[elements, *shape]``. An element with another number of dimensions than declared is
        reshaped if its size allows: a label ``3`` to ``[1]``, 784 pixels to ``[1, 28, 28]``.

        Numbers are converted if that keeps what they are: between floating point types, from
        integers to floating point, between integer types if the value fits.

        No sample gives arrays of no rows, in which dimensions of -1 are 0.

        Raises, always naming the slot and the sample (from 0):
            TypeError: A ragged entry where a dense one is declared; entries of different shapes
                if the shape is open; nesting that is not lod_level deep; values that the dtype
                cannot hold, as text or 0.5 in an integer slot.
            ValueError: A shape other than the declared one; an integer that does not fit; a
                sample that does not have one entry per slot.
        """
        rows = list(samples)
        for number, row in enumerate(rows):
            self._check_entries(number, row)
        return [
            converter.convert([row[i] for row in rows]) for i, converter in enumerate(self._slots)
        ]

    def _check_entries(self, number: int, row: Sequence[Any]) -> None:
        try:
            entries = len(row)
        except TypeError:
            raise TypeError(
                f"sample {number} is no tuple of entries but {type(row).__name__}"
            ) from None
        if entries != len(self._slots):
            raise ValueError(
                f"sample {number} has {entries} entries where {len(self._slots)} slots are declared"
            )


class _Block(NamedTuple):
    """What lies together in a sample: the element of a dense slot, or an innermost sequence."""

    sample: int
    elements: Any


class _Converter:
    """Of one slot."""

    def __init__(self, slot: Slot) -> None:
        import numpy

        self.slot = slot
        self._shape = _element_shape(slot)
        self._dtype = numpy.dtype(slot.dtype)
        self._lod_level = operator.index(slot.lod_level)
        if self._lod_level < 0:
            raise ValueError(f"slot '{slot.name}': lod_level must be at least 0")

    def convert(self, entries: list[Any]) -> Fed:
        if self._lod_level == 0:
            values = self._at_once(entries)
            if values is None:
                values = self._block_by_block([_Block(i, e) for i, e in enumerate(entries)])
            return Fed(values, [])
        lengths: list[list[int]] = [[] for _ in range(self._lod_level)]
        blocks: list[_Block] = []
        for sample, entry in enumerate(entries):
            self._unnest(sample, entry, lengths, blocks)
        lod = [[0, *accumulate(level)] for level in lengths]
        values = None
        if all(isinstance(block.elements, (list, tuple)) for block in blocks):
            values = self._at_once([element for block in blocks for element in block.elements])
        return Fed(self._block_by_block(blocks) if values is None else values, lod)

    def _unnest(
        self, sample: int, entry: Any, lengths: list[list[int]], blocks: list[_Block]
    ) -> None:
        """Appends the length of `entry` to the first level, and what is in it to the others."""
        if type(entry) not in (list, tuple):
            self._check_sequence(sample, entry, len(lengths))
        lengths[0].append(len(entry))
        if len(lengths) == 1:
            blocks.append(_Block(sample, entry))
            return
        for part in entry:
            self._unnest(sample, part, lengths[1:], blocks)

    def _check_sequence(self, sample: int, entry: Any, levels: int) -> None:
        if isinstance(entry, (str, bytes)) or not hasattr(entry, "__len__"):
            raise self._type_error(
                sample,
                f"{type(entry).__name__} where lod_level={self._lod_level} takes a sequence, "
                f"{self._lod_level - levels} levels deep",
            )
        if getattr(entry, "shape", None) == ():
            raise self._type_error(sample, "an array without dimensions where a sequence is taken")

    # Two ways to the same values. At once is for many small elements (labels, ids, arrays of the
    # slot's own dtype): one call for all of them. It gives up at anything uncommon, which block by
    # block handles or reports.

    def _at_once(self, elements: list[Any]) -> Optional[numpy.ndarray]:
        import numpy

        if not elements:
            return None
        if type(elements[0]) is numpy.ndarray:
            return self._stacked(elements)
        if not isinstance(elements[0], _AT_ONCE):
            return None
        try:
            array = numpy.array(elements)
            if array.dtype.kind not in "biuf":
                return None
            fitted = _fitted(array, self._shape)
            if _loss(fitted, self._dtype) is not None:
                return None
        except (TypeError, ValueError, OverflowError):
            return None
        return numpy.ascontiguousarray(fitted, dtype=self._dtype)

    def _stacked(self, elements: list[Any]) -> Optional[numpy.ndarray]:
        import numpy

        dtype, shape = self._dtype, elements[0].shape
        for element in elements:
            if type(element) is not numpy.ndarray or element.dtype != dtype:
                return None
            if element.shape != shape:
                return None
        try:
            fitted = _fitted(numpy.array(elements, dtype), self._shape)
        except ValueError:
            return None
        return numpy.ascontiguousarray(fitted)

    def _block_by_block(self, blocks: list[_Block]) -> numpy.ndarray:
        import numpy

        arrays = [self._array_of(block) for block in blocks]
        shape = self._common_shape(blocks, arrays)
        values = numpy.empty((sum(map(len, arrays)), *shape), self._dtype)
        row = 0
        for array in arrays:
            if len(array) > 0:
                values[row : row + len(array)] = array
            row += len(array)
        return values

    def _array_of(self, block: _Block) -> numpy.ndarray:
        """``[elements, *shape]``, of a dtype that the slot's dtype holds."""
        array = self._as_array(block)
        try:
            array = _fitted(array, self._shape)
        except ValueError:
            raise ValueError(
                f"{self._place(block.sample)}: an element of shape {list(array.shape[1:])} "
                f"where {list(self._shape)} is declared"
            ) from None
        loss = _loss(array, self._dtype)
        if loss is not None:
            raise loss(
                f"{self._place(block.sample)}: values of {array.dtype} do not go into "
                f"{self._dtype} unchanged"
            )
        return array

    def _as_array(self, block: _Block) -> numpy.ndarray:
        """The block as an array of numbers, which has a first dimension."""
        import numpy

        try:
            array = numpy.asarray(block.elements)
        except ValueError:
            raise self._ragged(block.sample, "a ragged list") from None
        except TypeError as error:
            raise self._type_error(block.sample, str(error)) from error
        if array.dtype.kind == "O" and _is_ragged(array):
            raise self._ragged(block.sample, "a ragged list")
        if self._lod_level == 0:
            return array[numpy.newaxis]
        if array.ndim == 0:
            raise self._type_error(
                block.sample, f"{type(block.elements).__name__} where a sequence is taken"
            )
        return array

    def _common_shape(self, blocks: list[_Block], arrays: list[numpy.ndarray]) -> Shape:
        """The shape of all elements; one that has no element has no say."""
        first: Optional[int] = None
        for i, array in enumerate(arrays):
            if len(array) == 0:
                continue
            if first is None:
                first = i
            elif array.shape[1:] != arrays[first].shape[1:]:
                raise self._ragged(
                    blocks[i].sample,
                    f"an element of shape {list(array.shape[1:])}, but "
                    f"{list(arrays[first].shape[1:])} in sample {blocks[first].sample}",
                )
        if first is None:
            return tuple(max(0, size) for size in self._shape)
        return tuple(arrays[first].shape[1:])

    def _place(self, sample: int) -> str:
        return f"slot '{self.slot.name}', sample {sample}"

    def _type_error(self, sample: int, what: str) -> TypeError:
        return TypeError(f"{self._place(sample)}: {what}")

    def _ragged(self, sample: int, what: str) -> TypeError:
        return self._type_error(
            sample,
            f"{what} where a dense array of shape {list(self._shape)} and dtype {self._dtype} is "
            f"declared; sequences of different lengths need lod_level={self._lod_level + 1}",
        )


def _element_shape(slot: Slot) -> Shape:
    shape = tuple(operator.index(size) for size in slot.shape)
    if shape and shape[0] == -1:
        shape = shape[1:]
    if any(size < -1 for size in shape):
        raise ValueError(f"slot '{slot.name}': a shape of {list(slot.shape)}")
    return shape


def _fitted(array: numpy.ndarray, shape: Shape) -> numpy.ndarray:
    """`array`, ``[rows, ...]``, as ``[rows, *shape]``. ValueError if it cannot be seen so."""
    if len(array) == 0:
        return array.reshape((0, *(max(0, size) for size in shape)))
    if array.ndim - 1 != len(shape):
        array = array.reshape((len(array), *shape))
    if all(declared in (-1, size) for declared, size in zip(shape, array.shape[1:])):
        return array
    raise ValueError("another shape")


def _loss(array: numpy.ndarray, dtype: numpy.dtype) -> Optional[type]:
    """What to raise if the values of `array` would not be the same numbers in `dtype`; or None."""
    import numpy

    if array.size == 0 or numpy.can_cast(array.dtype, dtype, "safe"):
        return None
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = numpy.iinfo(dtype)
        fits = limits.min <= int(array.min()) and int(array.max()) <= limits.max
        return None if fits else ValueError
    if array.dtype.kind in "biufc" and numpy.can_cast(array.dtype, dtype, "same_kind"):
        return None
    return TypeError


def _is_ragged(array: numpy.ndarray) -> bool:
    """Whether an array of objects holds lists or arrays: so older NumPy sees a ragged list."""
    import numpy

    return any(isinstance(item, (list, tuple, numpy.ndarray)) for item in array.flat)
