"""JPEG images that a GPU decodes: their bytes stay in pinned host memory, where nvImageCodec reads
them, and all else of a batch is on the device.

    python decode_on_gpu.py [FOLDER]      # needs a GPU, Pillow and nvidia-nvimgcodec-cu12

Exit status 77, with the reason: it cannot run here.
"""

import importlib.util
import io
import sys
import tarfile
from pathlib import Path

import ringfeed
from ringfeed.devices import DevicePlan

IMAGES, SIDE = 96, 48


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def make_images(path):
    """Samples NUMBER.jpg and NUMBER.cls, as WebDataset has them."""
    import PIL.Image

    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number in range(IMAGES):
            jpeg = io.BytesIO()
            PIL.Image.new("RGB", (SIDE + number, SIDE), (number, 99, 0)).save(jpeg, "JPEG")
            for ending, content in (("jpg", jpeg.getvalue()), ("cls", b"%d" % number)):
                member = tarfile.TarInfo(f"{number:04}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def main(folder):
    try:
        from nvidia import nvimgcodec
    except ImportError as missing:
        skip(f"{missing}: pip install nvidia-nvimgcodec-cu12[all]")
    if importlib.util.find_spec("PIL") is None:
        skip("Pillow is not installed")
    make_images(folder / "images.tar")
    loader = ringfeed.Loader(
        folder / "images.tar",
        parse=ringfeed.tar({"jpg": ("uint8", [-1]), "cls": ("int64", [])}),
        batch=16,
        shuffle="global",
        seed=7,
        devices=DevicePlan("cuda:0", host_fields=["jpg"]),
    )
    decoder = nvimgcodec.Decoder(device_id=0)
    decoded = 0
    with loader:
        for batch in loader:
            # The batch's memory is written again after the default stream's work: the decoder's.
            labels = batch["cls"].on(1)
            content, at = batch["jpg"].numpy(), batch["jpg"].offsets.numpy()
            images = decoder.decode([content[a:b] for a, b in zip(at, at[1:])])
            if any(image is None or image.shape[0] != SIDE for image in images):
                raise ValueError("an image was not decoded")
            decoded += len(labels)
    print(f"{decoded} images")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "data/images"))
    except ringfeed.errors.Unsupported as error:
        skip(str(error))
