"""The contestants, the rows of the table (who is held against whom, and what to reach), and how a
row is made of what the contestants printed."""

import statistics
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence


@dataclass(frozen=True)
class Contestant:
    """A module of this folder with its settings.

    Attributes:
        module: its name.
        environment: variables that it is told by.
        plain: it needs neither a peer nor Torch.
    """

    module: str
    environment: Dict[str, str] = field(default_factory=dict)
    plain: bool = False


CONTESTANTS = {
    "ringfeed": Contestant("ringfeed_loader", {"RINGFEED_THREADS": "1"}, plain=True),
    # The same loader on the files that the peers made for themselves.
    "ringfeed_on_mds": Contestant("ringfeed_loader", {"RINGFEED_THREADS": "1", "RINGFEED_FILES":
                                                      "mosaicml_shards.shards"}),
    "ringfeed_on_litdata": Contestant("ringfeed_loader", {"RINGFEED_THREADS": "1", "RINGFEED_FILES":
                                                          "litdata_chunks.chunks"}),
    "ringfeed_on_array_record": Contestant("ringfeed_loader", {
        "RINGFEED_THREADS": "1", "RINGFEED_FILES": "grain_records.array_records"}),
    "ringfeed_feed": Contestant("ringfeed_feed", {"RINGFEED_THREADS": "1"}, plain=True),
    "push": Contestant("ringfeed_push", plain=True),
    "push_one_thread": Contestant("ringfeed_push", {"PUSH_THREADS": "1"}, plain=True),
    "push_shared": Contestant("ringfeed_push", {"PUSH_COPY": "0"}, plain=True),
    "numpy": Contestant("numpy_arrays", plain=True),
    "dali": Contestant("dali_pipeline"),
    "tf_data": Contestant("tf_data"),
    "torch": Contestant("torch_blocks", {"LOADER_WORKERS": "0"}),
    "torch_2_workers": Contestant("torch_blocks", {"LOADER_WORKERS": "2"}),
    "torchvision": Contestant("torchvision_images", {"LOADER_WORKERS": "0"}),
    "grain": Contestant("grain_records"),
    "litdata": Contestant("litdata_chunks", {"LOADER_WORKERS": "0"}),
    "litdata_2_workers": Contestant("litdata_chunks", {"LOADER_WORKERS": "2"}),
    "mosaicml": Contestant("mosaicml_shards", {"LOADER_WORKERS": "0"}),
    "mosaicml_2_workers": Contestant("mosaicml_shards", {"LOADER_WORKERS": "2"}),
    "webdataset": Contestant("webdataset_tars", {"LOADER_WORKERS": "0"}),
    "webdataset_2_workers": Contestant("webdataset_tars", {"LOADER_WORKERS": "2"}),
    # From a store, one thread or process.
    "store": Contestant("store_readers", {"STORE_READER": "ringfeed", "RINGFEED_THREADS": "1"}),
    "store_on_mds": Contestant("store_readers", {"STORE_READER": "ringfeed", "RINGFEED_THREADS": "1",
                                                 "RINGFEED_FILES": "mosaicml_shards.shards"}),
    "store_on_litdata": Contestant("store_readers", {
        "STORE_READER": "ringfeed", "RINGFEED_THREADS": "1",
        "RINGFEED_FILES": "litdata_chunks.chunks"}),
    "store_samples": Contestant("store_readers", {
        "STORE_READER": "ringfeed", "RINGFEED_THREADS": "1", "STORE_WORK": "samples"}),
    "boto3_ranges": Contestant("store_readers", {"STORE_READER": "boto3_ranges"}),
    "boto3": Contestant("store_readers", {"STORE_READER": "boto3"}),
    "s3torchconnector": Contestant("store_readers", {"STORE_READER": "s3torchconnector"}),
    "mosaicml_download": Contestant("store_readers", {"STORE_READER": "mosaicml"}),
    "litdata_download": Contestant("store_readers", {"STORE_READER": "litdata"}),
    # Threads of one process: none is the one that takes the batches.
    "spdl": Contestant("spdl_threads", {"LOADER_WORKERS": "1"}),
    "spdl_2_threads": Contestant("spdl_threads", {"LOADER_WORKERS": "2"}),
}


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        work: what both do.
        ours, theirs: names of contestants.
        figure: what is compared: "bytes", "rows" or "images" per CPU second, "overhead" (CPU time of a batch
            that ours takes more) or "first_batch" (wall time).
        reach: "ratio >= 2", "ours <= 5", or None.
    """

    work: str
    ours: str
    theirs: str
    figure: str
    reach: Optional[str] = None

    @property
    def name(self) -> str:
        """How --only and the results call it."""
        own = self.ours.removeprefix(self.work).removeprefix("ringfeed")
        return f"peers.{self.work}_vs_{self.theirs}{own}"



def _rows(work: str, figure: str, **theirs: Optional[str]) -> List[Row]:
    """Our loader beside these, each with what is to be reached."""
    return [Row(work, "ringfeed", name, figure, reach) for name, reach in theirs.items()]


# Beside both data sets of 110,000 bytes, without anything to reach.
_OTHERS = dict.fromkeys(["litdata", "litdata_2_workers", "mosaicml", "mosaicml_2_workers",
                         "webdataset", "webdataset_2_workers", "spdl", "spdl_2_threads"])
# Who reads a peer's own files beside that peer, and what is to be reached.
_ON_THEIRS = (("ringfeed_on_mds", "mosaicml", "ratio >= 4"),
              ("ringfeed_on_litdata", "litdata", "ratio >= 1.5"),
              ("ringfeed_on_array_record", "grain", "ratio >= 4"))
ROWS = (
    *_rows("images", "bytes", ringfeed_feed="ratio >= 0.95", dali="ratio >= 3",
           tf_data="ratio >= 4", **_OTHERS),
    *_rows("table", "rows", ringfeed_feed="ratio >= 0.9", tf_data="ratio >= 8",
           dali="ratio >= 50"),
    *_rows("samples", "bytes", ringfeed_feed=None, torch="ratio >= 1.3",
           torch_2_workers="ratio >= 8", grain=None, tf_data=None, numpy="ratio >= 1.2", **_OTHERS),
    *(Row(work, ours, theirs, "bytes", reach) for ours, theirs, reach in _ON_THEIRS
      for work in ("images", "samples")),
    Row("push", "push", "numpy", "bytes", "ratio >= 0.9"),
    Row("push", "push_one_thread", "numpy", "bytes", "ratio >= 0.8"),
    Row("push", "push_shared", "numpy", "bytes"),
    *_rows("jpegs", "images", dali="ratio >= 1", torchvision=None),
    *(Row("store", ours, theirs, "bytes", reach) for ours, theirs, reach in (
        ("store", "s3torchconnector", "ratio >= 1.5"), ("store", "boto3", "ratio >= 4"),
        ("store_samples", "boto3_ranges", "ratio >= 4"),
        ("store_on_mds", "mosaicml_download", "ratio >= 4"),
        ("store_on_litdata", "litdata_download", "ratio >= 4"))),
    *_rows("tiny", "overhead", ringfeed_feed="ours <= 5"),
    *_rows("resume", "first_batch", grain="ours <= 30", dali="ours <= 30", tf_data="ours <= 30"),
)

Result = Mapping[str, Any]
_SCALES = {"bytes": 1e9, "rows": 1e6, "images": 1}
UNITS = {"bytes": "GB per CPU s", "rows": "M rows per CPU s",
         "images": "images per CPU s", "overhead": "µs per batch",
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
    count = result["rows" if figure == "images" else figure]
    return count / result["cpu_s"] / _SCALES[figure]


def _batch_us(result: Result) -> float:
    return 1e6 * result["cpu_s"] / result["batches"]


def _met(values: Mapping[str, float], reach: Optional[str]) -> Optional[bool]:
    if reach is None:
        return None
    what, relation, bound = reach.split()
    return values[what] >= float(bound) if relation == ">=" else values[what] <= float(bound)
