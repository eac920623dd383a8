"""Chains of readers, as in C++: open_files and the decorators. Loader builds the usual one."""

from __future__ import annotations

import os
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Union

from . import _core

PathLike = Union[str, "os.PathLike[str]"]

_OPEN_OPTIONS = frozenset(
    "format cycle stripe_bytes skip_damaged max_damaged max_record_bytes unordered reopen_limit "
    "first_epoch index index_folder note_records threads arena_bytes shuffle_files seed io "
    "block_bytes in_flight_bytes direct retries".split()
)


class Rank(NamedTuple):
    """Which of several like processes this one is."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    source: str = "none"


def find_rank() -> Rank:
    """The rank that a launcher left in the environment (torchrun, Open MPI, Slurm, …).

    Raises:
        InvalidArgument: where its variables contradict each other; it names them.
    """
    return Rank(*_core.find_rank())


def file_names(files: Union[PathLike, Iterable[PathLike]]) -> list[str]:
    """One path or many, globs and "~" among them, as open_files takes them."""
    listed = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    return [os.path.expanduser(os.fspath(name)) for name in listed]


def check_open_options(options: dict[str, Any]) -> dict[str, Any]:
    """Raises TypeError for a name that is no option of open_files."""
    unknown = sorted(set(options) - _OPEN_OPTIONS)
    if unknown:
        raise TypeError(
            f"no such option: {', '.join(unknown)}; there are {', '.join(sorted(_OPEN_OPTIONS))}"
        )
    return {name: value for name, value in options.items() if value is not None}


def open_files(files: Union[PathLike, Iterable[PathLike]], **options: Any) -> _core.Reader:
    """Records of files, in an order that depends on these options alone, never on threads.

    Args:
        files: a path, a glob, a stream ("-", FIFO, "unix:PATH", "tcp:HOST:PORT"), or many.
        format: "" (by name or first bytes), "tfrecord", "recordio", "lines", "rows:160", …
        cycle, stripe_bytes: files open at a time, and how much of each in turn.
        skip_damaged, max_damaged: pass over damaged records, and up to how many.
        max_record_bytes: a larger one is an error.
        unordered: gives the order up for speed on uneven files.
        shuffle_files, seed: the list is permuted anew in each pass.
        first_epoch: number of the first pass.
        index, index_folder: whether, and where, an index of the records is kept.
        note_records: stats and journals know which records a batch holds.
        threads: 0: one a core, at most 16.
        io: "auto", "uring", "pread", "mmap"; block_bytes, in_flight_bytes, direct, retries.
        arena_bytes: this chain's share of the pinned memory.

    Raises:
        TypeError: an option that there is not.
        InvalidArgument, NotFound: options that cannot work, a glob without a match.
    """
    return _core.open_files(file_names(files), check_open_options(options))


def parse(records: _core.Reader, parser: _core.RecordParser) -> _core.Reader:
    """Records into fields; done last, straight into the batch."""
    return _core.parse(records, parser)


def shuffle(reader: _core.Reader, mode: str, size: int = 0, seed: int = 0) -> _core.Reader:
    """Shuffles by "window" or "block" of `size` records, "blocks" (a window of `size` behind
    shuffled stripes) or "global"."""
    return _core.shuffle(reader, mode, size, seed)


def batch(
    reader: _core.Reader,
    size: int,
    drop_remainder: bool = False,
    pad: bool = False,
    slots: int = 0,
    rank: Optional[Rank] = None,
    split_by_files: bool = False,
) -> _core.Reader:
    """`size` rows in one piece of pinned memory; with `rank` this process's part of them."""
    as_tuple = None if rank is None else tuple(rank)
    return _core.batch(reader, size, drop_remainder, pad, slots, as_tuple, split_by_files)


def multi_pass(reader: _core.Reader, passes: int) -> _core.Reader:
    """`passes` times over the data as one stream; 0: without end."""
    return _core.multi_pass(reader, passes)


def double_buffer(reader: _core.Reader, slots: int = 2) -> _core.Reader:
    """Keeps `slots` batches in memory."""
    return _core.double_buffer(reader, slots)


def share(reader: _core.Reader) -> _core.Reader:
    """A reader that several chains may stand on: together they get everything once."""
    return _core.share(reader)


def mix(
    sets: Sequence[tuple[Any, ...]],
    **options: Any,
) -> _core.Reader:
    """Mixes (reader, weight[, passes[, most_records]]) by exact shares."""
    listed = []
    for reader, weight, *limits in sets:
        passes, most = (*limits, *(1, 0)[len(limits):])
        listed.append((reader, float(weight), passes, most))
    return _core.mix(listed, check_open_options(options))
