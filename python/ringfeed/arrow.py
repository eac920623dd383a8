"""Batches for Arrow's libraries: pyarrow, Polars, DuckDB and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

from . import _core


class ArrowBatches:
    """Batches one after another, as Arrow's libraries take a stream; each that asks for one gets
    what the loop would get from there on."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return _core.arrow_stream(iter(self._batches))


def to_arrow(batches: Any) -> Union[_core.ArrowBatch, ArrowBatches]:
    """A batch, or all batches of a loop, for Arrow's libraries: `pyarrow.record_batch(…)`,
    `polars.DataFrame(…)` and DuckDB's `FROM …` take the result. Memory is shared, not copied (but
    for bools, which Arrow keeps as bits), so what they keep holds the batches' slots.

    Each field is a column of its name: fixed-size lists for its dimensions, large lists if it is
    ragged, large binary if that is bytes.

    Args:
        batches: a batch (a dict of Arrays, or a tuple of them), or a Loader, a Reader or another
            iterable of batches. A stream takes its columns from the first batch.

    Raises:
        TypeError: something in the batch is no Array: it was converted.
        ValueError: it is one record, not a batch.
        BufferError: of bfloat16, which Arrow has not. A batch on a device has
            `__arrow_c_device_array__` alone.
    """
    if isinstance(batches, Mapping):
        return _core.ArrowBatch(batches)
    if isinstance(batches, tuple) and all(isinstance(each, _core.Array) for each in batches):
        return _core.ArrowBatch(batches)
    if not isinstance(batches, Iterable):
        raise TypeError(f"to_arrow takes a batch or an iterable of batches, not {batches!r:.80}")
    return ArrowBatches(batches)
