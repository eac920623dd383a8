"""Batches on devices, with emulated ones."""

from __future__ import annotations

import gc
import struct
import threading
from pathlib import Path

import pytest
from loader_data import all_numbers, number_loader, numbers, open_sequences
from loader_data import write_rows, write_sequences

import ringfeed
from ringfeed.devices import DevicePlan, Normalize, Pad, Widen


def test_two_devices_get_the_batches_in_turn(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    with number_loader(files, devices="emu:2") as loader:
        batches = [(batch["x"].device, numbers(batch)) for batch in loader]
    assert [device for device, _ in batches[:4]] == ["EMU:0", "EMU:1", "EMU:0", "EMU:1"]
    assert [values for _, values in batches] == [numbers(b) for b in number_loader(files)]


def test_split_batches_are_cut_into_a_part_per_device(tmp_path: Path) -> None:
    plan = DevicePlan("emu:2", distribution="split")
    loader = number_loader(write_rows(tmp_path, 1), batch=10, devices=plan)
    parts = [numbers(batch) for batch in loader]
    assert parts[:2] == [list(range(5)), list(range(5, 10))]
    assert len(parts) == 20


def test_a_loop_per_device_gets_its_part(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), batch=10, devices="emu:2")
    got: dict[int, list[int]] = {0: [], 1: []}

    def loop(device: int) -> None:
        for batch in loader.device(device):
            assert batch["x"].device == f"EMU:{device}"
            got[device] += numbers(batch)

    threads = [threading.Thread(target=loop, args=(device,)) for device in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [len(rows) for rows in got.values()] == [150, 150]
    assert sorted(got[0] + got[1]) == list(range(300))


def test_a_state_goes_on_with_the_next_batch(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, shuffle=True, seed=3, devices="emu:2")
    seen = [number for _ in range(11) for number in numbers(next(loader))]
    other = number_loader(files, shuffle=True, seed=3, devices="emu:2")
    other.load_state_dict(loader.state_dict())
    rest = all_numbers(other)
    assert sorted(seen + rest) == list(range(300))


def test_a_second_for_reads_the_next_epoch(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), shuffle=True, devices="emu:1")
    first, second = all_numbers(loader), all_numbers(loader)
    assert sorted(first) == sorted(second) == list(range(300))
    assert first != second


def test_holding_every_slot_is_an_error_that_says_how_many(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices=DevicePlan("emu:1", slots=2))
    held = [next(loader), next(loader)]
    with pytest.raises(ringfeed.errors.ResourceExhausted, match="2"):
        next(loader)
    held.pop()
    gc.collect()
    assert numbers(next(loader)) == list(range(14, 21))


def test_batches_outlive_their_loader(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices="emu:1")
    batch = next(loader)
    loader.close()
    del loader
    gc.collect()
    assert numbers(batch) == list(range(7))


def test_a_ragged_field_is_padded_on_the_device(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s.jsonl", [[1, 2, 3], [4]])
    plan = DevicePlan("emu:1", transforms=[Pad("t", 2, struct.pack("<q", -1))])
    (array,) = next(plan.feed(ringfeed.batch(open_sequences(path), 2)))
    assert array.shape == (2, 2)
    assert numbers(array) == [1, 2, 4, -1]


def test_numbers_are_normalized_and_widened_on_the_device(tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_bytes(bytes([0, 10, 1, 0, 20, 30, 0, 1]))
    loader = ringfeed.Loader(
        tmp_path / "a.rows",
        format="rows:4",
        parse=ringfeed.rows({"pixel": ("uint8", (2,)), "token": ("uint16", ())}),
        batch=2,
        devices="emu:1",
        transforms=[Normalize("pixel", mean=[10.0], scale=[0.5]), Widen("token")],
    )
    (batch,) = loader
    assert struct.unpack("<4f", batch["pixel"].tobytes()) == (-5.0, 0.0, 5.0, 10.0)
    assert numbers(batch["token"]) == [1, 256]


def test_devices_that_are_none_are_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    with pytest.raises(ringfeed.Error):
        number_loader(files, devices="toaster")
    with pytest.raises(ValueError, match="round_robin"):
        number_loader(files, devices=DevicePlan("emu:1", distribution="fair"))
    with pytest.raises(KeyError, match="there are x"):
        number_loader(files, devices="emu:1", transforms=[Widen("y")])
    with pytest.raises(TypeError, match="devices="):
        next(number_loader(files).device(0))


def test_stats_say_what_each_device_got(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices="emu:2")
    assert len(all_numbers(loader)) == 300
    stats = loader.stats()
    assert [device["batches"] for device in stats["devices"]] == [22, 21]
    assert stats["records"] == 300


def test_what_a_function_raises_comes_out_of_the_feed(tmp_path: Path) -> None:
    def refuse(record: bytes) -> bool:
        if struct.unpack("<q", record)[0] == 50:
            raise KeyError("not fifty")
        return True

    loader = number_loader(write_rows(tmp_path), filter=refuse, devices="emu:1")
    with pytest.raises(KeyError, match="not fifty"):
        all_numbers(loader)
