"""py_reader: a generator fills a queue, a chain of C++ readers takes from it."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
import traceback

import pytest

import ringfeed

numpy = pytest.importorskip("numpy")


def reader_of(provider, capacity=2, **options):
    reader = ringfeed.py_reader(capacity, [[-1, 1]], ["float32"], **options)
    reader.decorate_tensor_provider(provider)
    return reader


def counting(count):
    def provider():
        for i in range(count) if count is not None else itertools.count():
            yield [numpy.full((1, 1), i, numpy.float32)]

    return provider


def first_values(batches):
    return [float(numpy.from_dlpack(batch[0])[0, 0]) for batch in batches]


def producers():
    return [t for t in threading.enumerate() if t.name == "ringfeed py_reader"]


def gone(threads):
    until = time.monotonic() + 5
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    return not threads()


@pytest.mark.parametrize("use_double_buffer", [False, True])
def test_passes_follow_one_another(use_double_buffer):
    reader = reader_of(counting(5), use_double_buffer=use_double_buffer)
    for _ in range(3):
        reader.start()
        assert first_values(reader) == [0, 1, 2, 3, 4]
        reader.reset()
    assert not producers()


@pytest.mark.parametrize("taken", [0, 1, 4])
def test_reset_breaks_an_endless_generator_off(taken):
    reader = reader_of(counting(None))
    for _ in range(3):
        reader.start()
        assert first_values(itertools.islice(reader, taken)) == list(range(taken))
        reader.reset()
        reader.reset()
        assert not producers()


def test_reset_before_the_start_loses_nothing():
    reader = reader_of(counting(3))
    reader.reset()
    reader.start()
    assert first_values(reader) == [0, 1, 2]


def test_what_the_generator_raises_comes_out_behind_its_data_and_the_next_pass_works():
    failing = [True]

    def provider():
        yield from counting(2)()
        if failing[0]:
            raise KeyError("no such sample")

    reader = reader_of(provider)
    reader.start()
    assert first_values([next(reader), next(reader)]) == [0, 1]
    with pytest.raises(KeyError, match="no such sample") as caught:
        next(reader)
    assert "provider" in [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    failing[0] = False
    reader.reset()
    reader.start()
    assert first_values(reader) == [0, 1]


def test_an_instance_that_is_not_as_declared_names_its_slot():
    reader = reader_of(lambda: [[numpy.zeros((1, 1), numpy.int64)]], name="image")
    reader.start()
    with pytest.raises(ringfeed.errors.InvalidArgument, match="image_0"):
        next(reader)


def test_mini_batches_of_samples_become_arrays_and_lod():
    image = ringfeed.data("image", [-1, 2], "float32")
    words = ringfeed.data("words", [-1, 1], "int64", lod_level=1)
    reader = ringfeed.create_py_reader_by_data(2, [image, words])
    reader.decorate_paddle_reader(lambda: [[([1, 2], [5, 6]), ([3, 4], [7])]])
    reader.start()
    pixels, ids = next(reader)
    assert numpy.from_dlpack(pixels).tolist() == [[1, 2], [3, 4]]
    assert numpy.from_dlpack(ids).tolist() == [[5], [6], [7]]
    assert numpy.from_dlpack(ids.lod[0]).tolist() == [0, 2, 3]


def test_chains_stand_on_it():
    reader = reader_of(counting(20))
    chain = ringfeed.batch(ringfeed.shuffle(reader.reader, "window", 8, seed=3), 5)
    for _ in range(2):
        reader.start()
        batches = [numpy.from_dlpack(b[0]).ravel().tolist() for b in chain]
        assert [len(b) for b in batches] == [5, 5, 5, 5]
        assert sorted(sum(batches, [])) == list(range(20)) and sum(batches, []) != list(range(20))
        reader.reset()


def test_a_chain_of_several_passes_calls_the_generator_again():
    calls = []

    def provider():
        calls.append(len(calls))
        return counting(4)()

    reader = reader_of(provider)
    chain = ringfeed.batch(ringfeed.multi_pass(reader.reader, 3), 6)
    for _ in range(2):
        calls.clear()
        reader.start()
        batches = [numpy.from_dlpack(b[0]).ravel().tolist() for b in chain]
        assert batches == [[0, 1, 2, 3, 0, 1], [2, 3, 0, 1, 2, 3]]
        assert calls == [0, 1, 2]
        reader.reset()
    assert not producers()


def test_a_loader_over_it_starts_the_next_epoch_itself():
    reader = reader_of(counting(4))
    loader = ringfeed.Loader.from_reader(ringfeed.batch(reader.reader, 2), as_tuple=True)
    reader.start()
    for _ in range(3):
        assert first_values(loader) == [0, 2]
    loader.reset()
    assert first_values(itertools.islice(loader, 1)) == [0]
    loader.reset()
    assert first_values(loader) == [0, 2]


def test_a_chain_that_starts_again_breaks_an_endless_generator_off():
    reader = reader_of(counting(None))
    reader.start()
    for taken in [1, 0, 3, 7]:
        assert first_values(itertools.islice(reader.reader, taken)) == list(range(taken))
        reader.reader.reset()
    reader.close()
    assert not producers()


def test_what_the_generator_raises_in_a_later_pass_comes_out_there():
    calls = itertools.count()

    def provider():
        yield from counting(2)()
        if next(calls) == 1:
            raise KeyError("no such sample")

    reader = reader_of(provider)
    reader.start()
    got = []
    with pytest.raises(KeyError, match="no such sample") as caught:
        for instance in ringfeed.multi_pass(reader.reader, 5):
            got.append(instance)
    assert first_values(got) == [0, 1, 0, 1]
    assert "provider" in [f.name for f in traceback.extract_tb(caught.value.__traceback__)]


def test_breaking_off_at_any_time_leaves_nothing_behind():
    random = numpy.random.default_rng(7)
    reader = reader_of(counting(12))
    chain = ringfeed.batch(ringfeed.multi_pass(reader.reader, 2), 3)
    for _ in range(200):
        reader.start()
        taken = int(random.integers(0, 9))
        values = [0, 3, 6, 9, 0, 3, 6, 9][:taken]
        assert first_values(itertools.islice(chain, taken)) == values
        reader.reset()
        assert not producers()


def test_close_ends_all_of_it():
    with reader_of(counting(None)) as reader:
        reader.start()
        next(reader)
    reader.close()
    assert not producers() and reader.queue.is_closed()
    assert not reader.queue.push([numpy.zeros((1, 1), numpy.float32)])


def test_close_ends_the_chains_on_it():
    with reader_of(counting(None)) as reader:
        chain = ringfeed.batch(reader.reader, 2)
        reader.start()
        next(chain)
    assert not producers()
    with pytest.raises(ringfeed.errors.Cancelled):
        next(chain)


@pytest.mark.parametrize("use_double_buffer", [False, True])
def test_restarts_with_nothing_read_between_them_keep_the_pass_whole(use_double_buffer):
    reader = reader_of(counting(6), use_double_buffer=use_double_buffer)
    loader = ringfeed.Loader.from_reader(ringfeed.batch(reader.reader, 2), as_tuple=True)
    reader.start()
    for epoch in range(1, 40):
        taken = epoch % 4
        assert first_values(itertools.islice(loader, taken)) == [0, 2, 4][:taken]
        for _ in range(epoch % 3 + 1):
            iter(loader)
            loader.reset()
    reader.reset()
    reader.start()
    loader.reset()
    assert first_values(loader) == [0, 2, 4]


def test_a_failure_that_nobody_read_is_tried_again():
    fails = [False, True, False]

    def provider():
        if fails.pop(0):
            raise KeyError("no such sample")
        return counting(3)()

    reader = reader_of(provider)
    reader.start()
    assert first_values(reader.reader) == [0, 1, 2]
    reader.reader.reset()
    assert gone(producers)  # it has failed
    reader.reader.reset()
    assert first_values(reader.reader) == [0, 1, 2]


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_thread_that_reads_is_let_go_by_another_ones(end):
    reader, ends = reader_of(counting(None)), []

    def read():
        try:
            for _ in reader:
                pass
            ends.append(None)
        except (RuntimeError, ringfeed.errors.Cancelled) as error:
            ends.append(error)

    for passes in range(1, 101):
        reader.start()
        consumer = threading.Thread(target=read)
        consumer.start()
        time.sleep(passes % 5 / 1000)
        getattr(reader, end)()
        consumer.join(10)
        assert not consumer.is_alive() and len(ends) == passes
        assert not producers()
        reader.reset()


def test_a_generator_that_resets_its_own_reader_ends():
    def provider():
        yield from counting(2)()
        reader.reset()
        yield from counting(2)()

    reader = reader_of(provider)
    for _ in range(20):
        reader.start()
        with pytest.raises((RuntimeError, StopIteration)):
            while True:
                next(reader)
        assert gone(producers)
    reader.decorate_tensor_provider(counting(3))
    reader.start()
    assert first_values(reader) == [0, 1, 2]


def test_of_starts_at_once_one_is_taken():
    reader, refused = reader_of(counting(None)), []

    def start():
        try:
            reader.start()
        except RuntimeError as error:
            refused.append(error)

    for passes in range(1, 21):
        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 3 * passes and len(producers()) == 1
        reader.reset()
        assert not producers()


def test_reset_and_close_close_the_generator_too():
    closed = []

    def provider():
        try:
            yield from counting(None)()
        finally:
            closed.append(threading.current_thread().name)

    reader = reader_of(provider)
    for epoch in range(1, 6):
        reader.start()
        next(reader)
        reader.reset() if epoch < 5 else reader.close()
        assert closed == ["ringfeed py_reader"] * epoch


@pytest.mark.parametrize("lengths", [(10, 20), (20, 10), (10, 10)])
def test_two_side_by_side_stop_at_the_shorter_one(lengths):
    one, other = map(reader_of, map(counting, lengths))
    for _ in range(3):
        one.start()
        other.start()
        pairs = [first_values(pair) for pair in zip(one, other)]
        assert pairs == [[i, i] for i in range(10)]
        one.reset()
        other.reset()


def test_a_creator_that_raises_at_once_does_so_at_the_loop():
    def provider():
        raise OSError("the barn is locked")

    reader = reader_of(provider)
    for _ in range(2):
        reader.start()
        with pytest.raises(OSError, match="the barn is locked"):
            next(reader)
        reader.reset()


def test_another_decoration_is_of_the_next_start():
    reader = reader_of(counting(3))
    reader.start()
    reader.decorate_tensor_provider(counting(1))
    assert first_values(reader) == [0, 1, 2]
    reader.reset()
    reader.start()
    assert first_values(reader) == [0]


def test_its_queue_is_fed_by_hand_too():
    reader = ringfeed.py_reader(4, [[-1, 1]], ["float32"])
    for _ in range(3):
        for (array,) in counting(3)():
            assert reader.queue.push([array])
        reader.queue.close()
        assert first_values(reader.reader) == [0, 1, 2]
        reader.reset()


def test_a_killed_queue_raises_for_good():
    reader = reader_of(counting(None))
    reader.start()
    next(reader)
    reader.queue.kill("enough")
    for end in (lambda: list(reader), reader.reset, reader.reset):
        with pytest.raises(ringfeed.errors.Cancelled, match="enough"):
            end()
    assert gone(producers)
    reader.close()


def test_batches_join_sequences():
    reader = ringfeed.py_reader(4, [[-1]], ["int64"], lod_levels=[1])
    instances = [((1, 2), (0, 2)), ((3,), (0, 0, 1))]
    reader.decorate_tensor_provider(
        lambda: ([(numpy.array(ids), [numpy.array(offsets)])] for ids, offsets in instances)
    )
    reader.start()
    ((words,),) = ringfeed.batch(reader.reader, 2)
    assert memoryview(words).tolist() == [1, 2, 3]
    assert [memoryview(level).tolist() for level in words.lod] == [[0, 2, 2, 3]]


def test_a_generator_may_hand_its_arrays_over():
    arrays = [numpy.full((1, 1), i, numpy.float32) for i in range(3)]
    reader = ringfeed.py_reader(2, [[-1, 1]], ["float32"])
    reader.decorate_tensor_provider(lambda: ([array] for array in arrays), copy=False)
    reader.start()
    for array, (got,) in zip(arrays, reader):
        assert numpy.shares_memory(numpy.from_dlpack(got), array)


def test_ctrl_c_ends_a_reset_that_waits_and_another_goes_on():
    program = """
