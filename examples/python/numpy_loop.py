"""A logistic regression in NumPy over batches that share the kernel's memory.

python numpy_loop.py [FOLDER [EPOCHS]]      makes FOLDER (data/table) where there is none
"""

import subprocess
import sys
from pathlib import Path

import numpy

import ringfeed

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/table")
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3

if not folder.exists():
    make = [sys.executable, "-m", "ringfeed", "make", str(folder), "--kind", "table"]
    subprocess.run([*make, "--records", "20000", "--files", "4"], check=True)

loader = ringfeed.Loader(
    folder / "*.tfrecord",
    parse=ringfeed.example({"dense": ("float32", [13]), "label": ("int64", [])}),
    batch=256,
    shuffle="global",
    seed=7,
)
weights, bias = numpy.zeros(13, "float32"), 0.0

with loader:
    for epoch in range(epochs):
        loss, rows = 0.0, 0
        for batch in loader:
            x, y = numpy.asarray(batch["dense"]), numpy.asarray(batch["label"])  # no copies
            x = x / (1 + numpy.abs(x))  # to -1..1
            p = 1 / (1 + numpy.exp(-(x @ weights + bias)))
            weights -= 0.1 * (p - y) @ x / len(y)
            bias -= 0.1 * float(numpy.mean(p - y))
            loss -= float(numpy.log(numpy.where(y == 1, p, 1 - p)).sum())
            rows += len(y)
        print(f"epoch {epoch}: {rows} rows, loss {loss / rows:.4f}")
