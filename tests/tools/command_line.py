"""What the tests of the command share: running it, and a reader of TFRecord that shares no code with it."""

import array
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

BINARY = sys.argv[1]
DATA = pathlib.Path(sys.argv[2])

# What a machine lacks is told on stderr; tests of that say so.
os.environ.setdefault("RINGFEED_LOG", "off")

# What a shell runs in the background ignores Ctrl-C, and so does what that starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


PER_FILE = ("digest", "index", "info", "verify")  # their reports are a list of files


def run(*words, stdin=None, timeout=120, before=None):
    """Runs the command; the result has returncode, stdout and stderr (text). `before` runs in the
    child first."""
    return subprocess.run(
        [BINARY, *map(str, words)], input=stdin, capture_output=True, timeout=timeout, check=False,
        text=stdin is None or isinstance(stdin, str), preexec_fn=before)


def forbid_io_uring(error=errno.EPERM):
    """From here on io_uring_setup fails with `error`."""
    forbid_call(425, error)


def forbid_call(number, error=errno.EPERM):
    """From here on the system call of that number fails with `error`, by a seccomp filter."""
    pr_set_no_new_privs, pr_set_seccomp, filter_mode = 38, 22, 2
    load, jump_if_equal, answer = 0x20, 0x15, 0x06
    instructions = [
        (load, 0, 0, 0),  # the number of the system call
        (jump_if_equal, 0, 1, number),
        (answer, 0, 0, 0x00050000 | error),
        (answer, 0, 0, 0x7FFF0000),
    ]
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((pr_set_no_new_privs, 1, 0, 0, 0), (pr_set_seccomp, filter_mode, program, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def run_json(*words, status=0):
    """Runs the command with --json and returns what it printed; of one file, or of the machine, that alone."""
    result = run(*words, "--json")
    if result.returncode != status:
        raise AssertionError(f"{words}: exit {result.returncode}: {result.stderr}")
    report = json.loads(result.stdout)
    if (report["version"], report["command"]) != (1, words[0]):
        raise AssertionError(f"{words}: it says it is {report['command']}, version {report['version']}")
    if report.get("late_wakes", 0) != 0:
        raise AssertionError(f"{words}: {report['late_wakes']} late wakes: a thread slept beside its work")
    if words[0] not in PER_FILE:
        return report
    files = report.get("files") or [report["machine"]]
    return files[0] if len(files) == 1 else files


def await_that(condition, what, process=None, seconds=60):
    """Waits until condition() gives something, and returns that. Where `process` is to bring it about, its
    end ends the wait, and it is killed where that was in vain."""
    until = time.monotonic() + seconds
    ended = False
    while not ended and time.monotonic() < until:
        ended = process is not None and process.poll() is not None
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    if ended:
        raise AssertionError(f"it ended with {process.returncode} without {what}")
    if process is not None:
        process.kill()
    raise AssertionError(f"{seconds} s without {what}")


# Whoever starts the tests beside a script has them ignore it, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def await_interrupt(process, but=None):
    """Until the command looks after SIGINT and SIGTERM itself: before, they end it at once. `but` is one that
    it ignores."""
    looked_after = signal.SIGTERM if but == signal.SIGINT else signal.SIGINT
    root = pathlib.Path(f"/proc/{process.pid}")

    def watches():
        try:
            opened = {os.readlink(entry) for entry in (root / "fd").iterdir()}
            blocked = int(re.search(r"^SigBlk:\s*(\w+)$", (root / "status").read_text(), re.MULTILINE)[1], 16)
        except (OSError, TypeError):
            return False  # a file was closed meanwhile, or it has ended
        return "anon_inode:[signalfd]" in opened and blocked >> (looked_after - 1) & 1

    await_that(watches, "its own watch for Ctrl-C", process)


def unread(pipe):
    """How many bytes of a pipe nobody has read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


def await_drawn(terminal, process, *patterns):
    """What the command draws on the other end of the terminal, until each pattern (of bytes) is in it."""
    drawn = b""

    def complete():
        nonlocal drawn
        try:
            if select.select([terminal], [], [], 0)[0]:
                drawn += os.read(terminal, 4096)
        except OSError:
            pass  # nobody has the other end open any more
        return all(re.search(pattern, drawn) for pattern in patterns)

    await_that(complete, f"{patterns} on its terminal", process)
    return drawn


def crc32c(data, table=[]):
    if not table:
        for byte in range(256):
            for _ in range(8):
                byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
            table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload):
    """A record of TFRecord."""
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked(length)) + payload + struct.pack("<I", masked(payload))


def payloads_of(path):
    """The payloads of an intact TFRecord file."""
    data = pathlib.Path(path).read_bytes()
    payloads, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        payloads.append(data[at + 12 : at + 12 + length])
        at += 16 + length
    return payloads


def sequence_sha256(payloads):
    digest = hashlib.sha256()
    for payload in payloads:
        digest.update(struct.pack("<Q", len(payload)) + payload)
    return digest.hexdigest()


def multiset(payloads):
    total = sum(int.from_bytes(hashlib.sha256(p).digest(), "little") for p in payloads)
    return f"{total % 2**256:064x}"


def order_digest(payloads):
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in payloads)).hexdigest()


class CommandTest(unittest.TestCase):
    """A test with a folder of its own, `self.folder`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ringfeed-tools-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, payloads):
        path = self.folder / name
        path.write_bytes(b"".join(frame(payload) for payload in payloads))
        return path

    def assert_refused(self, status, *words):
        """Ends with this status, a message and no trace of a crash."""
        result = run(*words)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn("", result.stderr)
        self.assertTrue(result.stderr.strip() or result.stdout.strip(), "no message")
        return result.stderr


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
