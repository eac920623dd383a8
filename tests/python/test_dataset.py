"""Data sets and parsers that are Python classes."""

from __future__ import annotations

import traceback
from decimal import Decimal
from fractions import Fraction

import pytest

import ringfeed

numpy = pytest.importorskip("numpy")


class Numbers(ringfeed.RandomAccessDataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return str(index).encode()


class Squares(ringfeed.Parser):
    fields = {"x": ("int64", ()), "row": ("float32", (2,))}

    def parse(self, sample):
        x = int(sample)
        return {"x": x, "row": [x, x * x]}


def values(array):
    return numpy.from_dlpack(array).tolist()


def test_samples_are_parsed_shuffled_and_batched_in_every_pass():
    chain = ringfeed.parse(ringfeed.from_dataset(Numbers(20)), Squares())
    chain = ringfeed.batch(ringfeed.shuffle(chain, "window", 8, seed=1), 5)
    for _ in range(2):
        batches = [(values(x), values(row)) for x, row in chain]
        xs = sum((x for x, _ in batches), [])
        assert sorted(xs) == list(range(20)) and xs != list(range(20))
        assert sum((row for _, row in batches), []) == [[x, x * x] for x in xs]
        chain.reset()


def test_a_data_set_that_raises_ends_the_stream_behind_its_samples():
    class Failing(ringfeed.Dataset):
        given = 0

        def next(self):
            self.given += 1
            if self.given > 2:
                raise KeyError("third")
            return b"7"

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Failing()), Squares()), 1)
    assert [values(next(chain)[0]), values(next(chain)[0])] == [[7], [7]]
    with pytest.raises(KeyError, match="third") as caught:
        next(chain)
    assert "next" in [f.name for f in traceback.extract_tb(caught.value.__traceback__)]


def test_numbers_that_an_integer_field_holds_may_be_of_another_type():
    class Whole(Squares):
        def parse(self, sample):
            return {"x": number, "row": [numpy.int8(1), 2.5]}

    for number in (300.0, Decimal(300), Fraction(600, 2), 300 + 0j, numpy.array(300, object)):
        chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Numbers(1)), Whole()), 1)
        x, row = next(chain)
        assert (values(x), values(row)) == ([300], [[1.0, 2.5]])


def test_a_parser_that_raises_gives_its_own_exception():
    class Bad(Squares):
        def parse(self, sample):
            raise ArithmeticError("not today")

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Numbers(3)), Bad()), 1)
    with pytest.raises(ArithmeticError, match="not today"):
        next(chain)


@pytest.mark.parametrize(
    "values, error, message",
    [
        (([1, 2], [0, 0]), ValueError, r'"x" has int64 \[\] a record, of 8 bytes.* \[2\] of 16'),
        ((b"12", [0, 0]), ValueError, r'"x" has int64 .* of 8 bytes, got 2 bytes'),
        (("a", [0, 0]), ValueError, r'"x" is no int64: invalid literal'),
        ((2**80, [0, 0]), ValueError, r'"x" is no int64: '),
        (({}, [0, 0]), TypeError, r'"x" is no int64: '),
        ((300.5, [0, 0]), ValueError, r'"x" is no int64: it cannot hold 300\.5\n'),
        ((numpy.float32(-0.5), [0, 0]), ValueError, r'"x" is no int64: it cannot hold -0\.5\n'),
        (([1e30], [0, 0]), ValueError, r'"x" is no int64: it cannot hold 1e\+30\n'),
        ((numpy.array([numpy.nan]), [0, 0]), ValueError, r'"x" is no int64: it cannot hold nan\n'),
        ((Decimal("300.7"), [0, 0]), ValueError, r'"x" is no int64: it cannot hold 300\.7\n'),
        ((Fraction(7, 2), [0, 0]), ValueError, r'"x" is no int64: it cannot hold 7/2\n'),
        ((1 + 2j, [0, 0]), ValueError, r'"x" is no int64: it cannot hold \(1\+2j\)\n'),
        (
            (numpy.array([1.5], dtype=object), [0, 0]),
            ValueError,
            r'"x" is no int64: it cannot hold 1\.5\n',
        ),
        ((numpy.uint64(2**63), [0, 0]), ValueError, r'"x" is no int64: it cannot hold 922'),
        ((1, [1.0]), ValueError, r'"row" has float32 \[2\] .* 8 bytes, .* \[1\] of 4 bytes'),
        ((1, [1.0, 2.0, 3.0]), ValueError, r'"row" has float32 \[2\] a record, of 8 bytes'),
        ((1, [[1.0], [2.0, 3.0]]), ValueError, r'"row" is no float32: '),
    ],
)
def test_a_value_that_does_not_fit_names_the_class_and_the_field(values, error, message):
    class Wrong(Squares):
        def parse(self, sample):
            return values

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Numbers(3)), Wrong()), 1)
    with pytest.raises(error, match=f"Wrong.parse: field {message}"):
        next(chain)


