"""What lies around a run, as dimensions of the search: system calls that fail, a sector that cannot be read,
hostile indexes, names that are not plain, variables of launchers, two processes at one index, limits of
memory.

A fault is injected by a library that the process loads (inject.cc). Whatever fails, four things hold:
nothing comes twice, nothing comes that was never there, every value is the record's, and the exit status is
not 0 if records are missing. What the system refuses is no damage. A sector that cannot be read costs the
records that have bytes in it, and no others, in every order.
"""

import errno
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess

import files
from files import GAP, HOLE
from model import REFUSED

#: "sector" is of the disk; "journal" fails reads of a journal that is gone on with; all others fail calls
#: that concern a file of the data, or the process.
FAULTS = ("none", "sector", "open", "no descriptor", "fstat", "stat", "read", "interrupted read", "no mapping",
          "no thread", "no uring", "journal", "short of memory")
#: What the system refuses, and no disk.
REFUSALS = ("no descriptor", "no mapping", "no thread", "no uring", "short of memory", "interrupted read")
#: Calls that are tried another way, or once more, so that nothing is missing.
MENDED = ("no mapping", "interrupted read")
INJECTED = {"open": ("open", errno.EIO), "no descriptor": ("open", errno.EMFILE),
            "fstat": ("fstat", errno.EIO), "stat": ("stat", errno.EIO), "read": ("pread", errno.EIO),
            "interrupted read": ("pread", errno.EINTR), "no mapping": ("mmap", errno.ENOMEM),
            "no thread": ("thread", errno.EAGAIN), "no uring": ("uring", errno.EPERM)}
#: Calls of these fail from the first on, or from one of the first.
LASTING = ("no mapping", "no uring", "no thread")
SECTOR_BYTES = 4096
#: Formats of which the records behind bytes that cannot be read are found again.
RESUMED = ("tfrecord", "recordio", "lines", "jsonl", "rows", "npy", "tokens")
#: KiB of address space: from less than the command itself takes to enough.
FEW_KIB = (80_000, 100_000, 120_000, 140_000, 160_000, 200_000, 300_000)

#: A name of each kind that a shell, a glob, a report or a journal might take for something else.
ODD = ("two words", "-dash", "quote'\"", "per%20cent", "ümlaut", "new\nline", "st[1]r", "br{a,c}e", "que?",
       "ast*", "back\\slash", "#hash", "$HOME", "a:b", "comma,x")

LAUNCHERS = ("words", "torchrun", "env", "slurm", "open mpi", "words before variables")

#: Headers of index files, after docs/FORMATS.md and readers/index/index_image.h.
HEADER = struct.Struct("<16sII QqQqQ QQQQQQQQQQQ II BB6s 64s")
HEADER_VERSION = 4
HEADER_NAMES = ("magic version checksum bytes modified sample changed inode most_record longest units records "
                "pages gaps data_end damaged lost first_lost damage_bytes damage_checksum gaps_checksum chunks "
                "wide unused format").split()
PAGE_BYTES = 4096


def injector(folder):
    """The library that makes calls fail, compiled into `folder`."""
    library = pathlib.Path(folder) / "inject.so"
    source = pathlib.Path(__file__).parent / "inject.cc"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-shared", "-fPIC", source, "-o",
                    library, "-ldl"], check=True)
    return library


