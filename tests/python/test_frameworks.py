"""Trainers of others take a Loader's epochs whole, and nobody divides the data twice, or leaves
batches out of a run that goes on: Lightning, Keras, Accelerate and Transformers as they are, where
they are installed. What they learn is in test_trainers.py."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(700)  # of a program that starts in half a minute

#: Records of the data, and how many of them are a batch.
RECORDS, BATCH = 60, 6
BATCHES = RECORDS // BATCH
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

_HEAD = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
import torch
import ringfeed, ringfeed.torch
from torch.utils.data import DataLoader

def open_loader(**options):
    parser = ringfeed.jsonl({"id": ("int64", [])})
    return ringfeed.Loader("d.jsonl", parse=parser, batch=6, **options)

def torch_loader(**options):
    return DataLoader(ringfeed.torch.IterableDataset(open_loader(**options)), batch_size=None)

def tell(name, value):
    with open(f"{name}.json", "w") as file:
        json.dump(value, file)
"""

_LIGHTNING = """
import logging
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained, self.validated = [], []
    def on_train_epoch_start(self):
        self.trained.append([])
    def on_validation_epoch_start(self):
        self.validated.append([])
    def training_step(self, batch, index):
        self.trained[-1] += batch["id"].tolist()
        return self.layer(torch.as_tensor(batch["id"].tolist()).float()[:, None]).mean()
    def validation_step(self, batch, index):
        self.validated[-1] += batch["id"].tolist()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-9)

def trainer(**options):
    return lightning.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False,
                             enable_model_summary=False, **options)
"""

_LIGHTNING_EPOCHS = """
model = Model()
trainer(max_epochs=4, enable_checkpointing=False).fit(
    model, MAKE(shuffle="global", seed=3), MAKE())
tell("epochs", [model.trained, model.validated])
"""

_LIGHTNING_RESUMED = """
from torchdata.stateful_dataloader import StatefulDataLoader

options = {} if sys.argv[3] == "known" else {"skip_damaged": True}

class Stop(lightning.Callback):
    def on_train_batch_end(self, trainer, model, outputs, batch, index):
        if trainer.global_step == int(sys.argv[1]):
            trainer.save_checkpoint("c.ckpt")
            trainer.should_stop = True

def batches():
    loader = open_loader(shuffle="global", seed=3, **options)
    if sys.argv[2] == "itself":
        return loader
    return StatefulDataLoader(ringfeed.torch.IterableDataset(loader), batch_size=None)

first, second = Model(), Model()
second.trained.append([])  # no epoch starts where one goes on
trainer(max_epochs=3, callbacks=[Stop()], enable_checkpointing=False).fit(first, batches())
trainer(max_epochs=3, enable_checkpointing=False).fit(second, batches(), ckpt_path="c.ckpt")
tell("resumed", [first.trained, second.trained])
"""

_LIGHTNING_RANKS = """
class Loading(Model):
    def train_dataloader(self):
        return torch_loader(shuffle="global", seed=3, drop_remainder=True)

model = Loading()
ranks = trainer(max_epochs=2, devices=2, strategy="ddp", enable_checkpointing=False)
ranks.fit(model, *([torch_loader()] if sys.argv[1] == "early" else []))
tell(f"rank-{ranks.global_rank}", model.trained)
"""

_KERAS = """
os.environ["KERAS_BACKEND"] = "torch"
import keras

seen = []
def note(batch):
    (ids,) = batch
    seen.append(ids.tolist())
    x = torch.from_dlpack(ids).to(torch.float32)[:, None]
    return x, x

def pairs(**options):
    if sys.argv[1] == "unknown":
        options["skip_damaged"] = True
    loader = open_loader(as_tuple=True, map=note, **options)
    return DataLoader(ringfeed.torch.IterableDataset(loader), batch_size=None)

steps, last = [], []
class Steps(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        steps.append(0)
    def on_train_batch_end(self, batch, logs=None):
        steps[-1] += 1
        if steps[-1] == 10:
            last.append(sorted(id for ids in seen[-10:] for id in ids))

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(pairs(shuffle="global"), epochs=4, verbose=0, callbacks=[Steps()])
counts = []
class Counts(keras.callbacks.Callback):
    def on_test_begin(self, logs=None):
        counts.append(0)
    def on_test_batch_end(self, batch, logs=None):
        counts[-1] += 1
model.fit(pairs(), epochs=3, verbose=0, validation_data=pairs(), callbacks=[Counts()])
tell("keras", [steps, last, counts])
"""

_ACCELERATE = """
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

way, dispatch = sys.argv[1], {"None": None, "True": True, "False": False}[sys.argv[2]]
accelerator = Accelerator(
    cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
options = {"rank": None} if way == "all" else {}
batches = torch_loader(shuffle="global", drop_remainder=True, **options)
if way != "left out":
    batches = accelerator.prepare(batches)
epochs = [[n for batch in batches for n in batch["id"].tolist()] for _ in range(2)]
tell(f"rank-{os.environ['RANK']}", epochs)
torch.distributed.destroy_process_group()
"""

