"""Runs one configuration through the command, and says what differs from what the model expects of it."""

import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import threading
import time

import border
import files
import hostile_texts
import space
import watchdog
from border import report_of
from files import GAP, HOLE
from model import DAMAGED, ENDED, REFUSED, STOPPED, Expected

sys.path.insert(0, str(files.HERE.parent / "processes"))
from job import batches_of, clean_environment  # noqa: E402

#: What a run may take of memory: its arena is mapped, not used.
MOST_MAPPED_BYTES = 24 << 30
MOST_RESIDENT_BYTES = 500 << 20
#: What a stripe takes at least that a shuffle holds, and the batch that its rows go to.
SLAB_BYTES = 128 << 10
#: Of batches that are large themselves.
MOST_SLOTS = 6
FEW_DESCRIPTORS = 24
#: Bytes read for each byte of the files, at most, and what does not count.
MOST_READS = 2.5
FREE_READS_BYTES = 1 << 20
#: Of a file that changes: so many passes, or fewer where these are of as many records.
CHANGED_PASSES = 30
CHANGED_RECORDS = 40_000
#: Of a file system that has a page cache of its own to be dropped from.
COLD_FOLDER = os.environ.get("RINGFEED_COLD_FOLDER", "/var/tmp")


def names_of(configuration):
    """The files that a configuration reads, by name."""
    file_format, count, pick = configuration["format"], configuration["count"], configuration.get("pick", 0)
    names = []
    for i in range(count):
        hurt = {"last": i == count - 1, "first": i == 0, "all": True}[configuration["where"]]
        plain = configuration["mixed"] == "yes" and i % 2 == 1
        compression = "none" if plain else configuration["compression"]
        state = configuration["state"] if hurt else "intact"
        if not files.there_is(file_format, compression, state):
            state = "intact"
        names.append(".".join((file_format, compression, state, configuration["scale"], str((pick + i) % 12))))
    return names


class Place:
    """A folder of one worker: files are made in it once, each run has a folder of its own. `disk` is
    another one, of a file system with a page cache."""

    def __init__(self, binary, folder, disk, injector=None):
        self.injector = injector
        self.binary = str(binary)
        self.folder = pathlib.Path(folder)
        (self.folder / "files").mkdir(parents=True, exist_ok=True)
        self.library = files.Library(self.folder / "files")
        self.disk = pathlib.Path(disk)
        self.disk.mkdir(parents=True, exist_ok=True)
        self.observed = {}
        self.environment = clean_environment()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if not os.environ.get("RINGFEED_SANITIZER"):
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MAPPED_BYTES, hard))

    def files_of(self, names):
        made = [self.library.file(name) for name in names]
        for file in made:
            if not file.exact and file.name not in self.observed:
                self.observed[file.name] = self._observe(file)
        return made

    def _observe(self, file):
        """What is not known of a damaged file beforehand is read once, alone, in the plainest way: the
        order among others and every other way to read it must give the same. Returns what is wrong with
        that itself."""
        true = file.good()
        folder = self.folder / "observed"
        folder.mkdir(exist_ok=True)
        journal = folder / "journal"
        journal.unlink(missing_ok=True)
        words = [self.binary, "feed", file.path, *format_words(file), "--batch", 1, "--on-damage", "skip",
                 "--threads", 1, "--journal", journal, "--json"]
        cat = [self.binary, "cat", file.path, *format_words(file), "--as", "hex", "--on-damage", "skip"]
        run, seen, first = (
            watchdog.Process(each, folder, name, [journal], environment=self.environment)
            for each, name in ((words, "feed"), (cat, "cat"), ([*cat[:-1], "fail"], "first")))
        watchdog.finish([run, seen, first])
        payloads = [bytes.fromhex(line) for line in seen.out().split("\n")[:-1]]
        faults = [f"{file.name} alone: {process.stuck}" for process in (run, seen, first) if process.stuck]
        good, bad, last = read_journal(journal)
        statuses = {process.returncode for process in (run, seen, first)}
        if statuses == {0} and payloads == true:  # nothing that counts was hit
            return faults
        if statuses != {1}:
            faults.append(f"{file.name} alone: exit {run.returncode} and {seen.returncode} under skip, "
                          f"{first.returncode} under fail")
        if len(good) != len(payloads):
            faults.append(f"{file.name} alone: {len(good)} records, but {len(payloads)} by cat")
        if file.format not in files.UNCHECKED and any(each not in true for each in payloads):
            faults.append(f"{file.name} alone: delivers a record that is none of its own")
        numbers = {number: payload for (_, number), payload in zip(good, payloads)}
        offsets = [offset for offset, _ in file.records]
        end = max([number + 1 for _, number in (*good, *bad)] + [last])
        records, before, offset = [], -1, 0
        for number in range(end):
            payload = numbers.get(number, HOLE)
            # Of those that are alike the next one.
            before = next((i for i in range(before + 1, len(true)) if true[i] == payload), before)
            found = 0 <= before and true[before] == payload
            at = before if found else min(number, len(offsets) - 1)
            # Damage may have made a record alike another one; none stands before the one in front of it.
            offset = max(offset, offsets[at]) if offsets else 0
            records.append((offset, payload))
        file.records = records
        self._mark(file, len(first.out().split("\n")) - 1)
        file.whole = max(file.whole, file.size)
        file.size = max([offset + 1 for offset, _ in file.records] + [0])
        return faults

    @staticmethod
    def _mark(file, fault):
        """Where reading fails: at a record that has a number, or between two."""
        before = [i for i, (_, record) in enumerate(file.records) if record is not HOLE][fault:fault + 1]
        holes = [i for i, (_, record) in enumerate(file.records) if record is HOLE]
        file.fault = before[0] if before else len(file.records)
        if holes and holes[0] <= file.fault:
            file.fault = holes[0]
            return
        offset = file.records[file.fault - 1][0] if file.fault else 0
        file.records.insert(file.fault, (offset, GAP))


def read_journal(path):
    """(records, damaged ones, batches at the end) of a journal of one pass."""
    good, bad, last = [], [], 0
    text = path.read_text() if path.exists() else ""
    for line in text.splitlines():
        words = line.split()[:-1]
        if words[0] == "e":
            last = int(words[1])
        if words[0] not in ("b", "c"):
            continue
        cut = words.index("!") if "!" in words else len(words)
        for into, some in ((good, words[3:cut]), (bad, words[cut + 1:])):
            for each in some:
                file, _, rest = each.partition(":")
                first, _, count = rest.partition("+")
                into += [(int(file), int(first) + i) for i in range(int(count or 1))]
    return good, bad, last


def format_words(file):
    word = files.FORMAT_WORDS[file.format]
    return ["--format", word] if word else []


