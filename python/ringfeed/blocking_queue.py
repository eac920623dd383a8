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
            dimensions, a negative one stands for any number.

    `push`, `pop`, `close`, `kill`, `fail`, `size`, `cap`, `is_closed`, `is_killed` and `reader`, a
    chain's Reader that takes from it. Every method may be called by any thread.

    Raises:
        TypeError, ValueError: no capacity, no slots, a dtype that there is not.
        MemoryError: a capacity beyond the machine's memory.
    """

    def __init__(self, capacity: int, slots: Iterable[Sequence[Any]]) -> None:
        places = counted(capacity, "capacity")
        try:
            super().__init__(places, slot_tuples(slots))
        except MemoryError:
            raise MemoryError(f"capacity={places}: the places alone take too much") from None
