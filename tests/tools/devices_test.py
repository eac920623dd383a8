#!/usr/bin/env python3
"""`ringfeed devices`: kinds of devices, what is close to them, the disks behind files."""

import os
import pathlib

from command_line import DATA, CommandTest, main, run, run_json

DEVICE_FIELDS = "device name memory_bytes pci_address numa_node cpus link"
DISK_FIELDS = "name pci_address numa_node link near_devices far_devices"


def disks_of(path):
    """The names that the kernel gives the disks behind a file, read by other means: none, or one
    without partitions, mappers and RAIDs in between. None where it is not that simple."""
    number = os.stat(path).st_dev
    device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        return []
    real = device.resolve()
    if (real / "partition").exists() or any((real / "slaves").glob("*")):
        return None
    return [real.name]


class DevicesTest(CommandTest):
    def test_every_kind_is_there_or_says_why_not(self):
        report = run_json("devices")
        self.assertEqual(list(report), "version command kinds numa_nodes devices shared_uplinks files".split())
        kinds = {kind["name"]: kind for kind in report["kinds"]}
        self.assertTrue(kinds["emu"]["usable"])
        self.assertEqual(kinds["cuda"]["usable"], not kinds["cuda"]["reason"])
        self.assertEqual(len(report["devices"]), kinds["cuda"]["devices"])
        self.assertGreaterEqual(report["numa_nodes"], 1)
        text = run("devices").stdout
        self.assertIn(kinds["cuda"]["reason"], text)
        self.assertRegex(text, "(?m)^emu +any number$")

    def test_emulated_devices_are_described(self):
        report = run_json("devices", "--devices", "emu:2")
        self.assertEqual([device["device"] for device in report["devices"]], [0, 1])
        for device in report["devices"]:
            self.assertEqual(list(device), DEVICE_FIELDS.split())
            self.assertTrue(device["name"])
            self.assertGreater(device["memory_bytes"], 0)
        self.assertEqual(report["shared_uplinks"], [])
        self.assertRegex(run("devices", "--devices", "emu:2").stdout, r"(?m)^device 1: .* GiB")

    def test_the_disks_of_files_are_found(self):
        path = self.write("a.tfrecord", [b"one"])
        (entry,) = run_json("devices", path)["files"]
        self.assertEqual(entry["file"], str(path))
        expected = disks_of(path)
        if expected is not None:
            self.assertEqual([disk["name"] for disk in entry["disks"]], expected)
        for disk in entry["disks"]:
            self.assertEqual(list(disk), DISK_FIELDS.split())
            self.assertIn(f"{path}: {disk['name']}", run("devices", path).stdout)

    def test_on_a_machine_of_one_node_a_disk_is_near_to_every_device(self):
        report = run_json("devices", DATA, "--devices", "emu:3")
        if report["numa_nodes"] > 1:
            self.skipTest("this machine has several nodes")
        for disk in report["files"][0]["disks"]:
            self.assertEqual((disk["near_devices"], disk["far_devices"]), ([0, 1, 2], []))

    def test_what_lies_on_no_disk_has_none(self):
        self.assertEqual(run_json("devices", "/proc/self/status")["files"][0]["disks"], [])
        self.assertIn("/proc/self/status: on no disk", run("devices", "/proc/self/status").stdout)

    def test_a_missing_file_does_not_hide_the_others(self):
        path = self.write("a.tfrecord", [b"one"])
        missing = self.folder / "missing"
        report = run_json("devices", missing, path, status=2)
        self.assertEqual([entry["file"] for entry in report["files"]], [str(missing), str(path)])
        self.assertIn("not_found", report["files"][0]["error"])
        self.assertNotIn("error", report["files"][1])
        self.assertIn(str(missing), run("devices", missing).stderr)

    def test_devices_that_are_not_there_are_refused(self):
        self.assertIn("tpu", self.assert_refused(2, "devices", "--devices", "tpu"))
        self.assert_refused(2, "devices", "--devices", "emu:none")
        (cuda,) = [kind for kind in run_json("devices")["kinds"] if kind["name"] == "cuda"]
        if not cuda["usable"]:
            self.assertIn(cuda["reason"], self.assert_refused(2, "devices", "--devices", "cuda"))


if __name__ == "__main__":
    main()
