"""What a configuration must deliver, in which order, and what must be reported: computed from the files'
records by docs/ORDER.md, sharing no code with the engine.

A delivery is (number of the batch, [(pass, file, record)]): what a journal says. How a run ends is one of
ENDED, DAMAGED (at its first damage) and REFUSED (at set-up).
"""

import hashlib

import reference
from files import GAP, HOLE

ENDED, STOPPED, DAMAGED, REFUSED = "ended", "stopped", "damaged", "refused"

#: Of these a place in the order is a record's number, so that every record must have one.
BY_NUMBER = ("global", "stripes")
BUCKET = 64  # places that a window shuffle lets go of at once


def failing_gap(file):
    """The number of what a run under `fail` ends at, where that is damage without a number: it counts
    as one record there, so that those behind it have the next numbers. None where it is a record."""
    for number, record in enumerate(file.payloads):
        if record is HOLE or record is GAP:
            return number if record is GAP else None
    return None


class Numbered(reference.FileRecords):
    """A file of the list, its records as (file, record), HOLE or GAP."""

    def __init__(self, file, position, keep_gaps):
        rows, number = [], 0
        gap = failing_gap(file) if keep_gaps else None
        for offset, record in file.records:
            if record is GAP:
                if number == gap:
                    rows.append((offset, GAP))
                    number += 1
                    gap = None  # of others behind it nobody knows how many records they were
                continue
            rows.append((offset, HOLE if record is HOLE else (position, number)))
            number += 1
        # One that cannot be opened has a turn of its own, in which that is told.
        super().__init__(1 if file.missing else file.size, rows, file.one_stripe)


