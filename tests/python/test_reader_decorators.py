"""The decorators of reader creators: what they deliver, and how a pass ends."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref

import pytest

from ringfeed import reader

pytestmark = pytest.mark.timeout(120)


def numbers(stop, start=0):
    """A creator of a generator, which can be closed, over range(start, stop)."""

    def creator():
        yield from range(start, stop)

    return creator


def endless():
    return itertools.count()


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("ringfeed-")]


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "did not happen within 30 s"
        time.sleep(0.002)


@pytest.fixture(autouse=True)
def no_thread_left():
    yield
    gc.collect()
    assert own_threads() == []


class Tracked:
    """A creator whose iterators tell whether they were opened and closed."""

    def __init__(self, samples):
        self.samples = samples
        self.opened = 0
        self.closed = 0

    def __call__(self):
        self.opened += 1
        try:
            yield from self.samples
        finally:
            self.closed += 1


class BrokenFile(Exception):
    pass


def failing_after(count):
    def creator():
        yield from range(count)
        raise BrokenFile(f"record {count}")

    return creator


# One decorator each over one creator, with the samples unchanged or wrapped.
OVER_ONE = {
    "cache": reader.cache,
    "map_readers": lambda r: reader.map_readers(lambda x: x, r),
    "shuffle": lambda r: reader.shuffle(r, 2, seed=1),
    "chain": reader.chain,
    "compose": reader.compose,
    "firstn": lambda r: reader.firstn(r, 1000),
    "batch": lambda r: reader.batch(r, 1),
    "buffered": lambda r: reader.buffered(r, 3),
    "xmap": lambda r: reader.xmap_readers(lambda x: x, r, 3, 2),
    "xmap ordered": lambda r: reader.xmap_readers(lambda x: x, r, 3, 2, order=True),
}
over_one = pytest.mark.parametrize("decorate", OVER_ONE.values(), ids=OVER_ONE.keys())
# Those that hand out a sample before the pass is read.
STREAMING = {name: decorate for name, decorate in OVER_ONE.items() if name != "cache"}
streaming = pytest.mark.parametrize("decorate", STREAMING.values(), ids=STREAMING.keys())
THREADED = {name: OVER_ONE[name] for name in ("buffered", "xmap", "xmap ordered")}
threaded = pytest.mark.parametrize("decorate", THREADED.values(), ids=THREADED.keys())


class TestEveryDecorator:
    @over_one
    def test_opens_nothing_before_the_first_next(self, decorate):
        inner = Tracked(range(5))
        iterator = decorate(inner)()
        assert inner.opened == 0
        next(iter(iterator))
        assert inner.opened == 1

    @over_one
    def test_closes_the_inner_iterator_at_the_end(self, decorate):
        inner = Tracked(range(5))
        assert len(list(decorate(inner)())) == 5
        assert (inner.opened, inner.closed) == (1, 1)

    @streaming
    def test_closes_the_inner_iterator_when_closed(self, decorate):
        inner = Tracked(endless())
        iterator = decorate(inner)()
        next(iterator)
        iterator.close()
        assert (inner.opened, inner.closed) == (1, 1)
        assert list(iterator) == []

    @streaming
    def test_closes_the_inner_iterator_when_dropped(self, decorate):
        inner = Tracked(endless())
        iterator = decorate(inner)()
        next(iterator)
        del iterator
        assert (inner.opened, inner.closed) == (1, 1)

    @over_one
    def test_hands_on_an_exception_with_its_traceback(self, decorate):
        iterator = decorate(failing_after(4))()
        with pytest.raises(BrokenFile, match="record 4") as caught:
            list(iterator)
        frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert frames[-1] == "creator"
        assert next(iterator, None) is None, "an iterator that failed has ended"

    @over_one
    def test_hands_on_an_exception_of_opening(self, decorate):
        def missing():
            raise FileNotFoundError("train.txt")

        with pytest.raises(FileNotFoundError, match="train.txt"):
            list(decorate(missing)())

    @over_one
    def test_takes_a_stop_iteration_of_opening_for_no_end(self, decorate):
        def wrong():
            raise StopIteration

        with pytest.raises(RuntimeError):
            list(decorate(wrong)())

    @over_one
    def test_gives_independent_iterators(self, decorate):
        creator = decorate(numbers(7))
        alone = sorted(map(str, creator()))
        first, second = creator(), creator()
        both = [(str(a), str(b)) for a, b in zip(first, second)]
        assert sorted(a for a, _ in both) == alone
        assert sorted(b for _, b in both) == alone

    @over_one
    def test_gives_iterators_to_several_threads(self, decorate):
        creator = decorate(numbers(200))
        expected = sorted(map(str, creator()))
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(sorted(map(str, creator()))))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [expected] * 4

    @over_one
    def test_gives_nothing_over_nothing(self, decorate):
        assert list(decorate(numbers(0))()) == []

    @over_one
    def test_refuses_what_is_no_creator(self, decorate):
        with pytest.raises(TypeError, match="a reader is a function, not list"):
            decorate([1, 2, 3])

    def test_can_be_stacked(self):
        samples = reader.shuffle(reader.chain(numbers(30), numbers(60, 30)), 16, seed=3)
        mapped = reader.xmap_readers(lambda x: x * 10, reader.buffered(samples, 4), 2, 3)
        batches = list(reader.batch(reader.buffered(mapped, 2), 8)())
        assert [len(batch) for batch in batches] == [8] * 7 + [4]
        assert sorted(sum(batches, [])) == [10 * i for i in range(60)]


class TestCache:
    def test_reads_once_for_all_passes(self):
        inner = Tracked([object() for _ in range(5)])
        cached = reader.cache(inner)
        assert list(cached()) == inner.samples
        assert list(cached()) == inner.samples
        assert inner.opened == 1

    def test_reads_once_for_threads_that_begin_together(self):
        inner = Tracked(range(1000))
        cached = reader.cache(inner)
        together = threading.Barrier(4)
        results = []

        def one_pass():
            together.wait()
            results.append(list(cached()))

        threads = [threading.Thread(target=one_pass) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [list(range(1000))] * 4
        assert inner.opened == 1

    def test_remembers_that_there_is_nothing(self):
        inner = Tracked([])
        cached = reader.cache(inner)
        assert list(cached()) == list(cached()) == []
        assert inner.opened == 1

    def test_keeps_nothing_of_a_pass_that_failed(self):
        passes = [failing_after(2), numbers(4)]
        cached = reader.cache(lambda: passes.pop(0)())
        with pytest.raises(BrokenFile):
            next(cached())
        assert list(cached()) == [0, 1, 2, 3]


class TestMapReaders:
    def test_calls_with_a_sample_of_each(self):
        lists = {"h": 0, "i": 1}
        swapped = reader.map_readers(lambda x: lists[x], lambda: iter("hi"))
        assert list(swapped()) == [0, 1]
        added = reader.map_readers(lambda x, y: x + y, numbers(5), numbers(15, 10))
        assert list(added()) == [10, 12, 14, 16, 18]

    def test_ends_with_the_shortest(self):
        assert list(reader.map_readers(max, numbers(3), numbers(9))()) == [0, 1, 2]

    def test_takes_a_stop_iteration_of_the_function_for_no_end(self):
        def func(x):
            return next(iter(()))

        with pytest.raises(RuntimeError):
            list(reader.map_readers(func, numbers(3))())

    def test_refuses_no_reader(self):
        with pytest.raises(ValueError, match="no reader given"):
            reader.map_readers(max)


class TestShuffle:
    @pytest.mark.parametrize("seed", [None, 5])
    @pytest.mark.parametrize("size", [0, 1, 10, 100])
    def test_keeps_every_sample_in_its_block(self, size, seed):
        shuffled = list(reader.shuffle(numbers(95), size, seed)())
        step = max(size, 1)
        for start in range(0, 95, step):
            block = shuffled[start : start + step]
            assert sorted(block) == list(range(start, min(start + step, 95)))

    @pytest.mark.parametrize("size", [0, 1])
    def test_changes_nothing_with_a_block_of_one(self, size):
        assert list(reader.shuffle(numbers(10), size, seed=1)()) == list(range(10))

    @pytest.mark.parametrize("size", [10, 100])
    def test_changes_the_order(self, size):
        assert list(reader.shuffle(numbers(100), size, seed=1)()) != list(range(100))

    def test_repeats_with_a_seed(self):
        first, second = (reader.shuffle(numbers(100), 50, seed=7) for _ in range(2))
        passes = [list(first()) for _ in range(3)]
        assert [list(second()) for _ in range(3)] == passes
        assert passes[0] != passes[1] != passes[2] != passes[0]
        assert list(reader.shuffle(numbers(100), 50, seed=8)()) != passes[0]

    def test_has_this_order_everywhere(self):
        creator = reader.shuffle(numbers(10), 5, seed=7)
        assert list(creator()) == [2, 0, 3, 4, 1, 9, 8, 6, 7, 5]
        assert list(creator()) == [0, 1, 4, 3, 2, 7, 8, 9, 6, 5]

    def test_follows_the_random_module_without_a_seed(self):
        creator = reader.shuffle(numbers(100), 100)
        random.seed(3)
        first = list(creator())
        random.seed(3)
        assert list(creator()) == first

    def test_lets_go_of_what_it_handed_out(self):
        class Sample:
            pass

        iterator = reader.shuffle(lambda: (Sample() for _ in range(4)), 4)()
        sample = weakref.ref(next(iterator))
        next(iterator)
        gc.collect()
        assert sample() is None

    def test_refuses_a_negative_size(self):
        with pytest.raises(ValueError, match="buf_size must be at least 0, not -1"):
            reader.shuffle(numbers(1), -1)


class TestChain:
    def test_gives_one_after_the_other(self):
        assert list(reader.chain(numbers(3), numbers(9, 7))()) == [0, 1, 2, 7, 8]

    def test_opens_each_when_its_turn_comes(self):
        first, second = Tracked(range(2)), Tracked(range(2))
        iterator = reader.chain(first, second)()
        next(iterator), next(iterator)
        assert (first.closed, second.opened) == (0, 0)
        next(iterator)
        assert (first.closed, second.opened) == (1, 1)


class TestCompose:
    def test_makes_flat_tuples(self):
        composed = reader.compose(
            lambda: iter([(1, 2), (6, 7)]), lambda: iter([3, 8]), lambda: iter([(4, 5), (9,)])
        )
        assert list(composed()) == [(1, 2, 3, 4, 5), (6, 7, 8, 9)]

    def test_keeps_a_sample_that_is_none(self):
        composed = reader.compose(lambda: iter([None, 1]), numbers(2))
        assert list(composed()) == [(None, 0), (1, 1)]

    @pytest.mark.parametrize(
        "lengths, ended", [((10, 20), "0"), ((20, 10), "1"), ((0, 3, 0), "0, 2")]
    )
    def test_reports_readers_that_are_not_aligned(self, lengths, ended):
        iterator = reader.compose(*map(numbers, lengths))()
        whole = min(lengths)
        for i in range(whole):
            assert next(iterator) == (i,) * len(lengths)
        with pytest.raises(reader.ComposeNotAligned, match=f"{ended} .from 0. ended after {whole}"):
            next(iterator)

    def test_reports_as_a_value_error(self):
        assert issubclass(reader.ComposeNotAligned, ValueError)

    @pytest.mark.parametrize("lengths", [(10, 20), (20, 10)])
    def test_drops_the_rest_without_the_check(self, lengths):
        composed = reader.compose(*map(numbers, lengths), check_alignment=False)
        assert list(composed()) == [(i, i) for i in range(10)]

    def test_closes_all_where_one_fails_to_open(self):
        first = Tracked(range(3))
        opened_first = reader.map_readers(lambda x: x, first)

        def missing():
            raise FileNotFoundError

        with pytest.raises(FileNotFoundError):
            next(reader.compose(opened_first, missing)())
        assert first.opened == first.closed


class TestFirstN:
    @pytest.mark.parametrize("n", [0, 1, 5, 10, 11])
    def test_gives_n_or_all(self, n):
        assert list(reader.firstn(numbers(10), n)()) == list(range(min(n, 10)))

    def test_reads_nothing_behind_them(self):
        assert list(reader.firstn(failing_after(3), 3)()) == [0, 1, 2]


class TestBatch:
    # The counts of the ancestor's tests: 32 to a batch.
    @pytest.mark.parametrize(
        "samples, kept, dropped", [(160, 5, 5), (200, 7, 6), (159, 5, 4), (0, 0, 0)]
    )
    def test_keeps_or_drops_the_last(self, samples, kept, dropped):
        batches = list(reader.batch(numbers(samples), 32)())
        assert len(batches) == kept
        assert sum(batches, []) == list(range(samples))
        assert list(reader.batch(numbers(samples), 32, drop_last=True)()) == batches[:dropped]

    @pytest.mark.parametrize("size, error", [(0, ValueError), (-1, ValueError), (2.5, TypeError)])
    def test_refuses_a_size_that_is_none(self, size, error):
        with pytest.raises(error, match="batch_size must be"):
            reader.batch(numbers(1), size)

    def test_lets_go_of_a_batch_before_it_reads_the_next(self):
        class Sample:
            pass

        handed_out = []
        alive = []

        def samples():
            yield Sample()
            alive.append(handed_out[0]() is not None)
            yield Sample()

        for batch in reader.batch(samples, 1)():
            handed_out.append(weakref.ref(batch[0]))
            del batch
        assert alive == [False]


class TestBuffered:
    @pytest.mark.parametrize("size", range(20))
    def test_keeps_the_order(self, size):
        assert list(reader.buffered(numbers(10), size)()) == list(range(10))

    @pytest.mark.parametrize("size", [1, 2, 7])
    def test_reads_as_many_ahead_while_the_consumer_works(self, size):
        read = []
        iterator = reader.buffered(lambda: (read.append(i) or i for i in range(100)), size)()
        for taken in range(1, 5):
            next(iterator)
            wait_until(lambda: len(read) == taken + size)
        time.sleep(0.05)
        assert len(read) == 4 + size
        iterator.close()

    def test_has_no_thread_with_size_zero(self):
        iterator = reader.buffered(numbers(10), 0)()
        next(iterator)
        assert own_threads() == []

    def test_delivers_what_precedes_a_failure(self):
        iterator = reader.buffered(failing_after(5), 10)()
        assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(BrokenFile):
            next(iterator)


class TestXmapReaders:
    @pytest.mark.parametrize("order", [False, True])
    @pytest.mark.parametrize("buffer_size", [0, 1, 2, 4, 8, 16])
    @pytest.mark.parametrize("threads", [1, 2, 4, 8, 16])
    def test_maps_each_sample_once(self, threads, buffer_size, order):
        mapped = reader.xmap_readers(lambda x: x + 1, numbers(50), threads, buffer_size, order)
        for _ in range(3):
            results = list(mapped())
            assert (results if order else sorted(results)) == list(range(1, 51))
            assert own_threads() == []

    def test_keeps_the_order_of_mappers_that_end_in_reverse(self):
        done = [threading.Event() for _ in range(5)]
        done[4].set()

        def mapper(i):
            if i < 4:
                done[i + 1].wait()
            done[i].set()
            return i

        assert list(reader.xmap_readers(mapper, numbers(5), 5, 0, order=True)()) == list(range(5))
        for event in done[:4]:
            event.clear()
        assert sorted(reader.xmap_readers(mapper, numbers(5), 5, 0)()) == list(range(5))

    def test_overtakes_a_slow_mapper_without_order(self):
        slow = threading.Event()

        def mapper(i):
            if i == 0:
                slow.wait()
            return i

        iterator = reader.xmap_readers(mapper, numbers(6), 2, 1)()
        assert [next(iterator) for _ in range(5)] == [1, 2, 3, 4, 5]
        slow.set()
        assert list(iterator) == [0]

    @pytest.mark.parametrize("order", [False, True])
    def test_runs_mappers_side_by_side(self, order):
        together = threading.Barrier(4)

        def mapper(i):
            together.wait(30)
            return i

        mapped = reader.xmap_readers(mapper, numbers(8), 4, 0, order)
        assert sorted(mapped()) == list(range(8))

    @pytest.mark.parametrize("order", [False, True])
    def test_reads_no_further_than_its_bound(self, order):
        read = []
        samples = lambda: (read.append(i) or i for i in range(1000))  # noqa: E731
        iterator = reader.xmap_readers(lambda x: x, samples, 3, 4, order)()
        next(iterator)
        wait_until(lambda: len(read) == 1 + 3 + 4)
        time.sleep(0.05)
        assert len(read) == 1 + 3 + 4
        iterator.close()

    def test_reads_no_further_than_its_bound_behind_a_slow_sample(self):
        slow = threading.Event()
        read = []
        samples = lambda: (read.append(i) or i for i in range(1000))  # noqa: E731

        def mapper(i):
            if i == 0:
                slow.wait()
            return i

        iterator = reader.xmap_readers(mapper, samples, 2, 5, order=True)()
        consumer = threading.Thread(target=lambda: next(iterator))
        consumer.start()
        wait_until(lambda: len(read) == 7)
        time.sleep(0.05)
        assert len(read) == 7
        slow.set()
        consumer.join()
        iterator.close()

    @pytest.mark.parametrize("threads", [1, 2, 4])
    def test_delivers_all_before_the_sample_that_failed(self, threads):
        def mapper(i):
            if i >= 20:
                raise BrokenFile(f"sample {i}")
            return i

        iterator = reader.xmap_readers(mapper, endless, threads, 8, order=True)()
        assert [next(iterator) for _ in range(20)] == list(range(20))
        with pytest.raises(BrokenFile, match="sample 20") as caught:
            next(iterator)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-1] == "mapper"

    def test_loses_nothing_before_a_failure_without_order(self):
        def mapper(i):
            if i == 20:
                raise BrokenFile
            return i

        results = []
        with pytest.raises(BrokenFile):
            for result in reader.xmap_readers(mapper, endless, 4, 8)():
                results.append(result)
        assert set(range(20)) <= set(results)
        assert len(results) == len(set(results))

    def test_reports_the_earliest_of_several_failures(self):
        first_may_fail = threading.Event()

        def mapper(i):
            if i == 0:
                first_may_fail.wait()
            else:
                first_may_fail.set()
            raise BrokenFile(f"sample {i}")

        with pytest.raises(BrokenFile, match="sample 0"):
            list(reader.xmap_readers(mapper, numbers(2), 2, 2)())

    def test_reports_a_failure_while_the_reader_waits_for_data(self):
        data = threading.Event()

        def live():
            yield 0
            data.wait()

        def mapper(i):
            raise BrokenFile

        try:
            with pytest.raises(BrokenFile):
                next(reader.xmap_readers(mapper, live, 2, 2)())
        finally:
            data.set()
        wait_until(lambda: own_threads() == [])

    def test_takes_a_stop_iteration_of_the_mapper_for_no_end(self):
        with pytest.raises(RuntimeError):
            list(reader.xmap_readers(lambda x: next(iter(())), numbers(3), 2, 2)())

    @pytest.mark.parametrize(
        "arguments, message",
        [((0, 1), "process_num must be at least 1"), ((1, -1), "buffer_size must be at least 0")],
    )
    def test_refuses_sizes_that_are_none(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            reader.xmap_readers(str, numbers(1), *arguments)


class TestThreads:
    @threaded
    @pytest.mark.parametrize("taken", [1, 2, 100])
    def test_end_when_an_endless_pass_is_broken_off(self, decorate, taken):
        creator = decorate(endless)
        for _ in range(10):
            iterator = creator()
            for _ in range(taken):
                next(iterator)
            assert own_threads() != []
            iterator.close()
            assert own_threads() == []

    @pytest.mark.parametrize("name, ahead", [("buffered", 3), ("xmap", 5), ("xmap ordered", 5)])
    def test_end_when_blocked_behind_a_consumer_that_stopped(self, name, ahead):
        read = []
        iterator = OVER_ONE[name](lambda: map(read.append, itertools.count()))()
        next(iterator)
        wait_until(lambda: len(read) == 1 + ahead)
        time.sleep(0.05)
        assert own_threads() != []
        iterator.close()
        assert own_threads() == []
        assert len(read) == 1 + ahead

    @threaded
    def test_end_when_one_of_them_collects_the_iterator(self, decorate):
        dropped = threading.Event()

        def collecting():
            yield 0
            dropped.wait()
            gc.collect()
            yield from itertools.count()

        gc.disable()
        try:
            cycle = [decorate(collecting)()]
            next(cycle[0])
            cycle.append(cycle)
            del cycle
            dropped.set()
            wait_until(lambda: own_threads() == [])
        finally:
            gc.enable()

    @threaded
    def test_end_when_the_iterator_is_dropped(self, decorate):
        iterator = decorate(endless)()
        next(iterator)
        del iterator
        assert own_threads() == []

    @threaded
    def test_end_when_the_iterator_is_collected_from_a_cycle(self, decorate):
        cycle = [decorate(endless)()]
        next(cycle[0])
        cycle.append(cycle)
        del cycle
        assert own_threads() != []
        gc.collect()
        assert own_threads() == []

    @threaded
    def test_end_with_a_loop_that_breaks(self, decorate):
        def find(wanted):
            for sample in decorate(endless)():
                if sample == wanted:
                    break
            else:
                pytest.fail("an endless reader ended")

        find(3)
        assert own_threads() == []

    @threaded
    def test_end_with_an_exception_of_the_consumer(self, decorate):
        with pytest.raises(ZeroDivisionError):
            for sample in decorate(endless)():
                1 // (sample - sample)
        gc.collect()
        assert own_threads() == []

    @threaded
    def test_end_behind_a_failure_that_is_kept(self, decorate):
        with pytest.raises(BrokenFile) as kept:
            list(decorate(failing_after(3))())
        assert own_threads() == []
        assert kept.value.__traceback__ is not None

    @threaded
    def test_are_not_waited_for_without_end_when_the_reader_is_blocked(self, decorate):
        data = threading.Event()

        def live():
            yield 0
            data.wait()
            yield 1

        iterator = decorate(live)()
        next(iterator)
        iterator.close()
        assert own_threads() != [], "the reader's call cannot be broken off"
        data.set()
        wait_until(lambda: own_threads() == [])

    @threaded
    def test_do_not_pile_up_over_many_passes(self, decorate):
        creator = decorate(numbers(5))
        most = 0
        for _ in range(50):
            for _ in creator():
                most = max(most, len(own_threads()))
        assert 0 < most <= 3

    @threaded
    def test_work_for_many_iterators_at_a_time(self, decorate):
        iterators = [decorate(numbers(50))() for _ in range(20)]
        for round_of_samples in zip(*iterators):
            assert len(round_of_samples) == 20
        for iterator in iterators:
            assert next(iterator, None) is None

    @threaded
    def test_let_go_of_a_failure_without_the_collector(self, decorate):
        gc.collect()
        gc.disable()
        try:
            try:
                list(decorate(failing_after(1))())
            except BrokenFile as error:
                failure = weakref.ref(error)
            wait_until(lambda: failure() is None)
        finally:
            gc.enable()

    @threaded
    def test_let_ctrl_c_through_where_the_reader_is_blocked(self, decorate):
        data = threading.Event()
        interrupt_me = threading.Timer(
            0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)
        )

        waits = threading.Event()  # a decorator may read before it is asked

        def live():
            waits.wait()
            interrupt_me.start()
            data.wait()
            yield 0

        iterator = decorate(live)()
        try:
            with pytest.raises(KeyboardInterrupt):
                waits.set()
                next(iterator)
        finally:
            interrupt_me.join()
            data.set()
        wait_until(lambda: own_threads() == [])

    @threaded
    def test_let_ctrl_c_through_while_they_are_started(self, decorate, monkeypatch):
        start_thread = threading.Thread.start
        data = threading.Event()
        interrupts = []

        def start_and_interrupt(thread):
            start_thread(thread)
            if interrupts:
                signal.raise_signal(interrupts.pop())  # its handler runs in the main thread

        def live():
            data.wait()
            yield 0

        for _ in range(20):
            iterator = decorate(live)()
            interrupts.append(signal.SIGINT)
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", start_and_interrupt)
                with pytest.raises(KeyboardInterrupt):
                    next(iterator)
            data.set()
            wait_until(lambda: own_threads() == [])
            data.clear()

    @threaded
    def test_close_the_reader_in_the_thread_that_reads(self, decorate):
        """An exception of closing has no consumer any more: it goes to the threads' hook."""

        def creator():
            try:
                yield from itertools.count()
            finally:
                raise BrokenFile("in finally")

        reported = []
        hook, threading.excepthook = threading.excepthook, reported.append
        try:
            iterator = decorate(creator)()
            next(iterator)
            iterator.close()
        finally:
            threading.excepthook = hook
        assert [report.exc_type for report in reported] == [BrokenFile]
        reported.clear()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    @threaded
    def test_are_missed_with_an_error_in_a_forked_process(self, decorate):
        iterator = decorate(endless)()
        next(iterator)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(100):
                    next(iterator)
            except RuntimeError as error:
                status = 0 if "forked" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        next(iterator)
        iterator.close()

    @pytest.mark.parametrize("held", ["endless", "blocked"])
    def test_do_not_keep_a_program_from_its_end(self, held):
        program = f"""
import itertools, threading
from ringfeed import reader

def endless():
    return itertools.count()

def blocked():
    yield 0
    threading.Event().wait()

held = []
for decorated in (reader.buffered({held}, 3), reader.xmap_readers(str, {held}, 3, 2),
                  reader.buffered(reader.xmap_readers(str, {held}, 3, 2, True), 3)):
    held.append(decorated())
    next(held[-1])
"""
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == (0, "")
