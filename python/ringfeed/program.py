"""Programs as texts: docs/PROGRAMS.md has the language."""

from __future__ import annotations

from typing import Any, Callable

from . import _core
from .arguments import some_callables, text
from .chains import PathLike, file_name

__all__ = ["FeedProgram"]

#: Gets the scope, and the names of the variables that it takes and that it is to set.
Function = Callable[[_core.Scope, list[str], list[str]], Any]


class FeedProgram(_core.FeedProgram):
    """A program of this text; errors call it `name`. It runs on the variables of a `Scope`:
    `run_startup(scope)`, then `run_main(scope)`.

    Raises:
        InvalidArgument: the text is no program; file, line and column say where.
    """

    def __init__(self, text: str, name: str = "program") -> None:
        for given, what in ((text, "a program is its text"), (name, "its name is a text")):
            if not isinstance(given, str):
                raise TypeError(f"{what}, a str, not {given!r}; FeedProgram.load reads a file")
        super().__init__(text, name)

    @classmethod
    def load(cls, path: PathLike) -> FeedProgram:
        """The program of a file. Raises what opening it raises, too."""
        name = file_name(path)
        with open(name, encoding="utf-8") as file:
            return cls(file.read(), name)

    def register_function(self, name: str, function: Function) -> None:
        """Gives the program the function `name`, which `call` calls on the thread that runs main.
        What it raises ends the run. Python's collector does not see that the program holds it.

        Raises:
            InvalidArgument: the program has one of that name.
        """
        some_callables([function], "function")
        text(name, "the function's name")
        super().register_function(name, function)
