#!/usr/bin/env python3
"""`ringfeed feed --devices`: on emulated devices, against the same command without devices."""

import collections
import itertools
import json
import os
import pathlib
import pty
import random
import signal
import subprocess
import sys
import unittest.mock
import xml.etree.ElementTree

from command_line import (
    BINARY, DATA, CommandTest, await_drawn, await_interrupt, await_that, frame, main, multiset, order_digest, run,
    run_json, unread)

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
DEVICE_FIELDS = (
    "device kind batches stall_fraction overlap_fraction copied_bytes delivered_bytes "
    "transfer transfer_reason direct_bytes member_bytes slab_bytes packed_bytes unpinned_bytes copied_back_bytes "
    "copied_back_unpinned_bytes copied_back_unpinned_reason copied_back_memory_bytes slots grown_slots"
)
REPORT_FIELDS = "devices devices_reason rows_left_out rows_repeated pinning hazards"


class FeedDevicesTest(CommandTest):
    def setUp(self):
        super().setUp()
        source = random.Random(5)
        self.payloads = [source.randbytes(source.randrange(3000)) for _ in range(500)]
        self.paths = [self.write(f"{i}.tfrecord", self.payloads[i * 100 : i * 100 + 100]) for i in range(5)]

    def feed(self, *words, status=0):
        return run_json("feed", *self.paths, *words, status=status)

    def cuda(self):
        (kind,) = [kind for kind in run_json("devices")["kinds"] if kind["name"] == "cuda"]
        return kind

    def rows_by_kind(self):
        """Files of rows that are columns, not ragged ones."""
        path = self.folder / "a.rows"
        data = os.urandom(160 * 1001)
        path.write_bytes(data)
        words = [path, "--format", "rows:160", "--parse", "rows: f4[13] i4[26] i4"]
        return words, [data[i : i + 160] for i in range(0, len(data), 160)]

    def test_what_devices_got_is_what_the_host_gets(self):
        words = ["--shuffle", "60", "--seed", "3", "--batch", "16", "--passes", "2"]
        host = self.feed(*words)
        for devices in ("emu:1", "emu:2", "emu:4"):
            for distribution in ("round-robin", "split", "replicate"):
                for last_step in ("uneven", "pad", "short"):
                    with self.subTest((devices, distribution, last_step)):
                        report = self.feed(*words, "--devices", devices, "--distribution",
                                           distribution, "--last-step", last_step)
                        for field in ("records", "payload_bytes", "order_digest", "multiset"):
                            self.assertEqual(report[field], host[field], field)
                        self.assertEqual(report["hazards"], 0)

    def test_fields(self):
        report = self.feed("--devices", "emu:2", "--step-ms", "1")
        self.assertEqual(list(report)[-6:], REPORT_FIELDS.split())
        self.assertEqual([device["device"] for device in report["devices"]], [0, 1])
        for device in report["devices"]:
            self.assertEqual(list(device), DEVICE_FIELDS.split())
            self.assertEqual((device["kind"], device["slots"], device["batches"]), ("emu", 3, 4))
            self.assertTrue(0 <= device["stall_fraction"] <= 1, device)
            self.assertTrue(0 <= device["overlap_fraction"] <= 1, device)
            self.assertGreaterEqual(device["copied_bytes"], device["delivered_bytes"])
        delivered = sum(device["delivered_bytes"] for device in report["devices"])
        self.assertEqual(delivered, sum(map(len, self.payloads)) + 500 * 40)  # payloads, hashes
        self.assertEqual((report["devices_reason"], report["pinning"]), ("", ""))
        self.assertGreater(report["first_batch_ms"], 0)

    def test_nothing_overlaps_where_nothing_is_computed(self):
        for device in self.feed("--devices", "emu:2")["devices"]:
            self.assertIsNone(device["overlap_fraction"])

    def test_without_a_hash_records_are_counted_all_the_same(self):
        report = self.feed("--devices", "emu:2", "--batch", "7", "--no-digest", "--device-slots", "5")
        self.assertEqual((report["records"], report["batches"]), (500, 72))
        self.assertIsNone(report["order_digest"])
        self.assertEqual([device["slots"] for device in report["devices"]], [5, 5])

    def test_verify_compares_what_came_back_from_the_devices(self):
        rows, payloads = self.rows_by_kind()
        for words in (
            [*self.paths, "--shuffle", "50", "--passes", "2"],
            [*self.paths, "--batch", "100", "--passes", "3", "--last-step", "short"],
            [*self.paths, "--distribution", "split", "--batch", "33", "--last-step", "pad"],
            [*rows, "--batch", "64", "--last-step", "pad"],
            [*rows, "--batch", "64", "--distribution", "split"],
        ):
            for devices in ("emu:2", "emu:3"):
                with self.subTest((words, devices)):
                    report = run_json("feed", *words, "--devices", devices, "--verify", "--no-digest")
                    self.assertIs(report["verified"], True)
                    self.assertIn("on its device as it was read", report["verified_by"])
                    for device in report["devices"]:
                        self.assertEqual(device["copied_back_bytes"], device["delivered_bytes"])
                        self.assertEqual(device["copied_back_unpinned_bytes"], 0)
                        self.assertGreater(device["copied_back_memory_bytes"], 0)
        report = run_json("feed", *rows, "--batch", "64", "--devices", "emu:2", "--verify")
        self.assertEqual(report["order_digest"], order_digest(payloads))

    def test_every_transfer_delivers_the_same_and_says_how(self):
        source = random.Random(6)
        payloads = [source.randbytes(source.randrange(60_000)) for _ in range(120)]
        path = self.write("long.tfrecord", payloads)
        for words in ([], ["--shuffle", "40", "--seed", "2"], ["--distribution", "split"]):
            host = run_json("feed", path, "--batch", "9", *[w for w in words if w not in (
                "--distribution", "split")])
            for transfer in ("auto", "batch", "members", "slabs"):
                with self.subTest((words, transfer)):
                    report = run_json("feed", path, "--batch", "9", *words, "--devices", "emu:2",
                                      "--transfer", transfer, "--verify")
                    self.assertIs(report["verified"], True)
                    self.assertEqual(report["order_digest"], host["order_digest"])
                    self.assertEqual(report["hazards"], 0)
                    for device in report["devices"]:
                        self.check_transfer(transfer, device)

    def test_costs_change_how_bytes_come_and_never_which(self):
        source = random.Random(7)
        path = self.write("short.tfrecord", [source.randbytes(700) for _ in range(6000)])
        costs = self.folder / "costs.json"
        words = [path, "--batch", "50", "--devices", "emu:1", "--transfer", "slabs"]
        plain = run_json("feed", *words)
        self.assertEqual(plain["devices"][0]["slab_bytes"], 0)
        self.assertIn("an H200 (defaults)", plain["devices"][0]["transfer_reason"])
        costs.write_text('{"ringfeed_transfer_costs": 1, "copy_ns_per_kib": 9000}')
        report = run_json("feed", *words, "--transfer-costs", costs, "--verify")
        self.assertIs(report["verified"], True)
        self.assertEqual(report["order_digest"], plain["order_digest"])
        self.assertGreater(report["devices"][0]["slab_bytes"], 0)
        self.assertIn("by the costs given", report["devices"][0]["transfer_reason"])
        for text, word in (("{", "costs"), ('{"ringfeed_transfer_costs": 1, "row_ns": 0}', "row_ns")):
            costs.write_text(text)
            self.assertIn(word, self.assert_refused(2, "feed", *words, "--transfer-costs", costs))
        self.assert_refused(2, "feed", *words, "--transfer-costs", self.folder / "none.json")

    def test_rows_are_read_into_the_devices_memory_where_cufile_is_there(self):
        source = random.Random(8)
        rows = [source.randbytes(20_000) for _ in range(90)]
        path = self.folder / "rows.bin"
        path.write_bytes(b"".join(rows))
        words = [path, "--format", "rows:20000", "--parse", "rows: i8 u1[19992]", "--batch", "7",
                 "--shuffle-mode", "global", "--seed", "3"]
        host = run_json("feed", *words)
        # Without it they are copied together where that is cheaper, else one by one: as rows happen to
        # be read.
        for library, transfers in ((os.environ.get("RINGFEED_STAND_IN_CUFILE", ""), {"direct"}),
                                   ("/nowhere/libcufile.so.0", {"slabs", "members"})):
            if not library:
                continue
            with self.subTest(library), unittest.mock.patch.dict(os.environ, RINGFEED_CUFILE=library):
                report = run_json("feed", *words, "--devices", "emu:1", "--transfer", "direct",
                                  "--verify")
                self.assertIs(report["verified"], True)
                self.assertEqual(report["order_digest"], host["order_digest"])
                self.assertEqual(report["multiset"], host["multiset"])
                self.assertEqual(report["hazards"], 0)
                device, = report["devices"]
                self.assertIn(device["transfer"], transfers)
                if device["transfer"] == "direct":
                    self.assertEqual(device["direct_bytes"], device["delivered_bytes"])
                    self.assertIn("cuFile's compatibility mode", device["transfer_reason"])
                else:
                    self.assertGreater(device["slab_bytes"] + device["member_bytes"], 0)
                    self.assertIn("no cuFile: /nowhere", device["transfer_reason"])

    def check_transfer(self, asked, device):
        self.assertNotEqual(device["transfer_reason"], "")
        if asked == "auto":  # as the file is read
            return
        self.assertEqual(device["transfer"], asked)
        left = device["member_bytes"] + device["slab_bytes"]
        if asked == "batch":
            self.assertEqual(left, 0)
        else:
            self.assertGreater(left, device["delivered_bytes"] / 2)

    def test_a_dropped_last_step_is_counted(self):
        # 500 records are 8 batches, the last one of 52.
        report = self.feed("--devices", "emu:3", "--batch", "64", "--last-step", "drop", "--cycle", 1)
        self.assertEqual((report["records"], report["rows_left_out"], report["batches"]), (384, 116, 6))
        self.assertEqual(report["order_digest"], order_digest(self.payloads[:384]))
        self.assertEqual([device["batches"] for device in report["devices"]], [2, 2, 2])
        report = self.feed("--devices", "emu:3", "--batch", "64", "--last-step", "drop",
                           "--distribution", "split")
        self.assertEqual((report["records"], report["rows_left_out"]), (448, 52))

    def test_a_padded_last_step_repeats_rows_that_do_not_count(self):
        report = self.feed("--devices", "emu:3", "--batch", "64", "--last-step", "pad")
        self.assertEqual((report["records"], report["rows_repeated"]), (500, 12 + 64))
        self.assertEqual([device["batches"] for device in report["devices"]], [3, 3, 3])
        report = self.feed("--devices", "emu:3", "--batch", "64", "--last-step", "pad",
                           "--distribution", "split")
        self.assertEqual((report["records"], report["rows_repeated"]), (500, 12))

    def test_uneven_and_short_last_steps_leave_nothing_out(self):
        for last_step, batches in (("uneven", [3, 3, 2]), ("short", [3, 3, 3])):
            report = self.feed("--devices", "emu:3", "--batch", "64", "--last-step", last_step)
            self.assertEqual((report["records"], report["rows_left_out"], report["rows_repeated"]),
                             (500, 0, 0))
            self.assertEqual([device["batches"] for device in report["devices"]], batches)

    def test_more_devices_than_batches(self):
        report = self.feed("--devices", "emu:4", "--batch", "300", "--step-ms", "1")
        self.assertEqual([device["batches"] for device in report["devices"]], [1, 1, 0, 0])
        self.assertIsNone(report["devices"][3]["stall_fraction"])
        self.assertEqual(report["multiset"], multiset(self.payloads))

    def test_tensors_of_different_rows_cannot_be_spread(self):
        path = DATA / "fluid_recordio" / "lod1_snappy_max5.recordio"
        words = ["feed", path, "--parse", "lod: words=i8[,1]/1 score=f4[,1]", "--devices", "emu:2",
                 "--distribution", "split"]
        for word in ("--no-digest", "--verify"):
            self.assertIn("rows cannot be spread", self.assert_refused(2, *words, word))

    def trace(self, *words):
        path = self.folder / "trace.json"
        report = self.feed(*words, "--trace", path)
        events = json.loads(path.read_text())["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        spans = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                spans[names[event["pid"]], event["cat"]].append(event)
        return report, spans

    def test_a_trace_has_every_stage_of_every_batch(self):
        report, spans = self.trace("--devices", "emu:2", "--step-ms", "2", "--batch", "16")
        self.assertEqual(report["batches"], 32)
        self.assertEqual([event["name"] for event in spans["reader", "read"]],
                         [f"read {number}" for number in range(32)])
        for device in (0, 1):
            for what in ("copy", "lease", "step"):
                found = spans[f"device {device}", what]
                self.assertEqual(sorted(event["name"] for event in found),
                                 sorted(f"{what} {number}" for number in range(device, 32, 2)))
                self.assertTrue(all(event["ts"] >= 0 and event["dur"] >= 0 for event in found))
        self.assertEqual({name for name, _ in spans}, {"reader", "device 0", "device 1"})

    def test_steps_of_a_device_come_one_after_the_other(self):
        _, spans = self.trace("--devices", "emu:2", "--step-ms", "2", "--batch", "16")
        # Devices tell the time since the start as a float in ms: within a minute that is exact to 4 us.
        exact_us = 2 * 4
        for device in ("device 0", "device 1"):
            steps = sorted(spans[device, "step"], key=lambda event: event["ts"])
            for before, behind in zip(steps, steps[1:]):
                self.assertGreaterEqual(behind["ts"] + exact_us, before["ts"] + before["dur"])
            for step in steps:
                self.assertGreaterEqual(step["dur"] + exact_us, 2000)

    def test_a_trace_is_drawn_as_a_picture(self):
        self.feed("--devices", "emu:2", "--step-ms", "2", "--batch", "16",
                  "--trace", self.folder / "trace.json")
        words = [sys.executable, SCRIPTS / "timeline_picture", self.folder / "trace.json"]
        drawn = subprocess.run([*words, "--first", "14", "--batches", "4"], capture_output=True,
                               check=True, text=True, timeout=60).stdout
        root = xml.etree.ElementTree.fromstring(drawn)
        titles = [title.text.split(":")[0] for title in root.iter("{http://www.w3.org/2000/svg}title")]
        for number in range(14, 18):
            self.assertEqual([titles.count(f"{what} {number}") for what in ("copy", "step")], [1, 1])
        # However far one device is ahead of the other: three slots and two batches that wait bound how
        # far it is. So batch 14 is given, and with it 15, when step 0 is done, and 30 when step 16 is.
        self.assertNotIn("step 0", titles)
        self.assertNotIn("step 31", titles)
        for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
            right = float(bar.get("x", 0)) + float(bar.get("width"))
            self.assertLessEqual(right, float(root.get("width")))
        refused = subprocess.run([*words, "--first", "100"], capture_output=True, check=False, timeout=60)
        self.assertNotEqual(refused.returncode, 0)

    def test_the_last_of_several_options_about_devices_counts(self):
        report = self.feed("--devices", "emu:2", "--step-ms", "1", "--devices", "emu:3", "--step-ms", "0")
        self.assertEqual(len(report["devices"]), 3)
        self.assertIsNone(report["devices"][0]["overlap_fraction"])

    def test_damage_fails_after_what_precedes_it(self):
        data = bytearray(self.paths[2].read_bytes())
        data[sum(16 + len(p) for p in self.payloads[200:230]) + 8] ^= 1
        self.paths[2].write_bytes(data)
        words = ["--devices", "emu:2", "--cycle", 1, "--batch", 10, "--step-ms", "1"]
        report = self.feed(*words, status=1)
        self.assertEqual(report["records"], 230)
        self.assertEqual(report["order_digest"], order_digest(self.payloads[:230]))
        self.assertIn(str(self.paths[2]), report["error"])
        report = self.feed(*words, "--on-damage=skip", "--verify", status=1)
        self.assertEqual(report["order_digest"], order_digest(self.payloads[:230] + self.payloads[231:]))
        self.assertIs(report["verified"], True)

    def test_verify_expects_what_is_left_where_the_device_takes_the_checksums(self):
        source = random.Random(7)
        payloads = [source.randbytes(20_000) for _ in range(120)]
        path = self.write("bad.tfrecord", payloads)
        data = bytearray(path.read_bytes())
        lost = [30, *range(64, 72), 101]  # one of them is a whole batch
        for record in lost:
            data[record * (16 + 20_000) + 12 + 10_000] ^= 4
        path.write_bytes(data)
        left = [payload for record, payload in enumerate(payloads) if record not in lost]
        for devices, transfer in itertools.product(("emu:1", "emu:2"), ("batch", "members", "slabs", "auto")):
            with self.subTest((devices, transfer)):
                report = run_json("feed", path, "--batch", "8", "--devices", devices, "--transfer", transfer,
                                  "--on-damage=skip", "--verify", status=1)
                self.assertIs(report["verified"], True)
                self.assertEqual(report["order_digest"], order_digest(left))
                if transfer == "auto":  # as the file is read
                    continue
                for device in report["devices"]:
                    reason = device["transfer_reason"]
                    self.assertEqual("the device took the checksums" in reason, transfer != "batch", reason)

    def test_stdin_is_fed(self):
        data = b"".join(path.read_bytes() for path in self.paths)
        result = run("feed", "-", "--format", "tfrecord", "--json", "--devices", "emu:2", stdin=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(order_digest(self.payloads).encode(), result.stdout)

    def interrupted(self, *words, ready):
        """The report of a feed that gets Ctrl-C once ready(child, terminal) returns; it draws on the terminal."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        child = subprocess.Popen([BINARY, "feed", *map(str, words), "--json"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=theirs, text=True,
                                 env=dict(os.environ, TERM="xterm"))
        os.close(theirs)
        ready(child, ours)
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        self.assertEqual(child.returncode, 0)
        report = json.loads(child.stdout.read())
        child.stdout.close()
        child.stdin.close()
        self.assertIs(report["interrupted"], True)
        self.assertNotIn("error", report)
        return report

    def test_ctrl_c_ends_with_the_report_so_far(self):
        def fed(child, terminal):
            await_drawn(terminal, child, rb"[GM]B/s")

        def waiting(child, _):
            child.stdin.buffer.write(frame(b"half of it")[:16])
            child.stdin.flush()
            await_interrupt(child)
            await_that(lambda: unread(child.stdin) == 0, "reading what there is", child)

        devices = ["--devices", "emu:2", "--step-ms", "3"]
        report = self.interrupted(*self.paths, "--passes", 0, "--verify", *devices, ready=fed)
        self.assertGreater(report["records"], 0)
        self.assertIsNot(report["verified"], False)
        report = self.interrupted("-", "--format", "tfrecord", *devices, ready=waiting)
        self.assertEqual((report["records"], report["devices"][0]["batches"]), (0, 0))

    def test_the_table_has_a_line_for_each_device(self):
        result = run("feed", *self.paths, "--devices", "emu:2", "--step-ms", "1", "--verify")
        self.assertEqual(result.returncode, 0, result.stderr)
        for device in (0, 1):
            self.assertRegex(result.stdout, rf"(?m)^emu:{device} +4 +\d.* % +\d.* % +\d.* KiB +3 ")
        self.assertIn("\nhazards: 0\n", result.stdout)

    def test_devices_that_cannot_be_used_say_why(self):
        path = self.paths[0]
        self.assertIn("tpu", self.assert_refused(2, "feed", path, "--devices", "tpu"))
        for devices in ("emu:0", "emu:none", "cuda:", "cuda:0,", "cuda:x", "cuda:0,0"):
            with self.subTest(devices):
                self.assert_refused(2, "feed", path, "--devices", devices)
        cuda = self.cuda()
        report = self.feed("--devices", "auto", "--verify")
        self.assertEqual(report["order_digest"], run_json("feed", *self.paths)["order_digest"])
        self.assertIs(report["verified"], True)
        if cuda["usable"]:
            self.assertEqual(len(report["devices"]), cuda["devices"])
            self.assertIsNone(report["hazards"])
            return
        self.assertIn(cuda["reason"], self.assert_refused(2, "feed", path, "--devices", "cuda"))
        self.assertIn(cuda["reason"], self.assert_refused(2, "feed", path, "--devices", "cuda:0"))
        self.assertEqual([device["kind"] for device in report["devices"]], ["emu", "emu"])
        self.assertIn(cuda["reason"], report["devices_reason"])
        result = run("feed", *self.paths, "--devices", "auto")
        told = f"devices: emulated, as CUDA cannot be used here: {cuda['reason']}"
        self.assertEqual(result.stderr.splitlines().count(f"ringfeed: {told}"), 1)
        self.assertIn(f"\n{told}\n", result.stdout)

    def test_usage_errors(self):
        path = self.paths[0]
        for words in (
            ["--step-ms", "1"],
            ["--trace", self.folder / "trace.json"],
            ["--distribution", "split"],
            ["--last-step", "pad"],
            ["--device-slots", "3"],
            ["--devices", "emu:2", "--device-slots", "1"],
            ["--devices", "emu:2", "--device-slots", "65"],
            ["--devices", "emu:2", "--step-ms", "-1"],
            ["--devices", "emu:2", "--distribution", "fair"],
            ["--devices", "emu:2", "--last-step", "perhaps"],
            ["--devices", "emu:2", "--trace", self.folder / "missing" / "trace.json"],
            ["--devices", "emu:2", "--last-step", "drop", "--verify"],
            ["--devices", "emu:2", "--drop-remainder", "--verify"],
        ):
            with self.subTest(words):
                self.assert_refused(2, "feed", path, *words)
        self.assertEqual(sorted(pathlib.Path(self.folder).glob("*.json")), [])


if __name__ == "__main__":
    main()