_ACCELERATE_RESUMED = """
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

is_stateful = sys.argv[1] == "stateful"

def open_all():
    configuration = DataLoaderConfiguration(use_stateful_dataloader=is_stateful)
    accelerator = Accelerator(cpu=True, dataloader_config=configuration)
    loader = open_loader(shuffle="global", seed=3)
    dataset = ringfeed.torch.IterableDataset(loader)
    batches = accelerator.prepare(DataLoader(dataset, batch_size=None))
    if not is_stateful:
        accelerator.register_for_checkpointing(loader)
    return accelerator, loader, batches

accelerator, loader, batches = open_all()
first, rest, ended = [], [], []
for batch in batches:
    first += batch["id"].tolist()
    if len(first) == int(sys.argv[2]) * 6:
        accelerator.save_state("saved")
        break
accelerator, loader, batches = open_all()
accelerator.load_state("saved")
for batch in batches:
    rest += batch["id"].tolist()
    ended.append(loader.state_dict()["ended"])
tell("resumed", [first, rest, ended])
"""

_TRANSFORMERS = """
from transformers import Trainer, TrainerCallback, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained = []
    def forward(self, id):
        self.trained += id.tolist()
        return {"loss": self.layer(id.float()[:, None]).mean()}

class Callback(TrainerCallback):
    def __init__(self, loader, stop, resets):
        self.loader, self.stop, self.resets = loader, stop, resets
    def on_epoch_begin(self, args, state, control, **_):
        if self.resets:
            self.loader.reset(int(state.epoch))
    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.stop:
            control.should_save = control.should_training_stop = True

class Fed(Trainer):
    def get_train_dataloader(self):
        return DataLoader(ringfeed.torch.IterableDataset(self.loader), batch_size=None)

def train(loader, checkpoint=None, stop=0, resets=False):
    arguments = TrainingArguments("out", num_train_epochs=2, save_strategy="no", report_to=[],
                                  use_cpu=True, disable_tqdm=True)
    fed = Fed(Model(), arguments, callbacks=[Callback(loader, stop, resets)])
    fed.loader = loader
    fed.train(checkpoint)
    return fed.model.trained

first = open_loader(shuffle="global", seed=3)
before = train(first, stop=STOP)
second = open_loader(shuffle="global", seed=3)
if sys.argv[1] == "state":
    second.load_state_dict(first.state_dict())
after = train(second, "out/checkpoint-STOP", resets=sys.argv[1] == "epoch")
tell("resumed", before + after)
"""

_TRANSFORMERS_COLLATES = """
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments("out", report_to=[], use_cpu=True, disable_tqdm=True)
dataset = ringfeed.torch.IterableDataset(open_loader())
Trainer(torch.nn.Linear(1, 1), arguments, train_dataset=dataset).train()
"""


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: scripts/python --moving installs it")