class Expected:
    """Of one configuration whose files are `files`."""

    def __init__(self, configuration, files):
        self.configuration = configuration
        self.files = files
        self.skip = configuration["damage"] == "skip"
        self.batch = configuration["batch"] or 1 << 40  # blocks of records: a pass is one batch
        self.cuts = {}
        self.gaps = {}  # failing_gap of each file
        self.cut = False  # whether nothing is read behind damage

    # ---- How it is opened ----

    def by_number(self, ranks=1, restored=False):
        configuration = self.configuration
        split = configuration["split"] == "yes"
        return configuration["order"] in BY_NUMBER or (ranks > 1 and not split)

    def numberless(self):
        """Files that an order by number has no place for."""
        return [file for file in self.files if not file.indexed]

    def refused(self, ranks=1):
        if not self.by_number(ranks):
            return False
        if self.numberless():
            return True
        return not self.skip and any(GAP in file.payloads for file in self.files)

    # ---- The order ----

    def data_set(self, rank, ranks):
        configuration = self.configuration
        split = configuration["split"] == "yes" and ranks > 1
        order = reference.FileOrder(rank=rank if split else 0, ranks=ranks if split else 1)
        numbered = [Numbered(file, i, not self.skip and not self.by_number(ranks))
                    for i, file in enumerate(self.files)]
        return reference.DataSet(numbered, order, configuration["cycle"], configuration["stripe"],
                                 configuration["epoch"])

    def stage(self, rank, ranks):
        """Of the rows, with GAP where a run under `fail` ends before its place."""
        configuration = self.configuration
        data = self.data_set(rank, ranks)
        mode, amount, seed = configuration["order"], configuration["amount"], configuration["seed"]
        epoch = configuration["epoch"]
        if mode == "global":
            return data.globally(seed)
        if mode == "stripes":
            return data.blocks(amount, seed)
        stage = data.as_read()
        if self.cut and not self.skip:
            stage = self._until_damage(stage)
        if mode == "window":
            return reference.window_shuffle(stage, amount, seed, epoch)
        if mode == "block":
            return reference.block_shuffle(stage, amount, seed, epoch)
        return stage

    @staticmethod
    def _until_damage(stage):
        """Where a format's records do not stand for themselves nothing behind damage is read."""
        def cut(number):
            rows = stage(number)
            first = next((i for i, row in enumerate(rows) if row is HOLE or row is GAP), len(rows))
            return rows[:first + 1]
        return cut

    def in_order(self, number, rank, ranks):
        """How many places of a pass stand where they would without damage: the others are those that a
        shuffle held when it had to end."""
        mode, amount = self.configuration["order"], self.configuration["amount"]
        if not self.cut or mode not in ("window", "block"):
            return 1 << 60
        rows = self.data_set(rank, ranks).as_read()(number)
        arrived = next((i for i, row in enumerate(rows) if row is HOLE or row is GAP), len(rows)) + 1
        if arrived > len(rows):
            return 1 << 60
        if mode == "block":
            return arrived // amount * amount
        epoch = self.configuration["epoch"] + number
        keys = ((i << 32) + amount * reference.draw(self.configuration["seed"], epoch,
                                                    reference.WINDOW_SHUFFLE, i) for i in range(arrived))
        return sum(key < arrived // BUCKET * BUCKET << 32 for key in keys)

    def of_pass(self, number, rank, ranks):
        """[(rows of the rank, whether a failure cuts them short, whether it counts)] of the batches of a
        pass: under `fail` a rank ends at the first of its own rows that is damaged."""
        split = self.configuration["split"] == "yes" and ranks > 1
        size = self.batch // ranks if split else self.batch
        key = (number, rank, ranks, self.cut)
        if key not in self.cuts:
            result, places, in_order = [], 0, self.in_order(number, rank, ranks)
            for batch in reference.batches(self.stage(rank, ranks), size)(number):
                own = batch.places if split else batch.of_rank(rank, ranks)
                bad = None if self.skip else next(
                    (i for i, row in enumerate(own) if row is HOLE or row is GAP), None)
                places += len(batch.places)
                whole = len(batch.places) == size or self.configuration["drop"] == "keep"
                if whole or bad is not None:
                    result.append((own[:bad], bad is not None, places <= in_order))
                if bad is not None:
                    break
            self.cuts[key] = result
        return self.cuts[key]

    def places(self, rank=0, ranks=1):
        """How many batches a pass has, of all ranks together, where none is damaged."""
        return len(self.of_pass(0, rank, ranks))

    def run(self, rank=0, ranks=1, start=0, most=0):
        """(deliveries, how it ends, the batch that the position behind it stands at). `most` is
        --max-batches, 0 where it is not given."""
        if self.refused(ranks):
            return [], REFUSED, start
        deliveries, number, passes = [], 0, self.configuration["passes"]
        done = behind = 0
        while passes == 0 or done < passes:
            for own, fails, counts in self.of_pass(done, rank, ranks):
                if most and behind >= start + most:  # what does not count is no batch of these
                    return deliveries, STOPPED, behind
                rows = [(done, *row) for row in own if row is not HOLE]
                if rows and number >= start:
                    deliveries.append((number, rows))
                if fails:  # what it cuts short comes again
                    return deliveries, DAMAGED, behind
                behind += counts and behind == number
                number += 1
            if most and behind >= start + most:
                return deliveries, STOPPED, behind
            done += 1
            if passes == 0 and number == 0:  # it would go on for ever without delivering anything
                return [], DAMAGED, 0
        return deliveries, ENDED, behind

    def runs(self, rank=0, ranks=1, *given):
        """The runs that the damage allows: what stands behind it in the files may stand before it in the
        order, and may be lost with it. (Not where records are asked for by number, as ranks do.)"""
        by_number = ranks > 1 and self.configuration["split"] == "no"
        both = (not self.skip and self.damaged() and not by_number and
                self.configuration["order"] in ("window", "block"))
        for self.cut in (False, True) if both else (False,):
            yield self.run(rank, ranks, *given)

    def run_like(self, fits, *given, failed=None):
        """The first of them that `fits` takes and that does not end before it starts, or the first. Of two
        that deliver the same, where one stops in front of the failure, the one that `failed` or not."""
        runs = list(self.runs(*given))
        self.cut = False
        start = given[2] if len(given) > 2 else 0
        fitting = [run for run in runs if fits(run[0])]
        if failed is not None:
            fitting.sort(key=lambda run: (run[1] == DAMAGED) != failed)
        return next((run for run in fitting if run[2] >= start), (fitting or runs)[0])

    def behind(self, fits, *given):
        """The batches that the position may stand at behind a run that `fits` takes: two of those that
        the damage allows may deliver the same, of which one ends its shuffle and the other does not."""
        behind = {run[2] for run in self.runs(*given) if fits(run)}
        self.cut = False
        return behind

    # ---- What is reported ----

    def holes(self):
        """{(file, record)} of damaged records that have a number."""
        return {(i, number)
                for i, file in enumerate(self.files)
                for number, record in enumerate(file.numbered)
                if record is HOLE}

    def damaged(self):
        return any(file.damaged for file in self.files)

    def _number(self, file, record):
        """Where a record stands among those that have numbers."""
        if self.skip:
            return record
        if file not in self.gaps:
            self.gaps[file] = failing_gap(self.files[file])
        gap = self.gaps[file]
        return record - 1 if gap is not None and record > gap else record

    def payload(self, row):
        _, file, record = row
        return self.files[file].numbered[self._number(file, record)]

    def order_digest(self, deliveries):
        digest = hashlib.sha256()
        for _, rows in deliveries:
            for _, file, record in rows:
                digest.update(self.files[file].digest_of(self._number(file, record)))
        return digest.hexdigest()
