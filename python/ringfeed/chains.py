"""Chains of readers, as in C++: open_files and the decorators. Loader builds the usual one."""

from __future__ import annotations

import math
import os
from array import array
from typing import TYPE_CHECKING, Any, Callable, Iterable, Literal, Mapping, Optional, Sequence
from typing import TypedDict, Union

from . import _core, counterparts
from .arguments import counted, flag, integers, text
from .compiled import Compiled
from .dataset import Parser
from .errors import Unsupported
from .fields import field_tuples
from .ranks import Rank, rank_of, refuse_parts
from .row_map import MapRows, parse_samples
from .source import Source
from .steps import Steps, is_best

if TYPE_CHECKING:
    from typing_extensions import Unpack

PathLike = Union[str, "os.PathLike[str]"]
#: What open_files reads.
Files = Union[PathLike, Source, Iterable[Union[PathLike, Source]]]


class OpenOptions(TypedDict, total=False):
    """What a Loader hands on to open_files, by name; None is as if it was left out."""

    format: Optional[str]
    cycle: Optional[int]
    stripe_bytes: Optional[int]
    skip_damaged: Optional[bool]
    max_damaged: Optional[int]
    strict: Optional[bool]
    max_record_bytes: Optional[int]
    unordered: Optional[bool]
    reopen_limit: Optional[int]
    reopen_until: Union[float, Literal["close"], None]
    ahead: Optional[int]
    ahead_bytes: Optional[int]
    first_epoch: Optional[int]
    index: Optional[bool]
    index_folder: Optional[PathLike]
    subset: Optional[PathLike]
    note_records: Optional[bool]
    cache: Optional[PathLike]
    cache_bytes: Optional[int]
    threads: Optional[int]
    arena_bytes: Optional[int]
    shuffle_files: Optional[bool]
    io: Optional[str]
    block_bytes: Optional[int]
    in_flight_bytes: Optional[int]
    direct: Optional[bool]
    retries: Optional[int]
    read_timeout_ms: Optional[int]
    remote_patience_ms: Optional[int]
    tuned: Optional[PathLike]


class SeededOptions(OpenOptions, total=False):
    """What open_files, and what takes its options, has by name."""

    seed: Optional[int]


def file_names(files: Files) -> list[Union[str, Source]]:
    """One path or many, globs and "~" among them, or Sources, as open_files takes them."""
    if isinstance(files, (str, bytes, os.PathLike)):
        return [file_name(files)]
    if isinstance(files, Source):
        return [files]
    if not hasattr(files, "__iter__"):
        raise TypeError(
            f"files are a path, a glob or a list of them, not {files!r}; samples that Python makes "
            "are read by from_dataset and from_iterable, and Loader.from_reader; a file object by "
            "Source.of"
        )
    return [each if isinstance(each, Source) else file_name(each) for each in files]


def path_names(names: Iterable[Union[str, Source]]) -> list[str]:
    """Of names none of which may be a Source: their first row is read as they are opened."""
    paths = [name for name in names if isinstance(name, str)]
    if len(paths) < len(list(names)):
        raise Unsupported("the header of a Source is not read: give csv() the line of names")
    return paths


def file_name(path: Any) -> str:
    """A path with its "~", as the kernel takes it. ValueError for what it cannot open."""
    name = os.path.expanduser(os.fsdecode(path))
    if "\0" in name:
        raise ValueError(f"a null character in a file's name: {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name!r} is not UTF-8: rename it, or name a link to it that is"
        ) from None
    return name


