"""A DataLoader that would make batches of batches is told so; also where Torch is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loader_data import write_rows

from ringfeed.collation import refuse_collation


def collate(batches: Any) -> Any:
    """Stands for Torch's own function."""
    return batches


class Fetcher:
    """What Torch's fetchers have."""

    def __init__(self, auto_collation: Any, collate_fn: Any) -> None:
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn


def test_a_data_loader_of_batches_of_batches_is_refused() -> None:
    with pytest.raises(ValueError, match=r"DataLoader\(dataset, batch_size=None\).*batch="):
        refuse_collation(Fetcher(True, collate), collate)


class DataCollator:
    """One of Transformers', which stacks what it gets."""

    __module__ = "transformers.data.data_collator"


class Wrapped:
    """What a Trainer puts around a collator."""

    data_collator = DataCollator()


@pytest.mark.parametrize("collator", [DataCollator(), Wrapped()])
def test_a_collator_of_transformers_is_refused(collator: Any) -> None:
    with pytest.raises(ValueError, match="get_train_dataloader"):
        refuse_collation(Fetcher(True, collator), collate)


@pytest.mark.parametrize(
    "caller, default",
    [
        (Fetcher(False, collate), collate),
        (Fetcher(True, lambda batches: batches[0]), collate),
        (Fetcher(True, None), None),
        (Fetcher("yes", collate), collate),
        (None, collate),
        (object(), collate),
    ],
)
def test_everybody_else_may_iterate(caller: Any, default: Any) -> None:
    refuse_collation(caller, default)


# As much of Torch as ringfeed.torch imports, and a fetcher that begins as Torch's does.
_STAND_IN = """
import sys, types
for name in "torch torch.distributed torch.utils torch.utils.data torch.utils.dlpack".split():
    module = sys.modules[name] = types.ModuleType(name)
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
import torch
torch.Tensor = object
data = torch.utils.data
data.IterableDataset, data.get_worker_info, data.default_collate = object, lambda: None, list
torch.utils.dlpack.from_dlpack = lambda capsule: capsule

class Fetcher:
    def __init__(self, dataset, auto_collation, collate_fn):
        self.auto_collation, self.collate_fn = auto_collation, collate_fn
        self.dataset_iter = iter(dataset)

import ringfeed, ringfeed.torch
parser = ringfeed.rows({"x": ("int64", [])})
loader = ringfeed.Loader(sys.argv[1], format="rows:8", parse=parser, batch=7)
dataset = ringfeed.torch.IterableDataset(loader)
for arguments in [(False, list), (True, tuple)]:
    next(Fetcher(dataset, *arguments).dataset_iter)
next(iter(dataset))
try:
    Fetcher(dataset, True, list)
except ValueError as error:
    print(error)
"""


def test_the_data_set_sees_who_iterates_over_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STAND_IN, write_rows(tmp_path, 1)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "batch_size=None" in done.stdout, done.stderr
