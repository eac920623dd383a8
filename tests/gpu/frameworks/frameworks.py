"""Batches of a device feed in other libraries: Torch, CuPy, JAX, Numba.

  python frameworks.py --out FILE [--devices cuda] [--only NAME …] [--jobs 8]

Checks that each library sees the very bytes that a loop on the host reads; that memory is written
again only behind the consumer's work; what two feeds do to each other; and what happens beside
and inside of a capture of a CUDA graph. Each group of checks is a process of its own, so that a
crash or a hang is one failed check. Exit status: 0 all passed, 1 some failed, 77 no CUDA device.
With emulated devices (--devices emu:1) the checks that need CUDA are listed as skipped.

Checks whose "detail" has "observation" say what happens where nothing is promised: they fail only
on wrong values, a crash or a hang.
"""

import argparse
import concurrent.futures
import faulthandler
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy

import ringfeed
from checks import Checks, Failed, Skip, say, skip_all, why_no_devices
from ringfeed.devices import DevicePlan, Normalize, Widen

SEED = 7
GROUP_SECONDS, HAZARD_SECONDS = 45, 28

# Packed rows: no field is aligned in the file.
SMALL = {
    "id": ("int64", ()),
    "label": ("int32", ()),
    "image": ("uint8", (3, 16, 16)),
    "odd": ("float32", (13,)),
    "half": ("float16", (5,)),
}
SMALL_ROWS, SMALL_FILES, SMALL_BATCH, SMALL_PASSES = 6000, 3, 100, 2
LARGE = {"id": ("int64", ()), "body": ("uint8", (65528,))}
LARGE_ROWS, LARGE_BATCH = 768, 64
SLEEP_MS = 20.0
OVERWRITES = 24

Take = Callable[[Any], Any]
Batches = List[Dict[str, numpy.ndarray]]


class Way(NamedTuple):
    """How a library takes an Array.

    Attributes:
        take: a copy of it on the device, enqueued.
        host: that copy in host memory, when all is done.
        around: a context to take batches in.
    """

    take: Take
    host: Take
    around: Optional[Callable[[], Any]] = None


# The data


def row_bytes(fields: Dict[str, Any]) -> int:
    """Of a packed row."""
    return sum(numpy.dtype(dtype).itemsize * int(numpy.prod(shape, dtype=numpy.int64))
               for dtype, shape in fields.values())


def write_rows(path: pathlib.Path, fields: Dict[str, Any], first: int, rows: int) -> None:
    """Random rows whose "id" counts from `first`."""
    dtype = numpy.dtype([(name, numpy.dtype(kind).newbyteorder("<"), shape)
                         for name, (kind, shape) in fields.items()])
    assert dtype.itemsize == row_bytes(fields)
    random = numpy.random.default_rng(first)
    content = random.integers(0, 256, rows * dtype.itemsize, dtype=numpy.uint8).view(dtype)
    content["id"] = numpy.arange(first, first + rows)
    path.write_bytes(content.tobytes())


def make_data(folder: pathlib.Path) -> None:
    """The files of all groups."""
    each = SMALL_ROWS // SMALL_FILES
    for kind in ("small", "other"):
        for file in range(SMALL_FILES):
            first = file * each + (1_000_000 if kind == "other" else 0)
            write_rows(folder / f"{kind}-{file}.rows", SMALL, first, each)
    for kind in ("large", "huge"):
        first = 0 if kind == "large" else 2_000_000
        write_rows(folder / f"{kind}-0.rows", LARGE, first, LARGE_ROWS)


def open_loader(folder: pathlib.Path, kind: str, **options: Any) -> ringfeed.Loader:
    """Shuffled batches of one of the kinds of files."""
    large = kind in ("large", "huge")
    fields = LARGE if large else SMALL
    options.setdefault("passes", 0 if large else SMALL_PASSES)
    return ringfeed.Loader(
        str(folder / f"{kind}-*.rows"),
        format=f"rows:{row_bytes(fields)}",
        parse=ringfeed.rows(fields),
        batch=LARGE_BATCH if large else SMALL_BATCH,
        shuffle="global",
        seed=SEED,
        rank=None,
        drop_remainder=True,
        **options,
    )


def expected_batches(folder: pathlib.Path, kind: str, batches: int = 0, **options: Any) -> Batches:
    """What a loop on the host reads: all batches, or the first so many."""
    found: Batches = []
    with open_loader(folder, kind, **options) as loader:
        for batch in loader:
            found.append({name: array.numpy().copy() for name, array in batch.items()})
            del batch
            if len(found) == batches:
                break
    return found


def check_same(got: Sequence[Dict[str, numpy.ndarray]], expected: Batches) -> Dict[str, Any]:
    """That they are the same bytes in the same order; Failed says where they are not."""
    if len(got) != len(expected):
        raise Failed(f"{len(got)} batches instead of {len(expected)}")
    wrong, first = 0, None
    for number, (mine, right) in enumerate(zip(got, expected)):
        for name, values in right.items():
            seen = numpy.asarray(mine[name])
            good = (seen.shape == values.shape and seen.dtype == values.dtype
                    and seen.tobytes() == values.tobytes())
            if not good:
                wrong += 1
                first = first or {
                    "batch": number, "field": name, "shape": list(seen.shape),
                    "dtype": str(seen.dtype), "expected_shape": list(values.shape),
                    "expected_dtype": str(values.dtype),
                }
    if wrong:
        raise Failed(f"{wrong} fields of {len(got)} batches have wrong values", first)
    return {"batches": len(got), "fields": list(expected[0]),
            "bytes": sum(v.nbytes for b in expected for v in b.values())}


def on_device(array: Any, devices: str) -> None:
    """Failed where the batch does not lie where it should."""
    place = array.device
    if place.startswith("CUDA:") != devices.startswith("cuda"):
        raise Failed(f"a batch lies on {place}, not on {devices}")


# Libraries


