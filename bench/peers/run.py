#!/usr/bin/env python3
"""Measures ringfeed's Python package beside its peers, in one run on this machine.

  bench/peers/run.py --install            makes an environment first: peers from PyPI, ./python
  bench/peers/run.py                      the table, with what is installed there
  bench/peers/run.py --only NAME,…        rows whose names contain one of these
  bench/peers/run.py --smoke              small data, NumPy and ringfeed alone: does it all work?
  bench/peers/run.py --json FILE          the rows with the machine, versions and every measurement

Each contestant is a process of its own, warm and in full flow, and all take turns in each round.
A peer that is not installed is left out by name. See README.md beside this file.

Exit status: 0 every row was measured and verified, 1 one was not, 2 usage or set-up.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

import data_sets
from rows import CONTESTANTS, ROWS, Row, markdown, summarised
from store_server import StoreServer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))
from results_text import machine, write_results  # noqa: E402

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
# Of these pip is not to look at what they ask for: the file says why.
ALONE = pathlib.Path(__file__).with_name("requirements_without_dependencies.txt")
NOT_INSTALLED = 3
TIME_LIMIT_S = 600

# A contestant at a work.
Entry = Tuple[str, str]


class Environment:
    """A virtual environment with the peers and ringfeed, or this Python if there is none.

    Args:
        folder: of the virtual environment.
        command: the path of `ringfeed`, if it is not the environment's.
    """

    def __init__(self, folder: pathlib.Path, command: Optional[str] = None) -> None:
        self._folder = folder
        self._command = command

    @property
    def python(self) -> str:
        """The interpreter that the contestants are run by."""
        own = self._folder / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def command(self) -> str:
        """The command `ringfeed`, of the same build as the package if it is the package's."""
        own = pathlib.Path(self.python).with_name("ringfeed")
        return self._command or (str(own) if own.exists() else "ringfeed")

    def install(self) -> None:
        """Makes the environment: the peers as requirements*.txt name them, and the package built
        from this tree. It is a download of several GB.

        Raises:
            subprocess.CalledProcessError: pip failed; it has said why.
        """
        if not (self._folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(self._folder)], check=True)
        pip = [self.python, "-m", "pip", "install"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True, stdout=sys.stderr)
        subprocess.run([*pip, str(ROOT / "python")], check=True, stdout=sys.stderr)
        # At the end: pip complains of them whenever it installs something else.
        subprocess.run([*pip, "--no-deps", "-r", str(ALONE)], check=True, stdout=sys.stderr)

    def variables(self) -> Dict[str, str]:
        """Environment variables of the contestants."""
        return {"RINGFEED_COMMAND": self.command, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def versions(self) -> Dict[str, str]:
        """Versions of Python and of what the requirements name."""
        named = [line.split("==")[0] for path in (REQUIREMENTS, ALONE)
                 for line in path.read_text("utf-8").splitlines() if "==" in line]
        script = ("import json, platform, sys; from importlib import metadata as m\n"
                  "have = {d.metadata['Name'].lower().replace('_', '-'): d.version"
                  " for d in m.distributions()}\n"
                  "asked = [name.lower().replace('_', '-') for name in sys.argv[1:]]\n"
                  "print(json.dumps({'python': platform.python_version(),"
                  " **{name: have[name] for name in asked if name in have}}))")
        done = subprocess.run([self.python, "-c", script, *named, "ringfeed"], check=True,
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)



class Run:
    """Contestants that take turns.

    Attributes:
        results: what each printed, a result a round.
        digests: of the rows that each delivered in one pass.
        left_out: contestants with the reason why.
        failures: what went wrong, for people.
    """

    def __init__(self, options: argparse.Namespace, environment: Environment,
                 store: Optional[StoreServer]) -> None:
        self._options = options
        self._store = store
        self._environment = environment
        self._states = pathlib.Path(tempfile.mkdtemp(prefix="positions-", dir=options.data))
        self.results: Dict[Entry, List[Dict[str, Any]]] = {}
        self.digests: Dict[Entry, Dict[str, Any]] = {}
        self.left_out: Dict[str, str] = {}
        self.failures: List[str] = []

    def prepare(self, entry: Entry) -> None:
        """One pass of a contestant for its digest, or up to the position that it is to resume."""
        name, work = entry
        extra = ["--save", str(self._state(name))] if work == "resume" else ["--digest"]
        result = self._contestant(entry, extra)
        if result is not None:
            self.digests[entry] = result
            self.results[entry] = []

    def measure(self, entry: Entry) -> None:
        """One measurement of a contestant that was prepared."""
        name, work = entry
        extra = ["--resume", str(self._state(name))] if work == "resume" else []
        result = self._contestant(entry, extra)
        if result is not None:
            self.results[entry].append(result)

    def verified(self, row: Row) -> bool:
        """Whether both sides of a row delivered the same rows, or went on exactly."""
        ours, theirs = (self.digests[(name, row.work)] for name in (row.ours, row.theirs))
        if row.work == "resume":
            return all(result["digest"] == self.digests[(name, "resume")]["digest"]
                       for name in (row.ours, row.theirs)
                       for result in self.results[(name, "resume")])
        if "verified" in theirs:  # it has compared each row with the files itself
            return bool(theirs["verified"]) and theirs["rows"] == ours["rows"]
        return ours["digest"] == theirs["digest"]

    def close(self) -> None:
        """Removes the saved positions, of which one has all of a shuffle's buffer in it."""
        for path in self._states.iterdir():
            path.unlink()
        self._states.rmdir()

    def _state(self, name: str) -> pathlib.Path:
        return self._states / name

    def _contestant(self, entry: Entry, extra: List[str]) -> Optional[Dict[str, Any]]:
        name, work = entry
        contestant = CONTESTANTS[name]
        program = pathlib.Path(__file__).with_name("contestant.py")
        done = data_sets.WORKS["images" if work == "resume" else work]
        rows = done.smoke if self._options.smoke else done.records
        command = [self._environment.python, str(program), contestant.module, work,
                   "--data", str(self._options.data), "--seconds", str(self._options.seconds),
                   "--pass-rows", str(rows), *extra]
        variables = {**os.environ, **self._environment.variables(), **contestant.environment}
        if work == "store":
            if self._store is None:
                self.left_out[name] = StoreServer.missing()
                return None
            variables.update(self._store.variables())
            command = self._store.command(command)
        try:
            done = subprocess.run(command, env=variables, check=False, capture_output=True,
                                  text=True, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.failures.append(f"{name} {work}: not done after {TIME_LIMIT_S} s")
            return None
        if done.returncode == NOT_INSTALLED:
            self.left_out[name] = done.stderr.strip().splitlines()[-1]
            return None
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            reason = (done.stderr.strip().splitlines() or ["no result"])[-1]
            self.failures.append(f"{name} {work}: status {done.returncode}: {reason}")
            return None
        return json.loads(lines[-1])


def _asked(options: argparse.Namespace) -> List[Row]:
    asked = [row for row in ROWS
             if not options.only or any(name in row.name for name in options.only.split(","))]
    if options.smoke:
        return [row for row in asked
                if all(CONTESTANTS[name].plain for name in (row.ours, row.theirs))]
    return asked


def _entries(rows: List[Row]) -> List[Entry]:
    return list(dict.fromkeys((name, row.work) for row in rows for name in (row.ours, row.theirs)))


def _take_turns(run: Run, rows: List[Row], rounds: int) -> None:
    for entry in _entries(rows):
        if entry[0] not in run.left_out:
            print(f"preparing {entry[0]} {entry[1]}", file=sys.stderr)
            run.prepare(entry)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        # Every other round the other way round: none always comes after the same neighbour.
        for entry in list(run.results)[::-1 if number % 2 else 1]:
            run.measure(entry)


def _summaries(run: Run, rows: List[Row], rounds: int) -> List[Dict[str, Any]]:
    summaries = []
    for row in rows:
        sides = [run.results.get((name, row.work), []) for name in (row.ours, row.theirs)]
        if all(len(side) == rounds for side in sides):
            summaries.append(summarised(row, sides[0], sides[1], run.verified(row)))
    return summaries


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = os.environ.get("RINGFEED_BENCH_DATA", tempfile.gettempdir())
    default = pathlib.Path(folder) / f"ringfeed-peers-{os.getuid()}"
    parser.add_argument("--install", action="store_true", help="make the environment first")
    parser.add_argument("--venv", type=pathlib.Path, default=default / "venv")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the data sets, which are kept")
    parser.add_argument("--command", help="the command ringfeed; default: the environment's")
    parser.add_argument("--only", default="", help="parts of rows' names, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0,
                        help="CPU time of one measurement, about")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the results")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    if options.smoke:
        options.rounds, options.seconds = 1, 0.2
    options.data = options.data or default / ("small" if options.smoke else "data")
    return options


def main() -> int:
    """Makes what is missing, measures, prints the table."""
    options = _options()
    environment = Environment(options.venv, options.command)
    rows = _asked(options)
    if not rows:
        print("run.py: no row has such a name", file=sys.stderr)
        return 2
    try:
        if options.install:
            environment.install()
        data_sets.make(environment.command, options.data, options.smoke,
                       {row.work for row in rows})
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    described = machine()
    with contextlib.ExitStack() as stack:
        store = None
        if any(row.work == "store" for row in rows) and not StoreServer.missing():
            store = stack.enter_context(StoreServer(options.data.resolve()))
        run = Run(options, environment, store)
        stack.callback(run.close)
        _take_turns(run, rows, options.rounds)
    summaries = _summaries(run, rows, options.rounds)
    print(markdown(summaries))
    for name, reason in run.left_out.items():
        print(f"left out: {name}: {reason}", file=sys.stderr)
    for failure in run.failures:
        print(f"run.py: {failure}", file=sys.stderr)
    if options.json:
        measurements = [{"contestant": name, **result}
                        for (name, _), results in run.results.items() for result in results]
        write_results(options.json, "bench/peers/run.py", described, {
            "versions": environment.versions(), "left_out": run.left_out, "rows": summaries,
            "measurements": measurements})
    failed = run.failures or not summaries or not all(row["verified"] for row in summaries)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
