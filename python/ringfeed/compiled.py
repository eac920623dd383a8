"""Compiled functions that are called for each record, in parallel and without the lock."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Sequence

from .fields import Field, Fields, field_list

_CTYPES_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]


class Compiled(NamedTuple):
    """A function in machine code, made by `compiled`.

    Attributes:
        address: where its code is.
        owner: what its code belongs to; kept as long as a chain may call it.
        outputs: the fields that it writes; of a predicate or a group None.
        keep: names of parsed fields that follow unchanged.
    """

    address: int
    owner: Any
    outputs: Optional[list[Field]] = None
    keep: Sequence[str] = ()


def compiled(
    function: Any, outputs: Optional[Fields] = None, keep: Sequence[str] = ()
) -> Compiled:
    """A C function for `map`, `filter` and `group_batch`.

    As `map`, with `outputs`, called for each record by several threads at once:

        int32_t f(const void* const* inputs, const int64_t* input_bytes, void* const* outputs)

    `inputs` are the parsed fields in their order, or if nothing is parsed the record alone, with
    their lengths in bytes; `outputs` are the places of the declared fields of this row in the
    batch, uninitialised. A result other than 0 is this record's failure, with that number, and so
    is an output that was left as it was. (To be sure of that, the function is called once more.)
    Without `outputs`, for a record's bytes as they are in the file:

        int32_t keep(const void* record, int64_t bytes)     /* filter */
        int64_t group(const void* record, int64_t bytes)    /* group_batch */

    Args:
        function: an address, a function of ctypes, or what has an `address` (numba.cfunc).
        outputs: fields of fixed shape: {name: (dtype, shape)}.
        keep: names of parsed fields that follow the outputs unchanged. Others end here.

    Raises:
        TypeError: `function` is none of these.
    """
    return Compiled(
        _address(function), function, None if outputs is None else field_list(outputs), keep
    )


def _address(function: Any) -> int:
    if isinstance(function, int):
        address = function
    elif isinstance(getattr(function, "address", None), int):
        address = function.address
    elif isinstance(function, _CTYPES_FUNCTION):
        pointer: Any = function
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
    else:
        raise TypeError(
            "a compiled function is an address, a function of ctypes or numba.cfunc's result, "
            f"not {type(function).__name__}"
        )
    if address <= 0:
        raise TypeError("the compiled function's address is null")
    return address