def need(name: str) -> Any:
    """The module, or Skip."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a broken installation raises what it likes
        raise Skip(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def need_cuda(devices: str) -> None:
    """Skip on emulated devices."""
    if not devices.startswith("cuda"):
        raise Skip(f"needs CUDA devices, not {devices}")


def need_torch_cuda(devices: str) -> Any:
    """Torch, where it sees the GPU."""
    need_cuda(devices)
    torch = need("torch")
    if not torch.cuda.is_available():
        raise Failed("Torch sees no GPU")
    torch.cuda.init()
    return torch


def plain_way() -> Way:
    """Of host memory, that of emulated devices too."""
    return Way(lambda array: numpy.array(numpy.asarray(array)), lambda kept: kept)


def torch_way(torch: Any) -> Way:
    """By DLPack, on the stream that is current."""
    return Way(lambda array: torch.from_dlpack(array).clone(), lambda kept: kept.cpu().numpy())


def any_way(devices: str) -> Way:
    """Torch's for CUDA's devices."""
    return torch_way(need_torch_cuda(devices)) if devices.startswith("cuda") else plain_way()


def read_all(loader: ringfeed.Loader, way: Way, devices: str, batches: int = 0) -> List[Any]:
    """Copies of all batches, or of so many, enqueued only."""
    kept: List[Any] = []
    for batch in loader:
        for array in batch.values():
            on_device(array, devices)
        kept.append({name: way.take(array) for name, array in batch.items()})
        del array, batch
        if len(kept) == batches:
            break
    return kept


def in_host(kept: Sequence[Any], way: Way) -> List[Dict[str, numpy.ndarray]]:
    """Their values."""
    return [{name: way.host(value) for name, value in batch.items()} for batch in kept]


class Groups:
    """The groups of checks, a method each."""

    def __init__(self, checks: Checks, folder: pathlib.Path, devices: str) -> None:
        self.checks = checks
        self.folder = folder
        self.devices = devices
        self._expected: Dict[Any, Batches] = {}

    def expected(self, kind: str, batches: int = 0) -> Batches:
        """Read once."""
        key = (kind, batches)
        if key not in self._expected:
            self._expected[key] = expected_batches(self.folder, kind, batches)
        return self._expected[key]

    def same_values(self, way: Way, plan: Any = None) -> Dict[str, Any]:
        """All batches of the small files, in two passes."""
        expected = self.expected("small")
        with open_loader(self.folder, "small", devices=plan or self.devices) as loader:
            if way.around is None:
                kept = read_all(loader, way, self.devices)
                got = in_host(kept, way)
            else:
                with way.around():
                    kept = read_all(loader, way, self.devices)
                    got = in_host(kept, way)
        return check_same(got, expected)

    # (a)

    def torch(self) -> None:
        """Torch on its streams."""
        run = self.checks.run
        run("torch.default_stream", self._torch_default)
        run("torch.side_stream", self._torch_side)
        run("torch.plan_stream", self._torch_plan_stream, True)
        run("torch.plan_stream_taken_on_another", self._torch_plan_stream, False)
        run("torch.plan_legacy_stream_by_number", self._torch_legacy)
        run("torch.ringfeed_torch_tensors", self._ringfeed_torch)
        run("torch.data_loader", self._torch_data_loader)
        run("torch.as_tensor_by_cuda_array_interface", self._torch_as_tensor)
        run("torch.epochs_exactly_once", self._epochs)
        run("protocol.dlpack_streams", self._dlpack_streams)
        run("protocol.misuse_raises", self._misuse)
        run("protocol.hasattr_array_interface", self._hasattr)

    def _torch(self) -> Any:
        return need_torch_cuda(self.devices) if self.devices.startswith("cuda") else need("torch")

    def _torch_default(self) -> Any:
        return self.same_values(torch_way(self._torch()))

    def _torch_side(self) -> Any:
        torch = need_torch_cuda(self.devices)
        side = torch.cuda.Stream()
        return self.same_values(torch_way(torch)._replace(around=lambda: torch.cuda.stream(side)))

    def _torch_plan_stream(self, same: bool) -> Any:
        torch = need_torch_cuda(self.devices)
        side = torch.cuda.Stream()
        way = torch_way(torch)
        if same:
            way = way._replace(around=lambda: torch.cuda.stream(side))
        return self.same_values(way, DevicePlan(self.devices, stream=side.cuda_stream))

    def _torch_legacy(self) -> Any:
        torch = need_torch_cuda(self.devices)
        return self.same_values(torch_way(torch), DevicePlan(self.devices, stream=1))

    def _ringfeed_torch(self) -> Any:
        torch = self._torch()
        feed = importlib.import_module("ringfeed.torch")
        return self.same_values(
            Way(lambda array: feed.tensors(array).clone(), torch_way(torch).host))

    def _torch_data_loader(self) -> Any:
        torch = self._torch()
        feed = importlib.import_module("ringfeed.torch")
        kept = []
        with open_loader(self.folder, "small", devices=self.devices) as loader:
            batches = torch.utils.data.DataLoader(feed.IterableDataset(loader), batch_size=None)
            for batch in batches:
                kept.append({name: value.clone() for name, value in batch.items()})
                del batch
            got = in_host(kept, torch_way(torch))
        return check_same(got, self.expected("small"))

    def _torch_as_tensor(self) -> Any:
        torch = need_torch_cuda(self.devices)

        def take(array: Any) -> Any:
            tensor = torch.as_tensor(array, device="cuda")
            copy = tensor.clone()
            torch.cuda.synchronize()  # as the protocol has it: kept until the work is done
            if tensor.data_ptr() != array.__cuda_array_interface__["data"][0]:
                raise Failed("torch.as_tensor copied the memory")
            return copy

        return self.same_values(Way(take, torch_way(torch).host))

    def _epochs(self) -> Any:
        way = any_way(self.devices)
        orders = []
        with open_loader(self.folder, "small", devices=self.devices, passes=1) as loader:
            for _ in range(2):
                kept = [way.take(batch["id"]) for batch in loader]
                orders.append(numpy.concatenate([way.host(value) for value in kept]).tolist())
            stats = loader.stats()
        for order in orders:
            if sorted(order) != list(range(SMALL_ROWS)):
                raise Failed(f"an epoch has {len(set(order))} different rows of {SMALL_ROWS}")
        if orders[0] == orders[1]:
            raise Failed("both epochs have the same order")
        return {"rows": SMALL_ROWS, "epochs": 2, "stats": feed_stats(stats)}

    def _dlpack_streams(self) -> Any:
        """What __dlpack__ does with each number for a stream."""
        torch = need_torch_cuda(self.devices)
        side = torch.cuda.Stream()
        said = {}
        with open_loader(self.folder, "small", devices=self.devices) as loader:
            array = next(loader)["image"]
            for stream in (None, 1, 2, -1, side.cuda_stream, 0, -2):
                said[str(stream)] = what_happens(array.__dlpack__, stream=stream)
            said["max_version (1, 0)"] = what_happens(
                array.__dlpack__, stream=1, max_version=(1, 0))
            said["dl_device same"] = what_happens(
                array.__dlpack__, stream=1, dl_device=array.__dlpack_device__())
            said["dl_device CPU"] = what_happens(array.__dlpack__, stream=1, dl_device=(1, 0))
            said["copy"] = what_happens(array.__dlpack__, stream=1, copy=True)
            torch.cuda.synchronize()
        good = ["None", "1", "2", "-1", str(side.cuda_stream), "max_version (1, 0)",
                "dl_device same"]
        bad = ["0", "-2", "dl_device CPU", "copy"]
        if not (all(said[key] == "PyCapsule" for key in good)
                and all("BufferError" in said[key] for key in bad)):
            raise Failed("a stream is treated otherwise than DLPack has it", said)
        return said

    def _misuse(self) -> Any:
        """Host libraries get a Python error of a device's memory, no crash."""
        need_cuda(self.devices)
        said = {}
        with open_loader(self.folder, "small", devices=self.devices) as loader:
            array = next(loader)["image"]
            for name, function in [
                ("numpy.asarray", numpy.asarray),
                ("numpy.from_dlpack", numpy.from_dlpack),
                ("memoryview", memoryview),
                ("bytes", bytes),
                (".numpy()", lambda a: a.numpy()),
                (".tobytes()", lambda a: a.tobytes()),
            ]:
                said[name] = what_happens(function, array)
        quiet = [name for name, outcome in said.items() if "Error" not in outcome]
        if quiet:
            raise Failed(f"no error from {', '.join(quiet)}", said)
        return said

    def _hasattr(self) -> Any:
        """hasattr on a device's array is False for the host's protocol, and raises nothing."""
        need_cuda(self.devices)
        with open_loader(self.folder, "small", devices=self.devices) as loader:
            array = next(loader)["image"]
            try:
                found = hasattr(array, "__array_interface__")
            except TypeError as error:
                raise Failed("hasattr(array, '__array_interface__') raises TypeError, where an "
                             f"AttributeError would make it False: {error}") from error
        return {"hasattr": found}

    # (b), (c), (d)

    def cupy(self) -> None:
        """CuPy by both protocols."""
        run = self.checks.run
        run("cupy.from_dlpack", self._cupy, "from_dlpack", False)
        run("cupy.from_dlpack_on_a_stream", self._cupy, "from_dlpack", True)
        run("cupy.asarray", self._cupy, "asarray", False)
        run("cupy.asarray_on_a_stream", self._cupy, "asarray", True)

    def _cupy(self, function: str, on_stream: bool) -> Any:
        need_cuda(self.devices)
        cupy = need("cupy")
        stream = cupy.cuda.Stream(non_blocking=True) if on_stream else None

        def take(array: Any) -> Any:
            taken = getattr(cupy, function)(array)
            if taken.data.ptr != array.__cuda_array_interface__["data"][0]:
                raise Failed(f"cupy.{function} copied the memory")
            copy = taken.copy()
            if function == "asarray":
                cupy.cuda.get_current_stream().synchronize()
            return copy

        way = Way(take, cupy.asnumpy, None if stream is None else lambda: stream)
        return self.same_values(way)

    def jax(self) -> None:
        """JAX by DLPack."""
        self.checks.run("jax.from_dlpack", self._jax)
        self.checks.run("jax.used_by_a_jitted_function", self._jax_jit)

    def _need_jax(self) -> Any:
        jax = need("jax")
        need("jax.dlpack")
        if self.devices.startswith("cuda") and jax.default_backend() not in ("gpu", "cuda"):
            raise Failed(f"JAX's backend is {jax.default_backend()}")
        return jax

    def _jax(self) -> Any:
        jax = self._need_jax()

        def take(array: Any) -> Any:
            return jax.numpy.array(jax.dlpack.from_dlpack(array), copy=True)

        return self.same_values(Way(take, numpy.asarray))

    def _jax_jit(self) -> Any:
        jax = self._need_jax()
        plus_one = jax.jit(lambda x: x + 1)
        kept = []
        waits: List[float] = []
        expected = self.expected("small")
        with open_loader(self.folder, "small", devices=self.devices) as loader:
            for _ in expected:
                batch = patient_next(loader, waits)
                kept.append(plus_one(jax.dlpack.from_dlpack(batch["image"])))
                del batch
            got = [{"image": numpy.asarray(value) - numpy.uint8(1)} for value in kept]
        detail = check_same(got, [{"image": b["image"]} for b in expected])
        return {**detail, **all_held(waits)}

    def numba(self) -> None:
        """Numba by __cuda_array_interface__."""
        self.checks.run("numba.as_cuda_array", self._numba)
        self.checks.run("numba.kernel", self._numba_kernel)

    def _need_numba(self) -> Any:
        need_cuda(self.devices)
        cuda = need("numba.cuda")
        try:
            works = cuda.is_available()
        except Exception as error:
            raise Skip(f"numba.cuda does not work: {error!r}") from error
        if not works:
            raise Skip("numba.cuda.is_available() is False")
        return cuda

    def _numba(self) -> Any:
        cuda = self._need_numba()
        return self.same_values(
            Way(lambda array: cuda.as_cuda_array(array).copy_to_host(), lambda kept: kept))

    def _numba_kernel(self) -> Any:
        """A kernel of Numba's reads the batch."""
        cuda = self._need_numba()

        def add(source: Any, into: Any) -> None:
            at = cuda.grid(1)
            if at < source.size:
                into[at] = source[at] + 1

        try:
            kernel = cuda.jit(add)
            warm = cuda.to_device(numpy.zeros(1, numpy.int32))
            kernel[1, 32](warm, warm)
            cuda.synchronize()
        except Exception as error:  # a toolchain that does not fit the driver
            raise Skip(f"Numba's kernels do not work here: {error!r}"[:500]) from error
        got = []
        with open_loader(self.folder, "small", devices=self.devices) as loader:
            for batch in loader:
                into = cuda.device_array(SMALL_BATCH, numpy.int32)
                kernel[(SMALL_BATCH + 63) // 64, 64](cuda.as_cuda_array(batch["label"]), into)
                got.append({"label": into.copy_to_host() - numpy.int32(1)})
                del batch
        return check_same(got, [{"label": b["label"]} for b in self.expected("small")])

    # (e)

    def feeds(self) -> None:
        """Several feeds in one process."""
        run = self.checks.run
        run("feeds.alone", self._one_feed)
        run("feeds.interleaved_values", self._interleaved)
        run("feeds.in_sequence", self._in_sequence)
        run("feeds.first_closes_while_second_goes_on", self._first_closes)
        run("feeds.held_batch_outlives_its_closed_feed", self._held)
        run("feeds.both_at_once_from_two_threads", self._two_threads)

    def _one_feed(self) -> Any:
        way = any_way(self.devices)
        with open_loader(self.folder, "large", devices=self.devices) as loader:
            got = in_host(read_all(loader, way, self.devices, 24), way)
            stats = feed_stats(loader.stats())
        check_same(got, self.expected("large", 24))
        must_be_pinned({"alone": stats})
        return stats

    def _interleaved(self) -> Any:
        """Values of both, and whether both copy from pinned memory."""
        way = any_way(self.devices)
        plan = self.devices
        kept: Dict[str, List[Any]] = {"small": [], "other": []}
        with open_loader(self.folder, "small", devices=plan) as first:
            with open_loader(self.folder, "other", devices=plan) as second:
                for one, two in zip(first, second):
                    kept["small"].append({n: way.take(a) for n, a in one.items()})
                    kept["other"].append({n: way.take(a) for n, a in two.items()})
                    del one, two
                got = {kind: in_host(batches, way) for kind, batches in kept.items()}
                stats = {"first": feed_stats(first.stats()), "second": feed_stats(second.stats())}
        for kind, batches in got.items():
            check_same(batches, self.expected(kind))
        must_be_pinned(stats)
        return stats

    def _in_sequence(self) -> Any:
        way = any_way(self.devices)
        stats = {}
        for number, kind in enumerate(("small", "other", "small")):
            with open_loader(self.folder, kind, devices=self.devices) as loader:
                got = in_host(read_all(loader, way, self.devices), way)
                stats[f"{number}: {kind}"] = feed_stats(loader.stats())
            check_same(got, self.expected(kind))
        must_be_pinned(stats)
        return stats

    def _first_closes(self) -> Any:
        """The same arena: what the end of the first feed does to the second."""
        way = any_way(self.devices)
        right = self.expected("huge", 72)
        rates, stats = {}, {}
        second = open_loader(self.folder, "huge", devices=self.devices)
        first = open_loader(self.folder, "large", devices=self.devices)
        kept: List[Any] = []

        def take(name: str, count: int) -> None:
            begin, took = time.monotonic(), 0
            while took < count:
                batch = next(second)
                kept.append({n: way.take(a) for n, a in batch.items()})
                del batch
                took += 1
            _sync(self.devices)
            seconds = time.monotonic() - begin
            rates[name] = round(count * LARGE_BATCH * row_bytes(LARGE) / seconds / 1e9, 2)

        try:
            mine = in_host(read_all(first, way, self.devices, 12), way)
            take("both open, GB/s", 24)
            stats["first before its close"] = feed_stats(first.stats())
            stats["second before"] = feed_stats(second.stats())
            closer = threading.Thread(target=first.close)
            closer.start()
            take("while the first closes, GB/s", 24)
            closer.join(20)
            if closer.is_alive():
                raise Failed("close of the first feed does not end", {"stats": stats})
            take("first closed, GB/s", 24)
            stats["first closed"] = feed_stats(first.stats())
            stats["second after"] = feed_stats(second.stats())
            got = in_host(kept, way)
        finally:
            first.close()
            second.close()
        check_same(mine, self.expected("large", 12))
        check_same(got, right)
        must_be_pinned(stats, rates)
        return {"rates": rates, "stats": stats}

    def _held(self) -> Any:
        way = any_way(self.devices)
        first = open_loader(self.folder, "large", devices=self.devices)
        batch = next(first)
        first.close()
        with open_loader(self.folder, "huge", devices=self.devices) as second:
            got = in_host(read_all(second, way, self.devices, 12), way)
            held = in_host([{n: way.take(a) for n, a in batch.items()}], way)
            stats = feed_stats(second.stats())
            del batch
            more = in_host(read_all(second, way, self.devices, 12), way)
            after = feed_stats(second.stats())
        check_same(held, self.expected("large", 1))
        check_same(got + more, self.expected("huge", 24))
        must_be_pinned({"while a batch is held": stats, "after": after})
        return {"while a batch is held": stats, "after": after}

    def _two_threads(self) -> Any:
        """Two loops in two threads, each over files of its own."""
        way = any_way(self.devices)
        got: Dict[str, Any] = {}
        stats: Dict[str, Any] = {}
        errors: List[str] = []

        def loop(kind: str) -> None:
            try:
                with open_loader(self.folder, kind, devices=self.devices) as loader:
                    got[kind] = in_host(read_all(loader, way, self.devices, 36), way)
                    stats[kind] = feed_stats(loader.stats())
            except BaseException:
                errors.append(f"{kind}: {traceback.format_exc()}")

        threads = [threading.Thread(target=loop, args=(kind,), daemon=True)
                   for kind in ("large", "huge")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(25)
        if errors or any(thread.is_alive() for thread in threads):
            raise Failed(errors[0] if errors else "a loop hangs", {"errors": errors})
        for kind in got:
            check_same(got[kind], self.expected(kind, 36))
        return stats

    # (f)

    def overwrite(self) -> None:
        """Slots are written again only behind the consumer's work."""
        run = self.checks.run
        run("overwrite.torch_dlpack_default_stream", self._overwrite_torch, "default")
        run("overwrite.torch_dlpack_side_stream", self._overwrite_torch, "side")
        run("overwrite.torch_dlpack_two_streams", self._overwrite_torch, "two")
        run("overwrite.torch_plan_stream", self._overwrite_torch, "plan")
        run("overwrite.torch_plan_stream_and_another", self._overwrite_torch, "plan and another")
        run("overwrite.torch_record_stream", self._overwrite_torch, "recorded")
        run("overwrite.torch_freed_by_another_thread", self._overwrite_torch, "thread")
        run("overwrite.control_dlpack_that_asks_for_no_wait", self._overwrite_torch, "control")

    def overwrite_cupy(self) -> None:
        """The same in CuPy."""
        run = self.checks.run
        run("overwrite.cupy_dlpack", self._overwrite_cupy, "dlpack")
        run("overwrite.cupy_cai_kept_until_done", self._overwrite_cupy, "cai kept")
        run("overwrite.cupy_cai_on_the_plans_stream", self._overwrite_cupy, "cai plan")
        run("overwrite.cupy_cai_released_at_once", self._overwrite_cupy, "cai default")
        run("overwrite.cupy_cai_on_a_stream_that_waits_for_none", self._overwrite_cupy, "cai")

    def overwrite_jax(self) -> None:
        """The same in JAX."""
        self.checks.run("overwrite.jax_dlpack", self._overwrite_jax)

    def _overwritten(self, plan: Any, step: Callable[[int, Any], None],
                     values: Callable[[], numpy.ndarray], slots: int = 3) -> Dict[str, Any]:
        """Takes batches; `step` enqueues long work and a copy of "body" into place `number`, and
        keeps nothing of the batch. Says which copies have not the values that they should."""
        expected = self.expected("large", OVERWRITES)
        if not isinstance(plan, DevicePlan):
            plan = DevicePlan(plan, slots=slots)
        begin = time.monotonic()
        waits: List[float] = []
        with open_loader(self.folder, "large", devices=plan) as loader:
            for number in range(OVERWRITES):
                batch = patient_next(loader, waits)
                on_device(batch["body"], self.devices)
                step(number, batch)
                del batch
            got = values()
        wrong = []
        for number, right in enumerate(expected):
            if not numpy.array_equal(got[number], right["body"]):
                later = [n for n, other in enumerate(expected)
                         if numpy.array_equal(got[number], other["body"])]
                wrong.append({"batch": number, "has_values_of": later})
        return {"batches": OVERWRITES, "wrong": len(wrong), "first_wrong": wrong[:3],
                "loop_s": round(time.monotonic() - begin, 2), "sleep_ms": SLEEP_MS,
                **all_held(waits)}

    def _judge(self, detail: Dict[str, Any], note: str = "") -> Dict[str, Any]:
        if detail["wrong"]:
            raise Failed(f"{detail['wrong']} of {detail['batches']} batches were written again "
                         f"before the work enqueued on them was done{note}", detail)
        return detail

    def _overwrite_torch(self, variant: str) -> Any:
        torch = need_torch_cuda(self.devices)
        cycles = sleep_cycles(torch)
        out = torch.empty((OVERWRITES, LARGE_BATCH, 65528), dtype=torch.uint8, device="cuda")
        again = torch.empty_like(out) if "two" in variant or "another" in variant else None
        side, second = torch.cuda.Stream(), torch.cuda.Stream()
        first = torch.cuda.default_stream() if variant == "default" else side
        feed = importlib.import_module("ringfeed.torch")
        torch.cuda.synchronize()
        plan: Any = self.devices
        if variant.startswith("plan"):
            plan = DevicePlan(self.devices, stream=side.cuda_stream)
        threads: List[threading.Thread] = []

        def enqueue(stream: Any, array: Any, number: int, into: Any) -> Any:
            tensor: Any = None
            if variant == "recorded":  # taken by another stream
                tensor = feed.tensors(array)
                feed.record_stream(tensor[1:], stream)
            with torch.cuda.stream(stream):
                if variant == "control":
                    tensor = torch.utils.dlpack.from_dlpack(array.__dlpack__(stream=-1))
                elif tensor is None:
                    tensor = torch.from_dlpack(array)
                torch.cuda._sleep(cycles)
                into[number].copy_(tensor, non_blocking=True)
            return tensor

        def step(number: int, batch: Any) -> None:
            tensor = enqueue(first, batch["body"], number, out)
            if again is not None:
                other = enqueue(second, batch["body"], number, again)
                del other
            if variant == "thread":
                held = [tensor]
                threads.append(threading.Thread(target=held.clear))
                del tensor
                batch.clear()
                threads[-1].start()

        def values() -> numpy.ndarray:
            torch.cuda.synchronize()
            for thread in threads:
                thread.join()
            got = out.cpu().numpy()
            if again is not None and not torch.equal(out, again):
                raise Failed("the copies on two streams differ")
            return got

        detail = self._overwritten(plan, step, values)
        if variant != "control":
            return self._judge(detail)
        # Nothing was promised here: it shows that the test would see memory written too early.
        detail["observation"] = "a consumer that asks for no wait orders nothing"
        detail["test_is_sensitive"] = detail["wrong"] > 0
        return detail

    def _overwrite_cupy(self, variant: str) -> Any:
        torch = need_torch_cuda(self.devices)
        cupy = need("cupy")
        cycles = sleep_cycles(torch)
        side = torch.cuda.default_stream() if variant == "cai default" else torch.cuda.Stream()
        stream = cupy.cuda.ExternalStream(side.cuda_stream)
        out = cupy.empty((OVERWRITES, LARGE_BATCH, 65528), dtype=cupy.uint8)
        torch.cuda.synchronize()
        plan: Any = self.devices
        if variant == "cai plan":
            plan = DevicePlan(self.devices, stream=side.cuda_stream)
        pending: Any = deque()

        def step(number: int, batch: Any) -> None:
            array = batch["body"]
            with stream:
                taken = cupy.from_dlpack(array) if variant == "dlpack" else cupy.asarray(array)
                with torch.cuda.stream(side):
                    torch.cuda._sleep(cycles)
                out[number].data.copy_from_device_async(taken.data, taken.nbytes)
            if variant == "cai kept":
                event = torch.cuda.Event()
                event.record(side)
                pending.append((event, taken))
                if len(pending) == 2:
                    done, kept = pending.popleft()
                    done.synchronize()
                    del kept

        def values() -> numpy.ndarray:
            torch.cuda.synchronize()
            pending.clear()
            return cupy.asnumpy(out)

        detail = self._overwritten(plan, step, values)
        if variant == "cai":
            detail["observation"] = ("CUDA's default stream does not wait for such a stream: "
                                     "docs/PYTHON.md says to keep the array, or to take it by DLPack")
            return detail
        return self._judge(detail)

    def _overwrite_jax(self) -> Any:
        need_cuda(self.devices)
        jax = self._need_jax()
        jnp = jax.numpy
        matrix = jnp.full((2048, 2048), 1 / 2048, dtype=jnp.float32)

        @jax.jit
        def slow(x: Any) -> Any:
            return jax.lax.fori_loop(0, 20, lambda _, y: x @ y, x)

        slow(matrix).block_until_ready()
        begin = time.monotonic()
        slow(matrix).block_until_ready()
        once = time.monotonic() - begin
        calls = min(60, max(1, round(SLEEP_MS / 1e3 / once)))
        plus_one = jax.jit(lambda x, y: (x + 1) + (y[0, 0] > 2.0).astype(jnp.uint8))
        zeros = jnp.zeros((LARGE_BATCH, 65528), dtype=jnp.uint8)
        plus_one(zeros, matrix).block_until_ready()
        kept: List[Any] = []

        def step(number: int, batch: Any) -> None:
            taken = jax.dlpack.from_dlpack(batch["body"])
            x = matrix
            for _ in range(calls):
                x = slow(x)
            kept.append(plus_one(taken, x))

        def values() -> numpy.ndarray:
            return numpy.stack([numpy.asarray(value) for value in kept]) - numpy.uint8(1)

        detail = self._overwritten(self.devices, step, values)
        detail["slow_call_ms"] = round(once * 1e3, 3)
        detail["calls"] = calls
        return self._judge(detail)

    # (g)

    def graph(self) -> None:
        """Captures of CUDA graphs beside a feed."""
        for mode in ("global", "thread_local", "relaxed"):
            self.checks.run(f"graph.capture_{mode}_while_the_feed_copies", self._capture, mode)
        self.checks.run("graph.thread_local_while_another_thread_takes_batches",
                        self._capture_beside_thread, "thread_local")
        self.checks.run("graph.release_in_a_capture_of_another_stream", self._release_other, True)
        self.checks.run("graph.release_of_the_default_stream_in_a_capture", self._release_other,
                        False)
        self.checks.run("graph.replays_on_batches_copied_into_fixed_input", self._replays)

    def _capture(self, mode: str) -> Any:
        """The slots are let go inside the capture, so the feed fills them during it."""
        torch = need_torch_cuda(self.devices)
        plan = DevicePlan(self.devices, slots=8)
        taker = BatchTaker(self, torch)
        x, graph, y = _static_ops(torch)
        with open_loader(self.folder, "large", devices=plan) as loader:
            for _ in range(8):
                taker.take(loader)
            torch.cuda.synchronize()
            held = [next(loader) for _ in range(8)]
            numbers = [taker.skip() for _ in held]
            with torch.cuda.graph(graph, capture_error_mode=mode):
                before = copied(loader)
                held.clear()
                y.copy_(x * 3 + 1)
                time.sleep(0.03)
                during = copied(loader) - before
                y.add_(1)
            _check_replay(torch, graph, x, y)
            for _ in range(16):
                taker.take(loader)
                graph.replay()
            detail = taker.check()
        detail.update(mode=mode, bytes_copied_during_the_capture=during, skipped=numbers)
        if during == 0:
            detail["note"] = "the feed copied nothing during the capture"
        return detail

    def _capture_beside_thread(self, mode: str) -> Any:
        torch = need_torch_cuda(self.devices)
        taker = BatchTaker(self, torch)
        x, graph, y = _static_ops(torch)
        stop = threading.Event()
        errors: List[str] = []
        took = [0]
        with open_loader(self.folder, "large", devices=self.devices) as loader:
            taker.take(loader)
            torch.cuda.synchronize()

            def loop() -> None:
                try:
                    while not stop.is_set():
                        batch = next(loader)
                        took[0] += 1
                        del batch
                except BaseException:
                    errors.append(traceback.format_exc())

            thread = threading.Thread(target=loop, daemon=True)
            captured = ""
            took_during = 0
            try:
                with torch.cuda.graph(graph, capture_error_mode=mode):
                    thread.start()
                    before = took[0]
                    y.copy_(x * 3 + 1)
                    time.sleep(0.05)
                    y.add_(1)
                    took_during = took[0] - before
            except BaseException:
                captured = traceback.format_exc()
            stop.set()
            thread.join(15)
            detail = {"mode": mode, "batches_taken_during": took_during,
                      "thread_error": errors[:1], "capture_error": captured}
            if thread.is_alive():
                raise Failed("the thread that takes batches hangs", detail)
            if captured or errors:
                raise Failed("a thread that takes batches and a capture disturb each other",
                             detail)
            _check_replay(torch, graph, x, y)
        return detail

    def _release_other(self, on_side: bool) -> Any:
        """A tensor that was taken on one stream dies inside the capture of another stream."""
        torch = need_torch_cuda(self.devices)
        taker = BatchTaker(self, torch)
        side = torch.cuda.Stream() if on_side else torch.cuda.default_stream()
        x, graph, y = _static_ops(torch)
        with open_loader(self.folder, "large", devices=self.devices) as loader:
            with torch.cuda.stream(side):
                batch = next(loader)
                tensor = torch.from_dlpack(batch["body"])
                taker.keep(tensor.clone())
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                y.copy_(x * 3 + 1)
                del tensor, batch
                time.sleep(0.01)
                y.add_(1)
            _check_replay(torch, graph, x, y)
            for _ in range(8):
                taker.take(loader)
            return taker.check()

    def _replays(self) -> Any:
        """The usual way: each batch is copied into a graph's input, and the graph replayed."""
        torch = need_torch_cuda(self.devices)
        expected = self.expected("large", OVERWRITES)
        x = torch.zeros((LARGE_BATCH, 65528), dtype=torch.uint8, device="cuda")
        total = torch.zeros((), dtype=torch.int64, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            total.copy_(x.sum(dtype=torch.int64))
        torch.cuda.current_stream().wait_stream(warm)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with open_loader(self.folder, "large", devices=self.devices) as loader:
            batch = next(loader)
            x.copy_(torch.from_dlpack(batch["body"]))
            del batch
            with torch.cuda.graph(graph):
                total.copy_(x.sum(dtype=torch.int64))
            graph.replay()
            sums = [total.clone()]
            for _ in range(OVERWRITES - 1):
                batch = next(loader)
                x.copy_(torch.from_dlpack(batch["body"]))
                del batch
                graph.replay()
                sums.append(total.clone())
            got = [int(value) for value in sums]
        right = [int(batch["body"].sum(dtype=numpy.int64)) for batch in expected]
        if got != right:
            raise Failed("sums of a replayed graph are wrong", {"got": got, "right": right})
        return {"batches": len(got)}

    # What nothing is promised of: a process each.

    def hazard_release_captured(self) -> None:
        """A tensor dies inside the capture of the very stream that it was taken on."""
        self.checks.run("hazard.release_in_the_capture_of_its_own_stream", self._observe,
                        self._release_own)

    def hazard_take_captured(self) -> None:
        """A batch that came before is taken by DLPack inside a capture."""
        self.checks.run("hazard.from_dlpack_in_a_capture", self._observe, self._take_captured)

    def hazard_next(self) -> None:
        """The next batch is asked for inside a capture, in both modes."""
        self.checks.run("hazard.next_in_a_global_capture", self._observe, self._next_captured,
                        "global")
        self.checks.run("hazard.next_in_a_relaxed_capture", self._observe, self._next_captured,
                        "relaxed")

    def hazard_thread(self) -> None:
        """Another thread of Python takes batches during a capture in global mode, the default."""
        self.checks.run("hazard.global_while_another_thread_takes_batches",
                        self._capture_beside_thread, "global")

    def hazard_start(self) -> None:
        """A feed starts, and ends, in another thread during a capture in global mode."""
        self.checks.run("hazard.feed_starts_and_ends_during_a_global_capture", self._observe,
                        self._start_captured)

    def _observe(self, function: Callable[..., Tuple[Any, Any, Any]], *args: Any) -> Any:
        """Calls it with a dict that it fills; then the same feed goes on, with right values or an
        error that says something."""
        torch = need_torch_cuda(self.devices)
        detail: Dict[str, Any] = {"observation": (function.__doc__ or "").strip()}
        self.checks.extra["in_progress"] = detail
        hang = threading.Timer(HAZARD_SECONDS - 5, self.checks.write)
        hang.daemon = True
        hang.start()
        taker = BatchTaker(self, torch)
        loader = open_loader(self.folder, "large", devices=self.devices)
        try:
            function(torch, loader, taker, detail, *args)
        except Exception:
            detail["raised"] = traceback.format_exc()
        detail["sync_after"] = what_happens(torch.cuda.synchronize)
        try:
            for _ in range(12):
                taker.take(loader)
            detail["went_on"] = "12 more batches"
        except Exception as error:
            detail["went_on"] = f"{type(error).__name__}: {error}"
        detail["values"] = what_happens(taker.check)
        detail["stats"] = what_happens(lambda: feed_stats(loader.stats()))
        detail["close"] = what_happens(loader.close)
        detail["fresh_feed"] = what_happens(self._fresh, torch)
        hang.cancel()
        if not isinstance(detail["values"], dict):
            raise Failed(f"the values of batches: {detail['values']}", detail)
        return detail

    def _fresh(self, torch: Any) -> str:
        taker = BatchTaker(self, torch)
        with open_loader(self.folder, "large", devices=self.devices) as loader:
            for _ in range(6):
                taker.take(loader)
            taker.check()
        return "right"

    def _release_own(self, torch: Any, loader: Any, taker: Any, detail: Any) -> None:
        """A tensor is released inside the capture of the stream that it was taken on."""
        side = torch.cuda.Stream()
        x, graph, y = _static_ops(torch)
        with torch.cuda.stream(side):
            batch = next(loader)
            tensor = torch.from_dlpack(batch["body"])
            taker.keep(tensor.clone())
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph, stream=side):
                y.copy_(x * 3 + 1)
                del tensor, batch
                time.sleep(0.05)  # the feed takes the slot back meanwhile
                y.add_(1)
            detail["capture"] = "ended"
        except Exception as error:
            detail["capture"] = f"{type(error).__name__}: {error}"
        detail["replay"] = what_happens(_check_replay, torch, graph, x, y)

    def _take_captured(self, torch: Any, loader: Any, taker: Any, detail: Any) -> None:
        """from_dlpack is called inside a capture, on the stream that is captured."""
        x, graph, y = _static_ops(torch)
        batch = next(loader)
        taker.skip()
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph):
                y.copy_(x * 3 + 1)
                detail["from_dlpack"] = what_happens(torch.from_dlpack, batch["body"])
                y.add_(1)
            detail["capture"] = "ended"
        except Exception as error:
            detail["capture"] = f"{type(error).__name__}: {error}"
        detail["replay"] = what_happens(_check_replay, torch, graph, x, y)
        del batch

    def _next_captured(self, torch: Any, loader: Any, taker: Any, detail: Any, mode: str) -> None:
        """next(loader) is called by the thread that captures."""
        x, graph, y = _static_ops(torch)
        taker.take(loader)
        torch.cuda.synchronize()
        detail["mode"] = mode
        before = loader.batch_number
        try:
            with torch.cuda.graph(graph, capture_error_mode=mode):
                y.copy_(x * 3 + 1)
                detail["next"] = what_happens(lambda: sorted(next(loader)))
                y.add_(1)
            detail["capture"] = "ended"
        except Exception as error:
            detail["capture"] = f"{type(error).__name__}: {error}"
        for _ in range(loader.batch_number - before):
            taker.skip()
        detail["replay"] = what_happens(_check_replay, torch, graph, x, y)

    def _start_captured(self, torch: Any, loader: Any, taker: Any, detail: Any) -> None:
        """A thread starts a feed, takes a batch and closes it during a global capture."""
        x, graph, y = _static_ops(torch)
        taker.take(loader)
        torch.cuda.synchronize()

        def start() -> None:
            detail["other_feed"] = what_happens(self._one_batch)

        thread = threading.Thread(target=start, daemon=True)
        try:
            with torch.cuda.graph(graph):
                y.copy_(x * 3 + 1)
                thread.start()
                thread.join(10)
                y.add_(1)
            detail["capture"] = "ended"
        except Exception as error:
            detail["capture"] = f"{type(error).__name__}: {error}"
        thread.join(10)
        if thread.is_alive():
            raise Failed("the feed that starts during a capture hangs", detail)
        detail["replay"] = what_happens(_check_replay, torch, graph, x, y)

    def _one_batch(self) -> str:
        with open_loader(self.folder, "huge", devices=self.devices) as loader:
            next(loader)
        return "a batch came"

    # (i)

    def alignment(self) -> None:
        """Where fields of odd sizes lie."""
        for name, fields in ODD_SCHEMAS.items():
            self.checks.run(f"alignment.{name}", self._alignment, fields, ())
        self.checks.run(
            "alignment.with_transforms", self._alignment,
            {"u": ("uint8", (13,)), "w": ("uint16", (5,)), "f": ("float32", (3,))},
            (Normalize("u", "float16"), Widen("w", "int64")))

    def _alignment(self, fields: Dict[str, Any], transforms: Any) -> Any:
        each = row_bytes(fields)
        path = self.folder / f"odd-{os.getpid()}-{each}.rows"
        content = numpy.random.default_rng(1).integers(0, 256, 61 * each, dtype=numpy.uint8)
        path.write_bytes(content.tobytes())
        found: Dict[str, Any] = {name: [] for name in fields}
        bad = []
        with ringfeed.Loader(path, format=f"rows:{each}", parse=ringfeed.rows(fields), batch=7,
                             rank=None, devices=self.devices, transforms=transforms) as loader:
            for batch in loader:
                for name, array in batch.items():
                    on_device(array, self.devices)
                    interface = (array.__cuda_array_interface__
                                 if self.devices.startswith("cuda") else array.__array_interface__)
                    pointer = interface["data"][0]
                    itemsize = numpy.dtype(interface["typestr"]).itemsize
                    found[name].append(pointer % 256)
                    if pointer % itemsize:
                        bad.append([name, pointer, itemsize])
                del array, batch
        detail = {name: {"data_ptr % 256": sorted(set(rests))} for name, rests in found.items()}
        if bad:
            raise Failed(f"{len(bad)} arrays lie on no boundary of their elements", bad[:5])
        return detail


ODD_SCHEMAS = {
    "u1_13_f4_13": {"a": ("uint8", (13,)), "b": ("float32", (13,))},
    "many": {
        "a": ("uint8", (1,)), "b": ("float64", (3,)), "c": ("uint8", (255,)),
        "d": ("float16", (7,)), "e": ("int64", ()), "f": ("int32", (1,)), "g": ("uint8", (3, 5)),
    },
    "f8_behind_a_byte": {"a": ("uint8", ()), "b": ("float64", ())},
    "u2_and_u1": {"a": ("uint16", (3,)), "b": ("uint8", (5,)), "c": ("uint16", (1,))},
}


class BatchTaker:
    """Takes batches of the large files by Torch and checks their values at the end."""

    def __init__(self, groups: Groups, torch: Any) -> None:
        self.groups = groups
        self.torch = torch
        self.kept: List[Tuple[int, Any]] = []
        self.number = 0

    def keep(self, copy: Any) -> None:
        """A copy of the next batch's "body", taken by the caller."""
        self.kept.append((self.number, copy))
        self.number += 1

    def skip(self) -> int:
        """The next batch is taken and not checked; its number."""
        self.number += 1
        return self.number - 1

    def take(self, loader: ringfeed.Loader) -> None:
        """The next batch, on the current stream."""
        batch = next(loader)
        tensor = self.torch.from_dlpack(batch["body"])
        self.keep(tensor.clone())

    def check(self) -> Dict[str, Any]:
        """Failed where values are wrong."""
        self.torch.cuda.synchronize()
        expected = self.groups.expected("large", 48)
        wrong = [number for number, copy in self.kept
                 if not numpy.array_equal(copy.cpu().numpy(), expected[number]["body"])]
        if wrong:
            raise Failed(f"wrong values in {len(wrong)} of {len(self.kept)} batches", wrong)
        return {"batches_checked": len(self.kept)}


def patient_next(loader: ringfeed.Loader, waits: List[float]) -> Any:
    """The next batch. A library that works behind the program's back may hold batches still that
    the program let go of: then it is asked for again, and the seconds are noted in `waits`."""
    begin = time.monotonic()
    refused = False
    while True:
        try:
            batch = next(loader)
        except ringfeed.errors.ResourceExhausted:
            refused = True
            if time.monotonic() - begin > 5:
                raise
            time.sleep(0.0005)
            continue
        if refused:
            waits.append(time.monotonic() - begin)
        return batch


def all_held(waits: List[float]) -> Dict[str, Any]:
    """What patient_next noted."""
    return {"batches_refused_at_first_since_all_were_held": len(waits),
            "longest_wait_ms": round(1e3 * max(waits, default=0.0), 2)}


def what_happens(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What it returns, in words, or the error that it raises."""
    try:
        result = function(*args, **options)
    except Failed as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]
    if result is None or isinstance(result, (str, int, float, list, dict)):
        return result
    return type(result).__name__


def feed_stats(stats: Dict[str, Any]) -> Dict[str, Any]:
    """What the stats say of pinning and copies."""
    return {"pinning": stats.get("pinning"), "devices": stats.get("devices"),
            "arena_bytes": stats.get("arena_bytes"), "pages": stats.get("pages")}


def must_be_pinned(stats: Dict[str, Any], more: Any = None) -> None:
    """Failed where a feed copied from memory that is not pinned."""
    for name, entry in stats.items():
        unpinned = sum(device["unpinned_bytes"] for device in entry["devices"] or [])
        if unpinned or entry["pinning"]:
            raise Failed(f"values are right, but not pinned: {name}: {unpinned} bytes, "
                         f"{entry['pinning']!r}", {"stats": stats, "more": more})


def copied(loader: ringfeed.Loader) -> int:
    """Bytes whose copies were enqueued so far."""
    return sum(device["copied_bytes"] for device in loader.stats()["devices"])


def _sync(devices: str) -> None:
    if devices.startswith("cuda"):
        importlib.import_module("torch").cuda.synchronize()


def _static_ops(torch: Any) -> Tuple[Any, Any, Any]:
    """An input, a graph and an output; the operations were warmed up."""
    x = torch.arange(1024, dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        y.copy_(x * 3 + 1)
        y.add_(1)
    torch.cuda.current_stream().wait_stream(warm)
    torch.cuda.synchronize()
    y.zero_()
    return x, torch.cuda.CUDAGraph(), y


def _check_replay(torch: Any, graph: Any, x: Any, y: Any) -> str:
    """That the graph computes x * 3 + 2."""
    for shift in range(3):
        x.add_(shift)
        graph.replay()
        torch.cuda.synchronize()
        if not torch.equal(y, x * 3 + 2):
            raise Failed("a replayed graph computed wrong values")
    return "right"


_cycles: List[int] = []


def sleep_cycles(torch: Any) -> int:
    """So many cycles of torch.cuda._sleep take SLEEP_MS."""
    if not _cycles:
        torch.cuda._sleep(1_000_000)
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.cuda._sleep(10_000_000)
        end.record()
        torch.cuda.synchronize()
        _cycles.append(max(1_000_000, int(10_000_000 * SLEEP_MS / begin.elapsed_time(end))))
    return _cycles[0]


# The processes


# By length, the longest first.
GROUPS = ["torch", "overwrite", "graph", "feeds", "overwrite_cupy", "overwrite_jax", "jax", "cupy",
          "numba", "alignment", "hazard_release_captured", "hazard_thread", "hazard_take_captured",
          "hazard_next", "hazard_start"]


def seconds_of(group: str) -> int:
    """How long it may run."""
    return HAZARD_SECONDS if group.startswith("hazard") else GROUP_SECONDS


def run_group(name: str, options: argparse.Namespace) -> int:
    """The checks of one group, in this process."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(seconds_of(name) - 3, exit=False)
    checks = Checks(options.out, name)
    checks.write()
    getattr(Groups(checks, options.data, options.devices), name)()
    checks.extra["ended"] = True
    checks.write()
    return checks.status()


def start_group(name: str, options: argparse.Namespace, folder: pathlib.Path) -> Dict[str, Any]:
    """Runs the group in a process of its own; its report, with a failed check for how it ended if
    it did not end well."""
    out = folder / f"{name}.json"
    command = [sys.executable, __file__, "--group", name, "--data", str(folder), "--out", str(out),
               "--devices", options.devices]
    begin = time.monotonic()
    with open(folder / f"{name}.stderr", "w+", encoding="utf-8", errors="replace") as log:
        try:
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   timeout=seconds_of(name), check=False)
            how = f"exit status {ended.returncode}"
        except subprocess.TimeoutExpired:
            how = f"still running after {seconds_of(name)} s"
        log.seek(0)
        tail = log.read()[-6000:]
    sys.stderr.write("".join(line + "\n" for line in tail.splitlines()
                             if line.startswith(f"{name}: ")))
    sys.stderr.flush()
    report = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"checks": []}
    if not report.get("ended"):
        entry = {"name": f"{name}.process", "ok": False, "seconds": time.monotonic() - begin,
                 "error": f"the process of this group: {how}",
                 "detail": {"in_progress": report.get("in_progress"), "log": tail}}
        say(f"{name}: FAILED  {entry['error']}")
        report["checks"].append(entry)
    return report


