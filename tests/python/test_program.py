"""Programs as texts, whose functions are Python's."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import ringfeed
from ringfeed import errors

numpy = pytest.importorskip("numpy")

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
RECORDS = 200


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory has line.recordio: x float32[1, 2], y = 2 x0 - 3 x1 + 1."""
    monkeypatch.chdir(tmp_path)
    random = numpy.random.default_rng(3)
    with ringfeed.open_record_writer("line.recordio", "recordio") as writer:
        for _ in range(RECORDS):
            x = random.uniform(-1, 1, (1, 2)).astype("float32")
            y = x @ numpy.array([[2], [-3]], "float32") + 1
            writer.write(ringfeed.build_lod_tensors([x, y.astype("float32")]))


class Fit:
    """A line that is fitted by steps along the gradient."""

    def __init__(self) -> None:
        self.weights = numpy.zeros(3)
        self.rows = 0

    def train(self, scope: ringfeed.Scope, inputs: list[str], outputs: list[str]) -> None:
        x, y = (scope[name].numpy() for name in inputs)
        ones = numpy.ones((len(x), 1))
        inputs_and_one = numpy.hstack([x, ones])
        miss = inputs_and_one @ self.weights - y[:, 0]
        self.weights -= 0.5 * inputs_and_one.T @ miss / len(x)
        self.rows += len(x)
        for name in outputs:
            scope[name] = float((miss**2).mean())


def program_of(text: str, **functions: Any) -> ringfeed.FeedProgram:
    program = ringfeed.FeedProgram(text, "test.program")
    for name, function in functions.items():
        program.register_function(name, function)
    return program


def main_of(*steps: str) -> str:
    return "main { " + " ".join(f"op {{ {step} }}" for step in steps) + " }"


PUSHED = "startup { op { create_py_reader { name: 'pushed' blocking_queue: 'feed' } } }\n"
READ = "read { reader: 'pushed' output: 'x' }"


def scope_with_queue(capacity: int = 8) -> tuple[ringfeed.Scope, ringfeed.LoDTensorBlockingQueue]:
    queue = ringfeed.LoDTensorBlockingQueue(capacity, [("x", "int64", [-1, 1])])
    scope = ringfeed.Scope()
    scope["feed"] = queue
    return scope, queue


def one(number: int) -> list[Any]:
    return [numpy.array([[number]], "int64")]


@pytest.mark.parametrize("name", ["passes_counted", "multi_pass"])
@pytest.mark.usefixtures("line")
def test_a_line_is_fitted_by_the_programs_that_cpp_runs(name: str) -> None:
    program = ringfeed.FeedProgram.load(PROGRAMS / f"{name}.program")
    fit, scope = Fit(), ringfeed.Scope()
    program.register_function("train", fit.train)
    program.run_startup(scope)
    program.run_startup(scope)
    program.run_main(scope)
    assert fit.rows == 5 * RECORDS
    assert numpy.abs(fit.weights - [2, -3, 1]).max() < 0.1


@pytest.mark.usefixtures("line")
def test_records_of_an_open_file_are_read_and_the_closed_reader_is_told_of() -> None:
    counts = []

    def take(scope: ringfeed.Scope, inputs: list[str], outputs: list[str]) -> None:
        counts.append([len(instance) for instance in scope[inputs[0]]])

    program = program_of(
        "startup { op { open_file { name: 'file' filename: 'line.recordio' } }\n"
        "op { create_recordio_reader { name: 'records' input: 'file' } } }\n"
        + main_of(
            "read_recordio { reader: 'records' count: 150 output: 'some' }",
            "call { function: 'take' input: 'some' }",
            "read_recordio { reader: 'records' count: 150 output: 'some' }",
            "call { function: 'take' input: 'some' }",
            "close_reader { reader: 'records' }",
        ),
        take=take,
    )
    scope = ringfeed.Scope()
    for runs in (1, 2):
        program.run_startup(scope)
        program.run_main(scope)
        assert [len(some) for some in counts] == [150, 50] * runs
        assert [stats["records"] for stats in program.closed_readers()] == [RECORDS] * runs


def test_what_python_pushes_is_read_and_the_end_is_an_eof_error() -> None:
    scope, queue = scope_with_queue()
    seen = []
    program = program_of(
        PUSHED + main_of(READ, "call { function: 'see' input: 'x' }"),
        see=lambda scope, inputs, outputs: seen.append(int(scope["x"].numpy()[0, 0])),
    )
    queue.push(one(7))
    queue.close()
    program.run_startup(scope)
    program.run_main(scope)
    with pytest.raises(EOFError, match="test.program:.*read"):
        program.run_main(scope)
    assert seen == [7]


def test_readers_of_python_are_read_by_name_and_raise_what_they_raised() -> None:
    def rows() -> Any:
        yield one(3)
        raise KeyError("no such sample")

    scope = ringfeed.Scope()
    scope["pushed"] = ringfeed.from_iterable(rows, [("x", "int64", [-1, 1])])
    program = program_of(main_of(READ))
    program.run_startup(scope)
    program.run_main(scope)
    assert scope["x"].numpy().tolist() == [[3]]
    with pytest.raises(KeyError, match="no such sample"):
        program.run_main(scope)


