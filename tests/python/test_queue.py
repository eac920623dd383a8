"""LoDTensorBlockingQueue: Python pushes, C++ reads, and neither waits for the other's lock."""

from __future__ import annotations

import array
import subprocess
import sys
import threading
import time

import pytest

import ringfeed

numpy = pytest.importorskip("numpy")


def queue_of(capacity=4, dims=(-1,), dtype="float32", lod_levels=0):
    return ringfeed.LoDTensorBlockingQueue(capacity, [("x", dtype, dims, lod_levels)])


def numbers(*values):
    return numpy.array(values, numpy.float32)


def popped(queue, **options):
    instance = queue.pop(**options)
    return None if instance is None else numpy.from_dlpack(instance[0]).tolist()


def test_what_is_pushed_is_popped_in_order_and_close_drains():
    queue = queue_of()
    assert queue.push([numbers(1, 2)]) and queue.push([numbers(3)])
    assert (queue.size(), queue.cap(), queue.is_closed()) == (2, 4, False)
    queue.close()
    assert queue.is_closed() and not queue.is_killed
    assert not queue.push([numbers(4)])
    assert [popped(queue), popped(queue), popped(queue)] == [[1, 2], [3], None]


def test_a_pushed_array_may_be_used_again_at_once():
    queue, reused = queue_of(), numbers(1, 2)
    queue.push([reused])
    reused[:] = 9
    assert popped(queue) == [1, 2]


def test_without_a_copy_the_memory_is_shared():
    queue, shared = queue_of(), numbers(1, 2)
    queue.push([shared], copy=False)
    shared[:] = 9
    assert popped(queue) == [9, 9]


def test_what_cannot_be_shared_is_an_error_or_copied_where_that_may_be():
    queue = queue_of()
    every_second = numbers(1, 2, 3)[::2]
    with pytest.raises(ValueError, match='slot 0 "x".*C order'):
        queue.push([every_second], copy=False)
    assert queue.push([every_second], copy=None)
    assert popped(queue) == [1, 3]


def test_buffers_need_no_numpy():
    queue = queue_of()
    queue.push([array.array("f", [1.5])])
    assert popped(queue) == [1.5]


@pytest.mark.parametrize(
    "wrong", [numpy.zeros(2, numpy.int64), numpy.zeros((2, 2), numpy.float32), 7]
)
def test_what_is_not_as_declared_is_an_error_that_names_the_slot(wrong):
    with pytest.raises((ValueError, TypeError), match='slot 0 "x"'):
        queue_of().push([wrong])


def test_lod_goes_through():
    queue = queue_of(dims=(-1, 1), dtype="int64", lod_levels=1)
    queue.push([(numpy.arange(3).reshape(3, 1), [[0, 2, 3]])])
    (words,) = queue.pop()
    assert [numpy.from_dlpack(level).tolist() for level in words.lod] == [[0, 2, 3]]
    with pytest.raises(ringfeed.errors.InvalidArgument, match='slot 0 "x"'):
        queue.push([(numpy.arange(3).reshape(3, 1), [[0, 2, 4]])])


OFFSETS = {
    "tuple": lambda: (0, 2, 3),
    "array q": lambda: array.array("q", [0, 2, 3]),
    "array i": lambda: array.array("i", [0, 2, 3]),
    "int64": lambda: numpy.array([0, 2, 3]),
    "int32": lambda: numpy.array([0, 2, 3], numpy.int32),
    "strided": lambda: numpy.array([0, 9, 2, 9, 3])[::2],
    "read-only": lambda: memoryview(numpy.array([0, 2, 3])).toreadonly(),
}


@pytest.mark.parametrize("kind", OFFSETS)
@pytest.mark.parametrize("copy", [True, None, False])
def test_offsets_are_arrays_too_and_always_copied(kind, copy):
    queue, level = queue_of(dtype="int64", lod_levels=2), OFFSETS[kind]()
    assert queue.push([(numpy.arange(3), [[0, 2], level])], copy=copy)
    if isinstance(level, (numpy.ndarray, array.array)):
        level[1] = 7
    (words,) = queue.pop()
    assert [memoryview(offsets).tolist() for offsets in words.lod] == [[0, 2], [0, 2, 3]]


