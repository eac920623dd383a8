"""The contestants, and the rows of the table: who is held against whom, and what to reach."""

from dataclasses import dataclass, field
from typing import Dict, Optional


@dataclass(frozen=True)
class Contestant:
    """A script with its settings.

    Attributes:
        script: its file.
        environment: variables that it is told by.
        plain: it needs neither a peer nor Torch.
    """

    script: str
    environment: Dict[str, str] = field(default_factory=dict)
    plain: bool = False


CONTESTANTS = {
    "ringfeed": Contestant("ringfeed_loader.py", {"RINGFEED_THREADS": "1"}, plain=True),
    "ringfeed_feed": Contestant("ringfeed_feed.py", {"RINGFEED_THREADS": "1"}, plain=True),
    "push": Contestant("ringfeed_push.py", plain=True),
    "push_one_thread": Contestant("ringfeed_push.py", {"PUSH_THREADS": "1"}, plain=True),
    "push_shared": Contestant("ringfeed_push.py", {"PUSH_COPY": "0"}, plain=True),
    "numpy": Contestant("numpy_arrays.py", plain=True),
    "dali": Contestant("dali_pipeline.py"),
    "tf_data": Contestant("tf_data.py"),
    "torch": Contestant("torch_blocks.py", {"LOADER_WORKERS": "0"}),
    "torch_2_workers": Contestant("torch_blocks.py", {"LOADER_WORKERS": "2"}),
    "grain": Contestant("grain_records.py"),
    "litdata": Contestant("litdata_chunks.py", {"LOADER_WORKERS": "0"}),
    "litdata_2_workers": Contestant("litdata_chunks.py", {"LOADER_WORKERS": "2"}),
    "mosaicml": Contestant("mosaicml_shards.py", {"LOADER_WORKERS": "0"}),
    "mosaicml_2_workers": Contestant("mosaicml_shards.py", {"LOADER_WORKERS": "2"}),
    "webdataset": Contestant("webdataset_tars.py", {"LOADER_WORKERS": "0"}),
    "webdataset_2_workers": Contestant("webdataset_tars.py", {"LOADER_WORKERS": "2"}),
    # Threads of one process: none is the one that takes the batches.
    "spdl": Contestant("spdl_threads.py", {"LOADER_WORKERS": "1"}),
    "spdl_2_threads": Contestant("spdl_threads.py", {"LOADER_WORKERS": "2"}),
}


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        work: what both do.
        ours, theirs: names of contestants.
        figure: what is compared: "bytes" or "rows" per CPU second, "overhead" (CPU time of a batch
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
        return f"peers.{self.work}_vs_{self.theirs}" + self.ours.removeprefix("push" if self.work == "push" else "ringfeed")


ROWS = (
    Row("images", "ringfeed", "ringfeed_feed", "bytes", "ratio >= 0.95"),
    Row("images", "ringfeed", "dali", "bytes", "ratio >= 3"),
    Row("images", "ringfeed", "tf_data", "bytes", "ratio >= 4"),
    Row("images", "ringfeed", "litdata", "bytes"),
    Row("images", "ringfeed", "litdata_2_workers", "bytes"),
    Row("images", "ringfeed", "mosaicml", "bytes"),
    Row("images", "ringfeed", "mosaicml_2_workers", "bytes"),
    Row("images", "ringfeed", "webdataset", "bytes"),
    Row("images", "ringfeed", "webdataset_2_workers", "bytes"),
    Row("images", "ringfeed", "spdl", "bytes"),
    Row("images", "ringfeed", "spdl_2_threads", "bytes"),
    Row("table", "ringfeed", "ringfeed_feed", "rows", "ratio >= 0.9"),
    Row("table", "ringfeed", "tf_data", "rows", "ratio >= 8"),
    Row("table", "ringfeed", "dali", "rows", "ratio >= 50"),
    Row("samples", "ringfeed", "ringfeed_feed", "bytes"),
    Row("samples", "ringfeed", "torch", "bytes", "ratio >= 1.3"),
    Row("samples", "ringfeed", "torch_2_workers", "bytes", "ratio >= 8"),
    Row("samples", "ringfeed", "grain", "bytes"),
    Row("samples", "ringfeed", "tf_data", "bytes"),
    Row("samples", "ringfeed", "numpy", "bytes", "ratio >= 1.2"),
    Row("samples", "ringfeed", "litdata", "bytes"),
    Row("samples", "ringfeed", "litdata_2_workers", "bytes"),
    Row("samples", "ringfeed", "mosaicml", "bytes"),
    Row("samples", "ringfeed", "mosaicml_2_workers", "bytes"),
    Row("samples", "ringfeed", "webdataset", "bytes"),
    Row("samples", "ringfeed", "webdataset_2_workers", "bytes"),
    Row("samples", "ringfeed", "spdl", "bytes"),
    Row("samples", "ringfeed", "spdl_2_threads", "bytes"),
    Row("push", "push", "numpy", "bytes", "ratio >= 0.9"),
    Row("push", "push_one_thread", "numpy", "bytes", "ratio >= 0.8"),
    Row("push", "push_shared", "numpy", "bytes"),
    Row("tiny", "ringfeed", "ringfeed_feed", "overhead", "ours <= 5"),
    Row("resume", "ringfeed", "grain", "first_batch", "ours <= 30"),
    Row("resume", "ringfeed", "dali", "first_batch", "ours <= 30"),
    Row("resume", "ringfeed", "tf_data", "first_batch", "ours <= 30"),
)
