"""Loader: batches of files for a training loop."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal, Mapping, NoReturn, Optional
from typing import Sequence, Union

from . import _core, chains, counterparts, ranks, trainers
from . import devices as device_plans
from .arguments import counted, flag
from .compiled import Compiled
from .dataset import Parser
from .errors import Unsupported
from .loader_plan import LoaderPlan, Shuffle, chain_of, shuffle_of, tuned_feed_of
from .parsers import CsvByHeader, asks_files
from .records import RecordPlace, places_of
from .row_map import MapRows
from .steps import PLANNED, PlannedBatch

if TYPE_CHECKING:
    from typing_extensions import Unpack

_STATE_VERSION = 1


class Loader(_core.LoaderNext):
    """Batches of record files, as an iterator of dicts of Arrays.

    One loop at a time reads it. `iter(loader)`, and so each `for`, starts an epoch: `passes` times
    over the data, with a shuffle of its own. An epoch that a loop left in the middle is over then,
    and counts. Only an epoch of which no batch was taken yet is not started again: so the first
    `iter` after load_state_dict, seek_to, skip_batches or reset begins there. `rest()` gives what
    is left of the epoch, and `next(loader)` its next batch. With passes=0 there is one epoch, which
    has no end: each `iter` goes on in it. Before the first batch nothing is read, but a first file
    for parse="auto" and for the header of CSV files. Waits for data, and the making of an index,
    end on Ctrl-C, and `rest()` goes on. A batch counts, for batch_number and state_dict, when the
    loop has it: if a signal's handler raises before (Ctrl-C), the next call gives that batch. It
    cannot be pickled, and a forked child gets an error: no worker process is needed, its threads
    read and parse.

    `len(loader)` is the number of batches of an epoch. It is counted by the index of the files,
    which is made if it is missing; TypeError if the number is not known beforehand: with a
    filter, skip_damaged, streams, passes=0.

    Args:
        files: a path, a glob, a stream, a Source, or many (see open_files).
        parse: a parser (ringfeed.example, rows, tokens, …), or a ringfeed.Parser of your own; None:
            the records' bytes, as one field "bytes"; "auto": what the first file tells of its
            records, which repr() shows (docs/PYTHON.md), or None, with a warning, if it tells
            nothing. With a function of each row in map= "auto" is None.
        batch: rows of a batch, over all ranks; or what makes batches by the records' lengths: a
            Pack, a TokenBatch, a BucketBatch or a Batch, which several ranks share, too.
        shuffle: the records of a window (10_000), a mode's name, True ("global"), a Shuffle, or
            None.
        seed: of the shuffle, and of Row.draw.
        passes: over the data in an epoch, joined without a seam; 0: without end.
        rank: "auto": which process this is in torch.distributed or jax.distributed if the program
            has started one, else of those that a launcher started (find_rank), alone without one;
            a Rank; or None: alone. Each rank gets its part of every batch.
        drop_remainder, pad, split_by_files, slots, empty_batches: see `batch` of ringfeed.
        as_tuple: batches are tuples in the order of the fields instead of dicts.
        label: "folder": a last field "label", int64, has the number of the folder that each
            record's file lies in, as in "train/cat/1.jpg"; `classes` has their names.
        filter: a predicate by `compiled`, or a Python function of a record's bytes (slow: it is
            called with the interpreter's lock); records that it refuses are left out. A run goes on
            from a state, and ranks share the records, only if it answers the same each time.
        map: a Python function that makes of each batch what the loop gets, called in the loop's
            thread. What it raises stands for its batch; if Ctrl-C breaks it off, the next call
            calls it with that batch again. Or one that is called with each row, on the chain's
            threads: by `compiled`, with outputs, or a Python function by MapRows.
        devices: where the batches lie: a kind of devices ("cuda", "cuda:0,1"; "emu:2" is two in
            host memory,
            for trials; "auto": GPUs if there are some, else emulated ones, with a warning), the
            numbers of GPUs, or a DevicePlan of ringfeed.devices; None: host memory.
        copy: batches are Arrays of memory of their own, which may be kept as long as one likes and
            written to: `list(loader)` has them all. It costs a copy in the loop's thread.
        transforms: what is made of fields on the devices (Normalize, Widen, Pad).
        options: see open_files. With `tuned` also slots, and those of devices, are as tuned,
            if they are not given.

    Raises:
        TypeError, ValueError, ringfeed.Error: arguments that cannot work.
    """

    _map_s: float  # LoaderNext's

    @counterparts.hinting(counterparts.LOADER, chains.OpenOptions)
    def __init__(
        self,
        files: chains.Files,
        *,
        parse: Union[_core.RecordParser, Parser, CsvByHeader, Literal["auto"], None] = "auto",
        batch: Union[int, PlannedBatch],
        shuffle: Union[Shuffle, str, int, None] = None,
        seed: int = 0,
        passes: int = 1,
        rank: Union[ranks.Rank, str, None] = "auto",
        drop_remainder: bool = False,
        pad: bool = False,
        split_by_files: bool = False,
        empty_batches: Optional[bool] = None,
        slots: int = 0,
        as_tuple: bool = False,
        label: Optional[Literal["folder"]] = None,
        filter: Union[Compiled, Callable[[bytes], Any], None] = None,
        map: Union[Compiled, MapRows, Callable[[Any], Any], None] = None,
        devices: Union[str, Sequence[int], device_plans.DevicePlan, None] = None,
        transforms: Sequence[device_plans.Transform] = (),
        copy: bool = False,
        **options: Unpack[chains.OpenOptions],
    ) -> None:
        per_record = map if isinstance(map, (Compiled, MapRows)) else None
        per_batch = None if isinstance(map, (Compiled, MapRows)) else map
        if per_batch is not None and not callable(per_batch):
            raise TypeError(f"map takes a function of a batch, or a compiled one, not {map!r}")
        opening = chains.check_open_options(options)
        tuned_slots, device_slots, transfer, tuned_for = tuned_feed_of(opening)
        names = chains.file_names(files)
        if isinstance(parse, CsvByHeader):
            parse, opening = parse.of_files(chains.path_names(names), opening)
        auto = asks_files(parse)
        if label not in (None, "folder"):
            raise ValueError(f'label is "folder" or None, not {label!r}')
        plan = LoaderPlan(
            files=names,
            parse=None if isinstance(parse, str) else parse,
            batch=batch if isinstance(batch, PLANNED) else counted(batch, "batch"),
            shuffle=shuffle_of(shuffle),
            seed=counted(seed, "seed"),
            passes=counted(passes, "passes"),
            rank=ranks.rank_of(rank),
            drop_remainder=drop_remainder,
            pad=pad,
            split_by_files=split_by_files,
            slots=slots or tuned_slots,
            filter=filter,
            map=per_record,
            options=opening,
            devices=device_plans.plan_of(
                devices, transforms, device_slots, transfer, tuned_for
            ),
            empty_batches=None if empty_batches is None else flag(empty_batches, "empty_batches"),
        )
        if isinstance(batch, PLANNED) and (
            drop_remainder or pad or split_by_files or empty_batches is not None
        ):
            raise TypeError(
                f"{type(batch).__name__} has rest= in place of drop_remainder and pad, and its "
                "batches are the same steps on all ranks: leave split_by_files and empty_batches "
                "out"
            )
        if flag(copy, "copy") and devices is not None:
            raise TypeError("copy=True copies batches in host memory, and devices= has others")
        if auto and per_record is None:
            plan = plan.with_parser()
        if label is not None:
            plan = plan.with_labels()
        self._set_up(plan.build(0), plan, as_tuple, per_batch, copy)

    @classmethod
    @counterparts.hinting(counterparts.FROM_READER)
    def from_reader(
        cls,
        reader: _core.Reader,
        *,
        as_tuple: bool = False,
        map: Optional[Callable[[Any], Any]] = None,
        devices: Union[str, Sequence[int], device_plans.DevicePlan, None] = None,
        transforms: Sequence[device_plans.Transform] = (),
    ) -> "Loader":
        """The same iterator over a chain of one's own, with `batch` or without.

        A `for` starts the chain again: its passes, its draws. A chain without end
        (multi_pass(…, 0)) goes on instead, and so does one of a queue until that is closed. len()
        is not known. For devices the chain is to give batches, and nobody else may read it.
        """
        loader = cls.__new__(cls)
        plan = device_plans.plan_of(devices, transforms)
        reader = chains.reader_of(reader)
        loader._set_up(reader if plan is None else plan.feed(reader), None, as_tuple, map)
        return loader

    def _set_up(
        self,
        reader: Union[_core.Reader, _core.DeviceFeed],
        plan: Optional[LoaderPlan],
        as_tuple: bool,
        map: Optional[Callable[[Any], Any]],
        copy: bool = False,
    ) -> None:
        super().__init__()
        device_plans.warn_of_choice(reader)
        self._plan = plan
        self._reader = reader
        self._as_tuple = as_tuple
        self._map = map
        self._copies = bool(copy)
        self._names: Optional[tuple[str, ...]] = None
        self._closed = False
        self._turn = _Turn()
        self._begin(0)

    def _begin(self, epoch: int, batch: int = 0, in_pass: int = 0) -> None:
        """Notes that the next batch is that one of the epoch, in that pass of it."""
        self._epoch = epoch
        self._first_batch = batch
        self._first_pass = in_pass
        self._at_end = False
        self._was_restored = False
        self._held_back: Optional[trainers.HeldBack] = None
        if self._turn.ended:
            self._turn = _Turn()
        self._ended_loops: set[int] = set()
        self._map_s_before = self._map_s  # the reader's times begin anew, too

    def _drawn(self, epoch: int) -> Union[_core.Reader, _core.DeviceFeed, None]:
        """A reader that draws as that epoch does and stands at its beginning; None if this one
        does. What fails in its making leaves the Loader as it is."""
        if epoch == self._epoch or self._plan is None or not self._plan.drawn_anew:
            return None
        if self._closed:
            return None  # the closed reader says so
        return self._plan.build(epoch)

    def _read_from(self, reader: Union[_core.Reader, _core.DeviceFeed]) -> None:
        before, self._reader = self._reader, reader
        before.close()

    def __iter__(self) -> Iterator[Any]:
        ranks.refuse_alone(self.rank)
        self._start_epoch()
        return trainers.noted(self, self.rest(), list(ranks.callers()))

    def rest(self) -> Iterator[Any]:
        """What is left of this epoch, for a loop that goes on after a `break`, after next(loader)
        or after Ctrl-C. At the end of the epoch that is nothing."""
        self._held_back = None
        return EpochLoop(self)

    def _start_epoch(self) -> None:
        """The next epoch, unless no batch of this one was taken yet.

        Raises:
            Unsupported: a stream cannot be read again.
        """
        if self._closed:
            return  # the closed reader says so
        self._settle()
        if not self._at_end and (self.batch_number == self._first_batch or self._reader.endless):
            return
        try:
            self.reset(self._next_epoch())
        except Unsupported as error:
            if not self._at_end:
                error.args = (f"{error}; loader.rest() gives the rest of this epoch",)
            raise
        self._turn = _Turn()

    def _next_epoch(self) -> int:
        return self._epoch + (1 if self._plan is None else max(self._plan.passes, 1))

    def _settle(self) -> None:
        """Finds out whether a state that was loaded, and of which nothing was taken yet, stands at
        the end of its epoch. load_state_dict leaves that: it may be called in a handler of signals,
        and reads nothing."""
        if self._was_restored and self.batch_number == self._first_batch:
            self._find_end()
        self._was_restored = False

    def _find_end(self) -> bool:
        """Whether the epoch is at its end. A loop that takes as many batches as there are does not
        see that. Waits until it is known whether a batch follows; Ctrl-C ends the wait."""
        begun = self.batch_number > 0 and not self._closed
        if begun and not self._at_end and not self._reader.has_next():
            self._note_end(None, self._ended_loops)
        return self._at_end

    def _note_end(self, index: Optional[int], ended_loops: set[int]) -> None:
        """What LoaderNext calls at the end of the data: of all devices, or of one. `ended_loops` is
        the set of before the call: a handler of signals may send the Loader elsewhere in it."""
        if index is not None:
            ended_loops.add(index)
            if len(ended_loops) < len(self._feed().devices):
                return  # others may have a batch more to come
        if ended_loops is self._ended_loops:
            self._at_end = self._turn.ended = True

    def device(self, index: int) -> Iterator[Any]:
        """The batches of one device, by its place in the list, to the end of the epoch: for a loop
        per device, each in a thread of its own. It starts no epoch: between two epochs one thread
        says `iter(loader)`."""
        self._feed()
        if index < 0:
            raise ValueError(f"devices are counted from 0: {index}")
        return _DeviceLoop(self, counted(index, "a device's number"))

    def part(self, index: Optional[int] = None) -> Optional[device_plans.Part]:
        """Which device got the last batch, of how many rows, and how many of these count; of one
        device's last batch by its place in the list, as a loop per device needs it. None before
        the first batch."""
        part = self._feed().part(index)
        return None if part is None else device_plans.Part(*part)

    def _feed(self) -> _core.DeviceFeed:
        if not isinstance(self._reader, _core.DeviceFeed):
            raise TypeError("this Loader's batches lie in host memory: see devices=")
        return self._reader

    @property
    def _chain(self) -> _core.Reader:
        return chain_of(self._reader)

    def which(self, batch: int, position: Optional[Mapping[str, Any]] = None) -> list[RecordPlace]:
        """Which records batch number `batch` of this epoch has on this rank, as batch_number
        counts: by the order alone, so damaged records are among them. Reads nothing but indexes
        and lengths.

        Args:
            position: the "position" of a state_dict, of a run that went on from there with other
                weights of a mixture; None: from the epoch's beginning.

        Raises:
            InvalidArgument: there is no such batch.
            Unsupported: batches depend on what is in the records and are not planned, or records
                have no numbers.
        """
        text = "" if position is None else json.dumps(position)
        return places_of(self._chain, counted(batch, "batch"), text)

    def record(self, number: int) -> dict[str, _core.Array]:
        """The record of that number in the data set, from 0, by its fields' names: as parse= and
        a map of each row make it in the first epoch, without a dimension for rows. Reads it from
        its file in this thread, and leaves the loop as it is.

        Raises:
            Damaged: it is damaged or refused; with its place.
            InvalidArgument: there is no such record.
            Unsupported: the records have no numbers (a stream, compressed files).
        """
        return self._chain.record_at(counted(number, "number"))

    def __len__(self) -> int:
        if self._plan is None:
            raise TypeError("a Loader of a reader has no length")
        return self._plan.count_batches(self._reader)

    def __repr__(self) -> str:
        """What it reads, the shapes of a batch's fields, and where it stands. Reads nothing."""
        told = ["a chain of its own"] if self._plan is None else self._plan.described()
        fields = [
            f"{name}: {dtype} {list(dims)}{' ragged' if levels else ''}"
            for name, dtype, dims, levels in self._reader.slots
        ]
        told += [f"{{{', '.join(fields)}}}", f"at batch {self.batch_number} of epoch {self._epoch}"]
        return f"<ringfeed.Loader of {', '.join(told)}>"

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> NoReturn:
        raise TypeError(
            "a Loader gives batches in their order, not by a number: iterate over it, or seek_to "
            "one; for Torch's DataLoader there is "
            "DataLoader(ringfeed.torch.IterableDataset(loader), batch_size=None)"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names, in the order of the declaration."""
        if self._names is None:
            self._names = tuple(sys.intern(slot[0]) for slot in self._reader.slots)
        return self._names

    @property
    def classes(self) -> tuple[str, ...]:
        """The folders' names, sorted, by their number in the field "label"; none without label=."""
        return () if self._plan is None else self._plan.classes

    @property
    def rank(self) -> Optional[ranks.Rank]:
        """Which process this is, None if it was not asked for."""
        return None if self._plan is None else self._plan.rank

    @property
    def step_units(self) -> int:
        """Units (tokens, say) of the last batch's step on all ranks together, as it was planned:
        the divisor of a loss over tokens, without an all-reduce. 0 before the first batch.

        Raises:
            TypeError: the batches are not planned (Pack, TokenBatch, BucketBatch).
        """
        origin = self._reader.origin() or {"step_units": 0}
        if "step_units" not in origin:
            raise TypeError("step_units are those of planned batches: batch=ringfeed.Pack(…), …")
        units: int = origin["step_units"]
        return units

    @property
    def epoch(self) -> int:
        """The pass over the data, from 0, that the last batch began in; after the end of a `for`,
        and after load_state_dict, the one that the next begins with: `for epoch in
        range(loader.epoch, epochs)` goes on. After load_state_dict it waits until it is known
        whether a batch follows; Ctrl-C ends the wait."""
        self._settle()
        return self._epoch_so_far()

    def _epoch_so_far(self) -> int:
        """The epoch, of a state that was loaded as if more follows."""
        if self._at_end:
            return self._next_epoch()
        origin = self._reader.origin()
        return self._epoch + (self._first_pass if origin is None else origin["pass"])

    @property
    def batch_number(self) -> int:
        """How many batches of this epoch were handed out, those before a restored state too."""
        origin = self._reader.origin()
        return self._first_batch if origin is None else origin["batch"] + 1

    def reset(self, epoch: int = 0) -> None:
        """Starts again, at the beginning of that epoch.

        Raises:
            Unsupported: a stream cannot be read again.
            Error: a file is not there any more. The Loader stays where it was.
        """
        drawn = self._drawn(counted(epoch, "epoch"))
        if drawn is None:
            self._reader.reset()
        else:
            self._read_from(drawn)
        self._begin(epoch)

    def seek_to(self, batch: int) -> None:
        """Goes on with that batch of this epoch, by the files' index if there can be one. With
        the number of batches of the epoch, or a larger one, that is its end: the next `for` gets
        nothing, and the one after it the next epoch."""
        self._reader.seek_to(counted(batch, "batch"))
        self._begin(self._epoch, batch)

    def skip_batches(self, batches: int) -> None:
        """Leaves the next `batches` out."""
        # After all that can be counted is after the end, too.
        behind = min(self.batch_number + counted(batches, "batches"), (1 << 64) - 1)
        if isinstance(self._reader, _core.DeviceFeed):
            self._reader.seek_to(behind)
        else:
            self._reader.skip_batches(batches)
        self._begin(self._epoch, behind)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands: after the last batch that it got, whatever was prefetched.

        A dict of numbers and text below 1 KiB; the same on all ranks. It does not count what a
        trainer holds back from its loop (Accelerate, Ray Train, Lightning).
        """
        held = None if self._held_back is None else self._held_back.state()
        return held or self._state()

    def _state(self) -> dict[str, Any]:
        """After the last batch that was asked for."""
        return {
            "version": _STATE_VERSION,
            "epoch": self._epoch,
            "pass": 0 if self._at_end else self._epoch_so_far() - self._epoch,
            "ended": self._at_end,
            "position": json.loads(self._reader.position()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on there with the very next batch, also if another number of ranks saved it: the
        next `iter` begins there. If the state was saved after the last batch of an epoch, also by a
        loop that did not look for more, that is the beginning of the next one. Reads nothing.

        Raises:
            InvalidArgument: it is of other data, or of a chain with another order; says what
                changed. The Loader stays where it was.
            ValueError: it is no state of a Loader.
        """
        _check_state(state)
        position = state["position"]
        drawn = self._drawn(state["epoch"])
        if drawn is None:
            self._reader.restore(json.dumps(position))
        else:
            try:
                drawn.restore(json.dumps(position))
            except BaseException:
                drawn.close()
                raise
            self._read_from(drawn)
        self._begin(state["epoch"], self._batches_before(position), state["pass"])
        if state["ended"]:
            self._note_end(None, self._ended_loops)
        self._was_restored = True

    def _batches_before(self, position: Mapping[str, Any]) -> int:
        steps: int = position.get("batch", 0)
        return steps * self._chain.batches_of_step()

    def stats(self) -> dict[str, Any]:
        """The pipeline's report: what was read, delivered, left out and found damaged, and what
        the loop waited for; "map_s" is the time in the function of map=, of all threads. Of this
        epoch, if each has a shuffle of its own."""
        stats = self._reader.stats()
        stats["map_s"] = self._map_s - self._map_s_before
        _advise_of_map(stats)
        return stats

    def close(self) -> None:
        """Ends the threads; more calls do nothing. Batches that are held stay valid."""
        self._closed = True
        self._reader.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Loader is live (threads, memory, open files) and cannot be pickled or copied: make "
            "it in the process that reads it, and carry state_dict() over"
        )