def versions() -> Dict[str, Any]:
    """Of what is installed."""
    from importlib import metadata

    found: Dict[str, Any] = {"python": sys.version.split()[0], "ringfeed": ringfeed.__file__}
    for name in ("torch", "cupy-cuda13x", "jax", "numba", "numba-cuda", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _options(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the report, JSON")
    parser.add_argument("--devices", default="cuda", help='"cuda", or "emu:1" for a trial')
    parser.add_argument("--only", nargs="+", default=GROUPS, choices=GROUPS, metavar="GROUP",
                        help="of " + ", ".join(GROUPS))
    parser.add_argument("--jobs", type=int, default=8, help="groups at a time")
    parser.add_argument("--data", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--group", choices=GROUPS, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _reports(options: argparse.Namespace, folder: pathlib.Path) -> Iterator[Dict[str, Any]]:
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(lambda name: start_group(name, options, folder), options.only)


def main(arguments: Optional[List[str]] = None) -> int:
    """The program; its exit status."""
    options = _options(arguments)
    if options.group:
        return run_group(options.group, options)
    why = why_no_devices(options.devices)
    if why:
        return skip_all(options.out, why)
    checks = Checks(options.out, "frameworks")
    checks.extra.update(devices=options.devices, versions=versions())
    with tempfile.TemporaryDirectory(prefix="ringfeed-frameworks-") as name:
        folder = pathlib.Path(name)
        make_data(folder)
        checks.extra["seconds_of_groups"] = {}
        for group, report in zip(options.only, _reports(options, folder)):
            checks.results += report["checks"]
            checks.extra["seconds_of_groups"][group] = report.get("seconds")
            checks.write()
    report = checks.report()
    say(f"frameworks: {report['passed']} passed, {report['failed']} failed, "
        f"{report['skipped_checks']} skipped, {report['seconds']} s")
    return checks.status()


if __name__ == "__main__":
    sys.exit(main())
