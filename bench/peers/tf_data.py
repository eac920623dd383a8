"""tf.data: TFRecordDataset, batches parsed at once, handed to Torch by DLPack."""

import pathlib
from typing import Any, Dict, Iterator

import tensorflow as tf
import torch

from contestant import Resume
from data_sets import IMAGES, SAMPLE_BYTES, Work

SHUFFLE_BUFFER = 10_000

IMAGE_FEATURES = {"image": tf.io.FixedLenFeature([], tf.string),
                  "label": tf.io.FixedLenFeature([1], tf.int64)}
TABLE_FEATURES = {"dense": tf.io.FixedLenFeature([13], tf.float32),
                  "cat": tf.io.FixedLenFeature([26], tf.int64),
                  "label": tf.io.FixedLenFeature([1], tf.int64)}


def _images(records: tf.Tensor) -> Dict[str, tf.Tensor]:
    fields = tf.io.parse_example(records, IMAGE_FEATURES)
    image = tf.io.decode_raw(fields["image"], tf.uint8, fixed_length=SAMPLE_BYTES)
    return {"image": image, "label": fields["label"]}


def _table(records: tf.Tensor) -> Dict[str, tf.Tensor]:
    return tf.io.parse_example(records, TABLE_FEATURES)


def _samples(records: tf.Tensor) -> Dict[str, tf.Tensor]:
    return {"value": tf.io.decode_raw(records, tf.uint8, fixed_length=SAMPLE_BYTES)}


PARSERS = {"images": _images, "table": _table, "samples": _samples}


def dataset(work: Work, data: pathlib.Path, once: bool, shuffled: bool = False) -> tf.data.Dataset:
    """The batches of a work as tensors of TensorFlow: of one pass, or without end."""
    files = work.files(data)
    if work.name == "samples":
        records = tf.data.FixedLengthRecordDataset(files, SAMPLE_BYTES)
    else:
        records = tf.data.TFRecordDataset(files)
    if shuffled or work.name == "samples":
        records = records.shuffle(SHUFFLE_BUFFER, seed=7)
    if not once:
        records = records.repeat()
    batches = records.batch(work.batch).map(PARSERS[work.name]).prefetch(2)
    options = tf.data.Options()
    # One thread of its own costs the least CPU time of all that was tried.
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    return batches.with_options(options)


def as_torch(batch: Dict[str, tf.Tensor]) -> Dict[str, torch.Tensor]:
    """The same memory as tensors of Torch."""
    return {name: torch.from_dlpack(tf.experimental.dlpack.to_dlpack(tensor))
            for name, tensor in batch.items()}


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """The batches of a work as tensors of Torch."""
    return map(as_torch, iter(dataset(work, data, once)))


def start(data: pathlib.Path) -> Any:
    """Shuffled images from the beginning, and what saves the iterator with its buffers."""
    batches = iter(dataset(IMAGES, data, False, shuffled=True))

    def save(path: pathlib.Path) -> None:
        tf.train.Checkpoint(iterator=batches).write(str(path))

    return map(as_torch, batches), save


def go_on(data: pathlib.Path, path: pathlib.Path) -> Iterator[Dict[str, torch.Tensor]]:
    """Shuffled images from a saved position on."""
    batches = iter(dataset(IMAGES, data, False, shuffled=True))
    tf.train.Checkpoint(iterator=batches).read(str(path)).assert_consumed()
    return map(as_torch, batches)


STREAMS = {name: stream for name in PARSERS}
RESUME = Resume(start, go_on)
