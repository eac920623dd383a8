"""The queue that Python programs and chains of C++ readers share."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

from . import _core
from .fields import dtype_name

__all__ = ["LoDTensorBlockingQueue", "from_iterable"]


class LoDTensorBlockingQueue(_core.LoDTensorBlockingQueue):
    """A bounded queue of instances: one array for each slot.

    Args:
        capacity: instances that it holds; more than 0.
        slots: (name, dtype, dims, lod_levels) each; lod_levels may be left out. dims are all
            dimensions, a negative one stands for any number.

    `push`, `pop`, `close`, `kill`, `fail`, `size`, `cap`, `is_closed`, `is_killed` and `reader`, a
    chain's Reader that takes from it. Every method may be called by any thread.

    Raises:
        InvalidArgument: no capacity, no slots, a dtype that there is not.
    """

    def __init__(self, capacity: int, slots: Iterable[Sequence[Any]]) -> None:
        super().__init__(capacity, [_slot_tuple(*slot) for slot in slots])


def from_iterable(
    creator: Callable[[], Iterable[Any]], slots: Iterable[Sequence[Any]]
) -> _core.Reader:
    """A chain's reader of what creator()'s iterator gives: an array for each slot, as
    LoDTensorBlockingQueue.push takes and copies them. A thread of the chain's runs it; each pass
    calls `creator` again. What it raises comes out at the loop."""
    return _core.from_iterable(creator, [_slot_tuple(*slot) for slot in slots])


def _slot_tuple(
    name: str, dtype: Any, dims: Sequence[int], lod_levels: int = 0
) -> tuple[str, str, list[int], int]:
    return name, dtype_name(dtype), list(dims), lod_levels