def test_the_offsets_that_an_array_brought_are_taken_again():
    queue = queue_of(dtype="int64", lod_levels=1)
    queue.push([(numpy.arange(3), numpy.array([[0, 2, 3]]))])
    (words,) = queue.pop()
    queue.push([(numpy.asarray(words) + 1, words.lod)])
    (more,) = queue.pop()
    assert memoryview(more).tolist() == [1, 2, 3]
    assert memoryview(more.lod[0]).tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    "lod",
    [[0, 2, 3], 3, None, "023", [[0.5, 3]], [numpy.array([0.0, 3.0])], [numpy.array([[0, 3]])]]
    + [[b"03"], [numpy.array([0, 3], numpy.uint64)], [["0", "3"]]],
)
def test_what_cannot_be_offsets_says_so(lod):
    queue = queue_of(dtype="int64", lod_levels=1)
    with pytest.raises(TypeError, match='slot 0 "x": offsets of LoD'):
        queue.push([(numpy.arange(3), lod)])
    assert queue.size() == 0


def test_waits_have_a_limit():
    queue = queue_of(capacity=1)
    with pytest.raises(TimeoutError):
        queue.pop(timeout=0.01)
    queue.push([numbers(1)])
    with pytest.raises(TimeoutError):
        queue.push([numbers(2)], timeout=0.01)
    assert popped(queue) == [1] and queue.size() == 0


def test_kill_drops_what_is_in_it_and_raises_the_exception_itself():
    queue, reason = queue_of(), KeyError("gone")
    queue.push([numbers(1)])
    queue.kill(reason)
    assert queue.is_killed
    with pytest.raises(KeyError) as caught:
        queue.pop()
    assert caught.value is reason


def test_kill_takes_text():
    queue = queue_of()
    queue.kill("no more today")
    with pytest.raises(ringfeed.errors.Cancelled, match="no more today"):
        queue.pop()


def test_a_kill_is_for_good():
    queue = queue_of()
    queue.kill("the farm is closed")
    assert not queue.push([numbers(1)])
    for end in (queue.pop, queue.pop, queue.reopen):
        with pytest.raises(ringfeed.errors.Cancelled, match="the farm is closed"):
            end()


def test_a_kill_wakes_whoever_waits_with_its_exception():
    queue, thrown = queue_of(), []

    def take():
        try:
            queue.pop()
        except ZeroDivisionError as error:
            thrown.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    time.sleep(0.05)
    reason = ZeroDivisionError("nothing to share")
    queue.kill(reason)
    thread.join(10)
    assert thrown == [reason]


def test_a_failure_comes_behind_what_was_pushed_and_reopen_forgets_it():
    queue, reason = queue_of(), KeyError("no such shelf")
    queue.push([numbers(1)])
    queue.fail(reason)
    assert queue.is_closed() and not queue.is_killed and not queue.push([numbers(2)])
    assert popped(queue) == [1]
    with pytest.raises(KeyError) as caught:
        queue.pop()
    assert caught.value is reason
    queue.reopen()
    queue.push([numbers(3)])
    queue.close()
    assert [popped(queue), popped(queue)] == [[3], None]


@pytest.mark.parametrize(
    ("capacity", "slots"),
    [(0, [("x", "int64", [-1])]), (2, []), (2, [("x", "int63", [-1])])],
)
def test_a_queue_that_cannot_be_is_refused(capacity, slots):
    with pytest.raises(ringfeed.errors.InvalidArgument):
        ringfeed.LoDTensorBlockingQueue(capacity, slots)


def test_many_threads_on_both_sides_see_each_instance_once():
    queue, taken = queue_of(dtype="int64"), []

    def push(first):
        for i in range(first, first + 200):
            assert queue.push([numpy.array([i])])

    def pop():
        for (array_,) in iter(queue.pop, None):
            taken.append(numpy.from_dlpack(array_)[0])

    pushers = [threading.Thread(target=push, args=(200 * i,)) for i in range(4)]
    poppers = [threading.Thread(target=pop) for _ in range(4)]
    for thread in pushers + poppers:
        thread.start()
    for thread in pushers:
        thread.join(60)
    queue.close()
    for thread in poppers:
        thread.join(60)
    assert sorted(taken) == list(range(800))


def test_arrays_outlast_their_queue():
    queue = queue_of()
    queue.push([numbers(4, 5)])
    (kept,) = queue.pop()
    del queue
    assert memoryview(kept).tolist() == [4, 5]


