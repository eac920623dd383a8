"""Threads that read and map samples ahead of the consumer of one pass."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable, Generic, Optional, TypeVar

from .passes import ReaderCreator

R = TypeVar("R")

GRACE_SECONDS = 1.0
"""How long the end of a pass waits for calls of the user's code that are under way."""

_NONE_LEFT = object()

_running: set[ReadAhead[Any]] = set()  # what a program that ends has to stop


class ReadAhead(Generic[R]):
    """One pass of `reader` through `mapper`, by `threads` threads, for one consumer.

    A sample gets its number where it is read, by one thread at a time. Number k is read only while
    k < taken + `ahead`, so memory is bounded and, where the order is kept, the sample that the
    consumer waits for has always been granted. A failure at number k ends the pass at k: what is
    numbered lower is delivered before it.

    No thread refers to the iterator that `samples` returns. Dropping it therefore ends the pass.
    """

    def __init__(
        self,
        reader: ReaderCreator[Any],
        mapper: Callable[[Any], R],
        *,
        name: str,
        threads: int,
        ahead: int,
        ordered: bool,
    ) -> None:
        self._reader = reader
        self._mapper = mapper
        self._name = name
        self._thread_count = threads
        self._ahead = ahead
        self._ordered = ordered
        self._process = os.getpid()

        # Reentrant, because the garbage collector may close the iterator, and so call stop, in a
        # thread that holds it.
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)  # threads wait here for leave to read
        self._ready = threading.Condition(self._lock)  # the consumer waits here
        self._threads: list[threading.Thread] = []
        self._active = 0  # threads that have not left
        self._stopped = False

        self._samples: Optional[Iterator[Any]] = None  # used by the thread that reads
        self._reading = False
        self._read = 0
        self._taken = 0
        self._under_way: set[int] = set()  # numbers read and not yet mapped
        self._results: deque[R] = deque()  # to be taken next
        self._early: dict[int, R] = {}  # of the ordered: those behind one that is under way
        self._next_result = 0  # of the ordered: the number that _results goes on with
        self._end: Optional[int] = None  # the number that was not delivered, once known
        self._error: Optional[BaseException] = None  # why, where it is not the end of the data

    def samples(self) -> Iterator[R]:
        """The iterator of the pass. The threads start with its first ``next``."""
        grace = GRACE_SECONDS
        try:
            self._start()
            while True:
                sample = self._take()
                if sample is _NONE_LEFT:
                    break
                yield sample
                del sample  # while this waits, who took the sample decides how long it lives
            if self._error is not None:
                # Not kept here: the traceback of the error refers to this object.
                error, self._error = self._error, None
                try:
                    raise error
                finally:
                    del error
        except KeyboardInterrupt:
            grace = 0.0
            raise
        finally:
            self.stop(grace)

    def stop(self, grace: float) -> None:
        """Ends the pass: wakes all threads, and waits up to `grace` seconds until they have left.

        A thread that is in the user's code then leaves as soon as that returns.
        """
        if os.getpid() != self._process:
            return  # the threads and the lock's owner stayed in the parent
        with self._lock:
            self._stopped = True
            self._results.clear()
            self._early.clear()
            self._error = None
            self._room.notify_all()
            self._ready.notify_all()
        if threading.current_thread() in self._threads:
            return  # the garbage collector calls
        deadline = time.monotonic() + grace
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    # The consumer.

    def _start(self) -> None:
        _running.add(self)
        for i in range(self._thread_count):
            thread = threading.Thread(
                target=self._work, name=f"ringfeed-{self._name}-{i}", daemon=True
            )
            with self._lock:
                self._active += 1
            try:
                thread.start()
            except BaseException:
                self._leave()
                raise
            self._threads.append(thread)

    def _take(self) -> Any:
        """Waits for a sample; _NONE_LEFT behind the last one."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "this iterator's threads stayed in the process that was forked; "
                "make a new iterator after the fork"
            )
        with self._lock:
            while not self._results:
                if self._stopped:
                    raise RuntimeError("the program ends, and with it this iterator's threads")
                if self._end is not None and not any(k < self._end for k in self._under_way):
                    return _NONE_LEFT
                self._ready.wait()
            self._taken += 1
            self._room.notify()
            return self._results.popleft()

    # The threads.

    def _work(self) -> None:
        try:
            number = self._grant()
            while number is not None:
                self._read_and_map(number)
                number = self._grant()
        finally:
            self._leave()

    def _grant(self) -> Optional[int]:
        """Waits for leave to read, and gives the number of the sample. None: no more are read."""
        with self._lock:
            while not self._stopped and self._end is None:
                if not self._reading and self._read < self._taken + self._ahead:
                    self._reading = True
                    self._read += 1
                    return self._read - 1
                self._room.wait()
            return None

    def _read_and_map(self, number: int) -> None:
        try:
            if self._samples is None:
                self._samples = self._open()
            try:
                sample = next(self._samples)
            except StopIteration:
                self._finish(number, None)
                return
            if self._has_read(number):
                self._deliver(number, self._mapper(sample))
        except BaseException as error:
            self._finish(number, error)

    def _open(self) -> Iterator[Any]:
        try:
            return iter(self._reader())
        except StopIteration as error:  # next's alone is the end of the data
            raise RuntimeError("a reader creator raised StopIteration") from error

    def _has_read(self, number: int) -> bool:
        """Lets the next thread read. Returns whether the sample is still wanted."""
        with self._lock:
            self._reading = False
            self._room.notify()
            wanted = not self._stopped and (self._end is None or number < self._end)
            if wanted:
                self._under_way.add(number)
            return wanted

    def _deliver(self, number: int, result: R) -> None:
        with self._lock:
            self._under_way.discard(number)
            if self._stopped:
                return
            if self._ordered:
                self._early[number] = result
                while self._next_result in self._early:
                    self._results.append(self._early.pop(self._next_result))
                    self._next_result += 1
            else:
                self._results.append(result)
            self._ready.notify()

    def _finish(self, number: int, error: Optional[BaseException]) -> None:
        """The pass ends at `number`, unless it is known to end before."""
        with self._lock:
            self._under_way.discard(number)
            if not self._stopped and (self._end is None or number < self._end):
                self._end, self._error = number, error
            self._room.notify_all()
            self._ready.notify()

    def _leave(self) -> None:
        """The last thread closes the reader's iterator; what that raises goes to its excepthook."""
        with self._lock:
            self._active -= 1
            if self._active > 0:
                return
        _running.discard(self)
        samples, self._samples = self._samples, None
        close = getattr(samples, "close", None)
        if close is not None:
            close()


@atexit.register
def _stop_all() -> None:
    passes = list(_running)
    for running in passes:
        running.stop(0.0)
    deadline = time.monotonic() + GRACE_SECONDS
    for running in passes:
        running.stop(max(0.0, deadline - time.monotonic()))
