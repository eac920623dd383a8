#!/usr/bin/env python3
"""examples/train_multi_gpu.cc: it trains on the data that it makes, on any number of emulated devices.

train_multi_gpu_test.py PROGRAM EXAMPLES
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
RECORDS, BATCH, PASSES = 16384, 64, 2


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)


class Training:
    """What a run printed."""

    def __init__(self, test, *words):
        result = run(*words)
        test.assertEqual(result.returncode, 0, result.stderr)
        self.steps, self.losses, self.waits = [], [], []
        for step, loss, waits in re.findall(r"^step +(\d+)  loss (\S+)  waited((?: +\S+)+) ms$", result.stdout, re.M):
            self.steps.append(int(step))
            self.losses.append(float(loss))
            self.waits.append([float(wait) for wait in waits.split()])
        self.passes = [float(loss) for loss in re.findall(r"^pass \d+: loss (\S+)$", result.stdout, re.M)]
        self.batches = [int(count) for count in re.findall(r"^device \d+: (\d+) batches", result.stdout, re.M)]
        self.last_line = result.stdout.splitlines()[-1]


class TrainMultiGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name, "made", "here")
        made = run("--make", cls.folder)
        assert made.returncode == 0, made.stderr
        cls.files = sorted(cls.folder.glob("*.tfrecord"))

    def test_the_loss_falls_on_two_devices(self):
        found = Training(self, "--devices", "emu:2", *self.files)
        self.assertEqual(len(found.passes), PASSES)
        self.assertLess(found.passes[1], 0.5 * found.passes[0])
        self.assertGreater(found.losses[0], 0.6, "nothing is known before the first step")
        self.assertLess(found.losses[0], 0.8)
        self.assertEqual(found.last_line, "hazards: 0")

    def test_without_devices_it_says_which_it_took(self):
        result = run(*self.files)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"^devices: (CUDA's|emulated, as CUDA cannot be used here: \S)")
        if "emulated" in result.stderr:
            self.assertIn("\ndevice 1: ", result.stdout)

    def test_every_step_says_how_long_each_device_waited(self):
        found = Training(self, "--devices", "emu:2", *self.files)
        steps = PASSES * RECORDS // BATCH // 2
        self.assertEqual(found.steps, list(range(1, steps + 1)))
        self.assertEqual(found.batches, [steps, steps])
        for waits in found.waits:
            self.assertEqual(len(waits), 2)
            self.assertGreaterEqual(min(waits), 0)
        self.assertGreater(max(found.waits[0]), 0, "the first batch is read while the loop waits")

    def test_without_devices_it_finds_some(self):
        self.assertTrue(Training(self, *self.files).batches)

    def test_the_same_data_give_the_same_losses(self):
        one, other = (Training(self, "--devices", "emu:2", *self.files) for _ in range(2))
        self.assertEqual(one.losses, other.losses)

    def test_devices_that_the_batches_do_not_go_round_step_together(self):
        # 512 batches: the two that are left over are spread over all three, or five, devices.
        for devices in (3, 5):
            found = Training(self, "--devices", f"emu:{devices}", *self.files)
            steps = -(-PASSES * RECORDS // BATCH // devices)
            self.assertEqual(found.batches, [steps] * devices)
            self.assertLess(found.passes[1], 0.5 * found.passes[0])
            self.assertEqual(found.last_line, "hazards: 0")

    def test_as_many_devices_make_the_step_of_a_larger_batch(self):
        # The first step's loss is the mean over the rows of all devices' first batches.
        one = Training(self, "--devices", "emu:1", *self.files)
        found = Training(self, "--devices", "emu:2", *self.files)
        self.assertEqual(one.batches, [PASSES * RECORDS // BATCH])
        self.assertNotEqual(one.losses[0], found.losses[0])
        self.assertAlmostEqual(one.losses[0], found.losses[0], delta=0.05)

    def test_more_devices_than_rows(self):
        folder = self.folder / "few"
        self.assertEqual(run("--make", folder, "--records", 3).returncode, 0)
        files = sorted(folder.glob("*.tfrecord"))
        found = Training(self, "--devices", "emu:9", *files)
        self.assertEqual(found.steps, [1])
        self.assertEqual(found.batches, [1] * 9)

    def test_damage_behind_good_records_ends_all_threads_with_its_reason(self):
        folder = self.folder / "damaged"
        self.assertEqual(run("--make", folder).returncode, 0)
        files = sorted(folder.glob("*.tfrecord"))
        content = bytearray(files[-1].read_bytes())
        content[-40] ^= 1
        files[-1].write_bytes(content)
        result = run("--devices", "emu:2", *files)
        self.assertEqual(result.returncode, 2)
        self.assertIn("damaged", result.stderr)
        self.assertIn(files[-1].name, result.stderr)
        self.assertIn("step    1 ", result.stdout)

    def test_what_cannot_work_is_refused_with_the_reason(self):
        for words, reason in (
            ([], "the list of files is empty"),
            (["missing.tfrecord"], "missing.tfrecord"),
            (["--devices", "emu:0", *self.files], "emu:0"),
            (["--devices", "tpu", *self.files], "tpu"),
            (["--devices"], "--devices"),
            (["--steps", 3], "--steps"),
            (["--devices", "cuda:0,x", *self.files], "'x' is no number"),
            (["--devices", "cuda:", *self.files], "no number"),
            (["--make", "/proc/nowhere"], "/proc/nowhere"),
        ):
            result = run(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