def check_open_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Raises TypeError for a name that is no option of open_files."""
    counterparts.refuse_unknown(options, SeededOptions.__annotations__, counterparts.OPENING)
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("index_folder", "subset", "cache", "tuned"):
        if name in given:
            given[name] = file_name(given[name])
    if given.get("reopen_until") == "close":
        given["reopen_until"] = math.inf
    return given


def reader_of(value: Any) -> _core.Reader:
    """`value`, if it is a chain's reader. TypeError with the remedy if it is not."""
    if isinstance(value, _core.Reader):
        return value
    remedy = "open_files and the functions that take one make them"
    if isinstance(value, _core.PyReaderNext):
        remedy = "take its .reader"
    raise TypeError(f"a chain stands on a Reader, not on a {type(value).__name__}: {remedy}")


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def open_files(files: Files, **options: Unpack[SeededOptions]) -> _core.Reader:
    """Records of files, in an order that depends on these options alone, never on threads.

    Args:
        files: a path, a folder (the files in it and in its folders, sorted), a glob, braces as in a
            shell ("train-{000..003}.tar"), a stream ("-", FIFO, "unix:PATH", "tcp:HOST:PORT"), a
            Source, or many; or one manifest (ringfeed index --manifest), for its files.
        format: "" (by name or first bytes), "tfrecord", "recordio", "lines", "rows:160", …
        cycle, stripe_bytes: files open at a time, and how much of each in turn.
        skip_damaged, max_damaged: pass over damaged records, and up to how many.
        strict: what `stats()["warnings"]` lists, such as an archive without its end, is an error.
        max_record_bytes: a larger one is an error.
        unordered: gives the order up for speed on uneven files.
        reopen_limit: how often a stream is opened again at its end, for a writer that is started
            again; or reopen_until: until nothing came for so many seconds, or "close".
        ahead, ahead_bytes: records, and their bytes, that are read from a stream beyond what the
            loop got; 0, the default, reads as far as memory goes.
        shuffle_files, seed: the list is permuted anew in each pass.
        first_epoch: number of the first pass.
        index, index_folder: whether, and where, an index of the records is kept.
        subset: a file of `write_subset` or `ringfeed subset`: only the records that it keeps are
            read, and all orders are those of data that have no others.
        cache, cache_bytes: a folder that keeps what is read of stores' objects (s3:, https:), and
            how much it keeps; by default 200 GiB.
        note_records: stats and journals know which records a batch holds.
        threads: 0: one a core, at most 16.
        io: "auto", "uring", "pread", "mmap"; block_bytes, in_flight_bytes, direct, retries.
        read_timeout_ms: a read of a Source that takes longer is given up, and is an I/O error.
        remote_patience_ms: how long a store (s3:, https:) may fail in ways that pass.
        arena_bytes: this chain's share of the pinned memory.
        tuned: a file that `ringfeed tune` wrote; options that are given beside it win.

    Raises:
        TypeError: an option that there is not.
        InvalidArgument, NotFound: options that cannot work, a glob without a match, a tuning of
            another machine or of another format.
    """
    names, opening = file_names(files), check_open_options(options)
    sources = [name for name in names if isinstance(name, Source)]
    if not sources:
        return _core.open_files([name for name in names if isinstance(name, str)], opening)
    if len(sources) < len(names):
        raise TypeError("a list has files, or it has Sources: mix() joins a chain of each")
    given = [(each.name, each.size, each.version, each.read_at) for each in sources]
    return _core.open_sources(given, opening)


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def csv_columns(
    files: Union[PathLike, Iterable[PathLike]], **options: Unpack[SeededOptions]
) -> tuple[str, str]:
    """What the first row of CSV files says, that of the first file which has one: the row, for
    ``csv(header=…)``, and a format to open the files with. By that each file's first row is no
    record, and names its own columns: a file that lacks one of these is damaged as a whole.

    Args:
        options: as of open_files; format: "csv", "tsv", "csv:delimiter=;", … or left out.

    Returns:
        The row and the format. Bytes of the row that are no UTF-8, as of Latin-1, become surrogates
        (os.fsdecode does so, too), and `csv` takes them so.

    Raises:
        Unsupported: the row is UTF-16.
    """
    names = path_names(file_names(files))
    header, format = _core.read_csv_columns(names, check_open_options(options))
    if b"\0" in header:
        more = f" (or a file after it, of {len(names)})" if len(names) > 1 else ""
        raise Unsupported(
            f"{names[0]}{more}: the first row has zero bytes, as text in UTF-16 has: convert the "
            "files to UTF-8"
        )
    return header.decode("utf-8", "surrogateescape"), format


def parse(
    records: _core.Reader, parser: Union[_core.RecordParser, Parser], seed: int = 0
) -> _core.Reader:
    """Records into fields; done last, straight into the batch. `parser` may be a Python class's;
    `seed` is that of its draws."""
    if isinstance(parser, Parser):
        return parse_samples(reader_of(records), parser, counted(seed, "seed"))
    if not isinstance(parser, _core.RecordParser):
        if hasattr(parser, "of_files"):
            raise TypeError(
                "csv(header=True) is a Loader's, which has the files: for a chain take header, "
                "format = ringfeed.csv_columns(files), csv(…, header=header) and open_files(files, "
                "format=format)"
            )
        raise TypeError(
            "a parser is what ringfeed.example, rows, tokens and the others make, or a "
            f"ringfeed.Parser of your own, not {parser!r}"
        )
    return _core.parse(reader_of(records), parser, counted(seed, "seed"))