import array, itertools, os, signal, threading, time, ringfeed
signal.signal(signal.SIGINT, signal.default_int_handler)
asleep, awake = threading.Event(), threading.Event()

def provider():
    yield [array.array("f", [1])]
    asleep.set()
    awake.wait()
    yield [array.array("f", [2])]

def interrupt():
    global sent
    time.sleep(0.3)
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

for restart in [lambda: reader.reset(), lambda: reader.reader.reset()]:
    asleep.clear()
    awake.clear()
    reader = ringfeed.py_reader(2, [[-1]], ["float32"])
    reader.decorate_tensor_provider(provider)
    reader.start()
    next(reader)
    asleep.wait()
    threading.Thread(target=interrupt).start()
    try:
        restart()
        print("not interrupted")
    except KeyboardInterrupt:
        took = time.monotonic() - sent
        print("interrupted" if took < 10 else f"interrupted after {took} s")
    awake.set()
    reader.reset()
    reader.start()
    print([memoryview(values).tolist() for (values,) in reader])
    reader.close()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.stderr == ""
    assert ended.stdout == "interrupted\n[[1.0], [2.0]]\n" * 2


def test_wrong_calls_are_errors():
    reader = ringfeed.py_reader(2, [[-1, 1]], ["float32"])
    with pytest.raises(RuntimeError, match="decorate"):
        reader.start()
    reader.decorate_tensor_provider(counting(1))
    with pytest.raises(RuntimeError, match="start"):
        next(reader)
    reader.start()
    with pytest.raises(RuntimeError, match="reset"):
        reader.start()
    with pytest.raises(ValueError, match="as many"):
        ringfeed.py_reader(2, [[1]], [])


