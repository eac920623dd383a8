#!/usr/bin/env python3
"""Computes the tables of docs/PERFORMANCE.md from bench/results/ once more, with the goals that the
programs have, and looks how the results are laid out.

check_figures.py ROOT: prints what differs; exit status 1 if anything does.
check_figures.py ROOT --write: writes the figures into the document. Its rows and their words stay.
"""

import importlib.machinery
import importlib.util
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
DOCUMENT = "docs/PERFORMANCE.md"
RESULTS = "bench/results"
MOST_LINES = 2500
#: Files of the machines that the document calls A, B and so on.
ROWS = {"A": ["2core_epyc_zen5_clean", "2core_epyc_zen5_clean_again"],
        "B": ["2core_xeon_amx", "2core_xeon_amx_again"]}
#: Of these rows another program disturbed B's first hour; they were measured again.
AGAIN = {"B": "2core_xeon_amx_command"}
PEERS = {"A": "2core_epyc_zen5_clean_peers", "B": "2core_xeon_amx_peers", "C": "2core_epyc_peers",
         "D": "2core_vm_peers", "E": "2core_epyc_jpegs", "F": "2core_epyc_own_formats"}
REMOTE = "2core_epyc_remote"
STORE_PEERS = "2core_epyc_store_peers"
CURVES = "2core_epyc_zen5_clean_threads"
GPU = "h200_16core_gpu"
VERDICTS = {True: "reached", False: "**missed**", None: ""}
UNITS = {"GB per CPU s": "GB/CPU s", "M records per CPU s": "M/CPU s", "M rows per CPU s": "M/CPU s",
         "G tokens per CPU s": "G/CPU s", "M reads per CPU s": "M/CPU s", "us of CPU": "µs",
         "images per CPU s": "images/CPU s", "CPU s per million": "CPU s/M", "of the peak": "",
         "of the time of steps": ""}