class Run(border.BorderRuns):
    """One configuration. `faults` is what differs."""

    def __init__(self, place, configuration):
        self.place = place
        self.configuration = configuration
        self.rng = random.Random(json.dumps(configuration, sort_keys=True))
        self.faults = []
        self.processes = []
        #: What a signal that was sent may do.
        self.allowed = {"killed": [-signal.SIGKILL], "interrupted": [-signal.SIGINT]}.get(
            configuration["stop"], [])
        self.short = False  # of memory or descriptors, which were asked to be few: that is said
        self.folder = place.folder / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.made = place.files_of(names_of(configuration))
        for file in self.made:
            self.faults += place.observed.get(file.name, [])
        self.paths = [file.path for file in self.made]
        self.indexes = place.folder / "files"
        if configuration["medium"] == "cold disk":
            self.indexes = place.disk
            self._copy(place.disk)
            for path in self.paths:
                make_cold(path)
        elif (configuration["change"] != "none" or configuration["index"] in ("stale", *space.HOSTILE) or
              configuration["fault"] != "none" or configuration["names"] == "odd"):
            self.indexes = self.folder
            self._copy(self.folder)
        self._prepare_indexes()
        self.expected = Expected(configuration, self.made)

    def _prepare_indexes(self):
        how = self.configuration["index"]
        if how == "fresh":
            files.forget_indexes(self.indexes)
        elif how == "damaged":
            for path in self.indexes.glob("*.rfx"):
                data = bytearray(path.read_bytes())
                data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
                path.write_bytes(data)
        elif how in space.HOSTILE:
            self.finish([self.start("index", ["index", *self.paths, *format_words(self.made[0])])])
            border.split_indexes(self.indexes)
            for path in self.indexes.glob(".*.rfx"):
                border.rewrite_index(path, how)
        elif how == "stale":  # of another content of the same size, at the same time
            for path in self.paths:
                content, times = pathlib.Path(path).read_bytes(), os.stat(path)
                lines = self.made[0].format in ("lines", "jsonl", "csv")
                other = b"".join(reversed(content.splitlines(True))) if lines else content[::-1]
                pathlib.Path(path).write_bytes(other)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
                self.finish([self.start("index", ["index", path, *format_words(self.made[0])])])
                pathlib.Path(path).write_bytes(content)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _copy(self, folder):
        for i, path in enumerate(self.paths):
            if not os.path.exists(path):
                continue
            copy = folder / f"{i}-{os.path.basename(path)}"
            if self.configuration["change"] != "none":  # nobody else gets what becomes of it
                copy = folder / f"changed-{copy.name}"
            elif folder == self.place.disk and copy.exists():
                self.paths[i] = str(copy)
                continue
            if self.configuration["names"] == "odd":
                copy = pathlib.Path(border.odd_name(i, copy))
            shutil.copy(path, copy)
            if path.endswith(".idx"):
                shutil.copy(path[:-3] + "bin", str(copy)[:-3] + "bin")
            self.paths[i] = str(copy)

    # ---- Words ----

    def fault(self, what, process=None):
        text = what
        if process is not None:
            text += f"\n    {' '.join(process.words)}\n    exit {process.returncode}"
            text += f": {process.err()[-600:].strip()}" if process.err() else ""
        self.faults.append(text)

    def speed_words(self):
        configuration = self.configuration
        words = []
        for name, option in (("threads", "--threads"), ("io", "--io"), ("block", "--block-bytes"),
                             ("in_flight", "--in-flight-bytes"), ("slots", "--slots")):
            if configuration[name] != space.DIMENSIONS[name][0]:
                words += [option, configuration[name]]
        if configuration["arena"] != "default":
            words += ["--arena", configuration["arena"]]
        if configuration["direct"] != "default":
            words += ["--direct" if configuration["direct"] == "yes" else "--no-direct"]
        return words

    def order_words(self):
        configuration = self.configuration
        words = ["--on-damage", configuration["damage"], "--cycle", configuration["cycle"],
                 "--stripe-bytes", configuration["stripe"], "--passes", configuration["passes"]]
        if configuration["order"] != "none":
            words += ["--shuffle-mode", configuration["order"], "--seed", configuration["seed"]]
        if configuration["amount"]:
            words += ["--shuffle", configuration["amount"]]
        if configuration["epoch"]:
            words += ["--epoch", configuration["epoch"]]
        words += format_words(self.made[0])
        if configuration["max_record"] == "huge":
            words += ["--max-record-bytes", 2 ** 64 - 1]
        if configuration["max_record"] == "fits":
            words += ["--max-record-bytes", 1 << 20]
        if configuration["max_damaged"] != "any":
            words += ["--max-damaged", configuration["max_damaged"]]
        parsers = {"none": {}, "fields": PARSERS, "misspelt": space.MISSPELT, "wrong": space.WRONG}
        parser = parsers[configuration["parse"]].get(configuration["format"])
        return words + (["--parse", parser] if parser else [])

    def batch_words(self):
        words = ["--batch", self.configuration["batch"]]
        return words + (["--drop-remainder"] if self.configuration["drop"] == "drop" else [])

    def start(self, name, words, watched=(), variables=(), kib=0, **more):
        few = ["prlimit", f"--nofile={FEW_DESCRIPTORS}"] if self.configuration["descriptors"] == "few" else []
        few += ["prlimit", f"--as={kib << 10}"] if kib else []
        return self.start_words(name, [*few, self.place.binary, *words], watched, variables, **more)

    def start_words(self, name, words, watched=(), variables=(), **more):
        process = watchdog.Process(words, self.folder, name, watched,
                                   environment={**self.place.environment, **dict(variables)}, **more)
        self.processes.append(process)
        return process

    def finish(self, processes, step=None):
        watchdog.finish(processes, step)
        for process in processes:
            short = self.configuration["arena"] != "default" and "resource_exhausted" in process.err()
            few = self.configuration["descriptors"] == "few" and "open files" in process.err()
            self.short = self.short or short or few and process.returncode in (1, 2)
            if any(each.stuck for each in processes) and not process.stuck:
                continue
            if process.stuck:
                self.fault(f"stuck: {process.stuck}", process)
            elif process.returncode > 2 or process.returncode < 0 and process.returncode not in self.allowed:
                self.fault(f"crashed: {process.returncode}", process)
        return not self.short and not any(process.stuck for process in processes)

    def reported(self, process):
        """What the process reports at its end; None where there is a fault or memory was too short."""
        if not self.finish([process]):
            return None
        report = report_of(process)
        if report is None:
            self.fault("no report", process)
        return report

    # ---- Kinds ----

    def run(self):
        try:
            getattr(self, f"_{self.configuration['kind']}")()
        finally:
            for process in self.processes:
                if process.returncode is None:
                    process.process.kill()
                    process.collect()
        return self.faults

    def _feed(self):
        if self.configuration["typed"] != "none":
            hostile_texts.check(self)
        elif self.configuration["parse"] in ("misspelt", "wrong"):
            self._mistaken()
        elif self.configuration["fault"] != "none":
            self._faulted()
        elif self.configuration["change"] != "none":
            self._changed()
        elif self.configuration["max_damaged"] != "any":
            self._limited()
        else:
            self._launches()

    def rank_processes(self, launch, ranks, more=(), variables=(), kib=0):
        processes = []
        for rank in range(ranks):
            journal = self.folder / f"{launch}-{rank}.journal"
            position = self.folder / f"{launch}-{rank}.position"
            words = ["feed", *self.paths, *self.order_words(), *self.speed_words(), *self.batch_words(),
                     "--journal", journal, "--position-out", position, "--json", *more]
            launcher = self.configuration["launcher"]
            said = border.launcher_variables(launcher, rank, ranks)
            if ranks > 1 and launcher == "words" or launcher == "words before variables":
                words += ["--rank", rank, "--ranks", ranks]
            if self.configuration["split"] == "yes" and ranks > 1:
                words += ["--split-by-files"]
            process = self.start(f"{launch}-{rank}", words, [journal], {**said, **dict(variables)}, kib)
            process.journal, process.position, process.launcher = journal, position, said
            processes.append(process)
        return processes

    def _launches(self):
        """Ranks from the beginning; where they are stopped, others that go on."""
        ranks, stop = self.configuration["ranks"], self.configuration["stop"]
        if stop == "killed":
            start = self._killed(ranks)
        elif stop == "interrupted":
            start = self._interrupted()
        else:
            most = self._most(ranks)
            more = ["--max-batches", most] if most else []
            processes = self.rank_processes("first", ranks, more)
            others = self.rank_processes("twin", ranks, more) if self.configuration["twin"] == "yes" else []
            if not self.finish(processes + others, self._pulse(processes)):
                return
            if others:
                self.check_ranks(others, ranks, 0, most)
            start = self.check_ranks(processes, ranks, 0, most)
            self._audit(processes, ranks, most)
        if stop == "none" or start is None:
            return
        position, batch = start
        again = self.configuration["resumed_ranks"]
        most = self.rng.randint(1, 5) if self.configuration["passes"] == 0 else 0
        more = (["--position-in", position] if position else []) + (["--max-batches", most] if most else [])
        processes = self.rank_processes("second", again, more)
        if self.finish(processes) and self.check_ranks(processes, again, batch, most) and not most:
            self._same_place(processes[0])

    def _same_place(self, process):
        """Where a run came to that went on with another's position is where one comes to at once."""
        if self.rng.random() < 0.7:
            return
        other = self.rank_processes("whole", 1)[0]
        if not self.finish([other]):
            return
        texts = [each.position.read_text() for each in (process, other)]
        if texts[0] != texts[1]:
            self.fault(f"positions of one place differ: {texts}", process)

    def _most(self, ranks):
        """--max-batches of the first launch."""
        stop = self.configuration["stop"]
        if stop == "none":
            return self.rng.randint(1, 9) if self.configuration["passes"] == 0 else 0
        total = max(1, self.expected.places(0, ranks)) if not self.expected.refused(ranks) else 1
        return {"at once": 1, "early": self.rng.randint(1, max(1, total // 2)),
                "late": self.rng.randint(1, total * max(1, self.configuration["passes"]))}[stop]

    def _killed(self, ranks):
        """The smallest position that was saved, and its batch."""
        every = self.rng.choice([1, 3])
        processes = self.rank_processes("first", ranks, ["--position-every", every])
        victims = {process: self.rng.randint(1, 1200) for process in processes}

        def step():
            for process, size in list(victims.items()):
                if process.journal.exists() and process.journal.stat().st_size >= size:
                    process.send(signal.SIGKILL)
                    del victims[process]
            return bool(victims)

        if not self.finish(processes, step):
            return None
        saved = []
        for process in processes:
            saved.append((json.loads(process.position.read_text())["batch"], process.position)
                         if process.position.exists() else (0, None))
            if process.returncode == -signal.SIGKILL:
                continue
            rank = processes.index(process)
            self.check_rank(process, rank, ranks, 0, 0)
        batch, path = min(saved, key=lambda each: each[0])
        return path, batch

    def _interrupted(self):
        """One process, by Ctrl-C: what it delivered so far, its position behind that."""
        process = self.rank_processes("first", 1)[0]
        size, sent = self.rng.randint(1, 3000), []

        def step():
            if not sent and process.journal.exists() and process.journal.stat().st_size >= size:
                process.send(signal.SIGINT)
                sent.append(True)
            return not sent

        if not self.finish([process], step) or process.returncode < 0:
            return None
        report, found = report_of(process), self.deliveries(process)
        wanted, ended, _ = self.expected.run_like(lambda run: run[:len(found)] == found)
        if ended == REFUSED:
            self.check_refused(process)
            return None
        if (self.unsure() or self.loose()) and found != wanted[:len(found)]:
            return None
        if report is None and ended == DAMAGED and not wanted:
            return None  # its files were not there
        if report is None or found != wanted[:len(found)]:
            self.fault(f"interrupted: {first_difference(found, wanted)}", process)
            return None
        if report["order_digest"] != self.expected.order_digest(found):
            self.fault("interrupted: its digest is not that of its batches", process)
        if not report["interrupted"] or "error" in report:
            return None  # it was at its end, or at its damage, before
        self.check_sums(process, report, found, STOPPED)
        if not process.position.exists():
            self.fault("interrupted: leaves no position", process)
            return None
        batch = json.loads(process.position.read_text())["batch"]
        if not any(last <= batch <= following for last, following in self._stopped_at(found, wanted)):
            self.fault(f"interrupted behind {len(found)} batches: the position is at {batch}", process)
            return None
        return process.position, batch

    def _stopped_at(self, found, wanted):
        """[(first, last)] of the batches that the position may stand at where `found` was delivered:
        behind the last of them that counts, or at the next one with rows."""
        for behind in self.expected.behind(lambda run: run[0][:len(found)] == found):
            last = min(found[-1][0] + 1, behind) if found else 0
            yield last, next((number for number, _ in wanted if number >= last), behind)

    def _pulse(self, processes):
        """A slow machine: processes are stopped now and then."""
        if self.configuration["consumer"] != "slow":
            return None
        left = [6]

        def step():
            if left[0] == 0:
                return False
            left[0] -= 1
            for process in processes:
                process.send(signal.SIGCONT if left[0] % 2 == 0 else signal.SIGSTOP)
            return True
        return step

    # ---- Against the model ----

    def check_ranks(self, processes, ranks, start, most):
        """Every rank's run; the position to go on from, of a rank by chance, and its batch."""
        before = len(self.faults)
        for rank, process in enumerate(processes):
            self.check_rank(process, rank, ranks, start, most)
        ended = self.ended(ranks, start, most)
        whole = ended == ENDED and start == 0 and not most
        if whole and self.configuration["drop"] == "keep":
            reported = any(process.returncode in (1, 2) for process in processes)
            if self.expected.damaged() != reported:
                self.fault(f"damage is there: {self.expected.damaged()}, reported: {reported}", processes[0])
        if len(self.faults) > before or ended in (DAMAGED, REFUSED) or self.fails_unlike_model(processes):
            return None
        texts = {process.position.read_text() for process in processes}
        split = self.configuration["split"] == "yes" and ranks > 1
        if len(texts) > 1 and not split:
            self.fault(f"ranks differ in their positions: {sorted(texts)}", processes[0])
            return None
        chosen = self.rng.choice(processes).position
        return chosen, json.loads(chosen.read_text())["batch"]

    def ended(self, ranks, start, most):
        """How a launch ends: damaged where a rank does."""
        ends = [self.expected.run(rank, ranks, start, most)[1] for rank in range(ranks)]
        return DAMAGED if DAMAGED in ends else ends[0]

    def check_rank(self, process, rank, ranks, start, most):
        found = self.deliveries(process)
        report = report_of(process)
        wanted, ended, behind = self.expected.run_like(lambda run: run == found, rank, ranks, start, most,
                                                       failed=failed_by(report))
        if ended == REFUSED:
            self.check_refused(process)
            return
        if report is None:
            if ended != DAMAGED or wanted:
                self.fault(f"no report: {len(wanted)} batches were expected", process)
            return
        unlike = ended == STOPPED and self.fails_unlike_model([process])
        if unlike or found != wanted and (self.unsure() or ended == DAMAGED and self.loose()):
            self._check_like_plain(process, report)
            return
        if self.loose() and found != wanted and self.same_rows(found, wanted, ranks, start, most):
            return
        if found != wanted:
            self.fault(f"rank {rank} of {ranks}: {first_difference(found, wanted)}", process)
            return
        if report["order_digest"] != self.expected.order_digest(wanted):
            self.fault(f"rank {rank} of {ranks}: the records of these numbers have other contents", process)
        self.check_sums(process, report, wanted, ended)
        batch = json.loads(process.position.read_text())["batch"] if process.position.exists() else None
        if batch != behind and batch not in self.expected.behind(
                lambda run: run[:2] == (wanted, ended), rank, ranks, start, most):
            if self.unsure() and ended == DAMAGED and (batch or 0) < behind:
                self._check_like_plain(process, report)  # its checksum at the end ends the shuffle, too
                return
            self.fault(f"rank {rank} of {ranks}: its position is at batch {batch}, not {behind}", process)

    def run_of(self, report):
        """The run whose digest is reported."""
        digest = (report or {}).get("order_digest")
        return self.expected.run_like(lambda run: self.expected.order_digest(run) == digest)

    def loose(self):
        """How many stripes a damaged compressed file has is not known: of several files the turns are not
        either."""
        unknown = [file for file in self.made if not file.exact and file.whole > self.configuration["stripe"]]
        return bool(unknown) and len(self.made) > 1

    def unsure(self):
        """What stands behind the damage of a compressed file that is damaged itself may stand before it
        in the order, and is known of no other reading."""
        configuration = self.configuration
        return (configuration["damage"] == "fail" and configuration["order"] in ("window", "block")
                and any(not file.exact for file in self.made))

    def fails_unlike_model(self, processes):
        """Batches that count in no position count in no --max-batches: so one of these may fail."""
        return self.unsure() and any(failed_by(report_of(process)) for process in processes)

    def _check_like_plain(self, process, report):
        """Whatever has no part in the order must not change what is delivered."""
        words = process.words[process.words.index("feed"):]
        speed = [str(word) for word in self.speed_words()]
        at = next(i for i in range(1, len(words)) if words[i:i + len(speed)] == speed)
        del words[at:at + len(speed)]
        words += ["--threads", "1"]
        for option in ("--journal", "--position-out"):
            if option in words:
                words[words.index(option) + 1] += ".plain"
        other = self.start("like-plain", words, variables=getattr(process, "launcher", {}))
        if not self.finish([other]):
            return
        said = report_of(other) or {"records": "no", "order_digest": ""}
        if said["order_digest"] != report["order_digest"]:
            self.fault(f"delivers {report['records']} records before it fails, and {said['records']} where "
                       "it runs otherwise", process)
        if "--position-out" in words and process.position.exists():
            plain = pathlib.Path(f"{process.position}.plain")
            texts = [each.read_text() if each.exists() else "none" for each in (process.position, plain)]
            if texts[0] != texts[1]:
                self.fault(f"its position differs where it runs otherwise: {texts}", process)

    def same_rows(self, found, wanted, ranks, start, most):
        part = ranks > 1 or start or most or self.configuration["drop"] == "drop"
        rows, others = ({row for _, batch in each for row in batch} for each in (found, wanted))
        return part or rows == others

    def check_sums(self, process, report, wanted, ended):
        rows = sum(len(batch) for _, batch in wanted)
        batches = len(wanted) if self.configuration["batch"] else report["batches"]
        if (report["records"], report["batches"]) != (rows, batches):
            self.fault(f"reports {report['records']} records in {report['batches']} batches, delivered were "
                       f"{rows} in {len(wanted)}", process)
        sizes = [sum(len(self.expected.payload(row)) for row in batch) for _, batch in wanted]
        payload = sum(sizes)
        if report["payload_bytes"] != payload:
            self.fault(f"reports {report['payload_bytes']} bytes, delivered were {payload}", process)
        paths = self.paths + [path[:-3] + "bin" for path in self.paths if path.endswith(".idx")]
        stored = sum(os.path.getsize(path) for path in paths if os.path.exists(path))
        times = max(1, report["passes_ended"]) + (0 if self.configuration["index"] == "kept" else 2)
        # Of passes without end, files that are smaller than a stripe are read ahead many times: each thread has
        # room for two stripes, whatever is in them.
        endless = self.configuration["passes"] == 0
        ahead = 2 * (self.configuration["threads"] or 2) * self.configuration["stripe"] if endless else 0
        # By number a chunk is read for each of its records, where it is not mapped.
        times *= files.MOST_OF_A_CHUNK if self.configuration["format"] == "recordio" else 1
        # What was read of a file is let go of with it, where few can be open.
        reopens = self.configuration["descriptors"] == "few" and len(self.made) > FEW_DESCRIPTORS
        if report["read_bytes"] > MOST_READS * stored * times + ahead + FREE_READS_BYTES and not reopens:
            self.fault(f"reads {report['read_bytes']} bytes of files of {stored}", process)
        if self.configuration["drop"] == "drop":  # what is filled and dropped takes its memory, too
            sizes.append(sum(len(payload) for file in self.made for payload in file.good()))
        if rows:  # a slot has room for a whole batch, but not for more rows than a pass has
            of_pass = sum(len(file.payloads) for file in self.made)
            sizes.append(min(self.configuration["batch"], of_pass) * payload // rows)
        most = MOST_RESIDENT_BYTES + MOST_SLOTS * max(sizes, default=0)
        if self.configuration["order"] in ("window", "block"):
            most += stored // self.configuration["stripe"] * self.configuration["passes"] * SLAB_BYTES
        if report["peak_rss_bytes"] > most and not os.environ.get("RINGFEED_SANITIZER"):
            self.fault(f"takes {report['peak_rss_bytes'] >> 20} MiB of memory", process)
        if report.get("late_wakes", 0) != 0:
            self.fault(f"{report['late_wakes']} late wakes", process)
        status = process.returncode
        damaged = self.expected.damaged()
        good = {ENDED: (0, 1) if damaged else (0,), STOPPED: (0, 1) if damaged else (0,),
                DAMAGED: (1, 2)}[ended]
        if status not in good:
            self.fault(f"exit status {status}, expected {good} ({ended})", process)
        if ended == DAMAGED and not process.err():
            self.fault("fails without a word", process)
        listed = bool(report["damaged"]) or report["damaged_records"] > 0
        if ended in (ENDED, STOPPED) and listed != (status == 1):
            self.fault(f"exit status {status}, but damage is {'' if listed else 'not '}listed", process)

    def check_refused(self, process):
        records = sum(len(file.good()) for file in self.made)
        if records == 0 and self.configuration["passes"] == 0 and process.returncode in (1, 2):
            return
        if process.returncode not in (1, 2) or not process.err():
            self.fault("was to be refused: a file has no numbers, which this order needs", process)
            return
        named = [path for path in self.paths if os.path.basename(path) in process.err()]
        if not named:
            self.fault("is refused, but no file is named", process)

    def deliveries(self, process):
        if not process.journal.exists():
            return []
        try:
            starts = batches_of(process.journal.read_text())
        except (AssertionError, ValueError, IndexError, KeyError) as error:
            self.fault(f"a journal that cannot be read: {error!r}", process)
            return []
        return [(number, rows) for _, batches in starts for number, rows in sorted(batches.items()) if rows]

    def _audit(self, processes, ranks, most):
        found = self.deliveries(processes[0])
        how = self.expected.run_like(lambda run: run == found, 0, ranks, 0, most,
                                     failed=failed_by(report_of(processes[0])))[1]
        ended = how if how == DAMAGED else self.ended(ranks, 0, most)
        if self.configuration["audit"] == "no" or self.faults or ended in (DAMAGED, REFUSED) \
                or self.fails_unlike_model(processes):
            return
        if found and self.expected.damaged() and not self.expected.skip:
            if len(found[-1][1]) < self.configuration["batch"] // ranks:
                return  # stopped right in front of the failure, whose batch lacks rows
        missing = any(file.missing for file in self.made)
        words = ["audit", *(process.journal for process in processes), "--json"]
        if self.configuration["audit"] == "files" and not missing:
            words += ["--files", *self.paths, *format_words(self.made[0])]
        elif missing:
            return
        process = self.start("audit", words)
        report = self.reported(process)
        if report is None:
            return
        counts = [report[name] for name in ("missing", "repeated", "rolled_back")]
        runs = [self.deliveries(process) for process in processes]
        if not self.unsure():  # else what came is held against another run, not against the model
            runs = [self.expected.run_like(lambda run, found=found: run == found, rank, ranks, 0, most)[0]
                    for rank, found in enumerate(runs)]
        delivered = sum(len(rows) for run in runs for _, rows in run)
        # Nobody knows what was lost where damage is reported and records have no numbers.
        unknown = report["reported_damage"] > 0 and not report["records_known"]
        if counts != [0, 0, 0] or report["exact"] == unknown or (process.returncode != 0) != unknown:
            self.fault(f"audit finds missing, repeated, rolled back: {counts}", process)
        if report["records"] != delivered:
            self.fault(f"audit counts {report['records']} records of {delivered}", process)

    # ---- Invariants ----

    def _mistaken(self):
        """A parser that fits no record is the program's mistake, whatever the policy."""
        process = self.rank_processes("first", 1)[0]
        if not self.finish([process]):
            return
        report = report_of(process)
        records = sum(len(file.good()) for file in self.made)
        if records == 0:
            return
        if process.returncode == 0 or not process.err():
            self.fault(f"a parser that fits no record: exit {process.returncode} without a word", process)
        if report is not None and report["records"] > 0:
            self.fault(f"a parser that fits no record delivers {report['records']}", process)
        if self.configuration["parse"] != "misspelt":
            return
        if "error" not in (report or {"error": ""}):
            self.fault("a parser that fits no record is reported as damage of all", process)
        # Under `fail` a second look at the data tells, which needs descriptors of its own.
        unseen = (self.configuration["damage"] == "fail" and self.configuration["descriptors"] == "few"
                  and process.returncode == 1)
        if not unseen and (process.returncode != 2 or "nearest name" not in process.err()):
            self.fault("a misspelt key is no mistake of the program's, with the nearest name there is", process)

    def _limited(self):
        """--max-damaged: no record that is none, and a failure where there is more damage."""
        process = self.rank_processes("first", 1)[0]
        if not self.finish([process]):
            return
        # What precedes the failure is delivered, in a short last batch too.
        whole = self.configuration if process.returncode == 0 else {**self.configuration, "drop": "keep"}
        wanted, ended, _ = Expected(whole, self.made).run()
        if ended == REFUSED:
            self.check_refused(process)
            return
        found = self.deliveries(process)
        flat = [row for _, rows in found for row in rows]
        order = [row for _, rows in wanted for row in rows]
        if process.returncode != 0 and self.configuration["drop"] == "drop" and flat:
            # Passes before the failure's lose their rest.
            last = flat[-1][0]
            dropped = Expected(self.configuration, self.made).run()[0]
            before = [row for _, rows in dropped for row in rows if row[0] < last]
            order = before + [row for row in order if row[0] >= last]
        good = set(order) == set(flat) or self.configuration["order"] != "none"
        if len(set(flat)) != len(flat) or not set(flat) <= set(order):
            self.fault("delivers what is not there, or twice", process)
        elif not good and flat != order[:len(flat)] and not self.loose():
            self.fault("delivers another order", process)
        units = sum(1 for file in self.made if file.missing or not file.exact and file.damaged)
        units += sum(file.gaps + file.payloads.count(HOLE) for file in self.made if file.exact)
        if self.configuration["format"] == "recordio":
            return  # a chunk is one piece of damage, or as many as it has records
        if units == 0 and (process.returncode != 0 or flat != order):
            self.fault("intact, but fails", process)
        if units > 0 and process.returncode == 0:
            self.fault("damage, but exit status 0", process)
        if units * self.configuration["passes"] > self.configuration["max_damaged"] and not process.err():
            if self.configuration["drop"] == "keep" and all(file.exact for file in self.made):
                self.fault("more is damaged than --max-damaged, and it does not fail", process)

    def _changed(self):
        """A file that changes while it is read: whatever is delivered was there, once a pass."""
        change, rng = self.configuration["change"], self.rng
        victim = rng.randrange(len(self.paths))
        at = rng.choice([1, 500, 3000, 20000])
        # So often that it is at work when the change comes.
        records = sum(len(file.payloads) for file in self.made)
        times = max(2, min(CHANGED_PASSES, CHANGED_RECORDS // max(1, records)))
        times = 1 if change == "swapped" else times
        self.configuration = {**self.configuration, "passes": times * self.configuration["passes"]}
        self.expected.configuration = self.configuration
        process = self.rank_processes("first", 1)[0]
        done = []

        def step():
            if done or process.process.poll() is not None:
                return False
            if not process.journal.exists() or process.journal.stat().st_size < at:
                return True
            process.send(signal.SIGSTOP)
            if change == "swapped":  # of many files some are not opened yet
                for path, file in list(zip(self.paths, self.made))[victim % 2::2]:
                    border.swap_file(path, file)
            else:
                change_file(self.paths[victim], change, rng)
            process.send(signal.SIGCONT)
            done.append(True)
            return False  # the rest is its own

        if not self.finish([process], step):
            return
        self.hit = bool(done)
        report = report_of(process)
        found = self.deliveries(process)
        rows = [row for _, batch in found for row in batch]
        if len(rows) != len(set(rows)):
            self.fault("delivers a record twice in a pass", process)
        if process.returncode != 0 and not process.err() and not (report or {}).get("damaged"):
            self.fault("fails without a word", process)
        if report is None:
            return
        good = [[record for record in file.payloads if record is not GAP] for file in self.made]
        whole = all(number < len(good[file]) for _, file, number in rows)
        if change in ("cut", "removed", "emptied", "none") and not whole:
            self.fault("delivers records that were never there", process)
        elif whole and (change in ("cut", "removed", "emptied", "grown") and self._numbers_stay() or
                        change == "swapped" and self.expected.by_number()):
            if report["order_digest"] != self.expected.order_digest(found):
                self.fault(f"{change} while it was read: wrong values were delivered as good", process)
        if self.expected.refused():
            self.check_refused(process)
        elif process.returncode == 0 and self.configuration["drop"] == "keep":
            # What grew or was replaced may be read as it is now.
            # An empty file is one, too, where no index says how many records it had and nothing of it was
            # read before: what is emptied later is lost.
            unread = not self.expected.by_number() and all(row[1] != victim for row in rows)
            other = change in ("grown", "replaced", "swapped") or change == "emptied" and unread
            changed = set(range(victim % 2, len(self.paths), 2)) if change == "swapped" else {victim}
            whole = set(range(len(self.paths))) - (changed if other else set())
            every = {(p, i, n) for p in range(self.configuration["passes"]) for i in whole
                     for n in range(len(good[i]))}
            if change == "cut" and self._alike_in_all_passes(rows, victim):  # before it was opened
                every = {row for row in every if row[1] != victim}
            lost = every - set(rows)
            if lost:
                self.fault(f"{change}: exit status 0, but {len(lost)} records are not there, of the changed "
                           f"file {sum(row[1] == victim for row in lost)}", process)

    def _alike_in_all_passes(self, rows, victim):
        passes = [set() for _ in range(self.configuration["passes"])]
        for number, file, record in rows:
            if file == victim:
                passes[number].add(record)
        return bool(passes[0]) and all(each == passes[0] for each in passes)

    def _numbers_stay(self):
        """Whether the record that a number stands for is the same when a file is cut: the last line of
        text is shorter then."""
        return self.configuration["format"] not in ("lines", "csv", "jsonl", "raw", "tar")

    # ---- Other ways to read ----

    def _stream(self):
        if self.configuration["reopened"] == "yes":
            self._reopened()
            return
        file = self.made[0]
        content = pathlib.Path(file.path).read_bytes()
        reading, writing = os.pipe()
        words = ["feed", "-", "--format", files.FORMAT_WORDS[file.format] or file.format,
                 *[word for word in self.order_words() if word not in ("--passes", 1)][:0],
                 "--on-damage", self.configuration["damage"], "--threads", self.configuration["threads"],
                 "--batch", self.configuration["batch"], "--block-bytes", self.configuration["block"],
                 "--json"]
        process = self.start("stream", words, stdin=reading)
        os.close(reading)
        pieces = self.rng.choice([1, 100, 4096, 1 << 20])
        writer = threading.Thread(target=write_in_pieces, args=(writing, content, pieces))
        writer.start()
        stuck = not self.finish([process])
        writer.join()
        if stuck:
            return
        wanted, ended, _ = self.expected.run()
        report = report_of(process)
        if report is None:
            if ended != DAMAGED or process.returncode != 2:  # else nothing could be set up
                self.fault("no report", process)
            return
        if report["order_digest"] != self.expected.order_digest(wanted) and not self.loose():
            self.fault(f"a stream of {len(file.good())} records delivers {report['records']}, expected "
                       f"{sum(len(rows) for _, rows in wanted)}", process)
        self.check_sums(process, report, wanted, ended)

    def _reopened(self):
        """A FIFO that several writers open and close, one after another."""
        file = self.made[0]
        pieces = parts_of(file, self.rng)
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        words = ["feed", fifo, "--format", files.FORMAT_WORDS[file.format] or file.format, "--on-damage",
                 self.configuration["damage"], "--threads", self.configuration["threads"], "--batch",
                 self.configuration["batch"], "--reopen-until", 1, "--json"]
        slow = self.injected("", "", 1, 1, ("slow", 0)) if self.rng.random() < 0.5 else {}
        process = self.start("reopened", words, variables=slow)
        pauses = [self.rng.choice([0, 0.02, 0.1]) for _ in pieces]
        writer = threading.Thread(target=write_in_turn, args=(fifo, pieces, pauses), daemon=True)
        writer.start()
        if not self.finish([process]):
            return
        report = report_of(process)
        wanted, ended, _ = self.expected.run()
        if report is None:
            if ended != DAMAGED or process.returncode != 2:
                self.fault("no report", process)
        elif report["order_digest"] != self.expected.order_digest(wanted):
            self.fault(f"a FIFO of {len(pieces)} writers gives {report['records']} records of "
                       f"{sum(len(rows) for _, rows in wanted)}", process)
        else:
            self.check_sums(process, report, wanted, ended)

    def _plain(self):
        words = ["feed", *self.paths, *self.order_words(), *self.speed_words(), "--json"]
        words += self.batch_words() if self.configuration["batch"] else []
        words += ["--verify"] if self.configuration["verify"] == "yes" else []
        process = self.start("plain", words)
        if not self.finish([process]):
            return
        report = report_of(process)
        wanted, ended, _ = self.run_of(report)
        if ended == REFUSED:
            self.check_refused(process)
            return
        if report is None:
            if ended != DAMAGED or process.returncode != 2:  # else nothing could be set up
                self.fault("no report", process)
            return
        alike = report["order_digest"] == self.expected.order_digest(wanted)
        if not alike and ended == DAMAGED and (self.loose() or self.unsure()):
            self._check_like_plain(process, report)
            return
        if not alike and self.loose() and self.configuration["drop"] == "drop":
            return  # which rows are of the rest goes by the turns
        if not alike and not self.loose():
            self.fault(f"delivers {report['records']} records, expected "
                       f"{sum(len(rows) for _, rows in wanted)}", process)
        if ended == ENDED:
            self._check_verified(process, report)
        self.check_sums(process, report, wanted, ended)

    def _streams(self):
        """A program that joins streams: each record of each once, whatever their order."""
        fifos = [str(self.folder / f"{i}.fifo") for i in range(len(self.made))]
        writers = []
        startup, inputs = [], []
        parse = files.FORMAT_WORDS[self.configuration["format"]] or self.configuration["format"]
        for i, (fifo, file) in enumerate(zip(fifos, self.made)):
            os.mkfifo(fifo)
            content = pathlib.Path(file.path).read_bytes()
            writers.append(threading.Thread(
                target=write_to_fifo, args=(fifo, content, self.rng.choice([1, 100, 1 << 20])), daemon=True))
            startup.append(f'open_files {{ name: "s{i}" file_names: "{fifo}" format: "{parse}" }}')
            inputs.append(f'input: "s{i}"')
        startup.append(f'create_multiplex_reader {{ name: "all" {" ".join(inputs)} '
                       f'on_damage: "{self.configuration["damage"]}" }}')
        process = self.start("streams", ["run", self._program_text(startup, "all", False), "--json"])
        for writer in writers:
            writer.start()
        report = self.reported(process)
        if report is None:
            return
        good = [payload for file in self.made for payload in file.good()]
        damaged = any(file.damaged for file in self.made)
        if (process.returncode != 0) != damaged:
            self.fault(f"exit status {process.returncode}, damage is there: {damaged}", process)
        if damaged and self.configuration["damage"] == "fail" and "error" not in report:
            self.fault("a stream that is damaged is taken for one at its end", process)
        whole = report["digested"] == len(good) and report["multiset"] == multiset_of(good)
        if not whole and (self.configuration["damage"] == "skip" or not damaged):
            self.fault(f"joins {report['digested']} records, expected {len(good)}", process)

    def _program_text(self, startup, last, close):
        ended = f'op {{ close_reader {{ reader: "{last}" }} }}' if close else ""
        text = "startup {\n" + "".join(f"  op {{ {op} }}\n" for op in startup) + "}\nmain {\n" + f"""
  op {{ has_next {{ reader: "{last}" output: "more" }} }}
  op {{ while {{ condition: "more" body {{
    op {{ read {{ reader: "{last}" output: "x" }} }}
    op {{ call {{ function: "digest" input: "x" }} }}
    op {{ has_next {{ reader: "{last}" output: "more" }} }}
  }} }} }}
  {ended}
}}
"""
        program = self.folder / "a.program"
        program.write_text(text)
        return program

    def _devices(self):
        configuration = self.configuration
        words = ["feed", *self.paths, *self.order_words(), *self.speed_words(), *self.batch_words(),
                 "--devices", f"emu:{configuration['devices']}", "--json"]
        for name in ("distribution", "last_step", "device_slots", "transfer"):
            if configuration[name] != space.DIMENSIONS[name][0]:
                words += ["--" + name.replace("_", "-"), configuration[name]]
        words += ["--verify"] if configuration["verify"] == "yes" else []
        words += {"none": [], "trace": ["--trace", self.folder / "trace.json"],
                  "steps": ["--step-ms", 0.5]}[configuration["beside"]]
        process = self.start("devices", words)
        if not self.finish([process]):
            return
        wanted, ended, _ = self.expected.run()
        if ended == REFUSED:
            self.check_refused(process)
            return
        report = report_of(process)
        if report is None:
            if ended != DAMAGED or process.returncode != 2:  # else nothing could be set up
                self.fault("no report", process)
            return
        if ended == DAMAGED:
            return
        if configuration["last_step"] == "drop":
            self._check_left_out(process, report, wanted)
            return
        if report["order_digest"] != self.expected.order_digest(wanted) and not self.loose():
            self.fault(f"devices were given {report['records']} records, expected "
                       f"{sum(len(rows) for _, rows in wanted)}", process)
        self._check_verified(process, report)
        if configuration["distribution"] != "split" and configuration["last_step"] == "uneven":
            self.check_sums(process, report, wanted, ended)

    def _check_left_out(self, process, report, wanted):
        """Devices that step alike leave a rest out, which is told."""
        rows = [row for _, batch in wanted for row in batch]
        left = report["rows_left_out"]
        if report["records"] + left != len(rows) and not self.loose():
            self.fault(f"{report['records']} records and {left} left out are not {len(rows)}", process)
            return
        given = [(0, rows[:report["records"]])]
        split = self.configuration["distribution"] == "split"  # of each pass a part may be left out
        if not split and report["order_digest"] != self.expected.order_digest(given) and not self.loose():
            self.fault(f"devices were given other {report['records']} records of {len(rows)}", process)
        most = self.configuration["batch"] * self.configuration["devices"]
        # (A batch that damage made shorter is left out as a whole.)
        if left >= most * max(1, self.configuration["passes"]) and not self.expected.damaged():
            self.fault(f"{left} rows are left out, which are {most // self.configuration['devices']} for "
                       "each device", process)

    def _check_verified(self, process, report):
        if self.configuration["verify"] == "yes" and not self.expected.damaged() and not report["verified"]:
            self.fault("--verify finds that not every record came once", process)

    def _program(self):
        configuration = self.configuration
        parse = files.FORMAT_WORDS[configuration["format"]]
        names = " ".join(f'file_names: "{path}"' for path in self.paths)
        close = self.rng.random() < 0.5
        startup = [f'open_files {{ name: "r0" {names} format: "{parse}" on_damage: "{configuration["damage"]}" '
                   f'cycle: {configuration["cycle"]} stripe_bytes: {configuration["stripe"]} '
                   f'thread_num: {configuration["threads"]} '
                   f'{"unordered: true" if configuration["operator"] == "unordered" else ""} }}']
        if configuration["order"] == "block":
            startup.append(f'create_shuffle_reader {{ name: "r{len(startup)}" input: "r{len(startup) - 1}" '
                           f'buffer_size: {configuration["amount"]} seed: {configuration["seed"]} }}')
        if configuration["passes"] > 1:
            startup.append(f'create_multi_pass_reader {{ name: "r{len(startup)}" '
                           f'input: "r{len(startup) - 1}" pass_num: {configuration["passes"]} }}')
        if configuration["operator"] == "double buffer":
            startup.append(f'create_double_buffer_reader {{ name: "r{len(startup)}" '
                           f'input: "r{len(startup) - 1}" }}')
        last = f"r{len(startup) - 1}"
        process = self.start("program", ["run", self._program_text(startup, last, close), "--json"])
        report = self.reported(process)
        if report is None:
            return
        expected = Expected({**configuration, "batch": 1, "drop": "keep"}, self.made)
        said = report["digested"], report["sha256"]
        wanted, how, _ = expected.run_like(lambda run: self.sequence_digest(run) == said)
        digested = self.sequence_digest(wanted)
        if configuration["operator"] == "unordered":
            payloads = [self.expected.payload(row) for _, rows in wanted for row in rows]
            said, digested = (said[0], report["multiset"]), (digested[0], multiset_of(payloads))
        # Under `fail` the turns decide how many come, too.
        free = self.unsure() or self.loose() and (how == DAMAGED or said[0] == digested[0])
        if said != digested and not free:
            self.fault(f"a program reads {report['digested']} records, expected {digested[0]}", process)
        good = (0,) if how == ENDED and not self.expected.damaged() else (1, 2) if how == DAMAGED else (1,)
        if process.returncode not in good:
            self.fault(f"exit status {process.returncode}, expected {good}", process)
        if how == ENDED and bool(report["damaged"]) != self.expected.damaged():
            self.fault(f"damage is there: {self.expected.damaged()}, listed: {report['damaged']}", process)

    def sequence_digest(self, deliveries):
        """(records, digest) as the function `digest` of a program has them."""
        digest, count = hashlib.sha256(), 0
        for _, rows in deliveries:
            for row in rows:
                payload = self.expected.payload(row)
                digest.update(len(payload).to_bytes(8, "little") + payload)
                count += 1
        return count, digest.hexdigest()

    def _tools(self):
        """Every file by itself, by the commands that read one; and what cannot be written is said."""
        policy = self.configuration["damage"]
        for i, file in enumerate(self.made):
            expected = Expected({**self.configuration, "batch": 1, "count": 1}, [file])
            wanted, ended, _ = expected.run()
            payloads = [expected.payload(row) for _, rows in wanted for row in rows]
            words = [file.path, *format_words(file), "--on-damage", policy]
            cat = self.start(f"cat{i}", ["cat", *words, "--as", "sha256"])
            digest = self.start(f"digest{i}", ["digest", *words, "--json"])
            if not self.finish([cat, digest]):
                return
            if cat.out().split() != [hashlib.sha256(payload).hexdigest() for payload in payloads]:
                self.fault(f"cat prints {len(cat.out().split())} records, expected {len(payloads)}", cat)
            good = (1, 2) if ended == DAMAGED or file.damaged else (0,)
            for process in (cat, digest):
                if process.returncode not in good:
                    self.fault(f"exit status {process.returncode}, expected {good}", process)
        proc = self.start("proc", [self.rng.choice(["cat", "digest"]), "/proc/filesystems", "--format", "lines"])
        if self.finish([proc]) and proc.returncode == 0 and (not proc.out() or "records   0" in proc.out()):
            self.fault("a file whose size is not known is read as an empty one, exit 0", proc)
        command = self.rng.choice([["digest", self.paths[0]], ["digest", self.paths[0], "--json"],
                                   ["feed", *self.paths], ["feed", *self.paths, "--json"],
                                   ["verify", *self.paths], ["info", self.paths[0]], ["cat", self.paths[0]],
                                   ["devices"], ["verify", *self.paths, "--json"],
                                   ["shuffle-quality", *self.paths, "--shuffle-mode", "global"]])
        full = os.open("/dev/full", os.O_WRONLY)
        process = self.start("full", [*command, *(format_words(self.made[0]) if len(command) > 1 else [])],
                             stdout=full)
        os.close(full)
        if self.finish([process]) and process.returncode == 0:
            empty = command[0] == "cat" and not self.made[0].good()
            if not empty:
                self.fault("prints to a full device and exits 0", process)


PARSERS = space.PARSERS


def failed_by(report):
    """Whether its run failed; None where there is no report."""
    return None if report is None else "error" in report


def parts_of(file, rng):
    """Its content in two or three pieces, which end where records do."""
    content = pathlib.Path(file.path).read_bytes()
    borders = sorted({offset for offset, _ in file.records} - {0})
    cuts = sorted(rng.sample(borders, min(len(borders), rng.randint(1, 2))))
    return [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)])]


def write_in_turn(path, pieces, pauses):
    for piece, pause in zip(pieces, pauses):
        write_to_fifo(path, piece, len(piece) or 1)
        time.sleep(pause)


def write_in_pieces(descriptor, content, size):
    try:
        for at in range(0, len(content), max(size, len(content) // 500)):
            os.write(descriptor, content[at:at + max(size, len(content) // 500)])
    except BrokenPipeError:
        pass
    finally:
        os.close(descriptor)


def write_to_fifo(path, content, size):
    try:
        write_in_pieces(os.open(path, os.O_WRONLY), content, size)
    except OSError:
        pass


def multiset_of(payloads):
    total = sum(int.from_bytes(hashlib.sha256(payload).digest(), "little") for payload in payloads)
    return f"{total % 2 ** 256:064x}"


def make_cold(path):
    """Out of the page cache, as far as that can be done."""
    if not os.path.exists(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def change_file(path, change, rng):
    data = path[:-3] + "bin" if path.endswith(".idx") and rng.random() < 0.7 else path
    size = os.path.getsize(data)
    if change == "cut":
        os.truncate(data, rng.choice([size // 2, size - 1, size // 3 + 1, 4096]) if size > 4096 else size // 2)
    elif change == "emptied":
        os.truncate(data, 0)
    elif change == "grown":
        with open(data, "ab") as file:
            file.write(os.urandom(rng.choice([1, 100, 5000])))
    elif change == "replaced":
        with open(data + ".new", "wb") as file:
            file.write(os.urandom(size))
        os.replace(data + ".new", data)
    elif change == "removed":
        os.unlink(data)


def first_difference(found, wanted):
    for place, (one, other) in enumerate(zip(found, wanted)):
        if one != other:
            return f"delivery {place} is {str(one)[:160]}, expected {str(other)[:160]}"
    return f"{len(found)} batches were delivered, expected {len(wanted)}"
