"""A language model on packed rows that two ranks begin and three go on with, after a SIGKILL.

    torchrun --standalone --nproc-per-node 2 text_on_ranks.py FOLDER [KILL_AT]
    torchrun --standalone --nproc-per-node 3 text_on_ranks.py FOLDER

The texts are Python's own: the functions and classes of its library, each a record of byte tokens.
They are packed into rows by best fit, planned from their lengths, so that all ranks have as much
work. The loss of a step is the sum over its tokens, divided by `loader.step_units`: no rank asks
another one how many tokens it has. At the end rank 0 trains the same model alone. Both must end
with the same loss, and `ringfeed audit` proves that no record was lost or came twice.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterable

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ringfeed

FILES = 3
LENGTH = 512
ROWS = 12
EPOCHS = 2
SEED = 7
SAVE_EVERY = 5
MODULES = (argparse, ast, inspect, subprocess)


def texts() -> Iterable[bytes]:
    """Each function and class of some of Python's modules."""
    for module in MODULES:
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield (ast.get_source_segment(source, node) or "").encode()


def write_texts(folder: Path) -> None:
    records = [numpy.frombuffer(text, "uint8").astype("int64") for text in texts() if text]
    for file in range(FILES):
        path = str(folder / f"text-{file}.tfrecord")
        with ringfeed.open_record_writer(path, "tfrecord") as writer:
            for record in records[file::FILES]:
                writer.write(ringfeed.build_example({"tokens": record}))


class ByteModel(torch.nn.Module):
    """The next byte by the two before it, in double precision: ranks add up in another order."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.last = torch.nn.Embedding(256, 256, dtype=torch.float64)
        self.before = torch.nn.Embedding(256, 256, dtype=torch.float64)

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        """The sum of the losses of each byte but the first two of its record."""
        logits = self.last(tokens[:, 1:-1]) + self.before(tokens[:, :-2])
        counts = (segments[:, 2:] > 0) & (segments[:, 2:] == segments[:, :-2])
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), tokens[:, 2:].flatten(), reduction="none"
        )
        return (losses * counts.flatten()).sum()


class Training:
    """The model, and how far it came."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        plain = ByteModel()
        self.model: torch.nn.Module = DistributedDataParallel(plain) if ranks > 1 else plain
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=2.0)
        self.steps = 0
        self.total = torch.zeros((), dtype=torch.float64)

    def step(self, batch: dict[str, Any], step_units: int) -> None:
        loss = self.model(
            torch.from_dlpack(batch["tokens"]), torch.from_dlpack(batch["tokens_segments"])
        )
        loss = loss / step_units
        self.optimizer.zero_grad()
        (loss * self.ranks).backward()  # DistributedDataParallel takes the mean over the ranks
        self.optimizer.step()
        part = loss.detach()
        if self.ranks > 1:
            dist.all_reduce(part)
        self.steps += 1
        self.total += part

    def state_dict(self) -> dict[str, Any]:
        plain = getattr(self.model, "module", self.model)
        return {"model": plain.state_dict(), "steps": self.steps, "total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        getattr(self.model, "module", self.model).load_state_dict(state["model"])
        self.steps, self.total = state["steps"], state["total"]

    @property
    def loss(self) -> float:
        """Mean of all steps, those before a kill too."""
        return float(self.total) / self.steps


def open_loader(folder: Path, rank: Any = "auto") -> ringfeed.Loader:
    return ringfeed.Loader(
        str(folder / "text-*.tfrecord"),
        parse=ringfeed.example({"tokens": ("int64", [-1])}),
        batch=ringfeed.Pack("tokens", LENGTH, ROWS, balance=ringfeed.Balance(LENGTH, 1)),
        shuffle="global",
        seed=SEED,
        note_records=True,
        rank=rank,
    )


def train_on_ranks(folder: Path, kill_at: int) -> Training:
    """Goes on from what is saved in `folder`, by any number of ranks; saves there."""
    training, saved = Training(dist.get_world_size()), folder / "saved.pt"
    rank = ringfeed.find_rank()
    loader = open_loader(folder)
    if saved.exists():
        state = torch.load(saved)
        training.load_state_dict(state["training"])
        loader.load_state_dict(state["loader"])
        print(f"rank {rank.rank} of {rank.world_size} goes on after step {training.steps}")
    for epoch in range(loader.epoch, EPOCHS):
        path = folder / f"epoch-{epoch}.rank-{rank.rank}-of-{rank.world_size}"
        with ringfeed.Journal(path, loader) as journal:
            for batch in loader:
                journal.append()
                training.step(batch, loader.step_units)
                if training.steps == kill_at and rank.rank == rank.world_size - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if training.steps % SAVE_EVERY == 0 and rank.rank == 0:
                    parts = {"training": training.state_dict(), "loader": loader.state_dict()}
                    torch.save(parts, folder / "saved.pt~")
                    os.replace(folder / "saved.pt~", saved)
            journal.end()
    loader.close()
    return training


def train_alone(folder: Path) -> Training:
    training = Training(1)
    with open_loader(folder, rank=None) as loader:
        for _ in range(EPOCHS):
            for batch in loader:
                training.step(batch, loader.step_units)
    return training


def audit(folder: Path) -> None:
    """SystemExit if a record of an epoch was lost or came twice."""
    for epoch in range(EPOCHS):
        journals = sorted(map(str, folder.glob(f"epoch-{epoch}.rank-*")))
        command = [sys.executable, "-m", "ringfeed", "audit", *journals]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"epoch {epoch}: {done.stdout.splitlines()[-1]}", flush=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)


def main() -> None:
    folder = Path(sys.argv[1])
    kill_at = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=1))  # no rank waits for a dead one
    if dist.get_rank() == 0 and not (folder / "text-0.tfrecord").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_texts(folder)
    dist.barrier()
    started = time.perf_counter()
    on_ranks = train_on_ranks(folder, kill_at)
    seconds = time.perf_counter() - started
    dist.barrier()
    if dist.get_rank() == 0:
        audit(folder)
        alone = train_alone(folder)
        print(f"{dist.get_world_size()} ranks: loss {on_ranks.loss:.9f} in {seconds:.1f} s")
        print(f"one process: loss {alone.loss:.9f} after {alone.steps} steps")
        if on_ranks.steps != alone.steps or abs(on_ranks.loss / alone.loss - 1) > 1e-9:
            raise SystemExit("they did not learn the same")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
