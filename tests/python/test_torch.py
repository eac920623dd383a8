"""Torch gets batches as tensors of the same memory, through both of its data loaders."""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loader_data import number_loader, open_sequences, write_rows, write_sequences

import ringfeed

torch = pytest.importorskip("torch", reason="Torch is not installed")
feed: Any = importlib.import_module("ringfeed.torch")
DataLoader = torch.utils.data.DataLoader

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def _lists(batches: Any) -> list[list[int]]:
    return [batch["x"].tolist() for batch in batches]


def _sequences(folder: Path, ragged: str) -> Any:
    path = write_sequences(folder / "a.jsonl", [[1, 2, 3], [], [4], [5, 6]])
    chain = ringfeed.batch(open_sequences(path), 4)
    return feed.IterableDataset(ringfeed.Loader.from_reader(chain), ragged)


def test_a_tensor_shares_the_batchs_memory(tmp_path: Path) -> None:
    batch = next(number_loader(write_rows(tmp_path, 1)))
    tensor = feed.tensors(batch)["x"]
    assert tensor.dtype == torch.int64
    assert tensor.data_ptr() == batch["x"].__array_interface__["data"][0]
    tensor[0] = 77
    assert batch["x"].tobytes()[:8] == (77).to_bytes(8, "little")


def test_a_tensor_keeps_the_memory_that_a_closed_loader_gave(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    tensor = feed.tensors(next(loader))["x"]
    loader.close()
    del loader
    assert tensor.tolist() == list(range(7))


def test_tuples_stay_tuples_and_other_things_themselves(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1)
    (tensor,) = next(iter(feed.IterableDataset(number_loader(files, as_tuple=True))))
    assert tensor.tolist() == list(range(7))
    mapped = number_loader(files, map=lambda batch: {**batch, "name": "a"})
    assert next(iter(feed.IterableDataset(mapped)))["name"] == "a"


def test_a_data_loader_gives_each_epoch_all_batches(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = DataLoader(feed.IterableDataset(number_loader(files, shuffle=True)), batch_size=None)
    assert len(loader) == 43
    first, second = _lists(loader), _lists(loader)
    assert first != second
    for epoch in (first, second):
        assert sorted(sum(epoch, [])) == list(range(300))


def test_a_data_set_without_a_length_has_no_such_method(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    known = feed.IterableDataset(number_loader(files))
    unknown = feed.IterableDataset(number_loader(files, skip_damaged=True))
    assert hasattr(known, "__len__") and len(DataLoader(known, batch_size=None)) == 43
    assert not hasattr(unknown, "__len__")
    with pytest.raises(TypeError, match="no length: damaged records are passed over"):
        len(DataLoader(unknown, batch_size=None))


def test_ragged_fields_are_values_and_offsets(tmp_path: Path) -> None:
    values, offsets = next(iter(_sequences(tmp_path, "offsets")))["t"]
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    assert (offsets.tolist(), offsets.dtype) == ([0, 3, 3, 4, 6], torch.int64)


def test_ragged_fields_are_nested_where_asked_for(tmp_path: Path) -> None:
    nested = next(iter(_sequences(tmp_path, "nested")))["t"]
    assert nested.is_nested
    assert [row.tolist() for row in nested.unbind()] == [[1, 2, 3], [], [4], [5, 6]]


class _Stream:
    def __init__(self, cuda_stream: int) -> None:
        self.cuda_stream = cuda_stream


class _OnDevice:
    def __init__(self) -> None:
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)  # kDLCUDA

    def on(self, stream: int) -> None:
        self.streams.append(stream)


def test_what_is_in_host_memory_is_recorded_for_no_stream(tmp_path: Path) -> None:
    batch = next(number_loader(write_rows(tmp_path, 1)))
    feed.record_stream([batch, feed.tensors(batch), "a name"], _Stream(0))


def test_a_stream_is_recorded_for_each_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "Array", _OnDevice)
    arrays = (_OnDevice(), _OnDevice())
    for stream in (0, 4096):
        feed.record_stream({"x": arrays[0], "y": [arrays[1]]}, _Stream(stream))
    assert [array.streams for array in arrays] == [[1, 4096]] * 2


def test_a_tensor_and_its_views_know_their_array(monkeypatch: pytest.MonkeyPatch) -> None:
    array = _OnDevice()
    monkeypatch.setattr(torch, "from_dlpack", lambda _: torch.zeros(4))
    tensor = feed._tensor(array)
    assert feed._array_of(tensor) is array
    assert feed._array_of(tensor[1:].view(3, 1)) is array
    with pytest.raises(ValueError, match="own record_stream"):
        feed._array_of(torch.zeros(4))


def test_another_word_for_ragged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'padded'"):
        feed.IterableDataset(number_loader(write_rows(tmp_path, 1)), "padded")


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes_are_refused_with_the_remedy(tmp_path: Path, start: str) -> None:
    dataset = feed.IterableDataset(number_loader(write_rows(tmp_path, 1)))
    workers = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context=start)
    with pytest.raises(RuntimeError, match="num_workers=0"):
        next(iter(workers))
    assert next(iter(dataset))["x"].tolist() == list(range(7))


