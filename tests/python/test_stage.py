"""A stage: a function of Python's that makes fields of each batch on its device."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy
import pytest
from loader_data import all_numbers, number_loader, numbers, open_sequences
from loader_data import write_rows, write_sequences

import ringfeed
from ringfeed.devices import DevicePlan, Pad, Stage, StageCall


def triple(call: StageCall) -> None:
    numpy.multiply(call.fields["x"].numpy(), 3, out=call.outputs["triple"].numpy())


TRIPLE = Stage(triple, {"triple": ("int64", ())})


@pytest.mark.parametrize("distribution", ["round_robin", "split", "replicate"])
def test_what_a_stage_makes_is_a_field_of_each_batch(tmp_path: Path, distribution: str) -> None:
    plan = DevicePlan("emu:2", distribution=distribution, stage=TRIPLE)
    with number_loader(write_rows(tmp_path), devices=plan) as loader:
        assert loader.names == ("x", "triple")
        assert "triple: int64 [-1]" in repr(loader)
        rows = 0
        for batch in loader:
            assert batch["triple"].device == batch["x"].device
            assert batch["triple"].tolist() == [3 * number for number in numbers(batch)]
            rows += len(batch["triple"])
    assert rows == (600 if distribution == "replicate" else 300)


def test_outputs_stand_before_the_mask(tmp_path: Path) -> None:
    seen = []

    def note(call: StageCall) -> None:
        triple(call)
        seen.append((call.device, call.stream, call.valid_rows, len(call.outputs["triple"])))

    plan = DevicePlan("emu:1", last_step="pad", stage=TRIPLE._replace(function=note))
    with number_loader(write_rows(tmp_path), batch=64, devices=plan) as loader:
        assert loader.names == ("x", "triple", "mask")
        assert [len(batch["triple"]) for batch in loader] == [64, 64, 64, 64, 64]
    assert seen[:4] == [(0, None, 64, 64)] * 4
    assert seen[4] == (0, None, 44, 64)


def test_ragged_fields_have_their_offsets(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s", [[1], [2, 3], [], [4, 5, 6]])

    def add(call: StageCall) -> None:
        values, offsets = call.fields["t"].numpy(), call.offsets["t"].numpy()
        for row, out in enumerate(call.outputs["sums"].numpy()):
            out[...] = values[offsets[row] : offsets[row + 1]].sum()

    stage = Stage(add, {"sums": ("int64", [1])})
    chain = ringfeed.batch(open_sequences(path), 4)
    with ringfeed.Loader.from_reader(chain, devices=DevicePlan("emu:1", stage=stage)) as loader:
        assert next(loader)["sums"].tolist() == [[1], [5], [0], [15]]


def test_it_sees_what_transforms_made(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s", [[1], [2, 3]])

    def check(call: StageCall) -> None:
        assert call.offsets == {}
        call.outputs["double"].numpy()[...] = call.fields["t"].numpy() * 2

    plan = DevicePlan("emu:1", stage=Stage(check, {"double": ("int64", [2])}))
    chain = ringfeed.batch(open_sequences(path), 2)
    with ringfeed.Loader.from_reader(chain, devices=plan, transforms=[Pad("t", 2)]) as loader:
        assert next(loader)["double"].tolist() == [[2, 0], [4, 6]]


def test_what_it_raises_comes_after_everything_good_with_its_traceback(tmp_path: Path) -> None:
    class Odd(Exception):
        pass

    def refuse(call: StageCall) -> None:
        view = call.fields["x"].numpy()
        if failing and view[0] == 70:
            raise Odd("seventy", int(view[0]))
        triple(call)

    failing = True
    plan = DevicePlan("emu:1", stage=TRIPLE._replace(function=refuse))
    with number_loader(write_rows(tmp_path), devices=plan) as loader:
        for _ in range(2):
            seen = []
            with pytest.raises(Odd, match="seventy") as caught:
                for batch in loader:
                    seen += numbers(batch)
            assert seen == list(range(70))
            assert "refuse" in [frame.name for frame in traceback.extract_tb(caught.tb)]
            # What its frames held is memory that is written again.
            frames = [frame for frame, _ in traceback.walk_tb(caught.tb)]
            assert all("view" not in frame.f_locals for frame in frames)
        failing = False
        assert all_numbers(loader) == list(range(300))


def test_keeping_an_array_fails_and_says_so(tmp_path: Path) -> None:
    kept: list[Any] = []

    def keep(call: StageCall) -> None:
        kept.append(call.fields["x"].numpy())

    for stage in (Stage(keep), Stage(kept.append)):
        plan = DevicePlan("emu:1", stage=stage)
        with number_loader(write_rows(tmp_path), devices=plan) as loader:
            with pytest.raises(ringfeed.Error, match="copy what is to stay"):
                next(loader)
        kept.clear()


def test_a_state_says_nothing_of_it(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    plan = DevicePlan("emu:2", stage=TRIPLE)
    plain = number_loader(files, shuffle=True, seed=3, devices="emu:2")
    staged = number_loader(files, shuffle=True, seed=3, devices=plan)
    for _ in range(11):
        next(plain), next(staged)
    state = staged.state_dict()
    assert state == plain.state_dict()
    other = number_loader(files, shuffle=True, seed=3, devices=plan)
    other.load_state_dict(state)
    for batch in other:
        assert batch["triple"].tolist() == [3 * number for number in numbers(batch)]


def test_stages_of_several_threads(tmp_path: Path) -> None:
    plan = DevicePlan("emu:4", stage=TRIPLE)
    loader = number_loader(write_rows(tmp_path, 3, 1000), batch=5, devices=plan)
    got: list[int] = []

    def loop(device: int) -> None:
        for batch in loader.device(device):
            assert batch["triple"].tolist() == [3 * number for number in numbers(batch)]
            got.extend(numbers(batch))

    threads = [threading.Thread(target=loop, args=(device,)) for device in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == list(range(3000))


def test_what_cannot_work_is_refused_as_it_is_made(tmp_path: Path) -> None:
    files = write_rows(tmp_path)

    def make(stage: Any, **plan: Any) -> ringfeed.Loader:
        return number_loader(files, devices=DevicePlan("emu:1", stage=stage, **plan))

    with pytest.raises(TypeError, match="a stage is a Stage"):
        make(triple)
    with pytest.raises(ValueError, match="'x' already"):
        make(Stage(triple, {"x": ("int64", ())}))
    with pytest.raises(ringfeed.Error, match="float31"):
        make(Stage(triple, {"y": ("float31", ())}))
    with pytest.raises(ringfeed.Error, match="mask"):
        next(make(Stage(triple, {"mask": ("int64", ())}), last_step="pad"))
    with pytest.raises(ringfeed.Error, match="at least 1"):
        next(make(Stage(triple, {"y": ("int64", (3, -1))})))


@pytest.mark.parametrize("end", ["", "loader.close()", "del loader", "raise SystemExit(0)"])
def test_a_process_ends_in_the_middle_of_a_stage(tmp_path: Path, end: str) -> None:
    program = f"""
