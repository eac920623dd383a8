"""Accelerate on ranks of torchrun, in both ways of docs/PYTHON.md: by_accelerate.py own|divided

own: each rank's Loader has its part, and stays out of prepare(). divided: rank=None, and Accelerate
hands a batch to each process, so batch= is the rows of one.
"""

import sys
from typing import Any, Optional

import torch
from accelerate import Accelerator
from rows import BATCH, EPOCHS
from task import (
    STOP, Notes, batches_of, model, numbers, open_train, open_valid, sgd, tell, torchs_batches,
    weights_of,
)  # fmt: skip

is_divided = sys.argv[1] == "divided"


class Place:
    """How far a training came: of a checkpoint, beside the Loader."""

    def __init__(self) -> None:
        self.epoch = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch = state["epoch"]


class Training:
    def __init__(self, by_torch: Optional[Notes] = None) -> None:
        self.accelerator = Accelerator(cpu=True)
        self.notes = Notes()
        trained = model()
        self.model, self.optimizer = self.accelerator.prepare(trained, sgd(trained))
        self.place = Place()
        self.repeats_rows = is_divided and by_torch is None
        if by_torch is not None:
            self.batches = torchs_batches("train", by_torch.trained)
            self.valid = torchs_batches("valid", by_torch.validated)
            return
        batch = BATCH // self.accelerator.num_processes
        options: dict[str, Any] = {"rank": None, "batch": batch} if is_divided else {}
        loader = open_train(**options)
        self.batches, self.valid = batches_of(loader), batches_of(open_valid(**options))
        if is_divided:
            self.batches, self.valid = self.accelerator.prepare(self.batches, self.valid)
        self.accelerator.register_for_checkpointing(self.place, loader)

    def run(self, stop: int = 0, goes_on: bool = False) -> Notes:
        if goes_on:
            self.accelerator.load_state("stopped")
        steps = 0
        for _ in range(self.place.epoch, EPOCHS):
            self.notes.trained.append([])
            for batch in self.batches:
                self.notes.trained[-1].append(numbers(batch["x"]))
                loss = torch.nn.functional.mse_loss(self.model(batch["x"]), batch["y"])
                self.optimizer.zero_grad()
                self.accelerator.backward(loss)
                self.optimizer.step()
                steps += 1
                if steps == stop:
                    self.accelerator.save_state("stopped")
                    return self.notes
            self.validate()
            self.place.epoch += 1
        self.notes.weights = weights_of(self.model)
        return self.notes

    def validate(self) -> None:
        """A rank without rows in the last batch adds nothing."""
        seen: list[list[int]] = []
        total = torch.zeros(2, dtype=torch.float64)
        inner = self.accelerator.unwrap_model(self.model)
        for batch in self.valid:
            with torch.no_grad():
                errors, x = inner(batch["x"]) - batch["y"], batch["x"]
            if self.repeats_rows:  # to fill the last batch; they are taken out here
                errors, x = self.accelerator.gather_for_metrics((errors, x))
                if not self.accelerator.is_main_process:
                    continue
            seen.append(numbers(x))
            total += torch.tensor([errors.double().square().sum(), len(errors)])
        total = self.accelerator.reduce(total)
        self.notes.validated.append(seen)
        self.notes.losses.append(float(total[0] / total[1]))


whole = Training().run()
by_torch = Training(by_torch=whole).run()
before = Training().run(stop=STOP)
after = Training().run(goes_on=True)
tell(Accelerator().process_index, whole=whole, by_torch=by_torch, before=before, after=after)
torch.distributed.destroy_process_group()
