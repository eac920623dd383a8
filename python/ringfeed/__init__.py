"""Records of files to batches, at the speed of the disk and the memory, with little CPU.

Loader feeds a training loop; LoDTensorBlockingQueue and py_reader take what Python makes into
chains of C++ readers. docs/PYTHON.md is the guide.
"""

from __future__ import annotations

import atexit as _atexit

from . import _core, errors as errors
from ._core import Array, Reader, RecordParser
from .chains import (
    Rank,
    batch,
    bucket_batch,
    double_buffer,
    filter,
    find_rank,
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
)
from .compiled import compiled
from .errors import Error
from .fields import Field
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

__version__: str = _core.version

_atexit.register(_core.close_all)
