"""Files of every format, compression and state, made by their names alone, so that a configuration
that names them is the same everywhere.

A name is FORMAT.COMPRESSION.STATE.SIZE.NUMBER, as in "tfrecord.none.flip.small.2". What a file holds is
written down as the reference of the order needs it: the offset of each record's unit in the content that
is not compressed, and the record, or HOLE where it is damaged and has a number all the same. A *gap* is
damage that nobody can count: the records behind it move up.
"""

import gzip
import hashlib
import os
import pathlib
import random
import struct
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "order"), str(HERE.parent / "fuzz"), str(HERE.parent / "damage")]

import make_corpus as make  # noqa: E402
from data_files import crc32c, flipped, masked_crc32c, tfrecord_frame  # noqa: E402, F401
from reference import HOLE, FileRecords  # noqa: E402

ROW_BYTES = 40
TOKENS_OF_A_BLOCK = 20

#: What --format is told; "" leaves it to be found.
FORMAT_WORDS = {"tfrecord": "", "recordio": "", "ofrecord": "ofrecord", "tar": "tar", "lines": "lines",
                "jsonl": "jsonl", "csv": "csv", "npy": "npy", "rows": f"rows:{ROW_BYTES}", "raw": "raw",
                "tokens": f"tokens:block={TOKENS_OF_A_BLOCK}", "megatron": "megatron",
                "mds": "mds"}
ENDINGS = {"tokens": "bin", "megatron": "idx", "lines": "txt"}
#: Records of one chunk of RecordIO.
MOST_OF_A_CHUNK = 10
#: Of these every record has ROW_BYTES.
FIXED = ("npy", "rows", "tokens")
#: Nothing notices that a byte of a record changed.
UNCHECKED = ("lines", "csv", "jsonl", "npy", "rows", "tokens", "megatron", "raw", "tar", "ofrecord",
             "mds")
#: Never decompressed, or by nobody.
PLAIN_ONLY = ("rows", "raw", "megatron", "npy", "tokens")

#: Damage to a record's payload and to what says its length; a file that was cut; compressed bytes with a
#: flipped bit; what is no file of its format; an array whose rows cannot be read by themselves.
STATES = ("intact", "empty", "one", "missing", "flip", "head", "torn", "broken", "garbage", "fortran")
#: What notices a state at all; of others it is none.
NOTICED = {"flip": ("tfrecord", "recordio", "ofrecord", "tar", "megatron", "mds"),
           "head": ("tfrecord", "recordio", "ofrecord", "csv"),
           "garbage": ("tfrecord", "recordio", "ofrecord", "npy", "tokens", "tar"),
           "fortran": ("npy",)}
#: "uneven": the first record is as long as all others of a large file together.
SIZES = {"small": (9, 60), "medium": (150, 400), "large": (900, 4000), "many": (50_000, 24), "uneven": (9, 60)}
LONG_BYTES = 1_000_000
COMPRESSIONS = ("none", "gzip", "members", "zlib", "zstd")
COMPRESSED_ENDINGS = {"gzip": ".gz", "members": ".gz", "zlib": ".zlib", "zstd": ".zst"}


class Gap:
    """Stands among the records where damage is that has no number."""

    def __repr__(self):
        return "GAP"


GAP = Gap()


def there_is(file_format, compression, state):
    """Whether a file of that kind makes sense."""
    if compression != "none" and file_format in PLAIN_ONLY:
        return False
    if state == "broken":  # zstd's frames here have no checksum, and zlib's two bytes are no magic number
        checked = compression in ("gzip", "members") or file_format not in UNCHECKED
        return compression != "none" and checked
    if compression != "none" and state in ("flip", "head") and file_format in ("tar", "csv"):
        return False
    if state == "torn" and file_format == "raw":
        return False
    return file_format in NOTICED.get(state, (file_format,))


