"""Planned batches, written down a second time after docs/ORDER.md ("Planned batches"): slowly, and
sharing no code with the engine.

A *share* is a tuple of records, of a packed row or a token batch, or of one place of a batch, which
may be a HOLE. A *step* is a list of shares, in which EMPTY is one that was added, or repeated."""

from collections import namedtuple

from reference import HOLE, KeyedPermutation

EMPTY = ()
SHARE_ORDER, STEP_ORDER = 9, 10
SEGMENT_OF_ROWS = 65535

Rules = namedtuple("Rules", "kind step segment amount fit multiple most rest cost alike seed epoch")


def rules_of(words, epoch):
    """Of planned:KIND:STEP:SEGMENT:AMOUNT:FIT:MULTIPLE:MOST:REST:COST:ALIKE:SEED."""
    _, kind, step, segment, amount, fit, multiple, most, rest, cost, alike, seed = words
    cost = None if cost == "none" else tuple(map(int, cost.split(",")))
    return Rules(kind, int(step), int(segment) or SEGMENT_OF_ROWS, int(amount), fit, int(multiple),
                 int(most), rest, cost, int(alike), int(seed), epoch)


class Share:
    def __init__(self, records, cost):
        self.records = records
        self.cost = cost


class Plan:
    """`size_of` gives a record's units."""

    def __init__(self, stage, rules, size_of):
        self.stage = stage
        self.rules = rules
        self.size_of = size_of
        self.passes = {}
        self.begins = {}  # of a pass: the first place of each segment, and its first share's step

    def place_from(self, step, passes):
        """(pass, place) of the first segment that is dealt by the weights of that step or a later one;
        None if no segment is."""
        for number in range(passes):
            self.steps(number)
            for place, first in self.begins[number]:
                if first >= step:
                    return number, place
        return None

    def steps(self, number):
        """Of that pass: lists of shares."""
        if number not in self.passes:
            before = sum(len(self.steps(earlier)) for earlier in range(number))
            self.passes[number] = self._steps(number, before)
        return self.passes[number]

    def _units(self, record):
        if record is HOLE:
            return 0
        units = self.size_of(record)
        if self.rules.kind == "pack":
            units = min(-(-min(units, self.rules.amount) // self.rules.multiple)
                        * self.rules.multiple, self.rules.amount)
        return units

    def _cost(self, records):
        linear, square = self.rules.cost or (1, 0)
        return sum(linear * units + square * units * units for units in map(self._units, records))

    def _steps(self, number, before):
        rules, places, shares = self.rules, self.stage(number), []
        self.begins[number] = []
        for base in range(0, len(places), rules.segment):
            self.begins[number].append((base, before + len(shares) // rules.step))
            made = self._shares(places[base:base + rules.segment])
            if rules.fit != "first" and rules.kind in ("pack", "tokens") and made:
                order = KeyedPermutation(len(made), rules.seed, rules.epoch + number, SHARE_ORDER,
                                         12 * (base // rules.segment)).all()
                made = [made[i] for i in order]
            shares += [Share(records, self._cost(records)) for records in made]
        steps = []
        for base in range(0, len(shares), rules.alike * rules.step):
            steps += self._alike(shares[base:base + rules.alike * rules.step], number,
                                 before + len(steps))
        if steps and len(steps[-1]) < rules.step:
            self._finish(steps, shares)
        return steps

    def _alike(self, block, number, before):
        step = self.rules.step
        if self.rules.alike > 1:
            block = sorted(block, key=lambda share: -share.cost)
        cut = [block[i:i + step] for i in range(0, len(block), step)]
        whole = len(block) // step
        if self.rules.alike > 1 and whole:
            order = KeyedPermutation(whole, self.rules.seed, self.rules.epoch + number, STEP_ORDER,
                                     12 * before).all()
            cut = [cut[i] for i in order] + cut[whole:]
        return cut

    def _finish(self, steps, shares):
        missing = self.rules.step - len(steps[-1])
        if self.rules.rest == "drop":
            steps.pop()
        if self.rules.rest == "pad":
            steps[-1] = steps[-1] + [Share(EMPTY, 0)] * missing
        if self.rules.rest == "repeat":
            again = [shares[i % len(shares)] for i in range(missing)]
            steps[-1] = steps[-1] + [Share(EMPTY, share.cost) for share in again]

    def _shares(self, places):
        """Tuples of records, of the places of a segment."""
        kind = self.rules.kind
        if kind == "batch":
            return [(record,) for record in places]
        if kind == "bucket":
            return [(record,) for record in self._buckets(places)]
        items = [(place, record) for place, record in enumerate(places) if self._units(record) > 0]
        if self.rules.fit != "first":
            items.sort(key=lambda item: (-self._units(item[1]), item[0]))
        rows = self._pack(items) if kind == "pack" else self._cut(items)
        return [tuple(record for _, record in row) for row in rows]

    def _buckets(self, places):
        bounds = [self.rules.amount, 2 * self.rules.amount, 4 * self.rules.amount]
        buckets = [[] for _ in range(len(bounds) + 1)]
        result = []
        for record in places:
            bucket = buckets[sum(self._units(record) > bound for bound in bounds)]
            bucket.append(record)
            if len(bucket) == self.rules.step:
                result += bucket
                bucket.clear()
        return result + [record for bucket in buckets for record in bucket]

    def _pack(self, items):
        rows, rooms, came = [], [], []
        for number, (place, record) in enumerate(items):
            units = self._units(record)
            fitting = [i for i, room in enumerate(rooms) if room >= units and
                       (self.rules.most == 0 or len(rows[i]) < self.rules.most)]
            if not fitting:
                at = len(rows)
                rows.append([])
                rooms.append(self.rules.amount)
                came.append(0)
            elif self.rules.fit == "best":  # the least room; of equal ones that which came to it last
                at = min(fitting, key=lambda i: (rooms[i], -came[i]))
            else:
                at = fitting[0]
            rows[at].append((place, record))
            rooms[at] -= units
            came[at] = number
        return [sorted(row) for row in rows]

    def _cut(self, items):
        shares, begun = [], []
        for item in items:
            units = [self._units(record) for _, record in begun + [item]]
            weight = max(units) * len(units) if self.rules.fit == "padded" else sum(units)
            if begun and (weight > self.rules.amount or len(begun) == self.rules.most):
                shares.append(begun)
                begun = []
            begun = begun + [item]
        return shares + ([begun] if begun else [])


def parts_of(step, rules, ranks):
    """The shares of each rank."""
    shares = list(step)
    if rules.rest in ("pad", "repeat"):
        shares += [Share(EMPTY, 0)] * (-rules.step % ranks)
    if rules.cost is None:
        return [shares[rank * len(shares) // ranks:(rank + 1) * len(shares) // ranks]
                for rank in range(ranks)]
    parts, loads = [[] for _ in range(ranks)], [0] * ranks
    by_cost = sorted(shares, key=lambda share: -share.cost)
    for base in range(0, len(by_cost), ranks):
        least = sorted(range(ranks), key=lambda rank: (loads[rank], rank))
        for rank, share in zip(least, by_cost[base:base + ranks]):
            parts[rank].append(share)
            loads[rank] += share.cost
    return parts


def planned_deliveries(cut, rules, rank, ranks):
    """As reference.deliveries; `cut` gives the steps of a pass."""
    result = []
    pads = rules.rest in ("pad", "repeat")
    for number, step in enumerate(cut(0)):
        shares = [share.records for share in parts_of(step, rules, ranks)[rank]]
        if rules.kind == "tokens":
            rows = list(shares[0]) if shares else []
            rows += [0] * (rules.most - len(rows) if pads else 0)
        elif rules.kind == "pack":
            rows = [records if records else 0 for records in shares]
        else:
            rows = [records[0] if records and records[0] is not HOLE else 0 for records in shares]
            rows = rows if pads else [row for row in rows if row != 0]
        if rows or ranks > 1:
            result.append((number, rows))
    return result
