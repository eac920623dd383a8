"""Decodes the formats of docs/FORMATS.md in the plainest way, slowly, and sharing nothing with the
library: what tests/damage expects of it comes from here.

A piece that stands for itself (a chunk, a record) is decoded by a function that returns its records, or
None where a single bit of it is not as it must be. Formats without such pieces are decoded from the
file's start: (records, damaged), where `damaged` says that the rest is lost.
"""

import ast
import functools
import re
import struct
import zlib

import riegeli

MEGATRON_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}
TOKEN_WIDTHS = {(20240520, 1): 2, (20240801, 7): 4}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord(piece):
    """One record."""
    if len(piece) < 16:
        return None
    length, length_crc = struct.unpack_from("<QI", piece)
    if masked(piece[:8]) != length_crc or length != len(piece) - 16:
        return None
    payload = piece[12:-4]
    return [payload] if masked(payload) == struct.unpack("<I", piece[-4:])[0] else None


def tfrecord_header(length):
    """Of a record of that length, its checksum right."""
    bytes_ = struct.pack("<Q", length)
    return bytes_ + struct.pack("<I", masked(bytes_))


def read_varint(data, at):
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7
    return None, at


def snappy_block(data):
    size, at = read_varint(data, 0)
    out = bytearray()
    while size is not None and at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                extra = length - 60
                length = int.from_bytes(data[at : at + extra], "little") + 1
                at += extra
            out += data[at : at + length]
            at += length
            continue
        if tag & 3 == 1:
            length, distance = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | sum(data[at : at + 1])
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, distance = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
            at += width
        if not 0 < distance <= len(out):
            return None
        for _ in range(length):
            out.append(out[-distance])
    return bytes(out) if size == len(out) and at == len(data) else None


def snappy_stream(data):
    """Fluid's: "snappy\\0", then blocks with big-endian lengths and checksums."""
    if not data.startswith(b"snappy\0"):
        return None
    out = b""
    while data:
        if data.startswith(b"snappy\0"):
            data = data[7:]
            continue
        if len(data) < 7 or data[0] > 1:
            return None
        size, crc = struct.unpack_from(">HI", data, 1)
        block = data[7 : 7 + size]
        if len(block) < size or not 0 < size <= 32768:
            return None
        plain = snappy_block(block) if data[0] == 1 else block
        if plain is None or len(plain) > 32768 or masked(plain) != crc:
            return None
        out, data = out + plain, data[7 + size :]
    return out


def snappy_official(data):
    if not data.startswith(b"\xff\6\0\0sNaPpY"):
        return None
    out = b""
    while data:
        kind, size = data[0], int.from_bytes(data[1:4], "little")
        body = data[4 : 4 + size]
        if len(data) < 4 or len(body) < size or (kind == 0xFF and body != b"sNaPpY") or 1 < kind < 0x80:
            return None
        data = data[4 + size :]
        if kind >= 0x80:
            continue
        if size < 4:
            return None
        plain = snappy_block(body[4:]) if kind == 0 else body[4:]
        if plain is None or len(plain) > 65536 or masked(plain) != struct.unpack_from("<I", body)[0]:
            return None
        out += plain
    return out


def gunzip(data):
    reader = zlib.decompressobj(31)
    try:
        out = reader.decompress(data)
    except zlib.error:
        return None
    return out if reader.eof and not reader.unused_data else None


def recordio(piece):
    """One chunk, of either dialect."""
    if len(piece) < 20:
        return None
    magic, second, third, fourth, fifth = struct.unpack_from("<5I", piece)
    fluid = fourth <= 3
    count, crc, compressor, size = (second, third, fourth, fifth) if fluid else (fifth, second, third, fourth)
    stored = piece[20:]
    if magic != 0x01020304 or size != len(stored) or zlib.crc32(stored) != crc:
        return None
    decoders = {0: lambda data: data, 1: snappy_stream if fluid else snappy_official, 2: gunzip}
    payload = decoders[compressor](stored) if compressor in decoders else None
    records = []
    while payload is not None and len(records) < count and len(payload) >= 4:
        (length,) = struct.unpack_from("<I", payload)
        if length > len(payload) - 4:
            return None
        records.append(payload[4 : 4 + length])
        payload = payload[4 + length :]
    return records if payload == b"" and len(records) == count else None


