"""A Loader with the speed that `ringfeed tune` found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from loader_data import all_numbers, number_loader, write_rows

from ringfeed import _core, devices, errors


def write_tuning(folder: Path, **changes: Any) -> Path:
    """A tuning for this machine, whose name is told by the refusal of another one's."""
    tuning = {
        "ringfeed_tuning": 1,
        "machine": "Z80, 1 CPU",
        "format": "rows:8",
        "threads": 2,
        "io": "pread",
        "direct": True,
        "block_bytes": 131072,
        "in_flight_bytes": 1048576,
        "slots": 5,
        "device_slots": 4,
    }
    path = folder / "tuned.json"
    path.write_text(json.dumps(tuning))
    with pytest.raises(errors.InvalidArgument, match="Z80, 1 CPU") as refused:
        _core.tuned_feed(str(path))
    machine = re.search(r"this is (.*)\): ", str(refused.value))
    assert machine
    path.write_text(json.dumps({**tuning, "machine": machine[1], **changes}))
    return path


def test_the_order_stays_and_the_speed_is_as_tuned(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    plain = all_numbers(number_loader(files, shuffle="global", seed=3))
    tuned = number_loader(files, shuffle="global", seed=3, tuned=write_tuning(tmp_path))
    assert all_numbers(tuned) == plain
    assert {choice["path"] for choice in tuned.stats()["io"]} == {"pread"}


def test_what_is_given_beside_it_wins(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), tuned=write_tuning(tmp_path), io="mmap")
    assert sorted(all_numbers(loader)) == list(range(300))
    assert {choice["path"] for choice in loader.stats()["io"]} == {"mmap"}


def test_slots_are_the_tuned_ones(tmp_path: Path) -> None:
    assert _core.tuned_feed(str(write_tuning(tmp_path))) == (5, 4, "", "")
    tuning = write_tuning(tmp_path, transfer="members")
    assert _core.tuned_feed(str(tuning)) == (5, 4, "members", "")
    plan = devices.plan_of("emu:1", (), 4, "members")
    assert plan is not None and (plan.slots, plan.transfer) == (4, "members")
    own = devices.plan_of(devices.DevicePlan("emu:1", slots=2), (), 4, "members")
    assert own is not None and (own.slots, own.transfer) == (2, "auto")
    held = []
    with number_loader(write_rows(tmp_path), tuned=write_tuning(tmp_path, slots=3)) as loader:
        with pytest.raises(errors.ResourceExhausted):
            for batch in loader:
                held.append(batch)
    assert len(held) == 3


def test_devices_of_another_kind_are_refused(tmp_path: Path) -> None:
    tuned = write_tuning(tmp_path, devices="cuda: NVIDIA H200", device_count=1)
    with pytest.raises(errors.InvalidArgument, match="NVIDIA H200; device 0 is emu"):
        list(number_loader(write_rows(tmp_path), tuned=tuned, devices="emu:1"))
    tuned = write_tuning(tmp_path, devices="emu", device_count=1)
    with number_loader(write_rows(tmp_path), tuned=tuned, devices="emu:1") as loader:
        assert sum(1 for _ in loader) > 0
    own = devices.DevicePlan("emu:1")
    tuned = write_tuning(tmp_path, devices="cuda: NVIDIA H200", device_count=1)
    with number_loader(write_rows(tmp_path), tuned=tuned, devices=own) as loader:
        assert sum(1 for _ in loader) > 0


def test_another_format_and_what_is_no_tuning_are_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    tuned = write_tuning(tmp_path, format="tfrecord")
    with pytest.raises(errors.InvalidArgument, match="tuned for tfrecord files"):
        number_loader(files, tuned=tuned)
    tuned.write_text("{}")
    with pytest.raises(errors.InvalidArgument, match="no tuning"):
        number_loader(files, tuned=tuned)
    with pytest.raises(errors.NotFound):
        number_loader(files, tuned=tmp_path / "not_there")
