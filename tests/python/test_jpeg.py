"""JPEG fields to pixels, beside Pillow's."""

from __future__ import annotations

import io
import math
import tarfile
from pathlib import Path
from typing import Any

import pytest

import ringfeed
from ringfeed import _core

numpy: Any = pytest.importorskip("numpy", reason="NumPy is not installed")
pillow: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
pytestmark = pytest.mark.skipif(
    not hasattr(_core, "jpeg_parser"), reason="this ringfeed was built without libjpeg-turbo"
)

#: What Pillow encodes, and how.
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RGB", {"subsampling": 0}),
    ("RGB", {"subsampling": 1}),
    ("RGB", {"subsampling": 2, "progressive": True}),
    ("L", {}),
    ("CMYK", {}),
    ("RGB", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"}),
]


def picture(mode: str, width: int = 320, height: int = 240, **options: Any) -> bytes:
    """A smooth picture with edges, as a JPEG."""
    y, x = numpy.mgrid[0:height, 0:width]
    channels = len(pillow.new(mode, (1, 1)).getbands())
    waves = [
        110 + 60 * numpy.sin(0.05 * x + c) + 40 * numpy.cos(0.03 * y * (c + 1)) + 30 * (x > 170)
        for c in range(channels)
    ]
    pixels = numpy.stack(waves, -1).astype("uint8").squeeze()
    file = io.BytesIO()
    pillow.fromarray(pixels, mode).save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def write_tar(path: Path, images: list[bytes]) -> str:
    """Samples of an image and its number."""
    with tarfile.open(path, "w") as tar:
        for number, image in enumerate(images):
            for ending, content in (("jpg", image), ("cls", b"%d" % number)):
                member = tarfile.TarInfo(f"{number:04}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return str(path)


def parser(**options: Any) -> ringfeed.RecordParser:
    samples = ringfeed.tar({"jpg": ("uint8", [-1]), "cls": ("int64", [])})
    return ringfeed.jpeg.decode(samples, **options)


def rows(file: str, count: int, **options: Any) -> Any:
    """The pixels of all rows in one batch."""
    with ringfeed.Loader(file, parse=parser(**options), batch=count) as loader:
        batch = next(loader)
        assert batch["cls"].tolist() == list(range(count))
        return batch["jpg"].numpy().copy()


def by_pillow(image: bytes, height: int, width: int, shorter_side: int = 0) -> Any:
    whole = pillow.open(io.BytesIO(image)).convert("RGB")
    scale = shorter_side / min(whole.size) or max(width / whole.width, height / whole.height)
    left = (whole.width - width / scale) / 2
    top = (whole.height - height / scale) / 2
    box = (left, top, left + width / scale, top + height / scale)
    return numpy.asarray(whole.resize((width, height), pillow.Resampling.BILINEAR, box=box))


def psnr(ours: Any, theirs: Any) -> float:
    error = ((ours.astype(float) - theirs.astype(float)) ** 2).mean()
    return 99 if error == 0 else 10 * math.log10(255**2 / error)


@pytest.mark.parametrize(
    "height, width, shorter_side", [(224, 224, 0), (200, 130, 210), (240, 320, 0)]
)
def test_pixels_are_pillows_but_for_rounding(
    tmp_path: Path, height: int, width: int, shorter_side: int
) -> None:
    images = [picture(mode, **options) for mode, options in KINDS]
    size = {"height": height, "width": width, "shorter_side": shorter_side}
    all_rows = rows(write_tar(tmp_path / "x.tar", images), len(images), **size)
    for ours, image in zip(all_rows, images):
        theirs = by_pillow(image, height, width, shorter_side)
        difference = numpy.abs(ours.astype(int) - theirs.astype(int)).max()
        cmyk = pillow.open(io.BytesIO(image)).mode == "CMYK"
        assert difference <= (2 if cmyk else 1)


def test_images_that_libjpeg_scales_look_like_pillows(tmp_path: Path) -> None:
    images = [picture(mode, 640, 480, **options) for mode, options in KINDS]
    file = write_tar(tmp_path / "x.tar", images)
    for side in (64, 100, 224):
        for ours, image in zip(rows(file, len(images), height=side, width=side), images):
            assert psnr(ours, by_pillow(image, side, side)) > 38


def test_gray_rows_are_the_brightness_that_pillow_reads(tmp_path: Path) -> None:
    image = picture("RGB")
    gray = pillow.open(io.BytesIO(image))
    gray.draft("L", gray.size)
    (ours,) = rows(write_tar(tmp_path / "x.tar", [image]), 1, height=240, width=320, channels=1)
    assert (ours.squeeze() == numpy.asarray(gray)).all()


def test_a_chain_decodes_any_parsers_field(tmp_path: Path) -> None:
    with ringfeed.open_record_writer(str(tmp_path / "x.tfrecord"), "tfrecord") as writer:
        writer.write(ringfeed.build_example({"image/encoded": [picture("RGB")]}))
    example = ringfeed.example({"image/encoded": ("uint8", [-1])})
    decoded = ringfeed.jpeg.decode(example, "image/encoded", 120, 160)
    reader = ringfeed.parse(ringfeed.open_files(str(tmp_path / "x.tfrecord")), decoded)
    assert [slot[:3] for slot in reader.slots] == [("image/encoded", "uint8", [120, 160, 3])]
    (batch,) = list(ringfeed.batch(reader, 1))
    assert psnr(batch[0].numpy()[0], by_pillow(picture("RGB"), 120, 160)) > 38


def test_random_crops_are_new_in_each_epoch_and_the_same_after_a_state(tmp_path: Path) -> None:
    file = write_tar(tmp_path / "x.tar", [picture("RGB")] * 12)
    random = {"random": ringfeed.jpeg.RandomCrop(), "height": 32, "width": 32}

    def loader(threads: int = 1) -> ringfeed.Loader:
        return ringfeed.Loader(file, parse=parser(**random), batch=6, seed=7, threads=threads)

    with loader() as one:
        epochs = [[batch["jpg"].tobytes() for batch in one] for _ in range(2)]
        assert len({pixels for epoch in epochs for pixels in epoch}) == 4
    with loader(threads=2) as another:
        assert [batch["jpg"].tobytes() for batch in another] == epochs[0]
        assert next(iter(another))["jpg"].tobytes() == epochs[1][0]
        state = another.state_dict()
    with loader() as again:
        again.load_state_dict(state)
        assert next(again)["jpg"].tobytes() == epochs[1][1]


def test_a_broken_image_is_damage_by_policy(tmp_path: Path) -> None:
    images = [picture("RGB")] * 5
    images[3] = images[3][:-500]
    file = write_tar(tmp_path / "x.tar", images)
    with ringfeed.Loader(file, parse=parser(), batch=5, skip_damaged=True) as loader:
        assert next(loader)["cls"].tolist() == [0, 1, 2, 4]
        assert loader.stats()["damaged_records"] == 1
    with ringfeed.Loader(file, parse=parser(), batch=5) as loader:
        assert next(loader)["cls"].tolist() == [0, 1, 2]
        with pytest.raises(ringfeed.Error, match="x.tar.*Premature end of JPEG file"):
            next(loader)


def test_what_cannot_work_is_refused_in_a_line(tmp_path: Path) -> None:
    file = write_tar(tmp_path / "x.tar", [picture("L")])
    with pytest.raises(ringfeed.Error, match='no field "png" with JPEGs; there are "jpg", "cls"'):
        ringfeed.Loader(file, parse=parser(field="png"), batch=1)
    with pytest.raises(ringfeed.Error, match="shorter_side, 100, is less than a row's"):
        ringfeed.Loader(file, parse=parser(shorter_side=100), batch=1)
    with pytest.raises(TypeError, match="height must be an integer"):
        parser(height="224")
    with pytest.raises(ValueError, match="max_pixels must be at least 1"):
        parser(max_pixels=0)
    with pytest.raises(ringfeed.Error, match="0 < min_area <= max_area <= 1"):
        parser(random=ringfeed.jpeg.RandomCrop(area=(0.5, 2)))
    with pytest.raises(TypeError, match="parser: RecordParser, not str"):
        ringfeed.jpeg.decode("tar")  # type: ignore[arg-type]
