"""A small convolutional net on digits: JPEG images in tar shards, decoded, cropped, flipped.

    python digits_from_tar.py [FOLDER [EPOCHS]]

scikit-learn brings the images, 8 by 8 pixels of 1,797 handwritten digits. They are written as
WebDataset has them. ringfeed reads the shards and shuffles them globally. It decodes whole images,
and its device crops, flips and normalises them. Torch's DataLoader reads the same shards, gets the
same order, and does all of it on the CPU. Both must end with the same loss.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from typing import Any, Iterator

import numpy
import torch
from fit import Batch, compare, fit
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

import ringfeed
from ringfeed.devices import Normalize

SHARDS = 4
SIDE = 16
CROP = 14
BATCH = 64
SEED = 7
MEAN, SCALE = numpy.float32(75), numpy.float32(1 / 85)
DEVICES = "emu:1"  # one of ringfeed's devices in host memory; a GPU is "cuda:0"


def make_shards(folder: Path) -> None:
    """Each sample is NUMBER.jpg and NUMBER.cls, as WebDataset's ShardWriter writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    for shard in range(SHARDS):
        with tarfile.open(folder / f"digits-{shard:03}.tar", "w") as tar:
            for number in range(shard, len(digits.target), SHARDS):
                pixels = (digits.images[number] * 15).astype("uint8")
                image = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
                jpeg = io.BytesIO()
                image.save(jpeg, "JPEG", quality=90)
                label = str(digits.target[number]).encode()
                for ending, content in (("jpg", jpeg.getvalue()), ("cls", label)):
                    member = tarfile.TarInfo(f"{number:06}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def mixed(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): each bit of the result hangs on
    all. digits_with_libtorch.cc has the same, so that both draw alike."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def decode(jpeg: Any, number: int) -> Any:
    """The pixels, [SIDE, SIDE], for Torch's DataLoader."""
    image = Image.open(io.BytesIO(jpeg))
    if (image.size, image.mode) != ((SIDE, SIDE), "L"):  # no pixel is decoded yet
        raise ValueError(f"sample {number} is no gray image of {SIDE} by {SIDE} pixels")
    return numpy.asarray(image)


def place(number: int, epoch: int) -> tuple[int, int, int]:
    """The top and the left of a sample's crop, and whether it is flipped. They hang on its number
    and the epoch alone: what a sample becomes must not depend on who reads it, and when."""
    drawn = mixed(mixed(mixed(SEED) ^ epoch) ^ number)
    places = SIDE - CROP + 1
    return drawn % places, drawn // places % places, drawn >> 63


def draw_place(sample: dict[str, Any], row: ringfeed.Row) -> dict[str, Any]:
    """The place that a sample's crop has in its epoch, called by the Loader's threads."""
    return {"place": place(int(sample["__key__"].tobytes()), row.epoch)}


def cropped(pixels: Any, number: int, epoch: int) -> torch.Tensor:
    """What the device makes of an image, on the CPU for Torch's DataLoader. It rounds after each
    step, as ringfeed's devices do."""
    top, left, flipped = place(number, epoch)
    pixels = pixels[top : top + CROP, left : left + CROP]
    if flipped:
        pixels = pixels[:, ::-1]
    return torch.from_numpy((pixels.astype(numpy.float32) - MEAN) * SCALE).unsqueeze(0)


def pieces(ragged: ringfeed.Array) -> Iterator[memoryview]:
    """The rows of a ragged field of bytes, which stand one after the other."""
    values, ends = memoryview(ragged), ragged.lod[0].tolist()
    return (values[begin:end] for begin, end in zip(ends, ends[1:]))


def numbers(keys: ringfeed.Array) -> list[int]:
    """The samples' numbers: the keys are their text."""
    return [int(key.tobytes()) for key in pieces(keys)]


def open_loader(folder: Path, parse: Any, **options: Any) -> ringfeed.Loader:
    return ringfeed.Loader(
        folder / "digits-*.tar",
        parse=parse,
        batch=BATCH,
        shuffle="global",
        seed=SEED,
        **options,
    )


def train_batches(folder: Path, epoch: int) -> Iterator[Batch]:
    """An epoch: its images are cropped, flipped and normalised on the device, behind the copy."""
    samples = {"jpg": ("uint8", [-1]), "cls": ("int64", []), "__key__": ("uint8", [-1])}
    images = ringfeed.jpeg.decode(ringfeed.tar(samples), "jpg", SIDE, SIDE, channels=1)
    places = ringfeed.MapRows(draw_place, {"place": ("int32", [3])}, keep=["jpg", "cls"])
    normalize = Normalize(
        "jpg",
        mean=[float(MEAN)],
        scale=[float(SCALE)],
        channels_first=True,
        crop=(CROP, CROP),
        crops="place",
    )
    options = {"first_epoch": epoch, "devices": DEVICES, "transforms": [normalize]}
    with open_loader(folder, images, map=places, **options) as loader:
        for batch in loader:
            yield (torch.from_dlpack(batch["jpg"]),), torch.from_dlpack(batch["cls"])


class TarImages(Dataset[tuple[torch.Tensor, int]]):
    """The shards as a map-style data set: where each sample lies, and a read for each."""

    epoch = 0

    def __init__(self, folder: Path) -> None:
        self._places: dict[int, tuple[Path, int, int, int]] = {}
        for path in sorted(folder.glob("digits-*.tar")):
            with tarfile.open(path) as tar:
                members = tar.getmembers()
                for jpg, cls in zip(members[::2], members[1::2]):
                    label = int(tar.extractfile(cls).read())  # type: ignore[union-attr]
                    place = (path, jpg.offset_data, jpg.size, label)
                    self._places[int(jpg.name.split(".")[0])] = place

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        path, offset, size, label = self._places[number]
        with open(path, "rb") as file:
            file.seek(offset)
            return cropped(decode(file.read(size), number), number, self.epoch), label


def net() -> torch.nn.Module:
    torch.manual_seed(SEED)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 4 * 4, 10),
    )  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/digits")
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    if not folder.exists():
        make_shards(folder)

    by_ringfeed = fit(
        net(),
        torch.nn.functional.cross_entropy,
        epochs,
        lambda epoch: train_batches(folder, epoch),
    )

    # The same order for Torch: the keys alone, of the same Loader.
    with open_loader(folder, ringfeed.tar({"__key__": ("uint8", [-1])})) as keys:
        order = [[numbers(batch["__key__"]) for batch in keys] for _ in range(epochs)]
    images = TarImages(folder)

    def theirs(epoch: int) -> Iterator[Batch]:
        images.epoch = epoch
        for pixels, labels in DataLoader(images, batch_sampler=order[epoch]):
            yield (pixels,), labels

    compare(by_ringfeed, fit(net(), torch.nn.functional.cross_entropy, epochs, theirs))


if __name__ == "__main__":
    main()
