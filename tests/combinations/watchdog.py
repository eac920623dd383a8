"""Runs processes and looks at what they get done, not at the time: one that neither reads nor writes nor
delivers is stuck, whether it sleeps or spins, and is asked what each of its threads waits for before it
is ended.

A process that is stopped, or that gets no processor, is not stuck. One that sleeps is where nothing has
moved for SLEEPING_S; one that computes where it used SPINNING_S of CPU time without anything to show.
What is read from a mapped file shows nothing, so both are of a usual machine: a slower processor takes
longer for the same work, and on one that many share even a second of CPU time does less.
"""

import functools
import hashlib
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

SLEEPING_S = 6.0
SPINNING_S = 6.0
LOOK_EVERY_S = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


#: What work() takes of CPU time on a usual machine.
USUAL_WORK_S = 0.12
MOST_SLOWNESS = 10.0
MOST_CROWDING = 10.0


def work():
    """The CPU seconds of a piece of work that is always the same."""
    begin = time.thread_time()
    hashlib.pbkdf2_hmac("sha256", b"ringfeed", b"combinations", 100_000)
    return time.thread_time() - begin


def slowness(taken):
    """How many times as long as a usual one a machine takes that needs so long for work()."""
    return min(max(taken / USUAL_WORK_S, 1.0), MOST_SLOWNESS)


@functools.lru_cache(maxsize=None)
def slowness_here():
    return slowness(work())


def crowding(load, cpus):
    """How many there are for each processor."""
    return min(max(load / cpus, 1.0), MOST_CROWDING)


def scale():
    """Under a sanitizer everything is slower, as it is on a machine that is slow or crowded."""
    of_machine = slowness_here() * crowding(os.getloadavg()[0], len(os.sched_getaffinity(0)))
    return (5.0 if os.environ.get("RINGFEED_SANITIZER") else 1.0) * of_machine


class Process:
    """`watched` are files that grow while it gets something done."""

    def __init__(self, words, folder, name, watched=(), stdin=None, stdout=None, environment=None):
        self.words = [str(word) for word in words]
        self.out_path = pathlib.Path(folder) / f"{name}.out"
        self.err_path = pathlib.Path(folder) / f"{name}.err"
        self.watched = [str(path) for path in watched]
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=out if stdout is None else stdout, stderr=err, env=environment, close_fds=False)
        self.pid = self.process.pid
        self.descriptor = os.pidfd_open(self.pid)
        self.returncode = None
        self.stuck = ""  # how it was found, where it was
        self._seen = None
        self._since = time.monotonic()
        self._cpu_since = 0.0

    def out(self):
        return self.out_path.read_text(errors="replace")

    def err(self):
        return self.err_path.read_text(errors="replace")

    def send(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def progress(self):
        """What changes where anything is read, written or delivered; and its CPU seconds and state."""
        sizes = []
        for path in (*self.watched, self.out_path):
            try:
                sizes.append(os.stat(path).st_size)
            except FileNotFoundError:
                sizes.append(-1)
        root = pathlib.Path(f"/proc/{self.pid}")
        io = {line.split(b":")[0]: line for line in (root / "io").read_bytes().splitlines()}
        stat = (root / "stat").read_text().rpartition(")")[2].split()
        cpu = (int(stat[11]) + int(stat[12])) / TICKS
        states = set()
        for task in (root / "task").iterdir():  # which may be gone by now
            states.update(read_or_none(task / "stat").rpartition(")")[2].split()[:1])
        return (sizes, io.get(b"rchar"), io.get(b"wchar"), io.get(b"read_bytes")), cpu, states

    def look(self):
        """Notes whether it is stuck; True where it is."""
        try:
            seen, cpu, states = self.progress()
        except (OSError, IndexError):  # it ends
            return False
        now = time.monotonic()
        if seen != self._seen or "T" in states:
            self._seen, self._since, self._cpu_since = seen, now, cpu
            return False
        used = cpu - self._cpu_since
        spins = used > SPINNING_S * scale()
        sleeps = not states & {"R", "D"} and now - self._since > SLEEPING_S * scale() and used < 1
        if not spins and not sleeps:
            return False
        how = f"spins: {used:.1f} s of CPU time" if spins else f"sleeps: {now - self._since:.1f} s"
        self.stuck = f"{how} without progress\n{threads_of(self.pid)}"
        return True

    def collect(self):
        self.returncode = self.process.wait()
        os.close(self.descriptor)


def read_or_none(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def threads_of(pid):
    """What each thread waits for."""
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
        state = read_or_none(task / "stat").rpartition(")")[2].split()
        kernel = " < ".join(line.split("] ")[-1].split("+")[0]
                            for line in read_or_none(task / "stack").splitlines()[:4])
        lines.append(f"    thread {task.name} {read_or_none(task / 'comm').strip()}: "
                     f"{state[0] if state else '?'} in {read_or_none(task / 'wchan') or '-'}, system call "
                     f"{read_or_none(task / 'syscall').strip() or '-'} {kernel}")
    if shutil.which("gdb"):
        found = subprocess.run(["gdb", "-batch", "-p", str(pid), "-ex", "thread apply all bt 14"],
                               capture_output=True, text=True, timeout=120, check=False)
        lines += [f"    {line[:200]}" for line in found.stdout.splitlines()
                  if line.startswith(("#", "Thread"))]
    return "\n".join(lines)


def finish(processes, step=None):
    """Waits until all have ended; ends those that are stuck. `step` is called as often as may be, and
    says whether it wants to be called again."""
    waiting = [process for process in processes if process.returncode is None]
    poll = select.poll()
    for process in waiting:
        poll.register(process.descriptor, select.POLLIN)
    looked = time.monotonic()
    while waiting:
        wants = step is not None and step()
        poll.poll(1 if wants else LOOK_EVERY_S * 1000)
        for process in list(waiting):
            if process.process.poll() is not None:
                poll.unregister(process.descriptor)
                process.collect()
                waiting.remove(process)
        if time.monotonic() - looked < LOOK_EVERY_S:
            continue
        looked = time.monotonic()
        if any(process.look() for process in waiting):  # of a job that is stuck nothing is waited for
            for process in waiting:
                process.send(signal.SIGKILL)
