"""The programs of a page of docs/moving, run in order in one namespace.

    python page_programs.py PAGE --report FILE    runs them, and says what became of each
    python page_programs.py PAGE --measure        then measures the page's `theirs` beside `ours`:
                                                  what a pass iterates over, or a function for it

A fence begins with ```python, and may say more: `needs=NAME,…` the packages that a program imports
and ringfeed does not bring, `not-run` that it stands there to be read. It is run in the current
folder, which is to be an empty one: the programs make their data there.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import re
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Optional

PROJECT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```python *([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROUNDS = 7
LEAST_SECONDS = 1.0


class Program(NamedTuple):
    """One block of Python of a page.

    Attributes:
        line: of the page, where its text begins.
        needs: packages without which it is left out.
        runs: False where it stands there to be read.
    """

    line: int
    text: str
    needs: tuple[str, ...]
    runs: bool

    @property
    def missing(self) -> Optional[str]:
        """A package that it needs and that is not installed."""
        return next((name for name in self.needs if not _installed(name)), None)


def _installed(name: str) -> bool:
    """Whether a package can be imported, one inside another, as "nvidia.dali", too."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the outer one is missing
        return False


def programs_of(page: Path) -> list[Program]:
    """All of a page. ValueError where a fence says what this does not know."""
    text = page.read_text(encoding="utf-8")
    return [
        Program(text.count("\n", 0, fence.start(2)) + 1, fence[2], *_said(page, fence[1].split()))
        for fence in FENCE.finditer(text)
    ]


def _said(page: Path, words: list[str]) -> tuple[tuple[str, ...], bool]:
    needs: tuple[str, ...] = ()
    for word in words:
        if word.startswith("needs="):
            needs = tuple(word[len("needs=") :].split(","))
        elif word != "not-run":
            raise ValueError(f"{page.name} has a fence that says {word!r}")
    return needs, "not-run" not in words


def _a_pass(side: Any) -> Iterable[Any]:
    return side() if inspect.isfunction(side) else side


def run(page: Path, names: dict[str, Any]) -> dict[int, str]:
    """Runs the programs; by their lines "" or what each raised. Those left out are not there."""
    raised: dict[int, str] = {}
    for program in programs_of(page):
        if not program.runs or program.missing is not None:
            continue
        try:
            exec(compile("\n" * (program.line - 1) + program.text, str(page), "exec"), names)
        except Exception:
            raised[program.line] = traceback.format_exc()
        else:
            raised[program.line] = ""
    return raised


def _timed(side: Any, clock: Callable[[], float]) -> tuple[float, float]:
    """CPU seconds, and seconds by the clock, of one pass."""
    passes, cpu, started = 0, clock(), time.perf_counter()
    while passes == 0 or time.perf_counter() - started < LEAST_SECONDS:
        for _ in _a_pass(side):
            pass
        passes += 1
    return (clock() - cpu) / passes, (time.perf_counter() - started) / passes


def measure(names: dict[str, Any]) -> str:
    """The page's `theirs` beside `ours`, in turns: what a pass costs, as ratios."""
    sys.path.insert(0, str(PROJECT / "bench" / "peers"))
    from cpu_clock import cpu_seconds

    ratios: list[tuple[float, float]] = []
    for side in ("theirs", "ours"):  # a first pass each, which makes what is made once
        for _ in _a_pass(names[side]):
            pass
    for _ in range(ROUNDS):
        theirs = _timed(names["theirs"], cpu_seconds)
        ours = _timed(names["ours"], cpu_seconds)
        ratios.append((theirs[0] / ours[0], theirs[1] / ours[1]))
    lines = []
    for what, values in zip(("CPU time", "time by the clock"), zip(*ratios)):
        least, most = min(values), max(values)
        middle = statistics.median(values)
        lines.append(f"{what} of a pass, theirs / ours: {middle:.2f} ({least:.2f} to {most:.2f})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    names: dict[str, Any] = {"__name__": "page"}
    raised = run(options.page.resolve(), names)
    if options.report:
        options.report.write_text(json.dumps(raised))
    for text in filter(None, raised.values()):
        print(text, file=sys.stderr)
    if options.measure and "theirs" in names and "ours" in names:
        print(measure(names), flush=True)
    sys.stdout.flush()
    sys.stderr.flush()
    if options.report:
        os._exit(0)  # what a peer's threads do at the interpreter's end is no matter of the page


if __name__ == "__main__":
    main()
