"""LitData: its optimized chunks, read by its StreamingDataset and StreamingDataLoader.

The environment variable LOADER_WORKERS says how many worker processes there are (0)."""

import pathlib
from typing import Dict, Iterator

import torch
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.writer import BinaryWriter

from contestant import passes, workers
from data_sets import Work, made, records

# What its README gives for samples that are smaller than a few MB; the default of `optimize`.
CHUNK_BYTES = "64MB"


def chunks(work: Work, data: pathlib.Path) -> pathlib.Path:
    """The rows of a work in chunks of LitData. Made if they are missing."""
    def write(folder: pathlib.Path) -> None:
        writer = BinaryWriter(str(folder), chunk_bytes=CHUNK_BYTES)
        for number, record in enumerate(records(work, data)):
            # A tensor of one dimension is stored without a header, and read without a copy.
            writer[number] = {
                name: torch.frombuffer(bytearray(value), dtype=torch.uint8)
                if isinstance(value, bytes) else value for name, value in record.items()}
        writer.done()
        writer.merge()

    return made(data / f"{work.name}-litdata", write)


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work. Of `samples` the chunks come in another order in each pass, and the
    samples of a chunk: LitData shuffles no wider."""
    shuffled = work.name == "samples"
    # It decodes neighbours together, which in a shuffled chunk it would do again for each of them.
    rows = StreamingDataset(str(chunks(work, data)), shuffle=shuffled, seed=7, drop_last=False,
                            item_shuffle_window="full", batch_decode=1 if shuffled else "auto")
    loader = StreamingDataLoader(rows, batch_size=work.batch, num_workers=workers(),
                                 persistent_workers=workers() > 0)
    return passes(loader, once)


STREAMS = {"images": stream, "samples": stream}
