#!/usr/bin/env python3
"""Compares what the library delivers of damaged files with what a slow decoder says of them.

damage_test.py READ_VARIANTS FORMAT [STEP]: every STEPth byte is damaged. The promise, of a variant of
which some pieces are damaged:

    fail    all records before the first damage, then an error with its file, its place and what was
            expected
    skip    exactly the records of the intact pieces, in order, and ranges that cover the damage

Weaker, where a format cannot tell: ofrecord, lines, csv, npy and tokens have no checksum, so that what
a value became is delivered, as the slow decoder does of the same bytes; behind a wrong length of
ofrecord and an open quote of csv nothing is, but behind a message of ofrecord that is none, all that its
length leads to. Of tar the header alone is covered: no sample is ever
incomplete or false, and one beside a lost header may be lost with it. Megatron's data has no checksum; its
index says the place of each sequence twice, of the last one once. Of mds the sizes in each sample alone are
covered, and the head. Of arrayrecord a byte of the footer costs all, of a block's header or a postscript nothing. Of litdata the places of items alone are checked,
not their bytes; a byte of an Arrow footer costs all.
What is compressed as a whole gives a
prefix of its records; compressed in several members, the records of the intact ones.
"""

import bz2
import json
import lzma
import pathlib
import struct
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz")]

import damage
import make_corpus as make
import riegeli
import slow_decoder as slow

SHOWN = 10


class Promise:
    """Of one format: its variants, and what is wrong with what was seen of one."""

    name = compression = ""

    def __init__(self, name, compression="none"):
        self.name, self.compression = name, compression

    @staticmethod
    def file_of(pieces):
        return b"".join(pieces)


class OfPieces(Promise):
    """Pieces that are checked by themselves. `blocks` are (parts, wrap): what a piece is made of, damaged
    too before it is wrapped, between the pieces of the first file."""

    def __init__(self, name, decode, *files, blocks=(), others=()):
        super().__init__(name)
        self.decode, self.files, self.blocks, self.known = decode, files, blocks, {}
        self.others = others  # more variants

    def variants(self, step):
        for pieces in self.files:
            yield from damage.of_pieces(pieces, step)
        for parts, wrap in self.blocks:
            yield from damage.of_inside([self.files[0][0], b"", *self.files[0][1:]], 1, parts, wrap, step)
        yield from self.others

    def decoded(self, piece):
        if piece not in self.known:
            self.known[piece] = self.decode(piece) if piece else []
        return self.known[piece]

    def wrong(self, pieces, seen):
        results = [self.decoded(piece) for piece in pieces]
        first = next((i for i, result in enumerate(results) if result is None), len(results))
        skip = [record for result in results if result is not None for record in result]
        fail = [record for result in results[:first] for record in result]
        damaged = first < len(results)
        yield from compare("skip", seen["skip"], skip, False)
        yield from compare("fail", seen["fail"], fail, damaged)
        yield from self.wrong_places(pieces, results, seen)
        if damaged:
            begin = sum(map(len, pieces[:first]))
            # Not at its start where that is a chunk by itself: a header of zeros is, of no records.
            if not begin <= seen["fail"].get("offset", -1) < begin + len(pieces[first]):
                yield f"fail names another place than that of the piece at {begin}"
            if seen["fail"].get("record") != len(fail):
                yield f"fail names another record than {len(fail)}"

    @staticmethod
    def wrong_places(pieces, results, seen):
        at = 0
        for piece, result in zip(pieces, results):
            covered = any(b <= at and at + len(piece) <= e for b, e, _ in seen["skip"]["damage"])
            touched = any(b < at + len(piece) and at < e for b, e, _ in seen["skip"]["damage"])
            if result is None and not touched:
                yield f"skip reports nothing of {at} to {at + len(piece)}"
            if result is not None and piece and covered:
                yield f"skip reports the intact {at} to {at + len(piece)}"
            at += len(piece)


