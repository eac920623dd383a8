"""The search for combinations of what only Python reaches: functions that are slow or throw,
interrupts at any moment, states, epochs that a loop does not take to their end, threads that take
turns, ends of loops and of processes; over chains of each kind, on ranks and on devices.

    combinations.py [--count N] [--seconds N] [--seed S] [--jobs N]
    combinations.py --only CONFIGURATION [--tries N]

It draws configurations from SPACE, runs each and compares what came with what must come; the last
line says how many it ran and how many of them differed. A configuration is JSON of what is not
plain. --count and --seconds hold both, until the first is reached; without either it searches for
20 seconds. A seed draws the same configurations whatever the number of jobs. Each job is a process.
If it crashes or hangs, what it ran is printed as a difference. Exit status 1 means a difference, a
job that failed, or no configuration at all; Ctrl-C ends every job, and the status is 130.

What stays out:
- frameworks (Lightning, Keras, Accelerate): they take longer to start than a thousand
  configurations; "epochs" takes batches as they do, and test_frameworks.py runs them;
- ranks as processes: launchers_test.py starts them; here they are Loaders of one process;
- ranks of batches by content and of data sets: there are none;
- filters on ranks, damage with filters that throw, damage under interrupts: what a batch then has
  is modelled in tests/combinations;
- TFRecord of 20,000 records: Python takes seconds to write one, and 0.2 s one of 2,000;
- streams, queues and several readers of one chain: test_threads.py and test_queue.py race them;
- which records batches of groups, buckets and packs have together: tests/readers compares them.
  Here each record comes once, and a run that goes on gets the same batches;
- mixtures whose weights change: tests/order has them;
- without nginx, files behind a web server: they are read from the disk.

What is rare: 20,000 records in batches of 8 or fewer, or with a function of the user's for each
record (takes_long()). That is 1 configuration in 200. As 1 in 7 they took nine tenths of the time.
2,000 records make hundreds of such batches, of which a few are made ahead; more batches repeat the
same hand-overs. In larger batches, without functions, 20,000 are drawn like others.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import faulthandler
import gc
import itertools
import json
import mmap
import multiprocessing
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections import Counter
from multiprocessing import connection
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from loader_data import NUMBER, tfrecord

import ringfeed
from ringfeed.devices import DevicePlan, Stage, StageCall

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "remote"))

from web_server import WebServer  # noqa: E402

#: The first value is the plain one; values that stand there more often are drawn more often.
SPACE: dict[str, list[Any]] = {
    # Files of rows, of lines, of TFRecord, of NumPy's arrays and of sequences (JSON lines); two
    # sets of rows mixed; a data set and a generator (py_reader) of the user's own.
    "source": ["rows", "lines", "tfrecord", "arrays", "sequences", "mixture", "dataset"]
    + ["generator"],
    "records": [300, 1, 2_000, 20_000],
    "order": ["files", "window", "blocks", "global"],
    "passes": [1, 3],
    "batch": [8, 2, 60, 1000],
    # Where the files lie: on the disk; behind a web server; there, read by a cache.
    "place": ["disk", "disk", "web", "cache"],
    # What makes batches: of sequences there are others by content.
    "batching": ["rows", "groups", "buckets", "tokens", "packs"],
    "drop": [False, True],
    # Whether some records are damaged, whole parts of a rank's among them, and passed over.
    "skip": [False, True],
    "devices": [None, "emu:1", "emu:2"],
    # What they do with each batch: make a field of the first one's bytes, slow ones in their time.
    "stage": [None, "makes", "slow"],
    # What it keeps; slow: all, and takes its time from the middle on; throws: at one record. A
    # generator has none: it is slow, or throws, itself.
    "filter": ["none", "all", "third", "nothing", "slow", "slow", "throws"],
    "parser": ["built", "own", "throws", "auto"],
    # Whether each file lies in a folder of its own, whose number is a field.
    "labels": [False, True],
    "map": [False, True],
    "ranks": [1, 2, 4],
    "threads": [2, 1, 3],
    # Who asks for batches: this thread, those of a pool in turn, an event loop's executor.
    "asker": ["here", "pool", "asyncio"],
    # What loops take: an epoch to its end; of several epochs as many batches as there are, without
    # a look for more; a part of each.
    "epochs": ["one", "exact", "part"],
    # What the loop does with a batch: gather its rows, or nothing.
    "loop": ["gather", "tight"],
    # How it ends: Ctrl-C in the loop, by a signal to its thread or to the process; closed between
    # two batches, by another thread, by its last reference; by the process's end, or its Ctrl-C.
    "stop": ["none", "interrupt", "interrupt", "signal", "signal", "close", "close elsewhere"]
    + ["leave", "exit", "exit by interrupt"],
    # Where it goes on after Ctrl-C.
    "resume": ["elsewhere", "here"],
}
ORDERS: dict[str, Any] = {
    "files": None,
    "window": ringfeed.Shuffle("window", 64),
    "blocks": ringfeed.Shuffle("stripes", 16),
    "global": "global",
}
#: Of "batching", what can be had of a chain of sequences.
BY_CONTENT: dict[str, Callable[[Any, int], Any]] = {
    "rows": lambda chain, size: ringfeed.batch(chain, size),
    "groups": lambda chain, size: ringfeed.group_batch(chain, size, lambda line: len(line) % 3, 40),
    "buckets": lambda chain, size: ringfeed.bucket_batch(chain, size, "t", [2, 4], 8 * size),
    "tokens": lambda chain, size: ringfeed.token_batch(chain, "t", tokens=4 * size),
    "packs": lambda chain, size: ringfeed.pack(chain, "t", 8, size, 50),
}
INTERRUPTS = ("interrupt", "signal")
EXITS = ("exit", "exit by interrupt")
#: The variable with the web server's address and its folder; all processes of a search have it.
SERVER = "RINGFEED_SEARCH_SERVER"
DIGITS = 15  # of a line

#: How long a slow function takes, and in how many calls. So LATE_CALLS take longer than whoever
#: ends a chain may stand still between two looks at their number.
SLOW_SECONDS = 0.004
MOST_SLOW = 400
#: What is read of a slow one before it is ended.
FEW_ROWS = 400
#: So many calls of a slow stage are slow.
FEW_STAGES = 50
#: Of what takes long, so much of what is drawn is run.
LONG_SHARE = 0.04
#: Calls that may begin before an end is seen, besides one in each thread.
LATE_CALLS = 60

Configuration = dict[str, Any]


class Difference(Exception):
    """What came is not what must come."""


class Refused(LookupError):
    """What the user's functions throw."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Difference(what)