import sys, threading, time
import ringfeed
from ringfeed.devices import DevicePlan, Stage

began = threading.Event()
def slow(call):
    began.set()
    time.sleep(0.2)

loader = ringfeed.Loader(sys.argv[1], format="rows:8", parse=None, batch=3,
                         devices=DevicePlan("emu:2", stage=Stage(slow)))
next(loader)
began.clear()
began.wait()
{end}
"""
    command = [sys.executable, "-c", program, write_rows(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fields_that_stay_on_the_host_are_there_for_a_decoder(tmp_path: Path) -> None:
    path = write_sequences(tmp_path / "s", [[i] * (i % 5 + 1) for i in range(200)])
    seen = []

    def look(call: StageCall) -> None:
        values, offsets = call.fields["t"], call.offsets["t"]
        assert values.device == offsets.device == "CPU"
        call.outputs["first"].numpy()[...] = values.numpy()[offsets.numpy()[:-1]]

    stage = Stage(look, {"first": ("int64", ())})
    plan = DevicePlan("emu:1", host_fields=["t"], stage=stage)
    chain = ringfeed.batch(open_sequences(path), 8)
    with ringfeed.Loader.from_reader(chain, devices=plan) as loader:
        held = None
        for batch in loader:
            values, offsets = batch["t"], batch["t"].offsets
            assert (values.device, batch["first"].device) == ("CPU", "EMU:0")
            assert offsets is not None and offsets.device == "CPU"
            rows = [values.numpy()[a:b] for a, b in zip(offsets.numpy(), offsets.numpy()[1:])]
            assert [row[0] for row in rows] == batch["first"].tolist()
            assert all(len(row) == row[0] % 5 + 1 and (row == row[0]).all() for row in rows)
            if held is not None:
                assert held[1].tolist() == held[0]
            seen += [int(row[0]) for row in rows]
            held = (values.tolist(), values)
    assert seen == list(range(200))


@pytest.mark.parametrize("call", ["next(loader)", "iter(loader)", "loader.close()"])
def test_a_stage_that_calls_its_loader_does_not_wait_for_itself(tmp_path: Path, call: str) -> None:
    files = write_rows(tmp_path)
    stage = Stage(lambda _: eval(call, {"loader": loader}))
    loader = number_loader(files, devices=DevicePlan("emu:1", stage=stage))
    with pytest.raises(ringfeed.errors.InvalidArgument, match="a stage calls a feed"):
        all_numbers(loader)


def test_what_a_stage_threw_stays_though_a_later_call_would_start_its_loader_again(
    tmp_path: Path,
) -> None:
    calls: list[int] = []
    thrice = threading.Event()

    def fail(_: StageCall) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            time.sleep(0.2)  # the next batch's call is enqueued meanwhile
            raise ValueError("the second")
        if len(calls) > 2:
            try:
                iter(loader)
            finally:
                thrice.set()

    plan = DevicePlan("emu:1", slots=4, stage=Stage(fail))
    loader = number_loader(write_rows(tmp_path), devices=plan)
    assert numbers(next(loader))[0] == 0
    thrice.wait(2)
    with pytest.raises(ValueError, match="the second"):
        next(loader)
