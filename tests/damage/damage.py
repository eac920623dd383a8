"""Damaged variants of a small file, as pieces: what each of them was made of stays known.

A variant is (name, pieces): bytes objects that make up the file one behind the other. Each is an intact
piece of the original (a chunk, a record, or a file of a format without such pieces), or damage.
"""

GARBAGE = {"text": b"garbage, no length at all", "zeros": bytes(64), "magic": b"\4\3\2\1" * 3, "ones": b"\xff" * 21}


def flips(pieces, bits, step=1):
    """Every byte with one bit flipped."""
    for i, piece in enumerate(pieces):
        for at in range(0, len(piece), step):
            for bit in bits:
                damaged = piece[:at] + bytes([piece[at] ^ 1 << bit]) + piece[at + 1 :]
                yield f"piece {i} byte {at} bit {bit}", [*pieces[:i], damaged, *pieces[i + 1 :]]


def cuts(pieces, step=1):
    """Cut behind every byte."""
    for i, piece in enumerate(pieces):
        for at in range(0, len(piece), step):
            yield f"cut in piece {i} at {at}", [*pieces[:i], piece[:at]]


def shortened(pieces, step=1):
    """Each cut behind every byte, and the next one behind it."""
    for i, piece in enumerate(pieces[:-1]):
        for at in range(1, len(piece), step):
            yield f"piece {i} cut at {at}", [*pieces[:i], piece[:at], *pieces[i + 1 :]]


def garbage_between(pieces):
    for name, garbage in GARBAGE.items():
        for i in range(len(pieces) + 1):
            yield f"{name} before piece {i}", [*pieces[:i], garbage, *pieces[i:]]


def zeroed(pieces, size, step):
    """A block of zeros in place of what was there, over the borders of pieces too."""
    length = sum(map(len, pieces))
    for begin in range(0, length - size + 1, step):
        left, at = [], 0
        for piece in pieces:
            first, last = max(begin - at, 0), min(begin + size - at, len(piece))
            left.append(piece[:first] + bytes(last - first) + piece[last:] if first < last else piece)
            at += len(piece)
        yield f"zeros from {begin}", left


def swapped(pieces):
    """Nothing is damaged: pieces stand for themselves."""
    for i in range(len(pieces)):
        for j in range(i + 1, len(pieces)):
            other = list(pieces)
            other[i], other[j] = other[j], other[i]
            yield f"pieces {i} and {j} swapped", other


def of_pieces(pieces, step):
    yield "intact", pieces
    yield from flips(pieces, (0, 4, 7) if step == 1 else (3,), step)
    yield from cuts(pieces, step)
    yield from garbage_between(pieces)
    yield from zeroed(pieces, 16, 3 * step)
    yield from swapped(pieces)


def of_inside(pieces, i, parts, wrap, step):
    """Of what piece i was made of, which is wrapped again: its checksum is right."""
    for name, damaged in of_pieces(parts, step):
        yield f"inside of piece {i}: {name}", [*pieces[:i], wrap(b"".join(damaged)), *pieces[i + 1 :]]


def of_file(file, step):
    """Of a format without pieces."""
    yield "intact", [file]
    yield from flips([file], (0, 4, 7) if step == 1 else (3,), step)
    yield from cuts([file], step)
    yield from zeroed([file], 16, 3 * step)
    yield "grown", [file + b"behind"]


def of_pair(index, data, step):
    """Of a file that says where another one's pieces stand; and of that one, which says nothing of itself."""
    yield "intact", [index, data]
    for damaged in (flips([index], range(8) if step == 1 else (3,), step), cuts([index], step),
                    zeroed([index], 4, 3 * step), [("grown", [index + b"behind"])]):
        yield from ((f"index: {name}", [pieces[0], data]) for name, pieces in damaged)
    for damaged in (flips([data], (4,), step), cuts([data], step), [("grown", [data + b"behind"])]):
        yield from ((f"data: {name}", [index, pieces[0]]) for name, pieces in damaged)
