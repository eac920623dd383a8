"""Torch's DataLoader over a map-style data set that fetches whole batches from mapped files.

The environment variable LOADER_WORKERS says how many worker processes there are (0)."""

import pathlib
from typing import Dict, Iterator, List

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from contestant import passes, workers
from data_sets import SAMPLE_BYTES, Work


class Samples(Dataset):
    """Samples of one size in files, fetched by the batch."""

    def __init__(self, files: List[str]) -> None:
        self._files = [np.memmap(name, dtype=np.uint8, mode="r").reshape(-1, SAMPLE_BYTES)
                       for name in files]
        ends = np.cumsum([len(file) for file in self._files])
        self._starts = np.concatenate([[0], ends[:-1]])
        self._size = int(ends[-1])

    def __len__(self) -> int:
        return self._size

    def __getitems__(self, numbers: List[int]) -> torch.Tensor:
        """Samples by number as one tensor of shape [len(numbers), SAMPLE_BYTES]."""
        block = torch.empty((len(numbers), SAMPLE_BYTES), dtype=torch.uint8)
        rows = block.numpy()
        places = np.searchsorted(self._starts, numbers, side="right") - 1
        for row, (place, number) in enumerate(zip(places, numbers)):
            rows[row] = self._files[place][number - self._starts[place]]
        return block


def _as_it_is(block: torch.Tensor) -> torch.Tensor:
    return block


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """Batches in an order of the whole data set, another one in each pass."""
    samples = Samples(work.files(data))
    order = RandomSampler(samples, generator=torch.Generator().manual_seed(7))
    loader = DataLoader(samples, batch_sampler=BatchSampler(order, work.batch, drop_last=False),
                        collate_fn=_as_it_is, num_workers=workers(),
                        persistent_workers=workers() > 0)
    return ({"value": block} for block in passes(loader, once))


STREAMS = {"samples": stream}
