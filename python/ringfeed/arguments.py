"""Checks of arguments, at the call and not in the first pass: the error names the argument."""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

_MOST = (1 << 64) - 1


def at_least(minimum: int, value: Any, name: str) -> int:
    """`value` as an int. TypeError if it is no integer, ValueError if it is below `minimum`."""
    count = _integer(value, name)
    if count < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {count}")
    return count


def counted(value: Any, name: str) -> int:
    """The same for the kernel's numbers and seeds, which are from 0 to 2^64 - 1."""
    count = at_least(0, value, name)
    if count > _MOST:
        raise ValueError(f"{name} must be less than 2^64, not {count}")
    return count


def integers(values: Any, name: str) -> list[int]:
    """A sequence of integers, for a list of dimensions or bounds; TypeError if it is none."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a list of integers, not {values!r}")
    return [_integer(value, name) for value in values]


def flag(value: Any, name: str) -> bool:
    """True or False, also as 1, 0 or NumPy's. TypeError for anything else."""
    try:
        return {True: True, False: False}[value]
    except (KeyError, TypeError):
        raise TypeError(f"{name} must be True or False, not {value!r}") from None


def text(value: Any, name: str) -> str:
    """A str; TypeError, in a line that names the argument, for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {value!r}")
    return value


def some_callables(values: Sequence[Any], name: str) -> None:
    """TypeError if a value cannot be called, ValueError if there is none."""
    if not values:
        raise ValueError(f"no {name} given")
    for value in values:
        if not callable(value):
            raise TypeError(f"a {name} is a function, not {type(value).__name__}")


def _integer(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None


def warn_caller(text: str) -> None:
    """Warns whoever called the package."""
    warnings.warn(text, RuntimeWarning, stacklevel=_frames_of_package())


def _frames_of_package() -> int:
    """How many calls of this package stand between the caller and who called the package."""
    package = os.path.dirname(__file__)
    frames = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == package:
        frames += 1
        frame = frame.f_back
    return frames
