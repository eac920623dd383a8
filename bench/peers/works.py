"""What the contestants do: the data sets, their shapes, and how much of them makes a batch."""

import pathlib
from dataclasses import dataclass
from typing import List

SAMPLE_BYTES = 110_000
# The dtype of each column that a digest is taken of.
COLUMNS = {"image": "u1", "label": "<i8", "dense": "<f4", "cat": "<i8", "value": "u1"}


@dataclass(frozen=True)
class Work:
    """One work on one data set.

    Attributes:
        name: as the scripts take it.
        folder: of the data set, in the folder of all of them.
        batch: rows of a batch.
        row_bytes: payload of a row in bytes, where all are of one size, else 0.
        stride: batches between two looks at the clock.
    """

    name: str
    folder: str
    batch: int
    row_bytes: int
    stride: int = 1

    def files(self, data: pathlib.Path) -> List[str]:
        """The paths of the data set's files, in their order."""
        return sorted(str(path) for path in (data / self.folder).glob("part-*"))


# tf.Example of an image of 110,000 bytes and a label, in TFRecord.
IMAGES = Work("images", "images", 64, SAMPLE_BYTES)
# tf.Example of 13 floats, 26 integers and a label in three features, about 250 bytes, in TFRecord.
TABLE = Work("table", "table", 8192, 0)
# Samples of 110,000 bytes one behind the other, globally shuffled.
SAMPLES = Work("samples", "samples", 64, SAMPLE_BYTES)
# Rows of 160 bytes in batches of 16: what is left is the cost of a batch.
TINY = Work("tiny", "tiny", 16, 160, stride=1024)
# Arrays of 1 MB that Python hands over, out of 16 in turn; no files.
PUSH = Work("push", "", 1, 1 << 20, stride=16)
PUSHED_ARRAYS = 16

WORKS = {work.name: work for work in (IMAGES, TABLE, SAMPLES, TINY, PUSH)}