# ---- The space ----


def is_possible(c: Configuration) -> bool:
    """Whether its settings go together."""
    generator, dataset = c["source"] == "generator", c["source"] == "dataset"
    throws = "throws" in (c["filter"], c["parser"])
    files = c["source"] in ("rows", "lines", "tfrecord", "arrays")
    sequences, mixture = c["source"] == "sequences", c["source"] == "mixture"
    rules = [
        generator and (c["order"] != "files" or c["passes"] != 1 or c["batch"] != 8),
        generator and (c["parser"] != "built" or c["map"] or c["threads"] != 2),
        generator and c["filter"] not in ("none", "slow", "throws"),
        generator
        and c["stop"] in INTERRUPTS
        and (c["resume"] == "elsewhere" or c["loop"] == "tight"),
        dataset and (c["order"] in ("global", "blocks") or c["threads"] != 2),
        not (files or mixture) and (c["ranks"] > 1 or c["drop"]),
        c["batch"] % c["ranks"] != 0,
        c["parser"] == "auto" and c["source"] not in ("arrays", "lines"),
        c["labels"] and (not files or c["parser"] not in ("built", "auto")),
        sequences and (c["parser"] != "built" or throws),
        (sequences or mixture) and c["order"] not in ("files", "window"),
        mixture and (throws or c["records"] == 1),
        c["source"] == "tfrecord" and c["records"] > 2_000,
        not sequences and c["batching"] != "rows",
        c["skip"] and (c["source"] != "tfrecord" or c["filter"] != "none" or c["stop"] != "none"),
        c["place"] != "disk" and (generator or dataset),
        c["skip"] and throws,
        c["drop"] and throws,
        c["devices"] and (generator or throws or c["stop"] in EXITS),
        c["devices"] and sequences and c["batching"] == "packs",
        c["stage"] and not c["devices"],
        c["asker"] != "here" and (c["stop"] != "none" or c["filter"] == "slow" or throws),
        c["epochs"] != "one" and (generator or throws or c["stop"] != "none"),
        c["epochs"] != "one" and (c["asker"] != "here" or c["filter"] == "slow"),
        c["ranks"] > 1 and (c["filter"] != "none" or c["stop"] not in (*INTERRUPTS, "none")),
        c["ranks"] > 1 and c["resume"] == "here",
        throws and (c["stop"] != "none" or c["order"] != "files" or c["passes"] != 1),
        throws and c["filter"] in ("third", "nothing"),
        throws and (c["ranks"] > 1 or c["filter"] == "throws" and c["parser"] == "throws"),
        c["filter"] == "slow" and c["stop"] == "none",
        c["stop"] not in INTERRUPTS and (c["resume"] != "elsewhere" or c["loop"] == "tight"),
        c["stop"] in EXITS and c["records"] == 1,
    ]
    return not any(rules)


def plain() -> Configuration:
    return {name: values[0] for name, values in SPACE.items()}


