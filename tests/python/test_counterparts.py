"""Arguments as Torch, tf.data and Keras call them: a TypeError says what ringfeed has instead."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest
from loader_data import NUMBER, number_loader, write_rows

import ringfeed
from ringfeed import counterparts

#: What takes arguments, and the names that it has none for.
TAKERS: list[tuple[Callable[..., Any], Mapping[str, str]]] = [
    (ringfeed.Loader, counterparts.LOADER),
    (ringfeed.open_files, counterparts.OPENING),
    (ringfeed.batch, counterparts.BATCHING),
    (ringfeed.group_batch, counterparts.BATCHING),
    (ringfeed.bucket_batch, counterparts.BATCHING),
    (ringfeed.shuffle, counterparts.SHUFFLING),
    (ringfeed.multi_pass, counterparts.REPEATING),
    (ringfeed.token_batch, counterparts.TOKEN_BATCHING),
    (ringfeed.pack, counterparts.PACKING),
    (ringfeed.Loader.from_reader, counterparts.FROM_READER),
]


def arguments_of(taker: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(taker).parameters)


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


#: What takes arguments by name: a slip in any of them is told.
NAMED: list[Callable[..., Any]] = [
    *[taker for taker, _ in TAKERS],
    ringfeed.csv_columns,
    ringfeed.double_buffer,
    ringfeed.from_dataset,
    ringfeed.from_iterable,
    ringfeed.mix,
    ringfeed.multiplex,
    ringfeed.pad,
    ringfeed.devices.DevicePlan,
]


@pytest.mark.parametrize("taker", NAMED, ids=[taker.__name__ for taker in NAMED])
def test_a_slip_in_any_argument_names_the_nearest_and_all(taker: Callable[..., Any]) -> None:
    own = arguments_of(taker) - {"self", "options"}
    for name in own:
        slip = name[:1] + name[2:] + "x" if len(name) > 5 else name + "x"
        with pytest.raises(TypeError) as caught:
            taker(**{slip: 1})
        text = str(caught.value)
        assert f"no such option: {slip} (did you mean {name}?)" in text
        assert all(option in text for option in own) and "\n" not in text


@pytest.mark.parametrize(
    "slip, meant", [("shuffel", "shuffle"), ("bach", "batch"), ("device", "devices")]
)
def test_a_loaders_own_options_count(slip: str, meant: str) -> None:
    """Also where the option that was meant is one that must be there."""
    with pytest.raises(TypeError, match=rf"{slip} \(did you mean {meant}\?\)"):
        ringfeed.Loader("none", **{slip: 1})  # type: ignore[arg-type]


def test_a_slip_stands_beside_a_counterpart_and_a_strange_name_without_a_guess() -> None:
    wanted = r"no such option: colour, formt \(did you mean format\?\); num_workers → .*; there are"
    with pytest.raises(TypeError, match=wanted):
        ringfeed.open_files("none", formt="lines", colour="red", num_workers=2)


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