def load(path, name):
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def ratio(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread(of):
    return f"{ratio(of['median'])} ({ratio(of['min'])} to {ratio(of['max'])})"


def both_sides(row):
    """Ours with its unit, and the other side."""
    unit, scale = row["unit"], 1
    if unit.startswith("bytes/"):
        unit, scale = "GB" + unit[5:], 1e9
    elif unit == "records/CPU s":
        unit, scale = ("M/CPU s", 1e6) if row["ours"] >= 1e6 else ("k/CPU s", 1e3)
    unit = UNITS.get(unit, unit)
    return [f"{number(row['ours'] / scale)} {unit}", number(row["baseline"] / scale)]


def goal(reach):
    """As a row's goal reads, from "ratio >= 0.95" or ">= 0.95"."""
    return (reach or "").replace("ratio ", "").replace(">=", "≥").replace("<=", "≤")


def meets(row, reach):
    if not reach:
        return None
    what, relation, bound = reach.split()
    value = row["ratio"]["median"] if what == "ratio" else row["ours"]
    return value >= float(bound) if relation == ">=" else value <= float(bound)


class Figures:
    """What is measured, by the names that the document's tables have in their first cells."""

    def __init__(self, root):
        self.root = root
        self.goals = load(root / "scripts/bench", "scripts_bench").REACH
        self.peer_goals = {row.name: row.reach
                           for row in load(root / "bench/peers/rows.py", "peer_rows").ROWS}

    def of(self, name):
        return json.loads((self.root / RESULTS / f"{name}.json").read_text(encoding="utf-8"))

    def rows(self, name):
        return {row["name"]: row for row in self.of(name)["rows"] if "skipped" not in row}

    def loop_rows(self):
        """Of each row: ours, the loop, the ratio, that of machine B, the goal and whether it is met."""
        first, again = map(self.rows, ROWS["A"])
        others, moved = list(map(self.rows, ROWS["B"])), self.rows(AGAIN["B"])
        others[0].update(moved)
        for name in (name for name in first if name in self.goals):  # others are measured no more
            row, reach = first[name], self.goals[name]
            runs = [row, *([again[name]] if name in again else [])]
            ours = bool(reach) and reach.startswith("ours")
            elsewhere = []
            for other in (side[name] for side in others if name in side):
                value = number(other["ours"]) if ours else ratio(other["ratio"]["median"])
                elsewhere.append(f"**{value}**" if meets(other, reach) is False else value)
            verdicts = [VERDICTS[meets(run, reach)] for run in runs]
            yield name, [*both_sides(row),
                         "; again ".join(spread(run["ratio"]) for run in runs),
                         ", ".join(elsewhere), goal(reach), "; ".join(dict.fromkeys(verdicts))]

    def peer_rows(self):
        for machine, file in PEERS.items():
            for name, row in self.rows(file).items():
                reach = self.peer_goals[name]
                yield f"{name.removeprefix('peers.')} {machine}", self.cells(row, reach)

    def remote_rows(self):
        for name, row in self.rows(REMOTE).items():
            reach = self.goals[name]
            yield name.removeprefix("remote."), self.cells(row, reach)
        for name, row in self.rows(STORE_PEERS).items():
            yield name.removeprefix("peers."), self.cells(row, self.peer_goals[name])

    @staticmethod
    def cells(row, reach):
        return [*both_sides(row), spread(row["ratio"]), goal(reach), VERDICTS[meets(row, reach)]]

    def curve_rows(self):
        points = {}
        for point in self.of(CURVES)["curves"]:
            points.setdefault(point["work"], []).append(point)
        for work, of_work in points.items():
            values = [", ".join(number(point[key]) for point in of_work) for key in ("ours", "baseline")]
            yield work, [f"{values[0]} {of_work[0]['unit'].replace(' records', '')}", values[1],
                         ", ".join(f"{point['efficiency']['median']:.2f}" for point in of_work),
                         f"{of_work[-1]['ours'] / of_work[0]['ours']:.2f}"]

    def gpu_rows(self):
        bench = self.of(GPU)["parts"]["B"]["steps"]["bench"]["result"]
        for section in bench["sections"].values():
            for row in section["figures"]:
                reached = {"met": True, "missed": False}.get(row.get("verdict"))
                unit = UNITS.get(row["unit"], row["unit"]).replace("us of CPU, median", "µs")
                values = [number(row[key]) for key in ("median", "min", "max")]
                spreads = "" if values[1] == values[2] else f" ({values[1]} to {values[2]})"
                yield row["name"], [f"{values[0]} {unit}".rstrip() + spreads, goal(row.get("target")),
                                    VERDICTS[reached]]

    def tables(self):
        """By the first word of a table's head: its rows' cells, and how many cells stand before them."""
        return {"row": (dict(self.loop_rows()), 2), "peer": (dict(self.peer_rows()), 3),
                "work": (dict(self.curve_rows()), 1), "figure": (dict(self.gpu_rows()), 2),
                "remote": (dict(self.remote_rows()), 2)}


def written(text, tables):
    """The document with the tables' figures, and the rows that no result has."""
    lines, unknown, table = [], [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells and table is None:
            table = tables.get(cells[0], ())
        elif not cells:
            table = None
        elif table and not line.startswith("|---"):
            rows, by_hand = table
            name = cells[0].strip("`") + (f" {cells[2]}" if by_hand == 3 else "")
            if name in rows:
                line = "| " + " | ".join([*cells[:by_hand], *rows[name]]) + " |"
            else:
                unknown.append(name)
        lines.append(re.sub(r"\|  (?=\|)", "| ", line))
    return "\n".join(lines) + "\n", unknown


def faults(root, text, right, unknown):
    yield from (f"{DOCUMENT}: no result has the row {name}" for name in unknown)
    for number_of_line, (have, want) in enumerate(zip(text.splitlines(), right.splitlines()), 1):
        if have != want:
            yield f"{DOCUMENT}:{number_of_line}: is\n  {have}\nmeasured was\n  {want}"
    results_text = load(root / "bench/results_text.py", "results_text").results_text
    lines = 0
    for path in sorted((root / RESULTS).glob("*.json")):
        kept = path.read_text(encoding="utf-8")
        lines += kept.count("\n")
        if kept != results_text(json.loads(kept)):
            yield f"{RESULTS}/{path.name}: bench/results_text.py lays it out another way"
    if lines > MOST_LINES:
        yield f"{RESULTS}: {lines} lines, more than {MOST_LINES}; history keeps the older ones"


def main():
    root = pathlib.Path(sys.argv[1])
    text = (root / DOCUMENT).read_text(encoding="utf-8")
    right, unknown = written(text, Figures(root).tables())
    if sys.argv[2:] == ["--write"]:
        (root / DOCUMENT).write_text(right, encoding="utf-8")
        text = right
    found = list(faults(root, text, right, unknown))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
