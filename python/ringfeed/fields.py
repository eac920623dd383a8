"""Declarations of fields and slots: names, dtypes, shapes."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Union


class Field(NamedTuple):
    """One field of a record.

    Attributes:
        name: its key in the record and in a batch.
        dtype: "float32", "int64", "uint8", …, or NumPy's or Torch's object for it.
        shape: of one record, without the batch's dimension. () is a scalar; a first dimension of -1
            makes the field ragged.
        default: what a record without it gets: a number for each element, or text or bytes of a
            ragged uint8 field. None: such a record is damaged.
        column: of CSV, the (first) column from 0; -1: by its name, or behind the field before.
    """

    name: str
    dtype: Any = "uint8"
    shape: Sequence[int] = ()
    default: Optional[Union[int, float, str, bytes]] = None
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
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.rpartition(".")[2]


def field_list(fields: Fields) -> list[Field]:
    """The declarations as Fields, in their order."""
    if isinstance(fields, Mapping):
        listed = []
        for name, declared in fields.items():
            if isinstance(declared, str) or not isinstance(declared, (tuple, list)):
                declared = (declared,)
            listed.append(Field(name, *declared))
    else:
        listed = [field if isinstance(field, Field) else Field(*field) for field in fields]
    if not listed:
        raise ValueError("no field is declared: {name: (dtype, shape)}")
    return listed


def field_tuples(fields: Fields) -> list[tuple[str, str, list[int], Any]]:
    """As ringfeed._core takes them."""
    return [
        (field.name, dtype_name(field.dtype), list(field.shape), field.default)
        for field in field_list(fields)
    ]


def slot_tuples(slots: Iterable[Sequence[Any]]) -> list[tuple[str, str, list[int], int]]:
    """(name, dtype, dims, lod_levels) each, of which lod_levels may be left out, as ringfeed._core
    takes them."""
    return [_slot_tuple(*slot) for slot in slots]


def _slot_tuple(
    name: str, dtype: Any, dims: Sequence[int], lod_levels: int = 0
) -> tuple[str, str, list[int], int]:
    return name, dtype_name(dtype), list(dims), lod_levels
