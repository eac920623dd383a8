"""The rows of the table out of what the contestants printed."""

import statistics
from typing import Any, Dict, List, Mapping, Optional, Sequence

from rows import Row

Result = Mapping[str, Any]
_SCALES = {"bytes": 1e9, "rows": 1e6}
UNITS = {"bytes": "GB per CPU s", "rows": "M rows per CPU s", "overhead": "µs per batch",
         "first_batch": "ms"}


def summarised(row: Row, ours: Sequence[Result], theirs: Sequence[Result],
               verified: bool) -> Dict[str, Any]:
    """A row as scripts/bench prints its own: medians over the rounds, ratios within a round.

    Args:
        ours, theirs: a result of each round. Of "first_batch" the ratio is theirs over ours.
        verified: both delivered the same rows, each once.
    """
    if row.figure == "overhead":
        own = [_batch_us(a) - _batch_us(b) for a, b in zip(ours, theirs)]
        base = [_batch_us(result) for result in theirs]
        ratios = [_batch_us(a) / _batch_us(b) for a, b in zip(ours, theirs)]
    else:
        own = [_value(row.figure, result) for result in ours]
        base = [_value(row.figure, result) for result in theirs]
        smaller = row.figure == "first_batch"
        ratios = [b / a if smaller else a / b for a, b in zip(own, base)]
    values = {"ours": statistics.median(own), "ratio": statistics.median(ratios)}
    return {
        "name": row.name, "ours": values["ours"], "baseline": statistics.median(base),
        "ratio": {"median": values["ratio"], "min": min(ratios), "max": max(ratios)},
        "unit": UNITS[row.figure], "verified": verified, "reach": row.reach,
        "met": _met(values, row.reach), "repetitions": len(own),
    }


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table as a document has it."""
    lines = ["| row | ours | theirs | unit | ratio (min to max) | to reach | |", "|---" * 7 + "|"]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> List[str]:
    ratio = row["ratio"]
    spread = f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
    met = {True: "reached", False: "missed", None: ""}[row["met"]]
    return [f"`{row['name']}`", f"{row['ours']:.3g}", f"{row['baseline']:.3g}", row["unit"], spread,
            row["reach"] or "", met if row["verified"] else (met + ", NOT VERIFIED").strip(", ")]


def _value(figure: str, result: Result) -> float:
    if figure == "first_batch":
        return 1e3 * result["first_batch_s"]
    return result[figure] / result["cpu_s"] / _SCALES[figure]


def _batch_us(result: Result) -> float:
    return 1e6 * result["cpu_s"] / result["batches"]


def _met(values: Mapping[str, float], reach: Optional[str]) -> Optional[bool]:
    if reach is None:
        return None
    what, relation, bound = reach.split()
    return values[what] >= float(bound) if relation == ">=" else values[what] <= float(bound)