class _Turn:
    """One epoch of a Loader's, for the loops that read it."""

    ended = False


class EpochLoop(_core.LoopNext):
    """The loop over an epoch of a Loader, from where that stands. After another epoch was started
    it raises RuntimeError, if it was not at its end.

    Args:
        convert: what is made of each batch, None: nothing.
    """

    _index = None

    def __init__(self, loader: Loader, convert: Optional[Callable[[Any], Any]] = None) -> None:
        super().__init__()
        self._loader = loader
        self._turn = loader._turn
        self._convert = convert

    def __iter__(self) -> "EpochLoop":
        return self


class _DeviceLoop(_core.LoopNext):
    """What Loader.device gives. No generator: it holds no batch, and goes on after an error."""

    _convert = None
    _turn = None

    def __init__(self, loader: Loader, index: int) -> None:
        super().__init__()
        self._loader = loader
        self._index = index

    def __iter__(self) -> "_DeviceLoop":
        return self


def _advise_of_map(stats: dict[str, Any]) -> None:
    """Names the function of map= if it is the slow end: the chain, which does not know it, would
    call it the loop."""
    stages = stats["stages"]
    if not stages:
        return
    map_s, waited_s = stats["map_s"], stages[-1]["wait_s"]
    own_s = stats["wall_s"] - waited_s
    # How late the first batch comes says nothing of the others.
    if map_s <= max(own_s / 2, waited_s - stats["first_batch_s"]):
        return
    part = min(map_s / max(stats["wall_s"], map_s), 1)
    stats["bottleneck"] = "map: the function of map= is the slow end"
    stats["advice"] = (
        f"The loop waits for your map function {part:.0%} of the time: less work in it, or a "
        "function by ringfeed.compiled, which threads call for each record, would move it."
    )


def _check_state(state: Any) -> None:
    """ValueError for what state_dict did not make: before anything is closed or moved."""
    if not isinstance(state, dict) or state.get("version") != _STATE_VERSION:
        raise ValueError("this is no state of a Loader's, or one of another version")
    position = state.get("position")
    numbers = [state.get("epoch"), state.get("pass")]
    if isinstance(position, dict):
        numbers.append(position.get("batch", 0))
    counts = all(type(number) is int and number >= 0 for number in numbers)
    if not (counts and isinstance(position, dict) and isinstance(state.get("ended"), bool)):
        raise ValueError("this is no state of a Loader's: something of it is missing or changed")