def test_a_forked_child_gets_an_error_and_ends():
    program = """
import array, os, ringfeed
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "float32", [-1])])
x = array.array("f", [1])
feed = ringfeed.py_reader(2, [[-1]], ["float32"])
feed.decorate_tensor_provider(lambda: ([x] for _ in range(100)))
feed.start()
next(feed)
child = os.fork()
if child == 0:
    for call in (lambda: queue.push([x]), queue.pop, lambda: next(feed)):
        try:
            call()
        except RuntimeError as error:
            print("forked" in str(error), flush=True)
    raise SystemExit(7)
print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "True\nTrue\nTrue\n7\n"), ended.stderr
    assert "Error" not in ended.stderr


def test_a_blocked_push_lets_other_threads_run():
    queue = queue_of(capacity=1)
    queue.push([numbers(0)])
    pushing = threading.Event()

    def push():
        pushing.set()
        queue.push([numbers(1)])

    thread = threading.Thread(target=push)
    thread.start()
    pushing.wait()
    time.sleep(0.1)  # a push that kept the interpreter's lock while it waits would not let this end
    assert thread.is_alive()
    assert [popped(queue), popped(queue)] == [[0], [1]]
    thread.join()


def test_a_chain_reads_while_python_computes():
    queue = queue_of(capacity=8)
    for i in range(8):
        queue.push([numbers(i)])
    reader = queue.reader()
    first = next(reader)  # starts its thread
    assert numpy.from_dlpack(first[0]).tolist() == [0]
    until = time.monotonic() + 5
    while queue.size() == 7 and time.monotonic() < until:
        sum(range(1000))  # holds Python's lock, but for its switches
    assert queue.size() < 7
    reader.close()


def test_close_wakes_whoever_waits():
    queue = queue_of()
    thread = threading.Thread(target=queue.pop)
    thread.start()
    queue.close()
    thread.join(10)
    assert not thread.is_alive()


def test_memory_that_is_held_is_not_used_again():
    queue, held = queue_of(capacity=2), []
    for i in range(20):
        queue.push([numbers(i, i)])
        held.append(queue.pop()[0])
    assert [numpy.from_dlpack(x).tolist() for x in held] == [[i, i] for i in range(20)]


@pytest.mark.parametrize("wait", ["queue.pop()", "queue.push([x]); queue.push([x])"])
def test_ctrl_c_ends_a_wait(wait):
    program = f"""
import array, os, signal, threading, ringfeed
queue = ringfeed.LoDTensorBlockingQueue(1, [("x", "float32", (-1,))])
x = array.array("f", [1])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", queue.size())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout.split()[:1], ended.stderr) == (["interrupted"], "")


def test_an_array_that_was_popped_keeps_its_levels_where_it_is_pushed_on():
    queue = ringfeed.LoDTensorBlockingQueue(1, [("words", "int64", [-1], 1)])
    words = memoryview(bytes(24)).cast("q")
    queue.push([(words, [[0, 2, 3]])])
    for copy in (True, None):
        (taken,) = queue.pop()
        assert [memoryview(level).tolist() for level in taken.lod] == [[0, 2, 3]]
        queue.push([taken], copy=copy)


def test_dtypes_that_are_not_declared_are_those_of_the_first_instance():
    queue = ringfeed.LoDTensorBlockingQueue(4, [("x", None, [-1]), ("y", None, [-1, 1], 1)])
    with pytest.raises(ringfeed.errors.InvalidArgument, match="declare the dtypes"):
        queue.reader()
    ids = numpy.zeros((2, 1), "int32")
    queue.push([numbers(1), (ids, [[0, 2]])])
    assert queue.await_dtypes()
    with pytest.raises(ringfeed.errors.InvalidArgument, match='slot 1 "y": expected int32'):
        queue.push([numbers(1), (ids.astype("int64"), [[0, 2]])])
    reader = queue.reader()
    assert [slot[1] for slot in reader.slots] == ["float32", "int32"]
    queue.close()
    assert len(list(reader)) == 1 and queue.await_dtypes()


def test_who_waits_for_dtypes_is_told_of_the_end():
    queue = ringfeed.LoDTensorBlockingQueue(4, [("x", None, [-1])])
    told = []
    waiting = threading.Thread(target=lambda: told.append(queue.await_dtypes()))
    waiting.start()
    queue.close()
    waiting.join(10)
    assert told == [False]
    assert queue_of().await_dtypes()
