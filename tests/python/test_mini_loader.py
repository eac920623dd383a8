"""The examples of feeding from Python run and learn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

EXAMPLES = Path(os.environ.get("RINGFEED_EXAMPLES", Path(__file__).parents[2] / "examples"))


def run(name, *arguments):
    program = EXAMPLES / "python" / name
    if not program.exists():
        pytest.skip(f"no {program}")
    ended = subprocess.run(
        [sys.executable, str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def line(output):
    found = re.search(r"y = (\S+) x \+ (\S+)", output)
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("folder", [[], [EXAMPLES / "mini_data"]], ids=["ours", "given"])
def test_mini_loader_delivers_every_sample_and_learns_a_line(folder):
    output = run("mini_loader.py", *folder)
    assert output.startswith("18 samples a pass\n") and "1000/1000: " in output
    weight, bias = line(output)
    assert abs(weight - 2) < 0.05 and abs(bias) < 0.1


def test_a_generator_feeds_shuffle_and_batch():
    output = run("push_from_python.py")
    assert output.startswith("1000 rows an epoch")
    weight, bias = line(output)
    assert abs(weight - 2) < 0.05 and abs(bias - 1) < 0.05
