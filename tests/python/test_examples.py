"""The training loops of examples/python run, and Torch's goes on exactly behind a kill -9."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ringfeed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
ROWS = 78 * 256
EPOCHS = 12


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def _start(folder: Path, *command: str) -> subprocess.Popen[str]:
    """A program of Python's in `folder`, one thread a rank, without a launcher's variables."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
    }
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _output(program: subprocess.Popen[str]) -> str:
    said, _ = program.communicate(timeout=180)
    assert program.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ROWS records in data/table, as the examples make them; to be read only."""
    folder = tmp_path_factory.mktemp("table") / "data"
    make = ["-m", "ringfeed", "make", str(folder), "--kind", "table", "--records", str(ROWS)]
    _output(_start(folder.parent, *make, "--files", "4"))
    return folder


@pytest.mark.parametrize("name", ["numpy", "jax", "torch"])
def test_an_example_makes_its_data_and_learns(name: str, tmp_path: Path) -> None:
    _need(name)
    said = _output(_start(tmp_path, str(EXAMPLES / f"{name}_loop.py")))
    losses = [float(loss) for loss in re.findall(r"epoch \d: .* loss ([\d.]+)", said)]
    assert len(losses) == 3
    assert losses[0] < 0.69  # of a coin
    assert len(list((tmp_path / "data/table").glob("*.tfrecord"))) == 4


@pytest.mark.parametrize("name", ["numpy", "jax", "torch"])
def test_an_example_has_fewer_than_fifty_lines(name: str) -> None:
    text = (EXAMPLES / f"{name}_loop.py").read_text(encoding="utf-8")
    assert text.count("\n") < 50


def test_a_loop_goes_on_with_the_generator_that_is_started_next(tmp_path: Path) -> None:
    said = _output(_start(tmp_path, str(EXAMPLES / "online_generator.py")))
    assert said == "600 rows, and 0 damaged ones\n"


@pytest.mark.parametrize(
    "name, said",
    [
        ("chains", "4 ways by length, 4 of sets, 2 passes\n"),
        ("records", "rows, sequences, tables, streams and pushes\n"),
    ],
)
def test_an_example_of_the_packages_functions_finds_what_it_says(
    name: str, said: str, tmp_path: Path
) -> None:
    _need("numpy")
    assert _output(_start(tmp_path, str(EXAMPLES / f"{name}.py"))) == said


def test_augmented_images_are_the_same_after_a_stop_by_another_number_of_ranks(
    tmp_path: Path,
) -> None:
    _need("numpy")
    _need("PIL")
    if not hasattr(ringfeed._core, "jpeg_parser"):
        pytest.skip("this ringfeed was built without libjpeg-turbo")
    said = _output(_start(tmp_path, str(EXAMPLES / "augment_images.py")))
    assert said == "36 images by 2 ranks, 60 by 3: every pixel of an undisturbed run\n"


def test_images_are_decoded_on_a_gpu(tmp_path: Path) -> None:
    program = _start(tmp_path, str(EXAMPLES / "decode_on_gpu.py"))
    said, _ = program.communicate(timeout=180)
    if program.returncode == 77:
        pytest.skip(said.strip())
    assert (program.returncode, said) == (0, "96 images\n")


def _loop(ranks: int, data: Path, state: str) -> list[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    program = [str(EXAMPLES / "torch_loop.py"), str(data), str(EPOCHS), state]
    return program if ranks == 1 else launch + program


def _content(state: Path) -> str:
    """What the loop saved last, each number with all its digits."""
    import torch

    saved = torch.load(state)
    weights = {name: value.numpy().tobytes() for name, value in saved["model"].items()}
    return repr((weights, saved["loader"]))


def _rank_to_kill(program: subprocess.Popen[str], ranks: int) -> int:
    """The program itself where it is alone, else the last process that the launcher started."""
    if ranks == 1:
        return program.pid
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    return int(children[-1])


def _killed_behind_a_state(folder: Path, ranks: int, data: Path) -> None:
    program = _start(folder, *_loop(ranks, data, "state.pt"))
    deadline = time.monotonic() + 120
    while not (folder / "state.pt").exists():
        assert program.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(_rank_to_kill(program, ranks), signal.SIGKILL)
    said, _ = program.communicate(timeout=120)
    assert program.returncode != 0
    assert f"epoch {EPOCHS - 1}:" not in said


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_torch_loop_learns_the_same_with_a_kill_in_the_middle(
    ranks: int, table_folder: Path, tmp_path: Path
) -> None:
    """Each record once in each epoch: another batch, or one twice, would make another model."""
    _need("torch")
    _killed_behind_a_state(tmp_path, ranks, table_folder)
    said = _output(_start(tmp_path, *_loop(ranks, table_folder, "state.pt")))
    assert re.search(r"goes on in epoch \d+ behind batch \d+", said)
    steps = set(re.findall(rf"epoch {EPOCHS - 1}: (\d+) batches", said))
    assert steps == {str(ROWS // 256)}
    _output(_start(tmp_path, *_loop(ranks, table_folder, "whole.pt")))
    assert _content(tmp_path / "state.pt") == _content(tmp_path / "whole.pt")
