"""What a Loader's chain is built of."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Callable, NamedTuple, Optional, Union

from . import _core, chains
from .arguments import counted
from .compiled import Compiled
from .dataset import Parser
from .devices import DevicePlan
from .errors import InvalidArgument, Unsupported
from .parsers import inferred
from .ranks import Rank
from .row_map import MapRows, draws
from .source import Source
from .steps import Batch, BucketBatch, Pack, PlannedBatch, Steps, TokenBatch


class Shuffle(NamedTuple):
    """How records are shuffled.

    Attributes:
        mode: "window" or "block" of `size` records, "stripes", "global" or "none".
        size: records; of "stripes" a window after it, or 0.
        seed: None takes the Loader's.
    """

    mode: str = "global"
    size: int = 0
    seed: Optional[int] = None


def shuffle_of(shuffle: Union[Shuffle, str, int, None]) -> Optional[Shuffle]:
    """The Shuffle that a Loader's argument stands for, None for no shuffle."""
    if shuffle is None or shuffle is False:
        return None
    if shuffle is True:
        return Shuffle()
    if isinstance(shuffle, (str, Shuffle)):
        chosen = Shuffle(shuffle) if isinstance(shuffle, str) else shuffle
        return None if chosen.mode == "none" else chosen
    return Shuffle("window", _window_of(shuffle))


def _window_of(shuffle: Any) -> int:
    """A number of records, for instance NumPy's. 1 and 0 may be meant as True and False, or as
    windows that shuffle nothing: they are refused."""
    try:
        size = counted(shuffle, "shuffle")
    except TypeError:
        raise TypeError(
            'shuffle is "global", True, None, the records of a window (shuffle=8192), or '
            f"Shuffle(mode, size), not {shuffle!r}"
        ) from None
    if size < 2:
        raise ValueError(
            f"shuffle={size} is a window that shuffles nothing: say a larger one, True for a "
            "global shuffle, or None for none"
        )
    return size


def tuned_feed_of(options: dict[str, Any]) -> tuple[int, int, str, str]:
    """Batches in memory, on each device, how they come there, and on which kind of devices, as the
    options' tuning has them; 0 and "": not said."""
    return _core.tuned_feed(options["tuned"]) if "tuned" in options else (0, 0, "", "")


#: The function of a chain that makes a Loader's batches.
_PLANNED = {
    Pack: "pack", TokenBatch: "token_batch", BucketBatch: "bucket_batch", Batch: "batch"
}
#: Arguments of these that go to Steps.
_STEPS = ("rest", "balance", "rank_weights", "lengths")


def chain_of(reader: Union[_core.Reader, _core.DeviceFeed]) -> _core.Reader:
    """The chain that says in which order the records come."""
    return reader.input if isinstance(reader, _core.DeviceFeed) else reader


