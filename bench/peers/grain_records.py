"""Grain over ArrayRecord, in order or globally shuffled by index: the same samples in Grain's own
format."""

import json
import pathlib
from itertools import chain, count, islice
from typing import Any, Dict, Iterator, List

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from contestant import Resume
from data_sets import SAMPLE_BYTES, SAMPLES, Work, made, records

# Of a file.
FILE_ROWS = 1_792


def array_records(work: Work, data: pathlib.Path) -> List[str]:
    """The rows of a work as ArrayRecord, one to a chunk, for access by number. Made if they are
    missing."""
    def write(folder: pathlib.Path) -> None:
        folder.mkdir(parents=True)
        rows = records(work, data)
        for file in count():
            first = list(islice(rows, 1))
            if not first:
                return
            path = folder / f"part-{file:05}.array_record"
            writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
            for row in chain(first, islice(rows, FILE_ROWS - 1)):
                writer.write(b"".join(
                    value if isinstance(value, bytes) else value.to_bytes(8, "little")
                    for value in row.values()))
            writer.close()

    return sorted(map(str, made(data / f"{work.name}-grain", write).glob("part-*")))


def _as_image(record: bytes) -> Dict[str, np.ndarray]:
    return {"image": np.frombuffer(record, dtype=np.uint8, count=SAMPLE_BYTES),
            "label": np.frombuffer(record, dtype="<i8", offset=SAMPLE_BYTES)}


def _as_sample(record: bytes) -> Dict[str, np.ndarray]:
    return {"value": np.frombuffer(record, dtype=np.uint8)}


def dataset(work: Work, data: pathlib.Path, once: bool) -> Any:
    """The batches of a work as a data set of Grain, read by threads of this process."""
    source = grain.sources.ArrayRecordDataSource(array_records(work, data))
    samples = grain.MapDataset.source(source)
    if work.name == "samples":
        samples = samples.shuffle(seed=7)
    if not once:
        samples = samples.repeat()
    batches = samples.map(_as_image if work.name == "images" else _as_sample).batch(work.batch)
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


STREAMS = {"images": stream, "samples": stream}
RESUME = Resume(start, go_on)
