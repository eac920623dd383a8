"""The loop that both loaders feed: a step for each batch, the last epoch's loss, and the rate."""

from __future__ import annotations

import time
from typing import Callable, Iterable, NamedTuple

import torch

#: (what the model takes, what it should say), the first dimension being rows
Batch = tuple[tuple[torch.Tensor, ...], torch.Tensor]


class Fit(NamedTuple):
    """What a training ended with.

    Attributes:
        loss: mean over the rows of the last epoch.
        rows_per_s: of all epochs but the first, by the clock, steps included.
    """

    loss: float
    rows_per_s: float

    def __str__(self) -> str:
        return f"loss {self.loss:.12f}, {self.rows_per_s:,.0f} rows a second"


def fit(
    model: torch.nn.Module,
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    epochs: int,
    batches_of: Callable[[int], Iterable[Batch]],
) -> Fit:
    """Trains `model` on what `batches_of` gives for each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    timed_rows, started, loss = 0, time.perf_counter(), 0.0
    for epoch in range(epochs):
        if epoch == 1:  # the first one opens files, makes indexes and fills caches
            timed_rows, started = 0, time.perf_counter()
        rows, total = 0, torch.zeros((), dtype=torch.float64)
        for inputs, target in batches_of(epoch):
            step_loss = loss_of(model(*inputs), target)
            optimizer.zero_grad()
            step_loss.backward()
            optimizer.step()
            rows += len(target)
            total += step_loss.detach() * len(target)
        timed_rows += rows
        loss = float(total) / max(rows, 1)
    return Fit(loss, timed_rows / (time.perf_counter() - started))


def compare(ours: Fit, theirs: Fit) -> None:
    """Prints both; SystemExit where they did not learn the same, to the last bit."""
    print(f"ringfeed:           {ours}")
    print(f"Torch's DataLoader: {theirs}")
    if ours.loss != theirs.loss:
        raise SystemExit("they did not learn the same")
    print("the same loss, to the last bit")