class FromStart(Promise):
    """A file that is decoded from its start to the first damage. A header of so many bytes in which
    something has changed may be refused where the slow decoder takes it, and taken for the original
    where that does not: Python is the judge of what is Python, and of 03 for 3."""

    def __init__(self, name, decode, file, header=0):
        super().__init__(name)
        self.decode, self.file, self.header = decode, file, header

    def variants(self, step):
        yield from damage.of_file(self.file, step)

    def wrong(self, pieces, seen):
        file = b"".join(pieces)
        result = self.decode(file)
        refused = "code" in seen["fail"] and not seen["fail"]["records"]
        if result is None or (refused and file[: self.header] != self.file[: self.header]):
            as_before = seen["fail"]["records"] == list(map(shown, self.decode(self.file)[0]))
            if not refused and not (as_before and file[: self.header] != self.file[: self.header]):
                yield "a header is taken that is none"
            if refused and seen["skip"]["records"]:
                yield "skip delivers what fail refuses"
            return
        records, damaged, *before = result
        yield from compare("skip", seen["skip"], records, False)
        yield from compare("fail", seen["fail"], records[: before[0]] if before else records, damaged)
        if damaged != bool(seen["skip"]["damage"]):
            yield "skip reports another damage"


class Tar(Promise):
    """Samples: what is delivered of them is as it was, or has changed inside of a member only."""

    def __init__(self, *samples):
        super().__init__("tar")
        self.samples = list(samples)

    def variants(self, step):
        # A cut or a flip in the zeros at the end is a case of its own: the last piece.
        yield from damage.flips([*self.samples, bytes(1024)], (1,), 3 * step)
        yield from damage.cuts([*self.samples, bytes(1024)], 16 * step)
        for name, pieces in damage.garbage_between([*self.samples, bytes(1024)]):
            yield name, [piece + bytes(-len(piece) % 512) for piece in pieces]  # whole blocks

    def wrong(self, pieces, seen):
        heads = [sample[:512] for sample in self.samples]
        whole = [sum(heads[i] == piece[:512] and len(piece) == len(self.samples[i]) for piece in pieces)
                 for i in range(len(self.samples))]
        intact = [piece for piece in pieces if piece in self.samples]
        changed = [piece for piece in pieces if piece not in self.samples and len(piece) > 512]
        possible = [shown(piece) for piece in [*intact, *changed]]
        for policy in ("fail", "skip"):
            got = seen[policy]["records"]
            if any(record not in possible for record in got):
                yield f"{policy} delivers what is no sample"
            if sum(whole) - len(got) > 2 and policy == "skip":
                yield f"skip delivers {len(got)} of {sum(whole)} samples"
            # Garbage between samples, all of which are whole, costs none of them.
            all_there = len(intact) == len(self.samples) and pieces[0] in intact and bytes(1024) in pieces
            if all_there and policy == "skip" and got != list(map(shown, self.samples)):
                yield f"skip delivers {len(got)} of {len(intact)} samples that are all there"
        order = [possible.index(record) for record in seen["skip"]["records"] if record in map(shown, intact)]
        if order != sorted(order):
            yield "skip delivers samples out of order"
        if len(seen["skip"]["records"]) < len(intact) and not seen["skip"]["damage"]:
            yield "skip loses samples in silence"


class Pair(Promise):
    """Megatron's index and data: the sequences that the slow decoder believes, and each byte of the data
    either delivered or reported. Of the last sequence the index says the place but once: it alone may be
    delivered with a false one, and then something is reported."""

    def __init__(self, *pairs):
        super().__init__("megatron")
        self.pairs = list(map(self.split, pairs))
        self.indexes = {data: index for index, data in self.pairs}

    @staticmethod
    def split(pair):
        end = 2 + int.from_bytes(pair[:2], "little")
        return pair[2:end], pair[end:]

    @staticmethod
    def file_of(pieces):
        return struct.pack("<H", len(pieces[0])) + b"".join(pieces)

    def variants(self, step):
        for index, data in self.pairs:
            yield from damage.of_pair(index, data, step)

    def wrong(self, pieces, seen):
        index, data = pieces
        result = slow.megatron(index, data)
        if result is None:
            for policy in ("fail", "skip"):
                yield from compare(policy, seen[policy], [], True)
                if "file.idx" not in seen[policy].get("message", ""):
                    yield f"{policy} does not name the index"
            return
        places, first = result
        records = [data[begin:end] for begin, end in places]
        yield from compare("skip", seen["skip"], records, False)
        yield from compare("fail", seen["fail"], records[:first], first is not None)
        yield from self.wrong_places(places, first, len(data), seen)
        if data in self.indexes:
            yield from self.wrong_sequences(index, self.indexes[data], data)

    @staticmethod
    def wrong_places(places, first, size, seen):
        ranges = [(begin, end) for begin, end, _ in seen["skip"]["damage"]]
        if bool(ranges) != (first is not None):
            yield "skip reports another damage"
        at = 0
        for begin, end in sorted(place for place in [*places, *ranges] if place[0] < place[1]):
            if begin != at:
                yield f"skip delivers or reports {begin} to {end} behind {at}"
            at = end
        if at != size:
            yield f"skip neither delivers nor reports what stands behind {at}"
        if first is not None:
            if seen["fail"].get("offset") != (places[first - 1][1] if first else 0):
                yield "fail names another place than the end of what it delivered"
            if seen["fail"].get("record") != first:
                yield f"fail names another record than {first}"

    @staticmethod
    def wrong_sequences(index, original, data):
        """Of a damaged index: it lies of the last sequence alone, and one byte costs two at most."""
        (places, first), true = slow.megatron(index, data), slow.megatron(original, data)[0]
        if any(place not in true for place in places[: len(places) if first is None else -1]):
            yield "what is delivered is no sequence"
        changed = [i for i, (a, b) in enumerate(zip(index, original)) if a != b]
        count = int.from_bytes(original[18:26], "little")
        one_place = len(changed) == 1 and 34 <= changed[0] < 34 + 12 * count
        if len(index) == len(original) and one_place and len(set(true) - set(places)) > 2:
            yield "a byte of the index costs more than two sequences"


