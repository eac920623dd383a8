"""The space of configurations: a table of dimensions and their values, the pairs of values that make no
sense together, and two ways to draw from it: at random, and so that every pair of values occurs.

A configuration is a dictionary of all dimensions. The first value of a dimension is its plain one, towards
which a difference is shrunk.
"""

import random

import border
import files
import hostile_texts

#: Indexes with right checksums that do not say what the file has.
HOSTILE = ("half", "none of them", "too many")

DIMENSIONS = {
    # What runs. feed: ranks, stops, resumes, audit. plain: without a trail, blocks of records too. stream:
    # one file through a pipe. program: `run`; streams: a program that joins some. devices: emulated
    # ones. tools: cat, digest and others of each file.
    "kind": ["feed", "feed", "feed", "plain", "stream", "program", "streams", "devices", "tools"],
    # The files.
    "format": list(files.FORMAT_WORDS),
    "compression": list(files.COMPRESSIONS),
    "mixed": ["no", "yes"],  # every second file is not compressed
    "state": list(files.STATES),
    "where": ["last", "first", "all"],  # which of the files are in that state
    "count": [1, 2, 3, 9, 40, 300],
    "scale": ["small", "small", "small", "medium", "medium", "large", "many", "uneven"],
    "index": ["kept", "fresh", "damaged", "stale", *HOSTILE],
    "medium": ["memory", "cold disk"],
    # Changed while they are read.
    "change": ["none", "none", "none", "none", "cut", "grown", "replaced", "removed", "emptied",
               "swapped"],
    # The order.
    "damage": ["fail", "skip"],
    "order": ["none", "window", "block", "stripes", "global"],
    "amount": [0, 1, 2, 7, 64, 64, 1000, 1000, 1_000_000, 20_000_000],
    "seed": [0, 7, 2 ** 40 + 3],
    "epoch": [0, 3],
    "cycle": [8, 1, 2, 3, 100],
    "stripe": [1048576, 4096, 65536, 4194304],
    "passes": [1, 2, 3, 0],
    "batch": [12, 1, 6, 60, 600, 6000, 100_002, 0],
    "drop": ["keep", "drop"],
    "ranks": [1, 2, 3, 6, 10],
    "split": ["no", "yes"],
    # Ended before the end, and gone on with; by --max-batches, Ctrl-C or SIGKILL.
    "stop": ["none", "at once", "early", "late", "interrupted", "killed"],
    "resumed_ranks": [1, 2, 3, 6, 10],
    # Whatever has no part in the order.
    "threads": [1, 0, 2, 5],
    "io": ["auto", "uring", "pread", "mmap"],
    "direct": ["default", "no", "yes"],
    "block": [524288, 4096, 65536],
    "in_flight": [4194304, 4096, 65536],
    "arena": ["default", "24MiB", "64MiB", "256MiB"],
    "slots": [0, 2, 4, 5],
    "devices": [1, 2, 3],
    "distribution": ["round-robin", "split", "replicate"],
    "last_step": ["uneven", "drop", "pad", "short"],
    "device_slots": [3, 2, 64],
    "transfer": ["auto", "batch", "members", "slabs", "direct"],
    # What `feed` reads is counted once more; what a program reads comes through one thing more.
    "verify": ["no", "yes"],
    "operator": ["none", "double buffer", "unordered"],
    "consumer": ["fast", "slow"],
    "descriptors": ["many", "few"],
    # What is refused, or counted.
    "parse": ["none", "none", "none", "fields", "fields", "misspelt", "wrong"],
    "max_record": ["default", "fits", "huge"],
    "max_damaged": ["any", 0, 1],
    "audit": ["no", "plain", "files"],
    # What lies around a run.
    "fault": list(border.FAULTS),
    "names": ["plain", "odd"],
    "launcher": list(border.LAUNCHERS),
    "twin": ["no", "yes"],  # another run at the same time, which makes the same indexes
    "beside": ["none", "trace", "steps"],
    "reopened": ["no", "yes"],  # a FIFO, by one writer after another
    # What people type, and others may write.
    "typed": hostile_texts.KINDS,
}

PARSERS = {"rows": "rows: u1[40]", "npy": "rows: u1[40]", "tokens": "tokens: u2[20]",
           "jsonl": "jsonl: k=u1[]", "ofrecord": "ofrecord: k=u1[]", "tar": "tar: bin=u1[]",
           "lines": "raw", "csv": "csv: -columns=any a=u1[]"}
