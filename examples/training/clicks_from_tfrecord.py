"""A recommender-like model on a table in TFRecord: numbers, ids with embeddings, one answer.

    python clicks_from_tfrecord.py [FOLDER [EPOCHS]]

The table is scikit-learn's breast cancer data, 569 rows of 30 numbers. 22 of them stay numbers, 8
become ids of one of 16 buckets, as a recommender has them. ringfeed writes the rows as tf.Example
and reads them. Torch's DataLoader takes the same rows in the same order from memory. Both must end
with the same loss.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Iterator

import numpy
import torch
from fit import Batch, compare, fit
from sklearn.datasets import load_breast_cancer
from torch.utils.data import DataLoader, TensorDataset

import ringfeed

FILES = 2
NUMBERS = 22
IDS = 8
BUCKETS = 16
BATCH = 32
SEED = 7
FEATURES = {
    "numbers": ("float32", [NUMBERS]),
    "ids": ("int64", [IDS]),
    "answer": ("float32", [1]),
}


def table() -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """Numbers float32 [rows, NUMBERS], ids int64 [rows, IDS], answers float32 [rows, 1]."""
    data = load_breast_cancer()
    values = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    edges = numpy.linspace(0, 1, BUCKETS + 1)[1:-1]
    columns = [
        numpy.searchsorted(numpy.quantile(column, edges), column) + BUCKETS * number
        for number, column in enumerate(values[:, NUMBERS:].T)
    ]
    numbers = values[:, :NUMBERS].astype("float32")
    return numbers, numpy.stack(columns, axis=1), data.target.astype("float32")[:, None]


def write_examples(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(FILES):
        path = folder / f"clicks-{file:03}.tfrecord"
        with ringfeed.open_record_writer(path, "tfrecord") as writer:
            for row, (numbers, ids, answer) in enumerate(zip(*table())):
                if row % FILES == file:
                    features = {"numbers": numbers, "ids": ids, "answer": answer, "row": row}
                    writer.write(ringfeed.build_example(features))


def open_loader(folder: Path, features: dict[str, Any], **options: Any) -> ringfeed.Loader:
    return ringfeed.Loader(
        folder / "clicks-*.tfrecord",
        parse=ringfeed.example(features),
        batch=BATCH,
        shuffle="global",
        seed=SEED,
        **options,
    )


class Clicks(torch.nn.Module):
    """Embeddings of the ids, their products with each other, and the numbers, to one logit."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.vectors = torch.nn.Embedding(IDS * BUCKETS, 4)
        self.numbers = torch.nn.Linear(NUMBERS, 4)
        self.top = torch.nn.Linear((IDS + 1) ** 2 + 4, 1)

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        dense = torch.relu(self.numbers(numbers))
        vectors = torch.cat([self.vectors(ids), dense.unsqueeze(1)], dim=1)
        products = vectors @ vectors.transpose(1, 2)
        answer: torch.Tensor = self.top(torch.cat([products.flatten(1), dense], dim=1))
        return answer


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/clicks")
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.set_num_threads(1)
    if not folder.exists():
        write_examples(folder)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits

    with open_loader(folder, FEATURES) as loader:

        def ours(epoch: int) -> Iterator[Batch]:
            for batch in loader:
                tensors = [torch.from_dlpack(batch[name]) for name in FEATURES]
                yield (tensors[0], tensors[1]), tensors[2]

        by_ringfeed = fit(Clicks(), loss_of, epochs, ours)

    # The same order for Torch: the rows' numbers, of the same Loader.
    with open_loader(folder, {"row": ("int64", [])}) as rows:
        order = [[batch["row"].tolist() for batch in rows] for _ in range(epochs)]
    in_memory = TensorDataset(*map(torch.from_numpy, table()))

    def theirs(epoch: int) -> Iterator[Batch]:
        for numbers, ids, answers in DataLoader(in_memory, batch_sampler=order[epoch]):
            yield (numbers, ids), answers

    compare(by_ringfeed, fit(Clicks(), loss_of, epochs, theirs))


if __name__ == "__main__":
    main()
