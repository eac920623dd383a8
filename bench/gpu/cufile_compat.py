"""Whether cuFile (GPUDirect Storage) works on this machine, in whichever mode.

  python cufile_compat.py --out FILE [--folder DIR] [--bytes 64MiB]

Opens the driver of libcufile.so.0, registers a file, opened with O_DIRECT and without, and device
memory, and reads aligned and unaligned ranges, whose bytes must be right. Compatibility mode is
allowed, so it says what works and never a rate. All of that happens in a process of its own, which
is ended after 40 s. Exit status: 0 all passed, 1 some failed, 77 no CUDA device.

"steps" of the report has each call with its status; "checks" what must hold.
"""

import argparse
import ctypes
import faulthandler
import glob
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional

from checks import Checks, Failed, Skip, say, skip_all

LIMIT_SECONDS = 40
MIB = 1 << 20
OPAQUE_FD = 1
CUFILE_FIRST_ERROR = 5000
LEAVE_OUT = 8192  # bytes of the log in the report

# Numbers of cuFile's errors that tell what kind of machine this is; others stay numbers.
ERROR_NAMES = {
    0: "success", 5001: "driver not initialized", 5002: "invalid driver property",
    5003: "driver not supported (size limit)", 5004: "driver version mismatch",
    5005: "driver version read error", 5006: "driver closing", 5007: "platform not supported",
    5008: "I/O not supported", 5009: "device not supported", 5010: "nvidia-fs driver error",
    5011: "CUDA driver error", 5012: "invalid CUDA pointer", 5013: "invalid memory type",
    5014: "pointer range error", 5015: "CUDA context mismatch", 5016: "invalid mapping size",
    5017: "invalid mapping range", 5018: "invalid file type", 5019: "invalid file open flag",
    5020: "O_DIRECT not set", 5022: "invalid value", 5023: "memory already registered",
    5024: "memory not registered", 5025: "permission denied", 5026: "driver already open",
    5027: "handle not registered", 5028: "handle already registered", 5029: "device not found",
    5030: "internal error",
}


class CuFileError(ctypes.Structure):
    """What most calls return, by value."""

    _fields_ = [("err", ctypes.c_int), ("cu_err", ctypes.c_int)]


class _Handle(ctypes.Union):
    _fields_ = [("fd", ctypes.c_int), ("handle", ctypes.c_void_p)]


class CuFileDescr(ctypes.Structure):
    """What names a file to HandleRegister."""

    _fields_ = [("type", ctypes.c_int), ("handle", _Handle), ("fs_ops", ctypes.c_void_p)]


class _NvfsProps(ctypes.Structure):
    _fields_ = [
        ("major_version", ctypes.c_uint), ("minor_version", ctypes.c_uint),
        ("poll_thresh_size", ctypes.c_size_t), ("max_direct_io_size", ctypes.c_size_t),
        ("dstatusflags", ctypes.c_uint), ("dcontrolflags", ctypes.c_uint),
    ]


class CuFileDrvProps(ctypes.Structure):
    """What the driver says of itself; room behind it for what later versions add."""

    _fields_ = [
        ("nvfs", _NvfsProps), ("fflags", ctypes.c_uint),
        ("max_device_cache_size", ctypes.c_uint), ("per_buffer_cache_size", ctypes.c_uint),
        ("max_device_pinned_mem_size", ctypes.c_uint), ("max_batch_io_size", ctypes.c_uint),
        ("max_batch_io_timeout_msecs", ctypes.c_uint), ("later", ctypes.c_ubyte * 512),
    ]


def find_library() -> List[str]:
    """Where libcufile.so.0 may be: in Python's packages, in the toolkit, by its name."""
    roots = {sysconfig.get_paths()["purelib"], *sys.path}
    found: List[str] = []
    for root in sorted(root for root in roots if root):
        found += sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib", "libcufile.so.0*")))
    found += sorted(glob.glob("/usr/local/cuda*/lib64/libcufile.so.0"))
    found += sorted(glob.glob("/usr/local/cuda*/targets/*/lib/libcufile.so.0"))
    return list(dict.fromkeys([*found, "libcufile.so.0"]))