def takes_long(c: Configuration) -> bool:
    """Whether it takes seconds: for its batches, or for the calls of functions of the user's."""
    calls = c["filter"] != "none" or c["source"] == "dataset" or c["labels"]
    calls = calls or c["parser"] in ("own", "throws")
    return bool(c["records"] == 20_000 and (calls or c["batch"] <= 8))


def draw(rng: random.Random) -> Configuration:
    while True:
        c = {
            name: values[0] if rng.random() < 0.4 else rng.choice(values)
            for name, values in SPACE.items()
        }
        if is_possible(c) and (not takes_long(c) or rng.random() < LONG_SHARE):
            return c


def text_of(c: Configuration) -> str:
    return json.dumps({name: value for name, value in c.items() if value != SPACE[name][0]})


# ---- Chains ----


class Functions:
    """What a chain calls of the user's: counts calls, from any thread."""

    def __init__(self, c: Configuration, slow: bool = False, throws: bool = True) -> None:
        self.c = c
        self.slow = slow
        self.throws = throws
        self.calls = 0
        self._slow_calls = 0
        self.slept = 0  #: of the calls: those that were slow
        self.told: Any = None  # memory where another process sees the slow calls
        self._lock = threading.Lock()

    def note(self, number: int) -> None:
        # Batches come before: what is framed at once is filtered at once.
        slow = self.slow and number >= self.c["records"] // 2
        with self._lock:
            self.calls += 1
            self._slow_calls += slow
            slow = slow and self._slow_calls <= MOST_SLOW
            self.slept += slow
            if self.told is not None:
                struct.pack_into("<q", self.told, 8, self.slept)
        if slow:
            time.sleep(SLOW_SECONDS)

    def number_of(self, record: bytes) -> int:
        if self.c["source"] == "sequences":
            return int(json.loads(record)["t"][0]) - 1
        return int(record) if self.c["source"] == "lines" else int.from_bytes(record, "little")

    def keep(self, record: bytes) -> bool:
        number = self.number_of(record)
        self.note(number)
        if self.throws and self.c["filter"] == "throws" and number == thrower(self.c):
            raise Refused("a filter", number)
        return keeps(self.c, number)

    def parsed(self, sample: bytes) -> Any:
        number = self.number_of(sample)
        self.note(number)
        if self.throws and self.c["parser"] == "throws" and number == thrower(self.c):
            raise Refused("a parser", number)
        return {"x": struct.pack("<q", number)}

    def generated(self) -> Iterator[Any]:
        for number in range(self.c["records"]):
            self.note(number)
            if self.throws and self.c["filter"] == "throws" and number == thrower(self.c):
                raise Refused("a generator", number)
            yield [struct.pack("<q", number)]


class Numbers(ringfeed.RandomAccessDataset):
    def __init__(self, records: int) -> None:
        self._records = records

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> bytes:
        return struct.pack("<q", index)


class OwnParser(ringfeed.Parser):
    fields = {"x": ("int64", (-1,))}

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def parse(self, sample: bytes) -> Any:
        return self._functions.parsed(sample)


def thrower(c: Configuration) -> int:
    """The record that functions throw at."""
    return int(c["records"]) * 2 // 3


def keeps(c: Configuration, number: int) -> bool:
    if c["filter"] == "third":
        return number * 2654435761 % 2**32 < 2**32 // 3
    return bool(c["filter"] != "nothing")


def length_of(number: int) -> int:
    """Of the sequence of a number."""
    return number % 5 + 1


def is_damaged(c: Configuration, number: int) -> bool:
    """Of every second batch the second rank's part; alone some records."""
    if not c["skip"]:
        return False
    if c["ranks"] == 1:
        return number % 7 == 3
    part = c["batch"] // c["ranks"]
    return number // part % (2 * c["ranks"]) == 1


def content_of(c: Configuration, numbers: range) -> bytes:
    """Of a file of these numbers."""
    if c["source"] == "lines":
        return "".join(f"{number:0{DIGITS}d}\n" for number in numbers).encode()
    if c["source"] == "sequences":
        sequences = ([number + 1] * length_of(number) for number in numbers)
        return "".join(json.dumps({"t": sequence}) + "\n" for sequence in sequences).encode()
    if c["source"] == "arrays":
        dict_of = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(numbers)},), }}"
        header = struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, len(dict_of) + 1) + dict_of.encode()
        return header + b"\n" + struct.pack(f"<{len(numbers)}q", *numbers)
    if c["source"] != "tfrecord":
        return struct.pack(f"<{len(numbers)}q", *numbers)
    records = [bytearray(tfrecord(struct.pack("<q", number))) for number in numbers]
    for number, record in zip(numbers, records):
        record[12] ^= is_damaged(c, number)
    return b"".join(records)


