"""Threads that read and map samples ahead of the consumer of one pass."""

from __future__ import annotations

import _thread
import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any, Callable, Generic, NamedTuple, Optional, TypeVar

from .passes import ReaderCreator

R = TypeVar("R")

GRACE_SECONDS = 1.0
"""How long the end of a pass waits for calls of the user's code that are under way."""

SIGNAL_SECONDS = 0.1
"""How long the consumer waits before it looks for signals. One that came just before it began to
wait does not wake it."""

_running: set[ReadAhead[Any]] = set()  # what a program that ends has to stop


class _Outcome(NamedTuple):
    """What became of a number: each that was read or tried to be has one, unless the pass was
    stopped."""

    number: int
    is_end: bool
    value: Any  # the result; of an end the exception, or None if the data ends


class ReadAhead(Generic[R]):
    """One pass of `reader` through `mapper`, by `threads` threads, for one consumer.

    A sample gets its number when it is read, by one thread at a time. Number k is read only while
    k < taken + `ahead`, so memory is bounded and, if the order is kept, the sample that the
    consumer waits for has always been granted. A failure at number k ends the pass at k: what is
    numbered lower is delivered before it.

    No thread refers to the iterator that `samples` returns. Dropping it therefore ends the pass.
    The garbage collector may do that in any thread, between any two steps of it. So whoever waits,
    waits for an item of a SimpleQueue, whose put may be called then, and which keeps the item for
    the one who is about to wait.
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

        self._threads: list[threading.Thread] = []
        self._starter: Optional[int] = None  # the ident of the thread that starts them
        self._starting = threading.Lock()  # held until all are started
        self._active = 0  # threads that have not left, those that are not started yet among them
        self._leaving = threading.Lock()
        self._done = False  # nothing more is to be read

        self._turn: SimpleQueue[None] = SimpleQueue()  # who has its item reads; more once done
        self._turn.put(None)
        self._room: SimpleQueue[None] = SimpleQueue()  # an item per sample taken
        self._outcomes: SimpleQueue[Optional[_Outcome]] = SimpleQueue()  # None: stopped

        # Of the thread whose turn it is.
        self._samples: Optional[Iterator[Any]] = None
        self._read = 0

        # Of the consumer.
        self._ready: deque[R] = deque()  # to be handed out next
        self._early: dict[int, R] = {}  # if the order is kept: results after a missing one
        self._due = 0  # if the order is kept: the number that _ready goes on with
        self._highest = -1  # number of an outcome
        self._missing: set[int] = set()  # lower numbers without one; few, as they are under way
        self._end: Optional[int] = None
        self._error: Optional[BaseException] = None

    def samples(self) -> Iterator[R]:
        """The iterator of the pass. The threads start with its first ``next``."""
        grace = GRACE_SECONDS
        try:
            self._start()
            while not self._is_complete():
                self._receive()
                while self._ready:
                    self._room.put(None)
                    yield self._ready.popleft()
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
            self._ready.clear()
            self._early.clear()
            self._error = None

    def stop(self, grace: float) -> None:
        """Ends the pass: wakes all threads, and waits up to `grace` seconds until they have left.

        A thread that is in the user's code then leaves as soon as that returns.
        """
        if os.getpid() != self._process:
            return  # the threads stayed in the parent
        self._finish()
        self._outcomes.put(None)
        me = threading.get_ident()
        if me == self._starter or any(thread.ident == me for thread in self._threads):
            return  # the garbage collector calls
        deadline = time.monotonic() + grace
        if self._starting.acquire(timeout=grace):
            self._starting.release()
        for thread in self._threads:
            if thread.ident == me:
                continue  # noted only now
            thread.join(max(0.0, deadline - time.monotonic()))

    # The consumer.

    def _start(self) -> None:
        """Starts the threads, from another thread.

        Ctrl-C can break off Thread.start in the main thread. Whether the thread runs is then
        unknown. It comes before or after the one call here.
        """
        self._starting.acquire()
        self._active = self._thread_count
        try:
            _thread.start_new_thread(self._start_threads, ())
        except RuntimeError:  # no more threads can be started
            self._starting.release()
            raise

    def _start_threads(self) -> None:
        """Starts all, even if nothing is to be read any more: the last one closes the reader."""
        self._starter = threading.get_ident()
        _running.add(self)  # here: Ctrl-C may keep this from being called
        started = 0
        try:
            for i in range(self._thread_count):
                thread = threading.Thread(
                    target=self._work, name=f"ringfeed-{self._name}-{i}", daemon=True
                )
                thread.start()
                started += 1
                self._threads.append(thread)
        except BaseException as error:
            self._finish()
            self._outcomes.put(_Outcome(0, True, error))
            for _ in range(started, self._thread_count):
                self._leave()
        finally:
            self._starter = None
            self._starting.release()

    def _is_complete(self) -> bool:
        end = self._end
        return end is not None and not any(number < end for number in self._missing)

    def _receive(self) -> None:
        """Waits for an outcome."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "this iterator's threads stayed in the process that was forked; "
                "make a new iterator after the fork"
            )
        while True:
            try:
                outcome = self._outcomes.get(timeout=SIGNAL_SECONDS)
                break
            except Empty:
                pass
        if outcome is None:
            raise RuntimeError("the program ends, and with it this iterator's threads")
        self._tick_off(outcome.number)
        if outcome.is_end:
            if self._end is None or outcome.number < self._end:
                self._end, self._error = outcome.number, outcome.value
        elif self._ordered:
            self._early[outcome.number] = outcome.value
            while self._due in self._early:
                self._ready.append(self._early.pop(self._due))
                self._due += 1
        else:
            self._ready.append(outcome.value)

    def _tick_off(self, number: int) -> None:
        if number > self._highest:
            self._missing.update(range(self._highest + 1, number))
            self._highest = number
        else:
            self._missing.discard(number)

    # The threads.

    def _work(self) -> None:
        try:
            while not self._done:
                self._turn.get()
                if self._read >= self._ahead and not self._done:
                    self._room.get()
                if not self._done:
                    self._read_and_map()
        finally:
            self._leave()

    def _read_and_map(self) -> None:
        number = self._read
        self._read += 1
        try:
            if self._samples is None:
                self._samples = self._open()
            try:
                sample = next(self._samples)
            except StopIteration:
                self._finish()
                self._outcomes.put(_Outcome(number, True, None))
                return
            self._turn.put(None)
            self._outcomes.put(_Outcome(number, False, self._mapper(sample)))
        except BaseException as error:
            self._finish()
            self._outcomes.put(_Outcome(number, True, error))

    def _open(self) -> Iterator[Any]:
        try:
            return iter(self._reader())
        except StopIteration as error:  # next's alone is the end of the data
            raise RuntimeError("a reader creator raised StopIteration") from error

    def _finish(self) -> None:
        """Nothing more is read: whoever waits for a turn or for room, or is about to, leaves."""
        self._done = True
        for _ in range(self._thread_count):
            self._turn.put(None)
            self._room.put(None)

    def _leave(self) -> None:
        """The last thread closes the reader's iterator; what that raises goes to its excepthook."""
        with self._leaving:
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
