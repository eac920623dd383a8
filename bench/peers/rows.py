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
    "torch": Contestant("torch_blocks.py", {"TORCH_WORKERS": "0"}),
    "torch_2_workers": Contestant("torch_blocks.py", {"TORCH_WORKERS": "2"}),
    "grain": Contestant("grain_records.py"),
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
    Row("images", "ringfeed", "dali", "bytes", "ratio >= 2"),
    Row("images", "ringfeed", "tf_data", "bytes", "ratio >= 4"),
    Row("table", "ringfeed", "ringfeed_feed", "rows", "ratio >= 0.9"),
    Row("table", "ringfeed", "tf_data", "rows", "ratio >= 8"),
    Row("table", "ringfeed", "dali", "rows", "ratio >= 50"),
    Row("samples", "ringfeed", "ringfeed_feed", "bytes"),
    Row("samples", "ringfeed", "torch", "bytes", "ratio >= 1.3"),
    Row("samples", "ringfeed", "torch_2_workers", "bytes", "ratio >= 8"),
    Row("samples", "ringfeed", "grain", "bytes"),
    Row("samples", "ringfeed", "tf_data", "bytes"),
    Row("samples", "ringfeed", "numpy", "bytes"),
    Row("push", "push", "numpy", "bytes", "ratio >= 0.8"),
    Row("push", "push_one_thread", "numpy", "bytes", "ratio >= 0.8"),
    Row("push", "push_shared", "numpy", "bytes"),
    Row("tiny", "ringfeed", "ringfeed_feed", "overhead", "ours <= 5"),
    Row("resume", "ringfeed", "grain", "first_batch", "ours <= 30"),
    Row("resume", "ringfeed", "dali", "first_batch", "ours <= 30"),
    Row("resume", "ringfeed", "tf_data", "first_batch", "ours <= 30"),
)