@counterparts.hinting(counterparts.SHUFFLING)
def shuffle(reader: _core.Reader, mode: str, size: int = 0, seed: int = 0) -> _core.Reader:
    """Shuffles by "window" or "block" of `size` records, "stripes" (in any order, then a
    window of `size`) or "global"."""
    if not isinstance(mode, str):
        raise TypeError(
            'the mode of a shuffle is "window", "block", "stripes" or "global", and the records of '
            f'a window are its size, ("window", 8192): {mode!r} is no mode'
        )
    size, seed = counted(size, "size"), counted(seed, "seed")
    return _core.shuffle(reader_of(reader), mode, size, seed)


@counterparts.hinting(counterparts.BATCHING)
def batch(
    reader: _core.Reader,
    size: int,
    drop_remainder: bool = False,
    pad: bool = False,
    slots: int = 0,
    rank: Optional[Rank] = None,
    split_by_files: bool = False,
    empty_batches: Optional[bool] = None,
    field: str = "",
    steps: Optional[Steps] = None,
) -> _core.Reader:
    """`size` rows in one piece of pinned memory; with `rank` this process's part of them. With
    `steps`, which has rest= in place of drop_remainder and pad, ranks get rows by weights, or, by
    the units of `field`, as much work. Of which
    nothing is this rank's, or all of that is damaged, is a batch of no rows, so that all ranks make
    the same steps, or with empty_batches=False none. None: if there are several ranks."""
    if empty_batches is None:
        empty_batches = rank is not None and rank.world_size > 1
    return _core.batch(
        reader_of(reader),
        counted(size, "batch"),
        flag(drop_remainder, "drop_remainder"),
        flag(pad, "pad"),
        counted(slots, "slots"),
        None if steps is not None else rank,
        flag(split_by_files, "split_by_files"),
        flag(empty_batches, "empty_batches"),
        text(field, "field"),
        None if steps is None else _steps_of(steps, rank),
    )


@counterparts.hinting(counterparts.REPEATING)
def multi_pass(reader: _core.Reader, passes: int) -> _core.Reader:
    """`passes` times over the data as one stream; 0: without end."""
    return _core.multi_pass(reader_of(reader), counted(passes, "passes"))


@counterparts.hinting({})
def double_buffer(reader: _core.Reader, slots: int = 2) -> _core.Reader:
    """Keeps `slots` batches in memory."""
    return _core.double_buffer(reader_of(reader), counted(slots, "slots"))


def share(reader: _core.Reader) -> _core.Reader:
    """A reader that several chains may stand on: together they get everything once."""
    return _core.share(reader_of(reader))


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def mix(
    sets: Iterable[Union[_core.Reader, Sequence[Any]]],
    schedule: Optional[Iterable[tuple[int, Sequence[float]]]] = None,
    **options: Unpack[SeededOptions],
) -> _core.Reader:
    """Mixes (reader, weight[, passes[, most_records]]) by exact shares.

    Args:
        sets: A reader alone has the weight 1.
        schedule: (from step, a weight for each set), the first from step 0. From that batch of all
            passes and ranks on the sets are mixed by these weights. The weights of `sets` stay 1.
            Planned batches change at the next segment; other batches by content are refused.
        **options: See open_files.
    """
    listed: list[Any] = []
    for each in sets:
        given: list[Any] = [each, 1] if isinstance(each, _core.Reader) else list(each)
        reader, weight, *limits = given
        listed.append((reader_of(reader), float(weight), *limits, *(1, 0)[len(limits) :]))
    steps = [
        (counted(step, "a step of schedule"), [float(weight) for weight in weights])
        for step, weights in schedule or []
    ]
    return _core.mix(listed, steps, check_open_options(options))


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def multiplex(streams: Iterable[_core.Reader], **options: Unpack[SeededOptions]) -> _core.Reader:
    """Records of several streams, of whichever has some. Options: see open_files."""
    return _core.multiplex([reader_of(s) for s in streams], check_open_options(options))


def read_as(opened: _core.Reader, format: str) -> _core.Reader:
    """What open_files opened, and nobody reads yet, as files of `format`."""
    return _core.read_as(reader_of(opened), text(format, "format"))


def next_pass(reader: _core.Reader) -> Optional[int]:
    """The pass over the data, from 0, that the next batch begins in: when it changes, a pass has
    ended. None at the end. Waits until that is known; Ctrl-C ends the wait. `origin` of a reader
    says in which pass the last batch began, without a wait."""
    return reader_of(reader).next_pass()


