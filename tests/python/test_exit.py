"""The interpreter ends while threads are in the middle of something."""

import subprocess
import sys

import pytest

from loader_data import write_rows

PREAMBLE = """
import sys, threading, time
import ringfeed

def forever(function):
    def run():
        while True:
            function()
    for _ in range(4):
        threading.Thread(target=run, daemon=True).start()
    time.sleep(0.2)  # all of them are in the middle of it
"""

READ = """
def read():
    for batch in loader:
        pass
"""


def run(program, *arguments, dev=False):
    """What becomes of an interpreter of its own that runs the program."""
    return subprocess.run(
        [sys.executable, *(["-X", "dev"] if dev else []), "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


BUSY = {
    "popping": """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
forever(queue.pop)
""",
    "pushing": """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
forever(lambda: queue.push([b"1234"]))
""",
    "pushing and popping": """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
forever(lambda: queue.push([b"1234"]))
forever(queue.pop)
""",
    "reading": """
forever(lambda: list(ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3)))
""",
    "reading on devices": """
options = {"format": "rows:8", "parse": None, "devices": "emu:2"}
forever(lambda: list(ringfeed.Loader(sys.argv[1], batch=3, **options)))
""",
}


@pytest.mark.parametrize("doing", BUSY)
@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_daemon_threads_do_not_keep_the_process_from_ending(tmp_path, doing, end):
    data = write_rows(tmp_path)
    done = run(PREAMBLE + BUSY[doing] + end, data)
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, -2), done.stderr
    assert "terminate" not in done.stderr
    assert "leaked" not in done.stderr


CALLING = {
    "map": """
loader = ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3, passes=0,
                         map=lambda batch: time.sleep(0.01) or batch)
""",
    "a generator of a py_reader": """
def slowly():
    while True:
        time.sleep(0.01)
        yield [b"1234"]
loader = ringfeed.py_reader(2, [[4]], ["uint8"])
loader.decorate_tensor_provider(slowly)
loader.start()
""",
    "a generator of arrays that are pushed": """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
def slowly():
    time.sleep(0.01)
    yield b"1234"
    time.sleep(0.01)
def pushing():
    while True:
        queue.push(slowly())
        yield queue.pop()
loader = pushing()
""",
    "a parser and a data set": """
class Records(ringfeed.Dataset):
    def next(self):
        time.sleep(0.01)
        return b"12345678"
    def reset(self):
        return True
class Slow(ringfeed.Parser):
    fields = {"x": ("uint8", (8,))}
    def parse(self, sample):
        time.sleep(0.01)
        return {"x": sample}
loader = ringfeed.batch(ringfeed.parse(ringfeed.from_dataset(Records()), Slow()), 2)
""",
}


@pytest.mark.parametrize("what", CALLING)
def test_a_daemon_thread_in_a_function_of_the_program_may_be_there_at_the_end(tmp_path, what):
    program = """
threading.Thread(target=read, daemon=True).start()
time.sleep(0.3)
"""
    for _ in range(3):
        done = run(PREAMBLE + CALLING[what] + READ + program, write_rows(tmp_path))
        assert (done.returncode, done.stderr) == (0, "")


WAITING = {
    "reading a pipe": """
import os, tempfile
path = os.path.join(tempfile.mkdtemp(), "pipe")
os.mkfifo(path)
loader = ringfeed.Loader(path, format="rows:8", parse=None, batch=3)
""",
    "reading": """
loader = ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3, passes=0)
""",
    "reading on devices": """
options = {"format": "rows:8", "parse": None, "devices": "emu:2"}
loader = ringfeed.Loader(sys.argv[1], batch=3, passes=0, **options)
""",
    "reading a py_reader": """
loader = ringfeed.py_reader(2, [[4]], ["uint8"])
wait = threading.Event()
loader.decorate_tensor_provider(lambda: iter(lambda: wait.wait() and [b"1234"], None))
loader.start()
""",
    "reading a queue": """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
loader = queue.reader()
""",
}


@pytest.mark.parametrize("doing", WAITING)
def test_a_daemon_thread_that_reads_at_the_end_says_nothing(tmp_path, doing):
    program = """
thread = threading.Thread(target=read, daemon=True)
thread.start()
time.sleep(0.2)
"""
    done = run(PREAMBLE + WAITING[doing] + READ + program, write_rows(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_who_waits_at_exit_for_a_daemon_that_reads_gets_its_end(tmp_path):
    before = """
import atexit
atexit.register(lambda: print(thread.join(20), thread.is_alive()))  # runs behind ringfeed's
"""
    after = (
        WAITING["reading"]
        + """
thread = threading.Thread(target=lambda: list(map(id, loader)), daemon=True)
thread.start()
time.sleep(0.2)
"""
    )
    done = run(before + PREAMBLE + after, write_rows(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "None False\n", "")


READERS = {
    "read_as": """
opened = ringfeed.open_files(sys.argv[1], format="rows:8")
reader = ringfeed.read_as(opened, "rows:16")
""",
    "multiplex": """
import os, tempfile
path = os.path.join(tempfile.mkdtemp(), "pipe")
os.mkfifo(path)
opened = ringfeed.open_files(path, format="rows:8")
reader = ringfeed.multiplex([opened])
""",
}


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_that_was_given_away_is_no_trouble_at_the_end(tmp_path, kind):
    program = """
chain = ringfeed.batch(ringfeed.parse(reader, ringfeed.raw()), 4)
other = ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3, passes=0)
batch = next(other)
opened.close_ends()
"""
    done = run(PREAMBLE + READERS[kind] + program, write_rows(tmp_path), dev=True)
    assert (done.returncode, done.stderr) == (0, "")


WHOLE = {
    "a loop": """
for batch in ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3):
    pass
""",
    "a loop that was broken off": """
loader = ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3)
batch = next(loader)
""",
    "devices": """
loader = ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3, devices="emu:2")
batch = next(loader)
""",
    "a queue": """
queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
queue.push([b"1234"])
""",
    "a py_reader": """
feed = ringfeed.py_reader(2, [[4]], ["uint8"])
feed.decorate_tensor_provider(lambda: ([b"1234"] for _ in range(100)))
feed.start()
arrays = next(feed)
""",
}


@pytest.mark.parametrize("program", WHOLE)
def test_what_is_open_at_the_end_is_freed(tmp_path, program):
    done = run(PREAMBLE + WHOLE[program], write_rows(tmp_path), dev=True)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr


QUEUES = {
    "a thread pushes": """
def push():
    while queue.push([b"1234"]):
        pass
threading.Thread(target=push, daemon=True).start()
while queue.size() == 0:
    pass
""",
    "a thread pops": """
threading.Thread(target=queue.pop, daemon=True).start()
""",
    "a thread pushes to a reader that is not closed": """
reader = queue.reader()
def push():
    while queue.push([b"1234"]):
        pass
threading.Thread(target=push, daemon=True).start()
arrays = next(reader)
""",
    "a chain's thread pops": """
again = ringfeed.from_iterable(lambda: iter(queue.pop, None), [("x", "uint8", [4])])
chain = ringfeed.double_buffer(again, 2)
queue.push([b"1234"])
arrays = next(chain)
""",
    "it was killed": """
queue.kill("enough")
""",
    "a generator that a chain calls again": """
feed = ringfeed.py_reader(2, [[4]], ["uint8"])
feed.decorate_tensor_provider(lambda: ([b"1234"] for _ in range(3)))
chain = ringfeed.multi_pass(feed.reader, 1000000)
feed.start()
arrays = [next(chain) for _ in range(7)]
""",
}


@pytest.mark.parametrize("finalizers_first", [True, False])
@pytest.mark.parametrize("program", QUEUES)
def test_whoever_waits_at_a_queue_is_woken_at_the_end(program, finalizers_first):
    before = "import weakref; weakref.finalize(set(), int)\n" if finalizers_first else ""
    queue = """
queue = ringfeed.LoDTensorBlockingQueue(1, [("x", "uint8", [4])])
"""
    source = before + PREAMBLE + queue + QUEUES[program] + "time.sleep(0.1)"
    done = run(source, dev=True)
    assert (done.returncode, done.stderr) == (0, "")