def write_files(folder: Path, c: Configuration) -> str:
    """Three files of numbers from 0 on; the glob of their names."""
    records = c["records"]
    sizes = [records // 2, records // 3]
    sizes.append(records - sum(sizes))
    kinds = ("lines", "sequences", "tfrecord", "arrays")
    kind = c["source"] if c["source"] in kinds else "rows"
    damage = f"-{c['batch']}-{c['ranks']}" if c["skip"] else ""
    within = "/file" if c["labels"] else ""
    first = 0
    for i, size in enumerate(sizes):
        path = folder / f"{kind}-{records}{damage}{within and '-in'}-{i}{within}"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content_of(c, range(first, first + size)))
        first += size
    return str(folder / f"{kind}-{records}{damage}{within and '-in'}-?{within}")


def names_of(c: Configuration, files: str) -> list[str]:
    """What a program opens: the glob, or the address of each file that it stands for."""
    server = os.environ.get(SERVER, "")
    if c["place"] == "disk" or not server:
        return [files]
    address, root = server.split(" ", 1)
    paths = [Path(files.replace("?", str(i))).relative_to(root) for i in range(3)]
    return [f"{address}/{path}" for path in paths]


def options_of(c: Configuration, files: str) -> dict[str, Any]:
    """How they are opened."""
    options: dict[str, Any] = {"threads": c["threads"]}
    if names_of(c, files) != [files]:
        folder = Path(os.environ[SERVER].split(" ", 1)[1])
        options["index_folder"] = folder
        if c["place"] == "cache":
            options.update(cache=folder / "cache", cache_bytes=24 << 20)
    return options


def labelled(c: Configuration, batch: Any) -> Any:
    """The batch, whose labels are the numbers of the files of write_files."""
    second = c["records"] // 2
    third = second + c["records"] // 3
    for number, label in zip(rows_of(batch), batch["label"].tolist()):
        check(label == (number >= second) + (number >= third), f"{number} has the label {label}")
    return dict(batch)


def parser_of(c: Configuration, functions: Functions) -> Any:
    if c["parser"] == "auto":
        return "auto"
    if c["parser"] != "built":
        return OwnParser(functions)
    if c["source"] == "sequences":
        return ringfeed.jsonl({"t": ("int64", [-1])})
    return None if c["source"] == "lines" else ringfeed.rows(NUMBER)


def open_chain(c: Configuration, files: str, functions: Functions, rank: int = 0) -> Any:
    """The chain of a configuration, of one rank."""
    if c["source"] == "generator":
        reader = ringfeed.py_reader(8, [[8]], ["uint8"])
        reader.decorate_tensor_provider(functions.generated)
        reader.start()
        return reader
    batch_map = (lambda batch: dict(batch)) if c["map"] else None
    if c["labels"]:
        batch_map = lambda batch: labelled(c, batch)  # noqa: E731
    keep = None if c["filter"] == "none" else functions.keep
    parser = parser_of(c, functions)
    one = ringfeed.Rank(rank, c["ranks"]) if c["ranks"] > 1 else None
    if c["source"] in ("dataset", "mixture", "sequences"):
        chain = open_records(c, files)
        if c["order"] == "window":
            chain = ringfeed.shuffle(chain, "window", 64, 7)
        if c["passes"] != 1:
            chain = ringfeed.multi_pass(chain, c["passes"])
        if keep is not None:
            chain = ringfeed.filter(chain, keep)
        chain = ringfeed.parse(chain, parser)
        if c["source"] == "sequences":
            chain = BY_CONTENT[c["batching"]](chain, c["batch"])
        else:
            chain = ringfeed.batch(chain, c["batch"], drop_remainder=c["drop"], rank=one)
        return ringfeed.Loader.from_reader(chain, map=batch_map, devices=devices_of(c))
    return ringfeed.Loader(
        names_of(c, files),
        format={"rows": "rows:8", "arrays": "npy"}.get(c["source"], c["source"]),
        parse=parser,
        label="folder" if c["labels"] else None,
        batch=c["batch"],
        shuffle=ORDERS[c["order"]],
        seed=7,
        passes=c["passes"],
        rank=one,
        drop_remainder=c["drop"],
        skip_damaged=c["skip"],
        devices=devices_of(c),
        filter=keep,
        map=batch_map,
        **options_of(c, files),
    )


def devices_of(c: Configuration) -> Any:
    if not c["stage"]:
        return c["devices"]
    slow_calls = iter(range(FEW_STAGES if c["stage"] == "slow" else 0))

    def stage(call: StageCall) -> None:
        if next(slow_calls, None) is not None:
            time.sleep(SLOW_SECONDS)
        made = call.outputs["staged"]
        crc = zlib.crc32(next(iter(call.fields.values())).tobytes())
        memoryview(made).cast("B")[:] = struct.pack("<q", crc) * len(made)

    return DevicePlan(c["devices"], stage=Stage(stage, {"staged": ("int64", ())}))


