"""Readers of what Python makes: a generator on a thread of its own fills a queue that C++ reads."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

from . import _core
from .blocking_queue import LoDTensorBlockingQueue
from .data_feeder import DataFeeder, Slot

__all__ = ["PyReader", "create_py_reader_by_data", "data", "py_reader"]

Instances = Callable[[], Iterable[Any]]

_SECONDS_AT_EXIT = 1.0  # for a generator that waits for something else than the queue


def data(name: str, shape: Sequence[int], dtype: Any = "float32", lod_level: int = 0) -> Slot:
    """Declares a slot; `shape` has the batch's dimension, -1, first."""
    return Slot(name, shape, dtype, lod_level)


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    use_double_buffer: bool = True,
) -> PyReader:
    """A reader of what Python pushes, with a queue of `capacity` mini-batches.

    Args:
        shapes: of each slot, all dimensions; -1 stands for any number.
        dtypes: of each slot.
        lod_levels: of each slot; 0 where left out.
        name: in front of the slots' names, which errors say.
        use_double_buffer: the chain keeps two mini-batches ahead.

    Raises:
        ValueError: shapes, dtypes and lod_levels differ in number, or cannot be slots.
    """
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not len(shapes) == len(dtypes) == len(levels):
        raise ValueError("as many dtypes and lod_levels as shapes are needed")
    prefix = name or "py_reader"
    slots = [
        Slot(f"{prefix}_{i}", shape, dtype, level)
        for i, (shape, dtype, level) in enumerate(zip(shapes, dtypes, levels))
    ]
    return PyReader(capacity, slots, use_double_buffer)


def create_py_reader_by_data(
    capacity: int, feed_list: Iterable[Slot], use_double_buffer: bool = True
) -> PyReader:
    """The same with slots that `data` declared."""
    return PyReader(capacity, list(feed_list), use_double_buffer)


class PyReader:
    """What py_reader makes. A pass is decorate_…, start(), iteration to the end, reset().

    Iteration gives a tuple of Arrays per mini-batch. What the generator raises comes out there,
    with its own traceback, behind what it had pushed. `reader` is the chain's Reader: shuffle,
    batch and the others may stand on it, and then they are iterated, not this. (Not multi_pass: the
    next pass begins by reset() and start(), which nobody would call.) One thread.

    Attributes:
        queue: the LoDTensorBlockingQueue between the two sides.
        reader: the Reader that takes from it.
    """

    def __init__(self, capacity: int, slots: Sequence[Slot], use_double_buffer: bool) -> None:
        self.queue = LoDTensorBlockingQueue(
            capacity, [(slot.name, slot.dtype, slot.shape, slot.lod_level) for slot in slots]
        )
        self.reader: _core.Reader = self.queue.reader()
        if use_double_buffer:
            self.reader = _core.double_buffer(self.reader, 2)
        self._slots = list(slots)
        self._instances: Optional[Instances] = None
        self._copy: Optional[bool] = True
        self._end: Optional[weakref.finalize[..., PyReader]] = None

    def decorate_paddle_reader(self, reader: Instances) -> None:
        """Takes a reader creator of mini-batches: lists of samples, tuples with an entry per slot,
        which DataFeeder makes arrays of. NumPy is needed."""
        feeder = DataFeeder(self._slots)
        self._instances = lambda: map(feeder.feed, reader())
        self._copy = None  # nobody else has what the feeder made

    decorate_sample_list_generator = decorate_paddle_reader

    def decorate_tensor_provider(self, generator: Instances) -> None:
        """Takes a creator of an iterator of instances as `queue.push` takes them. They are copied:
        the generator may use its arrays again."""
        self._instances = generator
        self._copy = True

    decorate_batch_generator = decorate_tensor_provider

    def start(self) -> None:
        """Starts the generator on a thread.

        Raises:
            RuntimeError: nothing decorates it, or it was started and not reset.
        """
        if self._instances is None:
            raise RuntimeError("nothing to read: call decorate_tensor_provider or another first")
        if self._end is not None:
            raise RuntimeError("started already: call reset() first")
        stop = threading.Event()
        thread = threading.Thread(
            target=_produce,
            args=(self.queue, self._instances, self._copy, stop),
            name="ringfeed py_reader",
            daemon=True,
        )
        self._end = weakref.finalize(self, _break_off, self.queue, stop, thread)
        thread.start()

    def reset(self) -> None:
        """Breaks the pass off, wherever it stands, and is ready for the next start(). Chains on
        `reader` begin anew too. Waits until the generator has ended.

        Raises:
            Error: the queue was killed.
        """
        if self._end is not None:
            ended = self._end.detach()
            self._end = None
            if ended is not None:
                queue, stop, thread = ended[2]
                _break_off(queue, stop, thread, timeout=None)
        self.queue.reopen()
        self.reader.reset_all()

    def read_next(self) -> tuple[_core.Array, ...]:
        """The next mini-batch; StopIteration at the end."""
        return next(self)

    def __iter__(self) -> Iterator[tuple[_core.Array, ...]]:
        return self

    def __next__(self) -> tuple[_core.Array, ...]:
        if self._end is None:
            raise RuntimeError("not started: call start() first")
        return next(self.reader)


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
        queue.close()


def _break_off(
    queue: LoDTensorBlockingQueue,
    stop: threading.Event,
    thread: threading.Thread,
    timeout: Optional[float] = _SECONDS_AT_EXIT,
) -> None:
    stop.set()
    queue.close()
    if thread is not threading.current_thread():
        thread.join(timeout)
