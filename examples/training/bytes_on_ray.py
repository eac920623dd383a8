"""The byte model of bytes_on_ranks.py under Ray Train, which loses a machine and goes on with one
worker fewer.

    python bytes_on_ray.py FOLDER [KILL_AT]

Ray is started for real: a cluster of four nodes on this machine, three of them with one worker
each. At step KILL_AT (0: never) the last worker kills its node and itself. Ray Train then starts
the two that are left from the last checkpoint, which has the model and the Loader's state: the
state was saved by three ranks and goes on with two. `ringfeed audit` proves at the end that every
record came once. Then one process trains by Torch's DataLoader in the same order; the losses differ
by the rounding of sums that were taken in other orders.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any, Iterator

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "10")  # of a node that is gone

import ray
import ray.train
import torch
import torch.distributed as dist
from bytes_on_ranks import (
    EPOCHS,
    Training,
    Windows,
    audit,
    open_loader,
    rows_in_order,
    write_tokens,
)
from ray.cluster_utils import Cluster
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader

import ringfeed

WORKERS = 3
BATCH = 24  # the same share for three workers and for two
SAVE_EVERY = 10
STORE_BYTES = 80 * 2**20  # Ray's least, of each node
NEAR = 1e-5  # of the loss


def resume(training: Training, loader: ringfeed.Loader) -> None:
    """From the checkpoint that Ray Train gives to a worker group that it starts again."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder) / "state.pt")
    training.load_state_dict(state["training"])
    loader.load_state_dict(state["loader"])


def save(training: Training, loader: ringfeed.Loader) -> None:
    """All workers report; the first one's state is the checkpoint, of whatever number of ranks."""
    metrics = {"steps": training.steps, "loss": training.loss}
    if dist.get_rank() != 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        state = {"training": training.state_dict(), "loader": loader.state_dict()}
        torch.save(state, Path(folder) / "state.pt")
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def lose_this_machine() -> None:
    """As if its power failed: Ray's daemon of this node is the worker's parent."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def work(config: dict[str, Any]) -> None:
    """What each worker runs, from the start or from a checkpoint."""
    torch.set_num_threads(1)
    folder, rank, ranks = Path(config["folder"]), dist.get_rank(), dist.get_world_size()
    training, loader = Training(), open_loader(folder, BATCH)
    resume(training, loader)
    with open(folder / f"worker-{rank}.log", "a", encoding="utf-8") as log:
        log.write(f"worker {rank} of {ranks} begins behind step {training.steps}\n")
    launch = [uuid.uuid4().hex]  # the journals of one start have one name
    dist.broadcast_object_list(launch)
    for epoch in range(loader.epoch, EPOCHS):
        with ringfeed.Journal(folder / f"epoch-{epoch}.rank-{rank}", loader, launch[0]) as journal:
            for batch in loader:
                journal.append()
                training.step(torch.from_dlpack(batch["tokens"]))
                if training.steps == config["kill_at"] and rank == WORKERS - 1:
                    lose_this_machine()
                if training.steps % SAVE_EVERY == 0:
                    save(training, loader)
            journal.end()
    save(training, loader)
    loader.close()


def start_cluster() -> Cluster:
    """A head that works for nobody, and a node for each worker. One that is gone is missed soon."""
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    options: dict[str, Any] = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
    head = {**options, "num_cpus": 0, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(WORKERS):
        cluster.add_node(num_cpus=1, **options)
    cluster.wait_for_nodes()
    return cluster


def train_by_ray(folder: Path, kill_at: int) -> float:
    """The loss of all steps, of whichever workers."""
    cluster = start_cluster()
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        trainer = TorchTrainer(
            work,
            train_loop_config={"folder": str(folder), "kill_at": kill_at},
            scaling_config=ray.train.ScalingConfig(num_workers=(1, WORKERS)),
            run_config=ray.train.RunConfig(
                storage_path=str(folder / "ray"),
                failure_config=ray.train.FailureConfig(max_failures=3),
                checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
            ),
        )
        metrics = trainer.fit().metrics
        assert metrics is not None
        return float(metrics["loss"])
    finally:
        ray.shutdown()
        cluster.shutdown()


def train_by_torch(folder: Path) -> float:
    """The same order in one process."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    training, windows = Training(), Windows(folder / "text.bin")
    for epoch in range(EPOCHS):
        order: Iterator[list[int]] = rows_in_order(folder / "text.bin", epoch, BATCH)
        for batch in DataLoader(windows, batch_sampler=list(order)):
            training.step(batch)
    dist.destroy_process_group()
    return training.loss


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    kill_at = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Ray's processes go with this one
    if folder.exists():
        raise SystemExit(f"{folder} is there already: each run has a folder of its own")
    folder.mkdir(parents=True)
    write_tokens(folder)
    ours = train_by_ray(folder, kill_at)
    for log in sorted(folder.glob("worker-*.log")):
        print(log.read_text(encoding="utf-8"), end="")
    audit(folder)
    theirs = train_by_torch(folder)
    print(f"ringfeed, Ray Train:             loss {ours:.9f}")
    print(f"Torch's DataLoader, one process: loss {theirs:.9f}")
    if abs(ours - theirs) > NEAR * theirs:
        raise SystemExit("they did not learn the same")


if __name__ == "__main__":
    main()
