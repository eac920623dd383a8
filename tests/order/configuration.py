"""A random chain over random files: as a line for order_driver.cc, and as the reference's stages."""

import bisect
from collections import Counter
from fractions import Fraction

import planned
import reference
from data_files import FIXED

SEEDS = (0, 7, 2 ** 40 + 3)


class Source:
    """A set of files and the shuffles that stand on it."""

    def __init__(self, rng, library, kind, mixed, whole):
        """`whole`: the list of files is not split."""
        self.format, self.damage, pool = self._pool(rng, library)
        if rng.random() < 0.3:
            self.files = rng.choices(pool, k=rng.randint(1, 5))
        else:
            self.files = rng.sample(pool, k=rng.randint(1, len(pool)))
        if mixed and not any(file.records for file in self.files):
            self.files.append(next(file for file in pool if file.records))
        self.cycle = rng.choice([1, 2, 3, 8, 100])
        self.stripe = rng.choice([4096, 8192, 65536, 1048576])
        self.epoch = rng.choice([0, 0, 1, 5])
        self.index = "as_needed"
        self.order = self._order(rng, whole)
        self.chain = self._shuffles(rng, kind, mixed)
        self.weight = rng.choice(["1", "2", "0.5", "0.25", "3", "0.125", "7"])
        self.passes = rng.choice([1, 1, 2, 3])
        self.most = rng.choice([0, 0, 0, 1, 50, 700])
        self.kept = self._subset(rng, mixed) if kind == "any" and rng.random() < 0.3 else None

    @staticmethod
    def _pool(rng, library):
        if rng.random() < 0.25:
            file_format = rng.choice(list(library.damaged))
            return file_format, "skip", library.damaged[file_format] + library.whole[file_format][:5]
        file_format = rng.choice(["tfrecord", "tfrecord"] + list(library.whole))
        return file_format, rng.choice(["skip", "fail"]), library.whole[file_format]

    def _subset(self, rng, mixed):
        """Row numbers: none, one, some, half or all of them; at least one of a set that is mixed."""
        rows = range(sum(len(file.records) for file in self.files))
        count = rng.choice([0, 1, len(rows) // 20, len(rows) // 2, len(rows)])
        return set(rng.sample(rows, min(max(count, int(mixed)), len(rows))))

    @staticmethod
    def _order(rng, whole):
        ranks = 1 if whole else rng.choice([1, 1, 2, 3, 6])
        return reference.FileOrder(rng.choice([None, *SEEDS]), rng.choice([0, 0, 1, 2]),
                                   rng.randrange(ranks), ranks)

    @staticmethod
    def _shuffles(rng, kind, mixed):
        steps = []
        if kind == "any" and rng.random() < 0.5:
            steps.append(rng.choice([f"global:0:{rng.choice(SEEDS)}",
                                     f"blocks:{rng.choice([0, 1, 64, 1000])}:{rng.choice(SEEDS)}"]))
        if mixed:
            steps += [random_shuffle(rng) for _ in range(rng.choice([0, 0, 1]))]
        return steps

    def words(self, prefix):
        order = self.order
        seed = "none" if order.seed is None else order.seed
        words = {"files": ",".join(file.path for file in self.files),
                 "order": f"{seed}:{order.from_pass}:{order.rank}:{order.ranks}",
                 "format": self.format, "cycle": self.cycle, "stripe": self.stripe,
                 "damage": self.damage, "index": self.index, "epoch": self.epoch,
                 "chain": ";".join(self.chain), "weight": self.weight, "passes": self.passes,
                 "most": self.most}
        if self.kept is not None:
            words["kept"] = ",".join(map(str, sorted(self.kept)))
        return {f"{prefix}.{key}": value for key, value in words.items()}

    def stage(self):
        files = reference.without(self.files, self.kept)
        data = reference.DataSet(files, self.order, self.cycle, self.stripe, self.epoch)
        steps = [step.split(":") for step in self.chain]
        if steps and steps[0][0] == "global":
            stage, steps = data.globally(int(steps[0][2])), steps[1:]
        elif steps and steps[0][0] == "blocks":
            stage, steps = data.blocks(int(steps[0][1]), int(steps[0][2])), steps[1:]
        else:
            stage = data.as_read()
        for step in steps:
            stage = add_step(stage, step, self.epoch)
        return reference.remembered(stage)

    def records_of_pass(self, number):
        """Whatever their order."""
        files = reference.without(self.files, self.kept)
        data = reference.DataSet(files, self.order, first_epoch=self.epoch)
        return Counter(row for i in data.of_pass(number) for row in files[i].numbers()
                       if row is not reference.HOLE)


def random_shuffle(rng):
    amount = rng.choice([1, 2, 7, 64, 100, 1000, 20000])
    return f"{rng.choice(['window', 'block'])}:{amount}:{rng.choice(SEEDS)}"


def add_step(stage, words, first_epoch, sizes=None):
    """`sizes` are the records' lengths by their numbers."""
    kind = words[0]
    amount = int(words[1])
    if kind == "multipass":
        return reference.join_passes(stage, amount)
    if kind == "window":
        return reference.window_shuffle(stage, amount, int(words[2]), first_epoch)
    if kind == "block":
        return reference.block_shuffle(stage, amount, int(words[2]), first_epoch)
    if kind == "batch":
        return reference.batches(stage, amount, words[2] == "drop")
    if kind == "filter":
        return reference.keep_some(stage, lambda row: row % amount != 0)
    if kind in ("tokens", "bytes"):
        return reference.weighed_batches(stage, amount, int(words[2]), sizes.get)
    if kind == "pack":
        return reference.packed_batches(stage, amount, int(words[2]), int(words[3]), sizes.get,
                                        words[4] == "drop")
    groups = int(words[3])
    if kind == "bucket":  # of rows of up to so many bytes, twice as many, …
        group_of = lambda row: bisect.bisect_left([groups, 2 * groups, 4 * groups], sizes[row])
    else:
        group_of = lambda row: row % groups
    return reference.group_batches(stage, amount, int(words[2]), group_of, words[4] == "drop")


class Configuration:
    """Kinds: "as_read" needs no index, "any" may."""

    def __init__(self, rng, library, kind):
        self.kind = kind
        self.sizes = library.sizes
        self.mixed = kind == "any" and rng.random() < 0.3
        self.filtered = False
        self.replays = False
        self.batch = self._random_batch(rng)
        self.ranks = self.other_ranks(rng) if kind == "any" else 1
        whole = self.mixed or self.ranks > 1 or self.planned
        self.sources = [Source(rng, library, kind, self.mixed, whole)
                        for _ in range(rng.choice([1, 2, 2, 3, 5]) if self.mixed else 1)]
        if self.mixed and len(self.sources) > 1 and rng.random() < 0.3:
            self.sources[-1].passes = 0
        self.epoch = rng.choice([0, 0, 3]) if self.mixed else self.sources[0].epoch
        self.steps = self._random_steps(rng)
        if kind == "any" and self.may_replay() and rng.random() < 0.5:
            self.sources[0].index = "never"
            self.replays = True
        self.speed = {"threads": rng.choice([1, 2, 4]), "block": rng.choice([4096, 65536, 1048576]),
                      "io": rng.choice(["auto", "uring", "pread", "mmap"])}

    def _random_batch(self, rng):
        drawn = rng.random()
        if drawn < 0.2:
            return None
        size = rng.choice([1, 3, 12, 32, 60, 100, 5040])
        if drawn < 0.8:
            rest = rng.choice(["drop", "keep", "pad"] if self.kind == "any" else ["drop", "keep"])
            return f"batch:{size}:{rest}"
        if self.kind == "any" and drawn >= 0.9:
            return self._random_plan(rng)
        segment, rest = rng.choice([1, 7, 200, 3000, 100000]), rng.choice(["drop", "keep"])
        kind = rng.choice(["group", "bucket", "tokens", "bytes", "pack"] if self.kind == "any"
                          else ["group"])
        if kind in ("tokens", "bytes"):
            return f"{kind}:{rng.choice([1, 100, 4000, 60000])}:{rng.choice([1, 7, 64, 1000])}"
        if kind == "pack":
            return f"pack:{rng.choice([8, 100, 1000])}:{rng.choice([1, 4, 32])}:{segment}:{rest}"
        groups = rng.choice([1, 2, 5, 40]) if kind == "group" else rng.choice([16, 100, 1000])
        return f"{kind}:{size}:{segment}:{groups}:{rest}"

    def _random_plan(self, rng):
        """Of packed rows, token batches (one a step), buckets and rows."""
        kind = rng.choice(["pack", "pack", "tokens", "bucket", "batch"])
        step = 1 if kind == "tokens" else rng.choice([1, 2, 5, 8, 12])
        segment = rng.choice([1, 7, 64, 1000, 65535])
        amount, fit, multiple, most = 0, "first", 1, 0
        if kind == "pack":
            fit = rng.choice(["first", "best"])
            amount, multiple = rng.choice([8, 100, 1000]), rng.choice([1, 1, 16])
            most = rng.choice([0, 3]) if fit == "best" else 0
        if kind == "tokens":
            fit = rng.choice(["first", "best", "padded"])
            amount, most = rng.choice([100, 4000, 60000]), rng.choice([1, 7, 64, 1000])
        if kind == "bucket":
            segment, amount = step * rng.choice([1, 7, 64, 1000]), rng.choice([16, 100, 1000])
        cost = rng.choice(["none", "1,0", "0,1", "100,1"])
        if kind == "batch":
            segment, amount = 0, int(cost != "none")
        alike = rng.choice([1, 3, 16]) if cost != "none" else 1
        rests = ["short", "drop", "pad"] + ([] if self.mixed else ["repeat"])
        return (f"planned:{kind}:{step}:{segment}:{amount}:{fit}:{multiple}:{most}:"
                f"{rng.choice(rests)}:{cost}:{alike}:{rng.choice(SEEDS)}")

    def _random_steps(self, rng):
        ordered = bool(self.sources[0].chain) and not self.mixed
        if self.mixed and rng.random() < 0.5:
            return ["parse", self.batch] if self.batch else ["multipass:1"]
        steps = [f"multipass:{rng.randint(1, 3)}" for _ in range(rng.choice([0, 0, 1]))]
        steps += [random_shuffle(rng) for _ in range(rng.choice([0, 0, 1] if ordered else [0, 1, 1, 2]))]
        steps += [f"multipass:{rng.randint(1, 3)}" for _ in range(rng.choice([0, 0, 1]))]
        parse = "parse"
        fixed = self.batch is None or self.batch.startswith(("batch", "group"))
        if fixed and all(source.format in FIXED for source in self.sources):
            sizes = {FIXED[source.format] for source in self.sources}
            if len(sizes) == 1 and rng.random() < 0.5:
                parse = f"rows:{sizes.pop()}"
        if self.batch is not None:
            steps.insert(rng.randint(0, len(steps)), parse)
            self.filtered = self.kind == "any" and not self.planned and rng.random() < 0.2
            steps += [f"filter:{rng.choice([1, 2, 3, 100])}"] if self.filtered else []
            steps.append(self.batch)
            steps += [f"multipass:{rng.randint(1, 3)}" for _ in range(rng.choice([0, 0, 1]))]
        elif rng.random() < 0.5:
            steps.append(parse)
        return steps or ["multipass:1"]

    @property
    def skips(self):
        return any(source.damage == "skip" for source in self.sources)

    @property
    def planned(self):
        return bool(self.batch) and self.batch.startswith("planned")

    @property
    def size(self):
        return int(self.batch.split(":")[2 if self.planned else 1]) if self.batch else 0

    @property
    def pads(self):
        return bool(self.batch) and self.batch.endswith(":pad")

    @property
    def drops(self):
        return bool(self.batch) and (self.batch.endswith(":drop") or ":drop:" in self.batch)

    def other_ranks(self, rng):
        if not self.batch or not self.batch.startswith(("batch", "planned")) or self.replays:
            return 1
        return rng.choice([ranks for ranks in (1, 2, 3, 4, 5, 6, 7, 12) if ranks <= self.size])

    def may_replay(self):
        """Whether it can do without an index."""
        return (not self.mixed and not self.planned and self.ranks == 1 and
                self.sources[0].kept is None and
                not any(step.startswith(("global", "blocks")) for step in self.sources[0].chain))

    def line(self, rank=0, ranks=1, **words):
        result = {"sets": len(self.sources), "mix": int(self.mixed), "epoch": self.epoch,
                  "damage": "skip" if self.skips else "fail",
                  "chain": ";".join(self.steps), "rank": rank, "ranks": ranks, **self.speed}
        for i, source in enumerate(self.sources):
            result.update(source.words(str(i)))
        result.update(words)
        return " ".join(f"{key}={value}" for key, value in result.items())

    def rows(self, change=None):
        """The stage that batches are cut from, and the steps from Batch on."""
        if self.mixed:
            stage = reference.Mix([
                reference.MixedSet(source.stage(), Fraction(source.weight), source.passes,
                                   source.most) for source in self.sources], change).stage
        else:
            stage = self.sources[0].stage()
        steps = [step.split(":") for step in self.steps]
        steps = [words for words in steps if words[0] not in ("parse", "rows")]
        while steps and words_order(steps[0]):
            stage = add_step(stage, steps.pop(0), self.epoch)
        return stage, steps

    def everything(self, change=None):
        """Of all ranks together: what each rank r of n is to deliver, by (r, n)."""
        stage, steps = self.rows(change)
        if not self.batch:
            only = reference.row_deliveries(stage)
            return lambda rank, ranks: only
        for words in steps:
            stage = (self._plan(stage, words).steps if words[0] == "planned"
                     else add_step(stage, words, self.epoch, self.sizes))
        stage = reference.remembered(stage)
        if self.planned:
            rules = planned.rules_of(self.batch.split(":"), self.epoch)
            return lambda rank, ranks: planned.planned_deliveries(stage, rules, rank, ranks)
        return lambda rank, ranks: reference.deliveries(stage, rank, ranks, self.pads)

    def plain_mixture(self):
        """Whether rows leave as they were mixed, so that batch b ends at place (b + 1) * size of
        the passes, one behind the other."""
        if not self.mixed or self.filtered:
            return False
        before_batch = [step for step in self.steps if not step.startswith(("parse", "rows"))]
        if not self.batch:
            return all(step == "multipass:1" for step in before_batch)
        return self.batch.startswith("batch") and before_batch[0] == self.batch

    def content_mixture(self):
        """Whether batches of what was mixed depend on what is in the records, and nothing in front of
        them holds rows back: then the mark of a position says where a batch starts."""
        if not self.mixed or not self.batch or self.planned or self.plain_mixture():
            return False
        before_batch = self.steps[:self.steps.index(self.batch)]
        return all(step.startswith(("parse", "rows", "filter")) for step in before_batch)

    def planned_mixture(self):
        """Whether planned batches are made of rows as they were mixed."""
        steps = [step for step in self.steps if not step.startswith(("parse", "rows"))]
        return self.mixed and self.planned and steps[0] == self.batch

    def _plan(self, stage, words):
        rules = planned.rules_of(words, self.epoch)
        size_of = self.sizes.get if rules.kind != "batch" or rules.amount else lambda record: 1
        return planned.Plan(stage, rules, size_of)

    def reweighted_at(self, number, place):
        """As `reweighted`, from that place of that pass on."""
        weights = [str(2 * i + 1) for i in range(len(self.sources))]
        change = (number, place, [Fraction(weight) for weight in weights])
        return self.everything(change), {f"{i}.weight": weight for i, weight in enumerate(weights)}

    def reweighted(self, batches):
        """From behind so many batches on with other weights: what follows them, and the words that
        say so. Of a plain mixture."""
        stage, _ = self.rows()
        number, place = 0, batches * max(1, self.size)
        while True:
            rows = len(stage(number))
            cut = rows
            if self.size:
                cut = rows // self.size * self.size if self.drops else -(-rows // self.size) * self.size
            if place < cut or number == self.passes():
                break
            number, place = number + 1, place - cut
        return self.reweighted_at(number, place)

    def scheduled(self, batches):
        """With those other weights as a schedule: all that follows, and the words that say so; None
        if they are no others. Of a plain or a planned mixture."""
        if self.planned:
            stage, steps = self.rows()
            place = self._plan(stage, steps[0]).place_from(batches, self.passes())
            wanted, words = self.reweighted_at(*(place or (self.passes(), 0)))
        else:
            wanted, words = self.reweighted(batches)
        own, others = [source.weight for source in self.sources], list(words.values())
        same = len({Fraction(a) / Fraction(b) for a, b in zip(own, others)}) == 1
        if batches == 0 or same:
            return None
        schedule = f"0:{','.join(own)}/{batches}:{','.join(others)}"
        return wanted, {"schedule": schedule, **dict.fromkeys(words, "1")}

    def passes(self):
        """How often the source is read in all, where each pass of it is a pass over all records."""
        product = 1
        for step in self.steps:
            if step.startswith("multipass"):
                product *= int(step.split(":")[1])
        return product

    def exactly_once(self):
        """The records that all ranks together deliver, where that does not depend on the order;
        else None."""
        if self.drops or self.filtered or any(source.passes == 0 or source.most for source in self.sources
                             if self.mixed):
            return None
        if self.batch and self.batch.startswith(("pack", "planned:pack", "planned:tokens")):
            return None
        total = Counter()
        for source in self.sources:
            for number in range(self.passes() * (source.passes if self.mixed else 1)):
                total += source.records_of_pass(number)
        return total


def words_order(words):
    return words[0] in ("multipass", "window", "block")