class Shard(Promise):
    """MosaicML's: a byte of the head costs three samples at most, and none is delivered but from its own place.
    Nothing checks the values: those of a changed byte are delivered."""

    def __init__(self, file):
        super().__init__("mds")
        self.file = file
        count, self.head = struct.unpack_from("<2I", file)
        offsets = struct.unpack_from(f"<{count + 1}I", file, 4)
        self.places = list(zip(offsets, offsets[1:]))

    def variants(self, step):
        yield from damage.of_file(self.file, step)

    def wrong(self, pieces, seen):
        file, original = pieces[0], self.file
        whole = [file[b:e] for b, e in self.places if e <= len(file) and slow.mds_sample(file[b:e])]
        got = seen["skip"]["records"]
        if file[: self.head] == original[: self.head]:
            yield from compare("skip", seen["skip"], whole, False)
            damaged = len(whole) < len(self.places) or len(file) > len(original)
            if bool(seen["skip"]["damage"]) != damaged:
                yield "skip reports another damage"
        else:
            changed = sum(a != b for a, b in zip(file, original)) + abs(len(file) - len(original))
            left = iter(map(shown, (file[b:e] for b, e in self.places)))
            if not all(record in left for record in got):
                yield "skip delivers what is no sample, or out of order"
            if changed == 1 and len(got) < len(self.places) - 3:
                yield f"a byte of the head costs {len(self.places) - len(got)} samples"
            if file and len(got) < len(self.places) and not seen["skip"]["damage"]:
                yield "skip loses samples in silence"
        if ("code" in seen["fail"]) != bool(seen["skip"]["damage"]):
            yield "fail ends without an error, or with one that is none"
        if seen["fail"]["records"] != got[: len(seen["fail"]["records"])]:
            yield "fail delivers no prefix of what skip does"


class Chunk(Promise):
    """LitData's, with an index that is intact: nothing is lost in silence, and a byte costs so many items at
    most, or becomes the value of as many. What the intact chunk gives is held against its real reader
    elsewhere."""

    def __init__(self, index, file, costs, stride=1, mark=0):
        super().__init__("litdata")
        self.index, self.file, self.costs, self.stride = index, file, costs, stride
        self.mark = mark  # bytes without which the file is of another kind
        self.items = json.loads(index)["chunks"][0]["chunk_size"]
        self.intact = None

    def file_of(self, pieces):
        return struct.pack("<H", len(self.index)) + self.index + b"".join(pieces)

    def variants(self, step):
        yield from damage.of_file(self.file, step * self.stride)

    def wrong(self, pieces, seen):
        got, ranges = seen["skip"]["records"], seen["skip"]["damage"]
        if pieces == [self.file]:
            self.intact = got
            if len(got) != self.items or ranges:
                yield f"the intact chunk gives {len(got)} items, not {self.items}"
        true = [self.intact.index(record) for record in got if record in self.intact]
        if true != sorted(true):
            yield "skip delivers items out of order"
        if len(got) < self.items and pieces[0] and not ranges:
            yield "skip loses items in silence"
        is_marked = pieces[0][: self.mark] == self.file[: self.mark]
        changed = sum(a != b for a, b in zip(pieces[0], self.file)) + abs(len(pieces[0]) - len(self.file))
        if is_marked and changed == 1 and self.items - len(set(true)) > self.costs:
            yield f"a byte costs {self.items - len(set(true))} items"
        if "code" in seen["skip"] or ("code" in seen["fail"]) != bool(ranges):
            yield "fail ends without an error, or with one that is none"
        if seen["fail"]["records"] != got[: len(seen["fail"]["records"])]:
            yield "fail delivers no prefix of what skip does"


