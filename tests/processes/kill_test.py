#!/usr/bin/env python3
"""Processes of a job are killed, at random times, until its epochs are done: each time it goes on with
another number of ranks from the smallest saved position. Then every record was delivered exactly once,
after what was rolled back, in the order of an undisturbed run.

kill_test.py RINGFEED [--rounds N] [--seed N] [--only N]; the environment's
RINGFEED_KILL_ROUNDS goes before N.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter

from job import Deliveries, Job, audit, batches_of, make_data, position_batch

ROUNDS = 100
MOST_ATTEMPTS_WITH_KILLS = 6


def random_words(rng):
    """A job's options, and its batch."""
    batch = rng.choice([6, 12, 24, 36, 60])
    mode = rng.choice(["none", "window", "block", "stripes", "global"])
    words = ["--batch", batch, "--shuffle-mode", mode, "--cycle", rng.choice([1, 3, 8]),
             "--stripe-bytes", rng.choice([4096, 16384]), "--passes", rng.choice([1, 1, 2]),
             "--threads", rng.choice([1, 2])]
    if mode in ("window", "block", "stripes"):
        words += ["--shuffle", rng.choice([10, 200, 3000])]
    if mode != "none":
        words += ["--seed", rng.choice([0, 5, 2 ** 40 + 1]), "--epoch", rng.choice([0, 3])]
    if rng.random() < 0.3:
        words += ["--drop-remainder"]
    return words, batch


