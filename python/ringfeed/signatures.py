"""What is said of a call that fits no signature of the module's: a line that names the argument."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Optional, SupportsFloat, SupportsIndex

from . import _core

#: As nanobind lists it: "    1. write(self, record: typing.Any) -> None".
_LISTED = re.compile(r"^    \d+\. (.+)$", re.MULTILINE)
#: What annotations begin with that a user need not read.
_MODULES = re.compile(r"\b(?:collections\.abc|typing|ringfeed\._core)\.")
_KINDS: dict[str, Any] = {
    "BaseException": BaseException,
    "bool": bool,
    "bytes": bytes,
    "dict": dict,
    "float": SupportsFloat,
    "int": SupportsIndex,
    "Iterable": Iterable,
    "list": Iterable,
    "Mapping": Mapping,
    "Sequence": Iterable,
    "str": str,
    "tuple": Iterable,
}
#: How methods look that are called by an operator.
_OPERATORS = {"__getitem__": "{}[…]", "__setitem__": "{}[…]", "__contains__": "… in {}"}


def refusal(told: str, arguments: list[Any], named: dict[str, Any]) -> str:
    """nanobind's text for these arguments in a line, "RecordWriter.write() takes record: bytes, not
    None"; its own if the signature is none that can be read."""
    try:
        signature = _signature_of(_LISTED.findall(told)[0])
    except (IndexError, SyntaxError, ValueError):
        return told
    name = _name_of(told[: told.index("(")], signature, arguments)
    parameters = [each for each in signature.parameters.values() if not _is_self(each)]
    try:
        bound = signature.bind(*arguments, **named).arguments
    except TypeError as error:
        return f"{name}: {error}; it takes ({', '.join(map(_shown_parameter, parameters))})"
    given = [parameter for parameter in parameters if parameter.name in bound]
    wrong = [each for each in given if not _may_fit(bound[each.name], each.annotation)]
    if not wrong and len(given) > 1:
        takes = ", ".join(map(_shown_parameter, given))
        values = ", ".join(_shown(bound[each.name]) for each in given)
        return f"{name} takes ({takes}), not ({values})"
    first = (wrong or given)[0]
    return f"{name} takes {_shown_parameter(first)}, not {_shown(bound[first.name])}"


def _signature_of(text: str) -> inspect.Signature:
    """Of "write(self, record: bytes) -> None", with the annotations as text."""
    function = ast.parse(f"def {text}: ...").body[0]
    if not isinstance(function, ast.FunctionDef):
        raise ValueError(text)
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    needed = len(plain) - len(given.defaults)
    kinds = inspect.Parameter
    parameters = [
        _parameter_of(
            argument,
            kinds.POSITIONAL_ONLY if i < len(given.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD,
            has_default=i >= needed,
        )
        for i, argument in enumerate(plain)
    ]
    parameters += [
        _parameter_of(argument, kinds.KEYWORD_ONLY, has_default=default is not None)
        for argument, default in zip(given.kwonlyargs, given.kw_defaults)
    ]
    return inspect.Signature(parameters)


def _parameter_of(argument: ast.arg, kind: Any, has_default: bool) -> inspect.Parameter:
    annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
    return inspect.Parameter(
        argument.arg,
        kind,
        default=None if has_default else inspect.Parameter.empty,
        annotation=_MODULES.sub("", annotation),
    )


def _is_self(parameter: inspect.Parameter) -> bool:
    return parameter.name == "self" and not parameter.annotation


def _name_of(name: str, signature: inspect.Signature, arguments: list[Any]) -> str:
    first: Optional[inspect.Parameter] = next(iter(signature.parameters.values()), None)
    if first is None or not _is_self(first) or not arguments:
        return f"{name}()"
    owner = type(arguments[0]).__name__
    if name in _OPERATORS:
        return _OPERATORS[name].format(owner)
    return f"{owner}()" if name == "__init__" else f"{owner}.{name}()"


def _may_fit(value: Any, annotation: str) -> bool:
    """False only if the annotation tells that the value is of another type."""
    kinds = annotation.split(" | ")
    if value is None:
        return "None" in kinds
    for kind in kinds:
        expected = _KINDS.get(kind.split("[")[0], getattr(_core, kind, None))
        if kind != "None" and (not isinstance(expected, type) or isinstance(value, expected)):
            return True
    return False


def _shown_parameter(parameter: inspect.Parameter) -> str:
    kinds = parameter.annotation.split(" | ")
    # What has no type of its own is among more than it.
    known = ["…" if kind == "Any" and len(kinds) > 1 else kind for kind in kinds]
    return f"{parameter.name}: {' | '.join(known)}" if parameter.annotation else parameter.name


def _shown(value: Any) -> str:
    """Numbers as they are; of others the type, since a text of theirs may be long."""
    as_it_is = value is None or type(value) in (bool, int, float)
    return repr(value) if as_it_is else type(value).__name__
