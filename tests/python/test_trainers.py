"""Trainers of others learn from a Loader what they learn from Torch's own DataLoader, of the same
rows in the same order. Each sees a row once an epoch, validates on all rows, and goes on from a
stop in the middle of an epoch as if there had been none.

trainers/ has a program for each. What is shown elsewhere is not shown again: ranks that are killed,
a job of Ray Train that goes on with one worker fewer (test_training.py), epochs that a trainer
leaves early, and Loaders that are refused (test_frameworks.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from trainers.rows import BATCHES, EPOCHS, ROWS, VALID_ROWS, write_rows

PROGRAMS = Path(__file__).parent / "trainers"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
SECONDS = 900  # Ray starts a dozen processes: on a busy machine in minutes
pytestmark = pytest.mark.timeout(SECONDS + 60)


class Job(NamedTuple):
    """A program of trainers/: its words, and who starts its second process."""

    program: str
    packages: tuple[str, ...]
    words: tuple[str, ...] = ()
    ranks: int = 2
    by_torchrun: bool = False


JOBS = {
    "torch": Job("by_torch.py", ("torchdata",), by_torchrun=True),
    "lightning": Job("by_lightning.py", ("lightning", "torchdata"), ("1",), ranks=1),
    "lightning on 2": Job("by_lightning.py", ("lightning", "torchdata"), ("2",)),
    "accelerate": Job("by_accelerate.py", ("accelerate",), ("own",), by_torchrun=True),
    "accelerate divides": Job("by_accelerate.py", ("accelerate",), ("divided",), by_torchrun=True),
    "transformers": Job("by_transformers.py", ("transformers", "accelerate"), by_torchrun=True),
    "keras": Job("by_keras.py", ("keras",), ranks=1),
    "ray": Job("by_ray.py", ("ray", "torchdata")),
}


class Told:
    """What the ranks of a job tell: lists of rows of each batch of each epoch, and what they led to
    (task.Notes), by the name of the training."""

    def __init__(self, folder: Path, ranks: int) -> None:
        texts = [(folder / f"rank-{rank}.json").read_text() for rank in range(ranks)]
        self._ranks = [json.loads(text) for text in texts]

    def of_each_rank(self, training: str, what: str) -> list[Any]:
        return [rank[training][what] for rank in self._ranks]

    def epochs(self, training: str, what: str) -> list[list[int]]:
        """The rows of each epoch over all ranks, sorted."""
        by_epoch = zip(*self.of_each_rank(training, what))
        return [sorted(n for rank in epoch for batch in rank for n in batch) for epoch in by_epoch]


@pytest.fixture(scope="module", params=list(JOBS))
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    job = JOBS[request.param]
    for package in ("torch", *job.packages):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: scripts/python --moving installs it")
    folder = tmp_path_factory.mktemp("job")
    write_rows(folder)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.ranks)]
    command = [*(launch if job.by_torchrun else []), str(PROGRAMS / job.program), *job.words]
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    environment.update(OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="true", CUDA_VISIBLE_DEVICES="")
    program = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = program.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        program.terminate()  # torchrun ends its ranks
        said, _ = program.communicate(timeout=60)
        pytest.fail(f"it did not end: {said}")
    assert program.returncode == 0, said
    return Told(folder, job.ranks)


def test_it_learns_the_same_from_a_loader_and_from_torchs_data_loader(told: Told) -> None:
    ours, theirs = (told.of_each_rank(name, "weights") for name in ("whole", "by_torch"))
    assert ours == theirs and all(weights == ours[0] for weights in ours)
    assert told.of_each_rank("by_torch", "trained") == told.of_each_rank("whole", "trained")
    for losses, expected in zip(*(told.of_each_rank(n, "losses") for n in ("whole", "by_torch"))):
        assert losses == pytest.approx(expected, rel=1e-6) and len(losses) == EPOCHS
        assert losses[1] < losses[0]


def test_each_row_comes_once_an_epoch(told: Told) -> None:
    assert told.epochs("whole", "trained") == [list(range(ROWS))] * EPOCHS
    for epochs in told.of_each_rank("whole", "trained"):
        assert [len(epoch) for epoch in epochs] == [BATCHES] * EPOCHS
        assert epochs[0] != epochs[1]  # a shuffle each


def test_all_rows_are_validated(told: Told) -> None:
    assert told.epochs("whole", "validated") == [list(range(VALID_ROWS))] * EPOCHS


def test_it_goes_on_in_the_middle_of_an_epoch_as_if_it_had_not_stopped(told: Told) -> None:
    names = ("whole", "before", "after")
    for whole, before, after in zip(*(told.of_each_rank(name, "trained") for name in names)):
        assert (len(before), len(after)) == (2, 1)
        assert 0 < len(before[1]) < BATCHES
        assert [before[0], before[1] + after[0]] == whole
    assert told.of_each_rank("after", "weights") == told.of_each_rank("whole", "weights")
    for losses, after in zip(*(told.of_each_rank(n, "losses") for n in ("whole", "after"))):
        assert after[-1] == losses[-1]
