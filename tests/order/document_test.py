#!/usr/bin/env python3
"""docs/ORDER.md holds what it says: every line of its blocks marked `order` is computed again by the
reference, and where it is an order or batches, delivered by the engine.

document_test.py DRIVER DOCUMENT; with --write the document's results are replaced by the reference's.

A line is "STEP | STEP … = RESULT". The first step is the data, ten records of 2,048 bytes in three
files, or a formula's name; in a result "x" is a hole, "-" a row of padding, and […] a batch.
"""

import argparse
import pathlib
import re
import sys
import tempfile
from fractions import Fraction

import reference
from data_files import DataFile, flipped, record_of, tfrecord_frame
from random_configurations import Driver

FILES = {"a": range(0, 4), "b": range(4, 8), "c": range(8, 10)}
RECORD_BYTES = 2048
STRIPE_BYTES, CYCLE = 4096, 2
SPEED = "threads=2 io=auto block=4096"
#: A record's number in its file; 0 is padding there.
ID_OF_ROW = 1


def number(words, name, otherwise=0):
    return int(words[words.index(name) + 1]) if name in words else otherwise


# ---- By the reference ----


def example(damaged, kept, order, first_epoch):
    files = [reference.FileRecords(RECORD_BYTES * len(rows), [
        (RECORD_BYTES * i, reference.HOLE if row in damaged else row)
        for i, row in enumerate(rows)]) for rows in FILES.values()]
    files = reference.without(files, kept)
    return reference.DataSet(files, order, CYCLE, STRIPE_BYTES, first_epoch)


