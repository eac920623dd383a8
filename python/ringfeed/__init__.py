"""Records of files to batches, at the speed of the disk and the memory, with little CPU.

Loader feeds a training loop; LoDTensorBlockingQueue and py_reader take what Python makes into
chains of C++ readers. docs/PYTHON.md is the guide.
"""

from __future__ import annotations

import atexit as _atexit

from . import _core, devices, errors, jpeg, reader
from ._core import Array, Reader, RecordParser, RecordWriter, Row, Scope
from .arrow import to_arrow
from .blocking_queue import LoDTensorBlockingQueue
from .chains import (
    batch,
    bucket_batch,
    csv_columns,
    double_buffer,
    filter,
    group_batch,
    map,
    mix,
    multi_pass,
    multiplex,
    next_pass,
    open_files,
    pack,
    pad,
    parse,
    read_as,
    share,
    shuffle,
    token_batch,
    truncate,
    write_subset,
)
from .compiled import compiled
from .dataset import Dataset, Parser, RandomAccessDataset, from_dataset, from_iterable
from .errors import Damaged, Error
from .fields import Field
from .journal import Journal
from .loader import Loader
from .loader_plan import Shuffle
from .parsers import (
    csv,
    example,
    instance,
    jsonl,
    lod_tensors,
    ofrecord,
    raw,
    rows,
    sequence_example,
    tar,
    tokens,
)
from .py_reader import PyReader, create_py_reader_by_data, data, py_reader
from .py_reader import end_all as _end_all
from .program import FeedProgram
from .program_readers import (
    create_multiplex_reader,
    create_recordio_reader,
    open_file,
    read_recordio,
)
from .ranks import Rank, data_rank, find_rank
from .record_writer import (
    build_example,
    build_instance,
    build_lod_tensors,
    build_ofrecord,
    open_record_writer,
)
from .records import RecordPlace, Records
from .row_map import MapRows
from .source import Source
from .steps import Balance, Batch, BucketBatch, Pack, Steps, TokenBatch
from .tables import arrow_ipc, parquet, table

__all__ = [
    "Array",
    "Balance",
    "Batch",
    "BucketBatch",
    "Damaged",
    "Dataset",
    "Error",
    "FeedProgram",
    "Field",
    "Journal",
    "LoDTensorBlockingQueue",
    "Loader",
    "MapRows",
    "Pack",
    "Parser",
    "PyReader",
    "RandomAccessDataset",
    "Rank",
    "Reader",
    "RecordParser",
    "RecordPlace",
    "RecordWriter",
    "Records",
    "Row",
    "Scope",
    "Shuffle",
    "Source",
    "Steps",
    "TokenBatch",
    "__version__",
    "arrow_ipc",
    "batch",
    "bucket_batch",
    "build_example",
    "build_instance",
    "build_lod_tensors",
    "build_ofrecord",
    "compiled",
    "create_multiplex_reader",
    "create_py_reader_by_data",
    "create_recordio_reader",
    "csv",
    "csv_columns",
    "data",
    "data_rank",
    "devices",
    "double_buffer",
    "errors",
    "example",
    "filter",
    "find_rank",
    "from_dataset",
    "from_iterable",
    "group_batch",
    "instance",
    "jpeg",
    "jsonl",
    "lod_tensors",
    "map",
    "mix",
    "multi_pass",
    "multiplex",
    "next_pass",
    "ofrecord",
    "open_file",
    "open_files",
    "open_record_writer",
    "pack",
    "pad",
    "parquet",
    "parse",
    "py_reader",
    "raw",
    "read_as",
    "read_recordio",
    "reader",
    "rows",
    "sequence_example",
    "share",
    "shuffle",
    "table",
    "tar",
    "to_arrow",
    "token_batch",
    "tokens",
    "truncate",
    "write_subset",
]

__version__: str = _core.version


@_atexit.register
def _close_all() -> None:
    try:
        _core.close_all()
    finally:
        _end_all()
