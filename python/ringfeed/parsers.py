"""Parsers: what turns records into fields. Each is made once, and may be used by several chains."""

from __future__ import annotations

import copyreg
from typing import Any, Iterable, Literal, NamedTuple, Optional, Sequence, Union, overload

from . import _core
from .arguments import at_least, flag, text, warn_caller
from .chains import csv_columns
from .errors import Error, NotFound
from .fields import Fields, dimensions, dtype_name, field_list, field_tuples, slot_tuples
from .source import Source

#: (name, dtype, dims, levels of LoD)
SlotDeclaration = Sequence[Any]


def made_parser(maker: str, *arguments: Any) -> _core.RecordParser:
    """The parser that the core makes so. It can be pickled."""
    parser: _core.RecordParser = getattr(_core, maker)(*arguments)
    vars(parser)["made_by"] = (maker, *arguments)
    return parser


def _reduced(parser: _core.RecordParser) -> tuple[Any, tuple[Any, ...]]:
    if "made_by" not in vars(parser):
        raise TypeError("a parser of folders' labels cannot be pickled")
    return made_parser, vars(parser)["made_by"]


copyreg.pickle(_core.RecordParser, _reduced)


def raw() -> _core.RecordParser:
    """The record as it is: one ragged uint8 field "bytes"."""
    return made_parser("raw_parser")


def rows(fields: Fields) -> _core.RecordParser:
    """Packed little-endian rows: each field directly after the one before, of fixed shape."""
    return made_parser("rows_parser", field_tuples(fields))


def example(features: Fields) -> _core.RecordParser:
    """tf.Example: bytes give uint8, floats float32, integers int64 or int32."""
    return made_parser("example_parser", field_tuples(features))


def sequence_example(context: Fields, sequences: Fields) -> _core.RecordParser:
    """tf.SequenceExample: the context's features, then the feature lists, a step each feature."""
    return made_parser(
        "sequence_example_parser",
        field_tuples(context) if context else [],
        field_tuples(sequences) if sequences else [],
    )


def tar(members: Fields) -> _core.RecordParser:
    """Samples of a tar file by their members' extensions ("jpg;jpeg", "cls", "__key__"), which
    may be written with their dot (".jpg"). "npy" is an array, "json/user/id" a value of JSON."""
    return made_parser("tar_parser", field_tuples(members))


def jsonl(keys: Fields) -> _core.RecordParser:
    """One JSON object a line by its keys, or, with a slash first, by paths ("/user/id")."""
    return made_parser("json_lines_parser", field_tuples(keys))


class CsvByHeader:
    """What csv(header=True) gives: a Loader reads the columns' names from its files."""

    def __init__(self, fields: Fields, delimiter: str, quotes: bool, columns: int) -> None:
        self._fields = field_list(fields)
        self._delimiter = delimiter
        self._quotes = quotes
        self._columns = columns
        _one_character(delimiter)

    def of_files(
        self, files: list[str], options: dict[str, Any]
    ) -> tuple[_core.RecordParser, dict[str, Any]]:
        """The parser of these files, and the options to open them with."""
        format = options.get("format")
        if not format and self._delimiter != ",":
            named = {"\t": "tab", " ": "space"}.get(self._delimiter, self._delimiter)
            format = f"csv:delimiter={named}"
        header, format = csv_columns(files, **{**options, "format": format})
        parser = csv(self._fields, self._delimiter, self._quotes, header, self._columns)
        return parser, {**options, "format": format}


@overload
def csv(
    fields: Fields,
    delimiter: str = ",",
    quotes: bool = True,
    header: Union[str, Literal[False], None] = "",
    columns: int = 0,
) -> _core.RecordParser: ...


@overload
def csv(
    fields: Fields,
    delimiter: str = ",",
    quotes: bool = True,
    *,
    header: Literal[True],
    columns: int = 0,
) -> CsvByHeader: ...


def csv(
    fields: Fields,
    delimiter: str = ",",
    quotes: bool = True,
    header: Union[str, bool, None] = "",
    columns: int = 0,
) -> Union[_core.RecordParser, CsvByHeader]:
    """CSV rows by their columns.

    Args:
        fields: by name, number (Field.column), or one after the other.
        delimiter, quotes: how a row is told apart.
        header: True: the first row of each file names its columns. A Loader reads that of its first
            file as it is made, and a file that lacks one of them is damaged. Or the line that names
            them, if it is known; whether the files have one is then said by format="csv:header".
            False, or "": every row is a record.
        columns: how many a row must have (0: as the header or the fields say, -1: at least those).
    """
    if header is True:
        return CsvByHeader(fields, delimiter, quotes, columns)
    declared = field_list(fields)
    header = "" if header is False or header is None else header
    if not isinstance(header, str):
        raise TypeError(
            "header is True, if the first row of each file names the columns, or the line that "
            f'does ("id,x,note"), not {header!r}'
        )
    _one_character(delimiter)
    return made_parser(
        "csv_parser",
        [(t, f.column) for t, f in zip(field_tuples(declared), declared)],
        delimiter,
        flag(quotes, "quotes"),
        header.encode("utf-8", "surrogateescape"),
        at_least(-1, columns, "columns"),
    )


