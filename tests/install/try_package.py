"""Uses the installed Python package as a first user would, beside try_command.sh's folder data.

try_package.py README.md VERSION: the README's program, a state that another process goes on from, a
feed of emulated devices. Raises at the first thing that is wrong.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import ringfeed
from ringfeed.devices import Pad


def run_readme(path: str) -> None:
    """The README's Python programs, as they stand there."""
    text = Path(path).read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert programs
    for program in programs:
        exec(compile(program, path, "exec"), {})


def open_loader() -> ringfeed.Loader:
    parser = ringfeed.example({"image": ("uint8", [-1]), "label": ("int64", [1])})
    return ringfeed.Loader("data/*", parse=parser, batch=8, shuffle="global", seed=7)


def digest(loader: ringfeed.Loader) -> list[bytes]:
    return [batch["image"].tobytes() + batch["label"].tobytes() for batch in loader]


def go_on(saved: str) -> None:
    """What is left behind the state `saved`: the number of batches and their bytes' sum."""
    with open_loader() as loader:
        loader.load_state_dict(json.loads(saved))
        rest = digest(loader)
    print(len(rest), sum(map(sum, rest)))


def try_state() -> None:
    with open_loader() as loader:
        for _ in range(5):
            next(loader)
        saved = json.dumps(loader.state_dict())
        rest = digest(loader)
    done = subprocess.run(
        [sys.executable, __file__, "--go-on", saved], capture_output=True, text=True, check=True
    )
    assert rest and done.stdout.split() == [str(len(rest)), str(sum(map(sum, rest)))], done.stdout


def try_devices() -> None:
    """A step on each of two devices in turn; every label comes once."""
    with open_loader() as loader:
        expected = sorted(int(x) for batch in loader for x in batch["label"].numpy().ravel())
    seen = []
    with ringfeed.Loader(
        "data/*",
        parse=ringfeed.example({"image": ("uint8", [-1]), "label": ("int64", [1])}),
        batch=8,
        devices="emu:2",
        transforms=[Pad("image", 1000)],
    ) as loader:
        for batch in loader:
            assert batch["image"].shape[1] == 1000
            seen += [int(x) for x in numpy.asarray(batch["label"]).ravel()]
    assert expected and sorted(seen) == expected


def check_libraries() -> None:
    """The libraries are the wheel's own, and none of them is this process's malloc."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    mapped = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert not [path for path in mapped if "mimalloc" in path]
    for name in ("liburing", "libzstd", "libsnappy", "libprotobuf", "libisal"):
        paths = [path for path in mapped if Path(path).name.startswith(name)]
        assert paths and all("ringfeed.libs" in path for path in paths), (name, paths)


def main() -> None:
    if sys.argv[1] == "--go-on":
        go_on(sys.argv[2])
        return
    assert ringfeed.__version__ == sys.argv[2]
    run_readme(sys.argv[1])
    try_state()
    try_devices()
    check_libraries()
    print("the package works")


if __name__ == "__main__":
    main()
