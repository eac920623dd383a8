#!/usr/bin/env python3
"""The models in C++ by LibTorch learn what those in Python do, on the same files.

libtorch_test.py PROGRAM PROJECT PREFIX BUILD COMPILER: builds the example PROGRAM with the ringfeed that
is installed in PREFIX, in the folder BUILD. Ends with 77 where no Python here has Torch, and where a
library is missing that the example is built with.
"""

import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

PROGRAM = sys.argv[1]
PROJECT, PREFIX, BUILD = map(pathlib.Path, sys.argv[2:5])
COMPILER = sys.argv[5]
EXAMPLES = PROJECT / "examples" / "training"
SKIPPED = 77
#: Of the loss: the two optimizers round otherwise.
NEAR = 1e-6


def python_with(*packages):
    """RINGFEED_TORCH_PYTHON, the one that `scripts/python --moving` fills, or this one."""
    named = os.environ.get("RINGFEED_TORCH_PYTHON")
    filled = PROJECT / "build" / "python" / "moving" / "bin" / "python"
    for python in [named] if named else [str(filled), sys.executable]:
        looked = f"import importlib.util as u; print(all(map(u.find_spec, {packages!r})))"
        try:
            found = subprocess.run([python, "-c", looked], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        if found.stdout.strip() == "True":
            return python
    return None


def build(python):
    """Why the program cannot be built here; None where it was."""
    configure = ["cmake", "-G", "Ninja", "-S", EXAMPLES, "-B", BUILD, f"-DCMAKE_PREFIX_PATH={PREFIX}",
                 f"-DPYTHON={python}", f"-DCMAKE_CXX_COMPILER={COMPILER}"]
    configured = subprocess.run([*map(str, configure)], stdout=subprocess.PIPE, text=True, check=False)
    print(configured.stdout, end="", flush=True)
    configured.check_returncode()
    left_out = re.search(f"{PROGRAM} is left out.*", configured.stdout)
    if left_out:
        return left_out[0]
    subprocess.run(["cmake", "--build", str(BUILD), "--target", PROGRAM], check=True)
    return None


def started(*command, folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True,
                          check=False)


def losses_of(*command, folder):
    done = started(*command, folder=folder)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    print(done.stdout, end="")
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]


def learns_the_same(python, example, epochs, most, folder):
    """The losses of both languages, by both loaders: of the last of so many epochs, at most so much."""
    name = example.split("_")[0]
    in_python = losses_of(python, EXAMPLES / example, name, epochs, folder=folder)
    (in_cpp,) = losses_of(BUILD / PROGRAM, name, epochs, folder=folder)
    same = all(math.isclose(loss, in_cpp, rel_tol=NEAR) for loss in in_python)
    if len(in_python) != 2 or not same or not in_cpp < most:
        sys.exit(f"they did not learn the same: {in_python} in Python, {in_cpp} in C++")


def fails_with(data, *words, folder):
    """Ends with status 1, and an error that has these words."""
    done = started(BUILD / PROGRAM, data, 1, folder=folder)
    if done.returncode != 1 or not all(word in done.stderr for word in words):
        sys.exit(f"{data} ends it with {done.returncode}, without one of {words}: {done.stdout}{done.stderr}")
    print(f"{data}: {done.stderr}", end="")


def with_one_changed(folder, name, shard, sample, change):
    """A copy of the digits, in which `change` was made to one sample's JPEG, a bytearray."""
    shutil.copytree(folder / "digits", folder / name)
    path = folder / name / shard
    with tarfile.open(path) as tar:
        image = [member for member in tar.getmembers() if member.name.endswith(".jpg")][sample]
    archive = bytearray(path.read_bytes())
    jpeg = archive[image.offset_data : image.offset_data + image.size]
    change(jpeg)
    archive[image.offset_data : image.offset_data + image.size] = jpeg
    path.write_bytes(archive)


def flip_bytes(jpeg):
    for at in range(len(jpeg) // 2, len(jpeg)):
        jpeg[at] ^= 0xFF


def claim_65500_pixels(jpeg):
    size = jpeg.index(b"\xff\xc0") + 5  # behind the marker, the length and the precision
    assert jpeg[size : size + 4] == bytes([0, 16, 0, 16])
    jpeg[size : size + 4] = 2 * (65500).to_bytes(2, "big")


def check_clicks(python, folder):
    learns_the_same(python, "clicks_from_tfrecord.py", 10, 0.3, folder)
    fails_with("nowhere", "nowhere", folder=folder)


def check_digits(python, folder):
    learns_the_same(python, "digits_from_tar.py", 3, 1.5, folder)
    fails_with("nowhere", "nowhere", folder=folder)
    with_one_changed(folder, "damaged", "digits-001.tar", 5, flip_bytes)
    fails_with("damaged", "digits-001.tar", "record 5:", folder=folder)
    with_one_changed(folder, "claiming", "digits-002.tar", 7, claim_65500_pixels)
    fails_with("claiming", "digits-002.tar", "record 7:", "65500 by 65500 pixels", folder=folder)


#: What each program is checked by, what its Python needs, and how long it may be.
CHECKS = {
    "clicks_with_libtorch": (check_clicks, ("torch", "sklearn", "ringfeed"), 120),
    "digits_with_libtorch": (check_digits, ("torch", "sklearn", "PIL", "ringfeed"), 150),
}


def main():
    check, packages, lines = CHECKS[PROGRAM]
    python = python_with(*packages)
    if python is None:
        print(f"skipped: no Python here has {', '.join(packages)}; `scripts/python --moving` installs them")
        return SKIPPED
    if len((EXAMPLES / f"{PROGRAM}.cc").read_text().splitlines()) >= lines:
        sys.exit(f"it has {lines} lines or more")
    left_out = build(python)
    if left_out:
        print(f"skipped: {left_out}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="ringfeed-libtorch-") as folder:
        check(python, pathlib.Path(folder))
    return 0


sys.exit(main())