@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"batch_size": 1, "drop_last": True}])
def test_batches_of_batches_are_refused_with_the_remedy(tmp_path: Path, options: Any) -> None:
    dataset = feed.IterableDataset(number_loader(write_rows(tmp_path, 1)))
    with pytest.raises(ValueError, match="batch_size=None"):
        next(iter(DataLoader(dataset, **options)))
    assert next(iter(DataLoader(dataset, batch_size=None)))["x"].tolist() == list(range(7))


def test_batches_of_batches_are_refused_behind_other_data_sets(tmp_path: Path) -> None:
    class Own(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __iter__(self) -> Any:
            yield from self.inner

    chain = torch.utils.data.ChainDataset
    for wrap in (lambda each: chain([each]), Own, lambda each: chain([Own(chain([each]))])):
        dataset = wrap(feed.IterableDataset(number_loader(write_rows(tmp_path, 1))))
        with pytest.raises(ValueError, match="batch_size=None"):
            next(iter(DataLoader(dataset, batch_size=16)))
        assert next(iter(DataLoader(dataset, batch_size=None)))["x"].tolist() == list(range(7))
        assert next(iter(dataset))["x"].shape == (7,)


@pytest.mark.parametrize("options", [{}, {"batch_size": None}, {"batch_size": 4}])
def test_a_loader_that_is_given_as_a_data_set_says_what_is(tmp_path: Path, options: Any) -> None:
    loader = number_loader(write_rows(tmp_path, 1))
    with pytest.raises(TypeError, match=r"ringfeed.torch.IterableDataset\(loader\)"):
        next(iter(DataLoader(loader, **options)))


def test_a_function_of_the_users_may_take_a_list_of_batches(tmp_path: Path) -> None:
    dataset = feed.IterableDataset(number_loader(write_rows(tmp_path, 1)))
    pairs = DataLoader(dataset, batch_size=2, collate_fn=lambda batches: batches)
    assert [batch["x"][0].item() for batch in next(iter(pairs))] == [0, 7]


def _stateful(files: str) -> Any:
    module = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )
    dataset = feed.IterableDataset(number_loader(files, shuffle=True))
    return module.StatefulDataLoader(dataset, batch_size=None)


@pytest.mark.parametrize("taken", [1, 20, 42])
def test_a_stateful_data_loader_goes_on_with_the_next_batch(tmp_path: Path, taken: int) -> None:
    files = write_rows(tmp_path)
    loader = _stateful(files)
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = _lists(iterator)
    assert len(rest) == 43 - taken
    other = _stateful(files)
    other.load_state_dict(state)
    assert _lists(other) == rest
    assert _lists(other) == _lists(loader)


def test_data_loaders_that_look_for_no_more_get_each_epoch_whole(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    whole = DataLoader(feed.IterableDataset(number_loader(files, shuffle=True)), batch_size=None)
    expected = [_lists(whole) for _ in range(4)]
    dataset = feed.IterableDataset(number_loader(files, shuffle=True))
    loader = DataLoader(dataset, batch_size=None)
    for epoch in range(2):
        assert _lists(itertools.islice(loader, len(loader))) == expected[epoch]
    assert _lists(itertools.islice(loader, 2)) == expected[2][:2]
    assert _lists(dataset.rest()) == expected[2][2:]
    assert _lists(loader) == expected[3]


@pytest.mark.parametrize("looks_for_more", [False, True])
def test_a_stateful_data_loader_at_the_end_goes_on_with_the_next_epoch(
    tmp_path: Path, looks_for_more: bool
) -> None:
    files = write_rows(tmp_path)
    loader = _stateful(files)
    whole = DataLoader(feed.IterableDataset(number_loader(files, shuffle=True)), batch_size=None)
    first, second, third = (_lists(whole) for _ in range(3))
    iterator = iter(loader)
    assert _lists(itertools.islice(iterator, 43)) == first
    if looks_for_more:
        assert next(iterator, None) is None
    state = json.loads(json.dumps(loader.state_dict()))
    other = _stateful(files)
    other.load_state_dict(state)
    assert _lists(other) == second
    assert _lists(other) == third


_RANK = """
import sys, torch.distributed, ringfeed.torch
before = ringfeed.torch.find_rank()
torch.distributed.init_process_group(
    "gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
print(before[:2], ringfeed.torch.find_rank()[:2])
torch.distributed.destroy_process_group()
"""


def test_the_rank_is_that_of_an_initialised_process_group(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RANK, str(tmp_path / "meet")]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[0].strip() for rank in ranks]
    assert said == ["(0, 1) (0, 2)", "(0, 1) (1, 2)"]


_MESH = """
import sys, torch.distributed, ringfeed.torch
from torch.distributed.device_mesh import init_device_mesh
torch.distributed.init_process_group(
    "gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
found = ringfeed.torch.rank_of(mesh["dp"])
print((*found[:2], found.replica, found.replicas))
try:
    ringfeed.torch.rank_of(mesh)
except ValueError as refused:
    print(refused)
torch.distributed.destroy_process_group()
"""


def test_the_rank_in_a_device_mesh_is_that_of_its_data(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _MESH, str(tmp_path / "meet")]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(4)
    ]
    said = [rank.communicate(timeout=120)[0].splitlines() for rank in ranks]
    places = ["(0, 2, 0, 2)", "(0, 2, 1, 2)", "(1, 2, 0, 2)", "(1, 2, 1, 2)"]
    assert [lines[0] for lines in said] == places
    assert all(lines[1].startswith("a mesh of 2 dimensions") for lines in said)
