"""A state does not count batches that a trainer took and its loop has not got yet. Stand-ins of the
trainers' classes: test_frameworks.py and test_trainers.py have the classes themselves."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any, Iterator

import pytest
from loader_data import all_numbers, number_loader, numbers, write_rows

import ringfeed

BATCHES = 15  # of 7 of 100 rows, the last one short


class DataLoaderShard:
    """Accelerate's, of one process."""

    def __init__(self, loader: ringfeed.Loader) -> None:
        self._loader = loader
        self.end_of_dataloader = False

    def __iter__(self) -> Iterator[Any]:
        self.end_of_dataloader = False
        taken = iter(self._loader)
        held = numbers(next(taken))
        for batch in taken:
            yield held
            held = numbers(batch)
        self.end_of_dataloader = True
        yield held


class DataLoaderDispatcher:
    """Accelerate's, which has a batch for each of two processes ready before the loop asks."""

    class state:
        num_processes = 2

    split_batches = False

    def __init__(self, loader: ringfeed.Loader) -> None:
        self._loader = loader
        self.end_of_dataloader = False

    def __iter__(self) -> Iterator[Any]:
        taken = iter(self._loader)
        held = self._take(taken)
        while held:
            step, held = held, self._take(taken)
            self.end_of_dataloader = not held
            yield step

    def _take(self, taken: Iterator[Any]) -> list[int]:
        batches = (next(taken, None) for _ in range(self.state.num_processes))
        return [number for batch in batches if batch is not None for number in numbers(batch)]


@pytest.mark.parametrize("holder", [DataLoaderShard, DataLoaderDispatcher])
@pytest.mark.parametrize("steps", [1, 2, 6, 7, 8, 14, 15])
def test_a_run_goes_on_with_what_was_held_back(tmp_path: Path, holder: Any, steps: int) -> None:
    files = write_rows(tmp_path, 1)
    with number_loader(files, shuffle=True) as loader:
        whole = [all_numbers(loader), all_numbers(loader)]
    with number_loader(files, shuffle=True) as loader:
        got: list[int] = []
        for step, batch in enumerate(holder(loader), 1):
            got += batch
            if step == steps:
                break
        saved = loader.state_dict()
    with number_loader(files, shuffle=True) as loader:
        loader.load_state_dict(saved)
        rest = all_numbers(loader)
    if len(got) < 100:
        assert got + rest == whole[0]
    else:
        assert [got, rest] == whole  # the state after the last batch begins the next epoch


def test_who_takes_the_rest_himself_holds_nothing_back(tmp_path: Path) -> None:
    with number_loader(write_rows(tmp_path, 1)) as loader:
        next(iter(DataLoaderShard(loader)))
        assert numbers(next(loader.rest())) == list(range(14, 21))
        assert loader.state_dict()["position"]["batch"] == 3


def test_a_loader_goes_with_who_read_it(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    shard = DataLoaderShard(loader)
    next(iter(shard))
    kept = weakref.ref(loader)
    del loader, shard
    gc.collect()
    assert kept() is None
