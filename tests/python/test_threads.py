"""One object used by many threads, and many objects at once: with the interpreter's lock, which
changes hands after each few instructions here, and in an interpreter without one."""

from __future__ import annotations

import array
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from loader_data import NUMBER, all_numbers, number_loader, numbers, write_rows

import ringfeed

THREADS = 8


@pytest.fixture(autouse=True)
def _the_lock_changes_hands_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """What work(0), work(1), … return, all called at once; raises what one of them raised."""
    results: dict[int, Any] = {}
    raised: list[BaseException] = []
    together = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            together.wait()
            results[number] = work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if raised:
        raise raised[0]
    assert len(results) == count, "a thread hangs"
    return [results[number] for number in range(count)]


def float_queue(capacity: int = 4) -> ringfeed.LoDTensorBlockingQueue:
    return ringfeed.LoDTensorBlockingQueue(capacity, [("x", "float32", [-1])])


def test_importing_it_leaves_an_interpreter_without_a_lock_as_it_is() -> None:
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this interpreter has a lock")
    program = "import sys, ringfeed; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("False", "")


@pytest.mark.parametrize("copy", [True, None])
def test_what_many_threads_push_many_pop_once_and_whole(copy: Any) -> None:
    queue, each = float_queue(), 1000
    pushing = set(range(0, THREADS, 2))
    last = threading.Lock()

    def push(number: int) -> list[int]:
        try:
            for value in range(number * each, (number + 1) * each):
                assert queue.push([array.array("f", [value] * 100)], copy=copy)
        finally:
            with last:
                pushing.discard(number)
                if not pushing:
                    queue.close()
        return []

    def pop() -> list[int]:
        taken = []
        for instance in iter(queue.pop, None):
            (value,) = set(memoryview(instance[0]))
            taken.append(int(value))
        return taken

    taken = in_threads(lambda number: pop() if number % 2 else push(number))
    expected = [number * each + i for number in range(0, THREADS, 2) for i in range(each)]
    assert sorted(sum(taken, [])) == expected


def test_a_queue_is_killed_and_opened_again_while_others_push_and_pop() -> None:
    queue = float_queue(1)
    ended = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            for _ in range(1000):
                queue.reopen()
            ended.set()
            queue.kill(LookupError("over"))
            return 0
        done = 0
        try:
            while not ended.is_set():
                if number % 2:
                    done += queue.push([array.array("f", [1])])
                else:
                    done += queue.pop() is not None
        except (LookupError, ringfeed.errors.UserError) as error:
            assert "over" in str(error)
        return done

    in_threads(work)
    assert queue.is_killed
    with pytest.raises((LookupError, ringfeed.errors.UserError), match="over"):
        queue.pop()


def test_loaders_in_threads_of_their_own_each_keep_their_order(tmp_path: Path) -> None:
    files = write_rows(tmp_path)

    def read(number: int) -> list[list[int]]:
        passes = []
        with number_loader(files, shuffle="global", seed=number, arena_bytes=100 << 20) as loader:
            for _ in range(3):
                passes.append(all_numbers(loader))
        return passes

    together = in_threads(read, 4)
    assert together == [read(number) for number in range(4)]
    assert all(sorted(each) == list(range(300)) for passes in together for each in passes)


def test_threads_that_read_one_chain_get_each_record_once(tmp_path: Path) -> None:
    reader = ringfeed.parse(
        ringfeed.open_files(write_rows(tmp_path, rows=1000), format="rows:8"), ringfeed.rows(NUMBER)
    )

    def read(_: int) -> list[int]:
        return [number for (value,) in reader for number in numbers(value)]

    assert sorted(sum(in_threads(read), [])) == list(range(3000))
    reader.close()


def test_loops_of_devices_in_threads_get_each_batch_once(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), batch=6, devices="emu:4")

    def read(device: int) -> list[int]:
        return [number for batch in loader.device(device) for number in numbers(batch)]

    assert sorted(sum(in_threads(read, 4), [])) == list(range(300))
    loader.close()


def test_a_feed_starts_again_while_loops_of_its_devices_go_on(tmp_path: Path) -> None:
    files = write_rows(tmp_path, rows=1000)
    loader = number_loader(files, batch=20, devices="emu:2", passes=0)
    first = numbers(next(loader))
    ended = threading.Event()

    def work(number: int) -> int:
        if number == 2:
            for _ in range(200):
                loader.reset()
                loader.stats()
                loader.seek_to(3)
                loader.state_dict()
            ended.set()
            return 0
        batches = 0
        for batch in loader.device(number):
            assert len(numbers(batch)) == 20
            batches += 1
            if ended.is_set():
                break
        return batches

    assert all(in_threads(work, 3)[:2])
    loader.reset()
    assert numbers(next(loader)) == first
    loader.close()


def test_arrays_are_taken_looked_at_and_dropped_by_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number:04d}\n" * 2 for number in range(400)))
    loader = ringfeed.Loader(path, format="lines", batch=8, slots=40)
    whole = b"".join(batch["bytes"].tobytes() for batch in loader)
    held: list[Any] = []
    kept = threading.Lock()

    def look(number: int) -> None:
        for _ in range(50):
            with kept:
                if number == 0 and len(held) < 4:
                    held.extend(batch["bytes"] for batch in [next(loader, None)] if batch)
                shared = list(held)
            for values in shared:
                (level,) = values.lod
                offsets = memoryview(level)
                assert offsets[-1] == len(values) == values.shape[0] == values.nbytes
                assert values.tobytes() == bytes(memoryview(values))
                assert values.tobytes() in whole
                values.__dlpack__()  # dropped unused
            with kept:
                if number % 2 and held:
                    held.pop(0)
            del shared

    iter(loader)
    in_threads(look)
    loader.close()


def test_functions_of_pythons_are_called_by_several_threads(tmp_path: Path) -> None:
    calls: Counter[str] = Counter()
    counting = threading.Lock()

    class Negated(ringfeed.Parser):
        fields = NUMBER

        def parse(self, sample: bytes) -> dict[str, bytes]:
            with counting:
                calls["parse"] += 1
            return {"x": (-int.from_bytes(sample, "little")).to_bytes(8, "little", signed=True)}

    def keep(record: bytes) -> bool:
        with counting:
            calls["filter"] += 1
        return record[0] % 2 == 0

    files = write_rows(tmp_path, rows=1000)
    loader = ringfeed.Loader(
        files, format="rows:8", parse=Negated(), filter=keep, batch=50, threads=4
    )
    assert sorted(all_numbers(loader)) == sorted(-n for n in range(3000) if n % 1000 % 256 % 2 == 0)
    assert calls["filter"] == 3000 and calls["parse"] >= 1500


def test_chains_are_made_read_and_closed_by_many_threads_at_once(tmp_path: Path) -> None:
    files = write_rows(tmp_path, 1, 20)

    def work(number: int) -> None:
        for _ in range(20):
            reader = ringfeed.open_files(files, format="rows:8", threads=1, arena_bytes=16 << 20)
            if number % 2:
                reader = ringfeed.filter(reader, lambda record: record[0] < 10)
            reader = ringfeed.parse(reader, ringfeed.rows(NUMBER))
            assert numbers(next(reader)[0]) == [0]
            assert len(list(reader)) == (9 if number % 2 else 19)
            if number % 4 < 2:
                reader.close()

    in_threads(work)
