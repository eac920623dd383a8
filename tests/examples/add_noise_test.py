#!/usr/bin/env python3
"""examples/add_noise.cc: what goes in comes out with a little noise, record by record.

add_noise_test.py PROGRAM EXAMPLES
"""

import struct
import subprocess
import sys
import unittest
import zlib

PROGRAM = sys.argv[1]
MAGIC = 0x01020304


def recordio(records, per_chunk=7):
    """A file of Fluid's RecordIO."""
    file = b""
    for begin in range(0, len(records), per_chunk):
        chunk = records[begin : begin + per_chunk]
        payload = b"".join(struct.pack("<I", len(record)) + record for record in chunk)
        file += struct.pack("<5I", MAGIC, len(chunk), zlib.crc32(payload), 0, len(payload)) + payload
    return file


def records_of(file):
    records, at = [], 0
    while at < len(file):
        magic, count, crc, compressor, size = struct.unpack_from("<5I", file, at)
        payload = file[at + 20 : at + 20 + size]
        assert magic == MAGIC and compressor == 0 and zlib.crc32(payload) == crc
        at += 20 + size
        inside = 0
        for _ in range(count):
            (length,) = struct.unpack_from("<I", payload, inside)
            records.append(payload[inside + 4 : inside + 4 + length])
            inside += 4 + length
    return records


class AddNoiseTest(unittest.TestCase):
    def test_every_number_gets_a_little_noise(self):
        values = [[float(100 * row + i) for i in range(row % 40)] for row in range(3000)]
        records = [struct.pack(f"<{len(row)}f", *row) for row in values]
        result = subprocess.run([PROGRAM, "0.01"], input=recordio(records), capture_output=True, check=True)
        found = records_of(result.stdout)
        self.assertEqual([len(record) for record in found], [len(record) for record in records])
        noise = []
        for row, record in zip(values, found):
            for value, noisy in zip(row, struct.unpack(f"<{len(row)}f", record)):
                if abs(value) < 1000:  # float32 rounds larger ones more than the noise is worth
                    noise.append(noisy - value)
        self.assertGreater(len(set(noise)), len(noise) // 4)
        self.assertLess(max(map(abs, noise)), 0.1)
        deviation = (sum(x * x for x in noise) / len(noise)) ** 0.5
        self.assertAlmostEqual(deviation, 0.01, delta=0.003)

    def test_a_damaged_stream_is_an_error(self):
        file = bytearray(recordio([b"\0" * 400] * 20))
        file[-5] ^= 1
        result = subprocess.run([PROGRAM], input=bytes(file), capture_output=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"checksum", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
