"""A training loop in Torch on one GPU, fed by ringfeed and by Torch's DataLoader.

  python training_loop.py --out FILE [--devices cuda] [--bytes N] [--budget 52]

The data are random images of 3 x 64 x 64 bytes with a label, made here: flat rows for ringfeed,
an .npy file for Torch, both in the page cache. Every loop shuffles over all rows. The model is an
MLP of two layers in bfloat16, small on purpose: the feed is what is measured. Each variant runs
twice, in turn:

  step_alone       the training step on one batch that lies on the device: no loop is faster
  ringfeed         batches of a device feed; they come when their copy is done
  ringfeed_stream  the same, in the order of the loop's stream: the loop does not wait for copies
  torch_wN         DataLoader with N workers, a data set that fetches a whole batch by NumPy, pinned
                   memory, copies on a stream of their own one batch ahead

Before that an epoch is checked: each row once, with its bytes, compared on the host.
Exit status: 0 all passed, 1 some failed. With --devices emu:1 it all runs on the CPU, for a trial.
"""

import argparse
import importlib
import itertools
import json
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy
import ringfeed
import ringfeed.devices

SHAPE = (3, 64, 64)
PIXELS = 3 * 64 * 64
ROW_BYTES = PIXELS + 8
CLASSES = 10
BATCH = 512
HIDDEN = 256
FILES = 8
SEED = 7
FIELDS = {"label": ("int64", ()), "image": ("uint8", SHAPE)}
WORKERS = (0, 4, 8)
ROUNDS = 2


class Report:
    """The steps, one after the other, and what came of them. Written after each."""

    def __init__(self, out: pathlib.Path) -> None:
        self._out = out
        self.fields: Dict[str, Any] = {"checks": []}

    def run(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Calls the function; what it returns is the detail. None if it failed."""
        begin = time.monotonic()
        entry: Dict[str, Any] = {"name": name, "ok": True}
        try:
            entry["detail"] = function(*args)
        except Exception:  # whatever a library raises
            entry.update(ok=False, error=traceback.format_exc())
        entry["seconds"] = round(time.monotonic() - begin, 3)
        self.fields["checks"].append(entry)
        print(f"training_loop: {entry}"[:1000], file=sys.stderr, flush=True)
        self.write()
        return entry.get("detail")

    def write(self) -> None:
        """The report so far."""
        self._out.write_text(json.dumps(self.fields, indent=1, default=str), encoding="utf-8")


# (images, labels) on the device, on the current stream.
Batches = Iterator[Tuple[Any, Any]]


class Data(NamedTuple):
    """The files and what is in them.

    Attributes:
        rows: how many. A row's label is its number.
        flat: the glob of the files of rows: label, image.
        images: the same images as .npy.
    """

    rows: int
    flat: str
    images: pathlib.Path


def make_data(folder: pathlib.Path, rows: int) -> Data:
    """Writes the files; their content is in the page cache then."""
    data = Data(rows, str(folder / "flat-*.rows"), folder / "images.npy")
    images = numpy.lib.format.open_memmap(data.images, mode="w+", dtype=numpy.uint8,
                                          shape=(rows, *SHAPE))
    dtype = numpy.dtype([("label", "<i8"), ("image", "u1", SHAPE)])
    random = numpy.random.default_rng(SEED)
    for number, labels in enumerate(numpy.array_split(numpy.arange(rows), FILES)):
        with open(folder / f"flat-{number}.rows", "wb") as file:
            for part in numpy.array_split(labels, max(1, len(labels) // 2048)):
                content = numpy.empty(len(part), dtype)
                content["label"] = part
                content["image"] = numpy.frombuffer(
                    random.bytes(len(part) * PIXELS), numpy.uint8).reshape(-1, *SHAPE)
                images[part] = content["image"]
                file.write(memoryview(content.view(numpy.uint8)))
    return data


def cpu_seconds() -> float:
    """Of this process and its children that ended."""
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used


class Training:
    """The model and its step."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device
        torch.manual_seed(SEED)
        nn = torch.nn
        self.model = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(),
                                   nn.Linear(HIDDEN, CLASSES)).to(device, torch.bfloat16)
        options = {"fused": True} if device.type == "cuda" else {}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, **options)
        self.loss = nn.CrossEntropyLoss()

    def step(self, images: Any, labels: Any) -> Any:
        """One step on a batch; the loss, on the device."""
        pixels = images.flatten(1).to(self.torch.bfloat16).mul_(1 / 255).sub_(0.5)
        loss = self.loss(self.model(pixels).float(), labels.remainder(CLASSES))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()


