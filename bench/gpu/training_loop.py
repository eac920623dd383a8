"""A training loop in Torch on one GPU, fed by ringfeed and by Torch's DataLoader.

  python training_loop.py --out FILE [--devices cuda] [--bytes 1GiB] [--budget 52]

The data are random images of 3 x 64 x 64 bytes with a label, made here: flat rows for ringfeed,
.npy files for Torch, both in the page cache. Every loop shuffles over all rows. The model is an
MLP of two layers in bfloat16, small on purpose: the feed is what is measured. Each variant runs
twice, in turn:

  step_alone       the training step on one batch that lies on the device: no loop is faster
  ringfeed         batches of a device feed; they come when their copy is done
  ringfeed_stream  the same, in the order of the loop's stream: the loop does not wait for copies
  torch_wN         DataLoader with N workers, a data set that fetches a whole batch by NumPy, pinned
                   memory, copies on a stream of their own one batch ahead

Before that an epoch is checked: each row once, its bytes right by a checksum made on the GPU.
Exit status: 0 all passed, 1 some failed, 77 no CUDA device. With --devices emu:1 it all runs on the
CPU, for a trial.
"""

import argparse
import concurrent.futures
import importlib
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy

import ringfeed
import ringfeed.devices
from checks import FAILED, Checks, Failed, say, skip_all, why_no_devices

SHAPE = (3, 64, 64)
PIXELS = 3 * 64 * 64
ROW_BYTES = PIXELS + 8
CLASSES = 10
FILES = 8
SEED = 7
FIELDS = {"label": ("int64", ()), "image": ("uint8", SHAPE)}
WORKERS = (0, 4, 8)
PREFETCH = 4
SLOTS = 4
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}

# (images, labels) on the device, on the current stream.
Batches = Iterator[Tuple[Any, Any]]


class Data(NamedTuple):
    """The files and what is in them.

    Attributes:
        rows: how many.
        flat: the glob of the files of rows: label, image.
        images, labels: the same as .npy.
        sums: a checksum of each row's image, int64, by the row's label.
    """

    rows: int
    flat: str
    images: pathlib.Path
    labels: pathlib.Path
    sums: numpy.ndarray


