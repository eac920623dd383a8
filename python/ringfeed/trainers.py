"""What trainers of others do between a Loader and the loop: Accelerate, the Trainer of
Transformers, Ray Train, Lightning."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence

from .errors import InvalidArgument

if TYPE_CHECKING:
    from .loader import Loader


def _of_dispatcher(holder: Any) -> int:
    if holder.end_of_dataloader:
        return 0
    return 1 if holder.split_batches else int(holder.state.num_processes)


#: Classes that ask for batches before the loop gets them, and how many of these one holds: what
#: Accelerate and Ray Train prepare, and what Lightning reads a loader of unknown length by.
_HELD: dict[str, Callable[[Any], int]] = {
    "DataLoaderShard": lambda holder: 0 if holder.end_of_dataloader else 1,
    "DataLoaderDispatcher": _of_dispatcher,
    "_WrappedDataLoader": lambda holder: 0 if holder.next_batch is None else 1,
    "_PrefetchDataFetcher": lambda holder: len(holder.batches),
}
#: Accelerate's, which save the state of a data set when it is that of their loop.
_SAVERS = ("DataLoaderShard", "DataLoaderDispatcher")
#: Those that leave the first `skip_batches` batches out, as skip_first_batches makes them.
_SKIPPERS = (*_SAVERS, "SkipDataLoader")


class HeldBack:
    """What a holder took from a Loader, and its loop has not got yet."""

    def __init__(self, holder: Any) -> None:
        self._holder = holder  # also after its loop: a `break` leaves batches there
        self._count = _HELD[_named(holder, _HELD)]
        self._states: deque[dict[str, Any]] = deque()

    def note(self, state: dict[str, Any]) -> None:
        """Before each batch that is taken."""
        self._states.append(state)
        while len(self._states) > self._count(self._holder) + 1:
            self._states.popleft()

    def state(self) -> Optional[dict[str, Any]]:
        """The Loader's before the first batch that is held; None if there is none."""
        held = min(self._count(self._holder), len(self._states))
        return self._states[-held] if held else None


class _NotedLoop:
    """A loop over a Loader's epoch for a holder."""

    def __init__(self, loader: Loader, loop: Iterator[Any], held_back: HeldBack) -> None:
        self._loader, self._loop, self._held_back = loader, loop, held_back

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._held_back.note(self._loader._state())
        return next(self._loop)


def noted(loader: Loader, loop: Iterator[Any], callers: Sequence[Any]) -> Iterator[Any]:
    """`loop`, which notes the Loader's states if one of the callers holds batches back."""
    holder = _find(callers, _HELD)
    if holder is None:
        return loop
    loader._held_back = HeldBack(holder)
    return _NotedLoop(loader, loop, loader._held_back)


def is_saved_in_time(callers: Sequence[Any]) -> bool:
    """Whether one of these asks for a state at the time when it is that of its loop."""
    return _find(callers, _SAVERS) is not None


def refuse_skipping(loader: Loader, callers: Sequence[Any]) -> None:
    """Raises InvalidArgument if one of these leaves batches out that are not those of before a
    stop: the Loader, at the beginning of its loop, stands after them or in another epoch."""
    skipped = getattr(_find(callers, _SKIPPERS), "skip_batches", 0)
    if not skipped:
        return
    if loader.batch_number > 0:
        raise InvalidArgument(
            f"this Loader goes on after batch {loader.batch_number}, and skip_first_batches would "
            f"leave {skipped} more out: do without it, or say ignore_data_skip=True to the Trainer"
        )
    trainer = _find(callers, ("Trainer",))
    trained = int(getattr(getattr(trainer, "state", None), "epoch", None) or 0)
    wanted = trained if loader._plan is None else trained * max(loader._plan.passes, 1)
    if trainer is not None and loader.epoch != wanted:
        raise InvalidArgument(
            f"the Trainer goes on in epoch {wanted}, and this Loader begins epoch {loader.epoch}, "
            "so rows would be lost and others come twice: save and load its state with each "
            "checkpoint in a TrainerCallback, and say ignore_data_skip=True"
        )


def _find(callers: Sequence[Any], names: Any) -> Optional[Any]:
    """The innermost of a class with one of these names."""
    return next((caller for caller in callers if _named(caller, names)), None)


def _named(caller: Any, names: Any) -> str:
    """Which of these names one of its classes has, "" if none."""
    return next((kind.__name__ for kind in type(caller).__mro__ if kind.__name__ in names), "")
