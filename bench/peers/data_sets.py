"""What the contestants do: the data sets, made by the command `ringfeed` and kept, their shapes,
and how much of them makes a batch."""

import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from typing import Any, Callable, Collection, Dict, Iterator, List, Tuple, Union

SAMPLE_BYTES = 110_000
FILES = 8
LABELS = 100
PUSHED_ARRAYS = 16
# Of decoded images, [height, width] of a row and the shorter side that they are resized to.
CROP, SHORTER_SIDE = 224, 256
# The dtype of each column that a digest is taken of; not of "jpg", whose pixels decoders round otherwise.
COLUMNS = {"cls": "<i8", "image": "u1", "label": "<i8", "dense": "<f4", "cat": "<i8", "value": "u1"}


@dataclass(frozen=True)
class Work:
    """One work on one data set.

    Attributes:
        name: of the work, and of the data set's folder in the folder of all of them.
        batch: rows of a batch.
        row_bytes: payload of a row in bytes if all are of one size, else 0.
        records: of a pass; in a smoke run `smoke`.
        stride: batches between two looks at the clock.
    """

    name: str
    batch: int
    row_bytes: int
    records: int
    smoke: int
    stride: int = 1

    def files(self, data: pathlib.Path) -> List[str]:
        """The paths of the data set's files, in their order."""
        return sorted(str(path) for path in (data / self.name).glob("part-*"))


# tf.Example of an image of 110,000 bytes and a label, in TFRecord.
IMAGES = Work("images", 64, SAMPLE_BYTES, 14_336, 512)
# tf.Example of 13 floats, 26 integers and a label in three features, about 250 bytes, in TFRecord.
TABLE = Work("table", 8192, 0, 2_097_152, 65_536)
# Samples of 110,000 bytes one after the other, globally shuffled.
SAMPLES = Work("samples", 64, SAMPLE_BYTES, 14_336, 512)
# Rows of 160 bytes in batches of 16: what is left is the cost of a batch.
TINY = Work("tiny", 16, 160, 4_194_304, 262_144, stride=1024)
# Arrays of 1 MB that Python hands over, out of 16 in turn; no files.
PUSH = Work("push", 1, 1 << 20, PUSHED_ARRAYS, PUSHED_ARRAYS, stride=16)

# JPEGs of 500 by 375 pixels and about 110 KB with their numbers, in tar files: to pixels.
JPEGS = Work("jpegs", 64, 0, 1_024, 128)

# The files of IMAGES as objects of a store, each pass by a process that has read nothing.
STORE = Work("store", 64, SAMPLE_BYTES, 14_336, 512)

WORKS = {work.name: work for work in (IMAGES, TABLE, SAMPLES, TINY, PUSH, JPEGS, STORE)}
# The data sets of works that have none of their own name, or need another's.
NEEDS = {"images": ["samples"], "resume": ["samples", "images"], "store": ["samples", "images"]}


