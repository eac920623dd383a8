"""WebDataset: tar shards, read by its WebDataset and WebLoader.

The environment variable LOADER_WORKERS says how many worker processes there are (0)."""

import pathlib
from typing import Any, Callable, Dict, Iterator

import numpy as np
import torch
import webdataset as wds
from torch.utils.data import default_collate

from contestant import passes, workers
from data_sets import FILES, SAMPLE_BYTES, SAMPLES, Work, made, records

# Of so many samples the next one is chosen: what its README advises.
SHUFFLE_BUFFER = 1000


def shards(work: Work, data: pathlib.Path) -> pathlib.Path:
    """The rows of a work in tar files of 197 MB, FILES of them: a worker reads whole ones. A column
    is a member of the file. Made if they are missing."""
    def write(folder: pathlib.Path) -> None:
        folder.mkdir()
        sizes = [pathlib.Path(name).stat().st_size for name in SAMPLES.files(data)]
        rows = sum(sizes) // SAMPLE_BYTES
        with wds.ShardWriter(f"{folder}/%06d.tar", maxcount=rows // FILES, encoder=False,
                             verbose=0) as writer:
            for number, record in enumerate(records(work, data)):
                members = {name: value if isinstance(value, bytes) else str(value).encode()
                           for name, value in record.items()}
                writer.write({"__key__": f"{number:09}", **members})

    return made(data / f"{work.name}-webdataset", write)


def _bytes(member: bytes) -> np.ndarray:
    return np.frombuffer(member, dtype=np.uint8)


# What becomes of each column's member.
DECODERS: Dict[str, Dict[str, Callable[[bytes], Any]]] = {
    "images": {"image": _bytes, "label": int}, "samples": {"value": _bytes}}


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work. Of `samples` the shards come in another order in each pass, and the
    samples through a buffer: WebDataset has no order of the whole data set."""
    tars = sorted(str(path) for path in shards(work, data).glob("*.tar"))
    shuffled = work.name == "samples"
    rows = wds.WebDataset(tars, shardshuffle=len(tars) if shuffled else False, seed=7)
    names, decoders = zip(*DECODERS[work.name].items())
    rows = rows.shuffle(SHUFFLE_BUFFER if shuffled else 0).to_tuple(*names).map_tuple(*decoders)
    # Workers hand over whole batches. Torch's function puts them into shared memory at once.
    batches = rows.batched(work.batch, collation_fn=default_collate)
    loader = wds.WebLoader(batches, batch_size=None, num_workers=workers(),
                           persistent_workers=workers() > 0)
    return (dict(zip(names, batch)) for batch in passes(loader, once))


STREAMS = {"images": stream, "samples": stream}