def _one_character(delimiter: str) -> None:
    if len(text(delimiter, "delimiter")) != 1:
        raise ValueError(f"a delimiter is one character, not {delimiter!r}")


def ofrecord(features: Fields, truncate: bool = False) -> _core.RecordParser:
    """OneFlow's OFRecord. `truncate` cuts longer features off and fills shorter ones with zeros."""
    return made_parser("ofrecord_parser", field_tuples(features), flag(truncate, "truncate"))


def tokens(
    dtype: Any = "uint16",
    shape: Sequence[int] = (-1,),
    convert: Optional[Any] = None,
    name: str = "tokens",
) -> _core.RecordParser:
    """Arrays of little-endian numbers; `convert` to "int32" or "int64", as embeddings want them."""
    text(name, "name")
    as_dtype = None if convert is None else dtype_name(convert)
    return made_parser("tokens_parser", dtype_name(dtype), dimensions(shape, name), as_dtype, name)


def lod_tensors(slots: Iterable[SlotDeclaration]) -> _core.RecordParser:
    """Paddle's LoDTensor records: (name, dtype, dims, levels of LoD) of each tensor in order."""
    return made_parser("lod_tensor_parser", slot_tuples(slots))


def instance(slots: Iterable[SlotDeclaration]) -> _core.RecordParser:
    """ringfeed's own Instance messages: (name, dtype, dims, levels of LoD) of each slot."""
    return made_parser("instance_parser", slot_tuples(slots))


class Inferred(NamedTuple):
    """What files tell of their records.

    Attributes:
        parser: None if they tell nothing.
        call: what makes the same parser, as one may write it.
        options: to open the files with.
        why: nothing is told of records that may have fields; or "".
    """

    parser: Optional[_core.RecordParser]
    call: str
    options: dict[str, Any]
    why: str


def asks_files(parse: Any) -> bool:
    """Whether it is "auto": the files tell the parser. ValueError for another text."""
    if isinstance(parse, str) and parse != "auto":
        raise ValueError(f'parse is a parser, "auto" or None, not {parse!r}')
    return isinstance(parse, str)


def inferred(files: list[Union[str, Source]], options: dict[str, Any]) -> Inferred:
    """The parser that the first of these files tells. Warns if it tells none and may have one."""
    found = _inferred(files, options)
    if found.why:
        warn_caller(
            f'{found.why}: parse="auto" gives the records\' bytes; say which fields they '
            "have (parse=ringfeed.example(…), rows(…), …), or parse=None if bytes are meant"
        )
    return found


def _inferred(files: list[Union[str, Source]], options: dict[str, Any]) -> Inferred:
    paths = [file for file in files if isinstance(file, str)]
    if len(paths) < len(files):
        told = options.get("format") in ("lines", "raw")
        return Inferred(None, "None", options, "" if told else "a Source is not looked into")
    try:
        answer = _core.infer_parser(paths, options)
    except Error as error:  # the first read fails, too: that is its place
        missing = isinstance(error, NotFound)
        return Inferred(None, "None", options, "" if missing else f"nothing was read ({error})")
    name, found, delimiter, header, format, why, ready = answer
    if name == "raw":
        return Inferred(None, "None", options, why)
    if name in ("mds", "litdata"):  # the columns stand in the files alone
        return Inferred(ready, '"auto"', options, "")
    fields = {field: (dtype, shape, missing) for field, dtype, shape, missing in found}
    declared = "{" + ", ".join(map(_declared, fields, fields.values())) + "}"
    if name == "tokens":
        dtype, shape, _ = fields["tokens"]
        return Inferred(tokens(dtype, shape), f"ringfeed.tokens({dtype!r}, {shape})", options, "")
    if name == "csv":
        more = "" if delimiter == "," else f", {delimiter!r}"
        row = header.decode("utf-8", "surrogateescape")
        parser = csv(fields, delimiter, header=row)
        call = f"ringfeed.csv({declared}{more}, header=True)"
        return Inferred(parser, call, {**options, "format": format}, "")
    make = {"example": example, "jsonl": jsonl, "rows": rows, "tar": tar}[name]
    return Inferred(make(fields), f"ringfeed.{name}({declared})", options, "")


def _declared(name: str, field: tuple[str, list[int], Any]) -> str:
    dtype, shape, missing = field
    default = "" if missing is None else f", {missing}" if missing == [] else ', float("nan")'
    return f"{name!r}: ({dtype!r}, {shape}{default})"
