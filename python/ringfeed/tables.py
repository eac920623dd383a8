"""Tables as data sets: what Arrow's libraries hold or read, and files of Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core, counterparts
from .arguments import counted
from .chains import SeededOptions, check_open_options
from .table_files import Groups, PathLike, arrow_groups, parquet_groups

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: "fail", "default", "mask", or one of these and the number in place of nulls.
Nulls = Union[str, tuple[str, float]]


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def table(
    source: Any,
    columns: Optional[Iterable[str]] = None,
    nulls: Union[Nulls, Mapping[str, Nulls]] = "fail",
    kept_groups: int = 4,
    **options: Unpack[SeededOptions],
) -> _core.Reader:
    """The rows of a table as fields, for shuffle, batch and the other functions of chains. Values
    go from Arrow's memory into the batch; no Python code sees them.

    Args:
        source: a pyarrow.dataset, whose row groups are opened as their turn comes; or what has
            `__arrow_c_stream__` (a pyarrow Table, a Polars frame, a DuckDB relation, a
            RecordBatchReader): all that it gives is kept in memory, of a table without a copy.
        columns: those that become fields, by name or by path in structs ("image.bytes"). None:
            all.
        nulls: "fail": a row with one is damaged; "default": 0 or an empty row stands for it;
            "mask": the same, and a field "<column>_valid" says which are none. Or such a word with
            the number that stands for nulls; or these by columns.
        kept_groups: so many groups are kept decoded, and at least as many as `cycle`.
        options: as of open_files.

    Numbers, bools and fixed-size lists are fixed fields; lists, strings and binaries ragged ones;
    times and decimals the integers that they are stored as (`reader.logical_types` tells units and
    scales); of a dictionary its values. For a table in groups `shuffle(reader, "stripes", window)`
    is the order: the groups permuted, their rows shuffled in a window.

    Raises:
        TypeError: the source is none of these.
        NotFound: there is no such column. Unsupported: it is of a type that has no field.
    """
    wanted = _names_of(columns)
    return _open(_groups_of(source, wanted), wanted, nulls, kept_groups, options)


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def parquet(
    files: Union[PathLike, Iterable[PathLike]],
    columns: Optional[Iterable[str]] = None,
    nulls: Union[Nulls, Mapping[str, Nulls]] = "fail",
    kept_groups: int = 4,
    filesystem: Any = None,
    **options: Unpack[SeededOptions],
) -> _core.Reader:
    """The rows of Parquet files, by pyarrow's reader. The row groups of all files are the groups;
    each is read and decoded as its turn comes, outside of Python's lock, and of the wanted columns
    alone. Checksums of pages are checked if the file has them.

    Args:
        files: a path, a folder, a glob or several; or addresses that pyarrow.fs knows (s3://…).
        columns, nulls, kept_groups, options: as of table.
        filesystem: where the paths lie: of pyarrow.fs or fsspec. None: the local one.

    Raises:
        Damaged: a file's footer is. With skip_damaged the file counts as one damaged row, as the
            rows of a group do that Arrow refuses.
        Unsupported: a file is encrypted. InvalidArgument: columns of one name are of several types.
        NotFound: there is no such file or column. What the store raises comes as it is.
    """
    wanted = _names_of(columns)
    groups = parquet_groups(files, filesystem, wanted, bool(options.get("skip_damaged")))
    return _open(groups, wanted, nulls, kept_groups, options)


@counterparts.hinting(counterparts.OPENING, SeededOptions)
def arrow_ipc(
    files: Union[PathLike, Iterable[PathLike]],
    columns: Optional[Iterable[str]] = None,
    nulls: Union[Nulls, Mapping[str, Nulls]] = "fail",
    kept_groups: int = 4,
    filesystem: Any = None,
    **options: Unpack[SeededOptions],
) -> _core.Reader:
    """The same of files in Arrow's IPC format (Feather 2), whose batches are the groups; or of its
    streams (Hugging Face's *.arrow), which are a table in memory. Local files are mapped, so what
    is not compressed takes no memory of its own; nobody may cut them while they are read."""
    wanted = _names_of(columns)
    groups = arrow_groups(files, filesystem, wanted, bool(options.get("skip_damaged")))
    return _open(groups, wanted, nulls, kept_groups, options)


def _names_of(columns: Optional[Iterable[str]]) -> list[str]:
    if isinstance(columns, str):
        raise TypeError(f"columns is several names, not one text: [{columns!r}]")
    return [] if columns is None else [str(column) for column in columns]


def _open(
    groups: Groups, wanted: list[str], nulls: Any, kept_groups: int, options: SeededOptions
) -> _core.Reader:
    by_column = nulls if isinstance(nulls, Mapping) else {}
    for_all: Any = "fail" if isinstance(nulls, Mapping) else nulls
    return _core.open_table(
        *groups,
        wanted,
        _null_tuple(for_all),
        {str(column): _null_tuple(given) for column, given in by_column.items()},
        counted(kept_groups, "kept_groups"),
        check_open_options(options),
    )


def _null_tuple(given: Any) -> tuple[str, float]:
    mode, value = (given, 0) if isinstance(given, str) else given
    return str(mode), float(value)


def _groups_of(source: Any, wanted: list[str]) -> Groups:
    if hasattr(source, "get_fragments"):
        return _groups_of_dataset(source, wanted)
    if hasattr(source, "__arrow_c_stream__"):
        return Groups(type(source).__name__, "", None, None, source)
    remedies = {
        "LazyFrame": "collect() it",
        "Scanner": "take its to_reader()",
        "ParquetFile": "take ringfeed.parquet(path)",
        "Dataset": "take its table: dataset.with_format('arrow')[:]",
        "str": "ringfeed.parquet and arrow_ipc open files",
    }
    kind = type(source).__name__
    raise TypeError(
        f"a table is a pyarrow.dataset or has __arrow_c_stream__, not {kind}"
        + (f": {remedies[kind]}" if kind in remedies else "")
    )


def _parts_of(fragment: Any) -> list[Any]:
    """The row groups of a Parquet file; another file as a whole."""
    split = getattr(fragment, "split_by_row_group", None)
    return [fragment] if split is None else list(split())


def _rows_of(part: Any) -> int:
    groups = getattr(part, "row_groups", None)
    return sum(group.num_rows for group in groups) if groups else int(part.count_rows())


def _identity(part: Any) -> str:
    """Of a row group what its footer says of it: sizes, smallest and largest values."""
    groups = getattr(part, "row_groups", None) or []
    return "".join(f"{group.total_byte_size} {group.statistics}, " for group in groups)


def _groups_of_dataset(source: Any, wanted: list[str]) -> Groups:
    parts = [part for fragment in source.get_fragments() for part in _parts_of(fragment)]
    names = set(source.schema.names)
    tops = [path if path in names else path.partition(".")[0] for path in wanted]
    known = list(dict.fromkeys(top for top in tops if top in names))

    def opened(group: int) -> Any:
        if not parts:
            return source.schema.empty_table()
        return parts[group].scanner(schema=source.schema, columns=known or None).to_reader()

    groups = [(f"dataset#{at}", _rows_of(part), _identity(part)) for at, part in enumerate(parts)]
    return Groups("dataset", "", groups or [("dataset#0", 0, "")], source.schema, opened)