class Compressed(Promise):
    """A prefix of the records, and an error unless all of the content came out."""

    def __init__(self, name, compression, decode, content, compress):
        super().__init__(name, compression)
        self.decode, self.file = decode, compress(content)
        self.content, self.records = content, decode(content)

    def variants(self, step):
        yield from damage.of_file(self.file, step)

    def wrong(self, pieces, seen):
        content, problem = inflated(pieces[0], self.compression) if pieces[0] else (b"", None)
        fail, skip = seen["fail"], seen["skip"]
        if problem is None:
            yield from compare("fail", fail, self.decode(content), False)
        elif "code" not in fail:
            yield "fail ends without an error"
        elif not skip["damage"]:
            yield "skip reports nothing"
        if self.content.startswith(content):  # what came out is true
            records = list(map(shown, self.records))
            for policy, got in (("fail", fail["records"]), ("skip", skip["records"])):
                if got != records[: len(got)]:
                    yield f"{policy} delivers no prefix of the records"


class Packed(Promise):
    """TFRecord compressed by what Python does not read, or not piece by piece. Its own checksums tell which records
    are true: no others come, and an error unless all of them do. A damaged copy may repeat one, and a damaged
    block of bzip2 may begin in its middle."""

    def __init__(self, compression, file, content):
        super().__init__("tfrecord", compression)
        self.file, self.records = file, list(map(shown, tfrecords(content)))

    def variants(self, step):
        yield from damage.of_file(self.file, step)

    def wrong(self, pieces, seen):
        if pieces == [self.file]:
            yield from compare("skip", seen["skip"], tfrecords(make.PACKED_CONTENT), False)
        fail, skip = seen["fail"], seen["skip"]
        if fail["records"] != self.records[: len(fail["records"])] and self.compression != "bzip2":
            yield "fail delivers no prefix of the records"
        if not all(record in self.records for record in [*fail["records"], *skip["records"]]):
            yield "what is delivered is no record"
        if pieces[0] and len(skip["records"]) < len(self.records) and not skip["damage"]:
            yield "skip loses records in silence"
        if "code" in skip or ("code" in fail) != bool(skip["damage"]):
            yield "fail ends without an error, or with one that is none"


class OfMembers(Promise):
    """Members compressed one by one, each of whole records. All records of intact ones come, but the first
    `loses` behind damage, as it is not known where they begin; none (None) where the format cannot find
    one. Of a damaged member comes what decompresses before the damage is noticed: where records are
    `checked` only such as it had, else what Python makes of it too."""

    def __init__(self, name, compression, decode, members, checked, loses):
        super().__init__(name, compression)
        self.decode, self.members, self.checked, self.loses = decode, members, checked, loses
        self.records = [decode(inflated(member, compression)[0]) for member in members]

    def variants(self, step):
        yield from damage.of_pieces(self.members, step)
        yield from damage.shortened(self.members, step)

    def runs(self, pieces):
        """The records of intact members, apart where damage is; and of each damage what the member had of
        records, and what Python makes of it."""
        runs, gaps, file = [[]], [], b"".join(pieces)
        for i, piece in enumerate(pieces):
            rest, file = file, file[len(piece) :]
            content, problem = inflated(piece, self.compression)
            if problem is None:
                runs[-1] += self.decode(content)
            elif piece and (i == 0 or runs[-1] and piece.strip(b"\0")):
                out, problem = inflated(rest, self.compression)
                had = self.records[i] if len(pieces) <= len(self.members) else []
                gaps.append((had, self.whole(out)))
                runs.append([])
        return runs, gaps

    def whole(self, content):
        """Whole records of content that is damaged, where nothing checks them."""
        return [] if self.checked else self.decode(content[: content.rfind(b"\n") + 1])

    def wrong(self, pieces, seen):
        runs, gaps = self.runs(pieces)
        runs[1:] = [[] if self.loses is None else run[self.loses :] for run in runs[1:]]
        for policy in ("fail", "skip"):
            yield from (f"{policy} {what}" for what in self.wrong_records(runs, gaps, policy, seen[policy]))
        if ("code" in seen["fail"]) != bool(gaps) or "code" in seen["skip"]:
            yield "fail ends without an error, or with one that is none"
        edges = [edge for begin, end, _ in seen["skip"]["damage"] for edge in (begin, end)]
        if bool(edges) != bool(gaps) or edges != sorted(edges):
            yield "skip reports another damage"

    def wrong_records(self, runs, gaps, policy, seen):
        rest = seen["records"]
        begin = list(map(shown, runs[0]))
        if rest[: len(begin)] != begin:
            yield f"does not begin with the {len(begin)} records in front of the damage"
        rest = rest[len(begin) :]
        for gap, run in zip(gaps[:1] if policy == "fail" else gaps, runs[1:]):
            run = [] if policy == "fail" else list(map(shown, run))
            found = [at for at in range(len(rest) + 1) if rest[at : at + len(run)] == run]
            if not found:
                yield f"does not have the {len(run)} records behind the damage"
            at = len(rest) if not found or not run else found[0]
            if not self.may_come(policy, rest[:at], *gap):
                yield f"delivers {at} records of the damaged member, of {len(gap[0])} or {len(gap[1])}"
            rest = rest[at + len(run) :]
        if rest:
            yield f"delivers {len(rest)} records too many"

    def may_come(self, policy, records, had, out):
        if not self.checked:
            return records == list(map(shown, out))
        had = list(map(shown, had))
        # A damaged copy may repeat one, and a damaged block of bzip2 begin in its middle.
        in_order = policy == "fail" and self.compression != "bzip2"
        return records == had[: len(records)] if in_order else all(record in had for record in records)