def checksum_weights() -> numpy.ndarray:
    """Of the row's 8-byte words. Odd numbers: each bit of a row counts, and where it stands."""
    random = numpy.random.default_rng(SEED)
    return random.integers(1 << 62, size=PIXELS // 8, dtype=numpy.int64) | 1


def make_data(folder: pathlib.Path, rows: int) -> Data:
    """Writes the files; their content is in the page cache then. Labels count from 0."""
    images = numpy.lib.format.open_memmap(folder / "images.npy", mode="w+", dtype=numpy.uint8,
                                          shape=(rows, *SHAPE))
    numpy.save(folder / "labels.npy", numpy.arange(rows, dtype=numpy.int64))
    dtype = numpy.dtype([("label", "<i8"), ("image", "u1", SHAPE)])
    assert dtype.itemsize == ROW_BYTES
    weights = checksum_weights()
    sums = numpy.empty(rows, dtype=numpy.int64)

    def make_file(number: int) -> None:
        random = numpy.random.default_rng((SEED, number))
        first, end = rows * number // FILES, rows * (number + 1) // FILES
        with open(folder / f"flat-{number}.rows", "wb") as file:
            for begin in range(first, end, 2048):
                stop = min(end, begin + 2048)
                words = random.integers(-(1 << 63), (1 << 63) - 1, dtype=numpy.int64,
                                        size=(stop - begin, PIXELS // 8))
                content = numpy.empty(stop - begin, dtype)
                content["label"] = numpy.arange(begin, stop)
                content["image"] = words.view(numpy.uint8).reshape(-1, *SHAPE)
                file.write(memoryview(content.view(numpy.uint8)))
                images[begin:stop] = content["image"]
                numpy.multiply(words, weights, out=words)
                words.sum(axis=1, out=sums[begin:stop])

    with concurrent.futures.ThreadPoolExecutor(min(FILES, os.cpu_count() or 1)) as pool:
        list(pool.map(make_file, range(FILES)))
    return Data(rows, str(folder / "flat-*.rows"), folder / "images.npy", folder / "labels.npy",
                sums)


def cpu_seconds() -> float:
    """Of this process and its children that ended."""
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used


class Training:
    """The model and its step."""

    def __init__(self, torch: Any, device: Any, hidden: int) -> None:
        self.torch = torch
        self.device = device
        torch.manual_seed(SEED)
        nn = torch.nn
        self.model = nn.Sequential(nn.Linear(PIXELS, hidden), nn.ReLU(),
                                   nn.Linear(hidden, CLASSES)).to(device, torch.bfloat16)
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
        self._data = data
        self._arrays: Any = None

    def __len__(self) -> int:
        return self._data.rows

    def __getitem__(self, rows: Any) -> Tuple[Any, Any]:
        import torch

        if self._arrays is None:  # in the process that reads
            self._arrays = (numpy.load(self._data.images, mmap_mode="r"),
                            numpy.load(self._data.labels, mmap_mode="r"))
        images, labels = self._arrays
        return torch.from_numpy(images[rows]), torch.from_numpy(labels[rows])


class ShuffledBatches:
    """A sampler whose samples are a batch's row numbers, of a permutation of all rows."""

    def __init__(self, rows: int, batch: int) -> None:
        self._rows, self._batch = rows, batch
        self._random = numpy.random.default_rng(SEED)

    def __len__(self) -> int:
        return self._rows // self._batch

    def __iter__(self) -> Iterator[Any]:
        order = self._random.permutation(self._rows)
        for number in range(len(self)):
            yield order[number * self._batch:(number + 1) * self._batch]


class Feeds:
    """Where batches come from. Each makes an endless iterator, and a function that ends it and
    says what is to be noted."""

    def __init__(self, torch: Any, device: Any, data: Data, batch: int, devices: str) -> None:
        self.torch = torch
        self.device = device
        self.data = data
        self.batch = batch
        self.devices = devices

    def ringfeed_loader(self, passes: int, stream: Optional[int] = None) -> ringfeed.Loader:
        """A Loader onto the device."""
        plan = ringfeed.devices.DevicePlan(self.devices, slots=SLOTS, stream=stream)
        return ringfeed.Loader(
            self.data.flat,
            format=f"rows:{ROW_BYTES}",
            parse=ringfeed.rows(FIELDS),
            batch=self.batch,
            shuffle="global",
            seed=SEED,
            passes=passes,
            rank=None,
            drop_remainder=passes == 0,
            devices=plan,
        )

    def ringfeed(self, in_order: bool) -> Tuple[Batches, Callable[[], Any]]:
        """Of ringfeed's device feed."""
        tensors = importlib.import_module("ringfeed.torch").tensors
        stream = None
        if in_order and self.device.type == "cuda":
            stream = self.torch.cuda.current_stream().cuda_stream or 1  # 1: the legacy stream
        loader = self.ringfeed_loader(0, stream)

        def batches() -> Batches:
            for batch in loader:
                taken = tensors(batch)
                del batch
                yield taken["image"], taken["label"]
                del taken

        def end() -> Any:
            stats = loader.stats()
            loader.close()
            notes = {key: stats.get(key) for key in ("bottleneck", "pinning", "devices", "pages",
                                                     "stages")}
            return {**notes, "io": (stats.get("io") or [None])[0]}

        return batches(), end

    def torch_loader(self, workers: int) -> Tuple[Batches, Callable[[], Any]]:
        """Of Torch's DataLoader."""
        on_gpu = self.device.type == "cuda"
        options: Dict[str, Any] = {}
        if workers:
            options = {"prefetch_factor": PREFETCH, "persistent_workers": True}
        loader = self.torch.utils.data.DataLoader(
            Fetch(self.data),
            sampler=ShuffledBatches(self.data.rows, self.batch),
            batch_size=None,
            num_workers=workers,
            pin_memory=on_gpu,
            **options,
        )

        def host() -> Iterator[Any]:
            while True:
                yield from loader

        batches = self._copied_ahead(host()) if on_gpu else host()

        def end() -> Any:
            iterator = getattr(loader, "_iterator", None)
            if iterator is not None:
                iterator._shutdown_workers()  # so that their CPU seconds are counted
            return None

        return batches, end

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

    def fixed(self) -> Tuple[Batches, Callable[[], Any]]:
        """The same batch again and again."""
        images, labels = Fetch(self.data)[numpy.arange(self.batch)]
        images, labels = images.to(self.device), labels.to(self.device)

        def batches() -> Batches:
            while True:
                yield images, labels

        return batches(), lambda: None


def measure(training: Training, feed: Callable[[], Tuple[Batches, Callable[[], Any]]], batch: int,
            seconds: float) -> Dict[str, Any]:
    """Trains for so long behind a warm-up; what it took."""
    cpu_begin = cpu_seconds()
    start = time.monotonic()
    batches, end = feed()
    first_loss = loss = None
    images = labels = None
    steps = all_steps = 0
    waited = 0.0
    begin = first_batch_s = 0.0
    warm = True
    try:
        while True:
            before = time.monotonic()
            images, labels = next(batches)
            now = time.monotonic()
            waited += now - before
            loss = training.step(images, labels)
            del images, labels
            all_steps += 1
            steps += 1
            if all_steps == 1:
                training.synchronize()
                first_batch_s = time.monotonic() - start
                first_loss = float(loss)
            if warm and all_steps >= 5 and time.monotonic() - start > 0.15 * seconds:
                training.synchronize()
                warm, steps, waited, begin = False, 0, 0.0, time.monotonic()
            elif not warm and now - begin > seconds:
                break
        training.synchronize()
        wall = time.monotonic() - begin
        last_loss = float(loss)
    finally:
        notes = end()
    cpu = cpu_seconds() - cpu_begin
    all_gb = all_steps * batch * ROW_BYTES / 1e9
    return {
        "steps": steps,
        "wall_s": round(wall, 3),
        "steps_per_s": steps / wall,
        "samples_per_s": steps * batch / wall,
        "GB_per_s": steps * batch * ROW_BYTES / wall / 1e9,
        "cpu_s_per_GB": cpu / all_gb,
        "cpu_s": round(cpu, 3),
        "waited_for_batches_s": round(waited, 3),
        "first_step_s": round(first_batch_s, 3),
        "first_loss": first_loss,
        "last_loss": last_loss,
        "notes": notes,
    }


def check_epoch(feeds: Feeds, orders: List[Any]) -> Dict[str, Any]:
    """Two epochs: each row once, with its bytes; another order each."""
    torch, data = feeds.torch, feeds.data
    tensors = importlib.import_module("ringfeed.torch").tensors
    weights = torch.from_numpy(checksum_weights()).to(feeds.device)
    begin = time.monotonic()
    with feeds.ringfeed_loader(1) as loader:
        labels, sums = [], []
        for batch in loader:
            taken = tensors(batch)
            del batch
            words = taken["image"].flatten(1).view(torch.int64)
            sums.append((words * weights).sum(dim=1))
            labels.append(taken["label"].clone())
            del taken, words
        order = torch.cat(labels).cpu().numpy()
        found = torch.cat(sums).cpu().numpy()
    if len(order) != data.rows or not numpy.array_equal(numpy.sort(order), numpy.arange(data.rows)):
        raise Failed(f"{len(order)} rows came, {len(numpy.unique(order))} different ones, of "
                     f"{data.rows}")
    wrong = int((found != data.sums[order]).sum())
    if wrong:
        raise Failed(f"{wrong} rows of {data.rows} have wrong bytes")
    orders.append(order)
    if numpy.array_equal(order, numpy.arange(data.rows)):
        raise Failed("the rows came in the file's order")
    return {"rows": data.rows, "seconds": round(time.monotonic() - begin, 3)}


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


def run(options: argparse.Namespace, checks: Checks, folder: pathlib.Path, begin: float) -> None:
    """All checks and measurements."""
    torch = importlib.import_module("torch")
    importlib.import_module("torch.utils.data")
    on_gpu = options.devices.startswith("cuda")
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.init()
        checks.extra["device"] = torch.cuda.get_device_name(0)
    checks.extra["versions"] = {"python": sys.version.split()[0], "torch": torch.__version__,
                                "numpy": numpy.__version__}
    checks.extra["cpus"] = os.cpu_count()
    rows = options.bytes // ROW_BYTES
    say(f"training_loop: Torch is there after {time.monotonic() - begin:.1f} s; {rows} rows")
    made: List[Data] = []
    checks.run("make_data", lambda: made.append(make_data(folder, rows)))
    if not made:
        return
    feeds = Feeds(torch, device, made[0], options.batch, options.devices)
    orders: List[Any] = []
    checks.run("epoch_exactly_once", check_epoch, feeds, orders)
    training = Training(torch, device, options.hidden)
    variants: Dict[str, Callable[[], Tuple[Batches, Callable[[], Any]]]] = {
        "step_alone": feeds.fixed,
        "ringfeed": lambda: feeds.ringfeed(False),
        "ringfeed_stream": lambda: feeds.ringfeed(True),
    }
    for workers in WORKERS:
        variants[f"torch_w{workers}"] = lambda count=workers: feeds.torch_loader(count)
    rounds = 2
    left = max(0.0, options.budget - (time.monotonic() - begin))
    # Half a second around each, and the step alone takes half as long.
    seconds = left / rounds / (len(variants) - 0.5) - 0.6
    seconds = options.seconds or min(6.0, max(1.5, seconds))
    checks.extra.update(batch=options.batch, batch_bytes=options.batch * ROW_BYTES, rows=rows,
                        seconds_each=round(seconds, 2), hidden=options.hidden)
    say(f"training_loop: {seconds:.1f} s each")
    runs: Dict[str, List[Dict[str, Any]]] = {name: [] for name in variants}
    checks.extra["runs"] = runs

    def measured(name: str) -> Dict[str, Any]:
        length = seconds / 2 if name == "step_alone" else seconds
        result = measure(training, variants[name], options.batch, length)
        runs[name].append(result)
        return {"GB_per_s": round(result["GB_per_s"], 3),
                "steps_per_s": round(result["steps_per_s"], 1)}

    for number in range(rounds):
        for name in variants:
            detail = checks.run(f"{name}.{number}", measured, name)
            say(f"training_loop: {name}: {detail}")
    checks.extra["summary"] = summary(runs)
    checks.write()


def _bytes(text: str) -> int:
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text[:-len(unit)]) * factor)
    return int(text)


def main(arguments: Optional[List[str]] = None) -> int:
    """The program; its exit status."""
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the report, JSON")
    parser.add_argument("--devices", default="cuda", help='"cuda", or "emu:1" for a trial')
    parser.add_argument("--bytes", type=_bytes, default=1 << 30, help="of the data, such as 1GiB")
    parser.add_argument("--batch", type=int, default=512, help="rows")
    parser.add_argument("--hidden", type=int, default=256, help="width of the model")
    parser.add_argument("--budget", type=float, default=52.0, help="seconds for all of it")
    parser.add_argument("--seconds", type=float, default=0.0,
                        help="for each variant; 0: what the budget gives, 1.5 to 6")
    options = parser.parse_args(arguments)
    why = why_no_devices(options.devices)
    if why:
        return skip_all(options.out, why)
    checks = Checks(options.out, "training_loop")
    checks.extra["devices"] = options.devices
    with tempfile.TemporaryDirectory(prefix="ringfeed-training-") as folder:
        checks.run("all", run, options, checks, pathlib.Path(folder), begin)
    say(f"training_loop: {checks.extra.get('summary')}")
    return checks.status() if checks.results else FAILED


if __name__ == "__main__":
    sys.exit(main())
