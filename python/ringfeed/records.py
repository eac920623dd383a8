"""Records: those of files by their numbers, without an order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Literal, NamedTuple, Sequence
from typing import SupportsIndex, Union

from . import _core, chains
from .dataset import Parser
from .parsers import CsvByHeader, asks_files, inferred

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RecordPlace(NamedTuple):
    """A record of a batch, as Loader.which finds it.

    Attributes:
        file: the name of its file.
        record: its number in that file, from 0.
        number: its number in the data set, from 0, as Loader.record and Records take it.
        row: the row of the batch on this rank, from 0.
        units: those that a planned batch has of it; 0 of others.
    """

    file: str
    record: int
    number: int
    row: int
    units: int


def places_of(reader: _core.Reader, batch: int, position: str = "") -> list[RecordPlace]:
    """The records of a batch of the reader's."""
    found = reader.which(batch, position)
    names = reader.file_names() if found else []
    return [
        RecordPlace(names[file], record, number, row, units)
        for number, file, record, row, units in found
    ]


class Records:
    """The records of files by their numbers, from 0, file after file: a map-style data set.

    `records[17]` is a dict of Arrays, a field each, without a dimension for rows;
    `records[[5, 1]]` and `records[10:20]` are batches of these, in that order. Each call reads
    from the files in its thread: nothing runs ahead, and there is no shuffle, which is what a
    Loader is for. Threads may share it. A forked child opens the files again, and with
    parse="auto" it can be pickled, so Torch's DataLoader takes it, with workers too. The files'
    indexes tell places, and are made, and kept, if they are missing.

    Args:
        files: a path, a glob, a Source, or many (see open_files).
        parse: as Loader's; None: the records' bytes, as one field "bytes".
        options: see open_files.

    Raises:
        IndexError: there is no record of that number.
        Damaged: the record is damaged or refused, with its place.
        TypeError, ValueError, ringfeed.Error: arguments that cannot work, or records without
            numbers (streams, compressed files).
    """

    def __init__(
        self,
        files: chains.Files,
        *,
        parse: Union[_core.RecordParser, Parser, CsvByHeader, Literal["auto"], None] = "auto",
        **options: Unpack[chains.OpenOptions],
    ) -> None:
        if "subset" in options:
            raise ValueError("Records numbers all records: a subset is for a Loader")
        self._files = chains.file_names(files)
        self._given: tuple[Any, dict[str, Any]] = (parse, chains.check_open_options(options))
        self._open()

    def _open(self) -> None:
        parse, options = self._given
        if isinstance(parse, CsvByHeader):
            parse, options = parse.of_files(chains.path_names(self._files), options)
        if asks_files(parse):
            found = inferred(self._files, options)
            parse, options = found.parser, found.options
        reader = chains.open_files(self._files, **options)
        self._reader = chains.parse(reader, parse or _core.raw_parser(), 0)
        self._process = os.getpid()
        self._count = sum(self._reader.file_records())

    def _of_this_process(self) -> _core.Reader:
        if self._process != os.getpid():
            self._open()
        return self._reader

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names, in the order of the declaration."""
        return tuple(slot[0] for slot in self._reader.slots)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Union[int, slice, Sequence[int]]) -> dict[str, _core.Array]:
        if isinstance(number, slice):
            number = range(self._count)[number]
        if isinstance(number, SupportsIndex):
            return self._of_this_process().record_at(self._number(number))
        numbers = [self._number(one) for one in number]
        if not numbers:
            raise ValueError("a batch of no records: name some")
        return self._of_this_process().records_at(numbers)

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, _core.Array]]:
        """The records one by one, as Torch's DataLoader asks for a batch."""
        return [self[number] for number in numbers]

    def __iter__(self) -> Iterator[dict[str, _core.Array]]:
        return (self[number] for number in range(self._count))

    def _number(self, number: SupportsIndex) -> int:
        index = number.__index__()
        if not -self._count <= index < self._count:
            raise IndexError(f"there is no record {index}: there are {self._count}")
        return index % self._count

    def __repr__(self) -> str:
        return f"<ringfeed.Records: {self._count} with {', '.join(self.names)}>"

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._given[0], _core.RecordParser):
            raise TypeError(
                "Records with a parser of ringfeed's cannot be pickled: say parse=\"auto\", or "
                "start the workers by fork"
            )
        state = dict(self.__dict__)
        del state["_reader"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