def test_a_reader_that_is_dropped_leaves_no_thread():
    reader = reader_of(counting(None))
    reader.start()
    next(reader)
    del reader
    gc.collect()
    assert gone(producers)


def test_a_chain_whose_reader_is_dropped_does_not_take_that_for_the_end():
    reader = reader_of(counting(None))
    chain = ringfeed.batch(reader.reader, 1)
    reader.start()
    next(chain)
    del reader
    gc.collect()
    with pytest.raises(RuntimeError, match="PyReader that fed this chain is gone"):
        for _ in chain:
            pass
    with pytest.raises(RuntimeError, match="PyReader that fed this chain is gone"):
        chain.reset()


def test_a_program_ends_in_the_middle_of_a_pass():
    program = """
import array, itertools, ringfeed
reader = ringfeed.py_reader(2, [[-1]], ["float32"])
reader.decorate_tensor_provider(lambda: ([array.array("f", [i])] for i in itertools.count()))
reader.start()
next(reader)
print("ends")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")


@pytest.mark.parametrize(("end", "status"), [("", 0), ("raise SystemExit(3)", 3)])
def test_the_generator_is_closed_when_the_program_ends(end, status):
    program = f"""
import array, itertools, ringfeed

def provider():
    try:
        for i in itertools.count():
            yield [array.array("f", [i])]
    finally:
        print("closed")

