"""NumPy alone: mapped files gathered into new batches, and memcpy of arrays of 1 MB into memory
that is used again, which is what a copying queue is held against."""

import itertools
import pathlib
from typing import Dict, Iterator, List

import numpy as np

from data_sets import PUSH, PUSHED_ARRAYS, SAMPLE_BYTES, Work

# Destinations, as many as the queue has places.
PLACES = 8


def batches_of(rows: int, batch: int, shuffled: bool, once: bool) -> Iterator[np.ndarray]:
    """The numbers of the rows of each batch: in order, or in another order in each pass."""
    random = np.random.default_rng(7)
    while True:
        order = random.permutation(rows) if shuffled else np.arange(rows)
        for first in range(0, rows, batch):
            yield order[first:first + batch]
        if once:
            return


def arrays() -> List[np.ndarray]:
    """The arrays of 1 MB that are pushed or copied, the same in each process."""
    random = np.random.default_rng(7)
    return [random.integers(0, 256, PUSH.row_bytes, dtype=np.uint8) for _ in range(PUSHED_ARRAYS)]


def samples(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, np.ndarray]]:
    """Batches in an order of the whole data set, another one in each pass."""
    files = [np.memmap(name, dtype=np.uint8, mode="r").reshape(-1, SAMPLE_BYTES)
             for name in work.files(data)]
    places = [row for file in files for row in file]
    for numbers in batches_of(len(places), work.batch, True, once):
        yield {"value": np.stack([places[i] for i in numbers])}


def copies(work: Work, _: pathlib.Path, once: bool) -> Iterator[Dict[str, np.ndarray]]:
    """Each array copied, the next one over the oldest."""
    sources = arrays()
    targets = itertools.cycle([np.zeros((1, work.row_bytes), dtype=np.uint8)
                               for _ in range(PLACES)])
    for source, target in zip(sources if once else itertools.cycle(sources), targets):
        np.copyto(target[0], source)
        yield {"value": target}


STREAMS = {"samples": samples, "push": copies}