MISSPELT = {"jsonl": "jsonl: kk=u1[]", "ofrecord": "ofrecord: kk=u1[]", "tar": "tar: bim=u1[]"}
#: Of another type than the file says.
WRONG = {"npy": "rows: i4[10]", "tokens": "tokens: u4[10]"}
STREAMS = ("tfrecord", "recordio", "ofrecord", "lines", "jsonl", "csv")

#: No index is kept of these.
ARITHMETIC = ("rows", "raw", "npy", "tokens", "megatron", "mds")

_ONLY_FEED = {"change": "none", "ranks": 1, "split": "no", "stop": "none", "resumed_ranks": 1,
              "audit": "no", "max_damaged": "any", "max_record": "default", "consumer": "fast", "fault": "none",
              "launcher": "words", "twin": "no"}


def _one(*values):
    return lambda value: value in values


def _other(*values):
    return lambda value: value not in values


def _conflicts():
    """(dimension, which values, dimension, which values) that do not occur together."""
    yield from _of_files()
    yield from _of_orders()
    yield from _of_kinds()
    yield from _of_borders()
    yield from hostile_texts.forbidden(_one, _other)
    for name in ("misspelt", "wrong", "fields"):
        known = {"misspelt": MISSPELT, "wrong": WRONG, "fields": PARSERS}[name]
        yield "parse", _one(name), "format", _other(*known)
    for name in ("misspelt", "wrong"):
        yield "parse", _one(name), "state", _other("intact")
        yield "parse", _one(name), "passes", _one(0)
        yield "parse", _one(name), "compression", _other("none")
        for dimension in ("change", "stop"):
            yield "parse", _one(name), dimension, _other("none")
    # What came through altered may parse or not, and is looked at alone without a parser.
    yield "parse", _one("fields"), "state", _one("broken")
    yield "max_damaged", _other("any"), "damage", _one("fail")
    for name in ("stop", "change"):
        yield "max_damaged", _other("any"), name, _other("none")
    yield "max_damaged", _other("any"), "passes", _one(0)


def _of_files():
    for state in files.STATES:
        for compression in files.COMPRESSIONS:
            bad = [name for name in files.FORMAT_WORDS if not files.there_is(name, compression, state)]
            if state == "intact" and bad:
                yield "compression", _one(compression), "format", _one(*bad)
            elif compression == "none" and state != "broken" and bad:
                yield "state", _one(state), "format", _one(*bad)
    yield "state", _one("broken"), "compression", _one("none")
    yield "state", _one("broken"), "format", _one(*files.PLAIN_ONLY)
    # What a format and a compression allow only together is left to those of a checksum of their own.
    yield "state", _one("broken"), "compression", _one("zlib", "zstd")
    yield "state", _one("flip", "head"), "format", _one("tar", "csv", "megatron")
    yield "state", _one("fortran"), "compression", _other("none")
    yield "state", _one("fortran"), "max_record", _one("fits")  # such an array is gathered as a whole
    # What stands behind broken content is looked at once, with the limit that is the default: a length
    # that is none of a record's is found out earlier by a smaller one.
    yield "state", _one("broken"), "max_record", _one("fits")
    yield "mixed", _one("yes"), "compression", _one("none")
    yield "mixed", _one("yes"), "count", _one(1)
    yield "where", _other("last"), "state", _one("intact")
    yield "where", _other("last"), "count", _one(1)
    yield "format", _one("raw"), "scale", _one("large")
    # What a Python model would take too long for.
    yield "scale", _one("large"), "format", _one("tfrecord", "tar")
    yield "scale", _one("many"), "format", _other("rows", "npy", "lines", "tokens")
    yield "scale", _one("many"), "count", _other(1, 2)
    yield "scale", _one("many"), "passes", _other(1)
    yield "scale", _one("many"), "order", _other("none", "global")
    yield "scale", _one("many"), "batch", _one(1, 6)
    yield "scale", _one("many"), "change", _other("none")
    yield "scale", _one("many"), "medium", _one("memory")
    yield "scale", _one("many"), "compression", _other("none")
    yield "scale", _one("many"), "audit", _other("no")
    yield "count", _one(40), "scale", _one("large", "many")
    yield "count", _one(40), "ranks", _other(1)
    yield "scale", _one("large"), "passes", _one(3)


