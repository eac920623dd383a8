"""Readers of what Python makes: a generator on a thread of its own fills a queue that C++ reads."""

from __future__ import annotations

import opcode
import os
import sys
import threading
import weakref
from types import FrameType
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

from . import _core
from .arguments import counted, some_callables
from .blocking_queue import LoDTensorBlockingQueue
from .data_feeder import DataFeeder, Slot

__all__ = ["PyReader", "create_py_reader_by_data", "data", "py_reader"]

Instances = Callable[[], Iterable[Any]]

_SECONDS_AT_EXIT = 1.0  # for a generator that waits for something else than the queue

_producers: weakref.WeakSet[_Producer] = weakref.WeakSet()


def end_all() -> None:
    """At exit, when the queues were killed: gives the generators that are still there a second each
    to end."""
    for producer in list(_producers):
        producer.stop(_SECONDS_AT_EXIT)


def data(name: str, shape: Sequence[int], dtype: Any = "float32", lod_level: int = 0) -> Slot:
    """Declares a slot; `shape` has the batch's dimension, -1, first. A dtype of None, of all slots,
    is that of the first instance."""
    return Slot(name, shape, dtype, lod_level)


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Optional[Sequence[Any]] = None,
    lod_levels: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    use_double_buffer: bool = True,
    ahead: int = 0,
) -> PyReader:
    """A reader of what Python pushes, with a queue of `capacity` mini-batches.

    Who pushes into the queue himself unpacks it: ``reader, queue = py_reader(…)`` gives the chain's
    Reader, on which shuffle, batch and others may stand, and the LoDTensorBlockingQueue. That is so
    while no generator decorates it.

    Args:
        shapes: of each slot, all dimensions; -1 stands for any number.
        dtypes: of each slot. Left out, they are those of the first instance that is pushed, and
            there is a Reader only after that: iterate the PyReader, or take `reader` after
            start() or the first push.
        lod_levels: of each slot; 0 if left out.
        name: in front of the slots' names, which errors say.
        use_double_buffer: the chain keeps two mini-batches ahead, beside those in the queue.
        ahead: it keeps so many. 0: two, or four without use_double_buffer; if `batch` stands on
            `reader`, the rows of the batches that wait.

    Raises:
        ValueError: shapes, dtypes and lod_levels differ in number, or cannot be slots.
    """
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    types = [None] * len(shapes) if dtypes is None else list(dtypes)
    if not len(shapes) == len(types) == len(levels):
        raise ValueError("as many dtypes and lod_levels as shapes are needed")
    prefix = _prefix(name) or "py_reader"
    slots = [
        Slot(f"{prefix}_{i}", shape, dtype, level)
        for i, (shape, dtype, level) in enumerate(zip(shapes, types, levels))
    ]
    return PyReader(capacity, slots, use_double_buffer, ahead)


def create_py_reader_by_data(
    capacity: int,
    feed_list: Iterable[Slot],
    name: Optional[str] = None,
    use_double_buffer: bool = True,
    ahead: int = 0,
) -> PyReader:
    """The same with slots that `data` declared; `name`, if any, is in front of their names."""
    slots = list(feed_list)
    if _prefix(name):
        slots = [slot._replace(name=f"{name}_{slot.name}") for slot in slots]
    return PyReader(capacity, slots, use_double_buffer, ahead)


