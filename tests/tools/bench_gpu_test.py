#!/usr/bin/env python3
"""`ringfeed bench --gpu`: all sections on emulated devices, marked so; without a device it says why."""

import json
import os
import statistics
import tempfile
import unittest.mock

from command_line import CommandTest, main, run, run_json

QUICK = ["--gpu", "--devices", "emu:1", "--seconds", "0.1"]
SECTIONS = "copies costs verified overlap steps disk"
COSTS = "copy_ns_per_kib link_ns_per_kib member_ns row_ns sum_ns".split()
BOUNDS = [
    "auto leaves rows from",
    "auto leaves neighbours from",
    "auto copies rows by themselves from",
    "auto copies gaps up to",
    "members leaves rows from",
    "slabs leaves rows from",
]
TARGETS = {
    "efficiency at 1.00 MiB": ">= 0.9",
    "efficiency at 4.00 MiB": ">= 0.95",
    "efficiency at 16.00 MiB": ">= 0.95",
    "slowdown of the load": "<= 0.03",
    "efficiency beside it": ">= 0.9",
    "stall": "<= 0.01",
    "Next + On + Release": "<= 10",
    "feed over plain reads": ">= 0.95",
}


def has_direct_io():
    """Whether the temporary folder's file system opens files with O_DIRECT."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.close(os.open(file.name, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
    return True


class BenchGpuTest(CommandTest):
    def check_figures(self, section):
        for figure in section["figures"]:
            self.assertTrue(figure["samples"], figure)
            self.assertAlmostEqual(figure["median"], statistics.median(figure["samples"]))
            self.assertEqual((figure["min"], figure["max"]),
                             (min(figure["samples"]), max(figure["samples"])))
            self.assertEqual("target" in figure, "verdict" in figure)
            self.assertEqual(figure.get("verdict", "not comparable"), "not comparable")

    def test_every_section_is_there_and_marked_as_emulated(self):
        if not has_direct_io():
            self.skipTest("the temporary folder has no O_DIRECT")
        with unittest.mock.patch.dict(os.environ, {"TMPDIR": str(self.folder)}):
            report = run_json("bench", *QUICK)
        self.assertIs(report["emulated"], True)
        self.assertEqual(list(report["sections"]), SECTIONS.split())
        self.assertEqual(report["device"]["backend"], "emu")
        self.assertTrue(report["device"]["name"])
        self.assertIn("link", report["device"])
        self.assertIn("driver", report["device"])
        targets = {}
        for section in report["sections"].values():
            self.assertNotIn("error", section)
            self.check_figures(section)
            targets |= {f["name"]: f["target"] for f in section["figures"] if "target" in f}
        self.assertEqual(targets, targets | TARGETS)
        self.assertGreater(report["verified_batches"], 0)
        self.assertEqual(report["wrong_batches"], 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_loop_of_steps_neither_blocks_nor_allocates(self):
        report = run_json("bench", *QUICK, status=0 if has_direct_io() else 1)
        steps = {f["name"]: f for f in report["sections"]["steps"]["figures"]}
        self.assertEqual(steps["calls that block or allocate"]["max"], 0)
        self.assertGreater(steps["Next + On + Release"]["median"], 0)

    def test_several_devices_are_measured_together(self):
        report = run_json("bench", "--gpu", "--devices", "emu:2", "--seconds", "0.1",
                          status=0 if has_direct_io() else 1)
        self.assertEqual(list(report["sections"]), [*SECTIONS.split(), "together"])
        together = report["sections"]["together"]
        self.check_figures(together)
        self.assertEqual([figure["name"] for figure in together["figures"]][-2:],
                         ["device 0 beside the others", "device 1 beside the others"])
        self.assertEqual(together["details"]["shared_uplinks"], {})
        self.assertEqual(report["wrong_batches"], 0)

    def test_costs_are_written_and_a_feed_takes_them(self):
        out = self.folder / "costs.json"
        report = run_json("bench", *QUICK, "--costs-out", out, status=0 if has_direct_io() else 1)
        figures = report["sections"]["costs"]["figures"]
        self.assertEqual([figure["name"] for figure in figures], COSTS + BOUNDS)
        medians = {figure["name"]: figure["median"] for figure in figures}
        for cost in COSTS:
            self.assertGreater(medians[cost], 0)
        self.assertTrue(all(len(figure["samples"]) == 3 for figure in figures[:4]))
        self.assertLessEqual(medians["auto leaves neighbours from"], medians["auto leaves rows from"])
        written = json.loads(out.read_text())
        self.assertEqual(written.pop("ringfeed_transfer_costs"), 1)
        self.assertIn("(emulated)", written.pop("measured_on"))
        self.assertEqual(written, {cost: medians[cost] for cost in COSTS})
        path = self.write("a.tfrecord", [b"x" * 100] * 20)
        fed = run_json("feed", path, "--batch", "4", "--devices", "emu:1", "--transfer-costs", out)
        self.assertIn("by the costs given", fed["devices"][0]["transfer_reason"])

    def test_costs_are_written_where_they_can_be_or_nothing_is_measured(self):
        message = self.assert_refused(2, "bench", "--costs-out", self.folder / "costs.json", "a")
        self.assertIn("--gpu", message)
        result = run("bench", *QUICK, "--costs-out", self.folder / "no" / "costs.json")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("costs.json", result.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_folder_that_is_not_there_fails_its_section_alone(self):
        def before():
            os.environ["TMPDIR"] = "/nonexistent"

        result = run("bench", *QUICK, before=before)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("not measured", result.stdout)
        self.assertIn("TMPDIR", result.stdout)
        self.assertIn("(emulated)", result.stdout)
        self.assertIn("efficiency at 4.00 MiB", result.stdout)

    def test_without_a_device_it_says_why(self):
        kinds = {kind["name"]: kind for kind in run_json("devices")["kinds"]}
        if kinds["cuda"]["usable"]:
            self.skipTest("there is a device")
        self.assertIn(kinds["cuda"]["reason"], self.assert_refused(2, "bench", "--gpu"))
        self.assertIn(kinds["cuda"]["reason"],
                      self.assert_refused(2, "bench", "--gpu", "--devices", "cuda:0"))

    def test_options_that_make_no_sense_are_refused(self):
        self.assertIn("FILE", self.assert_refused(2, "bench"))
        self.assertIn("own files", self.assert_refused(2, "bench", "--gpu", "some.tfrecord"))
        self.assert_refused(2, "bench", "--gpu", "--devices", "tpu")
        self.assert_refused(2, "bench", "--gpu", "--seconds", "0")


if __name__ == "__main__":
    main()