def _of_orders():
    yield "amount", _other(0), "order", _one("none", "global")
    yield "amount", _one(0), "order", _one("window", "block")
    yield "seed", _other(0), "order", _one("none")
    yield "epoch", _other(0), "order", _one("none")
    yield "index", _other("kept"), "order", _one("none", "window", "block")
    yield "resumed_ranks", _other(1), "stop", _one("none")
    yield "split", _one("yes"), "ranks", _one(1)
    yield "split", _one("yes"), "stop", _other("none")
    yield "split", _one("yes"), "order", _one("global", "stripes")
    yield "split", _one("yes"), "passes", _one(0)
    for ranks in (2, 3, 6, 10):
        for name in ("ranks", "resumed_ranks"):
            yield name, _one(ranks), "batch", lambda batch, ranks=ranks: batch % ranks != 0
    yield "cycle", _other(8), "order", _one("global", "stripes")
    yield "cycle", _other(8), "count", _one(1)
    yield "passes", _one(0), "change", _other("none")
    yield "passes", _one(0), "stop", _one("none", "killed", "interrupted", "late")
    yield "stop", _one("killed", "interrupted"), "scale", _one("small")
    yield "index", _one("stale"), "format", _one(*ARITHMETIC)
    yield "index", _one("stale", "damaged"), "format", _one("megatron")
    yield "index", _one("stale"), "state", _other("intact")
    yield "index", _one("stale"), "compression", _other("none")
    yield "index", _one("stale"), "change", _other("none")
    yield "medium", _one("cold disk"), "change", _other("none")
    yield "medium", _one("cold disk"), "index", _one("stale")
    yield "medium", _one("cold disk"), "scale", _one("small")
    yield "batch", _one(0), "kind", _one("feed", "devices", "stream")
    yield "batch", _one(0), "parse", _other("none")
    yield "batch", _one(0), "drop", _one("drop")
    # Invariants stand for the model.
    yield "change", _other("none"), "state", _other("intact")
    yield "change", _other("none"), "stop", _other("none")
    yield "change", _other("none"), "ranks", _other(1)
    yield "change", _other("none"), "batch", _one(100_002)
    yield "change", _other("none"), "audit", _other("no")
    yield "change", _other("none"), "scale", _one("small")
    yield "change", _other("none"), "parse", _one("misspelt", "wrong")


def _of_borders():
    yield "count", _one(300), "scale", _other("small")
    for name, plain in (("ranks", 1), ("medium", "memory"), ("descriptors", "many"), ("stop", "none"),
                        ("twin", "no"), ("audit", "no")):
        yield "count", _one(300), name, _other(plain)
    for index in HOSTILE:
        yield "index", _one(index), "format", _one(*ARITHMETIC, "recordio")
        for name, plain in (("state", "intact"), ("compression", "none"), ("change", "none"),
                            ("medium", "memory"), ("fault", "none")):
            yield "index", _one(index), name, _other(plain)
    # A sum of two causes is known of neither.
    for name, plain in (("state", "intact"), ("change", "none"), ("stop", "none"), ("ranks", 1),
                        ("max_damaged", "any"), ("descriptors", "many"), ("medium", "memory"),
                        ("arena", "default"), ("twin", "no"), ("audit", "no")):
        yield "fault", _other("none"), name, _other(plain)
    yield "fault", _other("none"), "parse", _one("misspelt", "wrong")
    yield "fault", _other("none"), "index", _one("damaged", "stale")
    yield "fault", _other("none"), "passes", _one(0)
    yield "fault", _one("sector"), "format", _other(*border.RESUMED)
    yield "fault", _one("sector"), "compression", _other("none")
    yield "fault", _one("sector"), "io", _other("pread")
    yield "fault", _one("sector"), "drop", _other("keep")
    yield "fault", _one("sector"), "scale", _other("medium", "large")
    yield "fault", _one("read"), "damage", _one("skip")  # a disk that fails once is damage there
    yield "names", _one("odd"), "format", _one("megatron")
    yield "names", _one("odd"), "medium", _other("memory")
    yield "names", _one("odd"), "change", _other("none")
    yield "names", _one("odd"), "kind", _one("program", "streams", "tools", "stream")
    yield "launcher", _one("words before variables"), "split", _one("yes")
    yield "twin", _one("yes"), "stop", _one("killed", "interrupted")
    for name, plain in (("change", "none"), ("consumer", "fast"), ("descriptors", "many"),
                        ("medium", "memory"), ("index", "fresh"), ("max_damaged", "any")):
        yield "twin", _one("yes"), name, _other(plain)
    yield "twin", _one("yes"), "parse", _one("misspelt", "wrong")
    yield "beside", _other("none"), "kind", _other("devices")
    yield "reopened", _one("yes"), "kind", _other("stream")
    yield "reopened", _one("yes"), "state", _other("intact")
    yield "reopened", _one("yes"), "format", _other("lines", "jsonl", "tfrecord", "ofrecord")
    yield "change", _one("swapped"), "format", _one("raw", "npy", "tokens", "megatron", "tar")
    yield "change", _one("swapped"), "compression", _other("none")
    yield "change", _one("swapped"), "count", _one(1, 2, 300)
    for name in ("index", "passes", "drop"):
        yield "scale", _one("uneven"), name, _other(DIMENSIONS[name][0])
    yield "scale", _one("uneven"), "count", _one(40, 300)
    yield "scale", _one("uneven"), "kind", _one("program", "streams", "tools")


