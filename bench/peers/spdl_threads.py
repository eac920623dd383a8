"""SPDL: a pipeline of threads in one process. It has no file format of its own: the threads read
the batches that torch_blocks.py reads, from the same files.

The environment variable LOADER_WORKERS says how many threads read (1)."""

import pathlib
import sys
from typing import Dict, Iterator, List

from contestant import not_installed, run, workers
from data_sets import made, records
from works import IMAGES, SAMPLES, Work

try:
    import numpy as np
    import torch
    from spdl.pipeline import PipelineBuilder
    from torch_blocks import Samples
except ImportError as error:
    sys.exit(not_installed(error))


def labels(data: pathlib.Path) -> torch.Tensor:
    """The labels of the images, of which all that is left are the samples. The file is made where
    it is missing."""
    def write(folder: pathlib.Path) -> None:
        folder.mkdir()
        numbers = [record["label"] for record in records(IMAGES, data)]
        np.array(numbers, dtype="<i8").tofile(folder / "labels")

    return torch.from_numpy(np.fromfile(made(data / "images-spdl", write) / "labels", "<i8"))


def batches_of(rows: int, batch: int, shuffled: bool, once: bool) -> Iterator[List[int]]:
    """The numbers of the samples of each batch: in order, or in another order in each pass."""
    random = np.random.default_rng(7)
    while True:
        order = random.permutation(rows) if shuffled else np.arange(rows)
        for first in range(0, rows, batch):
            yield order[first:first + batch].tolist()
        if once:
            return


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work, of `samples` in an order of the whole data set."""
    samples, threads = Samples(SAMPLES.files(data)), max(1, workers())
    known = labels(data) if work.name == "images" else None

    def read(numbers: List[int]) -> Dict[str, torch.Tensor]:
        block = samples.__getitems__(numbers)
        return {"value": block} if known is None else {"image": block, "label": known[numbers]}

    source = batches_of(len(samples), work.batch, work.name == "samples", once)
    # A thread takes a whole batch: what goes from stage to stage costs as much for a sample.
    pipeline = (PipelineBuilder().add_source(source)
                .pipe(read, concurrency=threads, output_order="input")
                .add_sink().build(num_threads=threads))
    return iter(pipeline)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(run({"images": stream, "samples": stream}))
