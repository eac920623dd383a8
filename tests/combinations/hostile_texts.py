#!/usr/bin/env python3
"""What people type and others may write: numbers, variables of the environment, positions, journals.

Of each text it is known whether it is what the command writes. If it is not, then the command refuses it, or
takes it for what it says in decimal digits. It never crashes, never goes on for ever, and never loses what a
journal held.

hostile_texts.py --fail-pread BYTES WORD…   runs the words; a pread of exactly so many bytes fails there
"""

import ctypes
import errno
import json
import os
import pathlib
import re
import struct
import sys

#: What the dimension `typed` draws.
KINDS = ["none", "number", "variable", "position", "journal", "unreadable journal"]

#: Options of whole numbers from 0, and such that may have a sign.
COUNTS = ("--seed", "--epoch", "--passes", "--cycle", "--batch", "--shuffle", "--slots", "--max-batches",
          "--max-damaged")
SIGNED = ("--threads", "--rank", "--ranks")
NUMBERS = ("010", "-1", "+1", "0x10", "1.0", "1e3", " 1", "1 ", "1_000", "", "many", "nan", str(2 ** 64),
           str(10 ** 22), str(2 ** 32), str(2 ** 63), "7", "0")
SIZES = ("24MiB", "64M", "24 mib", "25165824", "24576k", "-1", "0", "1.5G", "16EiB", "1e9", "many", "24MiBs",
         "0x1000000", str(2 ** 64), "")
POSITION_NUMBERS = (-1, 1.9, 1.0, 1e300, 2 ** 64, 2 ** 63, 10 ** 30, True, None, "3", [3], {})
END_NUMBERS = (0, 1, 2 ** 31, 2 ** 40, 2 ** 63, 2 ** 64 - 1)


def forbidden(one, other):
    """The pairs of values that do not go with `typed`."""
    for name, plain in (("kind", "feed"), ("change", "none"), ("stop", "none"), ("state", "intact"),
                        ("ranks", 1), ("audit", "no"), ("parse", "none"), ("max_damaged", "any"),
                        ("descriptors", "many"), ("arena", "default"), ("consumer", "fast"),
                        ("fault", "none"), ("twin", "no"), ("launcher", "words"),
                        # What goes with none of these.
                        ("where", "last"), ("resumed_ranks", 1), ("split", "no"), ("verify", "no"),
                        ("operator", "none"), ("devices", 1), ("distribution", "round-robin"),
                        ("last_step", "uneven"), ("device_slots", 3), ("transfer", "auto")):
        yield "typed", other("none"), name, other(plain)
    yield "typed", other("none"), "passes", one(0)
    yield "typed", other("none"), "batch", one(0)
    yield "typed", other("none"), "scale", one("large", "many")
    yield "typed", other("none"), "count", one(40, 300)


def check(run):
    """The faults go to `run`, a runs.Run."""
    {"number": _number, "variable": _variable, "position": _position, "journal": _journal,
     "unreadable journal": _unreadable}[run.configuration["typed"]](run)


def _words(run):
    return ["feed", *run.paths, *run.order_words(), *run.batch_words(), *run.speed_words()]


def _finished(run, name, words, **more):
    """The process; None if it is stuck or crashed, which is a fault by then."""
    process = run.start(name, words, **more)
    run.finish([process])
    return None if process.stuck or process.returncode not in (0, 1, 2) else process


def _refused(run, process, what):
    if process is None:
        return
    if process.returncode != 2:
        run.fault(f"{what} is not refused", process)
    elif not process.err().strip():
        run.fault(f"{what} is refused without a word", process)


def _number(run):
    option = run.rng.choice((*COUNTS, *SIGNED))
    text = run.rng.choice(NUMBERS)
    digits = re.fullmatch(r"(-?)(0|[1-9][0-9]*)", text)
    known = digits and (option in SIGNED or not digits[1]) and int(text) < 2 ** 64
    words = [*_words(run), f"{option}={text}", "--max-batches", 3, "--no-digest", "--json"]
    if option in _words(run):
        words.remove(option) if option == "--drop-remainder" else None
        at = words.index(option)
        del words[at:at + 2]
    if option == "--max-batches":
        del words[words.index("--max-batches"):][:2]
    if known and option in ("--batch", "--shuffle", "--slots"):
        return  # which may be too large for this machine
    process = _finished(run, "number", words)
    if not known:
        _refused(run, process, f"{option} {text!r}")