class TarMembers(OfMembers):
    """The same of tar, where the sample in front of a gap may be missing too: it may have lost a file to it.
    Out of the damaged member itself comes what its files became, and of a sample the first one alone where
    the second one's header became zeros or another name."""

    def __init__(self, compression, members):
        super().__init__("tar", compression, self.samples, members, False, 1)

    @staticmethod
    def samples(content):
        return [content[i : i + 2048] for i in range(0, len(content), 2048)]

    def whole(self, content):
        ends = [(i, i + size) for i in range(0, len(content), 512) for size in (1024, 2048)]
        return [content[begin:end] for begin, end in ends if end <= len(content)]

    def wrong_records(self, runs, gaps, policy, seen):
        got = seen["records"]
        runs = [list(map(shown, run)) for run in (runs[:1] if policy == "fail" else runs)]
        wanted = [record for i, run in enumerate(runs) for record in (run[:-1] if i < len(gaps) else run)]
        possible = list(runs[0])
        for (_, out), run in zip(gaps, runs[1:] or [[]]):
            possible += map(shown, out)
            possible += run
        left = iter(possible)
        if not all(record in left for record in got):
            yield "delivers what is no sample, or out of order"
        if not all(record in got for record in wanted):
            yield f"delivers {len(got)} samples, at least {len(wanted)} are expected"


