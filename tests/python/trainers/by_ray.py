"""Ray Train with two workers, their DataLoaders prepared by it. A worker fails in the middle of the
second epoch, and Ray starts both again from the last checkpoint."""

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from rows import EPOCHS
from task import (
    STOP, Notes, batches_of, model, numbers, open_train, open_valid, sgd, tell, torchs_batches,
    weights_of,
)  # fmt: skip
from torchdata.stateful_dataloader import StatefulDataLoader

RANKS = 2
STORE_BYTES = 80 * 2**20  # Ray's least


class Training:
    def __init__(self, batches: Any, valid: Any) -> None:
        self.batches, prepare = batches, ray.train.torch.prepare_data_loader
        # Prepared: batches come to the worker's device, and no sampler is added.
        self.prepared, self.valid = (prepare(b, add_dist_sampler=False) for b in (batches, valid))
        self.model = ray.train.torch.prepare_model(model())
        self.optimizer = sgd(self.model)
        self.notes = Notes()
        self.epoch = 0

    def save(self) -> None:
        """Into a checkpoint, which has the files of both workers."""
        rank = dist.get_rank()
        with tempfile.TemporaryDirectory() as folder:
            parts = {"model": self.model, "optimizer": self.optimizer, "batches": self.batches}
            state = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**state, "epoch": self.epoch}, Path(folder) / f"state-{rank}.pt")
            ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder))

    def load(self, checkpoint: Any) -> None:
        with checkpoint.as_directory() as folder:
            path = Path(folder) / f"state-{dist.get_rank()}.pt"
            state = torch.load(path, weights_only=False)
        self.epoch = state["epoch"]
        for part in ("model", "optimizer", "batches"):
            getattr(self, part).load_state_dict(state[part])

    def run(self, stop: int = 0) -> Notes:
        steps = 0
        for self.epoch in range(self.epoch, EPOCHS):
            self.notes.trained.append([])
            for batch in self.prepared:
                self.notes.trained[-1].append(numbers(batch["x"]))
                loss = torch.nn.functional.mse_loss(self.model(batch["x"]), batch["y"])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                steps += 1
                if steps == stop:
                    self.save()
                    return self.notes
            self.validate()
        self.notes.weights = weights_of(self.model)
        return self.notes

    def validate(self) -> None:
        """A rank without rows in the last batch adds nothing."""
        seen, total = [], torch.zeros(2, dtype=torch.float64)
        with torch.no_grad():
            for batch in self.valid:
                seen.append(numbers(batch["x"]))
                errors = self.model.module(batch["x"]) - batch["y"]
                total += torch.tensor([errors.double().square().sum(), len(errors)])
        dist.all_reduce(total)
        self.notes.validated.append(seen)
        self.notes.losses.append(float(total[0] / total[1]))


def ours() -> Training:
    return Training(batches_of(open_train(), StatefulDataLoader), batches_of(open_valid()))


def work(config: dict[str, str]) -> None:
    os.chdir(config["folder"])
    torch.set_num_threads(1)
    rank, checkpoint = dist.get_rank(), ray.train.get_checkpoint()
    kept = Path(f"notes-{rank}.pt")  # of the first start
    if checkpoint is None:
        whole = ours().run()
        by_torch = Training(
            torchs_batches("train", whole.trained), torchs_batches("valid", whole.validated)
        ).run()
        before = ours().run(stop=STOP)
        torch.save({"whole": whole, "by_torch": by_torch, "before": before}, kept)
        ray.train.report({})  # waits until Ray has the report before it, and so the checkpoint
        if rank == 0:
            raise RuntimeError("this worker is lost")
        dist.barrier()  # until Ray ends it
    training = ours()
    training.load(checkpoint)
    tell(rank, **torch.load(kept, weights_only=False), after=training.run())


if __name__ == "__main__":
    ray.init(
        num_cpus=RANKS, object_store_memory=STORE_BYTES, include_dashboard=False,
        log_to_driver=False,
    )  # fmt: skip
    folder = str(Path.cwd())
    ray.train.torch.TorchTrainer(
        work,
        train_loop_config={"folder": folder},
        scaling_config=ray.train.ScalingConfig(num_workers=RANKS),
        run_config=ray.train.RunConfig(
            storage_path=f"{folder}/ray", failure_config=ray.train.FailureConfig(max_failures=1)
        ),
    ).fit()
    ray.shutdown()
