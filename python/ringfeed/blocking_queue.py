"""The queue that Python programs and chains of C++ readers share."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from . import _core
from .arguments import counted
from .fields import slot_tuples

__all__ = ["LoDTensorBlockingQueue"]


class LoDTensorBlockingQueue(_core.LoDTensorBlockingQueue):
    """A bounded queue of instances: one array for each slot.

    Args:
        capacity: instances that it holds; more than 0.
        slots: (name, dtype, dims, lod_levels) each; lod_levels may be left out. dims are all
            dimensions, a negative one stands for any number. If every dtype is None they are
            those of the first instance that is pushed; later ones must have the same.

    `push`, `pop`, `close`, `kill`, `fail`, `size`, `cap`, `is_closed`, `is_killed`, `await_dtypes`
    and `reader`, a chain's Reader that takes from it. Every method may be called by any thread.

    Raises:
        TypeError, ValueError: no capacity, no slots, a dtype that there is not, some dtypes but
            not all.
        MemoryError: a capacity beyond the machine's memory.
    """

    def __init__(self, capacity: int, slots: Iterable[Sequence[Any]]) -> None:
        places = counted(capacity, "capacity")
        declared, learns = _dtypes_filled_in(slots)
        try:
            super().__init__(places, slot_tuples(declared), learns)
        except MemoryError:
            raise MemoryError(f"capacity={places}: the places alone take too much") from None


def _dtypes_filled_in(slots: Iterable[Sequence[Any]]) -> tuple[list[Sequence[Any]], bool]:
    """The slots, with any dtype in place of None, and whether they are to be learnt."""
    listed = list(slots)
    unknown = [
        isinstance(slot, (tuple, list)) and len(slot) > 1 and slot[1] is None for slot in listed
    ]
    if not any(unknown):
        return listed, False
    if not all(unknown):
        raise ValueError(
            "some slots have a dtype and others None: declare all of them, or none, and they are "
            "those of the first instance"
        )
    return [(slot[0], "float32", *slot[2:]) for slot in listed], True