class Fetch:
    """A data set of Torch's whose item is a batch: the rows of an array of numbers."""

    def __init__(self, data: Data) -> None:
        self._path = data.images
        self._images: Any = None

    def __getitem__(self, rows: Any) -> Tuple[Any, Any]:
        import torch

        if self._images is None:  # in the process that reads
            self._images = numpy.load(self._path, mmap_mode="r")
        return torch.from_numpy(self._images[rows]), torch.from_numpy(rows)


class Feeds:
    """Where batches come from: generators without end. When one is closed, all of it has ended."""

    def __init__(self, torch: Any, device: Any, data: Data, devices: str) -> None:
        self.torch = torch
        self.device = device
        self.data = data
        self.devices = devices

    def ringfeed_loader(self, passes: int, stream: Optional[int] = None) -> ringfeed.Loader:
        """A Loader onto the device."""
        plan = ringfeed.devices.DevicePlan(self.devices, slots=4, stream=stream)
        return ringfeed.Loader(
            self.data.flat,
            format=f"rows:{ROW_BYTES}",
            parse=ringfeed.rows(FIELDS),
            batch=BATCH,
            shuffle="global",
            seed=SEED,
            passes=passes,
            rank=None,
            drop_remainder=passes == 0,
            devices=plan,
        )

    def ringfeed(self, in_order: bool) -> Batches:
        """Of ringfeed's device feed."""
        tensors = importlib.import_module("ringfeed.torch").tensors
        stream = None
        if in_order and self.device.type == "cuda":
            stream = self.torch.cuda.current_stream().cuda_stream or 1  # 1: the legacy stream
        with self.ringfeed_loader(0, stream) as loader:
            for batch in loader:
                taken = tensors(batch)
                del batch
                yield taken["image"], taken["label"]
                del taken

    def torch_loader(self, workers: int) -> Batches:
        """Of Torch's DataLoader."""
        on_gpu = self.device.type == "cuda"
        options: Dict[str, Any] = {}
        if workers:
            options = {"prefetch_factor": 4, "persistent_workers": True}
        shuffled = numpy.random.default_rng(SEED).permutation(self.data.rows)
        loader = self.torch.utils.data.DataLoader(
            Fetch(self.data),
            sampler=shuffled[:self.data.rows // BATCH * BATCH].reshape(-1, BATCH),
            batch_size=None,
            num_workers=workers,
            pin_memory=on_gpu,
            **options,
        )
        host = itertools.chain.from_iterable(itertools.repeat(loader))
        try:
            yield from self._copied_ahead(host) if on_gpu else host
        finally:
            iterator = getattr(loader, "_iterator", None)
            if iterator is not None:
                iterator._shutdown_workers()  # so that their CPU seconds are counted

    def _copied_ahead(self, host: Iterator[Any]) -> Batches:
        """Copies each batch on a stream of its own while the one before is worked on."""
        cuda = self.torch.cuda
        copies = cuda.Stream()

        def copy() -> Any:
            batch = next(host)
            with cuda.stream(copies):
                return [part.to(self.device, non_blocking=True) for part in batch]

        ahead = copy()
        while True:
            now = ahead
            cuda.current_stream().wait_stream(copies)
            for part in now:
                part.record_stream(cuda.current_stream())
            ahead = copy()
            yield now[0], now[1]

    def fixed(self) -> Batches:
        """The same batch again and again."""
        batch = tuple(part.to(self.device) for part in Fetch(self.data)[numpy.arange(BATCH)])
        while True:
            yield batch


def measure(training: Training, batches: Any, seconds: float) -> Dict[str, Any]:
    """Trains for so long after a warm-up; what it took."""
    cpu_begin, start = cpu_seconds(), time.monotonic()
    loss = None
    steps = all_steps = 0
    waited = begin = 0.0
    try:
        while not begin or time.monotonic() - begin < seconds:
            before = time.monotonic()
            images, labels = next(batches)
            waited += time.monotonic() - before
            loss = training.step(images, labels)
            del images, labels
            all_steps += 1
            steps += 1
            if not begin and all_steps >= 5 and time.monotonic() - start > 0.15 * seconds:
                training.synchronize()
                steps, waited, begin = 0, 0.0, time.monotonic()
        training.synchronize()
        wall = time.monotonic() - begin
        last_loss = float(loss)
    finally:
        batches.close()
    cpu = cpu_seconds() - cpu_begin
    return {
        "steps": steps,
        "wall_s": round(wall, 3),
        "steps_per_s": steps / wall,
        "samples_per_s": steps * BATCH / wall,
        "GB_per_s": steps * BATCH * ROW_BYTES / wall / 1e9,
        "cpu_s_per_GB": cpu / (all_steps * BATCH * ROW_BYTES / 1e9),
        "waited_for_batches_s": round(waited, 3),
        "last_loss": last_loss,
    }


def check_epoch(feeds: Feeds) -> Dict[str, Any]:
    """Each row once, with its bytes, in another order than the files'."""
    tensors = importlib.import_module("ringfeed.torch").tensors
    images = numpy.load(feeds.data.images, mmap_mode="r")
    order: List[int] = []
    with feeds.ringfeed_loader(1) as loader:
        for batch in loader:
            taken = tensors(batch)
            del batch
            labels = taken["label"].cpu().numpy()
            if not numpy.array_equal(taken["image"].cpu().numpy(), images[labels]):
                raise ValueError(f"rows of {labels} have wrong bytes")
            order += labels.tolist()
            del taken
    if sorted(order) != list(range(feeds.data.rows)):
        raise ValueError(f"{len(order)} rows came, {len(set(order))} different ones, of "
                         f"{feeds.data.rows}")
    if order == sorted(order):
        raise ValueError("the rows came in the files' order")
    return {"rows": feeds.data.rows}


def summary(runs: Dict[str, List[Dict[str, Any]]]) -> Dict[str, Any]:
    """Of each variant the mean of its runs, and how much of the step's own speed is lost."""
    found: Dict[str, Any] = {}
    for name, results in runs.items():
        if results:
            found[name] = {key: round(statistics.fmean(result[key] for result in results), 4)
                           for key in ("steps_per_s", "samples_per_s", "GB_per_s", "cpu_s_per_GB")}
            rates = [result["steps_per_s"] for result in results]
            found[name]["spread"] = round((max(rates) - min(rates)) / max(rates), 4)
    alone = found.get("step_alone")
    for name, entry in found.items():
        if alone and name != "step_alone":
            entry["stall"] = round(1 - entry["steps_per_s"] / alone["steps_per_s"], 4)
    return found


def run(options: argparse.Namespace, report: Report, folder: pathlib.Path, begin: float) -> None:
    """All checks and measurements."""
    torch = importlib.import_module("torch")
    importlib.import_module("torch.utils.data")
    device = torch.device("cuda", 0) if options.devices.startswith("cuda") else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.init()
        report.fields["device"] = torch.cuda.get_device_name(0)
    report.fields["versions"] = {"python": sys.version.split()[0], "torch": torch.__version__,
                                 "numpy": numpy.__version__}
    data = make_data(folder, options.bytes // ROW_BYTES)
    feeds = Feeds(torch, device, data, options.devices)
    report.run("epoch_exactly_once", check_epoch, feeds)
    training = Training(torch, device)
    variants: Dict[str, Callable[[], Batches]] = {
        "step_alone": feeds.fixed,
        "ringfeed": lambda: feeds.ringfeed(False),
        "ringfeed_stream": lambda: feeds.ringfeed(True),
    }
    for workers in WORKERS:
        variants[f"torch_w{workers}"] = lambda count=workers: feeds.torch_loader(count)
    left = max(0.0, options.budget - (time.monotonic() - begin))
    # Half a second around each, and the step alone takes half as long.
    seconds = min(6.0, max(1.5, left / ROUNDS / (len(variants) - 0.5) - 0.6))
    runs: Dict[str, List[Dict[str, Any]]] = {name: [] for name in variants}
    report.fields.update(cpus=os.cpu_count(), batch=BATCH, rows=data.rows,
                         seconds_each=round(seconds, 2), hidden=HIDDEN, runs=runs)

    def measured(name: str) -> Dict[str, Any]:
        length = seconds / 2 if name == "step_alone" else seconds
        runs[name].append(measure(training, variants[name](), length))
        return {key: round(runs[name][-1][key], 3) for key in ("GB_per_s", "steps_per_s")}

    for number in range(ROUNDS):
        for name in variants:
            report.run(f"{name}.{number}", measured, name)
    report.fields["summary"] = summary(runs)


def main(arguments: Optional[List[str]] = None) -> int:
    """The program; its exit status."""
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the report, JSON")
    parser.add_argument("--devices", default="cuda", help='"cuda", or "emu:1" for a trial')
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the data")
    parser.add_argument("--budget", type=float, default=52.0, help="seconds for all of it")
    options = parser.parse_args(arguments)
    report = Report(options.out)
    report.fields["devices"] = options.devices
    with tempfile.TemporaryDirectory(prefix="ringfeed-training-") as folder:
        report.run("all", run, options, report, pathlib.Path(folder), begin)
    return 0 if all(check["ok"] for check in report.fields["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
