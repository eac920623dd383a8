"""What the programs beside it train, and what they tell of it; test_trainers.py compares.

A program trains three times from the same start: by a Loader; by Torch's own DataLoader over the
same rows in the same order; and by a Loader with a stop in the middle of the second epoch, from
where new objects go on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import torch
from rows import BATCH, BATCHES, NUMBER
from torch.utils.data import DataLoader, Dataset

import ringfeed
import ringfeed.torch

#: Steps before the stop.
STOP = BATCHES + 3
LEARNING_RATE = 0.1


def numbers(x: Any) -> list[int]:
    """The rows that a batch is of."""
    return [round(value / NUMBER) for value in x[:, 0].tolist()]


def open_train(**options: Any) -> ringfeed.Loader:
    """The rows in another order each epoch, as many for each rank."""
    return _open("train", shuffle="global", seed=3, drop_remainder=True, **options)


def open_valid(**options: Any) -> ringfeed.Loader:
    return _open("valid", **options)


def _open(name: str, **options: Any) -> ringfeed.Loader:
    parse = ringfeed.jsonl({"x": ("float32", [3]), "y": ("float32", [1])})
    return ringfeed.Loader(f"{name}.jsonl", parse=parse, **{"batch": BATCH, **options})


def batches_of(loader: ringfeed.Loader, kind: Callable[..., Any] = DataLoader) -> Any:
    """A DataLoader of Torch's, or a StatefulDataLoader."""
    return kind(ringfeed.torch.IterableDataset(loader), batch_size=None)


class Rows(Dataset[dict[str, torch.Tensor]]):
    """The same rows as a map-style data set."""

    def __init__(self, name: str) -> None:
        lines = Path(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        self._rows = [json.loads(line) for line in lines]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {name: torch.tensor(values) for name, values in self._rows[number].items()}


class InOrder:
    """A batch_sampler: another list of batches in each epoch of which one is taken."""

    def __init__(self, epochs: list[list[list[int]]]) -> None:
        self._epochs = epochs
        self._next = 0

    def __len__(self) -> int:
        return len(self._epochs[0])

    def __iter__(self) -> Iterator[list[int]]:
        self._next += 1
        yield from self._epochs[self._next - 1]


def torchs_batches(
    name: str, epochs: list[list[list[int]]], convert: Optional[Callable[[Any], Any]] = None
) -> Any:
    """Torch's DataLoader of the same rows in that order; of a batch without a row it knows
    nothing."""
    filled = [[batch for batch in epoch if batch] for epoch in epochs]
    collate = torch.utils.data.default_collate
    return DataLoader(
        Rows(name),
        batch_sampler=InOrder(filled),
        collate_fn=collate if convert is None else lambda rows: convert(collate(rows)),
    )


def model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def sgd(trained: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(trained.parameters(), lr=LEARNING_RATE, momentum=0.9)


def weights_of(trained: Any) -> list[str]:
    """Each weight with all of its digits."""
    return [float(w).hex() for part in trained.parameters() for w in part.detach().flatten()]


class Notes:
    """What a training saw and learnt.

    Attributes:
        trained: for each epoch the rows of each batch, of this rank.
        validated: the same of the validation, rows that are repeated to fill a batch left out.
        losses: of each validation, over all ranks.
        weights: at the end.
    """

    def __init__(self) -> None:
        self.trained: list[list[list[int]]] = []
        self.validated: list[list[list[int]]] = []
        self.losses: list[float] = []
        self.weights: list[str] = []


def tell(rank: int, **trainings: Notes) -> None:
    """For the test: whole, by_torch, before (the stop) and after."""
    told = {name: vars(notes) for name, notes in trainings.items()}
    Path(f"rank-{rank}.json").write_text(json.dumps(told), encoding="utf-8")