class DataFile(FileRecords):
    """`fault` is how many records precede the first damage, None where there is none; `exact` says
    whether what is damaged is known without reading it."""

    def __init__(self, name, path):
        super().__init__(0, [])
        self.name = name
        self.format, self.compression, self.state, self.scale, _ = name.split(".")
        self.path = path
        self.gaps = 0
        self.fault = None
        self.exact = True
        self.whole = 0  # bytes of the content without its damage, where it is not exact
        self.missing = False
        self.indexed = self.compression == "none"
        self._numbered = None

    @property
    def payloads(self):
        return [record for _, record in self.records]

    @property
    def numbered(self):
        """Records by their numbers, damaged ones as HOLE."""
        if self._numbered is None or self._numbered[0] is not self.records:
            self._numbered = (self.records, [record for record in self.payloads if record is not GAP], {})
        return self._numbered[1]

    def digest_of(self, number):
        numbered = self.numbered
        digests = self._numbered[2]
        if number not in digests:
            digests[number] = hashlib.sha256(numbered[number]).digest()
        return digests[number]

    def good(self):
        return [record for record in self.payloads if record is not HOLE and record is not GAP]

    @property
    def damaged(self):
        """Whether anything of it has to be reported."""
        return self.fault is not None or self.missing


class Pieces:
    """A file's content as it is put together."""

    def __init__(self):
        self.pieces, self.records, self.gaps, self.size, self.fault = [], [], 0, 0, None

    def add(self, piece, records=(), offset=None):
        begin = self.size if offset is None else offset
        if HOLE in records and self.fault is None:
            self.fault = len(self.records)
        self.records += [(begin, record) for record in records]
        self.pieces.append(piece)
        self.size += len(piece)

    def lose(self, piece):
        """A piece of which nobody can say how many records it was."""
        if self.fault is None:
            self.fault = len(self.records)
        self.gaps += 1
        self.add(piece, [GAP])

    @property
    def content(self):
        return b"".join(self.pieces)


