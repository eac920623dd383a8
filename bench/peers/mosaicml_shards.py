"""MosaicML streaming: MDS shards on the local disk, read by its StreamingDataset and Torch's
DataLoader.

The environment variable LOADER_WORKERS says how many worker processes there are (0)."""

import pathlib
from typing import Dict, Iterator

import numpy as np
import torch
from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader

from contestant import passes, workers
from data_sets import SAMPLE_BYTES, Work, made, records

# What a run that was killed has left would keep the next one from starting.
clean_stale_shared_memory()

# Of one dtype and one shape, so that a row is stored without a header.
SAMPLE = f"ndarray:uint8:{SAMPLE_BYTES}"
COLUMNS = {"images": {"image": SAMPLE, "label": "int"}, "samples": {"value": SAMPLE}}


def shards(work: Work, data: pathlib.Path) -> pathlib.Path:
    """The rows of a work in shards of 64 MiB, which is the writer's default. Made if they are
    missing."""
    def write(folder: pathlib.Path) -> None:
        with MDSWriter(out=str(folder), columns=COLUMNS[work.name]) as writer:
            for record in records(work, data):
                writer.write({name: np.frombuffer(value, dtype=np.uint8)
                              if isinstance(value, bytes) else value
                              for name, value in record.items()})

    return made(data / f"{work.name}-mosaicml", write)


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work. Of `samples` in an order of the whole data set, another one in each
    pass: its documentation names "naive" for that, with data on one node."""
    rows = StreamingDataset(local=str(shards(work, data)), batch_size=work.batch,
                            shuffle=work.name == "samples", shuffle_algo="naive", shuffle_seed=7,
                            num_canonical_nodes=1)
    loader = DataLoader(rows, batch_size=work.batch, num_workers=workers(),
                        persistent_workers=workers() > 0)
    return passes(loader, once)


STREAMS = {"images": stream, "samples": stream}
