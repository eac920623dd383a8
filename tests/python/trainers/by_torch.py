"""A plain loop of Torch's on ranks of torchrun, fed by DataLoader and StatefulDataLoader."""

from typing import Any, Optional

import torch
import torch.distributed as dist
from rows import EPOCHS
from task import (
    STOP, Notes, batches_of, model, numbers, open_train, open_valid, sgd, tell, torchs_batches,
    weights_of,
)  # fmt: skip
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader


def validate(trained: torch.nn.Module, batches: Any, notes: Notes) -> None:
    """A rank without rows in the last batch adds nothing, and waits for nobody."""
    seen, total = [], torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for batch in batches:
            seen.append(numbers(batch["x"]))
            errors = (trained(batch["x"]) - batch["y"]).double()
            total += torch.tensor([errors.square().sum(), len(errors)])
    dist.all_reduce(total)
    notes.validated.append(seen)
    notes.losses.append(float(total[0] / total[1]))


def train(
    train_batches: Any, valid_batches: Any, stop: int = 0, saved: Optional[dict[str, Any]] = None
) -> tuple[Notes, dict[str, Any]]:
    """From the start or from what was saved, to the end or to a stop; with it what a job saves."""
    trained = DistributedDataParallel(model())
    parts = {"model": trained, "optimizer": sgd(trained), "batches": train_batches}
    steps, notes = 0, Notes()
    for name, part in parts.items() if saved else ():
        part.load_state_dict(saved[name])
    for _ in range(saved["epoch"] if saved else 0, EPOCHS):
        notes.trained.append([])
        for batch in train_batches:
            notes.trained[-1].append(numbers(batch["x"]))
            loss = torch.nn.functional.mse_loss(trained(batch["x"]), batch["y"])
            parts["optimizer"].zero_grad()
            loss.backward()
            parts["optimizer"].step()
            steps += 1
            if steps == stop:
                state = {name: part.state_dict() for name, part in parts.items()}
                return notes, {**state, "epoch": len(notes.trained) - 1}
        validate(trained.module, valid_batches, notes)
    notes.weights = weights_of(trained)
    return notes, {}


dist.init_process_group("gloo")
rank = dist.get_rank()
whole, _ = train(batches_of(open_train()), batches_of(open_valid()))
by_torch, _ = train(
    torchs_batches("train", whole.trained), torchs_batches("valid", whole.validated)
)
before, state = train(
    batches_of(open_train(), StatefulDataLoader), batches_of(open_valid()), stop=STOP
)
torch.save(state, f"state-{rank}.pt")
after, _ = train(
    batches_of(open_train(), StatefulDataLoader),
    batches_of(open_valid()),
    saved=torch.load(f"state-{rank}.pt", weights_only=False),
)
tell(rank, whole=whole, by_torch=by_torch, before=before, after=after)
dist.destroy_process_group()