def launcher_variables(launcher, rank, ranks):
    """What it says to a process; text for each variable."""
    said = {
        "torchrun": {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks},
        "env": {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": 1},
        "slurm": {"SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_LOCALID": rank,
                  "SLURM_STEP_NUM_TASKS": ranks, "SLURM_NTASKS": ranks, "SLURM_NODEID": 0,
                  "SLURM_STEP_TASKS_PER_NODE": ranks},
        "open mpi": {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": ranks,
                     "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": ranks},
        "words before variables": {"RANK": 4, "WORLD_SIZE": 5, "LOCAL_RANK": 4, "LOCAL_WORLD_SIZE": 5},
    }.get(launcher, {})
    return {name: str(value) for name, value in said.items()}


def odd_name(number, path):
    """A path in the same folder under a name that is not plain, with the same ending."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{ODD[number % len(ODD)]}-{number}{name[name.index('.'):]}")


def swap_file(path, made):
    """Puts another file of the same format and size in its place: the same records the other way round,
    which stand at other offsets unless they are all alike."""
    whole = pathlib.Path(path).read_bytes()
    ends = [offset for offset, _ in made.records[1:]] + [len(whole)]
    begins = [offset for offset, _ in made.records]
    pieces = [whole[begin:end] for begin, end in zip(begins, ends)]
    if not all(pieces):
        return
    pathlib.Path(path + ".new").write_bytes(whole[:begins[0]] + b"".join(reversed(pieces)))
    os.replace(path + ".new", path)


def split_indexes(folder):
    """Gives each small file of a folder an index by itself, in place of that in the folder's .rfx."""
    path = pathlib.Path(folder) / ".rfx"
    if not path.exists():
        return
    data = path.read_bytes()
    at, entries = 16, {}
    while at < len(data):
        name_bytes, index_bytes = struct.unpack_from("<II", data, at + 4)
        name = data[at + 28:at + 28 + name_bytes]
        at += 28 + name_bytes + index_bytes
        entries[os.fsdecode(name)] = data[at - index_bytes:at]
    for name, index in entries.items():
        fields = dict(zip(HEADER_NAMES, HEADER.unpack_from(index)))
        width = (8 if fields["wide"] else 4) * (2 if fields["chunks"] else 1)
        end = HEADER.size + (24 + fields["units"] * width if fields["pages"] else 0)
        page = index[HEADER.size:end].ljust(fields["pages"] * PAGE_BYTES, b"\0")
        own = pathlib.Path(folder) / f".{name}.rfx"
        own.write_bytes(index[:HEADER.size].ljust(PAGE_BYTES, b"\0") + page + index[end:])
    path.unlink()


def rewrite_index(path, how):
    """Gives an index that is right another content with right checksums: of half of the records, of none,
    or of more than its file has bytes. Indexes of several pages are left as they are."""
    data = path.read_bytes()
    fields = dict(zip(HEADER_NAMES, HEADER.unpack_from(data)))
    assert fields["version"] == HEADER_VERSION, "the index has a new layout, which HEADER must have, too"
    if fields["chunks"] or fields["pages"] != 1 or fields["units"] < 2:
        return
    width = 8 if fields["wide"] else 4
    body = data[PAGE_BYTES + 4:2 * PAGE_BYTES]  # entries, the offset and the number that they count from
    base = int.from_bytes(body[4:12], "little")
    units = {"half": fields["units"] // 2, "none of them": 0, "too many": 1}[how]
    page = checked_page(struct.pack("<I", units) + body[4:20 + width * units])
    if how == "half":
        fields["data_end"] = base + int.from_bytes(body[20 + width * units:][:width], "little")
    if how == "none of them":
        fields["data_end"], page = 0, b""
    if how == "too many":  # one chunk of so many records
        page = checked_page(struct.pack("<IQQQQ", 1, 0, 0, base, 0))
        fields.update(chunks=1, wide=1)
    fields.update(units=units, records=2 ** 64 - 1 if how == "too many" else units, gaps=0, damaged=0, lost=0,
                  first_lost=0, damage_bytes=0, pages=len(page) // PAGE_BYTES, checksum=0,
                  gaps_checksum=files.crc32c(b""), damage_checksum=files.crc32c(b""))
    fields["checksum"] = files.crc32c(HEADER.pack(*(fields[name] for name in HEADER_NAMES)))
    header = HEADER.pack(*(fields[name] for name in HEADER_NAMES))
    path.write_bytes(header + bytes(PAGE_BYTES - len(header)) + page)


def checked_page(body):
    body += bytes(PAGE_BYTES - 4 - len(body))
    return struct.pack("<I", files.crc32c(body)) + body


def report_of(process):
    try:
        return json.loads(process.out())
    except json.JSONDecodeError:
        return None


class BorderRuns:
    """The part of a Run in which something around it fails."""

    def injected(self, fault, victim, first, times=1, call=None):
        """The variables of a process whose calls fail."""
        name, error = call or INJECTED[fault]
        ending = "" if name in ("thread", "uring") else os.path.basename(victim)
        return {"LD_PRELOAD": str(self.place.injector),
                "RINGFEED_INJECT": f"{name},{error},{first},{times},{ending}"}

    def _faulted(self):
        fault = self.configuration["fault"]
        if fault == "sector":
            self._bad_sector()
        elif fault == "journal":
            self._journal_that_cannot_be_read()
        else:
            self._refused_call(fault)

    def _refused_call(self, fault):
        """A run in which a call fails, and one that goes on from its position without that."""
        rng = self.rng
        total = max(1, self.expected.places())
        most = rng.choice([0, rng.randint(1, total)])
        more = ["--max-batches", most] if most else []
        lasting = fault in LASTING
        if fault == "short of memory":
            process = self.rank_processes("first", 1, more, kib=rng.choice(FEW_KIB))[0]
        else:
            variables = self.injected(fault, rng.choice(self.paths), rng.randint(1, 6) if fault != "no uring"
                                      else 1, 0 if lasting else 1)
            process = self.rank_processes("first", 1, more, variables=variables)[0]
        if not self.finish([process]):
            return
        found = self.deliveries(process)
        wanted, ended, _ = self.expected.run(most=most)
        if ended == REFUSED:
            return
        self._check_part(process, found, wanted)
        report = report_of(process)
        listed = bool((report or {}).get("damaged")) or (report or {}).get("damaged_records", 0) > 0
        if fault in REFUSALS and listed:
            self.fault(f"{fault}: what the system refuses is called damage", process)
        # Compressed files are never read by it.
        plain = any(file.compression == "none" for file in self.made)
        forced = fault == "no uring" and self.configuration["io"] == "uring" and plain
        # Megatron's list of documents is mapped, whatever the data's path.
        mapped = self.configuration["io"] == "mmap" or self.configuration["format"] == "megatron"
        forced = forced or fault == "no mapping" and mapped
        if fault in MENDED + ("no uring",) and not forced and process.returncode != 0:
            self.fault(f"{fault}: can be done another way, but fails", process)
        if forced and fault == "no uring" and process.returncode == 0 and wanted:
            self.fault("a forced path that cannot work is no error", process)
        if process.returncode == 0 and process.position.exists():
            self._goes_on(process)

    def _check_part(self, process, found, wanted):
        """What came is a part of what was to come; all of it if the exit status is 0."""
        if process.returncode == 0 and found != wanted:
            self.fault(f"exit status 0, but {sum(len(rows) for _, rows in found)} records came of "
                       f"{sum(len(rows) for _, rows in wanted)}", process)
            return
        rows = [row for _, batch in found for row in batch]
        there = all(number < len(self.made[file].numbered) for _, file, number in rows)
        if len(rows) != len(set(rows)) or not there:
            self.fault("delivers a record twice, or one that was never there", process)
            return
        report = report_of(process)
        if report is not None and report["order_digest"] != self.expected.order_digest(found):
            self.fault("wrong values are delivered as good", process)
        words = process.err() or (report or {}).get("damaged") or (report or {}).get("error")
        if process.returncode != 0 and not words:
            self.fault("fails without a word", process)

    def _goes_on(self, first):
        """From the position of a run that said nothing of a failure."""
        process = self.rank_processes("second", 1, ["--position-in", first.position])[0]
        if not self.finish([process]):
            return
        batch = json.loads(first.position.read_text())["batch"]
        wanted = self.expected.run(start=batch)[0]
        if process.returncode != 0 or self.deliveries(process) != wanted:
            self.fault("nothing can go on from the position of a run that exits 0", process)

    def _bad_sector(self):
        """4 KiB of a file that cannot be read."""
        victim = self.rng.randrange(len(self.paths))
        path = self.paths[victim]
        size = os.path.getsize(path)
        if size < 3 * SECTOR_BYTES:
            return
        sector = self.rng.randrange(1, size // SECTOR_BYTES - 1) * SECTOR_BYTES
        variables = self.injected("", path, sector, 0, ("sector", errno.EIO))
        process = self.rank_processes("first", 1, variables=variables)[0]
        if not self.finish([process]):
            return
        if process.returncode == 0:
            self.fault("a sector cannot be read, but the exit status is 0", process)
        report = report_of(process)
        if self.configuration["damage"] == "fail":
            if not process.err():
                self.fault("fails without a word", process)
            return
        if report is None:
            self.fault("no report", process)
            return
        lost, either = records_in(self.made[victim], sector)
        passes = self.configuration["passes"]
        allowed = [(len(good) * passes, multiset_of_passes(good, passes))
                   for good in (self._good_without(victim, lost), self._good_without(victim, lost | either))]
        if (report["records"], report["multiset"]) not in allowed:
            self.fault(f"{report['records']} records come, of which none has bytes in the sector that cannot "
                       f"be read: {allowed[0][0]}", process)

    def _good_without(self, victim, lost):
        return [payload for i, file in enumerate(self.made) for number, payload in enumerate(file.payloads)
                if payload is not HOLE and payload is not GAP and not (i == victim and number in lost)]

    def _journal_that_cannot_be_read(self):
        total = max(1, self.expected.places())
        first = self.rank_processes("first", 1, ["--max-batches", self.rng.randint(1, total)])[0]
        if not self.finish([first]) or not first.position.exists() or not first.journal.exists():
            return
        before = first.journal.read_bytes()
        second = self.folder / "second-0.journal"
        shutil.copy(first.journal, second)
        variables = self.injected("", second, self.rng.randint(1, 3), 1,
                                  ("pread", self.rng.choice([errno.EIO, errno.EINTR])))
        process = self.rank_processes("second", 1, ["--position-in", first.position], variables=variables)[0]
        if not self.finish([process]):
            return
        if not second.read_bytes().startswith(before):
            self.fault("a journal that could not be read is cut", process)
        if process.returncode != 0 and not process.err():
            self.fault("fails without a word", process)


def records_in(file, sector):
    """Numbers of the records that have bytes in it, and of one that begins right behind it: whether a line
    begins there cannot be known."""
    begins = sorted({offset for offset, _ in file.records})
    ends = {begin: end for begin, end in zip(begins, begins[1:] + [file.size])}
    lost = {number for number, (begin, _) in enumerate(file.records)
            if begin < sector + SECTOR_BYTES and ends[begin] > sector}
    either = {number for number, (begin, _) in enumerate(file.records) if begin == sector + SECTOR_BYTES}
    return lost, either


def multiset_of_passes(payloads, passes):
    total = sum(int.from_bytes(hashlib.sha256(payload).digest(), "little") for payload in payloads)
    return f"{passes * total % 2 ** 256:064x}"
