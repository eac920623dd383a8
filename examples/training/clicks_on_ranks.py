"""The clicks of clicks_from_tfrecord.py for several processes, as clicks_by_lightning.py and
clicks_by_accelerate.py take them: batches of all rows, the loss of a rank's part, and a check that
no row was lost or came twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from clicks_from_tfrecord import BATCH, FEATURES, open_loader
from torch.utils.data import DataLoader

import ringfeed.torch

ROWS = 569


def open_batches(folder: Path, **options: Any) -> Any:
    """This rank's part of each batch. The last one is short: pad fills it up, so that each rank has
    as many rows, and "mask" says which of them count."""
    features = {**FEATURES, "row": ("int64", [])}
    loader = open_loader(folder, features, pad=True, **options)
    return DataLoader(ringfeed.torch.IterableDataset(loader), batch_size=None)


def loss_of(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    """This rank's part of the mean, times the ranks: trainers take the mean of what ranks give."""
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        model(batch["numbers"], batch["ids"]), batch["answer"], reduction="none"
    )
    return (losses[:, 0] * batch["mask"]).sum() * dist.get_world_size() / BATCH


def rows_of(batch: Any) -> list[int]:
    """The rows that count."""
    rows: list[int] = batch["row"][batch["mask"].bool()].tolist()
    return rows


def check(what: str, rows: list[int]) -> None:
    """SystemExit if the ranks' rows together are not each row once."""
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, rows)
    if sorted(sum(parts, [])) != list(range(ROWS)):
        raise SystemExit(f"{what}: a row was lost or came twice")
    if dist.get_rank() == 0:
        print(f"{what}: each of {ROWS} rows once, {' and '.join(str(len(p)) for p in parts)}")