def test_what_a_function_raises_comes_out_with_its_traceback() -> None:
    def fail(*_: Any) -> None:
        raise LookupError("nothing")

    program = program_of(main_of("call { function: 'fail' }"), fail=fail)
    for _ in range(2):
        with pytest.raises(LookupError, match="nothing") as caught:
            program.run_main(ringfeed.Scope())
        assert caught.traceback[-1].name == "fail"

    def stop(*_: Any) -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        program_of(main_of("call { function: 'stop' }"), stop=stop).run_main(ringfeed.Scope())


def test_a_program_runs_once_at_a_time() -> None:
    program = program_of(main_of("call { function: 'again' }"))
    program.register_function("again", lambda scope, inputs, outputs: program.run_main(scope))
    with pytest.raises(RuntimeError, match="the program runs"):
        program.run_main(ringfeed.Scope())


def test_variables_keep_their_types() -> None:
    scope = ringfeed.Scope()
    values = {"i": 7, "b": True, "f": 0.5, "t": "text", "o": [1], "n": None}
    for name, value in values.items():
        scope[name] = value
        assert scope[name] == value and type(scope[name]) is type(value) and name in scope
    assert scope.names() == sorted(values) and "x" not in scope
    scope["f"] = 1
    assert scope["f"] == 1.0
    for name, other in [("i", 0.5), ("b", 1), ("t", 3), ("i", [1])]:
        with pytest.raises(errors.InvalidArgument, match=f'variable "{name}"'):
            scope[name] = other
    with pytest.raises(KeyError, match="none"):
        scope["none"]
    array = numpy.arange(3)
    scope["a"] = array
    assert scope["a"] is array
    scope, queue = scope_with_queue()
    with pytest.raises(errors.InvalidArgument, match="already"):
        scope["feed"] = queue


def test_what_a_program_read_can_be_replaced_by_a_function() -> None:
    scope, queue = scope_with_queue()

    def double(scope: ringfeed.Scope, inputs: list[str], outputs: list[str]) -> None:
        scope[outputs[0]] = 2 * scope[inputs[0]].numpy()

    steps = main_of(READ, "call { function: 'double' input: 'x' output: 'x' }")
    program = program_of(PUSHED + steps, double=double)
    queue.push(one(4))
    program.run_startup(scope)
    program.run_main(scope)
    assert isinstance(scope["x"], ringfeed.Array) and scope["x"].numpy().tolist() == [[8]]


def test_a_text_that_is_none_is_told_in_a_line() -> None:
    for arguments in ((5,), (b"main {}",), ("main { }", 5)):
        with pytest.raises(TypeError, match=r"a str, not .*FeedProgram.load") as caught:
            ringfeed.FeedProgram(*arguments)
        assert "\n" not in str(caught.value)


def test_errors_name_their_place() -> None:
    with pytest.raises(errors.InvalidArgument, match="test.program:1:.*no_such"):
        program_of("main { op { no_such { } } }")
    with pytest.raises(errors.NotFound, match="test.program:1:.*train"):
        program_of(main_of("call { function: 'train' }")).run_main(ringfeed.Scope())
    with pytest.raises(errors.NotFound, match="test.program:.*feed"):
        program_of(PUSHED).run_startup(ringfeed.Scope())
    program = program_of("", train=print)
    with pytest.raises(errors.InvalidArgument, match="already"):
        program.register_function("train", print)
    with pytest.raises(TypeError, match="function"):
        program.register_function("other", 3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        ringfeed.FeedProgram.load("none.program")
    assert "create_py_reader" in ringfeed.FeedProgram.grammar()


INTERRUPTED = """
import os, signal, threading, ringfeed
scope = ringfeed.Scope()
scope["feed"] = ringfeed.LoDTensorBlockingQueue(8, [("x", "int64", [-1, 1])])
program = ringfeed.FeedProgram(
    "startup { op { create_py_reader { name: 'r' blocking_queue: 'feed' } } }"
    "main { op { STEP } }"
)
program.run_startup(scope)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    program.run_main(scope)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    "step",
    [
        "read { reader: 'r' output: 'x' }",
        "has_next { reader: 'r' output: 'more' }",
        "fill_constant { output: 'i' } } op { less_than { x: 'i' value: 1 output: 'b' } } "
        "op { while { condition: 'b' body { op { fill_constant { output: 'i' } } } }",
    ],
    ids=["read", "has_next", "endless loop"],
)
def test_ctrl_c_ends_a_run(step: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED.replace("STEP", step)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("interrupted\n", "")


def test_a_scope_and_a_program_let_go_of_what_they_hold() -> None:
    class Held:
        def __call__(self, *_: Any) -> None: ...

    held = Held()
    gone = weakref.ref(held)
    scope, program = ringfeed.Scope(), program_of("")
    scope["held"] = held
    program.register_function("held", held)
    del held
    assert gone() is not None
    del scope, program
    gc.collect()
    assert gone() is None
