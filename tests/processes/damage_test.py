#!/usr/bin/env python3
"""Damaged records in jobs of several processes: skipping keeps the place of every other record, the same
on every rank, in every run, and after going on with another number of ranks.

damage_test.py RINGFEED
"""

import pathlib
import random
import sys
import tempfile
import unittest

from job import DataSet, Deliveries, Job, TfRecords, batches_of, flipped, position_batch

BINARY = sys.argv[1]
BATCH = 12
FRAME_HEADER_BYTES = 12
#: Of a process that skipped damage, and of one that met none.
STATUSES = (0, 1)
ORDERS = {
    "none": ("--shuffle-mode", "none"),
    "window": ("--shuffle-mode", "window", "--shuffle", 100, "--seed", 9),
    "block": ("--shuffle-mode", "block", "--shuffle", 50, "--seed", 9),
    "stripes": ("--shuffle-mode", "stripes", "--shuffle", 40, "--seed", 9, "--stripe-bytes", 4096),
    "global": ("--shuffle-mode", "global", "--seed", 9),
}


class DamageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ringfeed-processes-damage-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "intact").mkdir()
        (self.folder / "damaged").mkdir()
        counts = [200, 90, 310]
        self.intact = DataSet(self.folder / "intact", "set", counts, TfRecords)
        self.damaged = DataSet(self.folder / "damaged", "set", counts, TfRecords)
        self.lost = self.damage()

    def damage(self):
        """Flips bits of payloads and their checksums; a whole batch of them in one place. Returns the
        records that are lost."""
        rng = random.Random(4)
        lost = {(2, record) for record in range(100, 100 + 2 * BATCH)}
        for file, records in enumerate(self.damaged.records):
            lost |= {(file, record) for record in rng.sample(range(len(records)), 15)}
        for file, records in enumerate(self.damaged.records):
            pieces = []
            for record, payload in enumerate(records):
                piece = TfRecords.frame(payload)
                if (file, record) in lost:
                    at = rng.randrange(FRAME_HEADER_BYTES, len(piece))
                    piece = flipped(piece, at, rng.randrange(8))
                pieces.append(piece)
            self.damaged.paths[file].write_bytes(b"".join(pieces))
        return lost

    def job(self, data, order, name):
        return Job(BINARY, data, ("--batch", BATCH, "--on-damage", "skip", *ORDERS[order]),
                   self.folder / "jobs" / name)

    def promised(self, order):
        """The intact data's batches without what is lost."""
        job = self.job(self.intact, order, f"{order}-intact")
        job.run(1)
        kept = [(number, [each for each in records if each[1:] not in self.lost])
                for number, records in job.deliveries(1).sequence()]
        return [each for each in kept if each[1]]

    def test_the_ordinals_of_all_others_stay_for_any_number_of_ranks(self):
        for order in ORDERS:
            promised = self.promised(order)
            for ranks in (1, 2, 3, 6):
                for run in range(2):
                    with self.subTest(order, ranks=ranks, run=run):
                        job = self.job(self.damaged, order, f"{order}-{ranks}-{run}")
                        reports = job.run(ranks, statuses=STATUSES)
                        self.assertEqual(job.deliveries(ranks).sequence(), promised)
                        self.assertEqual(sum(report["records"] for report in reports),
                                         self.damaged.total - len(self.lost))
                        found = job.audit([job.journal(rank) for rank in range(ranks)])
                        self.assertEqual((found["missing"], found["repeated"], found["damaged"]),
                                         (0, 0, len(self.lost)))

    def test_going_on_with_another_number_of_ranks_keeps_them_too(self):
        for order in ORDERS:
            promised = self.promised(order)
            for before, after, batches in ((1, 3, 7), (2, 1, 20), (3, 6, 33)):
                with self.subTest(order, before=before, after=after):
                    found = Deliveries()
                    first = self.job(self.damaged, order, f"{order}-{before}-{after}-first")
                    positions = [first.folder / f"{rank}.position" for rank in range(before)]
                    first.run(before, words_of=lambda rank: (
                        "--rank", rank, "--ranks", before, "--max-batches", batches,
                        "--position-out", positions[rank]), statuses=STATUSES)
                    # A rank whose rows of a batch are all damaged does not get it: it is further.
                    position = min(positions, key=position_batch)
                    second = self.job(self.damaged, order, f"{order}-{before}-{after}-second")
                    second.run(after, words_of=lambda rank: (
                        "--rank", rank, "--ranks", after, "--position-in", position), statuses=STATUSES)
                    for job, ranks in ((first, before), (second, after)):
                        starts = [batches_of(job.journal(rank).read_text()) for rank in range(ranks)]
                        self.assertEqual({each[0][0] for each in starts}, {starts[0][0][0]})
                        found.add(starts[0][0][0],
                                  {rank: each[0][1] for rank, each in enumerate(starts)})
                    self.assertEqual(found.sequence(), promised)
                    report = first.audit([job.journal(rank) for job, ranks in
                                          ((first, before), (second, after)) for rank in range(ranks)])
                    self.assertEqual((report["missing"], report["repeated"]), (0, 0))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
