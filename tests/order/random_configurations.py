#!/usr/bin/env python3
"""Random chains over random files: what the engine delivers against the reference's order.

random_configurations.py DRIVER [--kind as_read|any] [--count N] [--seed N] [--only N]: DRIVER runs
chains (order_driver.cc). Of each chain every rank delivers its share of the reference's batches, all
together every record exactly once; restored at a random place, on another number of ranks too, it
delivers the rest; so it does after SeekTo, SkipBatches and ReInit. Exit status 1 where one differs.
"""

import argparse
import json
import random
import select
import subprocess
import sys
import tempfile
from collections import Counter

import reference
from configuration import Configuration
from data_files import Library

LONGEST_ANSWER_S = 120
MOST_POSITION_BYTES = 1024
MOST_POSITION_BYTES_OF_A_SET = 24


class Driver:
    """order_driver.cc, started again where it ended."""

    def __init__(self, path, log):
        self.path = path
        self.log = log
        self.process = None

    def answer(self, line):
        """Deliveries, how it ended, and the position or None."""
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=self.log)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], LONGEST_ANSWER_S)[0]:
                self.process.kill()
                return self._ended("hangs")
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.endswith("\n"):
            return self._ended("crashed")
        body, status, position = answer[:-1].split("\t")
        return [delivery_of(each) for each in body.split("|")[:-1]], status, position

    def _ended(self, how):
        status = self.process.wait()
        self.process = None
        return [], f"the driver {how} ({status})", "!"

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def delivery_of(text):
    if text == "again":
        return text
    number, _, rows = text.partition(":")
    return int(number), [row_of(row) for row in rows.split()]


def row_of(text):
    """A record, or those of a packed row, each with a plus behind it."""
    return tuple(int(record) for record in text.split("+")[:-1]) if "+" in text else int(text)


def first_difference(found, wanted):
    for place, (one, other) in enumerate(zip(found, wanted)):
        if one != other:
            return f"delivery {place}: {str(one)[:90]}…, expected {str(other)[:90]}…"
    return f"{len(found)} deliveries, expected {len(wanted)}"