def ofrecord(file):
    """From the start: (records, damaged, how many of them precede the damage). Lengths and the chain of
    a record's entries are all that can be checked; what a value has become is not. A record whose message
    does not chain is lost alone where its length leads to a whole record, or to the file's end."""
    records, before = [], None
    while file:
        message, rest = ofrecord_frame(file)
        if message is None or not chains(message):
            before = len(records) if before is None else before
            following = None if message is None or not rest else ofrecord_frame(rest)[0]
            if message is None or (rest and (following is None or not chains(following))):
                return records, True, before
        else:
            records.append(message)
        file = rest
    return records, before is not None, len(records) if before is None else before


def ofrecord_frame(file):
    """The message in front and what is behind it; None where it is not all there."""
    length = struct.unpack_from("<q", file)[0] if len(file) >= 8 else 0
    if length < 1 or len(file) < 8 + length:
        return None, b""
    return file[8 : 8 + length], file[8 + length :]


def chains(message):
    at = 0
    while at < len(message):
        if message[at] != 0x0A:  # field 1, with a length
            return False
        length, at = read_varint(message, at + 1)
        if length is None or length > len(message) - at:
            return False
        at += length
    return True


def lines(file):
    """Nothing can be damaged. None where the ends may be CR alone: there is one before the last byte, and no
    LF."""
    if b"\r" in file[:-1] and b"\n" not in file:
        return None
    rows = file.split(b"\n")
    if rows[-1] == b"":
        rows.pop()
    else:
        return [strip_cr(row) for row in rows[:-1]] + [rows[-1]], False
    return [strip_cr(row) for row in rows], False


def strip_cr(row):
    return row[:-1] if row.endswith(b"\r") else row


def csv(file):
    """Rows as they stand: (records, damaged), where a quote that never closes is damage. None where the ends
    may be CR alone: there is one outside of quotes before the last byte, and no LF."""
    if file.startswith(b"\xef\xbb\xbf"):
        file = file[3:]
    rows, begin, quoted, fresh = [], 0, False, True
    at = returns = 0
    while at < len(file):
        byte = file[at : at + 1]
        if quoted:
            if byte == b'"':
                if file[at + 1 : at + 2] == b'"':
                    at += 1
                else:
                    quoted = False
        elif byte == b'"' and fresh:
            quoted = True
        elif byte == b"\r":
            returns += at + 1 < len(file)
        elif byte == b"\n":
            rows.append(strip_cr(file[begin:at]))
            begin = at + 1
        fresh = not quoted and byte in (b",", b"\n")
        at += 1
    if returns and begin == 0 and not quoted:
        return None
    if quoted:
        return [row for row in rows if row], True
    return [row for row in rows + [file[begin:]] if row], False


def npy(file):
    """(records, damaged), or None where the header is no header that NumPy writes."""
    if file[:6] != b"\x93NUMPY" or file[6:8] not in (b"\1\0", b"\2\0", b"\3\0"):
        return None
    width = 2 if file[6] == 1 else 4
    size = int.from_bytes(file[8 : 8 + width], "little")
    text = file[8 + width : 8 + width + size]
    try:
        header = ast.literal_eval(text.decode("latin1").strip())
        shape, descr, fortran = header["shape"], header["descr"], header["fortran_order"]
        item = int(descr[2:])
    except (ValueError, SyntaxError, KeyError, TypeError, IndexError, AttributeError):
        return None
    if len(text) < size or len(header) != 3 or descr[:2] != "<i" or fortran is not False or len(shape) != 2:
        return None
    return array(file[8 + width + size :], item * shape[1], shape[0])


