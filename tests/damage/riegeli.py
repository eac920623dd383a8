"""ArrayRecord files in the plainest way, and HighwayHash, which all of Riegeli's chunks have. What a field
says may be a lie; the hashes are always right."""

import struct

BLOCK = 65536
MASK = (1 << 64) - 1
KEY = struct.unpack("<4Q", b"Riegeli/records\n" * 2)
MUL = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3,
       0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
ZIPPED = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
MAGIC = 0x71930E704FDAE05E


def halves_swapped(value):
    return value >> 32 | value << 32 & MASK


def highway_hash(data):
    """With Riegeli's key."""
    m0, m1 = list(MUL[:4]), list(MUL[4:])
    v0 = [m ^ k for m, k in zip(m0, KEY)]
    v1 = [m ^ halves_swapped(k) for m, k in zip(m1, KEY)]

    def add_zipped(to, lanes):
        for i in (0, 2):
            pair = struct.pack("<2Q", lanes[i], lanes[i + 1])
            zipped = struct.unpack("<2Q", bytes(pair[at] for at in ZIPPED))
            to[i], to[i + 1] = to[i] + zipped[0] & MASK, to[i + 1] + zipped[1] & MASK

    def update(packet):
        for i in range(4):
            v1[i] = v1[i] + m0[i] + packet[i] & MASK
            m0[i] ^= (v1[i] & 0xFFFFFFFF) * (v0[i] >> 32)
            v0[i] = v0[i] + m1[i] & MASK
            m1[i] ^= (v0[i] & 0xFFFFFFFF) * (v1[i] >> 32)
        add_zipped(v0, v1)
        add_zipped(v1, v0)

    whole = len(data) // 32 * 32
    for at in range(0, whole, 32):
        update(struct.unpack_from("<4Q", data, at))
    if rest := data[whole:]:
        count, loose = len(rest), len(rest) % 4
        for i in range(4):
            v0[i] = v0[i] + (count << 32) + count & MASK
            low, high = v1[i] & 0xFFFFFFFF, v1[i] >> 32
            low, high = ((x << count | x >> 32 - count) & 0xFFFFFFFF for x in (low, high))
            v1[i] = high << 32 | low
        packet = bytearray(rest[: count - loose].ljust(32, b"\0"))
        if count & 16:
            packet[28:] = rest[-4:]
        elif loose:
            tail = rest[count - loose :]
            packet[16:19] = bytes([tail[0], tail[loose >> 1], tail[-1]])
        update(struct.unpack("<4Q", packet))
    for _ in range(4):
        update([halves_swapped(v0[i]) for i in (2, 3, 0, 1)])
    return v0[0] + v1[0] + m0[0] + m1[0] & MASK


def hashed(data):
    return struct.pack("<Q", highway_hash(data))


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(*numbers):
    """Protobuf: the numbers are the fields 1, 2, …"""
    return b"".join(varint(i << 3) + varint(number) for i, number in enumerate(numbers, 1))


def simple(records):
    """What a chunk stores, not compressed."""
    sizes = b"".join(varint(len(record)) for record in records)
    return b"\0" + varint(len(sizes)) + sizes + b"".join(records)


class File:
    """One that is written chunk by chunk."""

    def __init__(self):
        self.bytes = bytearray()
        self.chunk(b"", b"s", 0, 0)

    def chunk(self, stored, kind, records, decoded, stored_bytes=None):
        """Returns where it begins."""
        # In front of a block's header, or right behind it, no chunk begins.
        begin = len(self.bytes)
        header = struct.pack("<Q", len(stored) if stored_bytes is None else stored_bytes) + hashed(stored)
        header += kind + struct.pack("<Q", records)[:7] + struct.pack("<Q", decoded)
        data = hashed(header) + header + stored
        end = begin + len(data) + (len(data) + (begin + BLOCK - 25) % BLOCK) // (BLOCK - 24) * 24
        while data:
            at = len(self.bytes)
            if at % BLOCK == 0:
                block = struct.pack("<2Q", at - begin, end - at)
                self.bytes += hashed(block) + block
                at += 24
            self.bytes += data[: BLOCK - at % BLOCK]
            data = data[BLOCK - at % BLOCK :]
        return begin

    def simple(self, group, **lies):
        """A chunk of records, with what its header says in place of the truth."""
        says = {"kind": b"r", "records": len(group), "decoded": sum(map(len, group)), **lies}
        begin = self.chunk(says.pop("stored", simple(group)), **says)
        self.bytes += bytes(max(begin + len(group) - len(self.bytes), 0))
        return begin


def array_record(*groups, chunk=None, entry=None, head=None, place=None, options=b"group_size:2,transpose:false"):
    """A file of groups of records. `chunk` and `entry` change what the header of the second chunk, and its entry
    in the footer, say; `head` what the footer says of itself; `place` what the postscript says."""
    file = File()
    entries = []
    for i, group in enumerate(groups):
        begin = file.simple(group, **(chunk if chunk and i == 1 else {}))
        entries.append({"offset": begin, "decoded": sum(map(len, group)), "records": len(group)}
                       | (entry if entry and i == 1 else {}))
    says = {"version": 1, "chunks": len(groups), "records": sum(map(len, groups))} | (head or {})
    first = message(*says.values()) + b"\x22" + varint(len(options)) + options
    footer = file.simple([b"\n" + varint(len(first)) + first] + [message(*e.values()) for e in entries])
    file.bytes += bytes(-len(file.bytes) % BLOCK)
    file.simple([message(footer if place is None else place, MAGIC)] * 3)
    file.bytes += bytes(-len(file.bytes) % BLOCK)
    return bytes(file.bytes)