class Maker:
    """Makes the content of one file."""

    def __init__(self, name):
        self.format, self.compression, self.state, self.scale, _ = name.split(".")
        self.rng = random.Random(name)
        self.stem = zlib.crc32(name.encode()) & 0xFFFF
        self.next = 0
        most, self.longest = SIZES[self.scale]
        self.count = {"empty": 0, "one": 1}.get(self.state, self.rng.randint(most // 2, most))
        # Of damaged units: several, not the first one, so that something precedes them.
        damaged = self.rng.sample(range(1, max(2, self.count)), max(1, self.count // 30))
        self.hurt = set(damaged) if self.state in ("flip", "head") else set()
        # Compressed files are cut as they are, not their content.
        self.torn = self.state == "torn" and self.compression == "none"

    def payload(self, size=None):
        size = size or self.rng.randint(8, self.longest)
        if self.scale == "uneven" and self.next == 0 and self.format not in FIXED:
            size = LONG_BYTES
        number = self.stem << 16 | self.next
        self.next += 1
        return (b"%08x" % number) + bytes([ord("a") + number % 26]) * (size - 8)

    def flip(self, piece, first, last=None):
        return flipped(piece, self.rng.randrange(first, last or len(piece)), self.rng.randrange(8))

    def make(self):
        return getattr(self, f"_{self.format}")()

    def _tfrecord(self):
        out = Pieces()
        for i in range(self.count):
            payload = self.payload()
            piece = tfrecord_frame(payload)
            if i in self.hurt and self.state == "flip":
                out.add(self.flip(piece, 12), [HOLE])
            elif i in self.hurt:
                out.lose(self.flip(piece, 0, 12))
            elif self.torn and i == self.count - 1:
                out.lose(piece[:self.rng.randrange(1, len(piece))])
            else:
                out.add(piece, [payload])
        return out

    def _recordio(self):
        out, left, i = Pieces(), self.count, 0
        while left > 0:
            most = self.rng.choice([1, 2, MOST_OF_A_CHUNK] if self.scale != "small" else [1, 2])
            records = [self.payload() for _ in range(min(left, most))]
            left -= len(records)
            piece, size_at = make.fluid(records), 16
            if self.rng.random() < 0.5:
                piece, size_at = make.go(records, gzip.compress(make.framed(records), mtime=0), 2), 12
            if i % 7 == 1 and self.state == "flip":
                out.add(self.flip(piece, 20), [HOLE] * len(records))
            elif self.torn and left <= 0:
                out.lose(piece[:self.rng.randrange(1, len(piece))])
            elif i % 7 == 1 and self.state == "head" and self.rng.random() < 0.5:
                out.add(flipped(piece, 0, 1), [HOLE] * len(records))  # the rest of the header is believed
            elif i % 7 == 1 and self.state == "head":
                out.lose(flipped(piece, size_at + 2, 5))  # behind every end
            else:
                out.add(piece, records)
            i += 1
        return out

    def _ofrecord(self):
        out, lost = Pieces(), False
        for i in range(self.count):
            message = make.feature(b"k", 1, self.payload())
            piece = struct.pack("<q", len(message)) + message
            if lost:
                out.add(piece)
            elif i in self.hurt and self.state == "flip":  # no map any more, in a whole frame
                self.hurt.discard(i + 1)  # a length is believed where a record stands behind it
                out.add(flipped(piece, 8, 2), [HOLE])
            elif i in self.hurt:
                out.lose(flipped(piece, 5, 0))  # behind every end
                lost = True
            elif self.torn and i == self.count - 1:
                out.lose(piece[:self.rng.randrange(1, len(piece))])
            else:
                out.add(piece, [message])
        return out

    def _text(self, ends):
        out = Pieces()
        for i in range(self.count):
            payload = self.payload()
            end = b"" if self.torn and i == self.count - 1 else self.rng.choice(ends)
            out.add(payload + end, [payload])
        return out

    def _lines(self):
        return self._text([b"\n", b"\r\n"])

    def _jsonl(self):
        out = Pieces()
        for _ in range(self.count):
            payload = b'{"k": "' + self.payload() + b'"}'
            out.add(payload + self.rng.choice([b"\n", b"\n\n", b"\r\n \t\n"]), [payload])
        return out

    def _csv(self):
        out = Pieces()
        first = min(self.hurt) if self.state == "head" and self.count > 1 else None
        for i in range(self.count):
            payload = self.payload()
            payload = payload[:8] + b',"x\n""y"""' + payload[8:] if i % 5 == 1 else payload
            if i == first:
                out.lose(b'"' + payload + b"\n")
            elif first is not None and i > first:
                out.add(payload.replace(b'"', b"") + b"\n")
            else:
                out.add(payload + self.rng.choice([b"\n", b"\r\n", b"\n\n"]), [payload])
        return out

    def _array(self, header, torn_behind=True):
        out = Pieces()
        out.add(header)
        for i in range(self.count):
            payload = self.payload(ROW_BYTES)
            if torn_behind and self.torn and i == self.count - 1:
                out.lose(payload[:self.rng.randrange(1, ROW_BYTES)])
            else:
                out.add(payload, [payload])
        return out

    def _npy(self):
        if self.state == "empty":
            return Pieces()
        if self.state == "fortran":
            rows = [self.payload(ROW_BYTES) for _ in range(self.count)]
            columns = b"".join(bytes(row[i] for row in rows) for i in range(ROW_BYTES))
            out = Pieces()
            header = make.npy(1, "|u1", "True", f"({self.count}, {ROW_BYTES})", b"")
            out.add(header)
            out.records = [(len(header), row) for row in rows]  # gathered as a whole
            out.add(columns)
            return out
        return self._array(make.npy(1, "|u1", "False", f"({self.count}, {ROW_BYTES})", b""))

    def _rows(self):
        return self._array(b"")

    def _tokens(self):
        if self.state == "empty":
            return Pieces()
        return self._array(make.tokens(20240520, 1, self.count * TOKENS_OF_A_BLOCK, b""))

    def _raw(self):
        out = Pieces()
        payload = b"" if self.state == "empty" else self.payload()
        out.add(payload, [payload])
        return out

    def _tar(self):
        out = Pieces()
        for i in range(self.count):
            data = self.payload()
            header = bytearray(512)
            header[0:12] = b"%08d.bin" % i
            header[100:107], header[108:115], header[116:123] = b"0000644", b"0000000", b"0000000"
            header[124:135], header[136:147], header[156:157] = b"%011o" % len(data), b"%011o" % 0, b"0"
            header[257:265] = b"ustar\0" + b"00"
            header[148:156] = b"        "
            header[148:156] = b"%06o\0 " % sum(header)
            piece = bytes(header) + data + bytes(-len(data) % 512)
            out.add(piece, [piece])
        if self.count:
            out.add(bytes(1024))
        return out

    def _mds(self):
        """A column of bytes: the size of each is all that can be damaged without the table's."""
        text = (b'{"column_encodings": ["bytes"], "column_names": ["data"], "column_sizes": [null], '
                b'"format": "mds", "version": 2}')
        samples, first, at = [], 8 + 4 * self.count + len(text), []
        for _ in range(self.count):
            payload = self.payload()
            at.append(first + sum(map(len, samples[-1:])) if not at else at[-1] + len(samples[-1]))
            samples.append(struct.pack("<I", len(payload)) + payload)
        end = at[-1] + len(samples[-1]) if at else first
        out = Pieces()
        out.add(struct.pack(f"<{self.count + 2}I", self.count, *at, end) + text)
        for i, sample in enumerate(samples):
            if i in self.hurt:
                out.add(self.flip(sample, 0, 4), [HOLE])
            elif self.torn and i == self.count - 1:
                out.add(sample[:self.rng.randrange(1, len(sample))], [HOLE])
            else:
                out.add(sample, [sample])
        return out

    def _megatron(self):
        out = Pieces()
        out.sizes = []
        for _ in range(self.count):
            payload = self.payload(2 * self.rng.randint(4, self.longest // 2))
            out.sizes.append(len(payload) // 2)
            out.add(payload, [payload])
        return out


def compressed(compression, content, borders):
    """`borders` are offsets at which a member may end."""
    if compression == "gzip":
        return gzip.compress(content, mtime=0)
    if compression == "zlib":
        return zlib.compress(content)
    if compression == "members":
        cuts = sorted({0, len(content), *borders[::max(1, len(borders) // 3)]})
        parts = [content[a:b] for a, b in zip(cuts, cuts[1:])] or [b""]
        return b"".join(gzip.compress(part, mtime=0) for part in parts)
    if compression == "zstd":  # frames of blocks that are stored as they are
        most = 100_000
        blocks = [content[i:i + most] for i in range(0, len(content), most)] or [b""]
        frame = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(content))
        for i, block in enumerate(blocks):
            frame += struct.pack("<I", len(block) << 3 | (i == len(blocks) - 1))[:3] + block
        return frame
    return content


class Library:
    """Makes each file once, in `folder`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.made = {}

    def file(self, name):
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def path_of(self, name):
        file_format, compression, *_ = name.split(".")
        ending = ENDINGS.get(file_format, file_format) + COMPRESSED_ENDINGS.get(compression, "")
        return str(self.folder / f"{name.replace('.', '-')}.{ending}")

    def _make(self, name):
        made = DataFile(name, self.path_of(name))
        if made.state == "missing":
            made.missing, made.indexed = True, False
            made.fault, made.records = 0, [(0, GAP)]  # one that cannot be read has no size either
            return made
        out = Maker(name).make()
        made.size, made.records, made.gaps, made.fault = out.size, out.records, out.gaps, out.fault
        made.one_stripe = made.format == "raw"
        content = compressed(made.compression, out.content, [offset for offset, _ in out.records[1:]])
        content = self._hurt(made, content)
        if made.format == "megatron":
            content = self._with_index(made, out, content)
        with open(made.path, "wb") as file:
            file.write(content)
        return made

    def _hurt(self, made, content):
        """Damage to the file as it is."""
        rng = random.Random(made.name)
        if made.state == "garbage":
            made.records, made.gaps, made.fault = [(0, GAP)], 1, 0
            # A name of a compression counts: such a file has no records by number.
            made.indexed = made.compression == "none"
            garbage = b"\x00garbage, " * 5 + bytes(rng.randbytes(100))
            made.size = len(garbage)
            return garbage
        if made.state == "fortran":
            made.indexed = False
        tar = made.format == "tar" and made.state in ("flip", "torn")
        cut = made.state == "torn" and (tar or made.compression != "none")
        if cut and content:
            made.exact = False
            return content[:rng.randrange(len(content) // 3, len(content))]
        if made.state == "broken" and content:
            made.exact = False
            at = rng.randrange(len(content) // 3, 2 * len(content) // 3)
            return flipped(content, at, rng.randrange(8))
        if tar:
            made.exact = False
            first = made.records[len(made.records) // 2][0]
            return flipped(content, first + rng.randrange(148, 154), 0)
        return content

    @staticmethod
    def _with_index(made, out, content):
        """Of a pair the .idx file; the .bin file is written here."""
        pointers = [offset for offset, _ in out.records]
        index = make.megatron(out.sizes, pointers, 1, b"")[2:]
        if made.state == "torn":
            content = content[:len(content) - 3]
            made.fault = len(made.records) - 1
            made.records[-1] = (made.records[-1][0], HOLE)
        if made.state == "flip":
            made.exact = False
            index = flipped(index, 34 + 4 * (len(out.sizes) // 2), 0)
        pathlib.Path(made.path[:-len("idx")] + "bin").write_bytes(content)
        return index


def forget_indexes(folder):
    for entry in os.scandir(folder):
        if entry.name.endswith(".rfx"):
            os.unlink(entry.path)
