"""Python functions of rows: what they are told, what they refuse, what they keep."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import ringfeed

RECORDS = 120


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files of rows of a number and two floats."""
    names = []
    for file in range(2):
        path = tmp_path / f"part-{file}"
        path.write_bytes(
            b"".join(
                struct.pack("<qff", number, number / 2, 1)
                for number in range(60 * file, 60 * file + 60)
            )
        )
        names.append(str(path))
    return names


PARSE = ringfeed.rows({"number": ("int64", ()), "pair": ("float32", (2,))})


def loader_of(files: list[str], **arguments: Any) -> ringfeed.Loader:
    options = {"format": "rows:16", "batch": 16, "rank": None, **arguments}
    return ringfeed.Loader(files, **options)


def read(loader: ringfeed.Loader, field: str) -> list[Any]:
    return [row for batch in loader for row in numpy.asarray(batch[field]).tolist()]


def numbers_and_draws(fields: Any, row: ringfeed.Row) -> dict[str, Any]:
    return {"drawn": [row.draw() >> 1, row.draw(3) >> 1]}


DRAWS = ringfeed.MapRows(numbers_and_draws, {"drawn": ("int64", (2,))}, keep=["number"])


def test_a_row_tells_where_it_is_from(files: list[str]) -> None:
    told = []

    def note(fields: Any, row: ringfeed.Row) -> dict[str, Any]:
        told.append((row.file, row.record, row.epoch, row.pass_number))
        return {"twice": fields["number"] * 2}

    loader = loader_of(files, parse=PARSE, map=ringfeed.MapRows(note, {"twice": ("int64", ())}))
    assert read(loader, "twice") == [2 * number for number in range(RECORDS)]
    assert sorted(told) == [(file, record, 0, 0) for file in files for record in range(60)]
    told.clear()
    read(loader, "twice")
    assert {epoch for _, _, epoch, _ in told} == {1}


def test_draws_are_the_rows_own_in_every_order_and_new_in_each_epoch(files: list[str]) -> None:
    def drawn(**arguments: Any) -> list[dict[int, Any]]:
        loader = loader_of(files, parse=PARSE, map=DRAWS, seed=5, **arguments)
        return [
            {
                number: tuple(pair)
                for batch in loader
                for number, pair in zip(
                    numpy.asarray(batch["number"]).tolist(), numpy.asarray(batch["drawn"]).tolist()
                )
            }
            for _ in range(2)
        ]

    first, second = drawn()
    assert len(first) == RECORDS
    assert len({*first.values(), *second.values()}) == 2 * RECORDS
    for shuffle in (20, "stripes", "global"):
        assert drawn(shuffle=shuffle) == [first, second]
    parts = [drawn(rank=ringfeed.Rank(rank, 2)) for rank in range(2)]
    assert [{**parts[0][epoch], **parts[1][epoch]} for epoch in range(2)] == [first, second]


def test_a_resumed_loop_draws_what_the_whole_one_drew(files: list[str]) -> None:
    def loader() -> ringfeed.Loader:
        return loader_of(files, parse=PARSE, map=DRAWS, shuffle="global")

    whole = loader()
    wanted = [numpy.asarray(batch["drawn"]).tolist() for _ in range(2) for batch in whole]
    stopped = loader()
    read(stopped, "drawn")
    got = [numpy.asarray(batch["drawn"]).tolist() for _, batch in zip(range(3), stopped)]
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    got += [numpy.asarray(batch["drawn"]).tolist() for batch in resumed]
    assert got == wanted[8:]


def test_a_generator_and_a_parser_draw_too(files: list[str]) -> None:
    class Noisy(ringfeed.Parser):
        fields = {"noise": ("float64", (3,))}

        def parse(self, sample: bytes, row: ringfeed.Row) -> dict[str, Any]:  # type: ignore[override]
            return {"noise": row.generator().random(3)}

    once, again = (read(loader_of(files, parse=Noisy(), seed=2), "noise") for _ in range(2))
    assert once == again
    assert len(set(map(tuple, once))) == RECORDS
    assert read(loader_of(files, parse=Noisy(), seed=3), "noise") != once


@pytest.mark.parametrize("parsed", [True, False])
def test_damaged_refuses_the_row(files: list[str], parsed: bool) -> None:
    def refuse(given: Any) -> dict[str, Any]:
        number = given["number"] if parsed else numpy.frombuffer(given, "int64", 1)[0]
        if number % 50 == 7:
            raise ringfeed.Damaged("no cat")
        return {"n": number}

    arguments: dict[str, Any] = {"map": ringfeed.MapRows(refuse, {"n": ("int64", ())})}
    if parsed:
        arguments["parse"] = PARSE
    loader = loader_of(files, skip_damaged=True, **arguments)
    assert read(loader, "n") == [n for n in range(RECORDS) if n % 50 != 7]
    stats = loader.stats()
    assert stats["damaged_records"] == 3
    assert "refuse refused the row: no cat" in stats["damage"][0]["reason"]
    with pytest.raises(ringfeed.Damaged, match="no cat") as caught:
        read(loader_of(files, **arguments), "n")
    assert (caught.value.file, caught.value.record) == (files[0], 7)


def test_other_exceptions_come_out_at_the_loop_under_every_policy(files: list[str]) -> None:
    def fail(fields: Any) -> dict[str, Any]:
        raise KeyError("label")

    with pytest.raises(KeyError, match="label"):
        read(
            loader_of(
                files,
                parse=PARSE,
                skip_damaged=True,
                map=ringfeed.MapRows(fail, {"n": ("int64", ())}),
            ),
            "n",
        )


def test_rows_of_any_length_and_kept_fields_stand_beside_each_other(files: list[str]) -> None:
    def repeat(fields: Any) -> dict[str, Any]:
        return {"many": numpy.repeat(fields["number"], fields["number"] % 4)}

    loader = loader_of(
        files,
        parse=PARSE,
        map=ringfeed.MapRows(repeat, {"many": ("int64", (-1,))}, keep=["pair"]),
    )
    wanted = [number for number in range(RECORDS) for _ in range(number % 4)]
    assert read(loader, "many") == wanted
    assert read(loader, "pair") == [[number / 2, 1.0] for number in range(RECORDS)]


def test_a_row_that_hangs_is_given_up(files: list[str]) -> None:
    released = threading.Event()

    def hang(fields: Any) -> dict[str, Any]:
        if fields["number"] == 75:
            released.wait(60)
        return {"n": fields["number"]}

    def loader(**arguments: Any) -> ringfeed.Loader:
        rows = ringfeed.MapRows(hang, {"n": ("int64", ())}, timeout_ms=2000)
        return loader_of(files, parse=PARSE, map=rows, **arguments)

    try:
        with pytest.raises(ringfeed.errors.DeadlineExceeded, match="hang did not return") as caught:
            read(loader(), "n")
        assert (caught.value.file, caught.value.record) == (files[1], 15)
        skipping = loader(skip_damaged=True)
        assert read(skipping, "n") == [n for n in range(RECORDS) if n != 75]
        stats = skipping.stats()
        assert stats["given_up_rows"] == 1
        assert stats["slowest_rows"][0]["record"] == 15
    finally:
        released.set()


def test_what_cannot_be_kept_is_named(files: list[str]) -> None:
    rows = ringfeed.MapRows(lambda fields: {}, {"n": ("int64", ())}, keep=["label"])
    with pytest.raises(ValueError, match='there are "number" "pair"'):
        next(loader_of(files, parse=PARSE, map=rows))