reader = ringfeed.py_reader(2, [[-1]], ["float32"])
reader.decorate_tensor_provider(provider)
chain = ringfeed.batch(reader.reader, 2)
reader.start()
next(chain)
print("ends")
{end}
"""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "ends\nclosed\n", "")


def test_the_end_of_the_program_does_not_wait_for_a_generator_that_is_stuck():
    program = """
import threading, ringfeed

def provider():
    threading.Event().wait()
    yield

reader = ringfeed.py_reader(2, [[-1]], ["float32"])
reader.decorate_tensor_provider(provider)
reader.start()
print("ends")
"""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")
    assert time.monotonic() - began < 20


def test_a_reader_that_is_collected_while_its_next_pass_begins_is_gone():
    program = """
import array, gc, sys, ringfeed
module = sys.modules["ringfeed.py_reader"]

class CollectsFirst(module._Pass):
    def __init__(self, *arguments):
        gc.collect()
        super().__init__(*arguments)

gc.disable()
reader = ringfeed.py_reader(2, [[-1]], ["float32"])
reader.decorate_tensor_provider(lambda: iter([[array.array("f", [1])]]))
chain = ringfeed.multi_pass(reader.reader, 3)
reader.start()
module._Pass = CollectsFirst
reader.itself = reader
del reader
try:
    print(len(list(chain)))
except RuntimeError as error:
    print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20
    )
    assert ended.stdout.startswith("the PyReader that fed this chain is gone"), ended.stderr
    assert (ended.returncode, ended.stderr) == (0, "")


def test_it_unpacks_for_those_who_push_by_themselves():
    reader, queue = ringfeed.py_reader(4, [[-1, 1]], ["float32"])
    assert isinstance(reader, ringfeed.Reader)
    assert isinstance(queue, ringfeed.LoDTensorBlockingQueue)
    gc.collect()  # nobody needs the PyReader itself
    chain = ringfeed.batch(reader, 3)
    for _ in range(2):
        for instance in counting(4)():
            queue.push(instance)
        queue.close()
        assert [numpy.from_dlpack(b[0]).ravel().tolist() for b in chain] == [[0, 1, 2], [3]]
        chain.reset()
    first, *rest = ringfeed.create_py_reader_by_data(2, [ringfeed.data("x", [-1, 1])])
    assert isinstance(first, ringfeed.Reader) and len(rest) == 1


def test_loops_over_it_are_what_they_were():
    feed = ringfeed.py_reader(4, [[-1, 1]], ["float32"])
    with pytest.raises(RuntimeError, match="not started"):
        for _ in feed:
            pass
    with pytest.raises(RuntimeError, match="not started"):
        tuple(feed)
    feed.decorate_tensor_provider(counting(2))
    with pytest.raises(RuntimeError, match="not started"):
        one, two = feed
    feed.start()
    one, two = feed  # its mini-batches
    assert first_values([one, two]) == [0, 1]