def _variable(run):
    text = run.rng.choice(SIZES)
    found = re.fullmatch(r"([0-9]+)( ?)([kKmMgG]?)([iI]?)([bB]?)", text)
    known = bool(found and int(found[1]) > 0 and int(found[1]) < 2 ** 40)
    environment, process = run.place.environment, None
    run.place.environment = {**environment, "RINGFEED_ARENA_BYTES": text}
    try:
        process = _finished(run, "variable", [*_words(run), "--max-batches", 1, "--no-digest", "--json"])
    finally:
        run.place.environment = environment
    if not known and text:
        _refused(run, process, f"RINGFEED_ARENA_BYTES={text!r}")
    elif process is not None and "RINGFEED_ARENA_BYTES is" in process.err():
        run.fault("a size that --arena takes is refused of the environment", process)


def _position(run):
    saved = run.folder / "saved"
    first = _finished(run, "saving", [*_words(run), "--max-batches", 2, "--position-out", saved, "--no-digest"])
    if first is None or first.returncode != 0 or not saved.exists():
        return
    text, same = _changed_position(run, saved.read_text())
    saved.write_text(text)
    process = _finished(run, "restored", [*_words(run), "--position-in", saved, "--no-digest", "--json"])
    if not same:
        _refused(run, process, f"a position with {text[:60]!r}…")


def _changed_position(run, text):
    """Another text, and whether it may be taken."""
    position = json.loads(text)
    how = run.rng.choice(("number", "number", "nested", "cut", "twice", "spaces"))
    if how == "number":
        where = run.rng.choice([(position, "batch"), (position, "ringfeed_position"), (position["data"], "files"),
                                (position["data"], "bytes")])
        where[0][where[1]] = run.rng.choice(POSITION_NUMBERS)
        # One that no data set has is as good as any where nobody counts them.
        uncounted = where[1] == "batch" and run.configuration["order"] not in ("global", "stripes")
        return json.dumps(position), uncounted and where[0][where[1]] == 2 ** 63
    if how == "nested":
        depth, key = run.rng.choice((100, 65_500, 200_000)), run.rng.choice(("ringfeed_position", "batch", "more"))
        return json.dumps(position)[:-1] + f', "{key}": ' + "[" * depth + "]" * depth + "}", False
    if how == "cut":
        return text[:run.rng.randrange(1, len(text.rstrip()))], False
    if how == "twice":
        return json.dumps(position)[:-1] + ', "batch": 0}', False
    return json.dumps(position, indent=run.rng.randrange(1, 5)), True


def _journal_of(run):
    """A journal of two batches; None if there is none."""
    journal = run.folder / "journal"
    first = _finished(run, "noting", [*_words(run), "--max-batches", 2, "--journal", journal, "--no-digest"])
    return journal if first is not None and first.returncode == 0 and journal.exists() else None


def _journal(run):
    journal = _journal_of(run)
    if journal is None:
        return
    number = run.rng.choice(END_NUMBERS)
    line = run.rng.choice((f"e {number}", f"b {number} 0 0:0", f"b 2 {number} 0:0", f"b 2 0 0:{number}",
                           f"b 2 0 0:1+{number}", f"b 2 0 {number}:0", f"d {number}"))
    with open(journal, "ab") as file:
        file.write(line.encode() + b" *%08x\n" % crc32c(line.encode()))
    _finished(run, "audit", ["audit", journal, "--json"])


def _unreadable(run):
    """A read of an existing journal fails when the next run opens it."""
    journal = _journal_of(run)
    if journal is None:
        return
    before = journal.read_bytes()
    if len(before) >= 65536:
        return
    words = [run.place.binary, *_words(run), "--max-batches", 1, "--journal", journal, "--no-digest"]
    process = run.start_words("unreadable", [sys.executable, __file__, "--fail-pread", len(before), *words])
    run.finish([process])
    if not journal.read_bytes().startswith(before):
        run.fault(f"a journal of {len(before)} bytes that could not be read has "
                  f"{len(journal.read_bytes())} now", process)


_TABLE = []


def crc32c(data):
    if not _TABLE:
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
            _TABLE.append(byte)
    sum_ = 0xFFFFFFFF
    for byte in data:
        sum_ = sum_ >> 8 ^ _TABLE[(sum_ ^ byte) & 255]
    return sum_ ^ 0xFFFFFFFF


def fail_pread(size):
    """From here on a pread of exactly `size` bytes fails with EIO, by a seccomp filter (x86-64)."""
    load, jump_if_equal, answer, pread64 = 0x20, 0x15, 0x06, 17
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in (
        (load, 0, 0, 0), (jump_if_equal, 0, 3, pread64), (load, 0, 0, 32), (jump_if_equal, 0, 1, size),
        (answer, 0, 0, 0x00050000 | errno.EIO), (answer, 0, 0, 0x7FFF0000)))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) == 0:
        libc.prctl(22, 2, program, 0, 0)


if __name__ == "__main__":
    if os.uname().machine == "x86_64":
        fail_pread(int(sys.argv[2]))
    os.execv(str(pathlib.Path(sys.argv[3])), sys.argv[3:])
