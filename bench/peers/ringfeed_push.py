"""ringfeed.LoDTensorBlockingQueue: arrays of 1 MB pushed by one thread, taken out by another.

The environment variable PUSH_COPY says whether they are copied (1) or shared (0); with PUSH_THREADS
of 1 the thread that pushes takes them out itself, whenever the queue is full."""

import itertools
import os
import pathlib
import threading
from typing import Any, Dict, Iterator

import numpy as np
import ringfeed

from data_sets import Work
from numpy_arrays import PLACES, arrays


def _queue(work: Work) -> Any:
    return ringfeed.LoDTensorBlockingQueue(PLACES, [("value", "uint8", [work.row_bytes], 0)])


def _drain(queue: Any) -> None:
    while queue.pop() is not None:
        pass


def pushed(work: Work, _: pathlib.Path, once: bool) -> Iterator[Dict[str, Any]]:
    """Each array pushed; of one pass what came out, else what went in."""
    queue, copy = _queue(work), os.environ.get("PUSH_COPY", "1") == "1"
    if once:
        for source in arrays():
            queue.push([source], copy=copy)
            yield {"value": np.asarray(queue.pop()[0])[None]}
        return
    sources = [(source, {"value": source[None]}) for source in arrays()]
    alone = os.environ.get("PUSH_THREADS", "2") == "1"
    if not alone:
        threading.Thread(target=_drain, args=(queue,), daemon=True).start()
    try:
        for source, batch in itertools.cycle(sources):
            if alone and queue.size() == PLACES:
                for _ in range(PLACES):
                    queue.pop()
            queue.push([source], copy=copy)
            yield batch
    finally:
        queue.close()


STREAMS = {"push": pushed}
