"""What the tests of the command share: running it, and a reader of TFRecord that shares no code with it."""

import ctypes
import errno
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

BINARY = sys.argv[1]
DATA = pathlib.Path(sys.argv[2])


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
    """Runs the command with --json and returns what it printed."""
    result = run(*words, "--json")
    if result.returncode != status:
        raise AssertionError(f"{words}: exit {result.returncode}: {result.stderr}")
    report = json.loads(result.stdout)
    if isinstance(report, dict) and report.get("late_wakes", 0) != 0:
        raise AssertionError(f"{words}: {report['late_wakes']} late wakes: a thread slept beside its work")
    return report


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
