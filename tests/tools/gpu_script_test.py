#!/usr/bin/env python3
"""`scripts/gpu`: a short rehearsal on emulated devices, and what is kept of a run."""

import json
import os
import pathlib
import subprocess
import sys

from command_line import BINARY, CommandTest, main, run_json

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"
PLACE = "/some/place"


def made_part(part, steps):
    """A part as a run writes it, with results as steps give them."""
    entries = [{"name": name, "command": "x", "ended": "passed", "status": 0, "seconds": 1.5,
                **({} if result is None else {"result": result})} for name, result in steps.items()]
    return {"part": part, "commit": "0123456789", "devices": "cuda", "date": "2026-01-02",
            "steps": entries}


FACTS = {
    "gpu": "name, driver_version\nSome GPU, 580.1", "gpu_bar1": "long", "driver": "NVRM 580.1",
    "processor": "Architecture: x\nModel name:  Some CPU\nModel:   7\nStepping: 1", "cores": 16,
    "memory_kib": {"MemTotal": 10, "MemAvailable": 5}, "kernel": "6.1.44-of-a-builder",
    "libc": ["glibc", "2.36"], "python": "3.12.1", "huge_pages": "[always]", "memlock": [1, 2],
    "io_uring_disabled": "0", "numa_nodes": "0", "disks": "d", "file_systems": "f", "udev": False,
    "sanitizer": PLACE,
}
FEED = {"records": 10, "wall_s": 0.5, "verified": True, "devices": [{"batches": 3}],
        "files": [PLACE], "command": "feed " + PLACE}
CONFORMANCE = {"tests": 5, "failures": 1, "disabled": 0, "errors": 0, "testsuites": [
    {"name": "n", "testsuite": [{"result": "COMPLETED"}, {"result": "SKIPPED"}]}]}
BENCH = {"sections": {"copies": {"figures": [1]}}, "folder": PLACE, "list": [PLACE, "kept"]}
CHECKS = {"checks": [{"name": "torch", "ok": True, "why": "long"}], "summary": {"a": 1},
          "versions": {"torch": "2"}, "device": "d"}


class GpuScriptTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.pack = self.folder / "pack"
        (self.pack / "bin").mkdir(parents=True)
        (self.pack / "bin" / "ringfeed").symlink_to(pathlib.Path(BINARY).resolve())
        (self.pack / "commit").write_text("abcdef\n")
        self.out = self.folder / "out"

    def script(self, *words, pack=None):
        environment = {**os.environ, "RINGFEED_GPU_PACK": str(pack or self.pack)}
        return subprocess.run([sys.executable, str(SCRIPT), *map(str, words)], env=environment,
                              capture_output=True, text=True, timeout=120, check=False)

    def rehearse(self, only, devices="emu:1"):
        return self.script("run", "A", "--devices", devices, "--only", only, "--out", self.out)

    def part(self, name="A"):
        return json.loads((self.out / f"{name}.json").read_text())

    def steps(self):
        return {step["name"]: step for step in self.part()["steps"]}

    def test_a_rehearsal_runs_its_steps_and_keeps_what_they_say(self):
        done = self.rehearse("facts,devices")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "passed"), done.stderr)
        self.assertEqual((self.part()["commit"], self.part()["devices"]), ("abcdef", "emu:1"))
        steps = self.steps()
        self.assertEqual(list(steps), ["facts", "devices"])
        self.assertEqual({step["ended"] for step in steps.values()}, {"passed"})
        self.assertEqual(steps["facts"]["result"]["cores"], len(os.sched_getaffinity(0)))
        self.assertIn("emu", [kind["name"] for kind in steps["devices"]["result"]["kinds"]])
        self.assertIn("===== devices", (self.out / "A.log").read_text())

    def test_a_step_that_fails_is_noted_and_the_next_one_runs(self):
        (self.pack / "bin" / "ringfeed").unlink()
        (self.pack / "bin" / "ringfeed").write_text("#!/bin/sh\necho '{\"row\": 1}'\nexit 3\n")
        (self.pack / "bin" / "ringfeed").chmod(0o755)
        done = self.rehearse("devices,machine_tests,bench")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "failed"), done.stderr)
        steps = self.steps()
        self.assertEqual([(name, step["ended"]) for name, step in steps.items()],
                         [("devices", "failed"), ("machine_tests", "failed"), ("bench", "failed")])
        self.assertEqual(steps["devices"]["status"], 3)
        self.assertEqual(steps["devices"]["result"], {"row": 1})
        self.assertIn("cuda_machine_tests", steps["machine_tests"]["why"])

    def test_without_a_gpu_nothing_runs_that_needs_one(self):
        kinds = {kind["name"]: kind for kind in run_json("devices")["kinds"]}
        if kinds["cuda"].get("devices", 0) > 0:
            self.skipTest("there is a GPU")
        done = self.rehearse("devices,bench", "cuda")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertTrue(done.stdout.splitlines()[-1].startswith("skipped: there is no GPU"))
        self.assertEqual(self.steps()["bench"]["ended"], "skipped")
        self.assertEqual(self.steps()["bench"]["why"], "no GPU")

    def test_without_a_pack_it_says_how_to_get_one(self):
        done = self.script("run", "A", "--out", self.out, pack=self.folder / "nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("scripts/gpu pack", done.stderr)

    def test_every_part_has_steps(self):
        lines = self.script("steps").stdout.splitlines()
        self.assertEqual({line.split()[0] for line in lines}, set("ABCD"))

    def test_a_summary_keeps_figures_without_places_and_logs(self):
        self.out.mkdir()
        parts = {"A": {"facts": FACTS, "conformance": CONFORMANCE, "bench": BENCH},
                 "B": {"feed_2_slots": FEED, "train_multi_gpu": None, "rows": [{"row": 1}]},
                 "D": {"frameworks": CHECKS}}
        for part, steps in parts.items():
            (self.out / f"{part}.json").write_text(json.dumps(made_part(part, steps)))
        results = self.folder / "kept.json"
        done = self.script("summary", self.out, "--results", results)
        self.assertEqual(done.returncode, 0, done.stderr)
        kept = json.loads(results.read_text())
        self.assertEqual(list(kept["parts"]), ["A", "B", "D"])
        self.assertNotIn(PLACE, json.dumps(kept))
        first = kept["parts"]["A"]
        self.assertEqual((first["commit"], first["date"]), ("0123456789", "2026-01-02"))
        facts = first["steps"]["facts"]["result"]
        self.assertEqual(facts["kernel"], "6.1.44")
        self.assertEqual(facts["processor"], {"Model name": "Some CPU", "Model": "7"})
        self.assertEqual(first["steps"]["conformance"]["result"],
                         {"tests": 5, "failures": 1, "disabled": 0, "errors": 0, "skipped": 1})
        self.assertEqual(first["steps"]["bench"]["result"],
                         {"sections": {"copies": {"figures": [1]}}, "list": ["kept"]})
        second = kept["parts"]["B"]["steps"]
        self.assertEqual(second["feed_2_slots"]["result"],
                         {key: FEED[key] for key in ("records", "wall_s", "verified", "devices")})
        self.assertEqual(second["train_multi_gpu"], {"ended": "passed", "seconds": 1.5})
        self.assertEqual(second["rows"]["result"], [{"row": 1}])
        self.assertEqual(kept["parts"]["D"]["steps"]["frameworks"]["result"],
                         {"checks": {"torch": True}, "summary": {"a": 1},
                          "versions": {"torch": "2"}})


if __name__ == "__main__":
    main()
