"""Batches on devices, with emulated ones."""

from __future__ import annotations

import gc
import json
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import loader_data
import pytest
from loader_data import NUMBER, all_numbers, number_loader, numbers, open_sequences
from loader_data import write_damaged_tfrecords, write_rows, write_sequences

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


def test_in_a_fixed_slot_the_output_of_a_transform_does_not_move(tmp_path: Path) -> None:
    rows = [list(range(number % 7)) for number in range(46)]  # the last batch has two
    path = write_sequences(tmp_path / "s.jsonl", rows)
    plan = DevicePlan("emu:1", fixed_slots=True, slot_bytes=4096, transforms=[Pad("t", 8)])
    places: dict[int, set[int]] = {}
    generations = []
    chain = ringfeed.batch(open_sequences(path), 4)
    with ringfeed.Loader.from_reader(chain, devices=plan) as loader:
        for batch in loader:
            part = loader.part()
            assert part is not None
            generations.append((part.slot, part.generation))
            address = batch["t"].__array_interface__["data"][0]
            places.setdefault(part.slot, set()).add(address)
    assert [len(addresses) for addresses in places.values()] == [1, 1, 1]
    assert len(set(generations)) == 12


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


def _cuda_is_usable(files: str) -> bool:
    try:
        number_loader(files, devices="cuda").close()
    except ringfeed.Error:
        return False
    return True


