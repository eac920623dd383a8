#!/usr/bin/env python3
"""The order of delivery, written down a second time: random chains over random files, their order
as this program computes it against the order in which the engine delivers.

order_reference.py DRIVER [--chains N] [--seed N]: DRIVER runs chains (order_driver.cc); exit status
1 where any of them differs.
"""

import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile

# ---- Files ----


def _crc32c_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = _crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class DataFile:
    """A file on disk, and where each of its records starts."""

    def __init__(self, path, file_format):
        self.path = path
        self.format = file_format
        self.starts = []  # (offset, number)
        self.size = 0

    def stripes(self, stripe_bytes):
        """The numbers of the records of each stripe."""
        if self.format == "raw":
            return [[number for _, number in self.starts]]
        stripes = [[] for _ in range(-(-self.size // stripe_bytes))]
        for offset, number in self.starts:
            stripes[offset // stripe_bytes].append(number)
        return stripes


class Library:
    """The files that chains read, made once."""

    def __init__(self, folder, rng):
        self.folder = folder
        self.rng = rng
        self.next_number = 1
        self.by_format = {"tfrecord": [], "rows:40": [], "rows:24,header=100,stride=56": [], "raw": []}
        for name in range(14):
            self._tfrecord(f"{name:02}.tfrecord")
        for name in range(10):
            self._rows(f"{name:02}.rows", "rows:40", 40, 0, 40)
            self._rows(f"{name:02}.strided", "rows:24,header=100,stride=56", 24, 100, 56)
            self._raw(f"{name:02}.raw")

    def _take_number(self):
        self.next_number += 1
        return self.next_number - 1

    def _store(self, data_file, pieces):
        content = b"".join(pieces)
        data_file.size = len(content)
        with open(data_file.path, "wb") as out:
            out.write(content)
        self.by_format[data_file.format].append(data_file)

    def _record(self, number, size):
        return struct.pack("<Q", number) + bytes([number % 251]) * (size - 8)

    def _tfrecord(self, name):
        data_file = DataFile(os.path.join(self.folder, name), "tfrecord")
        pieces, offset = [], 0
        longest = self.rng.choice([20, 300, 9000, 40000])
        budget = self.rng.choice([0, 500, 5000, 60000, 200000])
        while offset < budget:
            number, size = self._take_number(), self.rng.randint(8, longest)
            header, payload = struct.pack("<Q", size), self._record(number, size)
            data_file.starts.append((offset, number))
            pieces += [header, struct.pack("<I", masked_crc32c(header)), payload,
                       struct.pack("<I", masked_crc32c(payload))]
            offset += size + 16
        self._store(data_file, pieces)

    def _rows(self, name, file_format, row_bytes, header, stride):
        data_file = DataFile(os.path.join(self.folder, name), file_format)
        rows = self.rng.choice([0, 1, 50, 700, 2500])
        pieces = [bytes(header)] if rows > 0 else []
        for row in range(rows):
            number = self._take_number()
            data_file.starts.append((header + row * stride, number))
            # Padding follows every row, the last one too.
            pieces += [self._record(number, row_bytes), bytes(stride - row_bytes)]
        self._store(data_file, pieces)

    def _raw(self, name):
        data_file = DataFile(os.path.join(self.folder, name), "raw")
        number = self._take_number()
        data_file.starts.append((0, number))
        self._store(data_file, [self._record(number, self.rng.choice([8, 100, 5000, 30000]))])


# ---- Order ----


def interleave(files, cycle, stripe_bytes):
    """One pass: of `cycle` lanes one stripe each in turn; a lane whose file is at its end goes on
    with the next file of the list, and drops out where there is none."""
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


def philox4x32_10(counter, key):
    """Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011)."""
    mask = 0xFFFFFFFF
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * counter[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * counter[2], 1 << 32)
        counter = (high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0)
        key = ((key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask)
    return counter


def draw(seed, epoch, purpose, index):
    block = index // 4
    counter = (block & 0xFFFFFFFF, epoch, purpose, block >> 32)
    return philox4x32_10(counter, (seed & 0xFFFFFFFF, seed >> 32))[index % 4]


def window_shuffle(rows, window, seed, epoch):
    """Record i has the key i + W * u, here times 2^32; ties fall to the smaller i."""
    keys = [((i << 32) + window * draw(seed, epoch, 1, i), i) for i in range(len(rows))]
    return [rows[i] for _, i in sorted(keys)]


def block_shuffle(rows, size, seed, epoch):
    order = []
    for base in range(0, len(rows), size):
        block = rows[base:base + size]
        for j in range(len(block) - 1, 0, -1):
            other = draw(seed, epoch, 2, base + j) * (j + 1) >> 32
            block[j], block[other] = block[other], block[j]
        order += block
    return order


def files_of_pass(files, order, number):
    """The files that a rank reads in a pass: the list, permuted unless it is an early pass or not
    asked for, cut into a range for each rank."""
    files = list(files)
    if order["seed"] is not None and number >= order["from"]:
        for j in range(len(files) - 1, 0, -1):
            other = draw(order["seed"], number, 3, j) * (j + 1) >> 32
            files[j], files[other] = files[other], files[j]
    least, larger = divmod(len(files), order["ranks"])
    sizes = [least + (rank < larger) for rank in range(order["ranks"])]
    begin = sum(sizes[:order["rank"]])
    return files[begin:begin + sizes[order["rank"]]]


def group_batches(rows, size, segment, groups, drop):
    """Batches of one group each; what is left of the groups at a segment's end goes, in the order in
    which it was begun."""
    batches = []
    for base in range(0, len(rows), segment):
        begun = {}  # in the order of insertion
        for row in rows[base:base + segment]:
            begun.setdefault(row % groups, []).append(row)
            if len(begun[row % groups]) == size:
                batches.append(begun.pop(row % groups))
        batches += [] if drop else begun.values()
    return batches


def pass_of(source, steps, number):
    """Pass `number` of what stands behind `steps`: rows, or batches of them. source(i) is pass i of
    the files."""
    if not steps:
        return source(number)
    kind, *arguments = steps[-1].split(":")
    before = steps[:-1]
    if kind == "parse":
        return pass_of(source, before, number)
    amount = int(arguments[0])
    if kind == "multipass":
        joined = []
        for inner in range(amount):
            joined += pass_of(source, before, number * amount + inner)
        return joined
    rows = pass_of(source, before, number)
    if kind == "window":
        return window_shuffle(rows, amount, int(arguments[1]), number)
    if kind == "block":
        return block_shuffle(rows, amount, int(arguments[1]), number)
    if kind == "group":
        return group_batches(rows, amount, int(arguments[1]), int(arguments[2]),
                             arguments[3] == "drop")
    batches = [rows[i:i + amount] for i in range(0, len(rows), amount)]
    if arguments[1] == "drop" and batches and len(batches[-1]) < amount:
        batches.pop()
    return batches


# ---- Chains ----


def random_shuffle(rng):
    amount = rng.choice([1, 2, 7, 64, 100, 1000, 20000])
    return f"{rng.choice(['window', 'block'])}:{amount}:{rng.choice([0, 7, 2 ** 40 + 3])}"


def random_batch(rng):
    size, rest = rng.choice([1, 3, 32, 100, 5000]), rng.choice(["drop", "keep"])
    if rng.random() < 0.7:
        return f"batch:{size}:{rest}"
    segment, groups = rng.choice([1, 7, 200, 3000, 100000]), rng.choice([1, 2, 5, 40])
    return f"group:{size}:{segment}:{groups}:{rest}"


def random_order(rng):
    ranks = rng.choice([1, 1, 2, 3, 6])
    return {"seed": rng.choice([None, 0, 7, 2 ** 40 + 3]), "from": rng.choice([0, 0, 1, 2]),
            "rank": rng.randrange(ranks), "ranks": ranks}


def random_steps(rng):
    steps = [f"multipass:{rng.randint(1, 3)}" for _ in range(rng.choice([0, 0, 1]))]
    steps += [random_shuffle(rng) for _ in range(rng.choice([0, 1, 1, 2]))]
    steps += [f"multipass:{rng.randint(1, 3)}" for _ in range(rng.choice([0, 0, 1]))]
    if rng.random() < 0.8:
        steps.insert(rng.randint(0, len(steps)), "parse")
        steps.append(random_batch(rng))
        steps += [f"multipass:{rng.randint(1, 3)}" for _ in range(rng.choice([0, 0, 1]))]
    elif rng.random() < 0.5:
        steps.append("parse")
    return steps or ["multipass:1"]


def random_chain(rng, library):
    file_format = rng.choice(["tfrecord", "tfrecord"] + list(library.by_format))
    pool = library.by_format[file_format]
    files = rng.choices(pool, k=rng.randint(1, 5)) if rng.random() < 0.3 else rng.sample(
        pool, k=rng.randint(1, len(pool)))
    return {
        "files": files,
        "order": random_order(rng),
        "format": file_format,
        "cycle": rng.choice([1, 2, 3, 8, 100]),
        "stripe": rng.choice([4096, 8192, 65536, 1048576]),
        "threads": rng.choice([1, 2, 4]),
        "io": rng.choice(["auto", "uring", "pread", "mmap"]),
        "block": rng.choice([4096, 65536, 1048576]),
        "chain": random_steps(rng),
    }


def describe(chain):
    order = chain["order"]
    seed = "none" if order["seed"] is None else order["seed"]
    words = dict(chain, files=",".join(file.path for file in chain["files"]),
                 order=f"{seed}:{order['from']}:{order['rank']}:{order['ranks']}",
                 chain=";".join(chain["chain"]))
    return " ".join(f"{key}={value}" for key, value in words.items())


def expected(chain):
    def source(number):
        files = files_of_pass(chain["files"], chain["order"], number)
        return interleave(files, chain["cycle"], chain["stripe"])

    deliveries = pass_of(source, chain["chain"], 0)
    return [each if isinstance(each, list) else [each] for each in deliveries]


def answer_of(line):
    body, _, status = line.rstrip("\n").rpartition("=")
    return [[int(word) for word in group.split()] for group in body.split("|")[:-1]], status


def first_difference(found, wanted):
    for place, (one, other) in enumerate(zip(found, wanted)):
        if one != other:
            return f"delivery {place}: {one[:8]}…, expected {other[:8]}…"
    return f"{len(found)} deliveries, expected {len(wanted)}"


def check_known_answer():
    """The generator's own published vector, so that two equal mistakes would not agree."""
    ones = 0xFFFFFFFF
    assert philox4x32_10((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox4x32_10((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6,
                                                       0x6D5451FD)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("driver")
    parser.add_argument("--chains", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check_known_answer()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        library = Library(folder, rng)
        chains = [random_chain(rng, library) for _ in range(options.chains)]
        lines = "\n".join(describe(chain) for chain in chains) + "\n"
        result = subprocess.run([options.driver], input=lines, capture_output=True, text=True)
        answers = result.stdout.splitlines()
        failed = 0
        for chain, line in zip(chains, answers):
            found, status = answer_of(line)
            wanted = expected(chain)
            if found != wanted or status != "ok":
                failed += 1
                print(f"{describe(chain)}\n  {first_difference(found, wanted)}; {status}")
        if len(answers) != len(chains) or result.returncode != 0:
            print(f"the driver ended with {result.returncode} after {len(answers)} chains: "
                  f"{result.stderr[-2000:]}\n  at: {describe(chains[min(len(answers), len(chains) - 1)])}")
            failed += 1
        print(f"{len(answers)} chains, {failed} failed")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