def test_a_ragged_value_of_half_a_unit_names_the_class_and_the_field():
    class Pairs(ringfeed.Parser):
        fields = {"x": ("int64", (-1, 2))}

        def parse(self, sample):
            return {"x": [1] * (4 + (sample == b"1"))}

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Numbers(3)), Pairs()), 1)
    (first,) = next(chain)
    assert first.shape == (2, 2)
    with pytest.raises(ValueError, match='Pairs.parse: field "x" has .* units of 16 bytes.* 40'):
        next(chain)


@pytest.mark.parametrize("row", [{"x": 1}, {"x": 1, "row": None}, (1,), [1, None]])
def test_a_field_that_is_not_written_is_an_error_by_its_name(row):
    class Half(Squares):
        def parse(self, sample):
            return row if sample == b"2" else super().parse(sample)

    chain = ringfeed.parse(ringfeed.from_dataset(Numbers(5)), Half())
    chain = ringfeed.batch(chain, 1)
    assert [values(next(chain)[0]) for _ in range(2)] == [[0], [1]]
    with pytest.raises(ValueError, match='field "row" was not written by Half.parse'):
        next(chain)


def test_a_parser_that_returns_nothing_wrote_no_field():
    class Forgot(Squares):
        def parse(self, sample):
            super().parse(sample)

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Numbers(3)), Forgot()), 1)
    with pytest.raises(ValueError, match='field "x" was not written by Forgot.parse'):
        next(chain)


def test_a_data_set_without_reset_cannot_start_again():
    class Once(ringfeed.Dataset):
        given = 0

        def next(self):
            self.given += 1
            return b"1" if self.given == 1 else None

    chain = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Once()), Squares()), 1)
    assert len(list(chain)) == 1
    with pytest.raises(ringfeed.Error):
        chain.reset()
        next(chain)


def test_an_iterator_is_a_reader_of_a_chain_in_every_pass():
    def rows():
        for i in range(10):
            yield [numpy.full((1, 2), i, numpy.float32)]

    reader = ringfeed.from_iterable(rows, [("x", "float32", (-1, 2))])
    chain = ringfeed.batch(reader, 4)
    for _ in range(2):
        assert [len(values(batch[0])) for batch in chain] == [4, 4, 2]
        chain.reset()


def test_what_an_iterator_raises_comes_out_behind_its_rows():
    def rows():
        yield [numpy.zeros((1,), numpy.float32)]
        raise KeyError("second")

    reader = ringfeed.from_iterable(rows, [("x", "float32", (-1,))])
    assert values(next(reader)[0]) == [0]
    with pytest.raises(KeyError, match="second"):
        next(reader)


def test_a_row_that_is_no_array_names_its_slot():
    reader = ringfeed.from_iterable(lambda: [[7]], [("x", "float32", (-1,))])
    with pytest.raises(ringfeed.Error, match='slot 0 "x"'):
        next(reader)


class Counted(ringfeed.Dataset):
    """Counts what it made, and the most beyond what the loop asked for."""

    def __init__(self, count):
        self.count = count
        self.made = self.asked = self.most_ahead = 0

    def next(self):
        if self.made == self.count:
            return None
        self.made += 1
        self.most_ahead = max(self.most_ahead, self.made - self.asked)
        return b"%d" % self.made


@pytest.mark.parametrize("slots, ahead, most", [(0, 0, 15), (3, 0, 10), (0, 7, 7), (0, 100, 100)])
def test_samples_are_made_as_far_ahead_as_is_said(slots, ahead, most):
    counted = Counted(400)
    samples = ringfeed.parse(ringfeed.from_dataset(counted, ahead=ahead), Squares())
    rows = 0
    counted.asked += 5
    for x, _ in ringfeed.batch(samples, 5, slots=slots):
        rows += len(x)
        counted.asked += 5
    assert rows == 400 and counted.most_ahead <= most


def test_bytes_bound_what_is_made_ahead_too():
    counted = Counted(400)
    samples = ringfeed.parse(ringfeed.from_dataset(counted, ahead_bytes=12), Squares())
    counted.asked += 1
    for _ in ringfeed.batch(samples, 1):
        counted.asked += 1
    assert counted.made == 400 and counted.most_ahead <= 12


def test_an_iterators_items_are_counted_likewise():
    most = made = asked = 0

    def rows():
        nonlocal most, made
        for i in range(100):
            made += 1
            most = max(most, made - asked)
            yield [numpy.array([i])]

    reader = ringfeed.from_iterable(rows, [("x", "int64", [-1])])
    asked += 1
    for _ in reader:
        asked += 1
    assert made == 100 and most <= 4


def test_a_number_ahead_that_cannot_be_is_refused():
    for wrong in (-1, 1.5, "all"):
        with pytest.raises((TypeError, ValueError), match="ahead"):
            ringfeed.from_dataset(Numbers(3), ahead=wrong)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="^ahead and ahead_bytes"):
        ringfeed.open_files(__file__, ahead=3)