class Check:
    """One configuration's runs; notes what differs."""

    def __init__(self, driver, configuration, rng):
        self.driver = driver
        self.configuration = configuration
        self.rng = rng
        self.wanted = configuration.everything()
        self.faults = []

    def run(self, what, wanted, end, rank=0, ranks=1, **words):
        """The position at its end, where all is as it should be."""
        line = self.configuration.line(rank, ranks, **words)
        found, status, position = self.driver.answer(line)
        if found != wanted or status != end:
            self.faults.append(f"{what}: {first_difference(found, wanted)}; {status}\n    {line}")
            return None
        return position

    def whole(self):
        """Every rank from the beginning to the end."""
        ranks = self.configuration.ranks
        for rank in range(ranks):
            self.run(f"rank {rank} of {ranks}", self.wanted(rank, ranks), "ok", rank, ranks)
        once = self.configuration.exactly_once()
        if once is None:
            return
        together = Counter(row for rank in range(ranks)
                           for _, rows in self.wanted(rank, ranks) for row in rows if row != 0)
        if together != once:  # then found is wrong in the same way, or noted above
            self.faults.append("the reference does not deliver every record exactly once")

    def position_after(self, deliveries, rank, ranks, **words):
        """Stops there. Returns the position and the number of the next batch."""
        wanted = [each for each in self.wanted(rank, ranks)
                  if "seek" not in words or each[0] >= words["seek"]]
        deliveries = min(deliveries, len(wanted))
        position = self.run(f"the first {deliveries} of rank {rank} of {ranks}",
                            wanted[:deliveries], "stopped", rank, ranks, stop=deliveries, **words)
        following = wanted[deliveries - 1][0] + 1 if deliveries > 0 else words.get("seek", 0)
        if position is None:
            return None, following
        if position.startswith("!"):
            self.faults.append(f"no position: {position}")
            return None, following
        sets = len(self.configuration.sources) if self.configuration.mixed else 0
        most = MOST_POSITION_BYTES + MOST_POSITION_BYTES_OF_A_SET * sets
        if len(position) // 2 > most:
            self.faults.append(f"a position of {len(position) // 2} bytes")
        return position, following

    def tail(self, what, following, rank, ranks, **words):
        rest = [each for each in self.wanted(rank, ranks) if each[0] >= following]
        self.run(what, rest, "ok", rank, ranks, **words)

    def restored(self):
        rng, ranks = self.rng, self.configuration.ranks
        rank = rng.randrange(ranks)
        total = len(self.wanted(rank, ranks))
        position, following = self.position_after(rng.randint(0, total), rank, ranks)
        if position is None:
            return
        other = self.configuration.other_ranks(rng)
        for each in {0, rng.randrange(other), other - 1}:
            self.tail(f"rank {each} of {other}, restored behind batch {following - 1} of rank {rank}"
                      f" of {ranks}", following, each, other, restore=position)
        self.again(position, following, other)
        if self.configuration.plain_mixture():
            self.with_other_weights(self.configuration.reweighted(following), position, following,
                                    other)
            self.with_a_schedule(following, other)
        if self.configuration.planned_mixture():  # early, while sets have records left
            self.with_a_schedule(rng.randint(0, min(following, 20)), other)
        if self.configuration.content_mixture():
            self.with_other_weights_of_content(position, following, other)
        self.same_on_all_ranks(following)

    def again(self, position, following, ranks):
        """A position that a restored reader gives."""
        wanted = [each for each in self.wanted(0, ranks) if each[0] >= following]
        taken = self.rng.randint(0, len(wanted))
        second = self.run(f"{taken} of rank 0 of {ranks} behind {following - 1}", wanted[:taken],
                          "stopped", 0, ranks, restore=position, stop=taken)
        if second is None or second.startswith("!"):
            return
        later = wanted[taken - 1][0] + 1 if taken > 0 else following
        self.tail(f"restored a second time, behind batch {later - 1}", later, 0, ranks,
                  restore=second)

    def with_other_weights_of_content(self, position, following, ranks):
        """Within a segment they are refused: what was delivered of it cannot be told any more. (Those
        of a single set are never others.)"""
        if len(self.configuration.sources) == 1:
            return
        number, place, outputs = json.loads(bytes.fromhex(position))["mark"]
        _, words = reweighted = self.configuration.reweighted_at(number, place)
        if outputs == 0:
            self.with_other_weights(reweighted, position, following, ranks)
            return
        line = self.configuration.line(0, ranks, restore=position, **words)
        found, status, _ = self.driver.answer(line)
        if found or "within a segment" not in status:
            self.faults.append(f"other weights within a segment: {status}\n    {line}")

    def with_other_weights(self, reweighted, position, following, ranks):
        wanted, words = reweighted
        rank = self.rng.randrange(ranks)
        self.run(f"other weights behind batch {following - 1}",
                 [each for each in wanted(rank, ranks) if each[0] >= following], "ok", rank, ranks,
                 restore=position, **words)

    def with_a_schedule(self, step, ranks):
        scheduled = self.configuration.scheduled(step)
        if scheduled is None:
            return
        wanted, words = scheduled
        rank = self.rng.randrange(ranks)
        wanted = wanted(rank, ranks)
        what = f"other weights from batch {step} on"
        self.run(what, wanted, "ok", rank, ranks, **words)
        taken = self.rng.randint(0, len(wanted))
        position = self.run(f"{taken} with {what}", wanted[:taken], "stopped", rank, ranks,
                            stop=taken, **words)
        if position is not None and not position.startswith("!"):
            following = wanted[taken - 1][0] + 1 if taken > 0 else 0
            self.run(f"{what}, restored behind {following - 1}",
                     [each for each in wanted if each[0] >= following], "ok", rank, ranks,
                     restore=position, **words)

    def same_on_all_ranks(self, following):
        ranks = self.configuration.ranks
        positions = set()
        for rank in range(ranks):
            numbers = [number for number, _ in self.wanted(rank, ranks)]
            if following - 1 in numbers:
                position, _ = self.position_after(numbers.index(following - 1) + 1, rank, ranks)
                positions.add(position)
        if len(positions) > 1:
            self.faults.append(f"ranks differ in the position behind batch {following - 1}")

    def moved(self):
        """SeekTo, SkipBatches and ReInit."""
        rng, ranks = self.rng, self.configuration.ranks
        rank = rng.randrange(ranks)
        wanted = self.wanted(rank, ranks)
        last = wanted[-1][0] if wanted else 0
        target = rng.randint(0, last + 1)
        self.tail(f"rank {rank} of {ranks}, SeekTo({target})", target, rank, ranks, seek=target)
        at, left_out = rng.randint(0, len(wanted)), rng.choice([0, 1, 2, 10, last // 2])
        begin = wanted[at - 1][0] + 1 if at > 0 else 0
        rest = [each for each in wanted[at:] if each[0] >= begin + left_out]
        self.run(f"{left_out} batches left out after {at} deliveries", wanted[:at] + rest, "ok", rank,
                 ranks, skip=f"{at}:{left_out}")
        self.run(f"again after {at} deliveries", wanted[:at] + ["again"] + wanted, "ok", rank, ranks,
                 reinit=at) if at < len(wanted) else None

    def all(self):
        self.whole()
        if not self.faults and self.configuration.kind == "any":
            self.restored()
            self.moved()
        return self.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("driver")
    parser.add_argument("--kind", choices=("as_read", "any"), default="any")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this one alone")
    options = parser.parse_args()
    reference.check_known_answer()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        library = Library(folder, random.Random(options.seed))
        driver = Driver(options.driver, log)
        chosen = range(options.count) if options.only is None else [options.only]
        for number in chosen:
            rng = random.Random(f"{options.seed} {number}")
            faults = Check(driver, Configuration(rng, library, options.kind), rng).all()
            failed += bool(faults)
            for fault in faults:
                print(f"configuration {number} (--seed {options.seed} --only {number}): {fault}",
                      flush=True)
        driver.close()
        log.seek(0)
        sys.stdout.write(log.read()[-4000:])
    print(f"{len(chosen)} configurations, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