class Cuda:
    """Device memory, by the driver's interface."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        for name, types in {
            "cuInit": [ctypes.c_uint],
            "cuDeviceGetCount": [ctypes.POINTER(ctypes.c_int)],
            "cuDeviceGet": [ctypes.POINTER(ctypes.c_int), ctypes.c_int],
            "cuDriverGetVersion": [ctypes.POINTER(ctypes.c_int)],
            "cuDevicePrimaryCtxRetain": [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int],
            "cuCtxSetCurrent": [ctypes.c_void_p],
            "cuMemAlloc_v2": [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t],
            "cuMemFree_v2": [ctypes.c_uint64],
            "cuMemsetD8_v2": [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t],
            "cuMemcpyDtoH_v2": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t],
            "cuCtxSynchronize": [],
        }.items():
            function = getattr(self.lib, name)
            function.argtypes, function.restype = types, ctypes.c_int
        self.version = 0

    def call(self, name: str, *args: Any) -> None:
        """Failed where it does not succeed."""
        error = getattr(self.lib, name)(*args)
        if error:
            raise Failed(f"{name}: CUDA error {error}")

    def open(self) -> None:
        """The first device's own context, current in this thread."""
        version, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.version = version.value
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def alloc(self, size: int) -> int:
        """Device memory."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), size)
        return pointer.value

    def fill(self, pointer: int, size: int) -> None:
        """With a byte that shows what was not written."""
        self.call("cuMemsetD8_v2", pointer, 0xEE, size)
        self.call("cuCtxSynchronize")

    def read(self, pointer: int, size: int) -> bytes:
        """What is there."""
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, pointer, size)
        return buffer.raw


class CuFile:
    """libcufile's calls, each of which is a step of the report."""

    def __init__(self, lib: Any, steps: List[Dict[str, Any]], note: Callable[[], None]) -> None:
        self.lib = lib
        self.steps = steps
        self._note = note
        status, void, size = CuFileError, ctypes.c_void_p, ctypes.c_size_t
        self._declare("cuFileDriverOpen", status)
        self._declare("cuFileDriverClose", status)
        self._declare("cuFileDriverClose_v2", status)
        self._declare("cuFileUseCount", ctypes.c_long)
        self._declare("cuFileGetVersion", status, ctypes.POINTER(ctypes.c_int))
        self._declare("cuFileDriverGetProperties", status, ctypes.POINTER(CuFileDrvProps))
        self._declare("cuFileHandleRegister", status, ctypes.POINTER(void),
                      ctypes.POINTER(CuFileDescr))
        self._declare("cuFileHandleDeregister", None, void)
        self._declare("cuFileBufRegister", status, void, size, ctypes.c_int)
        self._declare("cuFileBufDeregister", status, void)
        self._declare("cuFileRead", ctypes.c_ssize_t, void, void, size, ctypes.c_int64,
                      ctypes.c_int64)

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        function = getattr(self.lib, name, None)
        if function is not None:
            function.restype, function.argtypes = result, list(arguments)

    def step(self, name: str, *args: Any, what: str = "") -> Any:
        """Calls it; the step is written down before, as it may crash."""
        entry: Dict[str, Any] = {"step": name + (f" ({what})" if what else ""), "status": "began"}
        self.steps.append(entry)
        self._note()
        function = getattr(self.lib, name, None)
        if function is None:
            entry["status"] = "the library has no such function"
            return None
        begin = time.monotonic()
        result = function(*args)
        entry["ms"] = round((time.monotonic() - begin) * 1e3, 2)
        if isinstance(result, CuFileError):
            known = ERROR_NAMES.get(result.err, "")
            entry.update(status="ok" if result.err == 0 else f"error {result.err} {known}".strip(),
                         err=result.err, cu_err=result.cu_err)
        elif name == "cuFileRead" and result < 0:
            why = (ERROR_NAMES.get(-result, "") if result <= -CUFILE_FIRST_ERROR
                   else os.strerror(ctypes.get_errno()))
            entry.update(status=f"error {result} {why}".strip(), returned=result)
        else:
            entry.update(status="ok", returned=result)
        self._note()
        return result

    def must(self, name: str, *args: Any, what: str = "") -> Dict[str, Any]:
        """A step that returns a status: Failed where that is no success."""
        result = self.step(name, *args, what=what)
        entry = self.steps[-1]
        if result is None or result.err != 0:
            raise Failed(f"{entry['step']}: {entry['status']}", entry)
        return entry