def open_records(c: Configuration, files: str) -> Any:
    """What a chain that is put together by hand stands on."""
    if c["source"] == "dataset":
        return ringfeed.from_dataset(Numbers(c["records"]))
    if c["source"] == "sequences":
        return ringfeed.open_files(names_of(c, files), format="lines", **options_of(c, files))
    names = names_of(c, files)
    parts = [names[:1], names[1:]]
    if len(names) == 1:
        parts = [[files[:-1] + "0"], [files[:-1] + "[12]"]]
    options = options_of(c, files)
    del options["threads"]
    sets = [ringfeed.open_files(part, format="rows:8", **options) for part in parts]
    return ringfeed.mix(zip(sets, (2, 1)), threads=c["threads"])


def rows_of(batch: Any) -> list[int]:
    """The numbers in a batch."""
    if isinstance(batch, tuple):
        return [int.from_bytes(batch[0].tobytes(), "little")]
    if "staged" in batch:
        crc = zlib.crc32(next(iter(batch.values())).tobytes())
        check(set(batch["staged"].tolist()) <= {crc}, "the stage made something else")
    for name in ("x", "c0", "t"):
        if name in batch:
            content = batch[name].tobytes()
            numbers = list(struct.unpack(f"<{len(content) // 8}q", content))
            return sequences_in(numbers) if name == "t" else numbers
    content = batch["bytes"].tobytes()
    return [int(content[i : i + DIGITS]) for i in range(0, len(content), DIGITS)]


def sequences_in(values: list[int]) -> list[int]:
    """The numbers whose sequences these are, one after another, with zeros between them."""
    found = []
    for value, run in itertools.groupby(values):
        if value != 0:
            count, rest = divmod(len(list(run)), length_of(value - 1))
            check(rest == 0, f"a part of the sequence of {value - 1}")
            found += [value - 1] * count
    return found


# ---- What must come ----


class Expected:
    """The batches of a configuration, and how long it takes to read them all."""

    def __init__(self, c: Configuration, files: str) -> None:
        kept = [n for n in range(c["records"]) if keeps(c, n) and not is_damaged(c, n)]
        began = time.monotonic()
        #: The batches of each rank; of some a rank may have no rows.
        self.parts = [self._read(c, files, rank) for rank in range(c["ranks"])]
        steps = [len(parts) for parts in self.parts]
        check(len(set(steps)) == 1, f"the ranks make {steps} steps")
        self.batches = [[row for part in parts for row in part] for parts in zip(*self.parts)]
        self.seconds = time.monotonic() - began
        came = [row for rows in self.batches for row in rows]
        everything = sorted(kept * c["passes"])
        if c["drop"]:
            self._check_dropped(c, came, everything)
        else:
            check(sorted(came) == everything, f"{len(came)} records of {len(everything)} kept")
        if c["order"] == "files" and c["batching"] == "rows" and c["source"] != "mixture":
            check(came == (kept * c["passes"])[: len(came)], "the order of the files is not kept")

    @staticmethod
    def _check_dropped(c: Configuration, came: list[int], everything: list[int]) -> None:
        """The rest of all passes is dropped, less than a batch, and no other record."""
        places = c["records"] * c["passes"] if c["skip"] else len(everything)
        check(not Counter(came) - Counter(everything), "a record comes too often")
        lost = len(everything) - len(came)
        check(0 <= lost <= places % c["batch"], f"{lost} records are dropped as a rest")
        check(c["skip"] or lost == places % c["batch"], f"{lost} records are dropped as a rest")

    @staticmethod
    def _read(c: Configuration, files: str, rank: int) -> list[list[int]]:
        functions = Functions(c, throws=False)
        chain = open_chain(c, files, functions, rank)
        parts = [rows_of(batch) for batch in chain]
        chain.close()
        return parts


# ---- Who asks ----


def copied(batch: Any) -> Any:
    if isinstance(batch, tuple):
        return tuple(array.copy() for array in batch)
    return {name: array.copy() for name, array in batch.items()}


def asked(chain: Any, asker: str) -> Iterator[Any]:
    """The batches of a loop, each asked for in a thread of its own."""
    if asker == "here":
        yield from chain
        return
    loop = iter(chain)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        if asker == "pool":
            while (batch := pool.submit(next, loop, None).result()) is not None:
                yield batch
            return

        async def gather() -> list[Any]:
            running = asyncio.get_running_loop()
            rows = []
            while (batch := await running.run_in_executor(pool, next, loop, None)) is not None:
                rows.append(copied(batch))
            return rows

        yield from asyncio.run(gather())


# ---- Ends ----


@contextlib.contextmanager
def interrupted(seconds: float, stop: str) -> Iterator[None]:
    """KeyboardInterrupt in this thread after a while, but for the body alone."""
    main = threading.get_ident()
    armed = True

    def interrupt(number: int, frame: Any) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt), signal.signal(signal.SIGALRM, interrupt)
    timer = threading.Timer(seconds, lambda: signal.pthread_kill(main, signal.SIGINT))
    try:
        if stop == "interrupt":
            timer.start()
        else:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])


