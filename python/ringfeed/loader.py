"""Loader: batches of files for a training loop."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Type, Union

from . import _core, chains


class Shuffle(NamedTuple):
    """How records are shuffled.

    Attributes:
        mode: "window" or "block" of `size` records, "blocks", "global" or "none".
        size: records; of "blocks" a window behind it, or 0.
        seed: None takes the Loader's.
    """

    mode: str = "global"
    size: int = 0
    seed: Optional[int] = None


class Loader:
    """Batches of record files, as an iterator of dicts of Arrays.

    One loop at a time reads it. A new `for` behind the end starts the data again. Nothing is
    opened before the first batch.

    Args:
        files: a path, a glob, or many (see open_files).
        parse: a parser of ringfeed.parse; None: the records' bytes.
        batch: rows of a batch, over all ranks.
        shuffle: a Shuffle, a mode's name, True ("global"), or None.
        seed: of the shuffle.
        passes: over the data; 0: without end.
        rank: a Rank, None (this process alone), or "auto": the launcher's.
        drop_remainder, pad, split_by_files, slots: see `batch`.
        as_tuple: batches are tuples in the order of the fields instead of dicts.
        map: a function that makes of each batch what the loop gets.
        options: see open_files.
    """

    def __init__(
        self,
        files: Union[chains.PathLike, Iterable[chains.PathLike]],
        *,
        parse: Optional[_core.RecordParser] = None,
        batch: int,
        shuffle: Union[Shuffle, str, bool, None] = None,
        seed: int = 0,
        passes: int = 1,
        rank: Union[chains.Rank, str, None] = None,
        drop_remainder: bool = False,
        pad: bool = False,
        split_by_files: bool = False,
        slots: int = 0,
        as_tuple: bool = False,
        map: Optional[Callable[[Any], Any]] = None,
        **options: Any,
    ) -> None:
        self.rank = chains.find_rank() if rank == "auto" else rank
        reader = chains.open_files(files, seed=seed, **options)
        reader = _shuffled(reader, shuffle, seed)
        reader = chains.parse(reader, parse if parse is not None else _core.raw_parser())
        if passes != 1:
            reader = chains.multi_pass(reader, passes)
        self._reader = chains.batch(
            reader, batch, drop_remainder, pad, slots, self.rank, split_by_files
        )
        self._names: Optional[list[str]] = None
        self._as_tuple = as_tuple
        self._map = map
        self._at_end = False

    def __iter__(self) -> Iterator[Any]:
        if self._at_end:
            self._reader.reset()
            self._at_end = False
        return self

    def __next__(self) -> Any:
        try:
            arrays = next(self._reader)
        except StopIteration:
            self._at_end = True
            raise
        batch = arrays if self._as_tuple else dict(zip(self.names, arrays))
        return batch if self._map is None else self._map(batch)

    @property
    def names(self) -> list[str]:
        """The fields' names, in the order of the declaration."""
        if self._names is None:
            self._names = [slot[0] for slot in self._reader.slots]
        return self._names

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands: behind the last batch that it got."""
        return json.loads(self._reader.position())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on there, also where another number of ranks saved it."""
        self._reader.restore(json.dumps(state))
        self._at_end = False

    def stats(self) -> dict[str, Any]:
        """The pipeline's report."""
        return self._reader.stats()

    def close(self) -> None:
        """Ends the threads; more calls do nothing."""
        self._reader.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


def _shuffled(
    reader: _core.Reader, shuffle: Union[Shuffle, str, bool, None], seed: int
) -> _core.Reader:
    if shuffle is None or shuffle is False:
        return reader
    if shuffle is True:
        shuffle = Shuffle()
    elif isinstance(shuffle, str):
        shuffle = Shuffle(shuffle)
    chosen = seed if shuffle.seed is None else shuffle.seed
    return chains.shuffle(reader, shuffle.mode, shuffle.size, chosen)
