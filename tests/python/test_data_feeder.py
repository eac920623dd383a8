"""DataFeeder: samples to arrays and LoD, and errors that name the slot and the sample."""

from __future__ import annotations

import pytest

numpy = pytest.importorskip("numpy")

from ringfeed.data_feeder import DataFeeder, Fed, Slot  # noqa: E402


def feed_one(entries, shape, dtype="float32", lod_level=0):
    (fed,) = DataFeeder([("x", shape, dtype, lod_level)]).feed([(entry,) for entry in entries])
    return fed


def assert_values(fed, expected, dtype):
    expected = numpy.array(expected, dtype)
    assert isinstance(fed, Fed)
    assert fed.values.dtype == expected.dtype
    assert fed.values.shape == expected.shape
    assert fed.values.flags["C_CONTIGUOUS"]
    numpy.testing.assert_array_equal(fed.values, expected)


# An entry as a program may hold it.
FORMS = {
    "list": lambda entry: entry,
    "tuple": lambda entry: tuple(entry),
    "array": lambda entry: numpy.array(entry),
    "strided": lambda entry: numpy.repeat(numpy.array(entry), 2, axis=0)[::2],
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


class TestDense:
    @forms
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "float16"])
    def test_stacks_samples(self, form, dtype):
        fed = feed_one([form([1, 2, 3]), form([4, 5, 6])], [3], dtype)
        assert_values(fed, [[1, 2, 3], [4, 5, 6]], dtype)
        assert fed.lod == []

    @forms
    @pytest.mark.parametrize("shape", [[3, 2], [-1, 3, 2], [-1, -1, 2], [-1, -1, -1]])
    def test_takes_the_batch_and_open_dimensions_from_the_data(self, form, shape):
        entry = [[1.5, 2], [3, 4], [5, 6]]
        assert_values(feed_one([form(entry)] * 4, shape), [entry] * 4, "float32")

    def test_reshapes_where_the_number_of_dimensions_differs(self):
        assert_values(feed_one([3, 5], [-1, 1], "int64"), [[3], [5]], "int64")
        assert_values(feed_one([[3], [5]], [-1], "int64"), [3, 5], "int64")
        fed = feed_one([range(6)] * 2, [-1, 1, 2, 3])
        assert_values(fed, [[[[0, 1, 2], [3, 4, 5]]]] * 2, "float32")
        fed = feed_one([numpy.arange(6)] * 2, [-1, -1, 3])
        assert_values(fed, [[[0, 1, 2], [3, 4, 5]]] * 2, "float32")

    def test_does_not_transpose_by_reshaping(self):
        with pytest.raises(ValueError, match=r"slot 'x', sample 0: an element of shape \[2, 3\]"):
            feed_one([numpy.zeros((2, 3))], [3, 2])

    def test_takes_numpy_scalars_and_arrays_without_dimensions(self):
        entries = [numpy.int32(4), numpy.array(5), 6]
        assert_values(feed_one(entries, [-1, 1], "int64"), [[4], [5], [6]], "int64")

    def test_takes_lists_among_arrays(self):
        assert_values(feed_one([[1, 2], numpy.array([3, 4])], [2]), [[1, 2], [3, 4]], "float32")
        assert_values(feed_one([numpy.array([3, 4]), [1, 2]], [2]), [[3, 4], [1, 2]], "float32")

    def test_shares_no_memory_with_the_samples(self):
        array = numpy.zeros((1, 4), "float32")
        fed = feed_one([array[0]], [4])
        assert not numpy.shares_memory(fed.values, array)
        fed.values[:] = 1
        assert array.sum() == 0

    def test_gives_no_rows_of_no_samples(self):
        fed = feed_one([], [-1, 3, -1], "int32")
        assert_values(fed, numpy.zeros((0, 3, 0)), "int32")

    def test_keeps_an_element_of_no_values(self):
        assert feed_one([[], []], [-1, -1], "int64").values.shape == (2, 0)


