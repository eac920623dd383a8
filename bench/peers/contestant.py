"""The command line that all contestants share, and how each is measured.

A contestant is a script with streams of batches, run as a process of its own:

  python NAME.py WORK --data DIR                       measures, warm and in full flow
  python NAME.py WORK --data DIR --digest              one pass, each row once: its digest
  python NAME.py resume --data DIR --save FILE         runs to the middle of a pass, saves
  python NAME.py resume --data DIR --resume FILE       goes on from there: time to the first batch

It prints one line of JSON. Exit status: 0 done, 3 what it needs is not installed.
"""

import argparse
import json
import os
import pathlib
import sys
import time
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Optional, Tuple

from cpu_clock import cpu_seconds
from works import SAMPLES, WORKS, Work

NOT_INSTALLED = 3
# Batches in front of the saved position: the middle of the pass.
MIDDLE = 0.5
# A measurement takes no longer by the clock than so many times its CPU seconds.
WALL_LIMIT = 8

Batch = Mapping[str, Any]
# Batches of the files: without end, or of one pass where each row comes once.
Stream = Callable[[Work, pathlib.Path, bool], Iterator[Batch]]


class Resume(NamedTuple):
    """Saving in the middle of a pass, and going on.

    Attributes:
        start: of the folder of data: a stream from the beginning and a function that saves its
            position into a file.
        go_on: of the folder of data and that file: the stream from there.
    """

    start: Callable[[pathlib.Path], Tuple[Iterator[Batch], Callable[[pathlib.Path], None]]]
    go_on: Callable[[pathlib.Path, pathlib.Path], Iterator[Batch]]


def run(streams: Dict[str, Stream], resume: Optional[Resume] = None) -> int:
    """Does what the command line says with the stream of the work, prints the result.

    Args:
        streams: by the name of the work.
        resume: where the contestant can go on from a position.
    """
    options = _options(sorted(streams), resume is not None)
    if options.work == "resume":
        result = _resumed(resume, options)
    elif options.digest:
        result = _digest(streams[options.work], options)
    else:
        result = _measured(streams[options.work], options)
    print(json.dumps({"work": options.work, **result}))
    return 0


def workers() -> int:
    """How many workers the loader is to have, as the environment variable LOADER_WORKERS says."""
    return int(os.environ.get("LOADER_WORKERS", "0"))


def passes(loader: Iterable[Any], once: bool) -> Iterator[Any]:
    """The batches of a loader that ends after a pass: of one, or of one after the other."""
    while True:
        yield from loader
        if once:
            return


def not_installed(what: ImportError) -> int:
    """Says on stderr which module is missing; the exit status for it."""
    print(f"not installed: {what}", file=sys.stderr)
    return NOT_INSTALLED


def _options(works: list, resumes: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=works + (["resume"] if resumes else []))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU time of a measurement")
    parser.add_argument("--pass-rows", type=int, required=True)
    parser.add_argument("--digest", action="store_true")
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    return parser.parse_args()


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _measured(stream: Stream, options: argparse.Namespace) -> Dict[str, Any]:
    work = WORKS[options.work]
    batches = stream(work, options.data, False)
    # The first pass, or as long as a measurement where that is shorter, is not measured.
    _take(batches, work, options.pass_rows, options.seconds)
    cpu, wall = cpu_seconds(), time.perf_counter()
    rows, count = _take(batches, work, None, options.seconds)
    wall_s, cpu_s = time.perf_counter() - wall, cpu_seconds() - cpu
    return {"rows": rows, "batches": count, "bytes": rows * work.row_bytes, "wall_s": wall_s,
            "cpu_s": cpu_s}


def _take(batches: Iterator[Batch], work: Work, rows: Optional[int],
          seconds: float) -> Tuple[int, int]:
    """Takes batches for so many seconds of CPU time, or up to `rows`; rows and batches taken."""
    taken = count = 0
    start, cpu = time.perf_counter(), cpu_seconds()
    end = start + WALL_LIMIT * seconds
    # By the clock alone a busy machine would measure less; CPU time takes long to ask for.
    while time.perf_counter() < end and cpu_seconds() < cpu + seconds:
        look = time.perf_counter() + seconds / 20
        while time.perf_counter() < look:
            if rows is not None and taken >= rows:
                return taken, count
            taken += _batches(batches, work)
            count += work.stride
    return taken, count


def _batches(batches: Iterator[Batch], work: Work) -> int:
    if work.stride == 1:
        return _rows(next(batches))
    for _ in islice(batches, work.stride):
        pass
    return work.stride * work.batch  # full ones: a stream without end batches over the passes' ends


def _digest(stream: Stream, options: argparse.Namespace) -> Dict[str, Any]:
    from row_digest import RowDigest  # pylint: disable=import-outside-toplevel  # needs NumPy

    digest = RowDigest()
    for batch in stream(WORKS[options.work], options.data, True):
        digest.add(batch)
    return {"digest": digest.text(), "rows": digest.rows}


def _resumed(resume: Resume, options: argparse.Namespace) -> Dict[str, Any]:
    from row_digest import RowDigest  # pylint: disable=import-outside-toplevel  # needs NumPy

    digest = RowDigest()
    if options.save:
        batches, save = resume.start(options.data)
        for _ in range(int(MIDDLE * options.pass_rows / SAMPLES.batch)):
            next(batches)
        start = time.perf_counter()
        save(options.save)
        seconds = time.perf_counter() - start
        digest.add(next(batches))
        return {"save_s": seconds, "digest": digest.text()}
    start, cpu = time.perf_counter(), cpu_seconds()
    batch = next(resume.go_on(options.data, options.resume))
    seconds, cpu_s = time.perf_counter() - start, cpu_seconds() - cpu
    digest.add(batch)
    return {"first_batch_s": seconds, "cpu_s": cpu_s, "digest": digest.text()}
