"""What a new user does in the first quarter of an hour, each step timed: from a wheel to a measured
improvement over Torch's DataLoader.

walk.py WHEEL PACKAGES PROJECT [TORCH]: in an empty folder, by a Python that has nothing but itself.
PACKAGES: a folder with NumPy's wheel. PROJECT: README.md, docs/moving and what runs its programs.
TORCH: a site-packages folder with Torch, for whom "their" programs run, too. Prints a table. Exit
status 1 where a step fails, or all of them together take longer than LIMIT_S.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Callable

LIMIT_S = 15 * 60
BIN = Path("venv/bin").absolute()
PARSE = "example: image=u1[] label=i8[1]"
CHAIN = ["--parse", PARSE, "--batch", "64", "--shuffle", "2000"]

#: A loop as a user has it, which shows what it does while it runs.
LOOP = """
import ringfeed
fields = {"image": ("uint8", [-1]), "label": ("int64", [1])}
with ringfeed.Loader("data/*", parse=ringfeed.example(fields), batch=64, passes=0) as loader:
    for batch in loader:
        pass
"""


class Walk:
    """The steps, and how long each took."""

    def __init__(self, wheel: str, packages: str, project: str, torch: str) -> None:
        self._wheel, self._packages, self._torch = wheel, packages, torch
        self._project = Path(project)
        self._rows: list[tuple[str, float, str]] = []

    def go(self) -> int:
        steps: dict[str, Callable[[], str]] = {
            "install the wheel": self.install,
            "make 1 GiB to try it on": self.make_data,
            "a first loop, README.md's": self.first_loop,
            "find the options: `ringfeed tune`": self.tune,
            "feed with them": self.feed,
            "a running job: page and `ringfeed top`": self.see,
            "what happened when: `ringfeed trace`": self.trace,
            "docs/moving/torch.md: run, and measured": self.move,
        }
        failed = False
        for name, step in steps.items():
            started = time.perf_counter()
            try:
                said = step()
            except Exception as failure:
                said, failed = f"FAILED: {failure}", True
            self._rows.append((name, time.perf_counter() - started, said))
            print(f"{name}: {said}", flush=True)
            if failed:
                break
        total = sum(seconds for _, seconds, _ in self._rows)
        self._rows.append(("together", total, f"at most {LIMIT_S} s"))
        print("\n| step | s | what came of it |\n|---|---|---|")
        for name, seconds, said in self._rows:
            print(f"| {name} | {seconds:.1f} | {said} |")
        return 1 if failed or total > LIMIT_S else 0

    @staticmethod
    def run(*words: object, folder: str = ".") -> str:
        """What a program of the environment prints."""
        done = subprocess.run(
            [*map(str, words)],
            cwd=folder,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{words[:3]}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def install(self) -> str:
        self.run(sys.executable, "-m", "venv", "venv")
        pip = [BIN / "pip", "install", "-q", "--disable-pip-version-check", "--no-index"]
        self.run(*pip, "--find-links", self._packages, self._wheel + "[numpy]")
        if self._torch:  # what a user of Torch has already
            packages = next(Path("venv/lib").glob("python*/site-packages"))
            (packages / "torch_of_its_user.pth").write_text(self._torch + "\n")
        return self.run("ringfeed", "--version").strip() + ", no compiler"

    def make_data(self) -> str:
        self.run("ringfeed", "make", "data", "--kind", "image", "--bytes", "1GiB", "--files", 4)
        return f"{len(self.files())} files of TFRecord"

    def first_loop(self) -> str:
        text = (self._project / "README.md").read_text(encoding="utf-8")
        found = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        assert found
        Path("first.py").write_text(found[1] + "print(loader.batch_number, 'batches')\n")
        return self.run("python", "first.py").strip()

    def tune(self) -> str:
        report = json.loads(
            self.run("ringfeed", "tune", "data/part*", *CHAIN, "--report", "tune.html", "--json")
        )
        assert Path("tune.html").stat().st_size > 0
        return f"{report['verdict']}; {report['after']['gb_per_s']:.2f} GB/s"

    @staticmethod
    def files() -> list[Path]:
        return sorted(Path("data").glob("part*"))

    def feed(self) -> str:
        tuned = ["--tuned", "ringfeed.tuned.json", "--no-digest"]
        fed = json.loads(self.run("ringfeed", "feed", *self.files(), *CHAIN, *tuned, "--json"))
        assert fed["damaged_records"] == 0
        return f"{fed['records']:,} records at {fed['gb_per_s']:.2f} GB/s; {fed['advice']}"

    def see(self) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        where = f"127.0.0.1:{port}"
        environment = {**os.environ, "RINGFEED_METRICS": where}
        with subprocess.Popen([BIN / "python", "-c", LOOP], env=environment) as job:
            try:
                page = self._fetch(f"http://{where}/")
                assert "What this job does" in page
                assert "ringfeed_chain_records_total" in self._fetch(f"http://{where}/metrics")
                top = json.loads(self.run("ringfeed", "top", job.pid, "--json"))["jobs"]
                assert top
            finally:
                job.kill()
        return f"a page of {len(page):,} bytes at http://{where}/"

    @staticmethod
    def _fetch(address: str) -> str:
        """The job listens from its first batch on."""
        until = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    return str(answer.read().decode())
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def trace(self) -> str:
        devices = ["--devices", "emu:2", "--step-ms", "20", "--no-digest"]
        self.run("ringfeed", "feed", *self.files(), *CHAIN, *devices, "--trace", "trace.json")
        self.run("ringfeed", "trace", "trace.json", "--out", "all.json")
        events = json.loads(Path("all.json").read_text())["traceEvents"]
        return f"{len(events):,} events for Perfetto"

    def move(self) -> str:
        runner = self._project / "tests" / "python" / "page_programs.py"
        page = self._project / "docs" / "moving" / "torch.md"
        Path("moving").mkdir()  # the page makes its data there
        report = Path("moving.json").absolute()
        said = self.run("python", runner, page, "--report", report, "--measure", folder="moving")
        raised = json.loads(report.read_text())
        assert raised and not any(raised.values()), raised
        ratios = [line for line in said.splitlines() if " of a pass, " in line]
        assert bool(ratios) == bool(self._torch), said
        ratios = ratios or ["without Torch, so nothing to measure beside"]
        return f"{len(raised)} programs ran; " + "; ".join(ratios)


if __name__ == "__main__":
    wheel, packages, project, torch = [*sys.argv[1:], ""][:4]
    sys.exit(Walk(wheel, packages, project, torch).go())
