"""Which rank a Loader takes, and that all ranks make the same steps of what is theirs."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from loader_data import number_loader, numbers, open_sequences, tfrecord, write_rows
from loader_data import write_sequences

import ringfeed
from ringfeed import ranks

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE")
_VARIABLES += ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JOB_COMPLETION_INDEX")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets a launcher's variables, these and no others."""

    def launch(**variables: Any) -> None:
        for name in _VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    launch()
    return launch


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Plays that torch.distributed has started so many processes."""

    def start(rank: int, world_size: int) -> None:
        played = types.ModuleType("torch.distributed")
        played.is_available = played.is_initialized = lambda: True  # type: ignore[attr-defined]
        played.get_rank = lambda: rank  # type: ignore[attr-defined]
        played.get_world_size = lambda: world_size  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch.distributed", played)

    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    return start


def test_a_rank_and_their_number_are_enough(tmp_path: Path, launched: Any, group: Any) -> None:
    files = write_rows(tmp_path, 1)
    launched(RANK=1, WORLD_SIZE=2)
    assert ringfeed.find_rank() == ringfeed.Rank(1, 2, -1, 0, "torchrun")
    assert numbers(next(number_loader(files, 10))) == [5, 6, 7, 8, 9]
    launched(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, LOCAL_SIZE=2)  # DeepSpeed's
    assert ringfeed.find_rank() == ringfeed.Rank(1, 2, 1, 2, "torchrun")
    launched(LOCAL_RANK=1, WORLD_SIZE=2)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="RANK is missing"):
        number_loader(files, 10)


def test_torchs_process_group_goes_before_the_environment(
    tmp_path: Path, launched: Any, group: Any
) -> None:
    files = write_rows(tmp_path, 1)
    group(1, 2)
    assert number_loader(files, 10).rank[:2] == (1, 2)
    launched(LOCAL_RANK=1, WORLD_SIZE=2)  # refused where it is asked
    assert ranks.own_rank() == ringfeed.Rank(1, 2, -1, 0, "torch.distributed")
    launched(RANK=3, WORLD_SIZE=4, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2)
    assert ranks.own_rank().source == "torch.distributed"
    launched(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2)
    assert ranks.own_rank() == ringfeed.Rank(1, 2, 1, 2, "torchrun")


def test_a_loader_that_found_itself_alone_too_early_is_refused(
    tmp_path: Path, launched: Any, group: Any
) -> None:
    files = write_rows(tmp_path, 1)
    early, everything = number_loader(files), number_loader(files, rank=None)
    group(0, 2)
    with pytest.raises(ringfeed.errors.InvalidArgument, match=r"made before .* rank=None"):
        iter(early)
    assert sum(1 for _ in everything) == 15
    group(0, 1)
    assert sum(1 for _ in early) == 15


def test_ranks_of_a_parallel_group_get_the_same_data(tmp_path: Path, launched: Any) -> None:
    files = write_rows(tmp_path)
    got = []
    for rank in range(8):
        launched(RANK=rank, WORLD_SIZE=8, LOCAL_RANK=rank % 4, LOCAL_WORLD_SIZE=4)
        of_data = ringfeed.data_rank(tensor=2, pipeline=2)
        assert of_data[1:] == (2, rank % 4, 4, "torchrun", rank % 2 + rank // 4 * 2, 4)
        loader = number_loader(files, 10, shuffle="global", seed=3, rank=of_data)
        got.append([numbers(batch) for batch in loader])
    assert got[0] == got[1] == got[4] == got[5]
    assert got[2] == got[3] == got[6] == got[7]
    launched()
    whole = [numbers(batch) for batch in number_loader(files, 10, shuffle="global", seed=3)]
    assert [first + second for first, second in zip(got[0], got[2])] == whole


def test_groups_that_do_not_divide_the_ranks_are_refused(launched: Any) -> None:
    launched(RANK=1, WORLD_SIZE=6)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="do not divide the 6 ranks"):
        ringfeed.data_rank(tensor=4)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="tp, cp, dp and pp once"):
        ringfeed.data_rank(tensor=2, order="dp-tensor")
    assert ringfeed.data_rank(tensor=2, rank=ringfeed.Rank(3, 4))[:2] == (1, 2)


def _play_jax(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int, begun: bool) -> None:
    played = types.ModuleType("jax")
    distributed = types.SimpleNamespace(is_initialized=lambda: begun)
    played.distributed = distributed  # type: ignore[attr-defined]
    played.process_index = lambda: rank  # type: ignore[attr-defined]
    played.process_count = lambda: world_size  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", played)


def test_jaxs_processes_go_before_the_environment(
    tmp_path: Path, launched: Any, group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_rows(tmp_path, 1)
    _play_jax(monkeypatch, 1, 2, begun=False)
    early = number_loader(files)
    assert early.rank == ringfeed.Rank()
    _play_jax(monkeypatch, 1, 2, begun=True)
    assert ranks.own_rank() == ringfeed.Rank(1, 2, -1, 0, "jax.distributed")
    assert numbers(next(number_loader(files, 10))) == [5, 6, 7, 8, 9]
    with pytest.raises(ringfeed.errors.InvalidArgument, match="before jax.distributed started"):
        iter(early)
    launched(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2)
    assert ranks.own_rank() == ringfeed.Rank(1, 2, 1, 2, "torchrun")
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))  # it is being imported
    assert ranks.own_rank().source == "torchrun"


def test_jaxs_variables_and_kubernetess_are_enough(tmp_path: Path, launched: Any) -> None:
    launched(JAX_PROCESS_ID=1, JAX_NUM_PROCESSES=2)
    assert ringfeed.find_rank() == ringfeed.Rank(1, 2, -1, 0, "JAX")
    launched(JOB_COMPLETION_INDEX=1, WORLD_SIZE=2)
    assert ringfeed.find_rank() == ringfeed.Rank(1, 2, -1, 0, "Kubernetes")
    launched(JOB_COMPLETION_INDEX=0)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="WORLD_SIZE to the Job's completion"):
        number_loader(write_rows(tmp_path, 1))


_JAX = """
import sys
import jax, ringfeed
jax.distributed.initialize("127.0.0.1:" + sys.argv[1], 2, int(sys.argv[2]))
parser = ringfeed.rows({"x": ("int64", ())})
loader = ringfeed.Loader(sys.argv[3], format="rows:8", parse=parser, batch=10)
assert loader.rank == ringfeed.Rank(int(sys.argv[2]), 2, -1, 0, "jax.distributed"), loader.rank
print([row for batch in loader for row in batch["x"].tolist()])
"""


def test_processes_of_jax_distributed_share_the_rows(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    files = write_rows(tmp_path, 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    environment["JAX_PLATFORMS"] = "cpu"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _JAX, port, str(rank), files],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    parts = [json.loads(out) for out, _ in told]
    assert [len(part) for part in parts] == [50, 50]
    assert sorted(parts[0] + parts[1]) == list(range(100))


def test_each_pod_of_the_pages_indexed_job_has_its_rank(launched: Any) -> None:
    page = Path(__file__).resolve().parents[2] / "docs/CONTAINERS.md"
    job = page.read_text(encoding="utf-8").partition("```yaml")[2].partition("```")[0]
    completions = int(re.search(r"completions: (\d+)", job)[1])  # type: ignore[index]
    variables = dict(re.findall(r'name: (\w+), value: "?([^"}]+)', job))
    for index in range(completions):
        launched(JOB_COMPLETION_INDEX=index, **variables)
        assert ringfeed.find_rank()[:2] == (index, completions)


class DataLoaderDispatcher:
    """As Accelerate's: it reads everything, and hands parts to the other processes."""

    def __init__(self, processes: int) -> None:
        self.state = types.SimpleNamespace(num_processes=processes)

    def who(self) -> Optional[ranks.Divider]:
        return ranks.divider_of(_call())