def _of_kinds():
    for name, plain in _ONLY_FEED.items():
        yield "kind", _other("feed"), name, _other(plain)
    yield "kind", _one("plain"), "passes", _one(0)
    yield "kind", _one("plain"), "parse", _one("misspelt", "wrong")
    for name in ("order", "seed", "epoch", "amount", "passes", "drop"):
        yield "kind", _one("stream", "tools"), name, _other(DIMENSIONS[name][0])
    yield "kind", _one("stream"), "format", _other(*STREAMS)
    yield "kind", _one("stream"), "compression", _other("none")
    yield "kind", _one("stream"), "state", _one("missing", "garbage", "fortran", "broken")
    yield "kind", _one("stream"), "count", _other(1)
    yield "kind", _one("stream"), "io", _other("auto")
    yield "kind", _one("streams"), "format", _other(*STREAMS)
    yield "kind", _one("streams"), "compression", _other("none")
    yield "kind", _one("streams"), "state", _one("missing", "garbage", "fortran", "broken")
    yield "kind", _one("streams"), "count", _one(40)
    yield "kind", _one("streams"), "order", _other("none")
    yield "kind", _one("streams"), "passes", _other(1)
    for name in ("cycle", "stripe", "index", "medium", "descriptors", "batch"):
        yield "kind", _one("streams"), name, _other(DIMENSIONS[name][0])
    for name in ("direct", "index", "descriptors", "medium"):
        yield "kind", _one("stream"), name, _other(DIMENSIONS[name][0])
    yield "kind", _one("program"), "order", _other("none", "block")
    yield "kind", _one("program"), "passes", _one(0)
    yield "kind", _one("program", "tools"), "count", _one(40)
    for name in ("epoch", "io", "direct", "block", "in_flight", "arena", "slots", "drop"):
        yield "kind", _one("program", "streams", "tools"), name, _other(DIMENSIONS[name][0])
    yield "kind", _one("program", "streams", "tools"), "parse", _other("none")
    yield "kind", _one("program"), "format", _one("raw")
    yield "kind", _one("tools"), "descriptors", _one("few")
    for name in ("threads", "cycle", "stripe", "batch", "medium"):
        yield "kind", _one("tools"), name, _other(DIMENSIONS[name][0])
    for name in ("devices", "distribution", "last_step", "device_slots", "transfer"):
        yield "kind", _other("devices"), name, _other(DIMENSIONS[name][0])
    yield "kind", _other("plain", "devices"), "verify", _one("yes")
    yield "verify", _one("yes"), "drop", _one("drop")
    yield "verify", _one("yes"), "last_step", _one("drop")
    yield "verify", _one("yes"), "batch", _one(0)
    yield "kind", _other("program"), "operator", _other("none")
    yield "operator", _one("unordered"), "order", _other("none")
    # Which records come before a failure is not told.
    yield "operator", _one("unordered"), "damage", _one("fail")
    yield "kind", _one("devices"), "passes", _one(0)
    yield "kind", _one("devices"), "parse", _one("misspelt", "wrong")
    yield "kind", _one("devices"), "batch", _one(100_002)


CONFLICTS = list(_conflicts())
NAMES = list(DIMENSIONS)
PLACES = {name: place for place, name in enumerate(NAMES)}


