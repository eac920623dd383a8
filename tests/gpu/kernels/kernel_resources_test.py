#!/usr/bin/env python3
"""What ptxas says that each kernel uses: registers and shared memory as in the table, nothing spilled.

kernel_resources_test.py NVCC ROOT

More registers or shared memory mean fewer blocks on a multiprocessor; a spill goes through its caches.
Whoever changes a kernel sees here what that costs, without a device. With a compiler that allots a few
registers more the table may follow, if occupancy stays: 65,536 registers to a multiprocessor, in blocks
of 256 threads, of SumAll 512.
"""

import collections
import re
import subprocess
import sys
import unittest

NVCC, ROOT = sys.argv[1:3]
SOURCE = "gpu/backends/cuda/cuda_kernels.cu"
ARCHITECTURES = ("sm_80", "sm_90")
#: (registers, bytes of shared memory) at most, of all kernels of a template.
MOST = {
    "AddUp": (40, 64),
    "CastChannelsFirst": (32, 0),
    "CastCropped": (48, 0),
    "CastInOrder": (32, 0),
    "Gather": (40, 0),
    "Pad": (40, 0),
    "SumAll": (32, 4096),
    "Widen": (24, 0),
}
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
SPILLED = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")


def name_of(symbol):
    """Of the kernel, without what its template was given: _ZN8ringfeed…5WidenIlLi1EEEv… is Widen."""
    at, names = symbol.index("N") + 1, []
    while match := re.match(r"(\d+)", symbol[at:]):
        at += match.end()
        names.append(symbol[at : at + int(match[1])])
        at += int(match[1])
    return names[-1]


def used_on(architecture):
    """(registers, shared bytes, bytes of stack and spills) of each kernel: the most of its template."""
    done = subprocess.run(
        [NVCC, "-std=c++20", "-O3", f"-I{ROOT}", f"-I{ROOT}/include", f"-arch={architecture}", "-cubin",
         "--resource-usage", f"{ROOT}/{SOURCE}", "-o", "/dev/null"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found = collections.defaultdict(lambda: (0, 0, 0))
    kernel, spilled = None, 0
    for line in done.stderr.splitlines() + done.stdout.splitlines():
        if match := ENTRY.search(line):
            kernel = name_of(match[1])
        elif match := SPILLED.search(line):
            spilled = sum(map(int, match.groups()))
        elif (match := USED.search(line)) and kernel:
            now = (int(match[1]), int(match[2] or 0), spilled)
            found[kernel] = tuple(map(max, found[kernel], now))
    return found


class KernelResources(unittest.TestCase):
    def test_each_kernel_uses_what_the_table_allows_and_spills_nothing(self):
        for architecture in ARCHITECTURES:
            used = used_on(architecture)
            self.assertEqual(sorted(used), sorted(MOST), "the table has each kernel")
            for kernel, (registers, shared, spilled) in used.items():
                with self.subTest(architecture=architecture, kernel=kernel):
                    self.assertEqual(spilled, 0)
                    self.assertLessEqual(registers, MOST[kernel][0])
                    self.assertLessEqual(shared, MOST[kernel][1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
