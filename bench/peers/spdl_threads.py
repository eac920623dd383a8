"""SPDL: a pipeline of threads in one process. It has no file format of its own: the threads read
the batches that torch_blocks.py reads, from the same files.

The environment variable LOADER_WORKERS says how many threads read (1)."""

import pathlib
from typing import Dict, Iterator, List

import torch
from spdl.pipeline import PipelineBuilder

from contestant import workers
from data_sets import LABELS, SAMPLES, Work
from numpy_arrays import batches_of
from torch_blocks import Samples


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work, of `samples` in an order of the whole data set."""
    samples, threads = Samples(SAMPLES.files(data)), max(1, workers())
    # Of the images all that is left are the samples. Their labels are what data_sets.py gave them.
    known = torch.arange(len(samples)) % LABELS if work.name == "images" else None

    def read(numbers: List[int]) -> Dict[str, torch.Tensor]:
        block = samples.__getitems__(numbers)
        return {"value": block} if known is None else {"image": block, "label": known[numbers]}

    source = (numbers.tolist() for numbers in
              batches_of(len(samples), work.batch, work.name == "samples", once))
    # A thread takes a whole batch: what goes from stage to stage costs as much for a sample.
    pipeline = (PipelineBuilder().add_source(source)
                .pipe(read, concurrency=threads, output_order="input")
                .add_sink().build(num_threads=threads))
    return iter(pipeline)


STREAMS = {"images": stream, "samples": stream}
