"""Declarations of fields and slots: names, dtypes, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, Sequence, Union

from .arguments import counted, integers


class Field(NamedTuple):
    """One field of a record.

    Attributes:
        name: its key in the record and in a batch.
        dtype: "float32", "int64", "uint8", …, or NumPy's or Torch's object for it.
        shape: of one record, without the batch's dimension. () is a scalar; a first dimension of -1
            makes the field ragged.
        default: what a record without it gets: a number for each element, or text or bytes of a
            ragged uint8 field, or [], an empty row of a ragged one. None: such a record is damaged.
        column: of CSV, the (first) column from 0; -1: by its name, or after the field before.
    """

    name: str
    dtype: Any = "uint8"
    shape: Sequence[int] = ()
    default: Optional[Union[int, float, str, bytes, Sequence[Any]]] = None
    column: int = -1


#: Fields by name: (dtype, shape) or (dtype, shape, default) each; or a list of Field.
Fields = Union[Mapping[str, Any], Iterable[Field]]


def dtype_name(dtype: Any) -> str:
    """ "float32" of "float32", numpy.float32, numpy.dtype("f4"), torch.float32, float, …"""
    if isinstance(dtype, str):
        return dtype
    builtin = {float: "float32", int: "int64", bool: "bool", bytes: "uint8"}
    if isinstance(dtype, type) and dtype in builtin:
        return builtin[dtype]
    if getattr(dtype, "isnative", True) is False:
        raise ValueError(f"{dtype!r} is of the other byte order: records are read little-endian")
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.rpartition(".")[2]


def field_list(fields: Fields) -> list[Field]:
    """The declarations as Fields, in their order."""
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise TypeError(f"fields are {{name: (dtype, shape)}}, or a list of Field, not {fields!r}")
    if isinstance(fields, Mapping):
        listed = [_field(name, declared) for name, declared in fields.items()]
    else:
        listed = [field if isinstance(field, Field) else _field_of(field) for field in fields]
    if not listed:
        raise ValueError("no field is declared: {name: (dtype, shape)}")
    seen: set[str] = set()
    for field in listed:
        if not isinstance(field.name, str):
            raise TypeError(f"a field's name is a str, not {field.name!r}")
        if field.name in seen:
            raise ValueError(f"two fields have the name {field.name!r}")
        seen.add(field.name)
    return listed


def _field(name: str, declared: Any) -> Field:
    if not isinstance(declared, (tuple, list)):
        declared = (declared,)
    if not 1 <= len(declared) < len(Field._fields):
        raise TypeError(f"field {name!r} is (dtype, shape) or (dtype, shape, default)")
    return Field(name, *declared)


def _field_of(entry: Any) -> Field:
    if not isinstance(entry, (tuple, list)) or len(entry) < 2:
        raise TypeError(f"a field is a Field, or (name, dtype, shape), not {entry!r}")
    return _field(entry[0], entry[1:])


def dimensions(shape: Any, name: str) -> list[int]:
    """A shape's list; TypeError, which names the field, if it is none."""
    return integers(shape, f"the shape of {name!r}")


def _default(value: Any, field: Field) -> Any:
    """NumPy's scalars as Python's; "", which the kernel takes for an empty row, for []."""
    shape = getattr(value, "shape", None)
    if shape == ():
        return value.item()
    if not isinstance(value, (list, tuple)) and shape is None:
        return value
    if len(value) > 0:
        raise TypeError(
            f"the default of {field.name!r} is a number, text, bytes or [], an empty row, "
            f"not {value!r}"
        )
    if not any(dimension < 0 for dimension in list(field.shape)[:1]):
        raise ValueError(
            f"the default [] of {field.name!r} is an empty row, and its rows are not ragged: a "
            "number stands for each element"
        )
    return ""


def field_tuples(fields: Fields) -> list[tuple[str, str, list[int], Any]]:
    """As ringfeed._core takes them."""
    return [
        (
            field.name,
            dtype_name(field.dtype),
            dimensions(field.shape, field.name),
            _default(field.default, field),
        )
        for field in field_list(fields)
    ]


def slot_tuples(slots: Iterable[Sequence[Any]]) -> list[tuple[str, str, list[int], int]]:
    """(name, dtype, dims, lod_levels) each, of which lod_levels may be left out, as ringfeed._core
    takes them."""
    return [_slot_tuple(slot) for slot in slots]


def _slot_tuple(slot: Sequence[Any]) -> tuple[str, str, list[int], int]:
    if not isinstance(slot, (tuple, list)) or len(slot) not in (3, 4):
        raise TypeError(f"a slot is (name, dtype, dims) or (name, dtype, dims, lod), not {slot!r}")
    name, dtype, dims, lod = (*slot, 0)[:4]
    if not isinstance(name, str):
        raise TypeError(f"a slot's name is a str, not {name!r}")
    levels = counted(lod, f"the levels of LoD of {name!r}")
    return name, dtype_name(dtype), dimensions(dims, name), levels