class Example:
    """An order or batches of the ten records, step by step."""

    def __init__(self, steps):
        self.steps = [step.split() for step in steps]
        first = self.steps[0]
        self.damaged = [int(word) for word in self.steps[0][first.index("damaged") + 1:]
                        ] if "damaged" in first else []
        self.kept = [int(word) for word in first[first.index("kept") + 1:]] if "kept" in first else None
        self.epoch = number(first, "epoch")
        self.order = reference.FileOrder(number(first, "shuffled") if "shuffled" in first else None)
        self.rank = next((words for words in self.steps if words[0] == "rank"), None)
        self.padded = any("pad" in words for words in self.steps)

    def stage(self):
        data = example(self.damaged, self.kept, self.order, self.epoch)
        stage = data.as_read()
        if self.steps[0][0] == "mix":
            stage = self.mixture()
        for words in self.steps[1:]:
            stage = self.add(data, stage, words)
        return stage

    def mixture(self):
        """Each file is a set of its own: weights in their order, and others from a step on."""
        words, change = self.steps[0], None
        weights = [Fraction(word) for word in words[1:4]]
        if "from" in words:
            size = next(int(step[1]) for step in self.steps if step[0] == "batch")
            change = (0, number(words, "from") * size, [Fraction(word) for word in words[6:9]])
        return reference.Mix([
            reference.MixedSet(lambda _, rows=list(rows): rows, weight)
            for rows, weight in zip(FILES.values(), weights)], change).stage

    def add(self, data, stage, words):
        seed = number(words, "seed")
        if words[0] == "window":
            return reference.window_shuffle(stage, int(words[1]), seed, self.epoch)
        if words[0] == "block":
            return reference.block_shuffle(stage, int(words[1]), seed, self.epoch)
        if words[0] == "stripes":
            return data.blocks(number(words, "window"), seed)
        if words[0] == "global":
            return data.globally(seed)
        if words[0] == "passes":
            return reference.join_passes(stage, int(words[1]))
        if words[0] == "batch":
            return reference.batches(stage, int(words[1]), "drop" in words)
        assert words[0] == "rank", words
        return stage

    def text(self):
        """As the document has it."""
        places = self.stage()(0)
        if not any(words[0] == "batch" for words in self.steps):
            return " ".join("x" if place is reference.HOLE else str(place) for place in places)
        rank, ranks = (int(self.rank[1]), int(self.rank[3])) if self.rank else (0, 1)
        texts = []
        for batch in places:
            rows = ["x" if row is reference.HOLE else str(row)
                    for row in batch.of_rank(rank, ranks)]
            if self.padded:
                rows += ["-"] * (batch.size // ranks - len(rows))
            texts.append(f"[{' '.join(rows)}]")
        return " ".join(texts)


def draws_text(words):
    purpose = {"window": 1, "block": 2, "files": 3, "stripes": 6, "rows": 7}[words[1]]
    return " ".join(str(reference.draw(number(words, "seed"), number(words, "epoch"), purpose, t))
                    for t in range(number(words, "first", 4)))


def row_text(words):
    draws = reference.row_draws(number(words, "seed"), number(words, "epoch"),
                                number(words, "file"), number(words, "record"))
    return " ".join(str(draws(k)) for k in range(number(words, "first", 2)))


def philox_text(words):
    values = [int(word, 0) for word in words[1:]]
    return " ".join(f"0x{word:08X}"
                    for word in reference.philox4x32_10(tuple(values[:4]), tuple(values[4:])))


def keys_text(words):
    """Keys of a window shuffle, to three digits."""
    window, seed, epoch = number(words, "window"), number(words, "seed"), number(words, "epoch")
    return " ".join(f"{i + window * reference.draw(seed, epoch, 1, i) / 2 ** 32:.3f}"
                    for i in range(10))


def permutation_of(words):
    purpose = {"stripes": 6, "rows": 7, "documents": 11}[words[3]]
    return reference.KeyedPermutation(int(words[1]), number(words, "seed"), number(words, "epoch"),
                                      purpose)


def permutation_text(words):
    return " ".join(str(each) for each in permutation_of(words).all())


def walk_text(words):
    """Row and column of one number behind each round of its first way through, and what comes out of
    each of them."""
    permutation, value = permutation_of(words), number(words, "start")
    text = ", ".join(f"{row}:{column}" for row, column in permutation.rounds(value))
    while True:
        value = permutation.once(value)
        text += f" → {value}"
        if value < permutation.size:
            return text


def turns_text(words):
    weights = [Fraction(word) for word in words[1:4]]
    return " ".join("abc"[giver] for giver in
                    reference.deal(weights, [len(rows) for rows in FILES.values()]))


FORMULAS = {"draws": draws_text, "row": row_text, "philox": philox_text, "keys": keys_text, "turns": turns_text,
            "permutation": permutation_text, "walk": walk_text}


# ---- By the engine ----


def make_files(folder, damaged, alone):
    """The three files, or, `alone`, each of a mixture."""
    paths = []
    for name, rows in FILES.items():
        pieces = []
        for row in rows:
            piece = tfrecord_frame(record_of(row + ID_OF_ROW, RECORD_BYTES - 16))
            pieces.append(flipped(piece, 50, 0) if row in damaged else piece)
        path = f"{folder}/{name}{'-' if alone else ''}{''.join(map(str, damaged))}.tfrecord"
        DataFile(path, "tfrecord", pieces, [])
        paths.append(path)
    return paths


def set_words(prefix, files, shuffled, epoch, chain, weight, kept=None):
    words = {"files": ",".join(files), "order": f"{shuffled}:0:0:1", "format": "tfrecord",
             "cycle": CYCLE, "stripe": STRIPE_BYTES, "damage": "skip", "index": "as_needed",
             "epoch": epoch, "chain": chain, "weight": weight, "passes": 1, "most": 0}
    if kept is not None:
        words["kept"] = ",".join(map(str, kept))
    return " ".join(f"{prefix}.{key}={value}" for key, value in words.items())


def step_of_driver(words):
    seed = number(words, "seed")
    if words[0] == "batch":
        return f"parse;batch:{words[1]}:{words[2] if len(words) > 2 else 'keep'}"
    return {"window": f"window:{words[1]}:{seed}", "block": f"block:{words[1]}:{seed}",
            "stripes": f"blocks:{number(words, 'window')}:{seed}", "global": f"global:0:{seed}",
            "passes": f"multipass:{words[1]}"}[words[0]]


def line_of_driver(one, folder):
    steps = [step_of_driver(words) for words in one.steps[1:] if words[0] != "rank"]
    paths = make_files(folder, one.damaged, one.steps[0][0] == "mix")
    rank, ranks = (one.rank[1], one.rank[3]) if one.rank else (0, 1)
    shuffled = "none" if one.order.seed is None else one.order.seed
    if one.steps[0][0] == "mix":
        words = one.steps[0]
        weights = ["1"] * 3 if "from" in words else words[1:4]
        sets = [set_words(i, [path], "none", 0, "", weight)
                for i, (path, weight) in enumerate(zip(paths, weights))]
        if "from" in words:
            sets.append(f"schedule=0:{','.join(words[1:4])}/{words[5]}:{','.join(words[6:9])}")
    else:
        sets = [set_words(0, paths, shuffled, one.epoch, "", 1, one.kept)]
    count = 3 if one.steps[0][0] == "mix" else 1
    return (f"sets={count} mix={int(count > 1)} epoch={one.epoch} "
            f"damage=skip "
            f"chain={';'.join(steps) or 'multipass:1'} rank={rank} ranks={ranks} {SPEED} " +
            " ".join(sets))


def delivered(one, driver, folder):
    """What the engine hands out: [(number, rows)], rows of padding as "-"."""
    found, status, _ = driver.answer(line_of_driver(one, folder))
    if status != "ok":
        return status
    return [(batch, [str(row - ID_OF_ROW) if row else "-" for row in rows]) for batch, rows in found]


def promised(one, text):
    """The same from the document's result; holes are left out, or padding where that is asked for.
    Of one of several ranks a batch without rows is handed out, too."""
    groups = re.findall(r"\[([^]]*)\]", text) if "[" in text else text.split()
    result = []
    for batch, group in enumerate(groups):
        rows = ["-" if row == "x" and one.padded else row for row in group.split()]
        rows = [row for row in rows if row != "x"]
        if rows or one.rank:
            result.append((batch, rows))
    return result


# ---- The document ----


def lines_of(text):
    """(number of the line, formula, result) of every line in a block marked `order`."""
    inside = False
    for place, line in enumerate(text.split("\n")):
        if line.startswith("```"):
            inside = line == "```order"
        elif inside and line.strip():
            formula, _, result = line.partition("=")
            yield place, formula.strip(), result.strip()


def computed(formula):
    steps = [step.strip() for step in formula.split("|")]
    kind = steps[0].split()[0]
    return FORMULAS[kind](formula.split()) if kind in FORMULAS else Example(steps).text()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("driver")
    parser.add_argument("document", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    reference.check_known_answer()
    text = options.document.read_text()
    if options.write:
        lines = text.split("\n")
        for place, formula, _ in lines_of(text):
            lines[place] = f"{lines[place].partition('=')[0].rstrip()} = {computed(formula)}"
        options.document.write_text("\n".join(lines))
        return 0
    wrong, orders, formulas = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        driver = Driver(options.driver, log)
        for place, formula, result in lines_of(text):
            expected = computed(formula)
            if result != expected:
                wrong += 1
                print(f"line {place + 1}: {formula} = {result}, but it is {expected}")
            if formula.split()[0] in FORMULAS:
                formulas += 1
                continue
            orders += 1
            one = Example([step.strip() for step in formula.split("|")])
            found = delivered(one, driver, folder)
            if found != promised(one, expected):
                wrong += 1
                print(f"line {place + 1}: {formula}: the engine delivers {found}, expected "
                      f"{promised(one, expected)}")
        driver.close()
    print(f"{orders} orders and {formulas} formulas, {wrong} wrong")
    return 0 if wrong == 0 and orders >= 10 and formulas >= 5 else 1


if __name__ == "__main__":
    sys.exit(main())
