"""Tables as data sets: what Arrow's libraries hold or read, in groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional, Union
from typing import TYPE_CHECKING

from . import _core, counterparts
from .arguments import counted
from .chains import SeededOptions, check_open_options

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
        kept_groups: so many groups are kept after their use.
        options: as of open_files.

    Numbers, bools and fixed-size lists are fixed fields; lists, strings and binaries ragged ones;
    times and decimals the integers that they are stored as; of a dictionary its values. For a
    table in groups `shuffle(reader, "stripes", window)` is the order: the groups permuted, their
    rows shuffled in a window.

    Raises:
        TypeError: the source is none of these.
        NotFound: there is no such column. Unsupported: it is of a type that has no field.
    """
    by_column = nulls if isinstance(nulls, Mapping) else {}
    for_all: Any = "fail" if isinstance(nulls, Mapping) else nulls
    wanted = [] if columns is None else [str(column) for column in columns]
    name, rows, opened = _groups_of(source, wanted)
    return _core.open_table(
        name,
        rows,
        opened,
        wanted,
        _null_tuple(for_all),
        {str(column): _null_tuple(given) for column, given in by_column.items()},
        counted(kept_groups, "kept_groups"),
        check_open_options(options),
    )


def _null_tuple(given: Any) -> tuple[str, float]:
    mode, value = (given, 0) if isinstance(given, str) else given
    return str(mode), float(value)


def _groups_of(source: Any, wanted: list[str]) -> tuple[str, Optional[list[int]], Any]:
    """Its name; the rows of each group, and a function that opens one; or None and the source."""
    if hasattr(source, "get_fragments"):
        parts = [part for fragment in source.get_fragments() for part in _parts_of(fragment)]
        return "dataset", [_rows_of(part) for part in parts], _opener(source, parts, wanted)
    if hasattr(source, "__arrow_c_stream__"):
        return type(source).__name__, None, source
    remedies = {
        "LazyFrame": "collect() it",
        "Scanner": "take its to_reader()",
        "ParquetFile": "take pyarrow.dataset.dataset(path)",
        "Dataset": "take its table: dataset.with_format('arrow')[:]",
        "str": "pyarrow.dataset.dataset(path) opens files",
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


def _opener(source: Any, parts: list[Any], wanted: list[str]) -> Callable[[int], Any]:
    names = set(source.schema.names)
    tops = [path if path in names else path.partition(".")[0] for path in wanted]
    known = list(dict.fromkeys(top for top in tops if top in names))

    def opened(group: int) -> Any:
        return parts[group].scanner(schema=source.schema, columns=known or None).to_reader()

    return opened
