"""What a function of Python's raises keeps its type, however often the chain is read again."""

from __future__ import annotations

import gc
import traceback
import weakref
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER, number_loader, write_rows

import ringfeed


class _Own(LookupError):
    def __init__(self, what: str, number: int) -> None:
        super().__init__(what, number)
        self.number = number


def _refuse(record: bytes) -> bool:
    raise _Own("refused", 7)


class _Refusing(ringfeed.Parser):
    fields = NUMBER

    def parse(self, sample: bytes) -> Any:
        raise _Own("refused", 7)


def _failing(files: str, what: str) -> Any:
    if what == "filter":
        return number_loader(files, filter=_refuse)
    if what == "parser":
        return ringfeed.Loader(files, format="rows:8", parse=_Refusing(), batch=7)
    if what == "group_batch":
        records = ringfeed.parse(ringfeed.open_files(files, format="rows:8"), ringfeed.rows(NUMBER))

        def group_of(record: bytes) -> int:
            raise _Own("refused", 7)

        return ringfeed.group_batch(records, 7, group_of)

    def creator() -> Any:
        yield from ()
        raise _Own("refused", 7)

    return ringfeed.from_iterable(creator, [("x", "int64", [1])])


@pytest.mark.parametrize("what", ["filter", "parser", "group_batch", "iterable"])
def test_each_further_read_raises_the_same_type(tmp_path: Path, what: str) -> None:
    chain = _failing(write_rows(tmp_path), what)
    first = None
    for _ in range(4):
        with pytest.raises(_Own) as caught:
            for _ in chain:
                pass
        assert caught.value.number == 7
        assert caught.value.args == ("refused", 7)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert {"_refuse", "parse", "group_of", "creator"} & set(names)
        assert caught.value is not first
        first = caught.value
    chain.reset()
    with pytest.raises(_Own):
        next(chain)


def test_an_exception_that_cannot_be_copied_is_told_as_text_again(tmp_path: Path) -> None:
    class Odd(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not this one")

    def refuse(record: bytes) -> bool:
        raise Odd("refused")

    loader = number_loader(write_rows(tmp_path), filter=refuse)
    with pytest.raises(Odd):
        next(loader)
    # Another record may have raised one more.
    with pytest.raises((Odd, ringfeed.errors.UserError), match="refused"):
        next(loader)


def test_a_chain_that_failed_is_freed_with_its_loop(tmp_path: Path) -> None:
    class Batches:
        """Of a Loader that only the loop's frame holds."""

    def read(files: str) -> weakref.ref[Batches]:
        here = Batches()
        loader = number_loader(files, filter=_refuse)
        for _ in range(3):
            with pytest.raises(_Own):
                next(loader)
        assert loader is not None
        return weakref.ref(here)

    freed = read(write_rows(tmp_path))
    gc.collect()
    assert freed() is None


@pytest.mark.parametrize("kill", [True, False])
def test_all_consumers_of_a_queue_get_the_type(kill: bool) -> None:
    queue = ringfeed.LoDTensorBlockingQueue(2, [("x", "uint8", [4])])
    reason = _Own("over", 3)
    queue.kill(reason) if kill else queue.fail(reason)
    with pytest.raises(_Own) as first:
        queue.pop()
    assert first.value is reason
    for _ in range(2):
        with pytest.raises(_Own) as again:
            queue.pop()
        assert again.value.number == 3
