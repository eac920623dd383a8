"""Jobs of several processes of the command, and what their journals say that they delivered.

What is read here is the text of a journal alone; whether it is complete and consistent is for
`ringfeed audit` to say, and what a batch should hold for the run of a single process.
"""

import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "order"))

from data_files import crc32c, flipped, record_of, tfrecord_frame  # noqa: E402, F401

LONGEST_RUN_S = 120
MOST_POSITION_BYTES = 1024
ROW_BYTES = 64

#: Variables of launchers, ours to set and nobody else's.
LAUNCHER_PREFIXES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_",
                     "PMIX_", "PMI_", "MPI_LOCAL", "MV2_", "SLURM_", "RINGFEED_")


def clean_environment():
    return {name: value for name, value in os.environ.items()
            if not name.startswith(LAUNCHER_PREFIXES)}


class DataSet:
    """Files of records that are known: records[f][i] is record i of file f."""

    def __init__(self, folder, name, counts, writer, words=()):
        rng = random.Random(name)
        self.words = list(words)
        self.paths, self.records = [], []
        number = 1
        for file, count in enumerate(counts):
            records = []
            for _ in range(count):
                records.append(writer.record(number, rng))
                number += 1
            path = pathlib.Path(folder) / f"{name}-{file}{writer.ending}"
            path.write_bytes(b"".join(map(writer.frame, records)))
            self.paths.append(path)
            self.records.append(records)

    @property
    def total(self):
        return sum(map(len, self.records))

    def payload(self, file, record):
        return self.records[file][record]

    def forget_indexes(self):
        for path in self.paths:
            for index in (*path.parent.glob(f".{path.name}.rfx"), *path.parent.glob(".rfx")):
                index.unlink()


class Rows:
    ending = ".rows"
    record = staticmethod(lambda number, rng: record_of(number, ROW_BYTES))
    frame = staticmethod(lambda record: record)
    words = ("--format", f"rows:{ROW_BYTES}")


class Lines:
    ending = ".txt"
    record = staticmethod(lambda number, rng: record_of(number, rng.randint(8, 120)))
    frame = staticmethod(lambda record: record + b"\n")
    words = ("--format", "lines")


class TfRecords:
    ending = ".tfrecord"
    record = staticmethod(lambda number, rng: record_of(number, rng.randint(8, 150)))
    frame = staticmethod(tfrecord_frame)
    words = ()


def make_data(folder, scale=1):
    """One set of each kind."""
    return [
        DataSet(folder, "rows", [900 * scale, 0, 500 * scale, 1600 * scale, 1], Rows, Rows.words),
        DataSet(folder, "lines", [1200 * scale, 700 * scale, 30], Lines, Lines.words),
        DataSet(folder, "examples", [250 * scale] * 6, TfRecords, TfRecords.words),
    ]


def order_digest(payloads):
    """As the command's report has it."""
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in payloads)).hexdigest()


# ---- Journals ----


def batches_of(text):
    """{number of a batch: its records as (pass, file, record)} of each start of a journal, in order:
    [(batch that it starts with, batches)]. A last line without an end was being written."""
    starts = []
    for line in text[:text.rfind("\n") + 1].splitlines():
        words = line.split()[:-1]  # without the checksum
        if words[0] == "ringfeed-journal":
            fields = dict(word.split("=", 1) for word in words[2:])
            starts.append((int(fields["batch"]), {}))
        elif words[0] in ("b", "c"):  # c: cut short by a failure
            ranges = words[3:words.index("!")] if "!" in words else words[3:]
            starts[-1][1][int(words[1])] = [
                (int(words[2]), *record) for each in ranges for record in records_of(each)]
        else:
            assert words[0] in ("d", "e"), line
    return starts


def records_of(text):
    file, _, rest = text.partition(":")
    first, _, count = rest.partition("+")
    return [(int(file), int(first) + i) for i in range(int(count or 1))]


class Deliveries:
    """What a job delivered, whatever it was interrupted by: a run that starts at batch S takes back
    what earlier ones delivered from S on."""

    def __init__(self):
        self.batches = {}  # number: {rank: records}

    def add(self, start, by_rank):
        """The batches of each rank of one run, {rank: {number: records}}."""
        for number in [each for each in self.batches if each >= start]:
            del self.batches[number]
        for rank, batches in by_rank.items():
            for number, records in batches.items():
                assert number >= start, f"batch {number} of a run that starts at {start}"
                self.batches.setdefault(number, {})[rank] = records

    def sequence(self):
        """[(batch, records of all ranks in their order)]. One of damaged records alone has an entry
        without any: it is left out."""
        joined = [(number, [record for rank in sorted(ranks) for record in ranks[rank]])
                  for number, ranks in sorted(self.batches.items())]
        return [each for each in joined if each[1]]

    def records(self):
        return [record for _, records in self.sequence() for record in records]


def with_checksum(line):
    """A line of a journal whose text was changed."""
    text = line.rpartition(" *")[0]
    return f"{text} *{crc32c(text.encode()):08x}"


# ---- Processes ----


def position_batch(path):
    """The batch that a saved position stands behind, None where there is none; it is never half a
    file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    assert len(text.strip()) <= MOST_POSITION_BYTES, f"{path}: {len(text)} bytes"
    return json.loads(text)["batch"]


class Job:
    """The same command for every rank of a job."""

    def __init__(self, binary, data, words, folder):
        self.binary = str(binary)
        self.data = data
        self.words = [str(word) for word in words]
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def command(self, rank, *more):
        return [self.binary, "feed", *map(str, self.data.paths), *self.data.words, *self.words,
                "--journal", str(self.journal(rank)), "--json", *map(str, more)]

    def journal(self, rank):
        return self.folder / f"{rank}.journal"

    def start(self, rank, *more, environment=None):
        return subprocess.Popen(self.command(rank, *more), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env={**clean_environment(), **(environment or {})})

    def run(self, ranks, words_of=None, environment_of=None, statuses=(0,)):
        """All ranks to their end; their reports."""
        words_of = words_of or (lambda rank: ("--rank", rank, "--ranks", ranks))
        environment_of = environment_of or (lambda rank: {})
        processes = [self.start(rank, *words_of(rank), environment=environment_of(rank))
                     for rank in range(ranks)]
        return [report_of(process, statuses) for process in processes]

    def deliveries(self, ranks):
        """Of one undisturbed run."""
        found = Deliveries()
        by_rank = {}
        for rank in range(ranks):
            ((start, batches),) = batches_of(self.journal(rank).read_text())
            assert start == 0
            by_rank[rank] = batches
        found.add(0, by_rank)
        return found

    def audit(self, journals, status=0):
        return audit(self.binary, journals, status)


def report_of(process, statuses):
    try:
        out, err = process.communicate(timeout=LONGEST_RUN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode not in statuses:
        raise AssertionError(f"{process.args}: exit {process.returncode}: {err[-2000:]}")
    return json.loads(out)


def audit(binary, journals, status=0):
    result = subprocess.run([binary, "audit", *map(str, journals), "--json"], capture_output=True,
                            text=True, timeout=LONGEST_RUN_S, env=clean_environment(), check=False)
    if result.returncode != status:
        raise AssertionError(f"audit ended with {result.returncode}: "
                             f"{result.stdout[-2000:]} {result.stderr[-2000:]}")
    return json.loads(result.stdout)
