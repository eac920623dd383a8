"""A byte model on ranks of torchrun that goes on after a SIGKILL, with a proof that no record was
lost or came twice.

    torchrun --standalone --nproc-per-node 2 bytes_on_ranks.py FOLDER [KILL_AT]

The text is Python's own: sources of its library, cut into windows of 64 bytes and the one to be
predicted. Rank 0 saves the model and the Loader's state every few steps. With KILL_AT the last rank
kills itself at that step, and the job ends; started again without it, the job goes on from what was
saved. Each rank notes its batches in a journal, which `ringfeed audit` reads at the end. Then the
same model is trained by Torch's DataLoader in the same order. Both must end with the same loss.
"""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterable, Iterator

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import ringfeed

TEXT_BYTES = 120_000
WINDOW = 65
FORMAT = f"tokens:u2,block={WINDOW},tail=drop"
BATCH = 32
EPOCHS = 2
SEED = 7
SAVE_EVERY = 10


def write_tokens(folder: Path) -> None:
    """Each byte of some of Python's modules as a token, as nanoGPT's files have them."""
    modules = [ast, argparse, subprocess]
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)[:TEXT_BYTES]
    (folder / "text.bin~").write_bytes(numpy.frombuffer(text, "uint8").astype("<u2").tobytes())
    os.replace(folder / "text.bin~", folder / "text.bin")


class ByteModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.vectors = torch.nn.Embedding(256, 32)
        self.memory = torch.nn.GRU(32, 64, batch_first=True)
        self.next_byte = torch.nn.Linear(64, 256)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """The loss of each byte but the first, by those before it."""
        seen, _ = self.memory(self.vectors(windows[:, :-1]))
        logits = self.next_byte(seen)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


class Training:
    """The model, and how far it came. `total` is the same on all ranks: gloo adds them up."""

    def __init__(self) -> None:
        self.model = DistributedDataParallel(ByteModel())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.steps = 0
        self.total = torch.zeros((), dtype=torch.float64)
        self.seconds = 0.0
        self.timed_steps = 0

    def step(self, windows: torch.Tensor) -> None:
        started = time.perf_counter()
        loss = self.model(windows)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        mean = loss.detach().double() / dist.get_world_size()
        dist.all_reduce(mean)
        self.steps += 1
        self.total += mean
        self.seconds += time.perf_counter() - started
        self.timed_steps += 1

    def state_dict(self) -> dict[str, Any]:
        parts = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {**parts, "steps": self.steps, "total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps, self.total = state["steps"], state["total"]

    @property
    def loss(self) -> float:
        """Mean of all steps, those before a kill too."""
        return float(self.total) / self.steps


def open_loader(folder: Path, batch: int) -> ringfeed.Loader:
    """This rank's part of batches of `batch` windows; the launcher says which rank this is."""
    return ringfeed.Loader(
        folder / "text.bin",
        format=FORMAT,
        parse=ringfeed.tokens("uint16", [WINDOW], convert="int64"),
        batch=batch,
        shuffle="global",
        seed=SEED,
        drop_remainder=True,
        note_records=True,
    )


def train_by_ringfeed(folder: Path, kill_at: int) -> tuple[Training, float]:
    """Goes on from what is saved in `folder`; saves there. With it the rate of windows."""
    training, saved = Training(), folder / "saved.pt"
    rank = ringfeed.find_rank()
    loader = open_loader(folder, BATCH)
    if saved.exists():
        state = torch.load(saved)
        training.load_state_dict(state["training"])
        loader.load_state_dict(state["loader"])
        print(f"rank {rank.rank} goes on behind step {training.steps}", flush=True)
    started = time.perf_counter()
    for epoch in range(loader.epoch, EPOCHS):
        with ringfeed.Journal(folder / f"epoch-{epoch}.rank-{rank.rank}", loader) as journal:
            for batch in loader:
                journal.append()
                training.step(torch.from_dlpack(batch["tokens"]))
                if training.steps == kill_at and rank.rank == rank.world_size - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if training.steps % SAVE_EVERY == 0 and rank.rank == 0:
                    parts = {"training": training.state_dict(), "loader": loader.state_dict()}
                    torch.save(parts, folder / "saved.pt~")
                    os.replace(folder / "saved.pt~", saved)
            journal.end()
    loader.close()
    return training, training.timed_steps * BATCH / (time.perf_counter() - started)


class Windows(Dataset[torch.Tensor]):
    """The same windows as a map-style data set."""

    def __init__(self, path: Path) -> None:
        tokens = numpy.memmap(path, "<u2", "r")
        self._windows = tokens[: len(tokens) // WINDOW * WINDOW].reshape(-1, WINDOW)

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.from_numpy(self._windows[number].astype("int64"))


def rows_in_order(path: Path, epoch: int, batch: int = BATCH) -> Iterator[list[int]]:
    """The numbers of each whole batch's windows: what the chain says of where it comes from."""
    windows = ringfeed.open_files(path, format=FORMAT, note_records=True, first_epoch=epoch)
    shuffled = ringfeed.shuffle(windows, "global", seed=SEED)
    batches = ringfeed.batch(shuffled, batch, drop_remainder=True)
    for _ in batches:
        origin = batches.origin()
        assert origin is not None
        ranges = [range(first, first + count) for _, first, count in origin["records"]]
        yield [number for numbers in ranges for number in numbers]


def train_by_torch(folder: Path) -> tuple[Training, float]:
    training, windows = Training(), Windows(folder / "text.bin")
    own = BATCH // dist.get_world_size()
    mine = slice(dist.get_rank() * own, (dist.get_rank() + 1) * own)
    orders = [list(rows_in_order(folder / "text.bin", epoch)) for epoch in range(EPOCHS)]
    started = time.perf_counter()
    for order in orders:
        batches: Iterable[torch.Tensor] = DataLoader(
            windows, batch_sampler=[numbers[mine] for numbers in order]
        )
        for batch in batches:
            training.step(batch)
    return training, training.timed_steps * BATCH / (time.perf_counter() - started)


def audit(folder: Path) -> None:
    """SystemExit where a record of an epoch was lost or came twice."""
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
    if dist.get_rank() == 0 and not (folder / "text.bin").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_tokens(folder)
    dist.barrier()
    ours, our_rate = train_by_ringfeed(folder, kill_at)
    dist.barrier()
    theirs, their_rate = train_by_torch(folder)
    if dist.get_rank() == 0:
        audit(folder)
        print(f"ringfeed:           loss {ours.loss:.12f}, {our_rate:,.0f} windows a second")
        print(f"Torch's DataLoader: loss {theirs.loss:.12f}, {their_rate:,.0f} windows a second")
    dist.destroy_process_group()
    if ours.loss != theirs.loss:
        raise SystemExit("they did not learn the same")


if __name__ == "__main__":
    main()
