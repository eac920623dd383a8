#!/usr/bin/env python3
"""No exit status lies about output: standard output that cannot be written, a disk that is full, inputs that
only look empty."""

import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import subprocess

from command_line import BINARY, CommandTest, main, run, run_json

PAYLOADS = [bytes([i % 256]) * (100 + i % 50) for i in range(300)]


def full_disk():
    """From here on no file of this process may get a byte."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class OutputTest(CommandTest):
    def commands(self, path):
        """One run of each command, of what prints a report or help."""
        program = self.folder / "p.program"
        program.write_text("startup { op { open_files { name: 'r' file_names: '%s' } } }\n"
                           "main { op { read { reader: 'r' output: 'x' } } op { call { function: 'print' "
                           "input: 'x' } } }\n" % path)
        made = self.folder / "made"
        copies = self.folder / "copies"
        return [
            ["make", made, "--bytes", "10000", "--force"], ["make", made, "--bytes", "10000", "--force", "--json"],
            ["info"], ["info", "--json"], ["info", path], ["info", path, "--json"],
            ["devices"], ["devices", "--json"], ["digest", path], ["digest", path, "--json"],
            ["verify", path], ["verify", path, "--json"], ["cat", path], ["cat", path, "--as", "length"],
            ["decode", path], ["index", path], ["index", path, "--json"],
            ["convert", path, copies / "a.recordio"], ["convert", path, copies / "b.recordio", "--json"],
            ["encode", "--input", "/dev/null", "--help"], ["feed", path], ["feed", path, "--json"],
            ["feed", path, "--batch", "7", "--verify"],
            ["shuffle-quality", path, "--batch", "7", "--shuffle", "20"],
            ["shuffle-quality", path, "--batch", "7", "--shuffle", "20", "--json"],
            ["run", program], ["run", "--grammar"],
            ["--help"], ["--version"], ["feed", "--help"], ["audit", "--help"], ["bench", "--help"],
        ]

    def with_output(self, words, stdout=None, before=None):
        return subprocess.run([BINARY, *map(str, words)], stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=120, check=False, text=True, preexec_fn=before)

    def test_what_a_shuffle_was_measured_without_is_told(self):
        path = self.write("a.tfrecord", PAYLOADS)
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        words = ["shuffle-quality", path, "--batch", "7", "--on-damage", "skip", "--json"]
        result = run(*words)
        self.assertEqual(result.returncode, 1)
        self.assertIn("skipped bytes 0 to", result.stderr)
        self.assertIs(json.loads(result.stdout)["interrupted"], False)

    def test_names_that_cannot_be_what_they_are_given_for_are_refused(self):
        path = self.write("a.tfrecord", PAYLOADS)
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for words, why in (
                (["feed", "-", "--verify", "--format", "tfrecord"], "can be read once"),
                (["feed", fifo, "--verify", "--format", "tfrecord"], "can be read once"),
                (["convert", path, "-", "--to", "lines"], "convert writes files")):
            with self.subTest(words):
                result = run(*words)
                self.assertEqual(result.returncode, 2)
                self.assertIn(why, result.stderr)
        self.assertFalse(pathlib.Path("-").exists())

    def test_standard_output_that_is_full_fails_every_command(self):
        (self.folder / "copies").mkdir()
        path = self.write("a.tfrecord", PAYLOADS)
        for words in self.commands(path):
            with self.subTest(words), open("/dev/full", "wb") as full:
                result = self.with_output(words, full)
                self.assertNotEqual(result.returncode, 0)
                self.assertEqual(result.stderr.count("stdout"), 1, result.stderr)
                self.assertIn("No space left", result.stderr)

    def test_standard_output_that_is_closed_fails_and_takes_no_file_of_data(self):
        (self.folder / "copies").mkdir()
        path = self.write("a.tfrecord", PAYLOADS)
        for words in self.commands(path):
            with self.subTest(words):
                result = self.with_output(words, before=lambda: os.close(1))
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("stdout", result.stderr)
        copy = run_json("digest", self.folder / "copies" / "a.recordio")
        self.assertEqual(copy["sha256"], run_json("digest", path)["sha256"])

    def test_a_report_that_fails_late_keeps_the_worse_status(self):
        with open("/dev/full", "wb") as full:
            result = self.with_output(["feed", self.folder / "missing.tfrecord"], full)
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_an_index_that_could_not_be_kept_is_none(self):
        path = self.write("a.tfrecord", PAYLOADS)
        folder = self.folder / "indexes"
        folder.mkdir()
        result = run("index", path, "--folder", folder, before=full_disk)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("failed", result.stdout)
        self.assertIn("write", result.stderr)
        self.assertEqual(list(folder.iterdir()), [])
        result = run("index", path, "--folder", self.folder / "nowhere", "--json")
        self.assertEqual(result.returncode, 1)
        self.assertIn('"error"', result.stdout)
        # What the format computes needs none.
        rows = self.folder / "a.rows"
        rows.write_bytes(bytes(640))
        self.assertEqual(run("index", rows, "--format", "rows:64", before=full_disk).returncode, 0)

    def test_what_only_looks_empty_is_refused(self):
        for name, form in (("/proc/self/status", "lines"), ("/proc/cpuinfo", "jsonl"), ("/dev/zero", "rows:160"),
                           ("/dev/null", "lines")):
            if not pathlib.Path(name).exists():
                continue
            for words in (["feed", name], ["feed", name, "--batch", "3"], ["digest", name], ["verify", name],
                          ["cat", name], ["decode", name], ["index", name], ["info", name],
                          ["feed", name, "--shuffle-mode", "global"]):
                with self.subTest(words):
                    result = run(*words, "--format", form)
                    self.assertNotEqual(result.returncode, 0, result.stdout)
                    self.assertIn("stream", result.stdout + result.stderr)
            with self.subTest(name):
                result = run("convert", name, self.folder / "out.tfrecord", "--from", form)
                self.assertNotEqual(result.returncode, 0, result.stdout)
                self.assertFalse((self.folder / "out.tfrecord").exists())

    def test_what_is_refused_as_a_file_is_read_as_a_stream(self):
        with open("/proc/self/status", "rb") as status:
            lines = subprocess.run([BINARY, "cat", "-", "--format", "lines"], stdin=status, capture_output=True,
                                   timeout=60, check=True).stdout
        self.assertIn(b"VmRSS", lines)

    def test_an_empty_file_is_no_failure(self):
        path = self.folder / "empty.tfrecord"
        path.write_bytes(b"")
        self.assertEqual(run_json("feed", path)["records"], 0)
        self.assertEqual(run_json("verify", path)["intact"], True)

    def test_bytes_are_those_of_what_was_delivered(self):
        path = self.write("a.tfrecord", PAYLOADS)
        total = sum(map(len, PAYLOADS))
        nothing = run_json("feed", path, "--batch", "301", "--drop-remainder", "--no-digest")
        self.assertEqual((nothing["records"], nothing["payload_bytes"], nothing["dropped_records"]), (0, 0, 300))
        self.assertIn("0, 0 B", run("feed", path, "--batch", "301", "--drop-remainder").stdout)
        most = run_json("feed", path, "--batch", "100", "--max-batches", "2", "--no-digest")
        self.assertEqual((most["records"], most["payload_bytes"]), (200, sum(map(len, PAYLOADS[:200]))))
        shuffled = run_json("feed", path, "--batch", "7", "--shuffle", "50", "--no-digest")
        self.assertEqual((shuffled["records"], shuffled["payload_bytes"]), (300, total))

    def test_what_is_no_regular_file_is_not_replaced(self):
        path = self.write("a.tfrecord", PAYLOADS)
        fifo, folder, device = self.folder / "fifo", self.folder / "folder.recordio", self.folder / "null"
        os.mkfifo(fifo)
        folder.mkdir()
        try:
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            device = pathlib.Path("/dev/null")  # this user cannot replace it either
        for place in (fifo, device, folder):
            kind = stat.S_IFMT(place.lstat().st_mode)
            commands = [["feed", path, "--batch", "7", "--position-out", place],
                        ["encode", "--input", path, place, "--to", "lines"],
                        ["convert", path, place, "--to", "recordio", "--force"]]
            if place == folder:
                commands.pop()  # a folder takes a file for each input
            for words in commands:
                with self.subTest(words):
                    result = run(*words)
                    self.assertEqual(result.returncode, 2, result.stdout)
                    self.assertIn("would take its place", result.stderr)
                    self.assertEqual(stat.S_IFMT(place.lstat().st_mode), kind)

    def test_a_link_stays_and_what_it_leads_to_is_written(self):
        path = self.write("a.tfrecord", PAYLOADS)
        far = self.folder / "far"
        far.mkdir()
        for name, words in (("position", ["feed", path, "--batch", "7", "--position-out"]),
                            ("copy.recordio", ["convert", path])):
            for target in ("far/" + name, str(far / ("2" + name))):  # one is there already, one is not
                with self.subTest(target):
                    link = self.folder / name
                    link.unlink(missing_ok=True)
                    (self.folder / ("far/" + name)).write_bytes(b"old")
                    link.symlink_to(target)
                    result = run(*words, link, *(["--force"] if "convert" in words else []))
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertTrue(link.is_symlink())
                    self.assertGreater(link.stat().st_size, 10)
        self.assertEqual([entry.name for entry in far.iterdir() if "partial" in entry.name], [])
        loop = self.folder / "loop"
        loop.symlink_to("loop")
        self.assertNotEqual(run("feed", path, "--batch", "7", "--position-out", loop).returncode, 0)

    def test_a_link_under_a_name_that_nobody_gave_is_replaced(self):
        path = self.write("a.tfrecord", PAYLOADS)
        tokens = self.write("t.tfrecord", [b"\x01\x00\x02\x00"] * 3)
        other = self.folder / "other"
        other.mkdir()
        out = self.folder / "out"
        cases = (
            ("a.recordio", ["convert", path, f"{out}/", "--to", "recordio"]),
            ("a-00001.tfrecord", ["convert", path, out / "a.tfrecord", "--records-per-file", 2]),
            ("t.idx", ["convert", tokens, f"{out}/", "--to", "megatron:u2"]),
            ("t.bin", ["convert", tokens, f"{out}/", "--to", "megatron:u2"]),
            ("t.bin", ["convert", tokens, out / "t.idx", "--to", "megatron:u2"]),
            ("part-00000-of-00001.tfrecord", ["make", out, "--records", 2, "--files", 1, "--force"]),
        )
        for name, words in cases:
            for target in (other / "there", other / "missing", other):
                with self.subTest(words=words, target=target.name):
                    shutil.rmtree(out, ignore_errors=True)
                    out.mkdir()
                    (other / "there").write_bytes(b"precious")
                    (out / name).symlink_to(target)
                    result = run(*words)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertFalse((out / name).is_symlink())
                    self.assertTrue((out / name).is_file())
                    self.assertEqual([entry.name for entry in other.iterdir()], ["there"])
                    self.assertEqual((other / "there").read_bytes(), b"precious")

    def test_nothing_is_written_over_an_input_or_another_output(self):
        path = self.write("a.tfrecord", PAYLOADS)
        content = path.read_bytes()
        link = self.folder / "link"
        link.symlink_to(path)
        out = self.folder / "out"
        for output in (path, link):
            for words in (["feed", path, "--devices", "emu:1", "--trace", output],
                          ["feed", path, "--batch", 8, "--position-out", output],
                          ["feed", path, "--batch", 8, "--journal", output],
                          ["tune", path, "--seconds", 1, "--out", output],
                          ["tune", path, "--seconds", 1, "--out", out, "--report", output]):
                with self.subTest(words):
                    self.assertIn("is an input too", self.assert_refused(2, *words))
                    self.assertEqual(path.read_bytes(), content)
        for words in (["feed", path, "--batch", 8, "--journal", out, "--position-out", out],
                      ["tune", path, "--seconds", 1, "--out", out, "--report", self.folder / "." / "out"]):
            with self.subTest(words):
                self.assertIn("two outputs", self.assert_refused(2, *words))
                self.assertFalse(out.exists())

    def test_a_trace_takes_the_place_of_what_stood_there(self):
        path = self.write("a.tfrecord", PAYLOADS)
        trace = self.folder / "trace.json"
        trace.write_text("x" * 1_000_000)
        self.assertEqual(run("feed", path, "--devices", "emu:1", "--trace", trace).returncode, 0)
        json.loads(trace.read_text())

    def test_files_on_a_full_disk_are_no_usage_error(self):
        path = self.write("a.tfrecord", PAYLOADS)
        for words in (["feed", path, "--devices", "emu:1", "--trace", "/dev/full"],
                      ["tune", path, "--seconds", 1, "--out", "/dev/full"]):
            with self.subTest(words):
                self.assertIn("No space left", self.assert_refused(1, *words))

    def test_positions_and_journals_on_a_full_disk_are_no_usage_error(self):
        path = self.write("a.tfrecord", PAYLOADS)
        for option, room in (("--position-out", 100), ("--journal", 5000)):
            with self.subTest(option):

                def nearly_full():
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

                result = run("feed", path, "--batch", 1, option, self.folder / "out", before=nearly_full)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(str(self.folder / "out"), result.stderr)

    def test_too_few_descriptors_are_no_damage(self):
        files = [self.write(f"{i:02}.tfrecord", [b"%d" % i]) for i in range(40)]

        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

        result = run("feed", *files, "--cycle", "40", "--on-damage=skip", "--io", "pread", "--json", before=few)
        report = json.loads(result.stdout)
        self.assertEqual(report["damaged"], [])
        if result.returncode == 0:
            self.assertEqual(report["records"], 40)
        else:
            self.assertIn("ulimit -n", result.stderr)


if __name__ == "__main__":
    main()
