"""DALI: the TFRecord reader on the CPU, dense batches handed to Torch by DLPack."""

import pathlib
import struct
from functools import partial
from typing import Any, Dict, Iterator, List

import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfrec

from contestant import Resume
from data_sets import CROP, IMAGES, SHORTER_SIDE, Work, made

# One thread and one batch ahead cost the least CPU time of all that was tried.
THREADS = 1
AHEAD = 1
FEATURES = {
    "images": {"image": tfrec.FixedLenFeature([], tfrec.string, ""),
               "label": tfrec.FixedLenFeature([1], tfrec.int64, 0)},
    "table": {"dense": tfrec.FixedLenFeature([13], tfrec.float32, 0.0),
              "cat": tfrec.FixedLenFeature([26], tfrec.int64, 0),
              "label": tfrec.FixedLenFeature([1], tfrec.int64, 0)},
}


def index_files(files: List[str]) -> List[str]:
    """The text index that the reader asks for beside each file: a line `offset size` a record,
    framing included. Made if it is missing."""
    return [str(made(path.parent / f"dali-{path.name}.idx", partial(_write_index, path)))
            for path in map(pathlib.Path, files)]


def _write_index(path: pathlib.Path, index: pathlib.Path) -> None:
    size, offset, lines = path.stat().st_size, 0, []
    with open(path, "rb") as file:
        while offset < size:
            file.seek(offset)
            (payload,) = struct.unpack("<Q", file.read(8))
            lines.append(f"{offset} {payload + 16}\n")
            offset += payload + 16
    index.write_text("".join(lines), encoding="ascii")


@pipeline_def
def _read(files: List[str], features: Dict[str, Any], shuffled: bool) -> Any:
    read = fn.readers.tfrecord(path=files, index_path=index_files(files), features=features,
                               name="reader", random_shuffle=shuffled, seed=7)
    return tuple(read[name] for name in sorted(features))


@pipeline_def
def _decode(files: List[str]) -> Any:
    jpg, cls = fn.readers.webdataset(paths=files, ext=["jpg", "cls"], name="reader")
    image = fn.resize(fn.decoders.image(jpg, device="cpu", output_type=types.RGB),
                      resize_shorter=SHORTER_SIDE, interp_type=types.INTERP_LINEAR)
    return cls, fn.crop(image, crop=(CROP, CROP))


def decoded(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, Any]]:
    """The pixels of a work's images, and their numbers."""
    pipeline = _decode(work.files(data), batch_size=work.batch, num_threads=THREADS, device_id=None,
                       prefetch_queue_depth=AHEAD)
    pipeline.build()
    rows = pipeline.reader_meta("reader")["epoch_size"]
    while rows > 0:
        cls, image = pipeline.run()
        texts = cls.as_array()
        yield {"cls": torch.tensor([int(bytes(text)) for text in texts])[:rows],
               "jpg": torch.from_dlpack(image.as_tensor())[:rows]}
        rows -= work.batch if once else 0


def build(work: Work, data: pathlib.Path, shuffled: bool = False, **more: Any) -> Any:
    """A pipeline of a work's batches."""
    pipeline = _read(work.files(data), FEATURES[work.name], shuffled, batch_size=work.batch,
                     num_threads=THREADS, device_id=None, prefetch_queue_depth=AHEAD, **more)
    pipeline.build()
    return pipeline


def batches_of(pipeline: Any, work: Work) -> Iterator[Dict[str, torch.Tensor]]:
    """Batches of a pipeline as tensors of Torch, in the pipeline's memory; without end. A tensor
    is valid until the next one is asked for."""
    names = sorted(FEATURES[work.name])
    while True:
        yield {name: torch.from_dlpack(values.as_tensor())
               for name, values in zip(names, pipeline.run())}


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work."""
    pipeline = build(work, data)
    if not once:
        yield from batches_of(pipeline, work)
    rows = pipeline.reader_meta("reader")["epoch_size"]
    for batch in batches_of(pipeline, work):
        # The batch at the end of a pass is filled with rows of the next one.
        yield {name: tensor[:rows] for name, tensor in batch.items()}
        rows -= work.batch
        if rows <= 0:
            return


def start(data: pathlib.Path) -> Any:
    """Shuffled images from the beginning, and what saves the position."""
    pipeline = build(IMAGES, data, shuffled=True, enable_checkpointing=True)
    return (batches_of(pipeline, IMAGES),
            lambda path: path.write_text(_as_text(pipeline.checkpoint()), encoding="latin-1"))


def go_on(data: pathlib.Path, path: pathlib.Path) -> Iterator[Dict[str, torch.Tensor]]:
    """Shuffled images from a saved position on."""
    checkpoint = path.read_text(encoding="latin-1").encode("latin-1")
    pipeline = build(IMAGES, data, shuffled=True, enable_checkpointing=True, checkpoint=checkpoint)
    return batches_of(pipeline, IMAGES)


def _as_text(checkpoint: Any) -> str:
    return checkpoint if isinstance(checkpoint, str) else checkpoint.decode("latin-1")


STREAMS = {**{name: stream for name in FEATURES}, "jpegs": decoded}
RESUME = Resume(start, go_on)