@dataclass(frozen=True)
class LoaderPlan:
    """A Loader's arguments; builds its chain for any epoch."""

    files: list[Union[str, Source]]
    parse: Union[_core.RecordParser, Parser, None]
    batch: Union[int, PlannedBatch]
    shuffle: Optional[Shuffle]
    seed: int
    passes: int
    rank: Optional[Rank]
    drop_remainder: bool
    pad: bool
    split_by_files: bool
    slots: int
    filter: Union[Compiled, Callable[[bytes], Any], None]
    map: Union[Compiled, MapRows, None]
    options: dict[str, Any]
    devices: Optional[DevicePlan] = None
    empty_batches: Optional[bool] = None
    inferred_parse: str = ""
    classes: tuple[str, ...] = ()

    def with_parser(self) -> "LoaderPlan":
        """With the parser that the files tell. Warns if they tell none and may have one."""
        found = inferred(self.files, self.options)
        parse, options = found.parser, found.options
        return replace(self, parse=parse, options=options, inferred_parse=found.call)

    def with_labels(self) -> "LoaderPlan":
        """The same with a field "label": the number of each file's folder."""
        paths = [file for file in self.files if isinstance(file, str)]
        if isinstance(self.parse, Parser) or len(paths) < len(self.files):
            raise TypeError(
                'label="folder" labels what a parser of ringfeed\'s makes of files: a Parser of '
                "yours, and one of a Source, gives the label itself, by Row.file"
            )
        classes = _core.find_folders(paths)
        parse = _core.folder_label_parser(self.parse or _core.raw_parser(), classes)
        return replace(self, parse=parse, classes=tuple(classes))

    @property
    def drawn_anew(self) -> bool:
        """Whether each epoch has an order or draws of its own, from sources that can be opened
        again."""
        drawn = self.shuffle is not None or bool(self.options.get("shuffle_files"))
        drawn = drawn or draws(self.parse, self.map)
        paths = [name for name in self.files if isinstance(name, str)]
        return drawn and not any(_core.is_stream_name(path) for path in paths)

    def build(self, epoch: int) -> Union[_core.Reader, _core.DeviceFeed]:
        """The chain whose first pass is number `epoch`, on its devices."""
        chain = self._build_chain(epoch)
        return chain if self.devices is None else self.devices.feed(chain)

    def _build_chain(self, epoch: int) -> _core.Reader:
        options = dict(self.options)
        if epoch:
            options["first_epoch"] = (options.get("first_epoch") or 0) + epoch
        reader = chains.open_files(self.files, seed=self.seed, **options)
        if self.shuffle is not None:
            seed = self.seed if self.shuffle.seed is None else self.shuffle.seed
            reader = chains.shuffle(reader, self.shuffle.mode, self.shuffle.size, seed)
        if self.filter is not None:
            reader = chains.filter(reader, self.filter)
        if self.parse is not None or self.map is None:
            reader = chains.parse(reader, self.parse or _core.raw_parser(), self.seed)
        if self.map is not None:
            reader = chains.map(reader, self.map, self.seed)
        if self.passes != 1:
            reader = chains.multi_pass(reader, self.passes)
        if not isinstance(self.batch, int):
            return self._planned(reader, self.batch)
        return chains.batch(
            reader,
            self.batch,
            self.drop_remainder,
            self.pad,
            self.slots,
            self.rank,
            self.split_by_files,
            self.empty_batches,
        )

    def _planned(self, reader: _core.Reader, batch: PlannedBatch) -> _core.Reader:
        given = {field.name: getattr(batch, field.name) for field in fields(batch)}
        of_steps = {name: given.pop(name) for name in _STEPS if name in given}
        make = getattr(chains, _PLANNED[type(batch)])
        steps = Steps(seed=self.seed, **of_steps)
        planned: _core.Reader = make(
            reader, **given, slots=self.slots, rank=self.rank, steps=steps
        )
        return planned

    def described(self) -> list[str]:
        """What one may want to know of it at a glance."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        first = [getattr(file, "name", file) for file in self.files[:1]]  # also of a Source
        told = [f"{first[0]!r}{more}" if first else "no files", f"batch={self.batch}"]
        if self.inferred_parse:
            told.append(f"parse={self.inferred_parse}")
        if self.shuffle is not None:
            told.append(f"shuffle={self.shuffle.mode!r}, seed={self.seed}")
        if self.rank is not None and self.rank.world_size > 1:
            told.append(f"rank {self.rank.rank} of {self.rank.world_size}")
        return told

    @property
    def shows_empty(self) -> bool:
        """Whether the loop gets batches of which no row is here."""
        several = self.rank is not None and self.rank.world_size > 1
        return several if self.empty_batches is None else self.empty_batches

    def count_batches(self, reader: Union[_core.Reader, _core.DeviceFeed]) -> int:
        """What this rank's loop gets of all passes, on its devices a part each if batches are
        split, counted by the files' index.

        Raises:
            TypeError: they cannot be known before the data are read.
        """
        ranks = 1 if self.rank is None else self.rank.world_size
        planned = not isinstance(self.batch, int)
        chain = chain_of(reader)
        unknown = {
            "its passes have no end": self.passes == 0,
            "a filter decides while it reads": self.filter is not None,
            "damaged records are passed over": bool(self.options.get("skip_damaged")),
            "files are split over ranks": self.split_by_files and ranks > 1,
        }
        if planned:  # damage makes a batch shorter, and leaves none out
            unknown["damaged records are passed over"] = False
        for reason, is_so in unknown.items():
            if is_so:
                raise TypeError(f"this Loader has no length: {reason}")
        try:
            if planned:
                return self._handed_out(chain.count_batches(), False, reader)
            places = sum(chain.file_records()) * self.passes
        except (Unsupported, InvalidArgument) as error:
            raise TypeError(f"this Loader has no length: {error}") from error
        return self._handed_out(*self._batches_of(places), reader)

    def _handed_out(
        self, batches: int, last_is_short: bool, reader: Union[_core.Reader, _core.DeviceFeed]
    ) -> int:
        if self.devices is None or not isinstance(reader, _core.DeviceFeed):
            return batches
        return self.devices.handed_out(batches, last_is_short, len(reader.devices))

    def _batches_of(self, places: int) -> tuple[int, bool]:
        """This rank's batches, and whether the last one has fewer of its rows than the others."""
        assert isinstance(self.batch, int)
        whole, rest = divmod(places, self.batch)
        if rest == 0 or self.drop_remainder:
            return whole, False
        if self.pad:
            return whole + 1, False
        ranks, rank = (1, 0) if self.rank is None else (self.rank.world_size, self.rank.rank)
        begin = rank * self.batch // ranks
        own = (rank + 1) * self.batch // ranks - begin
        rows = min(max(rest - begin, 0), own)
        return whole + (rows > 0 or self.shows_empty), rows < own
