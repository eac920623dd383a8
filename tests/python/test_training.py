"""The programs of examples/training learn the same by ringfeed and by Torch's DataLoader, and those
on ranks and under Ray Train the same behind a SIGKILL, each record exactly once by the audit."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "training"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
SAME = "the same loss, to the last bit"


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: scripts/python --moving installs it")


def _started(folder: Path, *command: str, seconds: float = 300) -> tuple[int, str]:
    """Status and words of a program of Python's; one thread a process. One that does not end is
    ended in its own way: torchrun ends its ranks."""
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    program = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = program.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        program.terminate()
        said, _ = program.communicate(timeout=60)
        pytest.fail(f"it did not end: {said}")
    return program.returncode, said


def _run(folder: Path, *command: str, seconds: float = 300) -> str:
    """What a program says, which is to end well."""
    status, said = _started(folder, *command, seconds=seconds)
    assert status == 0, said
    return said


def _losses(said: str) -> list[str]:
    return re.findall(r"(?:ringfeed|Torch's DataLoader): +loss ([\d.]+)", said)


def test_digits_in_tar_shards_are_learnt_alike_by_both_loaders(tmp_path: Path) -> None:
    _need("torch", "sklearn", "PIL")
    said = _run(tmp_path, str(EXAMPLES / "digits_from_tar.py"), "digits", "3")
    ours, theirs = _losses(said)
    assert ours == theirs and float(ours) < 1.5  # of a guess 2.3
    assert SAME in said and len(list((tmp_path / "digits").glob("*.tar"))) == 4


def test_a_table_in_tfrecord_is_learnt_alike_by_both_loaders(tmp_path: Path) -> None:
    _need("torch", "sklearn")
    said = _run(tmp_path, str(EXAMPLES / "clicks_from_tfrecord.py"), "clicks", "10")
    ours, theirs = _losses(said)
    assert ours == theirs and float(ours) < 0.3  # of a guess 0.69
    assert SAME in said


def _on_ranks(*arguments: str) -> list[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*launch, str(EXAMPLES / "bytes_on_ranks.py"), "bytes", *arguments]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A job of which a rank was killed in the second epoch, and which was started again: its
    folder, and what it said then."""
    _need("torch", "numpy")
    folder = tmp_path_factory.mktemp("killed")
    status, said = _started(folder, *_on_ranks("75"))
    assert status != 0 and "exitcode: -9" in said, said
    return folder, _run(folder, *_on_ranks())


def test_a_job_goes_on_behind_a_kill_and_learns_alike_by_both_loaders(
    killed: tuple[Path, str],
) -> None:
    said = killed[1]
    assert set(re.findall(r"rank (\d) goes on behind step 70", said)) == {"0", "1"}
    ours, theirs = _losses(said)
    assert ours == theirs and float(ours) < 4.5  # of a guess 5.5


def test_a_killed_job_delivered_each_record_exactly_once(killed: tuple[Path, str]) -> None:
    folder, said = killed
    assert len(re.findall(r"epoch \d: every record exactly once", said)) == 2
    rolled_back = []
    for epoch in range(2):
        journals = map(str, (folder / "bytes").glob(f"epoch-{epoch}.rank-*"))
        report = json.loads(_run(folder, "-m", "ringfeed", "audit", "--json", *journals))
        assert (report["missing"], report["repeated"]) == (0, 0)
        rolled_back.append(report["rolled_back"])
    assert rolled_back[0] == 0 and rolled_back[1] >= 5 * 16  # what came behind the saved position


def test_a_killed_job_learns_what_an_undisturbed_one_does(
    killed: tuple[Path, str], tmp_path: Path
) -> None:
    undisturbed = _run(tmp_path, *_on_ranks())
    assert "goes on" not in undisturbed
    assert _losses(undisturbed) == _losses(killed[1])


def test_a_job_of_ray_train_goes_on_with_one_worker_fewer(tmp_path: Path) -> None:
    _need("torch", "numpy", "ray")
    # Ray starts a dozen processes, and notices late on a busy machine that a node is gone.
    said = _run(tmp_path, str(EXAMPLES / "bytes_on_ray.py"), "ray", "100", seconds=900)
    begun = re.findall(r"worker (\d) of (\d) begins behind step (\d+)", said)
    assert [start for start in begun if start[1] == "3"] == [(str(n), "3", "0") for n in range(3)]
    again = [start for start in begun if start[1] == "2"]
    assert [worker for worker, _, _ in again] == ["0", "1"] and len(begun) == 5
    step = int(again[0][2])
    assert 0 < step < 100 and step % 10 == 0
    assert len(re.findall(r"epoch \d: every record exactly once", said)) == 2
    delivered, rolled_back = 0, 0
    for epoch in range(2):
        journals = map(str, (tmp_path / "ray").glob(f"epoch-{epoch}.rank-*"))
        report = json.loads(_run(tmp_path, "-m", "ringfeed", "audit", "--json", *journals))
        assert (report["missing"], report["repeated"], report["exact"]) == (0, 0, True)
        delivered += report["records"]
        rolled_back += report["rolled_back"]
    assert delivered == 2 * (120_000 // 65 // 24) * 24
    assert rolled_back >= (99 - step) * 24  # what came behind the checkpoint
    ours, theirs = map(float, re.findall(r"loss ([\d.]+)", said))
    assert abs(ours - theirs) < 1e-5 * theirs


def _assert_whole_epochs(said: str, epochs: int) -> None:
    parts = re.findall(r"^epoch (\d): each of 569 rows once, (\d+) and (\d+)$", said, re.MULTILINE)
    assert [int(epoch) for epoch, _, _ in parts] == list(range(epochs)), said
    assert all(int(first) + int(second) == 569 for _, first, second in parts)
    (loss,) = re.findall(r"^loss ([\d.]+)$", said, re.MULTILINE)[-1:]
    assert float(loss) < 0.4  # of a guess 0.69


def test_lightning_on_two_processes_trains_on_each_row_once(tmp_path: Path) -> None:
    _need("torch", "sklearn", "lightning")
    said = _run(tmp_path, str(EXAMPLES / "clicks_by_lightning.py"), "clicks", "3")
    _assert_whole_epochs(said, 3)
    assert said.count("validated: each of 569 rows once") == 3


def test_accelerate_on_two_processes_trains_on_each_row_once(tmp_path: Path) -> None:
    _need("torch", "sklearn", "accelerate")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = str(EXAMPLES / "clicks_by_accelerate.py")
    _assert_whole_epochs(_run(tmp_path, *launch, program, "clicks", "3"), 3)


def test_packed_rows_of_two_ranks_go_on_with_three(tmp_path: Path) -> None:
    _need("torch", "numpy")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    program = [str(EXAMPLES / "text_on_ranks.py"), "text"]
    status, said = _started(tmp_path, *launch, "2", *program, "13")
    assert status != 0 and "exitcode: -9" in said, said
    said = _run(tmp_path, *launch, "3", *program)
    assert set(re.findall(r"rank (\d) of 3 goes on after step 10", said)) == {"0", "1", "2"}
    assert len(re.findall(r"epoch \d: ", said)) == 2
    losses = re.findall(r"loss ([\d.]+)", said)
    assert len(losses) == 2 and losses[0][:9] == losses[1][:9]
