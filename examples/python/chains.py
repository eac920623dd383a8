"""Chains of one's own: rows cut, filled up, packed and put together by their lengths; sets that are
mixed, shared, kept in part and computed with.

    python chains.py        # makes its data in a folder that goes away again
"""

import ctypes
import json
import os
import tempfile

import ringfeed

SENTENCE = [ringfeed.Field("words", "int64", [-1])]
NUMBER = {"n": ("int64", [])}
NUMBERS = ctypes.POINTER(ctypes.c_int64)


def write_sentences(path: str) -> None:
    """Sentences of 1 to 8 words, each a number."""
    with ringfeed.open_record_writer(path, "jsonl") as writer:
        for row in range(40):
            writer.write(json.dumps({"words": list(range(1 + row % 8))}).encode())


def sentences(path: str) -> ringfeed.Reader:
    """A chain's beginning: what follows stands on it."""
    records = ringfeed.open_files(path, cycle=1)
    return ringfeed.parse(records, ringfeed.jsonl(SENTENCE))


def by_their_lengths(path: str) -> None:
    """Four ways to make batches of rows that are not equally long."""
    filled = ringfeed.pad(ringfeed.truncate(sentences(path), "words", 5), "words", length=5)
    words, lengths = next(ringfeed.batch(filled, 8))
    assert words.shape == (8, 5) and max(lengths.tolist()) == 5

    short_and_long = ringfeed.bucket_batch(sentences(path), 4, "words", bounds=[4])
    for (words,) in short_and_long:  # no row of up to 4 words beside one of more
        ends = words.lod[0].tolist()
        assert len({end - start <= 4 for start, end in zip(ends, ends[1:])}) == 1

    for (words,) in ringfeed.token_batch(sentences(path), "words", tokens=16):
        assert len(words) <= 16

    packed = ringfeed.pack(sentences(path), "words", length=8, rows=4)
    words, segments, _ = next(packed)  # several sentences in a row, told apart by their segments
    assert words.shape == segments.shape == (4, 8)


def numbers(folder: str, name: str, first: int, count: int) -> ringfeed.Reader:
    """A line for each number of a set."""
    path = os.path.join(folder, name)
    with ringfeed.open_record_writer(path, "lines") as writer:
        for number in range(first, first + count):
            writer.write(b"%d" % number)
    return ringfeed.open_files(path, format="lines")


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(NUMBERS), NUMBERS, ctypes.POINTER(NUMBERS))
def square(inputs, input_bytes, outputs):
    """In earnest it is compiled, by Numba or in C: this one holds Python's lock."""
    outputs[0][0] = inputs[0][0] ** 2
    return 0


def sets_together(folder: str) -> None:
    """Sets by shares, groups, halves, and squares."""
    number = ringfeed.csv(NUMBER)
    wide, narrow = numbers(folder, "wide", 0, 300), numbers(folder, "narrow", 1000, 100)
    mixed = ringfeed.batch(ringfeed.parse(ringfeed.mix([(wide, 3), (narrow, 1)]), number), 4)
    for (batch,) in ringfeed.double_buffer(mixed, slots=2):
        assert sum(n >= 1000 for n in batch.tolist()) == 1  # of each four exactly one

    wide, narrow = numbers(folder, "wide", 0, 300), numbers(folder, "narrow", 1000, 100)
    schedule = [(0, (3, 1)), (20, (1, 1))]  # from batch 20 on as many of each
    mixed = ringfeed.batch(ringfeed.parse(ringfeed.mix([wide, narrow], schedule), number), 4)
    for step, (batch,) in zip(range(40), ringfeed.double_buffer(mixed, slots=2)):
        assert sum(n >= 1000 for n in batch.tolist()) == (1 if step < 20 else 2)

    by_parity = ringfeed.group_batch(
        ringfeed.parse(numbers(folder, "a", 0, 64), number), 8, lambda record: int(record) % 2
    )
    for (batch,) in by_parity:
        assert len({n % 2 for n in batch.tolist()}) == 1

    even = ringfeed.filter(numbers(folder, "b", 0, 20), lambda record: int(record) % 2 == 0)
    squares = ringfeed.map(
        ringfeed.parse(even, number), ringfeed.compiled(square, outputs={"square": ("int64", [])})
    )
    (batch,) = next(ringfeed.batch(squares, 10))
    assert batch.tolist() == [n * n for n in range(0, 20, 2)]

    source = ringfeed.share(ringfeed.parse(numbers(folder, "c", 0, 40), number))
    left, right = ringfeed.batch(source, 5), ringfeed.batch(source, 5)
    taken = [n for side in (left, right) for (batch,) in side for n in batch.tolist()]
    assert sorted(taken) == list(range(40))  # whoever asks first: together everything once


def passes(folder: str) -> None:
    """Where one pass ends and the next begins, and a window of the caller's own."""
    number = ringfeed.parse(numbers(folder, "d", 0, 8), ringfeed.csv(NUMBER))
    twice = ringfeed.batch(ringfeed.multi_pass(number, 2), 4)
    seen = []
    while (at := ringfeed.next_pass(twice)) is not None:
        next(twice)
        seen.append(at)
    assert seen == [0, 0, 1, 1]

    window = ringfeed.Shuffle("window", 4, seed=7)
    options = {"format": "lines", "parse": ringfeed.csv(NUMBER), "batch": 8, "shuffle": window}
    with ringfeed.Loader(os.path.join(folder, "d"), **options) as loader:
        assert sorted(next(loader)["n"].tolist()) == list(range(8))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sentences.jsonl")
        write_sentences(path)
        by_their_lengths(path)
        sets_together(folder)
        passes(folder)
    print("4 ways by length, 4 of sets, 2 passes")


if __name__ == "__main__":
    main()