@pytest.mark.parametrize("use_double_buffer", [False, True])
def test_dtypes_are_learnt_from_the_first_instance(use_double_buffer):
    feed = ringfeed.py_reader(2, [[-1, 1]], use_double_buffer=use_double_buffer)
    feed.decorate_tensor_provider(lambda: [[numpy.full((1, 1), i, "int16")] for i in range(3)])
    for _ in range(2):
        feed.start()
        batches = list(feed)
        assert [b[0].dtype for b in batches] == ["int16"] * 3 and first_values(batches) == [0, 1, 2]
        feed.reset()
    feed.decorate_tensor_provider(lambda: [[numpy.zeros((1, 1), "float32")]])
    feed.start()
    with pytest.raises(ringfeed.errors.InvalidArgument, match="expected int16.*found float32"):
        next(feed)


def test_a_later_instance_of_another_dtype_is_refused_behind_those_before_it():
    feed = ringfeed.py_reader(2, [[-1, 1]])
    dtypes = ["int64", "int64", "int32"]
    feed.decorate_tensor_provider(lambda: [[numpy.zeros((1, 1), dtype)] for dtype in dtypes])
    feed.start()
    assert [next(feed)[0].dtype for _ in range(2)] == ["int64"] * 2
    with pytest.raises(ringfeed.errors.InvalidArgument, match="py_reader_0.*int64.*found int32"):
        next(feed)


def test_a_chain_stands_on_it_as_soon_as_the_dtypes_are_known():
    feed = ringfeed.py_reader(4, [[-1, 1]])
    feed.decorate_tensor_provider(counting(4))
    with pytest.raises(ringfeed.errors.InvalidArgument, match="declare the dtypes"):
        assert feed.reader is None
    feed.start()
    chain = ringfeed.batch(feed.reader, 4)
    assert numpy.from_dlpack(next(chain)[0]).ravel().tolist() == [0, 1, 2, 3]
    feed.close()


def test_who_pushes_by_himself_has_a_reader_behind_the_first_push():
    feed = ringfeed.py_reader(4, [[-1, 1]])
    with pytest.raises(ringfeed.errors.InvalidArgument, match="declare the dtypes"):
        reader, queue = feed
    feed.queue.push([numpy.ones((1, 1), "uint8")])
    reader, queue = feed
    queue.close()
    assert [batch[0].dtype for batch in reader] == ["uint8"]


def test_a_pass_without_an_instance_ends_and_one_that_fails_raises():
    failing = [False]

    def provider():
        if failing[0]:
            raise KeyError("no such sample")
        return iter(())

    feed = ringfeed.py_reader(2, [[-1, 1]])
    feed.decorate_tensor_provider(provider)
    feed.start()
    assert list(feed) == []
    feed.reset()
    failing[0] = True
    feed.start()
    with pytest.raises(KeyError, match="no such sample"):
        next(feed)
    feed.close()


@pytest.mark.parametrize("end", ["reset", "close"])
def test_who_waits_for_the_first_instance_is_let_go(end):
    release = threading.Event()

    def provider():
        release.wait(30)
        yield from ()

    feed = ringfeed.py_reader(2, [[-1, 1]])
    feed.decorate_tensor_provider(provider)
    feed.start()
    got = []
    consumer = threading.Thread(target=lambda: got.extend(feed))
    consumer.start()
    time.sleep(0.05)
    ender = threading.Thread(target=getattr(feed, end))
    ender.start()
    consumer.join(10)
    assert not consumer.is_alive() and got == []
    release.set()
    ender.join(10)
    assert not ender.is_alive()


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(ValueError, match="samples become arrays of declared dtypes"):
        ringfeed.py_reader(2, [[-1, 1]]).decorate_paddle_reader(lambda: [])
    with pytest.raises(ValueError, match="some slots have a dtype"):
        ringfeed.py_reader(2, [[-1, 1], [-1]], ["float32", None])
    with pytest.raises(ValueError, match="as many dtypes"):
        ringfeed.py_reader(2, [[-1, 1]], [])


WAITS_FOR_DTYPES = """
import signal, threading, time, ringfeed
signal.signal(signal.SIGINT, signal.default_int_handler)
feed = ringfeed.py_reader(2, [[-1, 1]])
feed.decorate_tensor_provider(lambda: iter(lambda: time.sleep(60), None))
feed.start()
threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
try:
    next(feed)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_the_wait_for_the_first_instance():
    begun = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", WAITS_FOR_DTYPES], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "interrupted\n", run.stderr
    assert time.monotonic() - begun < 30
