"""Files for the tests of the order, written byte by byte: every record begins with its number, 8 hex
digits, and it is known where each starts and which of them are damaged."""

import os
import struct
import zlib

from reference import DOCUMENT_ORDER, HOLE, FileRecords, KeyedPermutation


def _crc32c_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def flipped(data, at, bit):
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:]


def record_of(number, size):
    """`size` bytes of a record, at least the 8 of its number; no line ends in it."""
    return (b"%08x" % number) + bytes([ord("a") + number % 26]) * (size - 8)


def tfrecord_frame(payload):
    header = struct.pack("<Q", len(payload))
    return (header + struct.pack("<I", masked_crc32c(header)) + payload +
            struct.pack("<I", masked_crc32c(payload)))


class DataFile(FileRecords):
    def __init__(self, path, file_format, pieces, records, one_stripe=False):
        content = b"".join(pieces)
        super().__init__(len(content), records, one_stripe)
        self.path = path
        self.format = file_format
        with open(path, "wb") as out:
            out.write(content)


ROWS = "rows:40"
STRIDED = "rows:24,header=100,stride=56"
WINDOWS_SEED = 7
WINDOWS = f"megatron:window=39,seed={WINDOWS_SEED}"
#: Of these every record has the same size: a parser of fixed fields takes them, too.
FIXED = {ROWS: 40, STRIDED: 24, WINDOWS: 40}


