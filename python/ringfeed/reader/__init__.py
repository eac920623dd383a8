"""Reader creators and their decorators, as PaddlePaddle's ``paddle.reader`` has them.

A *reader creator* is a function without arguments that returns a fresh iterator of samples; each
iterator is one pass over the data. A sample is any object, most often a tuple with one entry per
slot. A decorator takes reader creators and returns a new one::

    from ringfeed import reader

    samples = reader.shuffle(reader.creator.text_file("train.txt"), buf_size=8192, seed=7)
    batches = reader.batch(reader.xmap_readers(parse, samples, 4, 64, order=True), 256)
    for batch in batches():
        ...

What holds of every decorator:

- Several iterators of one creator may be in use at the same time, also in several threads. One
  iterator belongs to one thread at a time.
- Nothing is opened or started before the first ``next``.
- An exception of an inner reader, mapper or function leaves the outer iterator, with its own
  traceback. It is never taken for the end of the data: a ``StopIteration`` that a function raises
  arrives as ``RuntimeError``.
- An iterator that is closed, dropped or has come to its end has closed the iterators in it, and
  its threads have ended (see `buffered` and `xmap_readers`).
- Waits end on Ctrl-C.

The decorators move Python objects one at a time. Files in a format that the kernel reads are read
faster by the kernel.
"""

from __future__ import annotations

from . import creator
from .decorators import (
    ComposeNotAligned,
    batch,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    shuffle,
)
from .passes import ReaderCreator
from .threaded import buffered, xmap_readers

__all__ = [
    "ComposeNotAligned",
    "ReaderCreator",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "creator",
    "firstn",
    "map_readers",
    "shuffle",
    "xmap_readers",
]
