#!/usr/bin/env python3
"""Holds what an order by number makes of damaged files against what the order of files makes of them.

orders_test.py COMPARE_ORDERS FORMAT [STEP]: of every variant of damage_test.py, under both policies,

    skip    the same records, the same ranges reported, and as many
    fail    both fail, or neither does and the records are the same

What has no numbers is refused by both policies: a file that is compressed as a whole, and one that is
none of the format's, of which the order of files delivers nothing.
"""

import json
import struct
import subprocess
import sys
import tempfile

import damage_test

SHOWN = 10


def refused(seen):
    return "order of files" in seen.get("message", "") and not seen["records"]


def differences(policy, files, numbers, compressed):
    if compressed:
        if not refused(numbers):
            yield f"{policy}: a compressed file is not refused"
        return
    if refused(numbers) and not files["records"] and (len(files["ranges"]) == 1 or "code" in files):
        return
    if ("code" in files) != ("code" in numbers):
        which = "by number" if "code" in numbers else "in the order of files"
        yield f"{policy}: fails {which} alone: {files.get('message')}, {numbers.get('message')}"
    elif "code" not in files:
        if files["records"] != numbers["records"]:
            yield f"{policy}: {len(numbers['records'])} records by number, {len(files['records'])} otherwise"
        if files["ranges"] != numbers["ranges"]:
            yield f"{policy}: reports {numbers['ranges']} by number, {files['ranges']} otherwise"
        if files["damaged"] != numbers["damaged"]:
            yield f"{policy}: counts {numbers['damaged']} by number, {files['damaged']} otherwise"


def main():
    program, wanted = sys.argv[1:3]
    step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    promise = dict(damage_test.promises())[wanted]
    compressed = promise.compression != "none"
    name = promise.name + (f"+{promise.compression}" if compressed else "")
    variants = list(promise.variants(step))
    files = [promise.file_of(pieces) for _, pieces in variants]
    sent = b"".join(struct.pack("<Q", len(file)) + file for file in files)
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([program, folder, name], input=sent, stdout=subprocess.PIPE)
    lines = run.stdout.splitlines()
    failures = 0
    for (variant, _), file, line in zip(variants, files, lines):
        seen = json.loads(line)
        for policy in ("fail", "skip"):
            both = seen[policy]
            for what in differences(policy, both["files"], both["numbers"], compressed):
                failures += 1
                if failures <= SHOWN:
                    print(f"{wanted}: {variant}: {what}\n    {file.hex()[:400]}")
    print(f"{wanted}: {len(variants)} variants, {failures} differences")
    return 1 if failures or run.returncode or len(lines) != len(variants) else 0


if __name__ == "__main__":
    sys.exit(main())
