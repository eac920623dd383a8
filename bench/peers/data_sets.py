"""The data sets, made by the command `ringfeed` and kept."""

import json
import pathlib
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Union

from works import PUSHED_ARRAYS, SAMPLE_BYTES, SAMPLES, Work

FILES = 8
LABELS = 100


@dataclass(frozen=True)
class Sizes:
    """Records of the data sets.

    Attributes:
        samples: samples of 110,000 bytes, and as many images.
        table: rows of the table.
        tiny: rows of 160 bytes.
    """

    samples: int
    table: int
    tiny: int

    def rows(self) -> Dict[str, int]:
        """Rows of a pass, by the work."""
        return {"images": self.samples, "samples": self.samples, "table": self.table,
                "tiny": self.tiny, "push": PUSHED_ARRAYS}


FULL = Sizes(samples=14_336, table=2_097_152, tiny=4_194_304)
SMALL = Sizes(samples=512, table=65_536, tiny=262_144)


def make(command: str, data: pathlib.Path, sizes: Sizes) -> None:
    """Makes what is missing of the data sets in the folder `data`.

    Args:
        command: the path of `ringfeed`.

    Raises:
        subprocess.CalledProcessError: the command failed; it has said why on stderr.
    """
    data.mkdir(parents=True, exist_ok=True)
    makers = {
        "samples": lambda folder: _make(command, folder, "rows", sizes.samples, SAMPLE_BYTES),
        "images": lambda folder: _make_images(command, data / "samples", folder),
        "table": lambda folder: _make(command, folder, "table", sizes.table),
        "tiny": lambda folder: _make(command, folder, "rows", sizes.tiny, 160),
    }
    for name, maker in makers.items():
        made(data / name, maker)


def made(path: pathlib.Path, maker: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The folder or the file, which `maker` makes where it is missing. One that was not finished
    has another name, and is made again."""
    if not path.exists():
        partial = path.with_name(f"{path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # a file is written over
        maker(partial)
        partial.rename(path)
    return path


def records(work: Work, data: pathlib.Path) -> Iterator[Dict[str, Union[bytes, int]]]:
    """The rows of `images` or `samples` in their order, for the peers that have a format of their
    own: the columns as the work has them."""
    number = 0
    for name in SAMPLES.files(data):
        with open(name, "rb") as source:
            while sample := source.read(SAMPLE_BYTES):
                if work.name == "images":
                    yield {"image": sample, "label": number % LABELS}
                else:
                    yield {"value": sample}
                number += 1


def into_page_cache(data: pathlib.Path) -> None:
    """Reads every file once."""
    for path in sorted(data.glob("*/*")):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def _make(command: str, folder: pathlib.Path, kind: str, records: int, size: int = 0) -> None:
    options = ["--record-bytes", str(size)] if size else []
    _run([command, "make", str(folder), "--kind", kind, "--records", str(records), "--files",
          str(FILES), *options, "--json"])


def _make_images(command: str, samples: pathlib.Path, folder: pathlib.Path) -> None:
    """The samples as tf.Example with a label, in TFRecord. All have the same length, so that they
    are rows, which the command then puts into frames."""
    rows = folder / "rows"
    rows.mkdir(parents=True)
    number = size = 0
    for path in sorted(samples.glob("part-*")):
        with open(path, "rb") as source, open(rows / path.name, "wb") as target:
            while sample := source.read(SAMPLE_BYTES):
                example = _example(sample, number % LABELS)
                size = len(example)
                target.write(example)
                number += 1
    _run([command, "convert", *map(str, sorted(rows.glob("part-*"))), f"{folder}/", "--from",
          f"rows:{size}", "--to", "tfrecord", "--json"])
    shutil.rmtree(rows)


def _example(image: bytes, label: int) -> bytes:
    """A tf.Example of one image and one label below 128, as Protobuf writes it."""
    features = (_entry(b"image", _field(1, _field(1, image)))
                + _entry(b"label", _field(3, _field(1, bytes([label])))))
    return _field(1, features)


def _entry(key: bytes, feature: bytes) -> bytes:
    return _field(1, _field(1, key) + _field(2, feature))


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _run(command: List[str]) -> Dict[str, object]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)
