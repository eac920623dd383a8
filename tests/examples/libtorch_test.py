#!/usr/bin/env python3
"""The model in C++ by LibTorch learns what the one in Python does, on the same files.

clicks_with_libtorch_test.py PROJECT PREFIX BUILD COMPILER: builds the example with the ringfeed that is
installed in PREFIX, in the folder BUILD. Ends with 77 where no Python here has Torch.
"""

import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROJECT, PREFIX, BUILD = map(pathlib.Path, sys.argv[1:4])
COMPILER = sys.argv[4]
EXAMPLES = PROJECT / "examples" / "training"
#: Of the loss: the two optimizers round otherwise.
NEAR = 1e-6


def python_with_torch():
    """RINGFEED_TORCH_PYTHON, the one that `scripts/python --moving` fills, or this one."""
    named = os.environ.get("RINGFEED_TORCH_PYTHON")
    filled = PROJECT / "build" / "python" / "moving" / "bin" / "python"
    for python in [named] if named else [str(filled), sys.executable]:
        looked = "import importlib.util as u; print(all(map(u.find_spec, ('torch', 'sklearn', 'ringfeed'))))"
        try:
            found = subprocess.run([python, "-c", looked], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        if found.stdout.strip() == "True":
            return python
    return None


def loss_of(*command, folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    print(done.stdout, end="")
    return float(re.search(r"loss ([\d.]+)", done.stdout)[1])


def main():
    python = python_with_torch()
    if python is None:
        print("skipped: no Python here has torch, scikit-learn and ringfeed; `scripts/python --moving` installs them")
        return 77
    if len((EXAMPLES / "clicks_with_libtorch.cc").read_text().splitlines()) >= 120:
        sys.exit("it has 120 lines or more")
    configure = ["cmake", "-G", "Ninja", "-S", EXAMPLES, "-B", BUILD, f"-DCMAKE_PREFIX_PATH={PREFIX}",
                 f"-DPYTHON={python}", f"-DCMAKE_CXX_COMPILER={COMPILER}"]
    for command in (configure, ["cmake", "--build", BUILD]):
        subprocess.run([*map(str, command)], check=True)
    with tempfile.TemporaryDirectory(prefix="ringfeed-libtorch-") as folder:
        in_python = loss_of(python, EXAMPLES / "clicks_from_tfrecord.py", "clicks", 10, folder=folder)
        in_cpp = loss_of(BUILD / "clicks_with_libtorch", "clicks", 10, folder=folder)
        missing = subprocess.run([BUILD / "clicks_with_libtorch", "nowhere"], cwd=folder, capture_output=True,
                                 text=True, check=False)
    if not math.isclose(in_python, in_cpp, rel_tol=NEAR) or not in_python < 0.3:
        sys.exit(f"they did not learn the same: {in_python} in Python, {in_cpp} in C++")
    if missing.returncode != 1 or "nowhere" not in missing.stderr:
        sys.exit(f"files that are not there end it with {missing.returncode}: {missing.stderr}")
    return 0


sys.exit(main())
