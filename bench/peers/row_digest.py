"""A digest of the rows that were delivered, the same in whatever order they came."""

from typing import Mapping

import numpy as np

from data_sets import COLUMNS

_WORD = np.dtype("<u8")
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


class RowDigest:
    """Adds up a hash of each row, modulo 2^64. Neither the order of the rows nor their batches
    matter, their bytes and how often each came do."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = np.uint64(0)

    def add(self, batch: Mapping[str, np.ndarray]) -> None:
        """Adds a batch: a column of shape [rows, ...] for each name in COLUMNS, converted to the
        dtype that stands there; others are left out."""
        hashes = None
        for name in sorted(batch.keys() & COLUMNS.keys()):
            column = np.ascontiguousarray(batch[name], dtype=COLUMNS[name])
            column = column.reshape(len(column), -1)
            own = _row_hashes(column)
            hashes = own if hashes is None else _mixed(hashes * _ODD + own)
        self.rows += len(hashes)
        with np.errstate(over="ignore"):
            self._sum += np.add.reduce(_mixed(hashes))

    def text(self) -> str:
        """The digest so far: rows and sum."""
        return f"{self.rows}:{int(self._sum):016x}"


def _row_hashes(column: np.ndarray) -> np.ndarray:
    row_bytes = column.shape[1] * column.itemsize
    data = column.view(np.uint8).reshape(len(column), row_bytes)
    if row_bytes % _WORD.itemsize:
        data = np.pad(data, ((0, 0), (0, -row_bytes % _WORD.itemsize)))
    words = np.ascontiguousarray(data).view(_WORD)
    # A weight of its own for each place, odd: a word that changes changes the sum.
    places = np.arange(1, words.shape[1] + 1, dtype=_WORD)
    return _mixed((words * (_mixed(places * _ODD) | np.uint64(1))).sum(axis=1, dtype=_WORD))


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> _SHIFT)) * _ODD
    return values ^ (values >> _SHIFT)
