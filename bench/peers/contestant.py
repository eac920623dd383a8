"""How each contestant is measured, in a process of its own:

  python contestant.py NAME WORK --data DIR …                  warm and in full flow
  python contestant.py NAME WORK --data DIR … --digest         one pass, each row once: its digest
  python contestant.py NAME resume --data DIR … --save FILE    to the middle of a pass, saves
  python contestant.py NAME resume --data DIR … --resume FILE  goes on: time to the first batch

NAME is a module of this folder. It has STREAMS, a stream of batches for each work, and may have a
Resume, RESUME. One that is measured in another way has `measured(work, data, seconds)` and
`digest(work, data)` instead. Prints one line of JSON. Exit status: 0 done, 3 what the module needs
is not installed.
"""

import argparse
import importlib
import json
import os
import pathlib
import sys
import time
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Optional, Tuple

from cpu_clock import cpu_seconds
from data_sets import SAMPLES, WORKS, Work

NOT_INSTALLED = 3
# Batches in front of the saved position: the middle of the pass.
MIDDLE = 0.5
# A measurement takes no longer by the clock than so many times its CPU seconds.
WALL_LIMIT = 8

Batch = Mapping[str, Any]
# Batches of the files: without end, or of one pass in which each row comes once.
Stream = Callable[[Work, pathlib.Path, bool], Iterator[Batch]]


class Resume(NamedTuple):
    """Saving in the middle of a pass, and going on.

    Attributes:
        start: of the folder of data: a stream from the beginning and a function that saves its
            position into a file.
        go_on: of the folder of data and that file: the stream from there.
    """

    start: Callable[[pathlib.Path], Tuple[Iterator[Batch], Callable[[pathlib.Path], Any]]]
    go_on: Callable[[pathlib.Path, pathlib.Path], Iterator[Batch]]


def workers() -> int:
    """How many workers the loader is to have, as the environment variable LOADER_WORKERS says."""
    return int(os.environ.get("LOADER_WORKERS", "0"))


def passes(loader: Iterable[Any], once: bool) -> Iterator[Any]:
    """The batches of a loader that ends after a pass: of one, or of one after the other."""
    while True:
        yield from loader
        if once:
            return


def measured(stream: Stream, work: Work, options: argparse.Namespace) -> Dict[str, Any]:
    """Rows, batches and CPU seconds in full flow."""
    batches = stream(work, options.data, False)
    # The first pass, or as long as a measurement if that is shorter, is not measured.
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
        return len(next(iter(next(batches).values())))
    for _ in islice(batches, work.stride):
        pass
    return work.stride * work.batch  # full ones: a stream without end batches over the passes' ends


def digested(batches: Iterable[Batch]) -> Dict[str, Any]:
    """The digest of all rows."""
    from row_digest import RowDigest  # pylint: disable=import-outside-toplevel  # needs NumPy

    digest = RowDigest()
    for batch in batches:
        digest.add(batch)
    return {"digest": digest.text(), "rows": digest.rows}


def resumed(resume: Resume, options: argparse.Namespace) -> Dict[str, Any]:
    """The time of saving or of going on, and the digest of the batch that comes next."""
    if options.save:
        batches, save = resume.start(options.data)
        for _ in range(int(MIDDLE * options.pass_rows / SAMPLES.batch)):
            next(batches)
        start = time.perf_counter()
        save(options.save)
        result = {"save_s": time.perf_counter() - start}
        return {**result, **digested([next(batches)])}
    start, cpu = time.perf_counter(), cpu_seconds()
    batch = next(resume.go_on(options.data, options.resume))
    seconds, cpu_s = time.perf_counter() - start, cpu_seconds() - cpu
    return {"first_batch_s": seconds, "cpu_s": cpu_s, **digested([batch])}


def main() -> int:
    """Does what the command line says; prints the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("work", choices=[*WORKS, "resume"])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU time of a measurement")
    parser.add_argument("--pass-rows", type=int, required=True)
    parser.add_argument("--digest", action="store_true")
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    options = parser.parse_args()
    # The modules import what is here from this one.
    sys.modules["contestant"] = sys.modules["__main__"]
    try:
        module = importlib.import_module(options.name)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
    except ImportError as error:
        print(f"not installed: {error}", file=sys.stderr)
        return NOT_INSTALLED
    work = WORKS.get(options.work)
    if work is None:
        result = resumed(module.RESUME, options)
    elif hasattr(module, "measured"):
        result = (module.digest(work, options.data) if options.digest
                  else module.measured(work, options.data, options.seconds))
    elif options.digest:
        result = digested(module.STREAMS[work.name](work, options.data, True))
    else:
        result = measured(module.STREAMS[work.name], work, options)
    print(json.dumps({"work": options.work, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
