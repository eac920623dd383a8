"""JPEG images to rows of pixels, by libjpeg-turbo, on the engine's threads."""

from __future__ import annotations

from typing import NamedTuple, Optional

from . import _core
from .arguments import at_least, counted, text
from .errors import Unsupported
from .parsers import made_parser


class RandomCrop(NamedTuple):
    """A random part of each image, another one in each epoch: by the Loader's seed, the epoch and
    the record alone, so that threads, ranks and a state change nothing.

    Attributes:
        area: the least and the most of the image's.
        ratio: the least and the most of width to height; r is as likely as 1 / r.
        flip: how often left and right are exchanged.
    """

    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5


def decode(
    parser: _core.RecordParser,
    field: str = "jpg",
    height: int = 224,
    width: int = 224,
    *,
    channels: int = 3,
    shorter_side: int = 0,
    random: Optional[RandomCrop] = None,
    max_pixels: int = 1 << 26,
) -> _core.RecordParser:
    """A parser of the same records whose `field`, a JPEG's bytes, becomes its pixels: uint8
    [height, width, channels]. The other fields stay. Several threads decode, without the lock.

    Args:
        parser: what gives the bytes, a ragged field of uint8: ringfeed.tar, example and others.
        channels: 3 for red, green and blue, 1 for brightness.
        shorter_side: the image is resized so that its shorter side has so many pixels, and its
            centre is taken; at least height and width. 0: the centre is as large as the row's
            proportions let it be.
        random: instead of the centre, a random part of each image.
        max_pixels: images of more are damaged.

    A broken image is a damaged record: see skip_damaged of open_files. docs/PYTHON.md says how an
    image is resized.

    Raises:
        Unsupported: this ringfeed was built without libjpeg-turbo.
        Error: for arguments that cannot work, when a chain is built.
    """
    if not hasattr(_core, "jpeg_parser"):
        raise Unsupported(
            "this ringfeed was built without ringfeed::jpeg: install libjpeg-turbo (Debian: "
            "libjpeg62-turbo-dev) and build it again"
        )
    return made_parser(
        "jpeg_parser",
        parser,
        text(field, "field"),
        counted(height, "height"),
        counted(width, "width"),
        counted(channels, "channels"),
        counted(shorter_side, "shorter_side"),
        random,
        at_least(1, max_pixels, "max_pixels"),
    )