def _run(folder: Path, program: str, *words: str, ranks: int = 0) -> subprocess.CompletedProcess:
    """A program in `folder`, beside the data; by torchrun if it has ranks."""
    lines = "".join(f'{{"id": {n}}}\n' for n in range(RECORDS))
    (folder / "d.jsonl").write_text(lines)
    (folder / "program.py").write_text(_HEAD + program)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    environment.update(OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="true", CUDA_VISIBLE_DEVICES="")
    return subprocess.run(
        [sys.executable, *(launch if ranks else []), "program.py", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )


def _told(folder: Path, program: str, name: str, *words: str) -> Any:
    done = _run(folder, program, *words)
    assert done.returncode == 0, done.stdout
    return json.loads((folder / f"{name}.json").read_text())


def _told_by_ranks(folder: Path) -> list[Any]:
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def _assert_whole(epochs: list[list[int]]) -> None:
    for epoch in epochs:
        assert sorted(epoch) == list(range(RECORDS))


@pytest.mark.parametrize("make", ["torch_loader", "open_loader"])
def test_lightning_gets_each_epoch_whole_also_after_its_sanity_check(
    tmp_path: Path, make: str
) -> None:
    _need("torch", "lightning")
    program = _LIGHTNING + _LIGHTNING_EPOCHS.replace("MAKE", make)
    trained, validated = _told(tmp_path, program, "epochs")
    assert len(trained) == 4 and len(validated) == 5
    _assert_whole(trained)
    assert len({tuple(epoch) for epoch in trained}) == 4  # a shuffle each
    assert validated[0] == list(range(2 * BATCH))  # the sanity check
    assert validated[1:] == [list(range(RECORDS))] * 4


@pytest.mark.parametrize(
    "stop, loader, length",
    [
        *((stop, "stateful", "known") for stop in (3, BATCHES - 1, BATCHES, BATCHES + 4)),
        *((stop, "stateful", "unknown") for stop in (BATCHES - 1, BATCHES + 4)),
        (BATCHES + 4, "itself", "unknown"),
    ],
)
def test_lightning_goes_on_from_a_checkpoint_within_an_epoch_and_after_one(
    tmp_path: Path, stop: int, loader: str, length: str
) -> None:
    _need("torch", "lightning", "torchdata")
    words = [str(stop), loader, length]
    first, second = _told(tmp_path, _LIGHTNING + _LIGHTNING_RESUMED, "resumed", *words)
    delivered = [n for epoch in first + second for n in epoch]
    assert len(delivered) == 3 * RECORDS
    _assert_whole([delivered[i : i + RECORDS] for i in range(0, 3 * RECORDS, RECORDS)])


def test_lightnings_own_ranks_get_their_parts(tmp_path: Path) -> None:
    _need("torch", "lightning")
    done = _run(tmp_path, _LIGHTNING + _LIGHTNING_RANKS, "in time")
    assert done.returncode == 0, done.stdout
    parts = _told_by_ranks(tmp_path)
    assert [len(epoch) for part in parts for epoch in part] == [RECORDS // 2] * 4
    _assert_whole([sum(epochs, []) for epochs in zip(*parts)])


def test_a_loader_that_was_made_before_lightnings_ranks_is_refused(tmp_path: Path) -> None:
    _need("torch", "lightning")
    done = _run(tmp_path, _LIGHTNING + _LIGHTNING_RANKS, "early")
    assert done.returncode != 0
    assert "train_dataloader()" in done.stdout or "RANK is missing" in done.stdout, done.stdout
    assert not list(tmp_path.glob("rank-*.json"))


@pytest.mark.parametrize("length", ["known", "unknown"])
def test_keras_gets_each_epoch_whole(tmp_path: Path, length: str) -> None:
    _need("torch", "keras")
    steps, last, counts = _told(tmp_path, _KERAS, "keras", length)
    assert steps == [BATCHES] * 4
    _assert_whole(last)
    assert len(last) == 4 and counts == [BATCHES] * 3


@pytest.mark.parametrize("dispatch", ["None", "True", "False"])
def test_accelerate_does_not_divide_what_is_divided(tmp_path: Path, dispatch: str) -> None:
    _need("torch", "accelerate")
    done = _run(tmp_path, _ACCELERATE, "auto", dispatch, ranks=2)
    assert done.returncode != 0
    # Its shards want a batch_size of the DataLoader, and raise a TypeError of their own.
    if dispatch != "False":
        assert "say rank=None to the Loader" in done.stdout, done.stdout
    assert not list(tmp_path.glob("rank-*.json"))


@pytest.mark.parametrize("way, dispatch", [("all", "None"), ("left out", "None")])
def test_accelerate_divides_all_of_the_data_or_nothing(
    tmp_path: Path, way: str, dispatch: str
) -> None:
    _need("torch", "accelerate")
    done = _run(tmp_path, _ACCELERATE, way, dispatch, ranks=2)
    assert done.returncode == 0, done.stdout
    _assert_whole([sum(epochs, []) for epochs in zip(*_told_by_ranks(tmp_path))])


@pytest.mark.parametrize("way", ["registered", "stateful"])
@pytest.mark.parametrize("stop", [1, 3, BATCHES - 1])
def test_a_state_leaves_to_come_what_accelerate_holds_back(
    tmp_path: Path, way: str, stop: int
) -> None:
    _need("torch", "accelerate", "torchdata")
    first, rest, ended = _told(tmp_path, _ACCELERATE_RESUMED, "resumed", way, str(stop))
    assert len(first) == stop * BATCH
    _assert_whole([first + rest])
    assert ended == [False] * (BATCHES - stop - 1) + [True]


@pytest.mark.parametrize(
    "way, remedy",
    [("afresh", "the Trainer goes on in epoch 1"), ("state", "say ignore_data_skip=True")],
)
def test_a_trainer_that_would_leave_other_batches_out_is_refused(
    tmp_path: Path, way: str, remedy: str
) -> None:
    _need("torch", "transformers", "accelerate")
    done = _run(tmp_path, _TRANSFORMERS.replace("STOP", str(BATCHES + 3)), way)
    assert done.returncode != 0
    assert remedy in done.stdout, done.stdout
    assert not (tmp_path / "resumed.json").exists()


@pytest.mark.parametrize("way, stop", [("afresh", 3), ("epoch", BATCHES + 3)])
def test_a_trainer_leaves_out_what_came_before_it_stopped(
    tmp_path: Path, way: str, stop: int
) -> None:
    _need("torch", "transformers", "accelerate")
    program = _TRANSFORMERS.replace("STOP", str(stop))
    delivered = _told(tmp_path, program, "resumed", way)
    assert len(delivered) == 2 * RECORDS
    _assert_whole([delivered[:RECORDS], delivered[RECORDS:]])


def test_a_trainer_that_would_make_batches_of_batches_is_refused(tmp_path: Path) -> None:
    _need("torch", "transformers", "accelerate")
    done = _run(tmp_path, _TRANSFORMERS_COLLATES)
    assert done.returncode != 0 and "get_train_dataloader" in done.stdout, done.stdout
