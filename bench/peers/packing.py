#!/usr/bin/env python3
"""Packing and balance beside the ways of others, on real text: padding, and how long a step waits
for its costliest rank.

    packing.py [--ringfeed PROGRAM] [--most-files N] [--length L] [--rows N] [--ranks R …]

The text is Python's own: each function and class of the standard library's sources, and of the
packages that are installed beside it, is a document of byte tokens. Ours is what `ringfeed plan`
says, which reads no record. The others are simulated on the same lengths, in one shuffled order:

- per-rank next fit, as torchtune's PackedDataset packs on each rank: a row is full as soon as the
  next document does not fit;
- per-rank best fit with 64 open rows, as Grain's BestFitPackIterDataset: if a document fits no open
  row, all of them leave;
- windows, as Megatron's GPTDataset: documents one after another, cut every L tokens.

A load is the most of a rank's cost in a step over the mean, averaged over the steps; the second
number is that of micro-steps, in which every row waits for the costliest of its round. A document's
cost is 24576 u + u² for u tokens, of a window that of its pieces.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterable, Iterator

import ringfeed

COST = (24576, 1)
SEED = 7
Row = list[int]  # units of its documents


def documents(most_files: int) -> Iterator[bytes]:
    roots = [Path(ast.__file__).parent, *(Path(p) for p in sys.path if p.endswith("-packages"))]
    files = sorted({path for root in roots for path in root.rglob("*.py")})[:most_files]
    for path in files:
        try:
            source = path.read_text(encoding="utf-8")
            nodes = list(ast.walk(ast.parse(source)))
        except (SyntaxError, UnicodeDecodeError, ValueError, OSError):
            continue
        lines = source.splitlines(keepends=True)
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.end_lineno is not None:
                yield "".join(lines[node.lineno - 1 : node.end_lineno]).encode()


def write_records(path: Path, records: Iterable[bytes]) -> list[int]:
    lengths = []
    with ringfeed.open_record_writer(str(path), "tfrecord") as writer:
        for record in records:
            writer.write(record)
            lengths.append(len(record))
    return lengths


def cost(row: Row) -> int:
    return sum(COST[0] * u + COST[1] * u * u for u in row)


def next_fit(units: Iterable[int], length: int) -> list[Row]:
    rows: list[Row] = [[]]
    room = length
    for u in units:
        if u > room:
            rows.append([])
            room = length
        rows[-1].append(u)
        room -= u
    return rows


def best_fit(units: Iterable[int], length: int, open_rows: int = 64) -> list[Row]:
    rows: list[Row] = []
    bins: list[Row] = [[] for _ in range(open_rows)]
    rooms = [length] * open_rows
    for u in units:
        fits = [i for i in range(open_rows) if rooms[i] >= u]
        if not fits:
            rows += [row for row in bins if row]
            bins, rooms = [[] for _ in range(open_rows)], [length] * open_rows
            fits = [0]
        at = min(fits, key=lambda i: (rooms[i], i))
        bins[at].append(u)
        rooms[at] -= u
    return rows + [row for row in bins if row]


def windows(units: Iterable[int], length: int) -> list[Row]:
    rows: list[Row] = [[]]
    room = length
    for u in units:
        while u > 0:
            piece = min(u, room)
            rows[-1].append(piece)
            u -= piece
            room -= piece
            if room == 0:
                rows.append([])
                room = length
    return rows


def loads(of_rank: list[list[Row]], rows: int) -> tuple[float, float]:
    """Of steps of `rows` rows on each rank, as long as all ranks have some."""
    steps = min(len(rank) for rank in of_rank) // rows
    step_sum = micro_sum = 0.0
    for step in range(steps):
        costs = [[cost(row) for row in rank[step * rows : (step + 1) * rows]] for rank in of_rank]
        mean = sum(map(sum, costs)) / len(costs)
        step_sum += max(map(sum, costs)) / mean
        micro_sum += sum(max(rank[i] for rank in costs) for i in range(rows)) / mean
    return step_sum / max(steps, 1), micro_sum / max(steps, 1)


def padding(of_rank: list[list[Row]], length: int) -> float:
    rows = [row for rank in of_rank for row in rank]
    return 1 - sum(map(sum, rows)) / (length * len(rows))


def main() -> None:
    options = argparse.ArgumentParser(description="Packing and balance beside others' ways.")
    options.add_argument("--ringfeed", default="ringfeed")
    options.add_argument("--most-files", type=int, default=6000)
    options.add_argument("--length", type=int, default=4096)
    options.add_argument("--rows", type=int, default=8, help="of a rank in a step")
    options.add_argument("--ranks", type=int, nargs="+", default=[8, 64])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.tfrecord"
        lengths = write_records(path, documents(given.most_files))
        compare(given, path, [min(u, given.length) for u in lengths])


def compare(given: argparse.Namespace, path: Path, units: list[int]) -> None:
    length, rows = given.length, given.rows
    longest = sum(u == length for u in units) / len(units)
    print(
        f"{len(units):,} documents, {sum(units) / len(units):.0f} tokens on average, rows of "
        f"{length}, {100 * longest:.1f} % cut; {rows} rows of each rank in a step\n"
    )
    shuffled = random.Random(SEED).sample(units, len(units))
    print("| way | ranks | padding | load of a step | of micro-steps |\n|---|---|---|---|---|")
    for ranks in given.ranks:
        parts = [shuffled[rank::ranks] for rank in range(ranks)]
        cut = windows(shuffled, length)
        ways = {
            "next fit on each rank": [next_fit(part, length) for part in parts],
            "best fit on each rank, 64 open rows": [best_fit(part, length) for part in parts],
            "windows, documents cut": [cut[rank::ranks] for rank in range(ranks)],
        }
        for name, packed in ways.items():
            show(name, ranks, padding(packed, length), *loads(packed, rows))
        for plan in plans(given, path, ranks):
            load, apart = plan["loads"][0], plan["loads_apart"][0]
            if plan["alike"] == 1:
                name = f"ringfeed, {plan['fit']} fit"
                show(name, ranks, plan["padding"], apart["step"], apart["micro_step"])
            if plan["fit"] == "best":
                alike = "" if plan["alike"] == 1 else f", {plan['alike']} steps alike"
                name = f"ringfeed, best fit, balanced{alike}"
                show(name, ranks, plan["padding"], load["step"], load["micro_step"])


def plans(given: argparse.Namespace, path: Path, ranks: int) -> list[dict]:
    words = [
        given.ringfeed, "plan", path, "--parse", "raw", "--json",
        "--pack", given.length, "--batch", ranks * given.rows, "--ranks", ranks, "--alike", "1,4,16",
        "--cost", f"{COST[0]},{COST[1]}", "--seed", SEED,
    ]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    found: list[dict] = json.loads(done.stdout)["plans"]
    return found


def show(name: str, ranks: int, part: float, step: float, micro: float) -> None:
    print(f"| {name} | {ranks} | {100 * part:.2f} % | {step:.3f} | {micro:.3f} |")


if __name__ == "__main__":
    main()
