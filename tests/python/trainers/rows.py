"""The rows of the task. Without Torch: test_trainers.py takes them, too."""

from __future__ import annotations

import json
from pathlib import Path

#: Rows to train on, rows of a batch over all ranks, and its batches.
ROWS, BATCH = 60, 6
BATCHES = ROWS // BATCH
EPOCHS = 2
#: Rows to validate on: one is left for the last batch, so of two ranks one gets none there.
VALID_ROWS = 31
#: Times a row's number is its first value. Every value is a few bits long.
NUMBER = 1 / 64


def write_rows(folder: Path) -> None:
    """train.jsonl and valid.jsonl: "x", three numbers, and "y", what is to be found."""
    for name, rows in (("train", ROWS), ("valid", VALID_ROWS)):
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for n in range(rows):
                x = [n * NUMBER, n * 5 % 13 / 8 - 0.75, n * 3 % 7 / 4 - 0.75]
                file.write(json.dumps({"x": x, "y": [x[0] + x[1] * x[2]]}) + "\n")
