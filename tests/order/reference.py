"""The order of delivery, written down a second time after docs/ORDER.md: slowly, and sharing no code
with the engine.

A *place* is a position in the order of a pass. It holds the number of a record, or HOLE where a
damaged record stands in its stead. A *stage* is a function from the number of a pass to the list of
what its places hold; stages are made of stages as decorators are.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import isqrt

HOLE = None
MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF

WINDOW_SHUFFLE, BLOCK_SHUFFLE, FILE_ORDER, BLOCK_ORDER, GLOBAL_ORDER = 1, 2, 3, 6, 7
DOCUMENT_ORDER = 11

# ---- Draws ----


@lru_cache(maxsize=1 << 16)
def philox4x32_10(counter, key):
    """Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011)."""
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * counter[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * counter[2], 1 << 32)
        counter = (high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0)
        key = ((key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32)
    return counter


def draw(seed, epoch, purpose, index):
    block = index // 4
    counter = (block & MASK32, epoch & MASK32, purpose, block >> 32)
    return philox4x32_10(counter, (seed & MASK32, seed >> 32))[index % 4]


def row_draws(seed, epoch, file, record):
    """A function of k: the 64-bit draws of a row."""
    counter = (record & MASK32, (file << 8 | record >> 32) & MASK32, epoch & MASK32, 8)
    key = philox4x32_10(counter, (seed & MASK32, seed >> 32))

    def draw_of(k):
        words = philox4x32_10((k & MASK32, k >> 32, key[2], key[3]), key[:2])
        return words[1] << 32 | words[0]
    return draw_of


def check_known_answer():
    """The generator's own published vectors, so that two equal mistakes would not agree."""
    assert philox4x32_10((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox4x32_10((MASK32,) * 4, (MASK32,) * 2) == (
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


def exchange(items, seed, epoch, purpose, base=0):
    """Fisher and Yates: for j from the last down to 1, j and floor(draw * (j + 1) / 2^32) change
    places."""
    items = list(items)
    for j in range(len(items) - 1, 0, -1):
        other = draw(seed, epoch, purpose, base + j) * (j + 1) >> 32
        items[j], items[other] = items[other], items[j]
    return items


def _hash(word, key):
    """32 bits of 64."""
    word = (word ^ key) * 0xBF58476D1CE4E5B9 & MASK64
    word = (word ^ word >> 32) * 0x94D049BB133111EB & MASK64
    return word >> 32


class KeyedPermutation:
    """Of 0 … size - 1: each number is a row and a column of a table that is just large enough, of
    256 places at least; rounds turn the row by a hash of the column, and the other way round. What
    comes out as none of the numbers goes through again."""

    def __init__(self, size, seed, epoch, purpose, base=0):
        """The keys are draws from number `base` on."""
        self.size = size
        places = max(size, 255)
        self.rows = isqrt(places) + 1
        self.columns = places // self.rows + 1
        draws = [draw(seed, epoch, purpose, base + i) for i in range(12)]
        self.keys = [draws[2 * i] << 32 | draws[2 * i + 1] for i in range(6)]

    def rounds(self, value):
        """(row, column) behind each round."""
        row, column = divmod(value, self.columns)
        for i, key in enumerate(self.keys):
            if i % 2 == 0:
                row = (row + (_hash(column, key) * self.rows >> 32)) % self.rows
            else:
                column = (column + (_hash(row, key) * self.columns >> 32)) % self.columns
            yield row, column

    def once(self, value):
        *_, (row, column) = self.rounds(value)
        return row * self.columns + column

    def at(self, value):
        value = self.once(value)
        while value >= self.size:
            value = self.once(value)
        return value

    def all(self):
        return [self.at(i) for i in range(self.size)]


# ---- Files ----


class FileRecords:
    """What the order needs of a file: its size, and of each record with an ordinal the offset of the
    unit that it starts with, and its number (HOLE where it is damaged)."""

    def __init__(self, size, records, one_stripe=False):
        self.size = size
        self.records = records  # [(offset, number)]
        self.one_stripe = one_stripe

    def stripes(self, stripe_bytes):
        if self.one_stripe:
            return [[number for _, number in self.records]]
        stripes = [[] for _ in range(-(-self.size // stripe_bytes))]
        for offset, number in self.records:
            stripes[offset // stripe_bytes].append(number)
        return stripes

    def numbers(self):
        return [number for _, number in self.records]


def without(files, kept):
    """The files with the records of a subset alone, by their row numbers; None: all. Offsets stay."""
    found, row = [], 0
    for file in files:
        records = [record for i, record in enumerate(file.records) if kept is None or row + i in kept]
        found.append(FileRecords(file.size, records, file.one_stripe))
        row += len(file.records)
    return found


class FileOrder:
    def __init__(self, seed=None, from_pass=0, rank=0, ranks=1):
        self.seed, self.from_pass, self.rank, self.ranks = seed, from_pass, rank, ranks


def part_of(items, rank, ranks):
    """The rank-th of `ranks` consecutive parts, of which the first ones have one more."""
    least, larger = divmod(len(items), ranks)
    sizes = [least + (i < larger) for i in range(ranks)]
    begin = sum(sizes[:rank])
    return items[begin:begin + sizes[rank]]


def files_of_pass(count, order, epoch):
    """Indices in the list of the files that a pass reads, in their order; its epoch is its number,
    counted from the first epoch."""
    files = list(range(count))
    if order.seed is not None and epoch >= order.from_pass:
        files = exchange(files, order.seed, epoch, FILE_ORDER)
    return part_of(files, order.rank, order.ranks)


def interleave(files, cycle, stripe_bytes):
    """One pass: of `cycle` lanes one stripe each in turn; a lane whose file is at its end goes on
    with the next file, and drops out where there is none."""
    waiting = [file.stripes(stripe_bytes) for file in files]
    waiting = [stripes for stripes in waiting if stripes]
    lanes = [[] for _ in range(cycle)]
    alive = [True] * cycle
    order = []
    while any(alive):
        for lane in range(cycle):
            if not alive[lane]:
                continue
            if not lanes[lane]:
                if not waiting:
                    alive[lane] = False
                    continue
                lanes[lane] = list(waiting.pop(0))
            order += lanes[lane].pop(0)
    return order


class DataSet:
    """A list of files and how they are read."""

    def __init__(self, files, order=None, cycle=8, stripe_bytes=1 << 20, first_epoch=0):
        self.files = files
        self.order = order or FileOrder()
        self.cycle = cycle
        self.stripe_bytes = stripe_bytes
        self.first_epoch = first_epoch

    def of_pass(self, number):
        return files_of_pass(len(self.files), self.order, self.first_epoch + number)

    def in_list_order(self, number):
        return [self.files[i] for i in sorted(self.of_pass(number))]

    # Stages.
    def as_read(self):
        return lambda number: interleave(
            [self.files[i] for i in self.of_pass(number)], self.cycle, self.stripe_bytes)

    def blocks(self, window, seed):
        def stage(number):
            stripes = [stripe for file in self.in_list_order(number)
                       for stripe in file.stripes(self.stripe_bytes)]
            turns = KeyedPermutation(len(stripes), seed, self.first_epoch + number, BLOCK_ORDER)
            return [row for turn in turns.all() for row in stripes[turn]]
        return window_shuffle(stage, window, seed, self.first_epoch) if window else stage

    def globally(self, seed):
        def stage(number):
            rows = [row for file in self.in_list_order(number) for row in file.numbers()]
            places = KeyedPermutation(len(rows), seed, self.first_epoch + number, GLOBAL_ORDER)
            return [rows[place] for place in places.all()]
        return stage


# ---- Stages ----


def window_shuffle(stage, window, seed, first_epoch=0):
    """The record at place i has the key i + W * u, here times 2^32; ties fall to the smaller i."""
    def shuffled(number):
        rows = stage(number)
        keys = [((i << 32) + window * draw(seed, first_epoch + number, WINDOW_SHUFFLE, i), i)
                for i in range(len(rows))]
        return [rows[i] for _, i in sorted(keys)]
    return shuffled


def block_shuffle(stage, size, seed, first_epoch=0):
    def shuffled(number):
        rows = stage(number)
        order = []
        for base in range(0, len(rows), size):
            order += exchange(rows[base:base + size], seed, first_epoch + number, BLOCK_SHUFFLE, base)
        return order
    return shuffled


def join_passes(stage, passes):
    """Pass n is the passes n * passes … of what stands before, without a seam; of batches too."""
    return lambda number: [each for inner in range(passes) for each in stage(number * passes + inner)]


class MixedSet:
    def __init__(self, stage, weight, passes=1, most=0):
        self.stage = stage
        self.weight = Fraction(weight)
        self.passes = passes  # 0: without end
        self.most = most      # 0: as many as there are


def deal(weights, limits, given=None):
    """Which set gives at each draw, until those with a limit are at it (None: without end). A
    generator of set numbers; `given` is what the sets gave before, by other weights."""
    left = [None if limit is None else limit - before
            for limit, before in zip(limits, given or [0] * len(limits))]
    while True:
        alive = [i for i, limit in enumerate(left) if limit is None or limit > 0]
        if not any(left[i] is not None for i in alive):
            return
        share = {i: weights[i] / sum(weights[j] for j in alive) for i in alive}
        counts = dict.fromkeys(alive, 0)
        n = 0
        ended = False
        while not ended:
            eligible = [i for i in alive if counts[i] / share[i] // 1 <= n]
            giver = min(eligible, key=lambda i: (-(-(counts[i] + 1) / share[i] // 1), i))
            yield giver
            counts[giver] += 1
            n += 1
            if left[giver] is not None:
                left[giver] -= 1
                ended = left[giver] == 0


class Mix:
    """Sets dealt by weight. Sets without an end go on where they were in the next pass, all others
    begin again. `change` is (pass, place, weights): other weights from there on."""

    def __init__(self, sets, change=None):
        self.sets = sets
        self.change = change
        self.turns = remembered(self._turns)  # which set gives at each place of a pass

    def limits(self, number):
        """How many records each set has to give in a pass."""
        result = []
        for each in self.sets:
            if each.passes == 0:
                result.append(each.most or None)
                continue
            first = number * each.passes
            rows = sum(len(each.stage(first + i)) for i in range(each.passes))
            result.append(min(rows, each.most) if each.most else rows)
        return result

    def _turns(self, number):
        weights, limits = [each.weight for each in self.sets], self.limits(number)
        if self.change is None or number < self.change[0]:
            return list(deal(weights, limits))
        changed_pass, place, other = self.change
        if number > changed_pass:
            return list(deal(other, limits))
        first = list(islice(deal(weights, limits), place))
        return first + list(deal(other, limits, [first.count(i) for i in range(len(weights))]))

    def rows_of(self, i, number):
        """What set i gives in a pass, one after another."""
        each = self.sets[i]
        before = 0
        if each.passes == 0:
            before = sum(self.turns(earlier).count(i) for earlier in range(number))
        passing = number * each.passes
        while True:
            rows = each.stage(passing)
            yield from rows[before:]
            before = max(0, before - len(rows))
            passing += 1

    def stage(self, number):
        rows = [self.rows_of(i, number) for i in range(len(self.sets))]
        return [next(rows[giver]) for giver in self.turns(number)]


# ---- Batches ----


class Batch:
    """One batch of the whole job: its places, before ranks take their slices."""

    def __init__(self, places, size):
        self.places = places
        self.size = size

    def of_rank(self, rank, ranks):
        return self.places[rank * self.size // ranks:(rank + 1) * self.size // ranks]


def batches(stage, size, drop=False):
    def cut(number):
        rows = stage(number)
        result = [Batch(rows[i:i + size], size) for i in range(0, len(rows), size)]
        if drop and result and len(result[-1].places) < size:
            result.pop()
        return result
    return cut


def group_batches(stage, size, segment, group_of, drop=False):
    """Batches of one group each; what is left of the groups at a segment's end goes, in the order in
    which it was begun."""
    def cut(number):
        rows = stage(number)
        result = []
        for base in range(0, len(rows), segment):
            begun = {}  # in the order of insertion
            for row in rows[base:base + segment]:
                if row is HOLE:
                    continue
                group = group_of(row)
                begun.setdefault(group, []).append(row)
                if len(begun[group]) == size:
                    result.append(Batch(begun.pop(group), size))
            result += [] if drop else [Batch(rest, size) for rest in begun.values()]
        return result
    return cut


def keep_some(stage, keep):
    """Without the rows that `keep` does not keep; holes stay."""
    return lambda number: [row for row in stage(number) if row is HOLE or keep(row)]


def weighed_batches(stage, limit, most_rows, weight_of):
    """A batch ends before the row that would make it heavier than `limit`, and by `most_rows`."""
    def cut(number):
        result, begun, total = [], [], 0
        for row in stage(number):
            weight = 0 if row is HOLE else weight_of(row)
            if begun and (len(begun) == most_rows or total + weight > limit):
                result.append(Batch(begun, most_rows))
                begun, total = [], 0
            begun.append(row)
            total += weight
        return result + ([Batch(begun, most_rows)] if begun else [])
    return cut


def packed_batches(stage, length, rows, segment, length_of, drop=False):
    """First fit: a record goes behind the others of the first row of its segment that has room. A
    row is the tuple of its records. Batches run over the ends of segments."""
    def cut(number):
        result, places = [], stage(number)
        for base in range(0, len(places), segment):
            packed, room = [], []
            for record in places[base:base + segment]:
                units = 0 if record is HOLE else min(length, length_of(record))
                if units == 0:
                    continue
                at = next((i for i, left in enumerate(room) if left >= units), len(room))
                if at == len(room):
                    packed.append([])
                    room.append(length)
                packed[at].append(record)
                room[at] -= units
            result += [tuple(row) for row in packed]
        if drop:
            del result[len(result) - len(result) % rows:]
        return [Batch(result[i:i + rows], rows) for i in range(0, len(result), rows)]
    return cut


def deliveries(cut, rank=0, ranks=1, pad=False):
    """What a rank is given of pass 0 of the whole: [(number of the batch, rows)]. With `pad` a place
    without a record is 0; else it is left out. A batch without any row is handed out to each of
    several ranks, so that all take as many steps; to one alone it is not."""
    result = []
    for number, batch in enumerate(cut(0)):
        rows = batch.of_rank(rank, ranks)
        if pad:
            rows = [0 if row is HOLE else row for row in rows]
            own = (rank + 1) * batch.size // ranks - rank * batch.size // ranks
            rows += [0] * (own - len(rows))
        else:
            rows = [row for row in rows if row is not HOLE]
        if rows or ranks > 1:
            result.append((number, rows))
    return result


def row_deliveries(stage):
    """Of a chain without batches: each row by itself, numbered by its place."""
    return [(number, [row]) for number, row in enumerate(stage(0)) if row is not HOLE]


def remembered(stage):
    """The same, computed once a pass."""
    passes = {}

    def looked_up(number):
        if number not in passes:
            passes[number] = stage(number)
        return passes[number]
    return looked_up
