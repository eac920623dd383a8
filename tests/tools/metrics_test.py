#!/usr/bin/env python3
"""RINGFEED_METRICS: what a running job shows, as Prometheus and node_exporter take it."""

import os
import platform
import re
import subprocess
import time

from command_line import BINARY, CommandTest, await_that, forbid_call, main
from shown_job import OPEN_METRICS, Job, ask, make_files

SAMPLE = re.compile(r'(ringfeed_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)*\})? (-?[0-9.e+-]+)')


def parse(text):
    """Holds an OpenMetrics text against its rules; the samples, and the type of each family."""
    lines = text.split("\n")
    if lines[-2:] != ["# EOF", ""]:
        raise AssertionError(f"it ends with {lines[-2:]}")
    types, units, samples, family = {}, {}, {}, None
    for line in lines[:-2]:
        if line.startswith("# "):
            _, kind, name, rest = line.split(" ", 3)
            if kind == "TYPE":
                if name in types:
                    raise AssertionError(f"{name} comes twice")
                types[name], family = rest, name
            elif name != family:
                raise AssertionError(f"{line} stands in {family}")
            if kind == "UNIT":
                units[name] = rest
                if not name.endswith("_" + rest):
                    raise AssertionError(f"{name} does not end in its unit {rest}")
            continue
        match = SAMPLE.fullmatch(line)
        if not match:
            raise AssertionError(f"no sample: {line}")
        name, labels, value = match.groups()
        if name != family + ("_total" if types[family] == "counter" else ""):
            raise AssertionError(f"{name} stands in {family}")
        if (name, labels) in samples:
            raise AssertionError(f"{line} comes twice")
        samples[name, labels] = float(value)
    for name in types:
        unit = next((unit for unit in ("seconds", "bytes") if name.endswith(unit)), None)
        if units.get(name) != unit:
            raise AssertionError(f"{name} has the unit {units.get(name)}")
    return samples, types


class MetricsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.files = make_files(self.folder)

    def job(self, where, *words, variables=None):
        job = Job(where, self.folder, self.files, *words, variables=variables)
        self.addCleanup(job.__exit__)
        return job

    def feed_at(self, where, before=None):
        """One pass of a job that is to show itself there; `before` runs in it first."""
        return subprocess.run([BINARY, "feed", *self.files, "--no-digest"], capture_output=True, text=True, check=False,
                              timeout=120, preexec_fn=before,
                              env=dict(os.environ, RINGFEED_METRICS=where, RINGFEED_LOG="warn",
                                       XDG_RUNTIME_DIR=str(self.folder)))

    def test_the_text_keeps_the_rules_of_openmetrics_and_counters_only_grow(self):
        job = self.job("127.0.0.1:0", "--devices", "emu:2", "--step-ms", 2)
        address = job.note()
        device = ("ringfeed_device_batches_total", '{feed="0",device="1"}')
        await_that(lambda: device in parse(ask(address)[0])[0], "the second device", job.process)
        before = {}
        for _ in range(5):
            text, kind = ask(address)
            self.assertEqual(kind, OPEN_METRICS + "; charset=utf-8")
            samples, types = parse(text)
            for (name, labels), value in before.items():
                if name.endswith("_total"):
                    self.assertGreaterEqual(samples[name, labels], value, (name, labels))
            before = samples
            time.sleep(0.3)
        self.assertIn(device, before)
        self.assertGreater(len(types), 40)
        self.assertEqual(job.end(), 0)
        self.assertEqual(job.errors, "")

    def test_the_official_parser_takes_it(self):
        try:
            from prometheus_client.openmetrics import parser
        except ImportError:
            self.skipTest("prometheus_client is not installed")
        address = self.job("127.0.0.1:0", "--devices", "emu:1").note()
        await_that(lambda: "ringfeed_device" in ask(address)[0], "a device")
        families = list(parser.text_string_to_metric_families(ask(address)[0]))
        self.assertGreater(len(families), 40)
        self.assertTrue(all(family.name.startswith("ringfeed_") for family in families))

    def test_the_older_text_is_served_to_who_does_not_ask(self):
        address = self.job(f"unix:{self.folder}/s-%p").note()
        text, kind = ask(address, accept="*/*")
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn("# TYPE ringfeed_looks_total counter\n", text)
        self.assertRegex(address, r"/s-\d+$")

    def test_a_file_is_whole_at_every_moment_and_stays(self):
        path = self.folder / "job.prom"
        job = self.job(str(path))
        await_that(path.exists, "the file")
        first = os.stat(path).st_ino
        while os.stat(path).st_ino == first:
            self.assertIn("ringfeed_counted_time_seconds", path.read_text())
            time.sleep(0.01)
        self.assertEqual(job.end(), 0)
        text = path.read_text()
        self.assertIn("# TYPE ringfeed_chain_records_total counter\n", text)
        self.assertRegex(text, r'ringfeed_chain_ended\{chain="0:[^"]*"\} 1')
        self.assertEqual([entry.name for entry in self.folder.glob("job.prom*")], ["job.prom"])

    def test_a_second_job_at_the_same_place_says_so_and_goes_on(self):
        for where in (f"unix:{self.folder}/sock", str(self.folder / "job.prom")):
            with self.subTest(where):
                first = self.job(where)
                first.note()
                result = self.feed_at(where)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr.count("no metrics are shown"), 1, result.stderr)
                self.assertEqual(first.end(), 0)

    def test_where_the_system_allows_no_socket_the_job_goes_on(self):
        calls = {"x86_64": {"socket": 41, "accept4": 288}, "aarch64": {"socket": 198, "accept4": 242}}
        if platform.machine() not in calls:
            self.skipTest("the numbers of this machine's calls are not known here")
        for where in (f"unix:{self.folder}/sock", "127.0.0.1:0", str(self.folder / "job.prom")):
            for name, number in calls[platform.machine()].items():
                with self.subTest(where, forbidden=name):
                    result = self.feed_at(where, before=lambda number=number: forbid_call(number))
                    self.assertEqual(result.returncode, 0, result.stderr)
                    told = name == "socket" and not where.endswith(".prom")
                    self.assertEqual(result.stderr.count("no metrics are shown"), int(told), result.stderr)
        self.assertIn("ringfeed_chain_records_total", (self.folder / "job.prom").read_text())

    def test_what_makes_no_sense_is_refused(self):
        for where, remedy in (("127.0.0.1", "127.0.0.1:9400"), ("0.0.0.0:9400", "RINGFEED_METRICS_PUBLIC=1"),
                              ("unix:", "path"), ("./%x", "%")):
            with self.subTest(where):
                result = self.feed_at(where)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"RINGFEED_METRICS={where}: ", result.stderr)
                self.assertIn(remedy, result.stderr)
                self.assertLessEqual(result.stderr.count("\n"), 3)

    def test_other_machines_may_look_where_that_is_said(self):
        job = self.job("0.0.0.0:0", variables={"RINGFEED_METRICS_PUBLIC": "1"})
        port = job.note().rsplit(":", 1)[1]
        self.assertIn("ringfeed_chain", ask(f"127.0.0.1:{port}")[0])

    def test_names_of_files_are_kept_from_breaking_the_text(self):
        odd = self.folder / 'a"b\\c\nd\x1b\udcff.tfrecord'
        os.link(self.files[0], odd)
        self.files = [str(odd)]
        address = self.job("127.0.0.1:0").note()
        text = await_that(lambda: "ringfeed_chain_info" in ask(address)[0] and ask(address)[0], "the chain")
        parse(text)
        self.assertIn('chain="0:a\\"b\\\\c?d??.tfrecord"', text)


main()