class Trial:
    """One run of a configuration."""

    def __init__(self, c: Configuration, files: str, rng: random.Random) -> None:
        self.c = c
        self.files = files
        self.rng = rng
        self.expected = Expected(c, files)
        self.functions = Functions(c, slow=c["filter"] == "slow")

    def run(self) -> None:
        c = self.c
        if "throws" in (c["filter"], c["parser"]):
            return self._throws()
        if c["stop"] in EXITS:
            return self._exits()
        chain = open_chain(c, self.files, self.functions)
        if c["stop"] in INTERRUPTS:
            return self._interrupted(chain)
        if c["epochs"] != "one":
            return self._epochs(chain)
        if c["stop"] == "none":
            self._compare([rows_of(batch) for batch in asked(chain, c["asker"])], whole=True)
            return self._calls_of(chain.close)
        if c["stop"] == "close elsewhere":
            return self._closed_elsewhere(chain)
        self._compare(self._some(chain), whole=False)
        if c["stop"] == "close":
            self._calls_of(chain.close)
            # A generator's reader says that it has to be started first.
            with contextlib.suppress(ringfeed.Error, StopIteration, RuntimeError):
                next(chain)
                raise Difference("a batch after close()")
        else:
            box = [chain]
            del chain

            def let_go() -> None:
                box.clear()
                gc.collect()

            self._calls_of(let_go)

    def _compare(self, got: list[list[int]], whole: bool, begin: int = 0) -> None:
        expected = self.expected.parts[0][begin:]
        for i, rows in enumerate(got):
            check(i < len(expected), f"batch {begin + i} is more than there are")
            check(rows == expected[i], f"batch {begin + i} is {rows[:4]}…, not {expected[i][:4]}…")
        check(not whole or len(got) == len(expected), f"{len(got)} batches of {len(expected)}")

    def _some(self, chain: Any) -> list[list[int]]:
        """The first batches, as many as can be read in a short time of a slow filter."""
        most = len(self.expected.batches)
        if self.functions.slow:
            most = min(most, FEW_ROWS // self.c["batch"])
        count = self.rng.randint(0, most)
        return [rows_of(next(chain)) for _ in range(count)]

    def _calls_of(self, end: Callable[[], Any]) -> None:
        """Ends the chain; it may wait for calls of functions that are under way, and for no more.
        (Slow ones alone count. Of fast ones, which a slow function has, too, there are hundreds
        before this thread has the interpreter's lock.)"""
        before = self.functions.slept
        end()
        after, slept = self.functions.calls, self.functions.slept - before
        check(slept <= LATE_CALLS + self.c["threads"], f"the end waited for {slept} slow calls")
        time.sleep(0.002)
        check(self.functions.calls == after, "functions are called after the end")

    def _closed_elsewhere(self, chain: Any) -> None:
        got: list[list[int]] = []
        raised: list[BaseException] = []

        def read() -> None:
            try:
                for batch in chain:
                    got.append(rows_of(batch))
            except ringfeed.errors.Cancelled:
                pass
            except BaseException as error:
                raised.append(error)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        time.sleep(self._moment())
        self._calls_of(chain.close)
        reading.join(60)
        check(not reading.is_alive(), "a read does not end by close()")
        check(not raised, f"a read raised {raised[:1]} after close()")
        self._compare(got, whole=False)

    def _moment(self) -> float:
        """Some time while it is read."""
        return self.rng.uniform(0, 0.1 if self.functions.slow else self.expected.seconds)

    def _interrupted(self, chain: Any) -> None:
        c = self.c
        got: list[tuple[int, list[int]]] = []
        batch: Any = None
        was_interrupted = False
        gathers = c["loop"] == "gather"
        try:
            with interrupted(self._moment(), c["stop"]):
                for batch in chain:
                    if gathers:
                        got.append((id(batch), rows_of(batch)))
        except KeyboardInterrupt:
            was_interrupted = True
        if gathers and batch is not None and (not got or got[-1][0] != id(batch)):
            got.append((id(batch), rows_of(batch)))
        gathered = [rows for _, rows in got]
        if not was_interrupted:
            if gathers:
                self._compare(gathered, whole=True)
            chain.close()
            return
        self._go_on(chain, gathered if gathers else None, batch)

    def _go_on(self, chain: Any, gathered: Optional[list[list[int]]], batch: Any) -> None:
        """After Ctrl-C: the loop has `gathered`, or at least `batch`."""
        count = 0 if gathered is None else len(gathered)
        state = None
        if self.c["source"] != "generator":
            state = json.loads(json.dumps(chain.state_dict()))
            number = state["position"].get("batch", 0)
            check(chain.batch_number == number, f"number {chain.batch_number}, position {number}")
            if gathered is None:
                count = number
                held = None if batch is None else rows_of(batch)
                all_of: list[Any] = [None, *self.expected.parts[0]]
                check(held == all_of[number], f"{number} batches count, but the loop has another")
            check(number == count, f"{number} batches count of {count} that the loop has")
        if gathered is not None:
            self._compare(gathered, whole=False)
        if state is not None and state["ended"]:
            chain.close()
            return
        if self.c["resume"] == "here":
            self.functions.slow = False
            left = chain if self.c["source"] == "generator" else chain.rest()
            self._compare([rows_of(each) for each in left], whole=True, begin=count)
            chain.close()
            return
        self._calls_of(chain.close)
        alone = {**self.c, "ranks": 1}
        chain = open_chain(alone, self.files, Functions(self.c))
        chain.load_state_dict(state)
        rest = [rows_of(each) for each in chain]
        expected = self.expected.batches[count:]
        if not expected:  # saved after the last batch: the next epoch
            expected = self._whole_epochs(2, alone)[1]
        check(rest == expected, f"after batch {count} it goes on with others")
        chain.close()

    def _whole_epochs(self, count: int, c: Configuration) -> list[list[list[int]]]:
        """The batches of so many epochs, each read to its end."""
        chain = open_chain(c, self.files, Functions(self.c))
        epochs = [[rows_of(batch) for batch in chain] for _ in range(count)]
        chain.close()
        return epochs

    def _epochs(self, chain: Any) -> None:
        """Loops that end before the end of their epoch, and a run that goes on from the last."""
        epochs = self._whole_epochs(5, self.c)
        check(epochs[0] == self.expected.parts[0], "an epoch is not as it was")
        with contextlib.suppress(TypeError):  # it is not always known
            check(len(chain) == len(epochs[0]), f"len() is {len(chain)} of {len(epochs[0])}")
        for epoch in range(3):
            exact = self.c["epochs"] == "exact"
            # Of no batch at all the epoch would not be over.
            count = len(epochs[epoch]) if exact else self.rng.randint(1, len(epochs[epoch]) or 1)
            got = [rows_of(batch) for batch in itertools.islice(iter(chain), count)]
            check(got == epochs[epoch][:count], f"epoch {epoch}: {len(got)} batches of {count}")
            if self.c["source"] not in ("dataset", "mixture", "sequences") and epochs[epoch]:
                check(chain.epoch // self.c["passes"] == epoch, f"epoch {epoch} is {chain.epoch}")
        state = json.loads(json.dumps(chain.state_dict()))
        check([rows_of(each) for each in chain.rest()] == epochs[2][count:], "rest() is another")
        check([rows_of(each) for each in chain] == epochs[3], "the epoch after the rest")
        chain.close()
        chain = open_chain(self.c, self.files, Functions(self.c))
        chain.load_state_dict(state)
        for epoch in (2, 3, 4) if count < len(epochs[2]) else (3, 4):
            got = [rows_of(each) for each in chain]
            begin = count if epoch == 2 else 0
            check(got == epochs[epoch][begin:], f"epoch {epoch} after a state: {len(got)} batches")
        chain.close()

    def _throws(self) -> None:
        chain = open_chain(self.c, self.files, self.functions)
        good = [row for rows in self.expected.batches for row in rows]
        good = good[: good.index(thrower(self.c))] if thrower(self.c) in good else good
        generator = self.c["source"] == "generator"
        for again in range(2 if generator else 4):
            if again == 2:
                chain.reset()
            got: list[int] = []
            raised: Optional[BaseException] = None
            try:
                for batch in chain.rest() if again == 1 and not generator else chain:
                    got += rows_of(batch)
            except Exception as error:
                raised = error
            check(type(raised) is Refused, f"read {again}: it raised {raised!r}")
            check(raised is not None and raised.args[1:] == (thrower(self.c),), f"it is {raised!r}")
            check(got == ([] if again == 1 else good), f"{len(got)} records before what is thrown")
        chain.close()

    def _exits(self) -> None:
        count = self.rng.randint(
            1, max(1, min(len(self.expected.batches), FEW_ROWS // self.c["batch"]))
        )
        told = Path(self.files.partition("?")[0] + "calls")
        told.write_bytes(bytes(16))
        given = json.dumps([self.c, self.files, count, str(told)])
        words = [sys.executable, __file__, "--child", given]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
        status = -signal.SIGINT if self.c["stop"] == "exit by interrupt" else 0
        check(done.returncode == status, f"exit {done.returncode}: {done.stderr[-500:]}")
        before, after = struct.unpack("<qq", told.read_bytes())
        check(
            after - before <= LATE_CALLS + self.c["threads"],
            f"the process waited for {after - before} slow calls",
        )
        if status == 0:
            check(done.stderr == "", f"it printed {done.stderr[-500:]}")


def be_child(c: Configuration, files: str, count: int, told: str) -> None:
    """Reads so many batches and lets the process end. Tells how many slow calls there were when its
    main program ended, and how many there are at last."""
    functions = Functions(c, slow=c["filter"] == "slow")
    with open(told, "r+b") as file:
        functions.told = mmap.mmap(file.fileno(), 16)
    chain = open_chain(c, files, functions)
    for _ in range(count):
        if next(chain, None) is None:
            break
    globals()["chain"] = chain  # nothing but the end of the process ends it
    struct.pack_into("<qq", functions.told, 0, functions.slept, functions.slept)
    if c["stop"] == "exit by interrupt":
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)


# ---- The search ----


def difference_of(c: Configuration, folder: Path, rng: random.Random) -> str:
    """ "" where what came is what must come."""
    files = write_files(folder, c)
    faulthandler.dump_traceback_later(150, exit=True)
    try:
        Trial(c, files, rng).run()
    except Difference as difference:
        return str(difference)
    except subprocess.TimeoutExpired:
        return "the process does not end"
    except Exception:
        return traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
    return ""


def be_job(
    words: argparse.Namespace, first: int, folder: Path, tells: connection.Connection
) -> None:
    """Runs every words.jobs-th configuration from the first on. Tells (configuration, None) before
    it runs one, and (configuration, difference) after."""
    os.setsid()  # Ctrl-C is the search's, which ends this process and those that it started
    folder.mkdir()
    with contextlib.suppress(BrokenPipeError):  # the search is no more
        for number in range(first, words.count, words.jobs):
            if time.monotonic() >= words.end:
                return
            rng = random.Random(f"{words.seed} {number}")
            c = draw(rng) if words.only is None else {**plain(), **json.loads(words.only)}
            tells.send((text_of(c), None))
            tells.send((text_of(c), difference_of(c, folder, rng)))


class Job:
    """A process that runs a part of the configurations."""

    def __init__(self, words: argparse.Namespace, first: int, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.told, tells = context.Pipe(duplex=False)
        self.runs = ""  #: the configuration that it has begun
        self._process = context.Process(
            target=be_job, args=(words, first, folder / str(first), tells), daemon=True
        )
        self._process.start()
        tells.close()

    def receive(self) -> Optional[str]:
        """The difference of the configuration that it ran; None where it begins one. EOFError at
        its end."""
        self.runs, found = self.told.recv()
        return found  # type: ignore[no-any-return]

    def status(self) -> int:
        self._process.join()
        return self._process.exitcode or 0

    def end(self) -> None:
        pid = self._process.pid
        if pid is not None and self._process.is_alive():
            with contextlib.suppress(ProcessLookupError):  # it has no group yet
                os.killpg(pid, signal.SIGKILL)
            self._process.kill()
        self._process.join()


class Search:
    """Starts the jobs and sums up what they tell."""

    def __init__(self, words: argparse.Namespace) -> None:
        self._words = words
        self.count = 0
        self.differences = 0

    def run(self) -> None:
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as ends:
            if WebServer.missing():
                print(f"{WebServer.missing()}: all files are read from the disk")
            else:
                server = ends.enter_context(WebServer(Path(name)))
                os.environ[SERVER] = f"{server.endpoint} {name}"
            jobs: dict[Any, Job] = {}
            for first in range(self._words.jobs):
                job = Job(self._words, first, Path(name))
                ends.callback(job.end)
                jobs[job.told] = job
            while jobs:
                for told in connection.wait(list(jobs)):
                    if not self._hear(jobs[told]):
                        del jobs[told]

    def _hear(self, job: Job) -> bool:
        """What a job tells next; False where that is its end."""
        try:
            found = job.receive()
        except EOFError:
            status = job.status()
            if status != 0:
                self._differs(f"a job ended with status {status}", job.runs)
            return False
        if found is None:
            self.count += 1
        elif found:
            self._differs(found, job.runs)
        return True

    def _differs(self, found: str, configuration: str) -> None:
        self.differences += 1
        print(f"difference: {found}\n  --only '{configuration}'", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        be_child(*json.loads(words.child))
        return 0
    if words.jobs < 1:
        parser.error("--jobs must be at least 1")
    if words.only is not None:
        words.count, words.seconds = words.tries, None
    elif words.count is None and words.seconds is None:
        words.seconds = 20
    words.count = sys.maxsize if words.count is None else words.count
    words.end = time.monotonic() + (float("inf") if words.seconds is None else words.seconds)
    print(f"seed {words.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    search = Search(words)
    was_interrupted = False
    try:
        search.run()
    except KeyboardInterrupt:
        was_interrupted = True
    print(f"{search.count} configurations, {search.differences} differences")
    if was_interrupted:
        return 128 + signal.SIGINT
    return 1 if search.differences or search.count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