def _table():
    """For each two dimensions the pairs of values that do not go together."""
    table = {}
    for one, first, other, second in CONFLICTS:
        pairs = {(a, b) for a in DIMENSIONS[one] for b in DIMENSIONS[other] if first(a) and second(b)}
        table.setdefault((one, other), set()).update(pairs)
        table.setdefault((other, one), set()).update((b, a) for a, b in pairs)
    return table


FORBIDDEN = _table()
PARTNERS = {name: [other for other in NAMES if (name, other) in FORBIDDEN] for name in NAMES}


def agrees(chosen, name, value):
    """Whether a value goes with those that are chosen."""
    return all((value, chosen[other]) not in FORBIDDEN[name, other]
               for other in PARTNERS[name] if other in chosen)


def valid(configuration):
    return all(agrees(configuration, name, value) for name, value in configuration.items())


def complete(chosen, rng, prefer=None):
    """The other dimensions: of the values that go with what is chosen the one that `prefer` counts
    highest, or any. None where none is left."""
    chosen = dict(chosen)
    left = [name for name in NAMES if name not in chosen]
    rng.shuffle(left)
    options = {name: [value for value in DIMENSIONS[name] if agrees(chosen, name, value)] for name in left}
    while left:
        # Those of which one value is left decide what is left of others.
        name = next((each for each in left if len(options[each]) < 2), left[0])
        if not options[name]:
            return None
        if prefer is None:
            value = rng.choice(options[name])
        else:
            rng.shuffle(options[name])
            value = max(dict.fromkeys(options[name]), key=lambda each: prefer(chosen, name, each))
        chosen[name] = value
        left.remove(name)
        for other in left:
            bad = FORBIDDEN.get((name, other))
            if bad:
                options[other] = [each for each in options[other] if (value, each) not in bad]
    return chosen


def draw(rng, fixed=None):
    """Any configuration, with the values of `fixed`; many dimensions are plain in most of them, so that
    few things meet often."""
    while True:
        plain = rng.choice([0.0, 0.3, 0.6])
        chosen = dict(fixed or {})
        names = list(NAMES)
        rng.shuffle(names)
        for name in names:
            if name in chosen:
                continue
            value = DIMENSIONS[name][0] if rng.random() < plain else rng.choice(DIMENSIONS[name])
            if agrees(chosen, name, value):
                chosen[name] = value
        found = complete(chosen, rng)
        if found is not None:
            return found


def pairs():
    """All pairs of values that may occur together, by their dimensions."""
    wanted = {}
    for i, one in enumerate(NAMES):
        for other in NAMES[i + 1:]:
            bad = FORBIDDEN.get((one, other), ())
            for a in dict.fromkeys(DIMENSIONS[one]):
                for b in dict.fromkeys(DIMENSIONS[other]):
                    if (a, b) not in bad:
                        wanted.setdefault((one, other), set()).add((a, b))
    return wanted


def pairs_of(configuration):
    for i, one in enumerate(NAMES):
        for other in NAMES[i + 1:]:
            yield (one, other), (configuration[one], configuration[other])


class Covering:
    """Configurations in which every pair of values occurs that can occur; `impossible` are those that
    the pairwise conflicts leave, but nothing can be made of."""

    TRIES = 25

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.left = pairs()
        self.impossible = []
        self.rows = []
        while self.left:
            self._add()

    def _gain(self, chosen, name, value):
        gain, place, left = 0, PLACES[name], self.left
        for other, taken in chosen.items():
            if place < PLACES[other]:
                gain += (value, taken) in left.get((name, other), ())
            else:
                gain += (taken, value) in left.get((other, name), ())
        return gain

    def _add(self):
        dimensions = self.rng.choice(sorted(self.left))
        pair = self.rng.choice(sorted(self.left[dimensions], key=repr))
        for attempt in range(self.TRIES):
            prefer = self._gain if attempt < 3 else None
            row = complete(dict(zip(dimensions, pair)), self.rng, prefer)
            if row is not None:
                break
        else:
            self.impossible.append((dimensions, pair))
            self._cross_off(dimensions, pair)
            return
        self.rows.append(row)
        for key, found in pairs_of(row):
            self._cross_off(key, found)

    def _cross_off(self, key, pair):
        left = self.left.get(key)
        if left is None:
            return
        left.discard(pair)
        if not left:
            del self.left[key]