class Library:
    """The files that chains read, made once: by format, and damaged ones apart, which are read under
    skip."""

    def __init__(self, folder, rng):
        self.folder = folder
        self.rng = rng
        self.next_number = 1
        self.sizes = {}  # bytes of each record, by its number
        self.whole = {}
        self.damaged = {}
        for name in range(14):
            self._tfrecord(self.whole, f"{name:02}.tfrecord", damage=0)
        for name in range(10):
            self._rows(f"{name:02}.rows", ROWS, 40, 0, 40)
            self._rows(f"{name:02}.strided", STRIDED, 24, 100, 56)
            self._raw(f"{name:02}.raw")
            self._windows(f"{name:02}.idx")
            self._lines(f"{name:02}.lines")
            self._recordio(self.whole, f"{name:02}.recordio", damage=0)
        for name in range(8):
            self._tfrecord(self.damaged, f"{name:02}.damaged.tfrecord", damage=0.05)
            self._recordio(self.damaged, f"{name:02}.damaged.recordio", damage=0.15)

    def _take_number(self):
        self.next_number += 1
        return self.next_number - 1

    def _record(self, number, size):
        self.sizes[number] = size
        return record_of(number, size)

    def _store(self, pool, name, file_format, pieces, records, one_stripe=False):
        path = os.path.join(self.folder, name)
        pool.setdefault(file_format, []).append(
            DataFile(path, file_format, pieces, records, one_stripe))

    def _tfrecord(self, pool, name, damage):
        """Of damage half is in a payload, which leaves a hole, half in a length, which leaves none:
        nobody can count what stands behind it."""
        pieces, records, offset = [], [], 0
        longest = self.rng.choice([20, 300, 9000, 40000])
        budget = self.rng.choice([0, 500, 5000, 60000, 200000]) if damage == 0 else 60000
        while offset < budget:
            number, size = self._take_number(), self.rng.randint(8, longest)
            piece = tfrecord_frame(self._record(number, size))
            drawn = self.rng.random()
            if drawn < damage / 2:
                piece = flipped(piece, 12 + self.rng.randrange(size + 4), self.rng.randrange(8))
                records.append((offset, HOLE))
            elif drawn < damage:
                piece = flipped(piece, self.rng.randrange(12), self.rng.randrange(8))
            else:
                records.append((offset, number))
            pieces.append(piece)
            offset += len(piece)
        self._store(pool, name, "tfrecord", pieces, records)

    def _rows(self, name, file_format, row_bytes, header, stride):
        rows = self.rng.choice([0, 1, 50, 700, 2500])
        pieces, records = [bytes(header)] if rows > 0 else [], []
        for row in range(rows):
            number = self._take_number()
            records.append((header + row * stride, number))
            # Padding follows every row, the last one too.
            pieces += [self._record(number, row_bytes), bytes(stride - row_bytes)]
        self._store(self.whole, name, file_format, pieces, records)

    def _raw(self, name):
        number = self._take_number()
        size = self.rng.choice([8, 100, 5000, 30000])
        self._store(self.whole, name, "raw", [self._record(number, size)], [(0, number)],
                    one_stripe=True)

    def _windows(self, name):
        """Megatron's pair: the line of records is cut anywhere, and its documents stand in the file
        so that their order joins them again. Windows have a byte of the next one."""
        rows = self.rng.choice([0, 1, 50, 700])
        numbers = [self._take_number() for _ in range(rows)]
        self.sizes.update(dict.fromkeys(numbers, 40))
        line = b"".join(record_of(number, 39) for number in numbers) + b"0" * self.rng.randint(1, 39)
        cuts = sorted(self.rng.choices(range(len(line) + 1), k=self.rng.randint(0, 200)))
        documents = [line[a:b] for a, b in zip([0, *cuts], [*cuts, len(line)])]
        count = len(documents)
        order = KeyedPermutation(count, WINDOWS_SEED, 0, DOCUMENT_ORDER).all()
        sequences = [document for _, document in sorted(zip(order, documents))]
        begins = [sum(map(len, sequences[:i])) for i in range(count)]
        index = [b"MMIDIDX\0\0", struct.pack("<QBQQ", 1, 1, count, count + 1),
                 struct.pack(f"<{count}i", *map(len, sequences)), struct.pack(f"<{count}q", *begins),
                 struct.pack(f"<{count + 1}q", *range(count + 1))]
        records = [(40 * row, number) for row, number in enumerate(numbers)]
        self._store(self.whole, name, WINDOWS, index, records)
        made = self.whole[WINDOWS][-1]
        made.size = 40 * rows  # of what is read in place of the pair
        with open(made.path[:-3] + "bin", "wb") as out:
            out.write(b"".join(sequences))

    def _lines(self, name):
        pieces, records, offset = [], [], 0
        for _ in range(self.rng.choice([0, 1, 30, 400, 2000])):
            number = self._take_number()
            records.append((offset, number))
            pieces.append(self._record(number, self.rng.randint(8, 90)) +
                          self.rng.choice([b"\n", b"\r\n"]))
            offset += len(pieces[-1])
        self._store(self.whole, name, "lines", pieces, records)

    def _recordio(self, pool, name, damage):
        """Chunks of both dialects. A chunk is one unit: all of its records start where it does, and
        a damaged one leaves a hole for each."""
        pieces, records, offset = [], [], 0
        for _ in range(self.rng.choice([0, 1, 5, 40]) if damage == 0 else 30):
            numbers = [self._take_number() for _ in range(self.rng.choice([1, 2, 10, 60]))]
            payload = b""
            for number in numbers:
                record = self._record(number, self.rng.randint(8, 200))
                payload += struct.pack("<I", len(record)) + record
            if self.rng.random() < 0.5:  # Fluid's, not compressed
                words = (len(numbers), zlib.crc32(payload), 0, len(payload))
            else:  # Go's, gzip
                deflater = zlib.compressobj(wbits=31)
                payload = deflater.compress(payload) + deflater.flush()
                words = (zlib.crc32(payload), 2, len(payload), len(numbers))
            if self.rng.random() < damage:
                payload = flipped(payload, self.rng.randrange(len(payload)), self.rng.randrange(8))
                numbers = [HOLE] * len(numbers)
            records += [(offset, number) for number in numbers]
            pieces.append(struct.pack("<5I", 0x01020304, *words) + payload)
            offset += len(pieces[-1])
        self._store(pool, name, "recordio", pieces, records)