class Own(DataLoaderDispatcher):
    pass


def _call() -> list[Any]:
    return list(ranks.callers())


def test_who_divides_batches_is_found_among_the_callers() -> None:
    assert DataLoaderDispatcher(2).who() == ("Accelerate", 2)
    assert Own(3).who() == ("Accelerate", 3)
    assert DataLoaderDispatcher(1).who() is None
    assert ranks.divider_of(_call()) is None


def test_only_a_part_is_not_to_be_divided_again() -> None:
    divider = ranks.Divider("Accelerate", 2)
    for whole in (None, ringfeed.Rank()):
        ranks.refuse_division(whole, divider)
    ranks.refuse_division(ringfeed.Rank(1, 2), None)
    with pytest.raises(ringfeed.errors.InvalidArgument, match=r"rank 1 of 2 .*say rank=None"):
        ranks.refuse_division(ringfeed.Rank(1, 2), divider)


def test_groups_are_refused_on_several_ranks(tmp_path: Path, launched: Any, group: Any) -> None:
    path = write_sequences(tmp_path / "a.jsonl", [[n] * (n % 3 + 1) for n in range(20)])

    def make(**more: Any) -> ringfeed.Reader:
        return ringfeed.group_batch(open_sequences(path), 4, len, **more)

    with ringfeed.Loader.from_reader(make()) as loader:
        batches = sum(1 for _ in loader)
    launched(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2)
    with pytest.raises(ringfeed.errors.Unsupported, match="rank 1 of 2.*group_batch.*rank=None"):
        make()
    with pytest.raises(ringfeed.errors.Unsupported, match="rank 0 of 3"):
        make(rank=ringfeed.Rank(0, 3))
    for alone in (None, ringfeed.Rank()):
        with ringfeed.Loader.from_reader(make(rank=alone)) as loader:
            assert sum(1 for _ in loader) == batches