def test_numbers_of_gpus_that_are_not_there_are_an_error_and_not_emulated(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    if _cuda_is_usable(files):
        pytest.skip("there is a GPU here")
    for devices in ([0], [0, 1], (0,), "cuda:0", "cuda:0,1", DevicePlan([0])):
        with pytest.raises(ringfeed.Error, match='(?i)cuda.*; for a trial .*"emu:2"'):
            number_loader(files, devices=devices)


def test_auto_says_which_devices_it_took(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    if _cuda_is_usable(files):
        loader = number_loader(files, devices="auto")
    else:
        with pytest.warns(RuntimeWarning, match="^devices: emulated, as CUDA .*: ") as caught:
            loader = number_loader(files, devices="auto")
        assert [warning.filename for warning in caught] == [loader_data.__file__]
    assert all_numbers(loader) == list(range(300))
    stats = loader.stats()
    assert "CUDA" in stats["devices_reason"]
    kinds = {device["kind"] for device in stats["devices"]}
    assert kinds == ({"cuda"} if _cuda_is_usable(files) else {"emu"})
    assert len(stats["devices"]) >= (1 if _cuda_is_usable(files) else 2)
    named = number_loader(files, devices="emu:1")
    assert all_numbers(named) == list(range(300))
    assert named.stats()["devices_reason"] == ""


def test_numbers_of_gpus_may_be_written_as_the_command_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def feed(reader: ringfeed.Reader, **arguments: Any) -> Any:
        asked.append((arguments["kind"], arguments["devices"]))
        return reader

    monkeypatch.setattr("ringfeed._core.DeviceFeed", feed)
    reader = ringfeed.open_files(write_rows(tmp_path), format="rows:8")
    for devices in ("cuda:0", "cuda:0,1", "cuda", [1, 0], "emu:2"):
        DevicePlan(devices).feed(reader)
    assert asked == [
        ("cuda", [0]),
        ("cuda", [0, 1]),
        ("cuda", []),
        ("cuda", [1, 0]),
        ("emu:2", []),
    ]


@pytest.mark.parametrize(
    "devices, error, message",
    [
        (0, TypeError, r"the GPU of this number is \[0\]"),
        (True, TypeError, "not True$"),
        (b"cuda", TypeError, "not b'cuda'"),
        ({0}, TypeError, "the numbers of GPUs"),
        (["a"], TypeError, "a device's number must be an integer"),
        ([-1], ValueError, "a device's number must be at least 0"),
        ([], ValueError, "are none: .*, or None for batches in host memory"),
        ([0, 0], ValueError, "device 0 is listed twice"),
        ("cuda:1,1", ValueError, "device 1 is listed twice"),
        ("cuda:", ValueError, '"cuda:0,1"'),
        ("cuda:x", ValueError, '"cuda:0,1"'),
        ("cuda:0,", ValueError, '"cuda:0,1"'),
        ("cuda:-1", ValueError, '"cuda:0,1"'),
    ],
)
def test_what_names_no_device_is_told_by_what_does(
    tmp_path: Path, devices: Any, error: type[Exception], message: str
) -> None:
    files = write_rows(tmp_path)
    with pytest.raises(error, match=message):
        number_loader(files, devices=devices)


def test_devices_that_are_none_are_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    with pytest.raises(ringfeed.Error):
        number_loader(files, devices="toaster")
    with pytest.raises(ValueError, match="round_robin"):
        number_loader(files, devices=DevicePlan("emu:1", distribution="fair"))
    with pytest.raises(ValueError, match="1 is CUDA's default stream"):
        number_loader(files, devices=DevicePlan("emu:1", stream=0))
    with pytest.raises(KeyError, match="there are x"):
        number_loader(files, devices="emu:1", transforms=[Widen("y")])
    with pytest.raises(TypeError, match="devices="):
        next(number_loader(files).device(0))


@pytest.mark.parametrize("of_a_device", [False, True])
def test_a_batch_that_the_stream_refuses_is_given_again(
    tmp_path: Path, of_a_device: bool
) -> None:
    plan = DevicePlan("emu:1", slots=2, stream=12346)  # there is none of that number
    loader = number_loader(write_rows(tmp_path, 1), batch=10, devices=plan)
    batches = loader.device(0) if of_a_device else loader
    for _ in range(12):  # there are ten batches
        with pytest.raises(ringfeed.Error, match="stream"):
            next(batches)
    assert loader.stats()["devices"][0]["batches"] == 1
    loader.close()


def test_stats_say_what_each_device_got(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices="emu:2")
    assert len(all_numbers(loader)) == 300
    stats = loader.stats()
    assert [device["batches"] for device in stats["devices"]] == [22, 21]
    assert stats["records"] == 300


@pytest.mark.parametrize("transfer", ["auto", "batch", "members", "slabs"])
def test_every_transfer_brings_the_same(tmp_path: Path, transfer: str) -> None:
    path = tmp_path / "long.bin"
    # Several blocks: what a batch needs beside its own memory is taken once it was missing.
    path.write_bytes(b"".join(i.to_bytes(4, "little") * 20000 for i in range(200)))
    rows = ringfeed.rows({"x": ("uint8", (80000,))})
    arguments: dict[str, Any] = dict(format="rows:80000", parse=rows, batch=7, shuffle=20)
    plain = [batch["x"].tobytes() for batch in ringfeed.Loader(path, **arguments)]
    plan = DevicePlan("emu:2", transfer=transfer)
    on_device = ringfeed.Loader(path, devices=plan, **arguments)
    assert [batch["x"].tobytes() for batch in on_device] == plain
    for device in on_device.stats()["devices"]:
        assert transfer in ("auto", device["transfer"]) and device["transfer_reason"]
        left = device["member_bytes"] + device["slab_bytes"]
        assert transfer == "auto" or (left > 0) == (transfer != "batch")


def test_a_transfer_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ringfeed.Error, match="telepathy"):
        number_loader(write_rows(tmp_path), devices=DevicePlan("emu:1", transfer="telepathy"))


def test_costs_change_how_bytes_come_and_never_which(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    path.write_bytes(b"".join(i.to_bytes(4, "little") * 175 for i in range(6000)))
    rows = ringfeed.rows({"x": ("uint8", (700,))})
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({"ringfeed_transfer_costs": 1, "copy_ns_per_kib": 9000.0}))

    def feed(plan: DevicePlan) -> tuple[list[bytes], dict[str, Any]]:
        loader = ringfeed.Loader(
            path, format="rows:700", parse=rows, batch=50, devices=plan
        )
        return [batch["x"].tobytes() for batch in loader], loader.stats()["devices"][0]

    plain, by_defaults = feed(DevicePlan("emu:1", transfer="slabs"))
    assert by_defaults["slab_bytes"] == 0
    assert "an H200 (defaults)" in by_defaults["transfer_reason"]
    for costs in (file, str(file), {"copy_ns_per_kib": 9000}):
        batches, by_costs = feed(DevicePlan("emu:1", transfer="slabs", costs=costs))
        assert batches == plain
        assert by_costs["slab_bytes"] > 0
        assert "by the costs given" in by_costs["transfer_reason"]


def test_costs_that_are_none_are_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    file = tmp_path / "costs.json"
    file.write_text("[]")
    with pytest.raises(ringfeed.errors.InvalidArgument, match="costs"):
        number_loader(files, devices=DevicePlan("emu:1", costs=file))
    with pytest.raises(ringfeed.errors.NotFound):
        number_loader(files, devices=DevicePlan("emu:1", costs=tmp_path / "none.json"))
    with pytest.raises(ValueError, match="row_ns"):
        number_loader(files, devices=DevicePlan("emu:1", costs={"rows": 3}))
    with pytest.raises(ringfeed.errors.InvalidArgument, match="member_ns"):
        next(number_loader(files, devices=DevicePlan("emu:1", costs={"member_ns": -1})))


def test_what_a_function_raises_comes_out_of_the_feed(tmp_path: Path) -> None:
    def refuse(record: bytes) -> bool:
        if struct.unpack("<q", record)[0] == 50:
            raise KeyError("not fifty")
        return True

    loader = number_loader(write_rows(tmp_path), filter=refuse, devices="emu:1")
    with pytest.raises(KeyError, match="not fifty"):
        all_numbers(loader)


def last_step_batches(files: str, last_step: str, distribution: str) -> list[tuple[int, ...]]:
    """(device, first number, rows, rows that count) of each batch of 300 numbers by 40 on three."""
    plan = DevicePlan("emu:3", last_step=last_step, distribution=distribution)
    seen = []
    with number_loader(files, batch=40, devices=plan) as loader:
        for batch in loader:
            part = loader.part()
            assert part is not None and f"EMU:{part.device}" == batch["x"].device
            assert part.rows == len(batch["x"])
            seen.append((part.device, numbers(batch)[0], part.rows, part.valid_rows))
    return seen


@pytest.mark.parametrize(
    ("last_step", "distribution", "end"),
    [
        ("uneven", "round_robin", [(2, 200, 40, 40), (0, 240, 40, 40), (1, 280, 20, 20)]),
        ("drop", "round_robin", [(0, 120, 40, 40), (1, 160, 40, 40), (2, 200, 40, 40)]),
        ("pad", "round_robin", [(0, 240, 40, 40), (1, 280, 40, 20), (2, 280, 40, 0)]),
        ("short", "round_robin", [(0, 240, 20, 20), (1, 260, 20, 20), (2, 280, 20, 20)]),
        ("uneven", "split", [(0, 280, 7, 7), (1, 287, 7, 7), (2, 294, 6, 6)]),
        ("drop", "split", [(0, 240, 14, 14), (1, 254, 13, 13), (2, 267, 13, 13)]),
        ("pad", "split", [(0, 280, 14, 14), (1, 294, 13, 6), (2, 287, 13, 0)]),
        ("short", "split", [(0, 280, 7, 7), (1, 287, 7, 7), (2, 294, 6, 6)]),
        ("uneven", "replicate", [(0, 280, 20, 20), (1, 280, 20, 20), (2, 280, 20, 20)]),
        ("pad", "replicate", [(0, 280, 40, 20), (1, 280, 40, 20), (2, 280, 40, 20)]),
    ],
)
def test_the_last_step_is_as_it_was_asked_for(
    tmp_path: Path, last_step: str, distribution: str, end: list[tuple[int, ...]]
) -> None:
    seen = last_step_batches(write_rows(tmp_path), last_step, distribution)
    assert seen[-3:] == end


def test_groups_of_devices_get_batches_in_turn(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    plan = DevicePlan("emu:4", distribution="replicate", replicas=2, waiting_batches=1)
    with number_loader(files, batch=10, devices=plan) as loader:
        assert len(loader) == 60
        got = [(batch["x"].device, numbers(batch)[0]) for batch in loader]
    assert got[:5] == [("EMU:0", 0), ("EMU:1", 0), ("EMU:2", 10), ("EMU:3", 10), ("EMU:0", 20)]
    with pytest.raises(ringfeed.errors.InvalidArgument, match="groups of 3"):
        plan = DevicePlan("emu:4", distribution="replicate", replicas=3)
        next(number_loader(files, devices=plan))


def test_slots_are_in_the_memory_that_functions_give(tmp_path: Path) -> None:
    asked: list[tuple[int, ...]] = []
    freed: list[tuple[int, ...]] = []

    def allocate(device: int, size: int, stream: int) -> int:
        asked.append((device, size))
        assert stream > 0
        if len(asked) == 2:
            raise MemoryError("the pool is empty")
        return 4096 + 17

    def free(device: int, address: int, size: int, stream: int) -> None:
        freed.append((device, address, size))

    plan = DevicePlan("emu:1", slot_bytes=8192, memory=(allocate, free))
    with pytest.raises(ringfeed.Error, match="multiple of 256"):
        next(number_loader(write_rows(tmp_path), devices=plan))
    assert (asked, freed) == ([(0, 8192)], [(0, 4096 + 17, 8192)])
    with pytest.raises(ringfeed.errors.ResourceExhausted, match="the pool is empty"):
        next(number_loader(write_rows(tmp_path), devices=plan))
    with pytest.raises(TypeError, match="two functions"):
        number_loader(write_rows(tmp_path), devices=DevicePlan("emu:1", memory=(free,)))  # type: ignore[arg-type]


def test_what_was_dropped_and_repeated_is_counted(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    for last_step, dropped, repeated in [("drop", 60, 0), ("pad", 0, 60), ("uneven", 0, 0)]:
        loader = number_loader(files, batch=40, devices=DevicePlan("emu:3", last_step=last_step))
        for _ in loader:
            pass
        stats = loader.stats()
        assert (stats["dropped_rows"], stats["repeated_rows"]) == (dropped, repeated)
        loader.close()


@pytest.mark.parametrize("distribution", ["round_robin", "split"])
def test_a_padded_last_step_has_a_mask(tmp_path: Path, distribution: str) -> None:
    plan = DevicePlan("emu:3", last_step="pad", distribution=distribution)
    loader = number_loader(write_rows(tmp_path), batch=40, devices=plan)
    assert loader.names == ("x", "mask")
    counted = []
    for batch in loader:
        mask = batch["mask"]
        assert (mask.dtype, mask.shape) == ("uint8", batch["x"].shape)
        assert mask.device == batch["x"].device
        counted += [n for n, valid in zip(numbers(batch), mask.tobytes()) if valid]
    assert counted == list(range(300))


def test_the_mask_is_the_last_of_a_tuple_and_lives_as_its_batch(tmp_path: Path) -> None:
    plan = DevicePlan("emu:2", last_step="pad")
    loader = number_loader(write_rows(tmp_path), batch=40, as_tuple=True, devices=plan)
    masks = [mask for _, mask in (next(loader) for _ in range(4))]
    loader.close()
    del loader
    gc.collect()
    assert [mask.tobytes() for mask in masks] == [b"\x01" * 40] * 4


def test_a_field_mask_and_the_mask_of_a_last_step_are_not_mixed_up(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, pad=True, devices=DevicePlan("emu:2", last_step="pad"))
    with pytest.raises(ringfeed.errors.InvalidArgument, match='"mask" already'):
        next(loader)
    loader = number_loader(
        files, batch=40, pad=True, devices=DevicePlan("emu:3", last_step="short")
    )
    steps = [(len(batch["x"]), sum(batch["mask"].tobytes())) for batch in loader]
    assert [rows for rows, _ in steps[-3:]] == [27, 27, 26]
    assert sum(valid for _, valid in steps) == 300


def test_part_is_of_the_last_batch_or_of_a_devices_last_one(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), batch=40, devices="emu:3")
    assert loader.part() is None
    for _ in loader:
        pass
    assert loader.part() == loader.part(1)
    parts = [loader.part(device) for device in (1, 2)]
    assert [part[:3] for part in parts if part] == [(1, 20, 20), (2, 40, 40)]
    loader.reset()
    assert loader.part() is None and loader.part(2) is None
    with pytest.raises(TypeError, match="devices="):
        number_loader(write_rows(tmp_path)).part()


def test_offsets_of_ragged_rows_lie_with_their_values(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s.jsonl", [[1, 2, 3], [], [4]])
    host_batches = ringfeed.batch(open_sequences(path), 3)
    (on_host,) = next(host_batches)
    assert on_host.offsets.device == "CPU"
    host_batches.close()
    plan = DevicePlan("emu:1")
    (array,) = next(plan.feed(ringfeed.batch(open_sequences(path), 3)))
    assert (array.offsets.device, array.lod[0].device) == ("EMU:0", "CPU")
    for offsets in (on_host.offsets, array.offsets, array.lod[0]):
        assert numbers(offsets) == [0, 3, 3, 4]
    assert (array.offsets.dtype, array.offsets.offsets) == ("int64", None)


def test_offsets_keep_their_batch(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s.jsonl", [[n] * (n % 4) for n in range(40)])
    feed = DevicePlan("emu:1", slots=2).feed(ringfeed.batch(open_sequences(path), 2))
    kept = [next(feed)[0].offsets for _ in range(2)]
    with pytest.raises(ringfeed.errors.ResourceExhausted):
        next(feed)
    assert [numbers(offsets) for offsets in kept] == [[0, 0, 1], [0, 2, 5]]
    del kept
    gc.collect()
    assert numbers(next(feed)[0].offsets) == [0, 0, 1]


def test_a_field_that_is_not_ragged_or_was_padded_has_no_offsets(tmp_path: Path) -> None:
    assert next(number_loader(write_rows(tmp_path), devices="emu:1"))["x"].offsets is None
    path = write_sequences(tmp_path / "s.jsonl", [[1, 2, 3], [4]])
    plan = DevicePlan("emu:1", transforms=[Pad("t", 2)])
    (array,) = next(plan.feed(ringfeed.batch(open_sequences(path), 2)))
    assert array.offsets is None and array.lod == []


def test_skipping_goes_on_from_where_the_loop_stands(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, devices="emu:2")
    loader.seek_to(10)
    loader.skip_batches(2)
    assert numbers(next(loader))[0] == 12 * 7
    loader.skip_batches(3)
    loader.skip_batches(1)
    assert numbers(next(loader))[0] == 17 * 7
    assert loader.batch_number == 18
    other = number_loader(files, devices="emu:3")
    other.load_state_dict(loader.state_dict())
    other.skip_batches(2)
    assert numbers(next(other))[0] == 20 * 7


def test_seeking_behind_the_end_ends_the_loop(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices="emu:2")
    loader.seek_to(1000)
    assert all_numbers(loader) == []


@pytest.mark.parametrize("batches", [2**64 - 1, 2**64 - 3, 2**63])
def test_skipping_behind_the_end_ends_the_loop_however_far(tmp_path: Path, batches: int) -> None:
    loader = number_loader(write_rows(tmp_path), devices="emu:2")
    for _ in range(7):
        next(loader)
    loader.skip_batches(batches)
    assert all_numbers(loader) == []
    assert all_numbers(loader) == list(range(300))


@pytest.mark.parametrize("distribution", ["round_robin", "split"])
def test_a_state_is_behind_the_slowest_device(tmp_path: Path, distribution: str) -> None:
    files = write_rows(tmp_path)
    plan = DevicePlan("emu:2", distribution=distribution)
    loader = number_loader(files, batch=10, devices=plan)
    first, second = loader.device(0), loader.device(1)
    next(second)
    for _ in range(3):
        next(first)
    whole = 2 if distribution == "round_robin" else 1
    whole += 1 if distribution == "round_robin" else 0  # batch 2, which the first device had
    other = number_loader(files, batch=10)  # on the host
    other.load_state_dict(loader.state_dict())
    assert numbers(next(other)) == list(range(whole * 10, whole * 10 + 10))


def test_loops_of_unequal_speed_get_every_row_in_two_epochs(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), batch=10, shuffle=True, devices="emu:3")
    for _ in range(2):
        got: list[int] = []
        parts = []

        def loop(device: int) -> None:
            for batch in loader.device(device):
                time.sleep(0.0005 * device)
                parts.append(loader.part(device))
                got.extend(numbers(batch))

        threads = [threading.Thread(target=loop, args=(device,)) for device in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(got) == list(range(300))
        assert sorted(part.device for part in parts) == sorted([0, 1, 2] * 10)
        iter(loader)  # the next epoch


def test_a_state_ends_with_the_last_of_the_loops(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    loader = number_loader(files, batch=100, devices="emu:2")  # three batches
    first, second = loader.device(0), loader.device(1)
    next(first), next(second)
    assert next(second, None) is None
    saved = loader.state_dict()
    assert not saved["ended"]
    other = number_loader(files, batch=100, devices="emu:2")
    other.load_state_dict(saved)
    assert all_numbers(other) == list(range(200, 300))
    next(first)
    assert next(first, None) is None and loader.state_dict()["ended"]


def _next_in_time(loop: Any) -> Any:
    """The next batch of a device whose patience is short: the reader may take longer to go on."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return next(loop)
        except ringfeed.errors.DeadlineExceeded:
            assert time.monotonic() < deadline


def test_a_device_whose_batches_nobody_takes_is_an_error_in_the_end(tmp_path: Path) -> None:
    plan = DevicePlan("emu:2", slots=2, patience=0.2)
    loader = number_loader(write_rows(tmp_path), devices=plan)
    first, second = loader.device(0), loader.device(1)
    got = []
    with pytest.raises(ringfeed.errors.DeadlineExceeded):
        while True:
            got.append(numbers(next(first))[0])
    assert got == list(range(0, len(got) * 14, 14))
    assert numbers(next(second))[0] == 7
    assert numbers(_next_in_time(first))[0] == len(got) * 14  # and goes on


def test_a_loop_per_device_holds_no_batch_of_its_own(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices=DevicePlan("emu:1", slots=2))
    loop = loader.device(0)
    held = [next(loop), next(loop)]
    with pytest.raises(ringfeed.errors.ResourceExhausted):
        next(loop)
    held.clear()
    gc.collect()
    held += [next(loop), next(loop)]  # the same loop goes on, with all slots
    assert [numbers(batch)[0] for batch in held] == [14, 21]


def test_a_chain_of_ones_own_may_lie_on_devices(tmp_path: Path) -> None:
    records = ringfeed.open_files(write_rows(tmp_path), format="rows:8")
    chain = ringfeed.batch(
        ringfeed.multi_pass(ringfeed.parse(records, ringfeed.rows(NUMBER)), 2), 50
    )
    plan = DevicePlan("emu:2", last_step="pad")
    with ringfeed.Loader.from_reader(chain, devices=plan) as loader:
        for _ in range(2):
            batches = [(batch["x"].device, numbers(batch)) for batch in loader]
            assert [device for device, _ in batches] == ["EMU:0", "EMU:1"] * 6
            assert [n for _, values in batches for n in values] == 2 * list(range(300))


def test_transforms_go_beside_a_plan_and_behind_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_bytes(bytes([10, 20, 1, 0]))
    reader = ringfeed.parse(
        ringfeed.open_files(tmp_path / "a.rows", format="rows:4"),
        ringfeed.rows({"pixel": ("uint8", (2,)), "token": ("uint16", ())}),
    )
    plan = DevicePlan("emu:1", transforms=[Normalize("pixel")])
    loader = ringfeed.Loader.from_reader(
        ringfeed.batch(reader, 1), devices=plan, transforms=[Widen("token", "int32")]
    )
    batch = next(loader)
    assert (batch["pixel"].dtype, batch["token"].dtype) == ("float32", "int32")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_images_are_normalized_by_channel_with_channels_first(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "a.rows").write_bytes(bytes([0, 1, 2, 3, 4, 5]))  # 1 by 2 of 3 channels
    loader = ringfeed.Loader(
        tmp_path / "a.rows",
        format="rows:6",
        parse=ringfeed.rows({"image": ("uint8", (1, 2, 3))}),
        batch=1,
        devices="emu:1",
        transforms=[
            Normalize("image", dtype, mean=[0, 1, 2], scale=[1, 2, 4], channels_first=True)
        ],
    )
    image = next(loader)["image"]
    assert (image.shape, image.dtype) == ((1, 3, 1, 2), dtype)
    if dtype != "bfloat16":
        values = struct.unpack("<6f" if dtype == "float32" else "<6e", image.tobytes())
    else:
        values = tuple(
            struct.unpack("<f", b"\0\0" + image.tobytes()[at : at + 2])[0] for at in range(0, 12, 2)
        )
    assert values == (0, 3, 0, 6, 0, 12)


def _places_and_images(tmp_path: Path, rows: int = 12) -> tuple[Path, list[list[list[int]]]]:
    """Rows of a place and an image of 4 by 5 of 2 channels, and what 2 by 3 of each are."""
    wanted, data = [], b""
    for row in range(rows):
        top, left, flip = row % 5 - 1, row % 7 - 2, row % 2
        pixels = bytes((row * 31 + i * 7) % 256 for i in range(40))
        data += struct.pack("<3i", top, left, flip) + pixels
        top, left = min(max(top, 0), 2), min(max(left, 0), 2)
        columns = [left + 2, left + 1, left] if flip else [left, left + 1, left + 2]
        wanted.append(
            [
                [
                    pixels[(line * 5 + column) * 2 + channel]
                    for column in columns
                    for channel in (0, 1)
                ]
                for line in (top, top + 1)
            ]
        )
    (tmp_path / "a.rows").write_bytes(data)
    return tmp_path / "a.rows", wanted


def _image_loader(path: Path, *transforms: Normalize, **options: Any) -> ringfeed.Loader:
    return ringfeed.Loader(
        path,
        format="rows:52",
        parse=ringfeed.rows({"place": ("int32", (3,)), "image": ("uint8", (4, 5, 2))}),
        transforms=transforms,
        **{"batch": 4, "devices": "emu:1", **options},
    )


@pytest.mark.parametrize("crops", ["place", 0])
@pytest.mark.parametrize("transfer", ["auto", "batch", "members", "slabs"])
def test_images_are_cropped_and_mirrored_where_a_field_says(
    tmp_path: Path, transfer: str, crops: Any
) -> None:
    path, wanted = _places_and_images(tmp_path)
    normalize = Normalize("image", mean=[3], scale=[0.5], crop=(2, 3), crops=crops)
    plan = DevicePlan("emu:2", transfer=transfer)
    got: list[float] = []
    for batch in _image_loader(path, normalize, devices=plan):
        assert batch["image"].shape == (4, 2, 3, 2)
        assert batch["place"].shape == (4, 3)
        got += struct.unpack("<48f", batch["image"].tobytes())
    assert got == [(value - 3) / 2 for image in wanted for line in image for value in line]


def test_images_are_cropped_in_the_middle_without_such_a_field(tmp_path: Path) -> None:
    path, _ = _places_and_images(tmp_path)
    for sides, shape in (((2, 3), (4, 2, 2, 3)), ((0, 2), (4, 2, 4, 2)), (None, (4, 2, 4, 5))):
        normalize = Normalize("image", channels_first=True, crop=sides)
        assert next(_image_loader(path, normalize))["image"].shape == shape
    batch = next(_image_loader(path, Normalize("image", crop=(1, 2)), batch=1))
    assert struct.unpack("<4f", batch["image"].tobytes()) == (84, 91, 98, 105)  # line 1, column 1


@pytest.mark.parametrize(
    ("normalize", "error", "said"),
    [
        (Normalize("image", crop=3), TypeError, "height, width"),  # type: ignore[arg-type]
        (Normalize("image", crop=(1, 2, 3)), TypeError, "height, width"),  # type: ignore[arg-type]
        (Normalize("image", crop=(1, -2)), ValueError, "a side of a crop must be at least 0"),
        (Normalize("image", crop=(1, 2.5)), TypeError, "a side of a crop"),  # type: ignore[arg-type]
        (Normalize("image", crop=(1, 2), crops="places"), KeyError, "no field 'places'"),
    ],
)
def test_a_crop_that_is_none_is_refused_as_it_is_made(
    tmp_path: Path, normalize: Normalize, error: type[Exception], said: str
) -> None:
    path, _ = _places_and_images(tmp_path, 1)
    with pytest.raises(error, match=said):
        _image_loader(path, normalize)


@pytest.mark.parametrize(
    ("normalize", "said"),
    [
        (Normalize("image", crop=(5, 3)), "a crop of 5 by 3 pixels does not fit"),
        (Normalize("image", crop=(2, 3), crops=7), "crops is field 7; there are 2 fields"),
        (Normalize("image", crop=(2, 3), crops="image"), r"is to be int32 \[4, 3\]: top, left"),
        (Normalize("place", crop=(2, 3)), "only uint8"),
    ],
)
def test_a_crop_that_does_not_fit_is_said_at_the_first_batch(
    tmp_path: Path, normalize: Normalize, said: str
) -> None:
    path, _ = _places_and_images(tmp_path)
    with pytest.raises(ringfeed.errors.InvalidArgument, match=said):
        next(_image_loader(path, normalize))


@pytest.mark.parametrize(
    ("plan", "error", "said"),
    [
        (DevicePlan("emu:1", slots=1), ValueError, "2 .* to 64"),
        (DevicePlan("emu:1", slots=-1), ValueError, "2 .* to 64"),
        (DevicePlan("emu:1", slots=65), ValueError, "2 .* to 64"),
        (DevicePlan("emu:1", slot_bytes=-1), ValueError, "negative"),
        (DevicePlan("emu:1", patience=-1), ValueError, "negative"),
        (DevicePlan("emu:0"), ValueError, "emu:0"),
        (DevicePlan("emu:1", last_step="even"), ValueError, "uneven"),
        (DevicePlan("emu:1", transforms=[Widen(-1)]), ValueError, "from 0"),
        (DevicePlan("emu:1", transforms=[Pad(0, 0)]), ValueError, "at least 1"),
        (DevicePlan("emu:1", transforms=[Normalize(0, "fancy")]), ValueError, "fancy"),
        (DevicePlan("emu:1", transforms=[("x", 3)]), TypeError, "Normalize"),  # type: ignore
        (DevicePlan(0), TypeError, "the numbers of GPUs"),  # type: ignore
    ],
)
def test_a_plan_that_cannot_work_is_refused_as_it_is_made(
    tmp_path: Path, plan: DevicePlan, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        number_loader(write_rows(tmp_path, 1), devices=plan)


@pytest.mark.parametrize(
    ("numbers_given", "said"), [([-1], "no device -1"), ([0, 0], "listed twice")]
)
def test_numbers_that_are_of_no_gpu_are_refused(
    tmp_path: Path, numbers_given: list[int], said: str
) -> None:
    files = write_rows(tmp_path, 1)
    if not _cuda_is_usable(files):
        pytest.skip("there is no GPU here")
    with pytest.raises(ringfeed.Error, match=said):
        next(number_loader(files, devices=numbers_given))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (DevicePlan("emu:1", transforms=[Widen(7)]), "field 7"),
        (DevicePlan("emu:1", transforms=[Widen("x")]), "uint16"),
        (DevicePlan("emu:1", transforms=[Normalize("x")]), "uint8"),
        (DevicePlan("emu:1", transforms=[Pad("x", 3)]), "ragged"),
    ],
)
def test_what_does_not_fit_the_data_is_said_at_the_first_batch(
    tmp_path: Path, plan: DevicePlan, said: str
) -> None:
    loader = number_loader(write_rows(tmp_path, 1), devices=plan)
    with pytest.raises(ringfeed.errors.InvalidArgument, match=said):
        next(loader)


def test_devices_that_are_not_there_have_no_loop(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), devices="emu:2")
    with pytest.raises(ValueError, match="number 5"):
        next(loader.device(5))
    with pytest.raises(ValueError, match="from 0"):
        next(loader.device(-1))
    with pytest.raises(ValueError, match="less than 2\\^64"):
        next(loader.device(10**30))


@pytest.mark.parametrize("distribution", ["round_robin", "split"])
@pytest.mark.parametrize("last_step", ["uneven", "drop", "pad", "short"])
def test_an_error_comes_behind_all_good_batches(
    tmp_path: Path, last_step: str, distribution: str
) -> None:
    path = write_damaged_tfrecords(tmp_path / "a.tfrecord", records=40, damaged=25)
    plan = DevicePlan("emu:2", last_step=last_step, distribution=distribution)
    loader = ringfeed.Loader(path, parse=ringfeed.rows(NUMBER), batch=5, devices=plan)
    got = []
    with pytest.raises(ringfeed.errors.Damaged) as caught:
        for batch in loader:
            got += numbers(batch)[: loader.part().valid_rows]
    assert got == list(range(25))
    assert (caught.value.file, caught.value.record) == (path, 25)
    with pytest.raises(ringfeed.errors.Damaged):
        next(loader)  # it stays


def test_a_batch_that_a_map_failed_of_is_not_held(tmp_path: Path) -> None:
    def refuse(batch: object) -> None:
        raise LookupError("not this one")

    plan = DevicePlan("emu:1", slots=2)
    loader = number_loader(write_rows(tmp_path), devices=plan, map=refuse)
    for _ in range(5):
        with pytest.raises(LookupError, match="not this one"):
            next(loader)
        gc.collect()
    assert loader.batch_number == 5


_DROPPED = """
import gc, sys, time
import ringfeed

def slow(record):
    time.sleep(0.001)
    return True

for devices in (None, "emu:1"):
    loader = ringfeed.Loader(
        sys.argv[1], format="rows:8", batch=7, passes=0, filter=slow, devices=devices
    )
    view = memoryview(next(loader)["bytes"])
    del loader
    gc.collect()
    del view
    gc.collect()
    print("gone", flush=True)
"""


def test_the_last_array_of_a_loader_that_is_gone_waits_for_no_callback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DROPPED, write_rows(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "gone\ngone\n"


def test_closing_ends_the_loops_of_all_devices(tmp_path: Path) -> None:
    def slow(record: bytes) -> bool:
        time.sleep(0.002)
        return True

    loader = number_loader(write_rows(tmp_path), passes=0, filter=slow, devices="emu:2")
    ended = []

    def loop(device: int) -> None:
        with pytest.raises(ringfeed.errors.Cancelled):
            for _ in loader.device(device):
                pass
        ended.append(device)

    threads = [threading.Thread(target=loop, args=(device,)) for device in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    loader.close()
    for thread in threads:
        thread.join(30)
    assert sorted(ended) == [0, 1]


@pytest.mark.parametrize("last_step", ["uneven", "drop", "pad", "short"])
@pytest.mark.parametrize("distribution", ["round_robin", "split", "replicate"])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_the_length_is_what_the_loop_gets(
    tmp_path: Path, devices: int, distribution: str, last_step: str
) -> None:
    plan = DevicePlan(f"emu:{devices}", distribution=distribution, last_step=last_step)
    for rows, batch, rank in [(9, 2, None), (8, 2, None), (1, 2, None), (13, 8, 0), (13, 8, 1)]:
        folder = tmp_path / f"{rows}"
        folder.mkdir(exist_ok=True)
        files = write_rows(folder, 1, rows)
        of_two = None if rank is None else ringfeed.Rank(rank, 2)
        with number_loader(files, batch=batch, rank=of_two, devices=plan) as loader:
            assert len(loader) == sum(1 for _ in loader), (rows, batch, rank)
