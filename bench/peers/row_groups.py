#!/usr/bin/env python3
"""Parquet's row groups in a random order to batches of arrays: ringfeed.parquet beside pyarrow's
scanner and Hugging Face's datasets, in rows per CPU second and per second.

  row_groups.py [--data DIR] [--rows N] [--rounds N] [--sizes ROWS...] [--images] [--smoke]

Needs ringfeed[arrow] and NumPy; datasets and Torch are left out if they are missing. Run by hand.
All take the same work: 39 columns of a table (13 float32, 26 int64) and a label, row groups of
65,536 rows, compressed by snappy, the files in the page cache. The groups come permuted and batches
have 8,192 rows, each column an array. The scanner has a group's rows permuted by take(), ringfeed
has a window of a group's rows, so each loop gets rows of about one group. Rounds alternate, and the
best of each counts.

datasets streams the files under Torch's DataLoader, without a worker and with a buffer of 8,192
rows; its first 8,192 count. With --images rows are a label and 20,000 to 110,000 bytes, in groups
of 256, batches of 64; the scanner's are Python's bytes, ringfeed's one array and offsets.

With --sizes both read row groups of each of these sizes instead; ringfeed's window stays.
"""

import argparse
import pathlib
import random
import tempfile
import time
from typing import Callable, Dict, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

import ringfeed
from cpu_clock import cpu_seconds

try:
    import datasets
    import torch
except ImportError:
    datasets = None

GROUP, BATCH, FLOATS, INTEGERS = 65_536, 8_192, 13, 26
MOST_OF_DATASETS = 8_192
Batches = Iterator[Dict[str, np.ndarray]]


def numbers_of(draw: np.random.Generator, rows: int) -> dict:
    columns = {f"x{n}": draw.random(rows, dtype=np.float32) for n in range(FLOATS)}
    columns.update({f"n{n}": draw.integers(0, 10**6, rows) for n in range(INTEGERS)})
    return columns


def images_of(draw: np.random.Generator, rows: int) -> dict:
    return {"image": [draw.bytes(draw.integers(20_000, 110_000)) for _ in range(rows)]}


def make(folder: pathlib.Path, rows: int, group: int, images: bool) -> pathlib.Path:
    """A folder of two files, made if they are missing."""
    folder = folder / f"{'images-' if images else ''}{rows}-{group}"
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(7)
    for number in range(2):
        path = folder / f"{number}.parquet"
        if path.exists():
            continue
        columns = (images_of if images else numbers_of)(draw, rows // 2)
        columns["label"] = draw.integers(0, 2, rows // 2)
        pa.parquet.write_table(pa.table(columns), path, row_group_size=group)
    return folder


def by_ringfeed(folder: pathlib.Path, seed: int, window: int, batch: int) -> Batches:
    read = ringfeed.parquet(str(folder))
    shuffled = ringfeed.shuffle(read, "stripes", window, seed=seed)
    with ringfeed.Loader.from_reader(ringfeed.batch(shuffled, batch)) as loader:
        for each in loader:
            yield {name: a if name == "image" else a.numpy() for name, a in each.items()}


def by_datasets(folder: pathlib.Path, seed: int, _window: int, batch: int) -> Batches:
    paths = sorted(str(path) for path in folder.glob("*.parquet"))
    rows = datasets.load_dataset("parquet", data_files=paths, split="train", streaming=True)
    shuffled = rows.shuffle(seed=seed, buffer_size=MOST_OF_DATASETS).with_format("torch")
    some = shuffled.take(MOST_OF_DATASETS)
    for each in torch.utils.data.DataLoader(some, batch_size=batch, num_workers=0):
        yield {name: tensor.numpy() for name, tensor in each.items()}


def by_scanner(folder: pathlib.Path, seed: int, _window: int, batch: int) -> Batches:
    paths = sorted(str(path) for path in folder.glob("*.parquet"))
    whole = pyarrow.dataset.dataset(paths)
    groups = [part for each in whole.get_fragments() for part in each.split_by_row_group()]
    draw = np.random.default_rng(seed)
    random.Random(seed).shuffle(groups)
    for group in groups:
        table = group.to_table(schema=whole.schema)
        table = table.take(draw.permutation(table.num_rows))
        for at in range(0, table.num_rows, batch):
            part = table.slice(at, batch)
            yield {name: part.column(name).to_numpy() for name in part.column_names}


Stream = Callable[[pathlib.Path, int, int, int], Batches]


def measured(stream: Stream, folder: pathlib.Path, seed: int, window: int, size: int) -> tuple:
    """Rows per CPU second and per second; the number of rows, and the sum of their labels."""
    cpu, wall, count, labels = cpu_seconds(), time.perf_counter(), 0, 0
    for batch in stream(folder, seed, window, size):
        count += len(batch["label"])
        labels += int(batch["label"].sum())
    return count / (cpu_seconds() - cpu), count / (time.perf_counter() - wall), count, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, default=tempfile.gettempdir())
    parser.add_argument("--rows", type=int, default=2 * 16 * GROUP)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[GROUP])
    parser.add_argument("--images", action="store_true", help="a label and an image")
    parser.add_argument("--smoke", action="store_true", help="little data, one round")
    options = parser.parse_args()
    rows, rounds = (4 * GROUP, 1) if options.smoke else (options.rows, options.rounds)
    window, batch = GROUP, BATCH
    if options.images:
        rows, window, batch, options.sizes = rows // GROUP * 256, 256, 64, [256]
    for group in options.sizes:
        folder = make(pathlib.Path(options.data) / "row_groups", rows, group, options.images)
        stored = sum(path.stat().st_size for path in folder.iterdir())
        print(f"row groups of {group} rows, {stored / rows:.0f} bytes a row in the file")
        measure(folder, rounds, window, batch)


def measure(folder: pathlib.Path, rounds: int, window: int, batch: int) -> None:
    streams: Dict[str, Stream] = {"ringfeed": by_ringfeed, "scanner": by_scanner}
    if datasets is not None and batch == BATCH:
        streams["datasets"] = by_datasets
    seen: Dict[str, list] = {name: [] for name in streams}
    for seed in range(rounds + 1):  # the first is not counted
        for name, stream in streams.items():
            seen[name].append(measured(stream, folder, seed, window, batch))
    whole = {result[2:] for name in ("ringfeed", "scanner") for result in seen[name]}
    assert len(whole) == 1, seen
    for name, results in seen.items():
        cpu, wall = (max(each[at] for each in results[1:]) for at in (0, 1))
        print(f"{name:10} {cpu / 1e3:10.2f} k rows/CPU s {wall / 1e3:10.2f} k rows/s")


if __name__ == "__main__":
    main()
