"""Batches on devices: which ones, in which parts, and what is made of their fields there."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from . import _core, counterparts
from .arguments import at_least, counted, warn_caller


class Normalize(NamedTuple):
    """A field of uint8 becomes numbers: (value - mean) * scale, on the device, which also crops and
    mirrors images.

    Attributes:
        field: its name or number; its rows are [height, width, channels] for channels_first and
            for a crop.
        dtype: "float32", "float16" or "bfloat16".
        mean, scale: one for all, or one per channel (1 to 4); empty: 0 and 1.
        channels_first: rows become [channels, height, width].
        crop: height and width of the part that is taken of each image, in pixels, at most the
            image's (0: the whole side); None: all of it.
        crops: the name or number of the field that says, of each row, where its crop stands: int32
            [3], its top, its left, and whether it is mirrored, left to right (not 0). It stays a
            field of the batch. A crop that would stand beyond an edge is moved to it, without a
            word. None: crops stand in the middle (what is left over is halved, rounded down), and
            none is mirrored. The device draws nothing: what becomes of a sample hangs on what was
            written beside it, so it can be had again.
    """

    field: Union[str, int]
    dtype: str = "float32"
    mean: Sequence[float] = ()
    scale: Sequence[float] = ()
    channels_first: bool = False
    crop: Optional[tuple[int, int]] = None
    crops: Union[str, int, None] = None


class Widen(NamedTuple):
    """A field of uint16, by its name or number, becomes "int32" or "int64" on the device."""

    field: Union[str, int]
    dtype: str = "int64"


class Pad(NamedTuple):
    """A ragged field becomes [rows, length, …] on the device: longer rows are cut, shorter ones
    filled up with `padding`, the bytes of one element (empty: zero)."""

    field: Union[str, int]
    length: int
    padding: bytes = b""


class Part(NamedTuple):
    """A batch on a device, or a device's part of one.

    Attributes:
        device: its number.
        rows: of the batch.
        valid_rows: with last_step="pad" the rows from here on are repeated ones; else all.
        slot: the place on its device that it takes, from 0.
        generation: how often that slot was filled.
    """

    device: int
    rows: int
    valid_rows: int
    slot: int
    generation: int


Transform = Union[Normalize, Widen, Pad]


class StageCall(NamedTuple):
    """What a stage's function is called with: a batch, or a device's part of one, that has at least
    one row. Its arrays are its own during the call alone: it must keep none.

    Attributes:
        fields: by their names, as the loop gets them after the transforms, in the device's memory
            (of emulated devices the host's, for NumPy). They must not be written.
        offsets: of the fields that are ragged, in the same memory: int64 [rows + 1].
        outputs: what it is to write.
        device: the device's number.
        stream: the handle of the stream that the work is to be enqueued on; None on emulated
            devices, where the work is to be done when the function returns.
        valid_rows: with last_step="pad" the rows from here on are repeated ones.
    """

    fields: dict[str, _core.Array]
    offsets: dict[str, _core.Array]
    outputs: dict[str, _core.Array]
    device: int
    stream: Optional[int]
    valid_rows: int


class Stage(NamedTuple):
    """Work of your own on each batch on its device: after the transforms, on their stream, before
    the loop gets the batch.

    A pure function of the batch: it has no place in a state, and may be called again for a batch in
    which damage was found. What it raises is that batch's failure, which the loop gets after all
    that is good; `iter(loader)` starts again. The feed's threads call it with the interpreter's
    lock, for one batch of a device at a time.

    Attributes:
        function: called with a StageCall for each batch. On a GPU it enqueues work on
            `call.stream`, by `ringfeed.torch.stage_stream(call)`, or
            `cupy.cuda.ExternalStream(call.stream)`; if it waited for the GPU, it would hold up the
            feed.
        outputs: the fields that it makes, after the batch's own: by name the dtype and the shape of
            a row.
    """

    function: Callable[[StageCall], Any]
    outputs: Mapping[str, tuple[str, Sequence[int]]] = MappingProxyType({})


@dataclass(frozen=True)
class DevicePlan:
    """Arguments of a Loader about devices; puts its chains' batches on them.

    Attributes:
        devices: a kind ("cuda", "cuda:0,1", "emu:2"), the numbers of GPUs, or "auto": GPUs if
            there are some, else emulated devices. A Loader then warns, and its stats() say why.
        slots: batches on each device at a time, at least 2, those that are held included.
        distribution: "round_robin"; "split": every batch is cut into a part per device;
            "replicate": every batch goes whole to each device of a group, for devices that share
            the work on it (tensor or context parallelism). It is read once and copied to each.
        last_step: if there are not enough batches for every device. "uneven": the first devices
            step once more; "drop": the step is left out; "pad": rows are repeated, and a last field
            "mask" (uint8 [rows]) is 1 for rows that count; "short": its rows are spread over all.
        slot_bytes: of device memory for a slot: all are made with the feed; 0: learned from the
            batches that come. stats() say what an earlier run came to ("slot_bytes").
        fixed_slots: a batch that does not fit its slot fails the loop; else the slot grows. In a
            fixed slot, what is not ragged stands at the same address in every batch: a graph that
            was captured with a slot's batch can be replayed on the slot's later ones (`Part.slot`).
            Each field is copied by itself.
        transforms: of fields, after the copy.
        stage: a Stage: what a function of yours makes of each batch there; None: nothing.
        host_fields: names or numbers of fields that stay in host memory, pinned: encoded images,
            for a decoder that takes pointers and lengths of the host's. An array of such a field,
            with its offsets, is the host's. With transfer "auto", which then is "batch", or
            "batch", and without a transform. Each slot takes one more batch of pinned memory.
        stream: the handle of the stream that the loop's work is enqueued on, as DLPack numbers
            them: 1 is CUDA's default stream (which Torch and CuPy call 0), 2 the thread's own one;
            None: who takes an array waits for its copy: by DLPack the stream that is named (Torch
            names its current one), else the host.
        patience: seconds that a batch is waited for if only the program itself can go on, since
            another device's batches are not taken; then DeadlineExceeded, and a later call may
            succeed.
        transfer: how bytes come onto a device. "batch": the CPU makes batches in pinned memory;
            "members": long fields are copied from where they were read, one by one; "slabs": what
            was read is copied together, and the device makes batches of it; "direct": cuFile reads
            files into the device's memory, if it can, else as "slabs"; "auto": by how long the
            fields are, and what that costs. stats() say which it was, and why.
        costs: what bringing rows onto these devices costs, as "auto" weighs it: a file that
            `ringfeed bench --gpu --costs-out` wrote, or nanoseconds by their names
            ("copy_ns_per_kib", "link_ns_per_kib", "member_ns", "row_ns", "sum_ns"). What is left
            out is as on an H200. They change the speed, never what comes.
        tuned_for: the kind of devices that slots and transfer were tuned for, as `ringfeed tune`
            writes it ("emu", "cuda: NVIDIA H200"): others are refused; "": any.
        replicas: with "replicate", so many devices that follow each other are a group, and batch k
            goes to group k modulo their number; 0: all are one.
        waiting_batches: how many wait for a slot in host memory, at each device, 1 to 64: how far
            reading is ahead of the slots. Each takes pinned memory.
        high_priority: of the streams that copy and transform.
        memory: two functions for the slots' memory, of another allocator than the device's own:
            allocate(device, bytes, stream) gives an address, a multiple of 256, and free(device,
            address, bytes, stream) takes it back after all work on it was seen done. `stream`, a
            handle, is the first that uses it. The feed's threads call them. An exception fails the
            loop. `ringfeed.torch.slot_memory()` are Torch's. None: the device's own.
    """

    devices: Union[str, Sequence[int]]
    slots: int = 3
    distribution: str = "round_robin"
    last_step: str = "uneven"
    slot_bytes: int = 0
    fixed_slots: bool = False
    transforms: Sequence[Transform] = ()
    stream: Optional[int] = None
    patience: float = 30.0
    transfer: str = "auto"
    costs: Union[str, "os.PathLike[str]", Mapping[str, float], None] = None
    tuned_for: str = ""
    replicas: int = 0
    waiting_batches: int = 2
    high_priority: bool = True
    memory: Optional[tuple[Callable[[int, int, int], int], Callable[[int, int, int, int], Any]]] = (
        None
    )
    stage: Optional[Stage] = None
    host_fields: Sequence[Union[str, int]] = ()

    def feed(self, reader: _core.Reader) -> _core.DeviceFeed:
        """The chain's batches on the devices.

        Raises:
            Error: there are no such devices, or numbers stand for GPUs and none can be used.
            TypeError: what is no device's number, or no transform.
            ValueError, KeyError: a name that is none, a number that cannot work.
            InvalidArgument, NotFound and other Errors: a file of costs that is none; devices of
                another kind than was tuned for.
        """
        self._check()
        kind, numbers = _chosen(self.devices)
        return _core.DeviceFeed(
            reader,
            kind=kind,
            devices=numbers,
            slots=self.slots,
            distribution=self.distribution,
            last_step=self.last_step,
            slot_bytes=self.slot_bytes,
            fixed_slots=self.fixed_slots,
            normalize=[
                (
                    _place(reader, t.field),
                    t.dtype,
                    list(t.mean),
                    list(t.scale),
                    t.channels_first,
                    (0, 0) if t.crop is None else (t.crop[0], t.crop[1]),
                    None if t.crops is None else _place(reader, t.crops),
                )
                for t in self.transforms
                if isinstance(t, Normalize)
            ],
            widen=[
                (_place(reader, t.field), t.dtype)
                for t in self.transforms
                if isinstance(t, Widen)
            ],
            pad=[
                (_place(reader, t.field), t.length, t.padding)
                for t in self.transforms
                if isinstance(t, Pad)
            ],
            stream=self.stream or 0,
            patience_ms=round(self.patience * 1000),
            transfer=self.transfer,
            costs=_costs_of(self.costs),
            tuned_for=self.tuned_for,
            replicas=self.replicas,
            waiting_batches=self.waiting_batches,
            high_priority=self.high_priority,
            memory=self.memory,
            host_fields=[_place(reader, field) for field in self.host_fields],
            **_stage_of(self.stage, reader),
        )

    def handed_out(self, batches: int, last_is_short: bool, devices: int) -> int:
        """What loops over so many devices get of `batches`, of which the last has fewer rows."""
        if self.distribution == "split":
            dropped = self.last_step == "drop" and last_is_short and batches > 1
            return (batches - dropped) * devices
        copies = (self.replicas or devices) if self.distribution == "replicate" else 1
        if self.last_step == "uneven":
            return batches * copies
        steps, rest = divmod(batches, devices // copies)
        return (steps + (rest > 0 and self.last_step != "drop")) * devices

    def _check(self) -> None:
        for transform in self.transforms:
            if not isinstance(transform, (Normalize, Widen, Pad)):
                raise TypeError(f"a transform is a Normalize, a Widen or a Pad, not {transform!r}")
            if isinstance(transform, Normalize):
                _check_crop(transform.crop)
            if isinstance(transform, Pad) and transform.length < 1:
                raise ValueError(f"rows are padded to a length of at least 1: {transform!r}")
        if not 2 <= self.slots <= 64:
            raise ValueError(f"slots={self.slots}: 2 (one is filled while another is used) to 64")
        if self.stream is not None and self.stream < 1:
            raise ValueError(
                f"stream={self.stream} names none: 1 is CUDA's default stream (Torch and CuPy call "
                "it 0), 2 the thread's own one"
            )
        if self.slot_bytes < 0 or self.patience < 0 or self.replicas < 0:
            raise ValueError("slot_bytes, patience and replicas are not negative")
        if not 1 <= self.waiting_batches <= 64:
            raise ValueError(f"waiting_batches={self.waiting_batches}: from 1 to 64")
        if self.memory is not None and not (
            len(self.memory) == 2 and all(callable(function) for function in self.memory)
        ):
            raise TypeError("memory= are two functions, (allocate, free), or None")
        if self.stage is not None and not isinstance(self.stage, Stage):
            raise TypeError(f"a stage is a Stage(function, outputs), not {self.stage!r}")


# A dataclass makes its own __init__; a slip in a name is told as other functions do.
setattr(DevicePlan, "__init__", counterparts.hinting({})(DevicePlan.__init__))


def warn_of_choice(reader: Union[_core.Reader, _core.DeviceFeed]) -> None:
    """Warns whoever called the package if "auto" came to emulated devices."""
    if isinstance(reader, _core.DeviceFeed) and reader.kind == "emu" and reader.devices_reason:
        warn_caller(f"devices: {reader.devices_reason}")


def plan_of(
    devices: Union[str, Sequence[int], DevicePlan, None],
    transforms: Sequence[Transform] = (),
    tuned_slots: int = 0,
    tuned_transfer: str = "",
    tuned_for: str = "",
) -> Optional[DevicePlan]:
    """The DevicePlan that a Loader's argument stands for, None for batches on the host. Without a
    DevicePlan of the caller's its slots and its transfer are the tuned ones, if there are any."""
    if devices is None:
        if transforms:
            raise TypeError("transforms are made on devices: say which by devices=")
        return None
    if isinstance(devices, DevicePlan):
        return replace(devices, transforms=[*devices.transforms, *transforms])
    plan = DevicePlan(devices, transforms=transforms)
    return replace(
        plan,
        slots=tuned_slots or plan.slots,
        transfer=tuned_transfer or plan.transfer,
        tuned_for=tuned_for,
    )


def _costs_of(
    costs: Union[str, "os.PathLike[str]", Mapping[str, float], None],
) -> dict[str, float]:
    if costs is None:
        return {}
    if isinstance(costs, Mapping):
        return dict(costs)
    return _core.load_transfer_costs(os.fspath(costs))


def _stage_of(stage: Optional[Stage], reader: _core.Reader) -> dict[str, Any]:
    if stage is None:
        return {}
    names = [slot[0] for slot in reader.slots]
    for name in stage.outputs:
        if name in names:
            raise ValueError(f"the batches have a field {name!r} already: rename the output")

    def call(
        fields: Any, offsets: Any, outputs: Any, device: int, stream: Optional[int], valid: int
    ) -> None:
        ragged = {name: of for name, of in zip(names, offsets) if of is not None}
        made = dict(zip(stage.outputs, outputs))
        told = StageCall(dict(zip(names, fields)), ragged, made, device, stream, valid)
        del fields, offsets, outputs, ragged, made
        try:
            stage.function(told)
        except BaseException as error:
            # Its frames' arrays are of memory that is written again.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            del told

    outputs = [(name, dtype, list(row)) for name, (dtype, row) in stage.outputs.items()]
    return {"stage": call, "outputs": outputs}


def _chosen(devices: Any) -> tuple[str, list[int]]:
    """The kind, and the numbers of its devices, none for all of them."""
    ways = 'a kind ("cuda", "cuda:0,1", "emu:2", "auto"), or the numbers of GPUs ([0, 1])'
    if isinstance(devices, str):
        kind, colon, numbers = devices.partition(":")
        if not colon or kind != "cuda":
            return devices, []
        if not all(number.isascii() and number.isdigit() for number in numbers.split(",")):
            raise ValueError(f'devices={devices!r}: write numbers of devices, as in "cuda:0,1"')
        listed = [int(number) for number in numbers.split(",")]
    elif isinstance(devices, (int, bytes)) or not isinstance(devices, Sequence):
        one = type(devices) is int and devices >= 0
        more = f": the GPU of this number is [{devices!r}]" if one else ""
        raise TypeError(f"devices are {ways}, not {devices!r}{more}")
    else:
        listed = [at_least(0, number, "a device's number") for number in devices]
        if not listed:
            raise ValueError(f"devices=[] are none: {ways}, or None for batches in host memory")
    twice = [number for number in listed if listed.count(number) > 1]
    if twice:
        raise ValueError(f"devices={devices!r}: device {twice[0]} is listed twice")
    return "cuda", listed


def _check_crop(crop: Any) -> None:
    if crop is None:
        return
    if not isinstance(crop, Sequence) or isinstance(crop, (str, bytes)) or len(crop) != 2:
        raise TypeError(f"a crop is (height, width) in pixels, not {crop!r}")
    for side in crop:
        counted(side, "a side of a crop")


def _place(reader: _core.Reader, field: Union[str, int]) -> int:
    if isinstance(field, int):
        if field < 0:
            raise ValueError(f"fields are counted from 0: {field}")
        return field
    names = [slot[0] for slot in reader.slots]
    if field not in names:
        raise KeyError(f"no field {field!r}: there are {', '.join(names)}")
    return names.index(field)