def map(
    reader: _core.Reader, function: Union[Compiled, MapRows], seed: int = 0
) -> _core.Reader:
    """A function over every record, by several threads at once, in order. After `parse` it gets
    the fields, else the record; its outputs, and the fields that it keeps, are the fields from
    there on. `seed` is that of Row.draw.

    Raises:
        TypeError: the function has no outputs, or is a bare Python function.
        ValueError: an output of a compiled one is ragged.
    """
    if isinstance(function, MapRows):
        return function.on(reader_of(reader), counted(seed, "seed"))
    if not isinstance(function, Compiled) or function.outputs is None:
        raise TypeError(
            "map takes compiled(function, outputs={name: (dtype, shape)}) or MapRows(function, "
            "outputs)"
        )
    outputs = field_tuples(function.outputs)
    return _core.map_compiled(
        reader_of(reader), function.address, function.owner, outputs, list(function.keep)
    )


def filter(
    reader: _core.Reader, keep: Union[Compiled, Callable[[bytes], Any]]
) -> _core.Reader:
    """Only the records that `keep` keeps. It is asked of the record as it is in the file, also
    after `parse`; stands after shuffle, and in front of batch. It is to answer the same for a
    record each time: positions, and the parts of several ranks, rest on that.

    Args:
        keep: a predicate by `compiled`, called by several threads at once; or a Python function of
            the record's bytes, which is slow: about a microsecond each, with Python's lock. Several
            threads call that too. What it throws comes out at the loop.
            Python's collector does not see that a chain holds it: one that refers to its own
            Loader keeps that until the program ends.
    """
    if isinstance(keep, Compiled):
        return _core.filter_compiled(reader_of(reader), keep.address, keep.owner)
    if not callable(keep):
        raise TypeError("filter takes compiled(function) or a Python function")
    return _core.filter_python(reader_of(reader), keep)


def write_subset(
    reader: _core.Reader, path: PathLike, numbers: Optional[Iterable[int]] = None
) -> None:
    """Writes a file for `subset=` of open_files and Loader. All of it is seen, or nothing.

    Args:
        reader: of files; or, without numbers, the end of a chain whose records are kept, as behind
            `filter`: its files are opened with note_records=True, and it is read to its end.
        numbers: of the kept records, from 0 through all files, damaged ones counted, in any order.
            No record is read.

    Raises:
        InvalidArgument: there is no such record; the reader is of a stream or a mixture.
        Error: what reading the chain, or writing the file, raises.
    """
    try:
        kept = None if numbers is None else array("Q", iter(numbers)).tobytes()
    except OverflowError:
        raise ValueError("numbers of records are from 0 on, and less than 2^64") from None
    except TypeError:
        raise TypeError(f"numbers are a list of integers, not {numbers!r:.80}") from None
    _core.write_subset(reader_of(reader), file_name(path), kept)


@counterparts.hinting(counterparts.BATCHING)
def group_batch(
    reader: _core.Reader,
    size: int,
    group_of: Union[Compiled, Callable[[bytes], int]],
    segment: int = 0,
    drop_remainder: bool = False,
    slots: int = 0,
    rank: Union[Rank, str, None] = "auto",
) -> _core.Reader:
    """Batches of `size` rows that are all of one group, as `group_of` says of the record as it is
    in the file. So many records as `segment` says (0: 64 batches' rows) are grouped among
    themselves; what is left then follows as short batches, or is dropped.

    Args:
        rank: such batches cannot be divided among ranks. So "auto" raises Unsupported if this is
            one of several processes; None: each gets everything.
    """
    refuse_parts(rank, "group_batch")
    address, function = (0, group_of)
    if isinstance(group_of, Compiled):
        address, function = group_of.address, group_of.owner
    elif not callable(group_of):
        raise TypeError("group_batch takes compiled(function) or a Python function")
    return _core.group_batch(
        reader_of(reader),
        address,
        function,
        counted(size, "size"),
        counted(segment, "segment"),
        flag(drop_remainder, "drop_remainder"),
        counted(slots, "slots"),
    )


def truncate(reader: _core.Reader, field: str, length: int) -> _core.Reader:
    """The first `length` units (steps of the first dimension) of a ragged field, if a row has
    more. After `parse`, as those that follow."""
    return _core.truncate(reader_of(reader), text(field, "field"), counted(length, "length"))


@counterparts.hinting({})
def pad(
    reader: _core.Reader, field: str, length: int = 0, multiple: int = 0, value: float = 0
) -> _core.Reader:
    """Fills rows of a ragged field up with `value`: to `length` units, and it has a fixed shape
    (longer rows are damaged: truncate them), or to the next multiple of `multiple`. A last field
    "<field>_length", int64, has the number of a row's own units."""
    length, multiple = counted(length, "length"), counted(multiple, "multiple")
    return _core.pad(reader_of(reader), text(field, "field"), length, multiple, value)


