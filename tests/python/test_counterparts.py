"""Arguments as Torch, tf.data and Keras call them: a TypeError says what ringfeed has instead."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest
from loader_data import NUMBER, number_loader, write_rows

import ringfeed
from ringfeed import chains, counterparts

#: What takes arguments, and the names that it has none for.
TAKERS: list[tuple[Callable[..., Any], Mapping[str, str]]] = [
    (ringfeed.Loader, counterparts.LOADER),
    (ringfeed.open_files, counterparts.OPENING),
    (ringfeed.batch, counterparts.BATCHING),
    (ringfeed.group_batch, counterparts.BATCHING),
    (ringfeed.bucket_batch, counterparts.BATCHING),
    (ringfeed.shuffle, counterparts.SHUFFLING),
    (ringfeed.multi_pass, counterparts.REPEATING),
]


def arguments_of(taker: Callable[..., Any]) -> set[str]:
    names = set(inspect.signature(taker).parameters)
    return names | chains._OPEN_OPTIONS if "options" in names else names


@pytest.mark.parametrize(
    "arguments, instead",
    [
        ({"batch_size": 7}, r"batch_size → batch=, .*all ranks"),
        ({"drop_last": True}, r"drop_last → drop_remainder="),
        ({"num_workers": 4}, r"num_workers → leave it out: .*threads="),
        ({"collate_fn": list}, r"collate_fn → leave it out: .*parse= .*map="),
        ({"epochs": 3}, r"epochs → each `for` .*passes="),
        ({"pin_memory": True}, r"pin_memory → leave it out"),
        ({"batch_size": 7, "drop_last": True}, r"batch=.*drop_remainder="),
    ],
    ids=str,
)
def test_a_loader_names_its_counterpart(arguments: dict[str, Any], instead: str) -> None:
    parser = ringfeed.rows(NUMBER)
    for own in ({}, {"batch": 7}):
        with pytest.raises(TypeError, match=instead):
            ringfeed.Loader("none", parse=parser, **own, **arguments)


def test_functions_of_chains_name_their_counterparts(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path), format="rows:8")
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: ringfeed.batch(records, batch_size=3), "size="),  # type: ignore[call-arg]
        (lambda: ringfeed.batch(records, 3, drop_last=True), "drop_remainder="),  # type: ignore
        (lambda: ringfeed.shuffle(records, buffer_size=9), "size="),  # type: ignore[call-arg]
        (lambda: ringfeed.multi_pass(records, epochs=2), "passes="),  # type: ignore[call-arg]
        (lambda: ringfeed.open_files("x", num_workers=2), "threads="),
        (lambda: ringfeed.open_files("x", deterministic=False), "unordered="),
    ]
    for call, instead in wrong:
        with pytest.raises(TypeError, match=instead):
            call()


@pytest.mark.parametrize("taker, table", TAKERS, ids=[taker.__name__ for taker, _ in TAKERS])
def test_a_counterpart_is_an_argument_and_its_name_elsewhere_is_none(
    taker: Callable[..., Any], table: Mapping[str, str]
) -> None:
    own = arguments_of(taker) | arguments_of(ringfeed.open_files)
    assert table and not arguments_of(taker) & set(table)
    for text in table.values():
        assert set(re.findall(r"(\w+)=", text)) <= own, text


def test_own_arguments_keep_their_signature(tmp_path: Path) -> None:
    """What a decorator stands in front of is seen by help() as it is."""
    assert "drop_remainder" in inspect.signature(ringfeed.Loader).parameters
    assert list(inspect.signature(ringfeed.batch).parameters)[:2] == ["reader", "size"]
    with pytest.raises(TypeError, match="'batch'"):
        ringfeed.Loader("none")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no such option: colour"):
        number_loader(write_rows(tmp_path), colour="red")


def test_samples_of_pythons_are_no_files() -> None:
    class Samples:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> bytes:
            return b""

    with pytest.raises(TypeError, match="from_dataset"):
        ringfeed.open_files(Samples())  # type: ignore[arg-type]
