"""Checks of the arguments of decorators, at the call and not in the first pass."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any


def at_least(minimum: int, value: Any, name: str) -> int:
    """`value` as an int. TypeError if it is no integer, ValueError if it is below `minimum`."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if count < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {count}")
    return count


def some_callables(values: Sequence[Any], name: str) -> None:
    """TypeError if a value cannot be called, ValueError if there is none."""
    if not values:
        raise ValueError(f"no {name} given")
    for value in values:
        if not callable(value):
            raise TypeError(f"a {name} is a function, not {type(value).__name__}")