def _prefix(name: Optional[str]) -> Optional[str]:
    """`name`; TypeError for what stands in its place and is none, as a bool."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}; use_double_buffer= comes after it")
    return name


class PyReader(_core.PyReaderNext):
    """What py_reader makes. A pass is decorate_…, start(), iteration to the end, reset().

    Iteration gives a tuple of Arrays per mini-batch. What the generator raises comes out there,
    with its own traceback, after what it had pushed. `reader` is the chain's Reader: shuffle,
    batch and the others may stand on it, and then they are iterated, not this. If something of
    the chain starts it again (multi_pass, the next `for` of a Loader), the generator is called
    again. One thread reads; any may reset or close meanwhile. A context manager, which closes.

    It ends with its last reference; while a pass goes on its thread holds the generator, and what
    that refers to: if this is the reader itself, close it.

    Attributes:
        queue: the LoDTensorBlockingQueue between the two sides.
    """

    def __init__(
        self, capacity: int, slots: Sequence[Slot], use_double_buffer: bool, ahead: int = 0
    ) -> None:
        super().__init__()
        self.queue = LoDTensorBlockingQueue(
            capacity, [(slot.name, slot.dtype, slot.shape, slot.lod_level) for slot in slots]
        )
        self._producer = _Producer(self.queue)
        self._closed = False
        self._reading = threading.RLock()  # a consumer is between its look at `started` and its end
        self._slots = list(slots)
        self._use_double_buffer = use_double_buffer
        self._ahead = counted(ahead, "ahead")
        self._opening = threading.Lock()
        self._reader: Optional[_core.Reader] = None  # while the dtypes are not known
        if self._dtypes_are_declared():
            self._open_reader()
        self._instances: Optional[Instances] = None
        self._copy: Optional[bool] = True
        weakref.finalize(self, self._producer.abandon).atexit = False  # see end_all

    @property
    def reader(self) -> _core.Reader:
        """The Reader that takes from the queue. If no dtypes were declared it waits, after
        start(), for the first instance.

        Raises:
            InvalidArgument: the dtypes are not known, since nothing was pushed.
        """
        if self._reader is None and self._producer.started:
            self.queue.await_dtypes()
        return self._open_reader()

    def _dtypes_are_declared(self) -> bool:
        return all(slot.dtype is not None for slot in self._slots)

    def _open_reader(self) -> _core.Reader:
        with self._opening:
            if self._reader is None:
                reader = self.queue.reader(self._producer, self._ahead)
                self._reader = _core.double_buffer(reader, 2) if self._use_double_buffer else reader
            return self._reader

    def _await_reader(self) -> Optional[_core.Reader]:
        """The Reader, when the first instance is there; None if the pass ends without one.
        Raises what it failed of."""
        if not self.queue.await_dtypes():
            self.queue.pop()
            return None
        return self._open_reader()

    def decorate_paddle_reader(self, reader: Instances) -> None:
        """Takes a reader creator of mini-batches: lists of samples, tuples with an entry per slot,
        which DataFeeder makes arrays of. NumPy is needed. ValueError if no dtypes were declared:
        samples do not tell them."""
        some_callables([reader], "reader creator")
        if not self._dtypes_are_declared():
            raise ValueError("samples become arrays of declared dtypes: name dtypes=")
        feeder = DataFeeder(self._slots)
        self._instances = lambda: map(feeder.feed, reader())
        self._copy = None  # nobody else has what the feeder made

    decorate_sample_list_generator = decorate_paddle_reader

    def decorate_tensor_provider(self, generator: Instances, copy: Optional[bool] = True) -> None:
        """Takes a creator of an iterator of instances as `queue.push` takes them, with its `copy`:
        by default the generator may use its arrays again."""
        some_callables([generator], "creator of an iterator")
        self._instances = generator
        self._copy = copy

    decorate_batch_generator = decorate_tensor_provider

    def start(self) -> None:
        """Starts the generator on a thread.

        Raises:
            RuntimeError: nothing decorates it, or it was started and not reset.
        """
        if self._instances is None:
            raise RuntimeError("nothing to read: call decorate_tensor_provider or another first")
        self._producer.start(self._instances, self._copy)

    def reset(self) -> None:
        """Breaks the pass off, wherever it stands, and is ready for the next start(). Chains on
        `reader` begin anew too. Waits until the generator gives its next instance or ends, also
        if it sleeps or waits for something else; Ctrl-C breaks that off, and another reset()
        goes on with it. A thread that iterates meanwhile gets the end, or what it gets before
        start(); one that iterates a chain on `reader` waits for the next start().

        Raises:
            Error: the queue was killed.
        """
        self._producer.stop()
        with self._reading:  # the queue is closed: who waits there gets the end
            self.queue.reopen()
            if self._reader is not None:
                self._reader.reset_all()

    def close(self) -> None:
        """Ends the generator, which is given a second for that, the queue and the chain's threads.
        More calls do nothing. A thread that iterates meanwhile gets the end."""
        self._closed = True  # before the next line: a reader that is not started looks at it
        self._producer.stop(_SECONDS_AT_EXIT)
        self.queue.close()
        if self._reader is not None:
            self._reader.close_ends()

    def read_next(self) -> tuple[_core.Array, ...]:
        """The next mini-batch; StopIteration at the end."""
        return next(self)

    def __iter__(self) -> Iterator[Any]:
        if self._instances is None and _unpacks(sys._getframe(1)):
            return iter((self.reader, self.queue))
        return self

    def __enter__(self) -> PyReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unpacks(caller: FrameType) -> bool:
    """Whether what the caller is about is an assignment to several names. A `for` begins alike, and
    must not get the two if someone forgot start(): it would wait for ever."""
    return opcode.opname[caller.f_code.co_code[caller.f_lasti]].startswith("UNPACK_")


class _Producer:
    """The generator's side: a thread for each pass of the generator.

    A chain that is started again, which some thread of its own may do at any time, calls `end` and
    `begin`; the owner calls the others.
    """

    def __init__(self, queue: LoDTensorBlockingQueue) -> None:
        self._queue = queue
        # Of what follows. The collector, and so `abandon`, may run wherever it is held.
        self._lock = threading.RLock()
        self._pass: Optional[_Pass] = None
        self._decoration: Optional[tuple[Instances, Optional[bool]]] = None  # while it is started
        self._abandoned = False
        self._process = os.getpid()
        _producers.add(self)

    @property
    def started(self) -> bool:
        """Whether stop() is needed before the next start()."""
        return self._decoration is not None

    def start(self, instances: Instances, copy: Optional[bool]) -> None:
        """Begins the first pass."""
        with self._lock:
            if self.started:
                raise RuntimeError("started already: call reset() first")
            self._decoration = (instances, copy)
        self.begin()

    def stop(self, timeout: Optional[float] = None) -> None:
        """Breaks the pass off, and lets no other begin; waits until its thread has ended, `timeout`
        seconds at most."""
        if self._is_parents():
            return
        with self._lock:
            self._decoration = None
        self.end(timeout)

    def abandon(self) -> None:
        """Stops it for good: chains that still read cannot take that for the end of the data."""
        if self._is_parents():
            return
        with self._lock:
            self._abandoned = self.started
            self._decoration = None
            broken_off = self._pass is not None and self._pass.going_on()
        if broken_off:
            self._queue.fail(_gone())
        self.end(_SECONDS_AT_EXIT)

    def _is_parents(self) -> bool:
        """Whether this is a forked child: the thread is its parent's, another one of which may have
        held the lock then."""
        return self._process != os.getpid()

    def end(self, timeout: Optional[float] = None) -> None:
        """Ends the pass: nothing is pushed any more."""
        with self._lock:
            ending = self._pass
        if ending is not None:
            ending.end(timeout)

    def begin(self) -> None:
        """Begins a pass, into an open queue, unless it was stopped meanwhile."""
        begun = None
        with self._lock:
            if self._decoration is not None:
                begun = self._pass = _Pass(self._queue, *self._decoration)
                begun.start()  # known before: Ctrl-C may leave a thread that runs
            stopped = self._decoration is None
        if begun is not None and stopped:
            begun.end()
        if self._abandoned:
            raise _gone()


def _gone() -> RuntimeError:
    return RuntimeError("the PyReader that fed this chain is gone: keep it while the chain reads")


class _Pass:
    """A thread that pushes what one iterator gives, until it is told to end."""

    def __init__(
        self, queue: LoDTensorBlockingQueue, instances: Instances, copy: Optional[bool]
    ) -> None:
        self._queue = queue
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_produce,
            args=(queue, instances, copy, self._stop),
            name="ringfeed py_reader",
            daemon=True,
        )

    def start(self) -> None:
        self._thread.start()

    def going_on(self) -> bool:
        """Whether there may be more to push."""
        return self._thread.is_alive() and not self._stop.is_set()

    def end(self, timeout: Optional[float] = None) -> None:
        """Waits until the iterator gives its next instance or ends, `timeout` seconds at most."""
        stopped = self._stop.is_set()
        self._stop.set()  # also for a thread that is only about to run
        if not self._thread.is_alive():
            return
        if not stopped:  # once: another queue may be in place later
            self._queue.close()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)


def _produce(
    queue: LoDTensorBlockingQueue,
    instances: Instances,
    copy: Optional[bool],
    stop: threading.Event,
) -> None:
    try:
        for instance in instances():
            if stop.is_set() or not queue.push(instance, copy=copy):
                break
    except BaseException as thrown:  # the consumer's, also KeyboardInterrupt and SystemExit
        if not stop.is_set():
            queue.fail(thrown)
    finally:
        if not stop.is_set():
            queue.close()
