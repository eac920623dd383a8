"""Journals: what a loop was given, in a file that outlives its process, for `ringfeed audit`."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from . import _core
from .arguments import text
from .chains import PathLike, file_name
from .errors import Error, InvalidArgument
from .loader import Loader
from .ranks import Rank

__all__ = ["Journal"]

#: What a launcher tells all processes of one launch, and no other launch, by who says the rank.
_LAUNCH_VARIABLES = {
    "torchrun": ("TORCHELASTIC_RUN_ID",),
    "Open MPI": ("PMIX_NAMESPACE",),
    "Slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
}


class Journal:
    """Notes which records each batch of a Loader had: `ringfeed audit` proves from the journals of
    all ranks and runs that every record was delivered exactly once.

    A file for each rank and each epoch, for all runs of these. A run that goes on appends to what
    the one before wrote. A batch is a line, written at once, so a process that is killed loses at
    most the line that it was writing. Call `append` for each batch, before the state after it is
    saved. What a state counts then stands in the journal, and what a run delivered after the state
    that the next one goes on from counts as rolled back.

    Any thread may call it; nobody waits with Python's lock. In a forked child `close` does nothing,
    and the other calls raise RuntimeError.

    Args:
        path: of the file, which is made, or appended to.
        loader: of files, in host memory, with note_records=True; where the run begins: after
            load_state_dict. At the end of an epoch it goes on to the next one.
        launch: a name that all ranks of one launch share, and no other launch has; None: as the
            launcher says, if it does.

    Raises:
        TypeError: a Loader of a chain of one's own, or on devices.
        InvalidArgument: note_records is not set; the file is no journal; another process writes it.
        IoError, NotFound, PermissionDenied: the file cannot be written.
    """

    def __init__(self, path: PathLike, loader: Loader, launch: Optional[str] = None) -> None:
        if launch is not None:
            text(launch, "launch")
        self._loader = loader
        if loader._find_end():
            loader._start_epoch()
        self._epoch = loader._epoch
        self._writer = _core.JournalWriter(file_name(path), _start_of(loader, launch))

    def append(self) -> None:
        """Notes the batch that the loop got last.

        Raises:
            ValueError: there is none, or it is of another epoch than that of the journal.
            IoError: the file cannot be written; the batch is not in it.
        """
        if self._loader._at_end:
            raise ValueError("the loop is at its end: append() stands in it, after each batch")
        if self._loader._epoch != self._epoch:
            raise ValueError(
                f"this journal is of epoch {self._epoch}, the loop is in {self._loader._epoch}: "
                "open one for each epoch"
            )
        reader = self._loader._reader
        assert isinstance(reader, _core.Reader)  # what _start_of made sure of
        self._writer.append(reader)

    def end(self) -> None:
        """Notes that the data are at their end, and what the Loader left out as damaged. After a
        loop that took as many batches as there are and did not look for more it looks itself, and
        waits for that.

        Raises:
            ValueError: the loop is not at its end.
            IoError: the file cannot be written.
        """
        if not self._loader._find_end():
            raise ValueError("the loop is not at its end: end() stands after it")
        damaged = int(self._loader.stats()["damaged_records"])
        if damaged:
            self._writer.damage(damaged)
        self._writer.end(self._loader._batches_before(_position_of(self._loader)))

    def close(self) -> None:
        """Closes the file; more calls do nothing."""
        self._writer.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _start_of(loader: Loader, launch: Optional[str]) -> dict[str, Any]:
    """What the journal of a run that begins where the Loader stands begins with."""
    plan = loader._plan
    if plan is None:
        raise TypeError("a journal is of a Loader of files: a chain of one's own says too little")
    if plan.devices is not None:
        raise TypeError("a journal is of batches in host memory, not on devices")
    if not plan.options.get("note_records"):
        raise InvalidArgument(
            "the Loader does not know which records a batch has: say note_records=True to it"
        )
    rank = plan.rank or Rank()
    position = _position_of(loader)
    data = dict(position["data"])
    data.pop("records", None)
    records = _file_records(loader)
    subset = plan.options.get("subset") is not None
    # Records without units, and the rest of a pass, may be in no planned batch.
    leaves_out = plan.filter is not None or not isinstance(plan.batch, int)
    rule = "any_times" if plan.passes != 1 else "at_most_once" if leaves_out else "once"
    return {
        "batch": loader._batches_before(position),
        "rank": rank.rank,
        "ranks": rank.world_size,
        "replica": rank.replica,
        "replicas": rank.replicas,
        "batch_rows": plan.batch if isinstance(plan.batch, int) else 0,
        "drop_remainder": plan.drop_remainder,
        "split_by_files": plan.split_by_files,
        "rule": rule,
        "data": json.dumps(data, separators=(",", ":"), ensure_ascii=False),
        "launch": _launch_of(rank) if launch is None else launch,
        "epoch": loader._epoch,
        "total_records": sum(records),
        "subset": subset,
        "records": [] if subset else records,
    }


def _position_of(loader: Loader) -> dict[str, Any]:
    position: dict[str, Any] = loader.state_dict()["position"]
    return position


def _file_records(loader: Loader) -> list[int]:
    """Of each file; [] if that is not known: then an audit counts them itself."""
    try:
        return list(loader._chain.file_records())
    except Error:
        return []


def _launch_of(rank: Rank) -> str:
    if "RINGFEED_RUN_ID" in os.environ:
        return os.environ["RINGFEED_RUN_ID"]
    variables = _LAUNCH_VARIABLES.get(rank.source, ())
    return ".".join(os.environ[name] for name in variables if name in os.environ)