def array(data, row, count):
    whole = min(len(data) // row, count)
    return [data[i * row : (i + 1) * row] for i in range(whole)], len(data) != row * count


def tokens(file, block):
    if len(file) < 1024:
        return None
    magic, version, count = struct.unpack_from("<3i", file)
    width = TOKEN_WIDTHS.get((magic, version))
    if width is None or count < 0:
        return None
    data = file[1024:]
    if len(data) < count * width:
        whole = len(data) // (block * width)
        return [data[i * block * width : (i + 1) * block * width] for i in range(whole)], True
    used = data[: count * width]
    records = [used[i : i + block * width] for i in range(0, len(used), block * width)]
    return records, len(data) != len(used)


def mds_sample(sample):
    """Whether one of an int and of bytes is whole."""
    return len(sample) >= 12 and struct.unpack_from("<I", sample)[0] == len(sample) - 12


@functools.lru_cache(maxsize=None)
def riegeli_hash(data):
    return riegeli.highway_hash(data)


def riegeli_chunk(file, begin, end):
    """The records of the simple, uncompressed chunk that begins there and has no bytes from `end` on."""
    starts = range(begin // riegeli.BLOCK * riegeli.BLOCK, end, riegeli.BLOCK)
    joined = b"".join(file[max(begin, at + 24) : min(end, at + riegeli.BLOCK)] for at in starts)
    if len(joined) < 40 or riegeli_hash(joined[8:40]) != int.from_bytes(joined[:8], "little"):
        return None
    length, data_hash, kind, decoded = struct.unpack_from("<4Q", joined, 8)
    stored = joined[40 : 40 + length]
    if len(stored) < length or riegeli_hash(stored) != data_hash or kind & 255 != ord("r") or stored[:1] != b"\0":
        return None
    size_bytes, at = read_varint(stored, 1)
    if size_bytes is None or at + size_bytes > length or length - at - size_bytes != decoded:
        return None
    end, values, records = at + size_bytes, at + size_bytes, []
    while at < end and len(records) < kind >> 8:
        size, at = read_varint(stored[:end], at)
        if size is None or size > length - values:
            return None
        records.append(stored[values : values + size])
        values += size
    return records if (at, values, len(records)) == (end, length, kind >> 8) else None


def array_record(file):
    """None where nothing tells the places of chunks, else (begin, end, number of records, records or None) of each
    that has some."""
    last = len(file) - riegeli.BLOCK
    if len(file) % riegeli.BLOCK or last < riegeli.BLOCK:
        return None
    tail = file[last:][:256]
    magic = b"\x10" + riegeli.varint(riegeli.MAGIC)
    for at in (match.start() for match in re.finditer(re.escape(magic), tail)):
        for begin in range(at - 1, max(at - 11, 0), -1):
            place, end = read_varint(tail[:at], begin)
            found = end == at and tail[begin - 1] == 8 and 64 <= place < last and array_record_chunks(file, place, last)
            if found or found == []:
                return found
    return None


def array_record_chunks(file, place, last):
    footer = riegeli_chunk(file, place, last)
    if not footer:
        return None
    options = fields(fields(footer[0]).get(1, b""))
    if options.get(1) != 1 or b"transpose:true" in options.get(4, b""):
        return None
    entries = [fields(entry) for entry in footer[1:]]
    counts = [entry.get(3, 0) for entry in entries]
    if (len(entries), sum(counts)) != (options.get(2, 0), options.get(3, 0)) or max(counts, default=0) > 1 << 20:
        return None
    begins = [entry.get(1, 0) for entry, count in zip(entries, counts) if count]
    if any(not 64 <= a < b for a, b in zip(begins, [*begins[1:], place])):
        return None
    chunks = []
    for begin, end, count in zip(begins, [*begins[1:], place], filter(None, counts)):
        records = riegeli_chunk(file, begin, end)
        chunks.append((begin, end, count, records if records is not None and len(records) == count else None))
    return chunks


def fields(message):
    """Protobuf: the last value of each field, a number or bytes."""
    at, found = 0, {}
    while at < len(message):
        tag, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        found[tag >> 3] = value
    return found


def megatron(index, data):
    """Of the two files: None where the index is refused, else (sequences, damaged): where the sequences that
    are believed stand in the data, and how many of the index's precede the first damage (None: there is
    none)."""
    if len(index) < 34 or index[:17] != b"MMIDIDX\0\0" + struct.pack("<Q", 1):
        return None
    kind, count, documents = struct.unpack_from("<BQQ", index, 17)
    if kind not in MEGATRON_WIDTHS or len(index) < 34 + 12 * count + 8 * documents:
        return None
    sizes = struct.unpack_from(f"<{count}i", index, 34)
    begins = struct.unpack_from(f"<{count}q", index, 34 + 4 * count)
    sequences, damaged, at = [], None, 0
    for i, (size, begin) in enumerate(zip(sizes, begins)):
        end = begin + size * MEGATRON_WIDTHS[kind]
        vouched = end == begins[i + 1] if i + 1 < count else begin == at or end == len(data)
        believed = at <= begin <= end <= len(data) and vouched
        if damaged is None and not (believed and begin == at):
            damaged = i
        if believed:
            sequences.append((begin, end))
            at = end
    if damaged is None and at < len(data):
        damaged = count
    return sequences, damaged
