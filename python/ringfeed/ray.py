"""Files as a source of Ray Data. Needs Ray and pyarrow; `import ringfeed.ray`."""

from __future__ import annotations

import glob
import os
from typing import Any, Iterator, Optional

import pyarrow
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from . import chains
from .arguments import at_least
from .arrow import to_arrow
from .loader import Loader


class _Batches:
    """Some batches that follow each other, of the chain that these arguments describe."""

    def __init__(self, arguments: dict[str, Any], begin: int, end: int) -> None:
        self._arguments = arguments
        self._begin = begin
        self._end = end

    def __call__(self) -> Iterator[pyarrow.Table]:
        # Ray keeps several blocks before it stores them: each has memory of its own.
        with Loader(**self._arguments, rank=None, copy=True) as loader:
            loader.seek_to(self._begin)
            for _ in range(self._begin, self._end):
                yield pyarrow.table(to_arrow(next(loader)))


class _Files(Datasource):  # type: ignore[misc,unused-ignore]
    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        with Loader(**arguments, rank=None) as loader:
            self._batches = len(loader)
            self._records = sum(loader._chain.file_records())
        # What a subset leaves out and a filler adds counts in no file.
        self._counts = not arguments.keys() & {"subset", "pad"}

    def get_name(self) -> str:
        return "ringfeed"

    def estimate_inmemory_data_size(self) -> Optional[int]:
        paths = [path for name in self._arguments["files"] for path in glob.glob(name) or [name]]
        if not all(os.path.isfile(path) for path in paths):
            return None  # a folder, or in a store
        return sum(os.stat(path).st_size for path in paths)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: Optional[int] = None, data_context: Any = None
    ) -> list[ReadTask]:
        tasks = max(1, min(parallelism, self._batches))
        ends = [self._batches * task // tasks for task in range(tasks + 1)]
        return [self._task(*places, per_task_row_limit) for places in zip(ends, ends[1:])]

    def _task(self, begin: int, end: int, row_limit: Optional[int]) -> ReadTask:
        rows = self._arguments["batch"]
        count = min(end * rows, self._records) - begin * rows if self._counts else None
        if count is not None and row_limit is not None:
            count = min(count, row_limit)
        read = _Batches(self._arguments, begin, end)
        metadata = BlockMetadata(num_rows=count, size_bytes=None, exec_stats=None)
        return ReadTask(read, metadata, per_task_row_limit=row_limit)


def datasource(
    files: chains.Files, *, parse: Any = "auto", batch: int = 4096, **options: Any
) -> Datasource:
    """Record files for `ray.data.read_datasource`. Each read task reads batches that follow each
    other, by the files' index, which this call makes if it is missing; so any number of tasks reads
    each record once. A task opens the files in its own process, on its own machine.

    Args:
        files: a path, a glob or an address, or a list of them: the same on every machine.
        parse: as for a Loader; by name or "auto", but no Parser of one's own.
        batch: rows of a block, from 1.
        options: others of a Loader: shuffle and seed, map, format, and those of open_files.

    Raises:
        TypeError, ValueError, ringfeed.Error: as a Loader. TypeError: the number of batches is not
            known beforehand (streams, a filter, skip_damaged).
    """
    names = chains.file_names(files)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("datasource takes files by name: a Source is of one process")
    for name in ("rank", "copy", "passes", "devices"):
        if name in options:
            raise TypeError(f"datasource takes no {name}: Ray Data shares the batches out")
    at_least(1, batch, "batch")
    return _Files({**options, "files": names, "parse": parse, "batch": batch})
