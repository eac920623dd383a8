"""Calls with arguments of another type: a line says what is called, what it takes and what came."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Callable

import pytest
from loader_data import number_loader, write_rows

import ringfeed

_MOST_LINES = 3


class _Wrong:
    """Nothing that anything takes."""


def _queue() -> ringfeed.LoDTensorBlockingQueue:
    return ringfeed.LoDTensorBlockingQueue(2, [("a", "int64", [1])])


def _objects(folder: Path) -> list[Any]:
    """One of each class that is called with arguments, and the modules with functions."""
    files = write_rows(folder)
    loader = number_loader(files, note_records=True)
    (array,) = next(loader).values()
    scope = ringfeed.Scope()
    journal = ringfeed.Journal(folder / "journal", loader)
    queue = _queue()
    queue.close()  # pop(None) would wait
    made: list[Any] = [loader, array, scope, queue, journal, ringfeed, ringfeed.reader]
    made.append(ringfeed.open_files(files, format="rows:8"))
    made.append(ringfeed.open_record_writer(folder / "a.lines", "lines"))
    made.append(ringfeed.py_reader(2, [[-1, 1]], ["int64"]))
    made.append(ringfeed.devices)
    return made


def _calls(of: Any) -> list[tuple[str, Callable[..., Any]]]:
    """Its public functions, and its methods for operators."""
    operators = ("__getitem__", "__setitem__", "__contains__")
    names = [name for name in dir(of) if not name.startswith("_")]
    if not inspect.ismodule(of):
        names += [name for name in operators if hasattr(of, name)]
        names = [name for name in names if not isinstance(getattr(type(of), name, None), property)]
    return [(name, getattr(of, name)) for name in names if callable(getattr(of, name))]


def test_no_call_is_refused_in_more_than_three_lines(tmp_path: Path) -> None:
    wrong = _Wrong()
    refused = 0
    for of in _objects(tmp_path):
        for name, call in _calls(of):
            for arguments in ((wrong,), (None,), (wrong, wrong), (5, wrong), (wrong,) * 12):
                try:
                    call(*arguments)
                except Exception as error:
                    told = f"{type(of).__name__}.{name}{arguments}: {error}"
                    assert len(str(error).splitlines()) <= _MOST_LINES, told
                    assert "incompatible function arguments" not in str(error), told
                    assert "nanobind" not in str(error), told
                    refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "call, told",
    [
        (
            lambda queue: queue.pop("x"),
            "LoDTensorBlockingQueue.pop() takes timeout: float | None, not str",
        ),
        (
            lambda queue: queue.push(5),
            "LoDTensorBlockingQueue.push() takes arrays: Iterable[Any], not 5",
        ),
        (
            lambda queue: queue.push(None),
            "LoDTensorBlockingQueue.push() takes arrays: Iterable[Any], not None",
        ),
        (
            lambda queue: queue.push([], copy="x"),
            "LoDTensorBlockingQueue.push() takes copy: bool | None, not str",
        ),
        (
            lambda queue: queue.pop(limit=3),
            "LoDTensorBlockingQueue.pop(): got an unexpected keyword argument 'limit'; it takes "
            "(timeout: float | None)",
        ),
        (
            lambda queue: queue.push(),
            "LoDTensorBlockingQueue.push(): missing a required argument: 'arrays'; it takes "
            "(arrays: Iterable[Any], copy: bool | None, timeout: float | None)",
        ),
        (
            lambda queue: queue.reader(None, -1),
            "LoDTensorBlockingQueue.reader() takes (passes: object | None, ahead: int), not "
            "(None, -1)",
        ),
        (
            lambda queue: queue.size(5),
            "LoDTensorBlockingQueue.size(): too many positional arguments; it takes ()",
        ),
    ],
)
def test_a_call_of_a_queue_says_what_it_takes(call: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(_queue())
    assert str(caught.value) == told


@pytest.mark.parametrize("reason", [5, None, b"over", ValueError, ["over"]], ids=repr)
def test_a_queue_ends_by_a_message_or_an_exception(reason: Any) -> None:
    queue = _queue()
    for call in (queue.fail, queue.kill):
        with pytest.raises(TypeError, match=r"takes reason: str \| BaseException, not "):
            call(reason)
    assert not queue.is_closed()
    queue.fail("over")
    with pytest.raises(ringfeed.errors.Cancelled, match="over"):
        queue.pop()


def test_a_writer_says_what_it_takes(tmp_path: Path) -> None:
    with ringfeed.open_record_writer(tmp_path / "a.lines", "lines") as writer:
        for wrong, shown in ((None, "None"), ("text", "str"), (5, "5"), ([b"a"], "list")):
            with pytest.raises(TypeError) as caught:
                writer.write(wrong)
            takes = "RecordWriter.write() takes record: bytes | bytearray | memoryview | …, not "
            assert str(caught.value) == takes + shown
        writer.write(b"one")
    assert (tmp_path / "a.lines").read_bytes() == b"one\n"


def test_a_scope_says_what_it_takes() -> None:
    scope = ringfeed.Scope()
    for call in (lambda: scope.__setitem__(5, 5), lambda: scope[5]):  # type: ignore[index, arg-type]
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == "Scope[…] takes name: str, not 5"
    with pytest.raises(TypeError) as caught:
        5 in scope  # noqa: B015  # type: ignore[operator]
    assert str(caught.value) == "… in Scope takes name: str, not 5"


@pytest.mark.parametrize(
    "arguments, named, told",
    [
        ((5,), {}, "Scope(): too many positional arguments; it takes ()"),
        ((None,) * 9, {}, "Scope(): too many positional arguments; it takes ()"),
        ((), {"x": 1}, "Scope(): got an unexpected keyword argument 'x'; it takes ()"),
    ],
)
def test_a_constructor_says_what_it_takes(arguments: Any, named: Any, told: str) -> None:
    with pytest.raises(TypeError) as caught:
        ringfeed.Scope(*arguments, **named)
    assert str(caught.value) == told


def test_what_a_function_of_the_users_is_refused_stays_as_it_is(tmp_path: Path) -> None:
    """Only what is said of the call itself is said otherwise."""
    told = "__next__(): incompatible function arguments. The following: none"

    def refuse(batch: Any) -> Any:
        raise TypeError(told)

    with number_loader(write_rows(tmp_path), map=refuse) as loader:
        with pytest.raises(TypeError) as caught:
            next(loader)
    assert str(caught.value) == told