class TestDtype:
    @pytest.mark.parametrize("given", ["bool", "uint8", "int64", "float64", "float16"])
    def test_goes_from_any_number_to_floating_point(self, given):
        fed = feed_one([numpy.array([0, 1], given)], [2])
        assert_values(fed, [[0, 1]], "float32")

    @pytest.mark.parametrize(
        "dtype, value", [("uint8", 255), ("int8", -128), ("uint64", 2**64 - 1), ("int64", -(2**63))]
    )
    @pytest.mark.parametrize("form", [int, numpy.array, lambda value: [value]])
    def test_holds_integers_to_the_limits_of_the_type(self, dtype, value, form):
        assert feed_one([form(value)], [1], dtype).values.tolist() == [[value]]

    @pytest.mark.parametrize("others", [">f4", "float64", "int8", None])
    def test_takes_arrays_of_its_own_type_beside_others(self, others):
        own = numpy.array([1, 2], "float32")
        other = [3, 4] if others is None else numpy.array([3, 4], others)
        assert_values(feed_one([own, other, own], [2]), [[1, 2], [3, 4], [1, 2]], "float32")
        assert_values(feed_one([other, own], [2, 1]), [[[3], [4]], [[1], [2]]], "float32")
        assert_values(feed_one([own, own], [2, 1]), [[[1], [2]], [[1], [2]]], "float32")

    def test_names_the_array_of_another_shape(self):
        good, bad = numpy.zeros(2, "float32"), numpy.zeros(3, "float32")
        with pytest.raises(ValueError, match="slot 'x', sample 1: an element of shape"):
            feed_one([good, bad], [2])
        with pytest.raises(ValueError, match="slot 'x', sample 0: an element of shape"):
            feed_one([bad, bad], [2])

    def test_holds_both_limits_in_one_batch(self):
        fed = feed_one([2**63 + 1, 5], [1], "uint64")
        assert fed.values.tolist() == [[2**63 + 1], [5]]

    @pytest.mark.parametrize("dtype, value", [("uint8", 256), ("uint8", -1), ("int32", 2**31)])
    @pytest.mark.parametrize("form", [int, numpy.array, lambda value: [value]])
    def test_refuses_an_integer_that_does_not_fit(self, dtype, value, form):
        with pytest.raises(ValueError, match=f"slot 'x', sample 1: values of .* go into {dtype}"):
            feed_one([form(1), form(value)], [1], dtype)

    @pytest.mark.parametrize(
        "dtype, entry",
        [
            ("int64", 0.5),
            ("int64", [0.5]),
            ("int64", numpy.array([1.0])),
            ("bool", 1),
            ("float32", 1j),
            ("float32", "1"),
            ("float32", ["a"]),
            ("int64", b"1"),
            ("float32", None),
            ("int64", 2**70),
        ],
    )
    def test_refuses_what_the_type_cannot_hold(self, dtype, entry):
        good = True if dtype == "bool" else 1
        with pytest.raises(TypeError, match="slot 'x', sample 2: "):
            feed_one([good, good, entry], [1], dtype)

    def test_names_the_sample_that_is_no_array(self):
        class Elsewhere:
            def __array__(self, dtype=None, copy=None):
                raise TypeError("lies on a device")

        with pytest.raises(TypeError, match="slot 'x', sample 1: lies on a device"):
            feed_one([1, Elsewhere()], [1])


class TestRagged:
    """The ancestor's test_py_reader_error_msg: what is ragged must not become dense in silence."""

    def test_is_refused_within_a_sample(self):
        with pytest.raises(TypeError, match="slot 'x', sample 1: a ragged list .* lod_level=1"):
            feed_one([[[1, 2], [3, 4]], [[1, 2], [3]]], [2, 2])

    @pytest.mark.parametrize("form", [list, numpy.array])
    def test_is_refused_between_samples_of_an_open_shape(self, form):
        entries = [form([1, 2]), form([3, 4]), form([5])]
        with pytest.raises(
            TypeError, match=r"'x', sample 2: .* \[1\], but \[2\] in sample 0 .*lod"
        ):
            feed_one(entries, [-1, -1])

    @pytest.mark.parametrize("form", [list, numpy.array])
    def test_is_a_wrong_shape_where_the_shape_is_declared(self, form):
        with pytest.raises(ValueError, match=r"'x', sample 2: .* \[1\] where \[2\] is declared"):
            feed_one([form([1, 2]), form([3, 4]), form([5])], [2])

    def test_is_refused_as_an_array_of_objects(self):
        entry = numpy.empty(2, object)
        entry[:] = [[1, 2], [3]]
        with pytest.raises(TypeError, match="slot 'x', sample 0: a ragged list"):
            feed_one([entry], [2])


