"""Writes the data sets of tests/data/litdata with litdata 0.2.76, and prints what its
StreamingDataset gives of them: for each column the digest of its values' bytes."""

import hashlib
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from litdata.streaming import StreamingDataset
from litdata.streaming.cache import Cache
from litdata.streaming.item_loader import TokensLoader

OUT = Path(sys.argv[1])


def mixed(i):
    generator = np.random.default_rng(i)
    return {
        "id": i * 1_000_003 - 7,
        "f": i / 3,
        "ok": i % 3 == 0,
        "s": "text " + "ä" * (i % 5),
        "b": generator.bytes(i % 7),
        "t": torch.arange(i % 4 + 1) * i,
        "m": torch.full((i % 3 + 1, 2), i, dtype=torch.float32),
        "c": torch.tensor(i * 0.5, dtype=torch.float64),
        "n": generator.integers(0, 1000, (2, i % 2 + 1)).astype(np.int16),
        "v": np.arange(i % 3 + 1, dtype=np.uint8),
        "in": {"x": i, "y": [float(i), "z"]},
    }


def rows(i):
    return {"id": i, "f": i / 7, "ok": i % 2 == 1, "s": f"row {i}" * (i % 3),
            "b": bytes(range(i % 5)), "in": {"x": -i, "y": "é" * (i % 4)},
            "l": [i] * (i % 3), "w": ["a"] * (i % 2)}


def write(name, items, loader=None, **options):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    cache = Cache(str(folder), item_loader=loader, **options)
    for i, item in enumerate(items):
        cache[i] = item
    cache.done()
    cache.merge()


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, path + (str(key),))
    elif isinstance(value, list) and not all(isinstance(one, type(value[0])) for one in value):
        for i, one in enumerate(value):
            yield from leaves(one, path + (str(i),))
    else:
        yield ".".join(path), value


def raw(value):
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, int):
        return struct.pack("<q", value)
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, memoryview)):
        return bytes(value)
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return repr(value).encode()


def digest(values):
    sha = hashlib.sha256()
    for value in values:
        sha.update(struct.pack("<Q", len(value)) + value)
    return sha.hexdigest()


def show(name, **options):
    data = StreamingDataset(str(OUT / name), **options)
    columns = {}
    for i in range(len(data)):
        item = data[i]
        for key, value in leaves(item) if isinstance(item, dict) else [("tokens", item)]:
            columns.setdefault(key, []).append(raw(value))
    print(name, len(data))
    for key, values in columns.items():
        print(f'      {{"{key}", "{digest(values)}"}},', values[1][:20])


MIXED = [mixed(i) for i in range(25)]
ROWS = [rows(i) for i in range(300)]
TOKENS = [torch.arange(i % 7 + 3, dtype=torch.int32) + 100 * i for i in range(40)]
write("plain", MIXED, chunk_size=10)
write("whole", MIXED, chunk_size=10, compression="zstd", compression_level="chunk")
write("frames", MIXED, chunk_size=10, compression="zstd", compression_batch_size=4)
write("items", MIXED, chunk_size=10, compression="zstd", compression_level="sample")
write("arrow", ROWS, chunk_size=280)
write("arrow_zstd", ROWS, chunk_size=280, compression="zstd")
write("tokens", TOKENS, loader=TokensLoader(block_size=8), chunk_size=100)
for name in ("plain", "whole", "frames", "items", "arrow", "arrow_zstd"):
    shutil.rmtree(OUT / "copy", ignore_errors=True)
    shutil.copytree(OUT / name, OUT / "copy")
    try:
        show("copy")
    except Exception as error:
        print(name, "fails:", repr(error)[:300])
shutil.rmtree(OUT / "copy", ignore_errors=True)
show("tokens", item_loader=TokensLoader(block_size=8))