READERS = {"gzip": lambda: zlib.decompressobj(31), "zlib": zlib.decompressobj, "bzip2": bz2.BZ2Decompressor,
           "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)}


def inflated(data, compression):
    """What Python makes of it: (what comes, why no more does), where there is no reason at a member's end with
    nothing but padding behind it."""
    reader = READERS[compression]()
    out = b""
    for i in range(len(data)):
        try:
            out += reader.decompress(data[i : i + 1])
        except EOFError:
            return out, "it ends too early" if data[i:].strip(b"\0") else None
        except (zlib.error, OSError, lzma.LZMAError) as problem:
            return out, str(problem)
    whole = reader.eof and not reader.unused_data.strip(b"\0")
    return out, None if whole else "it ends too early or too late"


class Chunks(Promise):
    """ArrayRecord: the chunks that its end lists, each by itself. The bytes that are hurt are those of its front and
    of its postscript; all others are zeros that nobody reads."""

    def __init__(self):
        super().__init__("arrayrecord")
        # The third chunk is interrupted by a block's header.
        self.groups = [[b"ab", b"cde"], [b"", b"fg"], [b"h"], [b"x" * 150, b""]]
        self.file = riegeli.array_record(*self.groups)
        self.large = riegeli.array_record([b"first"], [b"x" * 66000, b"y"], [b"last"])
        self.last = len(self.file) - riegeli.BLOCK

    def variants(self, step):
        yield "intact", [self.file]
        front = len(self.file[: self.last].rstrip(b"\0")) + 8
        for begin, end in ((0, front), (self.last, self.last + 132)):
            part = self.file[begin:end]
            for name, (hurt,) in [*damage.flips([part], (3,), 2 * step), *damage.zeroed([part], 16, 8 * step)]:
                yield f"{begin}: {name}", [self.file[:begin] + hurt + self.file[end:]]
        size = len(self.file)
        for at in (0, 1, 63, 64, 110, front, self.last - 1, self.last, self.last + 1, self.last + 132, size - 1):
            yield f"cut at {at}", [self.file[:at]]
        yield "a byte more", [self.file + b"\0"]
        yield "a block more", [self.file + bytes(riegeli.BLOCK)]
        for at in (110, 65535, 65536, 65540, 65560, 66200, 66300, len(self.large) - riegeli.BLOCK + 70):
            yield f"large: byte {at}", [self.large[:at] + bytes([self.large[at] ^ 4]) + self.large[at + 1 :]]
        yield from self.lies()

    def lies(self):
        """Fields that say other things, by which all hashes are right."""
        numbers = (0, 1, 3, 100, 1 << 20, (1 << 20) + 1, 1 << 32, (1 << 56) - 1)
        more = (*numbers, 1 << 62, (1 << 64) - 1)
        said = [("chunk", "records", numbers), ("chunk", "decoded", more), ("chunk", "stored_bytes", more),
                ("chunk", "kind", (b"s", b"t", b"p", b"\0")), ("entry", "offset", (64, 106, 108, *more)),
                ("entry", "decoded", more), ("entry", "records", more), ("head", "chunks", more),
                ("head", "records", more)]
        for where, field, values in said:
            for value in values:
                yield f"{where}: {field} is {value}", [riegeli.array_record(*self.groups, **{where: {field: value}})]
        stores = [b"", b"\0", b"\0\2\0\2", b"\0\2\0\2abc", b"\0\2\1\2ab", b"\0\3\0\2\0fg", b"\0\2\0\x82fg", b"\7\2\0\2fg",
                  b"z\2\0\2fg", b"s\3\2\4\2\2fg", b"z\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\0\x0b" + b"\x80" * 10 + b"\2fg"]
        for stored in stores:
            yield f"stored: {stored}", [riegeli.array_record(*self.groups, chunk={"stored": stored})]
        for place in (63, 64, 101, self.last - 1, self.last, len(self.file), *more):
            yield f"the footer is at {place}", [riegeli.array_record(*self.groups, place=place)]

    def wrong(self, pieces, seen):
        file = pieces[0]
        chunks = slow.array_record(file)
        if not file:
            chunks = []
        if chunks is None:
            yield from compare("skip", seen["skip"], [], False)
            yield from compare("fail", seen["fail"], [], True)
            if [place[:2] for place in seen["skip"]["damage"]] != [[0, len(file)]]:
                yield "skip reports another damage than all"
            return
        first = next((i for i, chunk in enumerate(chunks) if chunk[3] is None), len(chunks))
        skip = [record for *_, records in chunks for record in records or []]
        fail = [record for *_, records in chunks[:first] for record in records]
        yield from compare("skip", seen["skip"], skip, False)
        yield from compare("fail", seen["fail"], fail, first < len(chunks))
        lost = [[begin, end] for begin, end, _, records in chunks if records is None]
        if [place[:2] for place in seen["skip"]["damage"]] != lost:
            yield "skip reports another damage"
        if lost and [seen["fail"].get("offset"), seen["fail"].get("record")] != [lost[0][0], len(fail)]:
            yield "fail names another place"


def shown(record):
    return [len(record), zlib.crc32(record)]


def compare(policy, seen, records, fails):
    if seen["records"] != list(map(shown, records)):
        yield f"{policy} delivers {len(seen['records'])} records, not the {len(records)} expected"
    if ("code" in seen) != fails:
        yield f"{policy} " + ("ends without an error" if fails else f"fails: {seen['message']}")
    if fails and not ("file" in seen.get("message", "") and seen.get("offset", -1) >= 0):
        yield f"{policy} does not say where"


def recordio():
    chunks = [make.fluid([b"ABC", b""]), make.go([b"x" * 30, b"y"]), make.fluid([b"", b"", b"z"]),
              make.go([b"last"])]
    payload = [b"abcdabcdabcd", b""]
    stream = make.framed(payload)
    packed = [make.fluid(payload, make.snappy_stream(stream)[: 14 + len(stream)], 1), make.go([b"between"]),
              make.go(payload, make.snappy_official(stream)[: 18 + len(stream)], 1),
              make.go([b"in gzip"] * 3, make.gzip.compress(make.framed([b"in gzip"] * 3), mtime=0), 2)]
    blocks = list(in_blocks())
    several = [chunks[3], *(wrap(b"".join(parts)) for parts, wrap in blocks), chunks[0]]
    return OfPieces("recordio", slow.recordio, chunks, packed, several, blocks=blocks)


def in_blocks():
    """What chunks hold, as it is compressed: snappy's blocks end where no record does."""
    records = [b"one, abcdabcd", b"", b"over the border, efghefgh and on"]
    payload = make.framed(records)
    cut = [payload[:17], payload[17:34], payload[34:50], payload[50:]]  # the first and third are packed
    start, padding, skipped = b"\xff\6\0\0sNaPpY", b"\xfe\3\0\0pad", b"\x80\0\0\0"
    one, two, three, four = (make.stream_block(data, i % 2 == 0) for i, data in enumerate(cut))
    yield [b"snappy\0", one, two, b"snappy\0", three, four], lambda stored: make.fluid(records, stored, 1)
    one, two, three, four = (make.official_block(data, i % 2 == 0) for i, data in enumerate(cut))
    empty = make.official_block(b"", False)
    official = [start, one, padding, two, three, empty, skipped, start, four]
    yield official, lambda stored: make.go(records, stored, 1)
    yield [payload], lambda stored: make.go(records, stored)
    yield [make.gzip.compress(payload, mtime=0)], lambda stored: make.go(records, stored, 2)


def promises():
    text = b"one\r\n\r\ntwo, longer than it\nthree\n\nlast"
    rows = b'id,a\r\n1,"x\n""y"""\r\n\r\n2,plain "not"\n3,"",4\nlast,1'
    short = [make.tfrecord(payload) for payload in (b"first", b"", b"the third one", b"x")]
    message = make.feature(b"a", 1, b"v") + make.feature(b"b", 4, b"\7")
    samples = [make.tar(names=(f"{i}.jpg", f"{i}.cls"))[:-1024] for i in range(4)]
    one_of = lambda decode: lambda content: decode(content)[0]
    yield "tfrecord", OfPieces("tfrecord", slow.tfrecord, short, others=list(wrong_lengths(short)))
    yield "recordio", recordio()
    yield "ofrecord", FromStart("ofrecord", slow.ofrecord, make.ofrecord(message, make.ofrecord_message(), message))
    yield "tar", Tar(*samples)
    yield "lines", FromStart("lines", slow.lines, text)
    yield "csv", FromStart("csv", slow.csv, rows)
    yield "npy", FromStart("npy", slow.npy, make.npy(1, "<i2", "False", "(5, 3)", bytes(range(30))), 70)
    yield "mds", Shard(make.mds(b"first", b"", b"the third one", b"x", b"yy", b"last"))
    yield "arrayrecord", Chunks()
    yield "megatron", Pair(make.megatron([3, 0, 1, 2], [0, 6, 6, 8], 2, bytes(range(12))),
                           make.megatron([0, 2, 1, 3, 0], [0, 0, 8, 12, 24], 3, bytes(range(50, 74)), 4),
                           make.megatron([2, 1, 3], [0, 8, 12], 1, bytes(range(100, 124)), 7),
                           make.megatron([1, 2], [4, 6], 0, bytes(range(150, 160))),
                           make.megatron([], [], 1, b""))
    for magic, version, width in ((20240520, 1, 2), (20240801, 7, 4)):
        name = "tokens" if width == 2 else "tokens32"
        file = make.tokens(magic, version, 7, bytes(range(7 * width)))
        yield name, FromStart("tokens:block=3", lambda file: slow.tokens(file, 3), file)
    for name, frames in (("litdata", 0), ("litdata_frames", 2)):
        values = (b"first", b"", b"the third one", b"x", b"yy", b"last")
        yield name, Chunk(litdata_index(len(values)), make.litdata(*values, frames=frames), 4 if frames else 3,
                          mark=24 if frames else 0)
    arrow = HERE.parent / "data" / "litdata" / "arrow"
    index = json.loads((arrow / "index.json").read_bytes())
    index["chunks"] = [{**index["chunks"][1], "filename": "chunk-0-0.bin"}]
    yield "litdata_arrow", Chunk(json.dumps(index).encode(), (arrow / "chunk-0-1.bin").read_bytes(), 20, 3)
    content = make.PACKED_CONTENT
    for name, stream in {**make.PACKED, "bzip2": bz2.compress(content), "xz": lzma.compress(content)}.items():
        yield f"tfrecord_{name}", Packed(name, stream, content)
    for name, compress in (("gzip", gzip), ("zlib", zlib.compress)):
        yield f"tfrecord_{name}", Compressed("tfrecord", name, tfrecords, b"".join(short * 3), compress)
        yield f"lines_{name}", Compressed("lines", name, one_of(slow.lines), text * 3, compress)
    yield from members()


def members():
    """Of several members; the second one is stored, not compressed."""
    text = [b"one, one, one and one\ntwo\n\nthe third of them\n", b"line four of them\nline five\nsix\n",
            b"line 7 and line 8\nline nine\n", b"line ten\r\nline ten and one\n"]
    payloads = [content.split(b"\n") for content in text]
    one_of = lambda decode: lambda content: decode(content)[0]
    samples = [make.tar(names=(f"{i}.jpg", f"{i}.cls"))[:-1024] for i in range(8)]
    formats = (("tfrecord", tfrecords, [make.tfrecord(*some) for some in payloads], True, 0),
               ("recordio", slow.recordio, [make.fluid(some) for some in payloads], True, 0),
               ("lines", one_of(slow.lines), text, False, 1),
               ("csv", one_of(slow.csv), text, False, None))
    for compression in ("bzip2", "xz"):
        stored = [{"bzip2": bz2, "xz": lzma}[compression].compress(content) for content in formats[0][2]]
        yield f"tfrecord_{compression}_members", OfMembers("tfrecord", compression, tfrecords, stored, True, 0)
    for compression, compress in (("gzip", gzip), ("zlib", zlib.compress)):
        for name, decode, contents, checked, loses in formats:
            stored = [compress(content, 0 if i == 1 else 9) for i, content in enumerate(contents)]
            promise = OfMembers(name, compression, decode, stored, checked, loses)
            yield f"{name}_{compression}_members", promise
        archives = [compress(sample + samples[i + 1]) for i, sample in enumerate(samples) if i % 2 == 0]
        yield f"tar_{compression}_members", TarMembers(compression, archives)


def litdata_index(items):
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = {"type": "builtins.dict", "context": json.dumps(["id", "b", "l"]), "children_spec": [leaf] * 3}
    config = {"data_format": ["int", "bytes", "json"], "data_spec": json.dumps([1, spec])}
    return json.dumps({"chunks": [{"filename": "chunk-0-0.bin", "chunk_size": items}], "config": config}).encode()


def wrong_lengths(records):
    """Each record with another length than it has, vouched for by its checksum, that leads to no other."""
    for i, record in enumerate(records):
        ends = [sum(map(len, records[i : j + 1])) for j in range(i, len(records))]
        for length in range(ends[-1] + 2):
            wrong = slow.tfrecord_header(length) + record[12:]
            if length + 16 not in ends:
                yield f"record {i} of length {length}", [*records[:i], wrong, *records[i + 1 :]]


def gzip(data, level=9):
    return make.gzip.compress(data, level, mtime=0)


def tfrecords(content):
    return [record for piece in split_tfrecords(content) for record in slow.tfrecord(piece) or []]


def split_tfrecords(content):
    while content:
        length = 16 + int.from_bytes(content[:8], "little")
        yield content[:length]
        content = content[length:]


def main():
    program, wanted = sys.argv[1:3]
    step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    promise = dict(promises())[wanted]
    variants = list(promise.variants(step))
    files = [promise.file_of(pieces) for _, pieces in variants]
    sent = b"".join(struct.pack("<Q", len(file)) + file for file in files)
    run = subprocess.run([program, promise.name, promise.compression], input=sent, stdout=subprocess.PIPE)
    lines = run.stdout.splitlines()
    failures = 0
    for (name, pieces), file, line in zip(variants, files, lines):
        seen = json.loads(line)
        for what in promise.wrong(pieces, seen):
            failures += 1
            if failures <= SHOWN:
                print(f"{wanted}: {name}: {what}\n    {file.hex()[:400]}\n    {line.decode()[:600]}")
    print(f"{wanted}: {len(variants)} variants, {failures} promises broken")
    return 1 if failures or run.returncode or len(lines) != len(variants) else 0


if __name__ == "__main__":
    sys.exit(main())