class TestLod:
    @forms
    def test_of_one_level_joins_sequences(self, form):
        fed = feed_one([form([1, 2, 3]), form([4]), form([5, 6])], [-1, 1], "int64", 1)
        assert_values(fed, [[1], [2], [3], [4], [5], [6]], "int64")
        assert fed.lod == [[0, 3, 4, 6]]

    @pytest.mark.parametrize("empty", [[], (), numpy.zeros((0,)), numpy.zeros((0, 2))])
    def test_keeps_empty_sequences(self, empty):
        fed = feed_one([empty, [[1, 2]], empty], [2], "int64", 1)
        assert_values(fed, [[1, 2]], "int64")
        assert fed.lod == [[0, 0, 1, 1]]

    def test_of_two_levels_has_the_top_level_first(self):
        fed = feed_one([[[1, 2, 3], [4]], [], [[5, 6], [], [7]]], [-1], "float32", 2)
        assert_values(fed, [1, 2, 3, 4, 5, 6, 7], "float32")
        assert fed.lod == [[0, 2, 2, 5], [0, 3, 4, 6, 6, 7]]

    def test_of_three_levels_takes_arrays_innermost(self):
        inner = [numpy.arange(6).reshape(3, 2), numpy.zeros((0, 2), "int64"), [[7, 8]]]
        fed = feed_one([[inner], [inner[:1], inner[2:]]], [-1, 2], "int64", 3)
        rows = [[0, 1], [2, 3], [4, 5]]
        assert_values(fed, rows + [[7, 8]] + rows + [[7, 8]], "int64")
        assert fed.lod == [[0, 1, 3], [0, 3, 4, 5], [0, 3, 3, 4, 7, 8]]

    def test_takes_an_array_for_several_levels(self):
        fed = feed_one([numpy.arange(6).reshape(2, 3)], [1], "int64", 2)
        assert_values(fed, [[0], [1], [2], [3], [4], [5]], "int64")
        assert fed.lod == [[0, 2], [0, 3, 6]]

    def test_takes_the_open_dimensions_from_the_data(self):
        fed = feed_one([[], [[1, 2, 3]], [[4, 5, 6], [7, 8, 9]]], [-1, -1], "float32", 1)
        assert_values(fed, [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "float32")
        assert fed.lod == [[0, 0, 1, 3]]

    def test_of_no_samples_or_only_empty_ones_has_no_values(self):
        assert feed_one([], [2], "int64", 2).lod == [[0], [0]]
        fed = feed_one([[], [[]]], [-1, -1, 2], "int64", 2)
        assert fed.values.shape == (0, 0, 2)
        assert fed.lod == [[0, 0, 1], [0, 0]]

    @pytest.mark.parametrize("entry", [5, "text", numpy.array(5), iter([1]), None, {1: 2}])
    def test_refuses_an_entry_that_is_no_sequence(self, entry):
        with pytest.raises(TypeError, match="slot 'x', sample 1: .* sequence"):
            feed_one([[1], entry], [1], "int64", 1)

    def test_refuses_nesting_that_is_not_deep_enough(self):
        with pytest.raises(
            TypeError, match="'x', sample 0: int where lod_level=2 .* 1 levels deep"
        ):
            feed_one([[1, 2]], [1], "int64", 2)

    def test_refuses_nesting_that_is_too_deep(self):
        with pytest.raises(TypeError, match="slot 'x', sample 1: a ragged list .* lod_level=2"):
            feed_one([[[1]], [[1, 2], [3]]], [1], "int64", 1)

    def test_refuses_a_wrong_element_and_names_its_sample(self):
        with pytest.raises(ValueError, match=r"'x', sample 1: .*\[3\] where \[2\] is declared"):
            feed_one([[[1, 2]], [[1, 2, 3]]], [2], "int64", 1)
        with pytest.raises(TypeError, match="'x', sample 2: values of float64"):
            feed_one([[1], [], [2, 0.5]], [1], "int64", 1)


class TestSamples:
    def test_give_one_array_per_slot(self):
        feeder = DataFeeder(
            [
                Slot("image", [-1, 2, 2], "float32"),
                ("label", [-1, 1], "int64", 0),
                ("words", [1], "int32", 1),
            ]
        )
        image, label, words = feeder.feed([[1, 2, 3, 4], i, [i] * i] for i in range(3))
        assert image.values.shape == (3, 2, 2)
        assert_values(label, [[0], [1], [2]], "int64")
        assert_values(words, [[1], [2], [2]], "int32")
        assert words.lod == [[0, 0, 1, 3]]
        assert [slot.name for slot in feeder.slots] == ["image", "label", "words"]

    def test_need_one_entry_per_slot(self):
        feeder = DataFeeder([("a", [1], "int64", 0), ("b", [1], "int64", 0)])
        with pytest.raises(ValueError, match="sample 1 has 3 entries where 2 slots are declared"):
            feeder.feed([(1, 2), (1, 2, 3)])
        with pytest.raises(TypeError, match="sample 1 is no tuple of entries but int"):
            feeder.feed([(1, 2), 3])

    @pytest.mark.parametrize(
        "slots, error",
        [
            ([], ValueError),
            ([("x", [1], "no type", 0)], TypeError),
            ([("x", [-2], "int64", 0)], ValueError),
            ([("x", ["1"], "int64", 0)], TypeError),
            ([("x", [1], "int64", -1)], ValueError),
            ([("x", [1])], TypeError),
        ],
    )
    def test_need_slots_that_make_sense(self, slots, error):
        with pytest.raises(error):
            DataFeeder(slots)


class TestTheWayAtOnce:
    """Many small elements take another way than arrays: both give the same."""

    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
    @pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
    @pytest.mark.parametrize("lod_level", [0, 1, 2])
    def test_gives_what_the_way_block_by_block_gives(self, shape, dtype, lod_level):
        random = numpy.random.default_rng(5)

        def draw(levels):
            if levels > 0:
                return [draw(levels - 1) for _ in range(random.integers(0, 4))]
            return random.integers(0, 100, shape)

        def innermost_to(form, entry, levels):
            if levels > 0:
                return [innermost_to(form, part, levels - 1) for part in entry]
            return form(entry)

        entries = [draw(lod_level) for _ in range(20)]
        lists = [innermost_to(lambda array: array.tolist(), e, lod_level) for e in entries]
        slot_shape = [-1, *shape]
        by_lists = feed_one(lists, slot_shape, dtype, lod_level)
        by_arrays = feed_one(entries, slot_shape, dtype, lod_level)
        assert by_lists.lod == by_arrays.lod
        assert len(by_lists.values) == (20 if lod_level == 0 else by_lists.lod[-1][-1])
        assert_values(by_lists, by_arrays.values, dtype)
