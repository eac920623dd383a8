"""Images that are decoded, cropped and made brighter or darker, each as its own random numbers say:
two ranks stop in the middle, three go on, and no pixel is another one.

    python augment_images.py [FOLDER]                  # needs Pillow, which makes the images
"""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy
import PIL.Image

import ringfeed

IMAGES, BATCH, SIDE = 96, 12, 32
STOP = 3  # batches


def make_images(folder):
    """Two shards of samples NUMBER.jpg and NUMBER.cls, as WebDataset has them."""
    folder.mkdir(parents=True)
    for shard in range(2):
        with tarfile.open(folder / f"images-{shard}.tar", "w") as tar:
            for number in range(shard, IMAGES, 2):
                y, x = numpy.mgrid[0 : 60 + number, 0:80]
                waves = [127 + 90 * numpy.sin((x + c * y) / (9 + number / 8)) for c in range(3)]
                jpeg = io.BytesIO()
                PIL.Image.fromarray(numpy.stack(waves, -1).astype("uint8")).save(jpeg, "JPEG")
                for ending, content in (("jpg", jpeg.getvalue()), ("cls", b"%d" % number)):
                    member = tarfile.TarInfo(f"{number:04}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def change_brightness(fields, row: ringfeed.Row):
    """Called for each image, by the Loader's threads. `row` draws by seed, epoch and record."""
    factor = row.generator().uniform(0.6, 1.4)
    return {"jpg": (fields["jpg"] * factor).clip(0, 255).astype("uint8")}


def open_loader(folder):
    samples = ringfeed.tar({"jpg": ("uint8", [-1]), "cls": ("int64", [])})
    crop = ringfeed.jpeg.RandomCrop(area=(0.3, 1.0))
    return ringfeed.Loader(  # the rank's part of each batch
        folder / "images-*.tar",
        parse=ringfeed.jpeg.decode(samples, "jpg", SIDE, SIDE, random=crop),
        map=ringfeed.MapRows(change_brightness, {"jpg": ("uint8", (SIDE, SIDE, 3))}, keep=["cls"]),
        batch=BATCH,
        shuffle="global",
        seed=7,
    )


def run_rank(folder, into, stop):
    """From the saved state, if there is one, to a batch or the end; keeps what the loop got."""
    seen, state = {}, folder / "state.json"
    with open_loader(folder) as loader:
        if state.exists():
            loader.load_state_dict(json.loads(state.read_text()))
        for batch in loader:
            for number, pixels in zip(batch["cls"].tolist(), batch["jpg"].numpy()):
                seen[str(number)] = pixels.copy()
            if loader.batch_number == stop:
                break
        saved = json.dumps(loader.state_dict())
    rank = ringfeed.find_rank().rank
    numpy.savez(folder / f"{into}-{rank}.npz", **seen)
    if rank == 0:
        (folder / f"{into}.json").write_text(saved)


def run(folder, into, ranks, stop=0):
    """A job of so many processes, with the variables that a launcher sets; its images by number."""
    command = [sys.executable, __file__, str(folder), into, str(stop)]
    variables = [{"RANK": str(rank), "WORLD_SIZE": str(ranks)} for rank in range(ranks)]
    started = [subprocess.Popen(command, env={**os.environ, **own}) for own in variables]
    if any([process.wait() for process in started]):
        raise SystemExit(f"a rank of {into} failed")
    images = {}
    for rank in range(ranks):
        for number, pixels in numpy.load(folder / f"{into}-{rank}.npz").items():
            if number in images:
                raise SystemExit(f"image {number} came twice")
            images[number] = pixels
    return images


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/images")
    if len(sys.argv) > 2:
        run_rank(folder, sys.argv[2], int(sys.argv[3]))
        return
    make_images(folder)
    undisturbed = run(folder, "undisturbed", ranks=1)
    begun = run(folder, "begun", ranks=2, stop=STOP)
    os.replace(folder / "begun.json", folder / "state.json")
    rest = run(folder, "rest", ranks=3)
    resumed = {**begun, **rest}
    if len(begun) + len(rest) != IMAGES or not resumed.keys() == undisturbed.keys():
        raise SystemExit("an image was lost or came twice")
    for number, pixels in resumed.items():
        if not numpy.array_equal(pixels, undisturbed[number]):
            raise SystemExit(f"image {number} has other pixels than in the undisturbed run")
    print(f"{len(begun)} images by 2 ranks, {len(rest)} by 3: every pixel of an undisturbed run")


if __name__ == "__main__":
    main()
