"""Windows over Megatron's documents, and Megatron-LM's own order of them."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

import ringfeed

numpy = pytest.importorskip("numpy")

_LENGTHS = [3, 0, 17, 8, 1, 30, 0, 5, 22, 9, 14]


def _write(folder: Path) -> Path:
    """Tokens 0, 1, 2, … through all sequences."""
    token = 0
    with ringfeed.open_record_writer(folder / "a.idx", "megatron:u2") as writer:
        for length in _LENGTHS:
            writer.write(struct.pack(f"<{length}H", *range(token, token + length)))
            token += length
    return folder / "a.idx"


def _read(path: Path, name: str, words: str, **options: Any) -> list[list[int]]:
    with ringfeed.Loader(path, batch=5, format=f"megatron:{words}", **options) as loader:
        return [row for batch in loader for row in batch[name].tolist()]


def _as_megatron(window: int, seed: int, samples: int) -> list[list[int]]:
    """GPTDataset's samples, by the steps that docs/FORMATS.md names, with NumPy's shuffles."""
    tokens = sum(_LENGTHS)
    starts = numpy.cumsum([0, *_LENGTHS])
    epochs = samples * window // tokens + 1
    before = max(0, ((epochs - 1) * tokens - 1) // window)
    apart = epochs > 1 and samples - before < int(0.8 * ((tokens - 1) // window))
    draws = numpy.random.RandomState(seed)
    parts = [epochs - 1, 1] if apart else [epochs]
    documents = []
    for part in parts:
        index = numpy.tile(numpy.arange(len(_LENGTHS), dtype=numpy.int32), part)
        draws.shuffle(index)
        documents.append(index)
    line = [
        token
        for document in numpy.concatenate(documents)
        for token in range(starts[document], starts[document + 1])
    ]
    count = (epochs * tokens - 1) // window
    order = []
    for first, end in [(0, before), (before, count)] if apart else [(0, count)]:
        index = numpy.arange(first, end, dtype=numpy.uint32)
        draws.shuffle(index)
        order += index.tolist()
    return [line[j * window : (j + 1) * window + 1] for j in order]


def test_megatrons_order_is_made_of_numpys_shuffles(tmp_path: Path) -> None:
    path = _write(tmp_path)
    rng = random.Random(3)
    for _ in range(12):
        window, seed, samples = rng.randint(1, 20), rng.randrange(2**32), rng.randint(1, 60)
        words = f"window={window},order=megatron,seed={seed},samples={samples}"
        assert _read(path, "tokens", words) == _as_megatron(window, seed, samples), words


def test_positions_segments_and_mask_follow_the_documents(tmp_path: Path) -> None:
    path = _write(tmp_path)
    words = "window=8,order=file,positions,segments,mask"
    assert _read(path, "tokens", words)[:2] == [[*range(9)], [*range(8, 17)]]
    assert _read(path, "position_ids", words)[0] == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert _read(path, "segment_ids", words)[0] == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert _read(path, "loss_mask", words)[0] == [1, 1, 0, 1, 1, 1, 1, 1, 1]


def test_a_shuffle_gives_each_window_once(tmp_path: Path) -> None:
    path = _write(tmp_path)
    words = "window=6,seed=4,epochs=3"
    plain = _read(path, "tokens", words)
    shuffled = _read(path, "tokens", words, shuffle="global", seed=1)
    assert len(plain) == (3 * sum(_LENGTHS) - 1) // 6
    assert plain != shuffled and sorted(plain) == sorted(shuffled)