class Round:
    """One job, killed and started again until it is done."""

    def __init__(self, binary, data, seed, folder):
        self.binary = binary
        self.rng = random.Random(seed)
        self.folder = pathlib.Path(folder)
        self.data = self.rng.choice(data)
        self.words, self.batch = random_words(self.rng)
        self.every = self.rng.choice([1, 2, 7])
        self.keeps_journals = self.rng.random() < 0.5  # a rank appends to what it wrote before
        self.attempts = 0
        self.killed = 0
        self.found = Deliveries()
        self.begun = {}  # how often each journal was begun
        if self.rng.random() < 0.1:
            self.data.forget_indexes()

    def ranks(self):
        return self.rng.choice([n for n in (1, 2, 3, 4, 6) if self.batch % n == 0])

    def undisturbed(self):
        """What there is to deliver, and how long one process takes for it."""
        job = Job(self.binary, self.data, self.words, self.folder / "undisturbed")
        begin = time.monotonic()
        job.run(1, words_of=lambda rank: (
            "--ranks", 1, "--rank", 0, "--position-out", job.folder / "position",
            "--position-every", self.every))
        return job.deliveries(1).sequence(), time.monotonic() - begin

    def attempt(self, start, seconds):
        """One launch, from the position `start`. Returns whether it came to the end, and the
        smallest position behind it."""
        ranks = self.ranks()
        attempt = self.folder / f"attempt{self.attempts}"
        self.attempts += 1
        attempt.mkdir()
        job = Job(self.binary, self.data, self.words,
                  self.folder / "journals" if self.keeps_journals else attempt)
        positions = [attempt / f"{rank}.position" for rank in range(ranks)]
        processes = []
        # A journal with several launches of which ranks missed some can be told by their names alone.
        named = {"RINGFEED_RUN_ID": attempt.name} if self.keeps_journals else {}
        for rank in range(ranks):
            words = ["--rank", rank, "--ranks", ranks, "--position-out", positions[rank],
                     "--position-every", self.every]
            words += ["--position-in", start] if start else []
            processes.append(job.start(rank, *words, environment=named))
        self.kill_some(processes, seconds)
        ends = [self.end_of(process) for process in processes]
        self.collect(job, ranks, start)
        return all(ends), self.smallest(positions, start)

    def smallest(self, positions, start):
        """Of the positions that this launch saved; a rank that saved none stands where it began."""
        saved = [path if path.exists() else start for path in positions]
        return min(saved, key=lambda path: position_batch(path) if path else -1)

    def kill_some(self, processes, seconds):
        if self.attempts > MOST_ATTEMPTS_WITH_KILLS:
            return
        victims = self.rng.sample(processes, self.rng.randint(1, len(processes)))
        times = sorted((self.rng.uniform(0, 0.9 * seconds), i) for i in range(len(victims)))
        begin = time.monotonic()
        for at, i in times:
            time.sleep(max(0.0, begin + at - time.monotonic()))
            if victims[i].poll() is None:
                victims[i].send_signal(signal.SIGKILL)

    def end_of(self, process):
        """True where it came to its end, False where it was killed."""
        _, err = process.communicate(timeout=120)
        if process.returncode == -signal.SIGKILL:
            self.killed += 1
            return False
        if process.returncode != 0:
            raise AssertionError(f"{' '.join(process.args)}\nended with {process.returncode}: "
                                 f"{err[-2000:]}")
        return True

    def collect(self, job, ranks, start):
        """What this launch delivered, after the journals that it appended to."""
        batch = position_batch(start) if start else 0
        by_rank = {}
        for rank in range(ranks):
            path = job.journal(rank)
            if not path.exists():
                continue
            starts = batches_of(path.read_text())
            # One that was killed before it began its journal has not begun anything.
            begun = len(starts) - self.begun.get(path, 0)
            assert begun in (0, 1), f"{path}: {begun} starts more"
            self.begun[path] = len(starts)
            if begun:
                assert starts[-1][0] == batch, f"{path} starts at {starts[-1][0]}, not at {batch}"
                by_rank[rank] = starts[-1][1]
        self.found.add(batch, by_rank)

    def run(self):
        wanted, seconds = self.undisturbed()
        start, done = None, False
        while not done:
            done, start = self.attempt(start, seconds)
        assert self.found.sequence() == wanted, self.difference(wanted)
        report = audit(self.binary, self.begun)
        assert (report["missing"], report["repeated"]) == (0, 0), report
        total = sum(len(records) for _, records in wanted)
        assert report["records"] == total, f"{report}, expected {total} records"
        if "--drop-remainder" not in self.words:
            times = Counter(self.found.records())
            assert len(times) == total and set(times.values()) <= {1}
            assert total % self.data.total == 0
        return report["rolled_back"]

    def difference(self, wanted):
        found = self.found.sequence()
        for one, other in zip(found, wanted):
            if one != other:
                return f"batch {one[0]} has {str(one[1])[:200]}, expected {other[0]}: {str(other[1])[:200]}"
        return f"{len(found)} batches, expected {len(wanted)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this round alone")
    options = parser.parse_args()
    rounds = int(os.environ.get("RINGFEED_KILL_ROUNDS", options.rounds))
    failed, attempts, killed, rolled_back = 0, 0, 0, 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ringfeed-kill-") as folder:
        data = make_data(folder)
        chosen = range(rounds) if options.only is None else [options.only]
        for number in chosen:
            place = pathlib.Path(folder) / f"round{number}"
            one = Round(options.binary, data, f"{options.seed} {number}", place)
            try:
                rolled_back += one.run()
            except AssertionError as error:
                failed += 1
                print(f"round {number} (--seed {options.seed} --only {number}): "
                      f"{' '.join(map(str, one.words))} of {one.data.paths[0].name}, "
                      f"{one.attempts} launches: {error}", flush=True)
            attempts += one.attempts
            killed += one.killed
            shutil.rmtree(place, ignore_errors=True)
    print(f"{len(chosen)} rounds, {attempts} launches, {killed} processes killed, {rolled_back} "
          f"records rolled back, in {time.monotonic() - begin:.0f} s; {failed} failed")
    # Kills that never met a process at work would prove nothing.
    idle = options.only is None and (killed < len(chosen) // 2 or rolled_back == 0)
    if idle:
        print("too few processes were killed at work")
    return 1 if failed or idle else 0


if __name__ == "__main__":
    sys.exit(main())