class Body:
    """What the process of its own does."""

    def __init__(self, checks: Checks, folder: pathlib.Path, size: int) -> None:
        self.checks = checks
        self.folder = folder
        self.size = size
        self.steps: List[Dict[str, Any]] = []
        checks.extra["steps"] = self.steps
        self.cuda: Any = None
        self.cufile: Any = None
        self.content = b""
        self.memory = 0
        self.room = size + 2 * MIB
        self.handles: Dict[str, Any] = {}
        self.registered = False
        self.opened = False

    def run(self) -> None:
        """All checks; those behind a failed one that they need are skipped."""
        run = self.checks.run
        run("library", self.load)
        run("cuda_context", self.open_cuda)
        run("driver_open", self.open_driver)
        run("driver_version", self.version)
        run("driver_properties", self.properties)
        run("file", self.make_file)
        for kind in ("direct", "buffered"):
            run(f"handle_register_{kind}", self.register_handle, kind)
        for registered in (False, True):
            if registered:
                run("buffer_register", self.register_buffer)
            where = "registered" if registered else "unregistered"
            for kind in ("direct", "buffered"):
                for name, (size, at, into) in self.ranges().items():
                    run(f"read_{name}_{kind}_{where}_buffer", self.read, kind, registered, size, at,
                        into)
        run("close", self.close)

    def ranges(self) -> Dict[str, Any]:
        """(bytes, offset in the file, offset in the memory) of each read."""
        return {
            "aligned": (self.size, 0, 0),
            "unaligned": (self.size - 3 * 4096 - 17, 4096 + 511, 512 + 1),
            "small": (1000, 12345, 7),
            "behind_the_end": (MIB, self.size - 5000, 4096),
        }

    def load(self) -> Any:
        """The library."""
        errors = {}
        for path in find_library():
            try:
                lib = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL, use_errno=True)
            except OSError as error:
                errors[path] = str(error)
                continue
            self.cufile = CuFile(lib, self.steps, self.checks.write)
            return {"path": path, "failed_before": errors,
                    "run_udev": os.path.isdir("/run/udev"),
                    "nvidia_fs": os.path.exists("/proc/driver/nvidia-fs/version")}
        raise Failed("libcufile.so.0 is not found", errors)

    def open_cuda(self) -> Any:
        """A context: the driver's opening fails without one."""
        self.cuda = Cuda()
        self.cuda.open()
        self.memory = self.cuda.alloc(self.room)
        return {"cuda_driver": self.cuda.version}

    def _need(self, *things: Any) -> None:
        if not all(things):
            raise Skip("what it needs failed before")

    def open_driver(self) -> Any:
        """cuFileDriverOpen."""
        self._need(self.cufile, self.cuda and self.memory)
        stdin = os.dup(0)
        try:
            entry = self.cufile.must("cuFileDriverOpen")
        finally:
            lost = False
            try:
                os.fstat(0)
            except OSError:
                lost = True
                os.dup2(stdin, 0)
            os.close(stdin)
        self.opened = True
        return {**entry, "closed_descriptor_0": lost}

    def version(self) -> Any:
        """cuFileGetVersion."""
        self._need(self.opened)
        number = ctypes.c_int()
        self.cufile.must("cuFileGetVersion", ctypes.byref(number))
        self.cufile.step("cuFileUseCount")
        return {"version": number.value}

    def properties(self) -> Any:
        """What the driver says; without nvidia-fs its version is 0.0."""
        self._need(self.opened)
        props = CuFileDrvProps()
        self.cufile.must("cuFileDriverGetProperties", ctypes.byref(props))
        found = {f"nvfs.{name}": getattr(props.nvfs, name) for name, _ in _NvfsProps._fields_}
        for name, _ in CuFileDrvProps._fields_[1:-1]:
            found[name] = getattr(props, name)
        found["mode"] = ("compatibility: POSIX reads and copies; times here are never a rate"
                         if not props.nvfs.major_version
                         else "nvidia-fs is there; times here are still never a rate")
        return found

    def make_file(self) -> Any:
        """Random bytes on the disk."""
        path = self.folder / "content.bin"
        self.content = os.urandom(self.size)
        with open(path, "wb") as file:
            file.write(self.content)
            file.flush()
            os.fsync(file.fileno())
        mount, kind = "", ""
        with open("/proc/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                fields = line.split()
                if str(path).startswith(fields[1].rstrip("/") + "/") and len(fields[1]) >= len(
                        mount):
                    mount, kind = fields[1], fields[2]
        return {"path": str(path), "mount": mount, "file_system": kind}

    def register_handle(self, kind: str) -> Any:
        """cuFileHandleRegister of the file, opened with O_DIRECT or without."""
        self._need(self.opened, self.content)
        flags = os.O_RDONLY | (os.O_DIRECT if kind == "direct" else 0)
        try:
            fd = os.open(self.folder / "content.bin", flags)
        except OSError as error:
            raise Skip(f"open: {error}") from error
        descr = CuFileDescr()
        descr.type = OPAQUE_FD
        descr.handle.fd = fd
        handle = ctypes.c_void_p()
        try:
            entry = self.cufile.must("cuFileHandleRegister", ctypes.byref(handle),
                                     ctypes.byref(descr), what=kind)
        except Failed as failure:
            os.close(fd)
            if kind == "buffered":  # allowed by some versions only
                raise Skip(str(failure)) from failure
            raise
        self.handles[kind] = (handle, fd)
        return entry

    def register_buffer(self) -> Any:
        """cuFileBufRegister of the device memory."""
        self._need(self.opened, self.memory)
        entry = self.cufile.must("cuFileBufRegister", ctypes.c_void_p(self.memory), self.room, 0)
        self.registered = True
        return entry

    def read(self, kind: str, registered: bool, size: int, at: int, into: int) -> Any:
        """cuFileRead; the bytes must be right, and those around them as they were."""
        self._need(self.opened, kind in self.handles, self.registered == registered)
        handle, _ = self.handles[kind]
        self.cuda.fill(self.memory, self.room)
        count = self.cufile.step("cuFileRead", handle, ctypes.c_void_p(self.memory), size, at, into,
                                 what=f"{size} bytes at {at} to {into}, {kind}")
        entry = self.steps[-1]
        right = self.content[at:at + size]
        if count < 0:
            raise Failed(f"cuFileRead: {entry['status']}", entry)
        if count != len(right):
            raise Failed(f"{count} bytes were read instead of {len(right)}", entry)
        got = self.cuda.read(self.memory, self.room)
        if got[into:into + count] != right:
            raise Failed("the bytes are wrong", entry)
        around = got[:into] + got[into + count:]
        touched = len(around) - around.count(b"\xee")
        if touched and at + size <= len(self.content):
            raise Failed(f"{touched} bytes around were written", entry)
        return {"bytes": count, "bytes_around_written": touched}

    def close(self) -> Any:
        """Everything is given back."""
        self._need(self.opened)
        if self.registered:
            self.cufile.must("cuFileBufDeregister", ctypes.c_void_p(self.memory))
        for handle, fd in self.handles.values():
            self.cufile.step("cuFileHandleDeregister", handle)
            os.close(fd)
        self.cuda.call("cuMemFree_v2", self.memory)
        has_v2 = getattr(self.cufile.lib, "cuFileDriverClose_v2", None) is not None
        return self.cufile.must("cuFileDriverClose_v2" if has_v2 else "cuFileDriverClose")


def write_config(folder: pathlib.Path) -> pathlib.Path:
    """Allows compatibility mode, and keeps the log in the folder."""
    path = folder / "cufile.json"
    path.write_text(json.dumps({
        "logging": {"dir": str(folder), "level": "INFO"},
        "profile": {"nvtx": False, "cufile_stats": 0},
        "execution": {"max_io_queue_depth": 128, "max_io_threads": 4, "parallel_io": True,
                      "min_io_threshold_size_kb": 8192, "max_request_parallelism": 4},
        "properties": {
            "max_direct_io_size_kb": 16384, "max_device_cache_size_kb": 131072,
            "max_device_pinned_mem_size_kb": 33554432, "use_poll_mode": False,
            "poll_mode_max_size_kb": 4, "allow_compat_mode": True,
        },
    }, indent=1), encoding="utf-8")
    return path


def cuda_missing() -> Optional[str]:
    """Why there is no CUDA device, None where there is one. By ringfeed where that is installed."""
    try:
        from checks import why_no_devices

        return why_no_devices("cuda")
    except ImportError:
        pass
    try:
        cuda = Cuda()
        count = ctypes.c_int()
        cuda.call("cuInit", 0)
        cuda.call("cuDeviceGetCount", ctypes.byref(count))
    except (OSError, Failed) as error:
        return str(error)
    return None if count.value else "there is no CUDA device"


def run_body(options: argparse.Namespace) -> int:
    """The process of its own."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT_SECONDS - 3, exit=False)
    checks = Checks(options.out, "cufile_compat")
    checks.write()
    Body(checks, options.folder, options.bytes).run()
    checks.extra["ended"] = True
    checks.write()
    return checks.status()


def run_process(options: argparse.Namespace, folder: pathlib.Path) -> int:
    """Starts it and looks after it."""
    inner = folder / "body.json"
    environment = {**os.environ, "CUFILE_ENV_PATH_JSON": str(write_config(folder)),
                   "PYTHONPATH": os.pathsep.join(filter(None, [
                       str(pathlib.Path(__file__).resolve().parent),
                       os.environ.get("PYTHONPATH", "")]))}
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--body", "--folder",
               str(folder), "--out", str(inner), "--bytes", str(options.bytes)]
    begin = time.monotonic()
    log = folder / "body.stderr"
    with open(log, "w", encoding="utf-8") as stderr:
        try:
            ended = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=stderr, stderr=stderr, timeout=LIMIT_SECONDS, check=False)
            how = f"exit status {ended.returncode}"
        except subprocess.TimeoutExpired:
            how = f"still running after {LIMIT_SECONDS} s"
    said = log.read_text(encoding="utf-8", errors="replace")
    sys.stderr.write(said)
    checks = Checks(options.out, "cufile_compat")
    report = json.loads(inner.read_text(encoding="utf-8")) if inner.exists() else {}
    checks.results = report.get("checks", [])
    checks.extra = {"compatibility_mode": "allowed: nothing here is a rate",
                    "process": how, "steps": report.get("steps", [])}
    if not report.get("ended"):
        last = (report.get("steps") or [{"step": "none"}])[-1]
        checks.add({"name": "process", "ok": False, "seconds": round(time.monotonic() - begin, 2),
                    "error": f"{how}; the last step: {last}", "detail": {"log": said[-LEAVE_OUT:]}})
    logs = sorted(folder.glob("cufile*.log"))
    if logs:
        content = logs[-1].read_text(encoding="utf-8", errors="replace")
        checks.extra["cufile_log"] = content[-LEAVE_OUT:].splitlines()
    checks.write()
    report = checks.report()
    say(f"cufile_compat: {report['passed']} passed, {report['failed']} failed, "
        f"{report['skipped_checks']} skipped")
    return checks.status()


def _bytes(text: str) -> int:
    return int(float(text[:-3]) * MIB) if text.endswith("MiB") else int(text)


def main(arguments: Optional[List[str]] = None) -> int:
    """The program; its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the report, JSON")
    parser.add_argument("--folder", type=pathlib.Path,
                        help="on the disk to be tried; the system's temporary one")
    parser.add_argument("--bytes", type=_bytes, default=64 * MIB, help="of the file, say 64MiB")
    parser.add_argument("--devices", default="cuda",
                        help='"cuda"; with others everything is listed as skipped')
    parser.add_argument("--body", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.out = options.out.absolute()
    if options.body:
        return run_body(options)
    if not options.devices.startswith("cuda"):
        checks = Checks(options.out, "cufile_compat")
        checks.add({"name": "all", "ok": None, "seconds": 0.0,
                    "skipped": f"needs CUDA devices, not {options.devices}"})
        return checks.status()
    why = cuda_missing()
    if why:
        return skip_all(options.out, why)
    with tempfile.TemporaryDirectory(prefix="ringfeed-cufile-", dir=options.folder) as folder:
        return run_process(options, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