def make(command: str, data: pathlib.Path, smoke: bool, names: Collection[str]) -> None:
    """Makes what is missing of the data sets in the folder `data`, and reads every file once.

    Args:
        command: the path of `ringfeed`.
        names: of the works whose data sets are made.

    Raises:
        subprocess.CalledProcessError: the command failed; it has said why on stderr.
    """
    data.mkdir(parents=True, exist_ok=True)
    makers = {
        SAMPLES: lambda folder: _make(command, folder, "rows", SAMPLES, smoke),
        IMAGES: lambda folder: _make_images(command, data, folder),
        TABLE: lambda folder: _make(command, folder, "table", TABLE, smoke),
        TINY: lambda folder: _make(command, folder, "rows", TINY, smoke),
        JPEGS: lambda folder: _make_jpegs(folder, JPEGS.smoke if smoke else JPEGS.records),
    }
    if not _has_pillow():
        del makers[JPEGS]  # whoever wants them says that they are not there
    needed = {*names, *(needed for name in names for needed in NEEDS.get(name, []))}
    for work, maker in makers.items():
        if work.name not in needed:
            continue
        made(data / work.name, maker)
    for path in sorted(data.glob("*/*")):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def made(path: pathlib.Path, maker: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The folder or the file, which `maker` makes if it is missing. One that was not finished has
    another name, and is made again."""
    if not path.exists():
        partial = path.with_name(f"{path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # a file is written over
        maker(partial)
        partial.rename(path)
    return path


def samples_of(data: pathlib.Path) -> Iterator[bytes]:
    """The samples in their order."""
    for name in SAMPLES.files(data):
        with open(name, "rb") as source:
            while sample := source.read(SAMPLE_BYTES):
                yield sample


def records(work: Work, data: pathlib.Path) -> Iterator[Dict[str, Union[bytes, int]]]:
    """The rows of `images` or `samples` in their order, for the peers that have a format of their
    own: the columns as the work has them."""
    for number, sample in enumerate(samples_of(data)):
        if work is IMAGES:
            yield {"image": sample, "label": number % LABELS}
        else:
            yield {"value": sample}


def _make(command: str, folder: pathlib.Path, kind: str, work: Work, smoke: bool) -> None:
    size = ["--record-bytes", str(work.row_bytes)] if work.row_bytes else []
    count = str(work.smoke if smoke else work.records)
    _run([command, "make", str(folder), "--kind", kind, "--records", count, "--files", str(FILES),
          *size, "--json"])


def _make_images(command: str, data: pathlib.Path, folder: pathlib.Path) -> None:
    """The samples as tf.Example with a label, in TFRecord. All have the same length, so that they
    are rows, which the command then puts into frames."""
    rows = folder / "rows"
    rows.mkdir(parents=True)
    number = size = 0
    for path in map(pathlib.Path, SAMPLES.files(data)):
        with open(path, "rb") as source, open(rows / path.name, "wb") as target:
            while sample := source.read(SAMPLE_BYTES):
                example = _example(sample, number % LABELS)
                size = len(example)
                target.write(example)
                number += 1
    _run([command, "convert", *map(str, sorted(rows.glob("part-*"))), f"{folder}/", "--from",
          f"rows:{size}", "--to", "tfrecord", "--json"])
    shutil.rmtree(rows)


def members(path: str) -> Iterator[Tuple[int, int, int]]:
    """Of each image in a tar file its number, its offset and its size."""
    with tarfile.open(path) as tar:
        for member in tar:
            if member.name.endswith(".jpg"):
                yield int(member.name[:-4]), member.offset_data, member.size


def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def _make_jpegs(folder: pathlib.Path, count: int) -> None:
    """Noise whose strength falls with its frequency, as in photographs."""
    folder.mkdir()
    for file in range(FILES):
        with tarfile.open(folder / f"part-{file}.tar", "w") as tar:
            for number in range(file, count, FILES):
                for ending, content in (("jpg", _jpeg(number)), ("cls", b"%06d" % number)):
                    member = tarfile.TarInfo(f"{number:06}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def _jpeg(number: int) -> bytes:
    import numpy as np  # pylint: disable=import-outside-toplevel  # with Pillow: for these data alone
    from PIL import Image  # pylint: disable=import-outside-toplevel

    height, width = 375, 500
    noise = np.random.default_rng(number).normal(size=(3, height, width))
    falls = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)) ** 1.1
    falls[0, 0] = 1
    planes = np.fft.irfft2(np.fft.rfft2(noise) / falls, s=(height, width))
    planes /= planes.std(axis=(1, 2), keepdims=True)
    gray, *colours = planes
    pixels = np.stack([128 + 45 * gray + 12 * c for c in (*colours, -colours[0])], axis=-1)
    file = io.BytesIO()
    image: Any = Image.fromarray(pixels.clip(0, 255).astype("uint8"))
    image.save(file, "JPEG", quality=92)
    return file.getvalue()


def _example(image: bytes, label: int) -> bytes:
    """A tf.Example of one image and one label below 128, as Protobuf writes it."""
    features = (_entry(b"image", _field(1, _field(1, image)))
                + _entry(b"label", _field(3, _field(1, bytes([label])))))
    return _field(1, features)


def _entry(key: bytes, feature: bytes) -> bytes:
    return _field(1, _field(1, key) + _field(2, feature))


def _field(number: int, payload: bytes) -> bytes:
    size, digits = len(payload), []
    while size > 127:
        digits.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *digits, size]) + payload


def _run(command: List[str]) -> Dict[str, object]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)
