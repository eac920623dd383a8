"""Python functions that are called with each row."""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from . import _core
from .arguments import counted
from .dataset import Parser
from .fields import Field, Fields, dtype_name, field_list, field_tuples


#: What map_python takes behind the outputs: keep, seed, name, takes_row, row_timeout_ms.
_Options = tuple[list[str], int, str, bool, int]


class MapRows(NamedTuple):
    """A Python function for `map` that is called with each row, on ringfeed's threads, in order.

    Each call takes the interpreter's lock, so that calls wait for each other (unless Python has
    none, or the function releases it, as NumPy, Pillow and OpenCV do in the middle). Use `compiled`
    for arithmetic on numbers.

    Attributes:
        function: takes the fields by name, as NumPy arrays, or if nothing is parsed the record's
            bytes. If it has a second argument without a default, or one called `row`, it gets the
            Row there. It gives the outputs, as Parser.parse gives fields; what it raises comes out
            at the loop, but ringfeed.Damaged refuses the row as damaged.
        outputs: the fields that it gives: {name: (dtype, shape)}.
        keep: names of parsed fields that follow unchanged. Others end here.
        timeout_ms: not 0: a row that takes the function longer raises DeadlineExceeded, with its
            file and record, or with skip_damaged is passed over as damage. The thread that calls
            the function is then given up. `stats()` names the slowest rows.
    """

    function: Callable[..., Any]
    outputs: Fields
    keep: Sequence[str] = ()
    timeout_ms: int = 0

    @property
    def takes_row(self) -> bool:
        """Whether the function gets the Row: then its rows differ from epoch to epoch."""
        return _takes_row(self.function)

    def on(self, reader: _core.Reader, seed: int) -> _core.Reader:
        def fields_of(given: Any) -> Any:
            if isinstance(given, bytes):
                return given
            import numpy

            return {name: numpy.asarray(array) for name, array in given.items()}

        name = getattr(self.function, "__name__", type(self.function).__name__)
        timeout_ms = counted(self.timeout_ms, "timeout_ms")
        options = (list(self.keep), seed, name, _takes_row(self.function), timeout_ms)
        return _map(reader, self.function, fields_of, self.outputs, options)


def parse_samples(records: _core.Reader, parser: Parser, seed: int = 0) -> _core.Reader:
    """Records into the fields of a Parser of the user's."""
    name = f"{type(parser).__name__}.parse"
    options: _Options = ([], seed, name, _takes_row(parser.parse), 0)
    return _map(records, parser.parse, None, parser.fields, options)


def draws(parse: Any, map: Any) -> bool:
    """Whether rows may differ from epoch to epoch: a function gets the Row, which draws."""
    parses = isinstance(parse, Parser) and _takes_row(parse.parse)
    parses = parses or (isinstance(parse, _core.RecordParser) and parse.draws)
    return parses or (isinstance(map, MapRows) and map.takes_row)


def _map(
    reader: _core.Reader,
    function: Callable[..., Any],
    convert: Any,
    outputs: Fields,
    options: _Options,
) -> _core.Reader:
    who = options[2]
    fields = field_list(outputs)
    names = [field.name for field in fields]

    def row_of(given: Any, *row: _core.Row) -> tuple[Any, ...]:
        values = _values(function(convert(given) if convert else given, *row), names, who)
        return tuple(_buffer(value, place) for value, place in zip(values, places))

    result = _core.map_python(reader, row_of, field_tuples(fields), *options)
    places = [_Place(field, who) for field in fields]  # after the check of the dtypes
    return result


def _takes_row(function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C's
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [parameter for parameter in parameters if parameter.kind in kinds]
    second = places[1] if len(places) > 1 else None
    return second is not None and (second.default is second.empty or second.name == "row")


class _Place:
    """Where a function's values of a field go.

    Attributes:
        dtype: its name.
        bytes: of a record's values; of a ragged field those of one unit.
        name: the function and the field, as errors begin.
    """

    def __init__(self, field: Field, who: str) -> None:
        self.dtype = dtype_name(field.dtype)
        self._shape = list(field.shape)
        self._ragged = any(dimension < 0 for dimension in self._shape)
        self._item_bytes = int("".join(filter(str.isdigit, self.dtype)) or 8) // 8
        inner = math.prod(dimension for dimension in self._shape if dimension >= 0)
        self.bytes = self._item_bytes * inner
        self.name = f'{who}: field "{field.name}"'

    def fits(self, count: int) -> bool:
        """Whether that many bytes are a row."""
        return count % self.bytes == 0 if self._ragged and self.bytes else count == self.bytes

    def misfit(self, count: int, shape: str) -> ValueError:
        """For so many bytes, of an array of that shape if they are one."""
        unit = "units of " if self._ragged else "of "
        return ValueError(
            f"{self.name} has {self.dtype} {self._shape} a record, {unit}{self.bytes} bytes, got "
            f"{shape}{count} bytes"
        )


def _values(row: Any, names: list[str], who: str) -> list[Any]:
    """A row's values in the order of the fields; ValueError if one of them is missing."""
    if isinstance(row, Mapping):
        values = [row.get(name) for name in names]
    else:
        values = [] if row is None else list(row)
        if len(values) > len(names):
            raise ValueError(f"{who} gave {len(values)} values, declared are {', '.join(names)}")
        values += [None] * (len(names) - len(values))
    for name, value in zip(names, values):
        if value is None:
            raise ValueError(
                f'field "{name}" was not written by {who}: it must give every declared field'
            )
    return values


def _buffer(value: Any, place: _Place) -> Any:
    """What is stored of a value; an error of its type or its size names the class and the field."""
    if isinstance(value, (bytes, bytearray)):
        if not place.fits(len(value)):
            raise place.misfit(len(value), "")
        return value
    import numpy

    try:
        given = numpy.asarray(value)
        is_complex = given.dtype.kind == "c" and numpy.dtype(place.dtype).kind in "iu"
        with numpy.errstate(invalid="ignore"):  # the comparison below finds what is invalid
            array = numpy.ascontiguousarray(given.real if is_complex else given, place.dtype)
        changed = numpy.empty(0)
        # Objects, too: Decimals and Fractions are cut off as floats are.
        if given.dtype.kind in "iufcO" and array.dtype.kind in "iu" and given.dtype != array.dtype:
            changed = numpy.atleast_1d(given)[array != given]
    except (ArithmeticError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place.name} is no {place.dtype}: {error}") from error
    if changed.size:
        raise ValueError(f"{place.name} is no {place.dtype}: it cannot hold {changed[0]}")
    if not place.fits(array.nbytes):
        raise place.misfit(array.nbytes, f"an array {list(given.shape)} of ")
    return array
