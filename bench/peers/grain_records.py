"""Grain over ArrayRecord, globally shuffled by index: the same samples in Grain's own format."""

import json
import pathlib
from functools import partial
from typing import Any, Dict, Iterator, List

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from contestant import Resume
from data_sets import SAMPLE_BYTES, SAMPLES, Work, made


def array_records(files: List[str]) -> List[str]:
    """The same samples as ArrayRecord, one to a chunk, for access by number. Made if they are
    missing."""
    def write(path: pathlib.Path, own: pathlib.Path) -> None:
        writer = ArrayRecordWriter(str(own), "group_size:1,uncompressed")
        for row in np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, SAMPLE_BYTES):
            writer.write(row.tobytes())
        writer.close()

    return [str(made(path.parent / f"grain-{path.stem}.array_record", partial(write, path)))
            for path in map(pathlib.Path, files)]


def _as_row(record: bytes) -> Dict[str, np.ndarray]:
    return {"value": np.frombuffer(record, dtype=np.uint8)}


def dataset(work: Work, data: pathlib.Path, once: bool) -> Any:
    """The batches of a work as a data set of Grain, read by threads of this process."""
    source = grain.sources.ArrayRecordDataSource(array_records(work.files(data)))
    samples = grain.MapDataset.source(source).shuffle(seed=7)
    if not once:
        samples = samples.repeat()
    batches = samples.map(_as_row).batch(work.batch)
    # Few samples read ahead cost the least CPU time and the least time to the first batch.
    reading = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    return batches.to_iter_dataset(reading)


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, np.ndarray]]:
    """The batches of a work."""
    return iter(dataset(work, data, once))


def start(data: pathlib.Path) -> Any:
    """Batches from the beginning, and what saves the position."""
    batches = iter(dataset(SAMPLES, data, False))
    return batches, lambda path: path.write_text(json.dumps(batches.get_state()), encoding="utf-8")


def go_on(data: pathlib.Path, path: pathlib.Path) -> Iterator[Dict[str, np.ndarray]]:
    """Batches from a saved position on."""
    batches = iter(dataset(SAMPLES, data, False))
    batches.set_state(json.loads(path.read_text(encoding="utf-8")))
    return batches


STREAMS = {"samples": stream}
RESUME = Resume(start, go_on)