_CONTENT: dict[str, Callable[..., Any]] = {
    "bucket_batch": lambda chain, **more: ringfeed.bucket_batch(chain, 4, "t", [2], **more),
    "token_batch": lambda chain, **more: ringfeed.token_batch(
        chain, "t", tokens=8, shares=2, **more
    ),
    "pack": lambda chain, **more: ringfeed.pack(chain, "t", 8, 2, **more),
}


@pytest.mark.parametrize("function", _CONTENT)
def test_batches_by_content_are_split_over_the_ranks_of_a_launcher(
    tmp_path: Path, launched: Any, group: Any, function: str
) -> None:
    path = write_sequences(tmp_path / "a.jsonl", [[n] * (n % 3 + 1) for n in range(20)])
    units = []
    for rank in range(2):
        launched(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2)
        reader = _CONTENT[function](open_sequences(path))
        assert reader.stats()["ranks"].startswith(f"rank {rank} of 2")
        with ringfeed.Loader.from_reader(reader) as loader:
            # No two records of a packed row follow each other with one number.
            values = [batch["t"].tolist() for batch in loader]
        flat = [value for batch in values for row in batch for value in _flat(row)]
        units.append([value for value in flat if value != 0])
    alone = [n for n in range(20) for _ in range(n % 3 + 1) if n != 0]
    assert sorted(units[0] + units[1]) == alone


def _flat(row: Any) -> list[int]:
    return row if isinstance(row, list) else [row]


def _damaged(folder: Path, records: int, damaged: tuple[int, ...]) -> str:
    framed = [bytearray(tfrecord(struct.pack("<q", number))) for number in range(records)]
    for number in damaged:
        framed[number][12] ^= 1
    (folder / "d.tfrecord").write_bytes(b"".join(framed))
    return os.fspath(folder / "d.tfrecord")


def _steps(path: str, world_size: int = 2, **options: Any) -> list[list[list[int]]]:
    """The rows of each step of each rank."""
    steps = []
    for rank in range(world_size):
        one = ringfeed.Rank(rank, world_size)
        parser = ringfeed.rows({"x": ("int64", ())})
        with ringfeed.Loader(
            path, parse=parser, batch=4, rank=one, skip_damaged=True, **options
        ) as loader:
            steps.append([numbers(batch) for batch in loader])
    return steps


@pytest.mark.parametrize("options", [{}, {"shuffle": 4}, {"shuffle": True}, {"passes": 2}])
def test_ranks_make_the_same_steps_whatever_is_damaged(tmp_path: Path, options: dict) -> None:
    path = _damaged(tmp_path, 15, (2, 3, 8, 9))
    first, second = _steps(path, **options)
    assert len(first) == len(second) == (8 if "passes" in options else 4)
    rows = [row for step in first + second for row in step]
    good = sorted(set(range(15)) - {2, 3, 8, 9})
    assert sorted(rows) == sorted(good * options.get("passes", 1))


@pytest.mark.parametrize("shuffle", [None, 4])
def test_ranks_make_the_same_steps_where_the_rest_is_dropped(tmp_path: Path, shuffle: Any) -> None:
    path = _damaged(tmp_path, 18, (2, 3))
    first, second = _steps(path, shuffle=shuffle, drop_remainder=True)
    assert len(first) == len(second) == 4
    if shuffle is None:
        assert (first[0], second[0]) == ([0, 1], [])


def test_a_short_last_batch_is_a_step_of_all_ranks(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1, 41)
    for rank in range(4):
        loader = number_loader(files, 8, rank=ringfeed.Rank(rank, 4))
        steps = [numbers(batch) for batch in loader]
        assert len(steps) == len(loader) == 6
        assert steps[-1] == ([40] if rank == 0 else [])
    loader = number_loader(files, 8, rank=ringfeed.Rank(3, 4), empty_batches=False)
    assert len(loader) == sum(1 for _ in loader) == 5


def test_alone_a_batch_without_rows_is_shown_if_it_is_asked_for(tmp_path: Path) -> None:
    path = _damaged(tmp_path, 12, (4, 5, 6, 7))
    for shown in (None, False, True):
        with ringfeed.Loader(path, batch=4, skip_damaged=True, empty_batches=shown) as loader:
            rows = [len(numbers(batch["bytes"].lod[0])) - 1 for batch in loader]
            assert rows == ([4, 0, 4] if shown else [4, 4])


def test_devices_of_ranks_make_the_same_steps(tmp_path: Path) -> None:
    path = _damaged(tmp_path, 16, (2, 3))
    assert [len(steps) for steps in _steps(path, devices="emu:1")] == [4, 4]