@counterparts.hinting(counterparts.BATCHING)
def bucket_batch(
    reader: _core.Reader,
    size: int,
    field: str,
    bounds: Sequence[int],
    segment: int = 0,
    drop_remainder: bool = False,
    slots: int = 0,
    rank: Union[Rank, str, None] = "auto",
    steps: Optional[Steps] = None,
) -> _core.Reader:
    """Batches of `size` rows that are alike in length: up to bounds[0] units of a ragged field, up
    to bounds[1], and so on, and longer than all. `segment`: records that are put together (0: 64
    batches' rows, if planned the largest multiple of size below 65,536).

    Args:
        rank, steps: the ranks that share each batch; see pack.
    """
    return _core.bucket_batch(
        reader_of(reader),
        counted(size, "size"),
        text(field, "field"),
        [counted(bound, "a bound") for bound in integers(bounds, "bounds")],
        counted(segment, "segment"),
        flag(drop_remainder, "drop_remainder"),
        counted(slots, "slots"),
        _steps_of(steps, rank),
    )


@counterparts.hinting(counterparts.TOKEN_BATCHING)
def token_batch(
    reader: _core.Reader,
    field: str = "",
    tokens: int = 0,
    bytes: int = 0,
    most_rows: int = 1024,
    slots: int = 0,
    rank: Union[Rank, str, None] = "auto",
    shares: int = 0,
    segment: int = 0,
    fit: str = "first",
    padded: bool = False,
    steps: Optional[Steps] = None,
) -> _core.Reader:
    """Batches of as many rows as fit into `tokens` units of a ragged field, or into `bytes` of
    the records. A row that is larger by itself is a batch of its own.

    Args:
        shares: token batches of a step, of all ranks together, which several ranks need; each
            rank gets as many of them, one after another.
        segment: if planned, records that are put together; 0: 65,535.
        fit: "first", as records come; "best": by length, the batches in random order.
        padded: with "best", rows times the longest count, and not their sum.
        rank, steps: the ranks that share each step; see pack.
    """
    return _core.token_batch(
        reader_of(reader),
        text(field, "field"),
        counted(tokens, "tokens"),
        counted(bytes, "bytes"),
        counted(most_rows, "most_rows"),
        counted(slots, "slots"),
        counted(shares, "shares"),
        counted(segment, "segment"),
        is_best(fit),
        flag(padded, "padded"),
        _steps_of(steps, rank),
    )


@counterparts.hinting(counterparts.PACKING)
def pack(
    reader: _core.Reader,
    field: str,
    length: int,
    rows: int,
    segment: int = 0,
    pad_value: float = 0,
    drop_remainder: bool = False,
    slots: int = 0,
    rank: Union[Rank, str, None] = "auto",
    fit: str = "first",
    multiple: int = 1,
    most_records: int = 0,
    steps: Optional[Steps] = None,
) -> _core.Reader:
    """Records of one ragged field packed into rows of `length` units, `rows` of them a batch.
    Fields: <field> [rows, length, …], <field>_segments int32 [rows, length] (1, 2, … for the
    records of a row, 0 if it is empty), <field>_positions int32 [rows, length] (a unit's number in
    its record). `segment`: records that are packed among themselves (0: 256 batches' rows, if
    planned 65,535).

    Args:
        fit: "first": each record into the first row that has room; "best": the longest first, each
            into the row that it fills best, which leaves a hundredth of the padding.
        multiple: if planned, a record takes the next multiple of so many units.
        most_records: of a row, by best fit; 0: any number.
        rank: the ranks that share each batch; `rows` is of all of them.
        steps: how they share it, and what is done with a rest. With steps, several ranks or
            fit="best" batches are planned from the records' lengths, which are kept beside the
            files' indexes and made if they are missing: files, no filter. Say steps, Steps() if
            nothing else, for the same batches on one rank and on several.
    """
    return _core.pack(
        reader_of(reader),
        text(field, "field"),
        counted(length, "length"),
        counted(rows, "rows"),
        counted(segment, "segment"),
        pad_value,
        flag(drop_remainder, "drop_remainder"),
        counted(slots, "slots"),
        is_best(fit),
        counted(multiple, "multiple"),
        counted(most_records, "most_records"),
        _steps_of(steps, rank),
    )


def _steps_of(
    steps: Optional[Steps], rank: Union[Rank, str, None]
) -> Optional[tuple[Any, ...]]:
    if steps is not None and not isinstance(steps, Steps):
        raise TypeError(f"steps is a ringfeed.Steps, not {steps!r}")
    own = rank_of(rank)
    several = own is not None and own.world_size > 1
    return None if steps is None and not several else (steps or Steps()).as_tuple(own)
