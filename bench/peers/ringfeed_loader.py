"""ringfeed.Loader: batches of the engine as tensors of Torch, or of NumPy if Torch is not there.

The environment variable RINGFEED_THREADS says how many threads read (0: one a core). RINGFEED_FILES
names a function of a peer's module, "mosaicml_shards.shards": the files are that peer's, as they
are."""

import importlib
import json
import os
import pathlib
from typing import Any, Dict, Iterator, List

import ringfeed

from contestant import Resume
from data_sets import CROP, IMAGES, SAMPLE_BYTES, SHORTER_SIDE, Work

try:
    from ringfeed.torch import tensors as of_batch
except ImportError:
    from numpy import from_dlpack

    def of_batch(batch: Dict[str, Any]) -> Dict[str, Any]:
        """A batch as NumPy's arrays."""
        return {name: from_dlpack(array) for name, array in batch.items()}

IMAGE_FIELDS = {"image": ("uint8", [SAMPLE_BYTES]), "label": ("int64", [1])}
TABLE_FIELDS = {"dense": ("float32", [13]), "cat": ("int64", [26]), "label": ("int64", [1])}
OPTIONS: Dict[str, Dict[str, Any]] = {
    "images": {"parse": ringfeed.example(IMAGE_FIELDS)},
    "table": {"parse": ringfeed.example(TABLE_FIELDS)},
    "samples": {"parse": ringfeed.rows({"value": ("uint8", [SAMPLE_BYTES])}),
                "format": f"rows:{SAMPLE_BYTES}", "shuffle": ringfeed.Shuffle("global", seed=7)},
    "jpegs": {"parse": ringfeed.jpeg.decode(
        ringfeed.tar({"jpg": ("uint8", [-1]), "cls": ("int64", [])}), height=CROP, width=CROP,
        shorter_side=SHORTER_SIDE)},
    "tiny": {"parse": ringfeed.rows({"value": ("uint8", [160])}), "format": "rows:160"},
}

# Of ArrayRecord the records tell no fields; the other peers' files do.
ARRAY_RECORD: Dict[str, Any] = {
    "images": ringfeed.rows(IMAGE_FIELDS),
    "samples": OPTIONS["samples"]["parse"],
}
# Imported at once: a peer that is not installed is left out.
PEER, _, FILES = os.environ.get("RINGFEED_FILES", "").partition(".")
PEER_MODULE = importlib.import_module(PEER) if PEER else None


def files(work: Work, data: pathlib.Path) -> List[str]:
    """The files of a work: its own, or those that the peer made."""
    if PEER_MODULE is None:
        return work.files(data)
    found = getattr(PEER_MODULE, FILES)(work, data)
    return found if isinstance(found, list) else [str(found)]


def options_of(work: Work) -> Dict[str, Any]:
    """What a Loader of a work is to be told."""
    own = OPTIONS[work.name]
    if PEER_MODULE is None:
        return own
    parse = ARRAY_RECORD[work.name] if PEER == "grain_records" else "auto"
    return {"parse": parse, **({"shuffle": own["shuffle"]} if "shuffle" in own else {})}


def loader(work: Work, data: pathlib.Path, once: bool, **more: Any) -> ringfeed.Loader:
    """The Loader of a work: of one pass, or without end."""
    return loader_of(files(work, data), work, once, **more)


def loader_of(names: List[str], work: Work, once: bool, **more: Any) -> ringfeed.Loader:
    """The same of files or objects with the work's rows."""
    threads = int(os.environ.get("RINGFEED_THREADS", "0"))
    options = {"batch": work.batch, "passes": 1 if once else 0, "threads": threads,
               **options_of(work), **more}
    return ringfeed.Loader(names, **options)


def tensors(batches: ringfeed.Loader) -> Iterator[Dict[str, Any]]:
    """The same memory as tensors of Torch or arrays of NumPy. LitData's files do not say that all
    rows are as long."""
    return map(_in_rows if PEER == "litdata_chunks" else of_batch, batches)


def _in_rows(batch: Any) -> Dict[str, Any]:
    return {name: value[0].reshape(-1, SAMPLE_BYTES) if isinstance(value, tuple) else value
            for name, value in of_batch(batch).items()}


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, Any]]:
    """The batches of a work. Of tiny ones the iterator alone is measured, without a view."""
    batches = loader(work, data, once)
    return iter(batches) if work.name == "tiny" else tensors(batches)


def start(data: pathlib.Path) -> Any:
    """Shuffled images from the beginning, and what saves the position."""
    batches = loader(IMAGES, data, False, shuffle=ringfeed.Shuffle("global", seed=7))
    return (tensors(batches),
            lambda path: path.write_text(json.dumps(batches.state_dict()), encoding="utf-8"))


def go_on(data: pathlib.Path, path: pathlib.Path) -> Iterator[Dict[str, Any]]:
    """Shuffled images from a saved position on."""
    batches = loader(IMAGES, data, False, shuffle=ringfeed.Shuffle("global", seed=7))
    batches.load_state_dict(json.loads(path.read_text(encoding="utf-8")))
    return tensors(batches)


STREAMS = {name: stream for name in OPTIONS}
RESUME = Resume(start, go_on)
