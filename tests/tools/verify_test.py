#!/usr/bin/env python3
"""`ringfeed verify`: every damaged range of every file, in the order of the files."""

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

from command_line import BINARY, DATA, CommandTest, frame, main, masked, run, run_json

PAYLOADS = [bytes([i]) * (100 + i) for i in range(20)]
INTACT = ["tfrecord/examples.tfrecord", "tfrecord/empty_records.tfrecord", "tfrecord/no_records.tfrecord",
          "recordio/go_gzip.recordio", "recordio/raw_bytes_snappy_max4.recordio",
          "ofrecord/imagenet_like/part-00000", "webdataset/basic.tar", "numpy/t_f4.npy",
          "tokens/llmc_gpt2.bin", "text/objects.jsonl", "text/rfc4180.csv", "text/tab.tsv"]


class VerifyTest(CommandTest):
    def flipped(self, name, *places):
        """A TFRecord file of PAYLOADS with the first payload byte of these records changed."""
        path = self.write(name, PAYLOADS)
        data = bytearray(path.read_bytes())
        for place in places:
            data[self.start(place) + 12] ^= 1
        path.write_bytes(data)
        return path

    @staticmethod
    def start(record):
        return sum(16 + len(payload) for payload in PAYLOADS[:record])

    def ranges(self, *records):
        return [(self.start(record), self.start(record + 1)) for record in records]

    def test_the_two_files_of_one_data_set_are_not_counted_twice(self):
        for ending in ("idx", "bin"):
            shutil.copy(DATA / f"megatron/gpt_uint16.{ending}", self.folder)
        journal = self.folder / "a.journal"
        run("feed", self.folder / "gpt*.idx", "--batch", 2, "--journal", journal)
        pair = [self.folder / "gpt*", "--format", "megatron"]
        for words in (["verify", *pair], ["digest", *pair], ["index", *pair],
                      ["audit", journal, "--files", *pair]):
            with self.subTest(words[0]):
                self.assertIn("the two files of one data set", self.assert_refused(2, *words))
                words[words.index(pair[0])] = self.folder / "gpt_uint16.idx"
                self.assertEqual(run(*words).returncode, 0)

    def assert_damaged_at(self, report, ranges):
        self.assertIs(report["intact"], False)
        self.assertEqual([(d["begin"], d["end"]) for d in report["damaged"]], ranges)
        self.assertTrue(all(d["reason"] for d in report["damaged"]))

    def test_an_archive_without_its_end_is_a_warning_and_fails_if_asked(self):
        whole = (DATA / "webdataset/basic.tar").read_bytes().rstrip(b"\0")
        whole += bytes(-len(whole) % 512)
        path = self.folder / "cut.tar"
        path.write_bytes(whole)
        report = run_json("verify", path)
        self.assertIs(report["intact"], True)
        self.assertIn("no end of the archive", report["warnings"][0]["text"])
        self.assertIn("warning", run("verify", path).stdout)
        self.assertIn("no end of the archive", run("info", path).stdout)
        self.assertIn("no end of the archive", run("feed", path).stdout)
        self.assertEqual(run("verify", "--strict", path).returncode, 1)
        for order in ([], ["--shuffle", 1, "--shuffle-mode", "global"]):
            self.assertEqual(run("feed", path, *order).returncode, 0)
            strict = run("feed", path, "--strict", "--on-damage", "skip", *order)
            self.assertEqual(strict.returncode, 1)
            self.assertIn("no end of the archive", strict.stderr)

    def test_an_empty_file_is_a_warning_in_every_format(self):
        for ending in ("tfrecord", "tar", "npy", "jsonl", "csv"):
            path = self.folder / f"empty.{ending}"
            path.write_bytes(b"")
            for policy in ("fail", "skip"):
                with self.subTest(ending, policy=policy):
                    report = run_json("verify", path, "--on-damage", policy)
                    self.assertEqual([w["text"] for w in report["warnings"]], ["the file is empty"])
                    report = run_json("feed", path, "--on-damage", policy)
                    self.assertEqual([w["text"] for w in report["warnings"]], ["the file is empty"])

    def test_what_is_no_data_is_named(self):
        for ending in ("tfrecord", "tar", "jsonl", "csv", "txt"):
            for words, content in (
                ("a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\n"
                 "oid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 12345\n"),
                ("an HTML page", "<!doctype html><html><title>Not found</title></html>"),
            ):
                with self.subTest(ending, words=words):
                    path = self.folder / f"a.{ending}"
                    path.write_text(content)
                    self.assertIn(words, run("verify", path).stderr)
                    skipping = run("feed", path, "--on-damage", "skip")
                    self.assertNotEqual(skipping.returncode, 0)
                    self.assertIn(words, skipping.stdout + skipping.stderr)

    def test_intact_files_of_all_formats(self):
        reports = run_json("verify", *[DATA / name for name in INTACT])
        for name, report in zip(INTACT, reports, strict=True):
            with self.subTest(name):
                self.assertIs(report["intact"], True)
                self.assertEqual(report["damaged"], [])
                self.assertTrue(report["format"])
                digest = run_json("digest", DATA / name)
                self.assertEqual((report["records"], report["payload_bytes"]),
                                 (digest["records"], digest["payload_bytes"]))

    def test_all_damaged_ranges_are_listed(self):
        report = run_json("verify", self.flipped("a.tfrecord", 3, 4, 17), status=1)
        self.assert_damaged_at(report, self.ranges(3, 4, 17))
        self.assertEqual((report["records"], report["damaged_records"]), (17, 3))

    def test_fail_stops_at_the_first_damage(self):
        report = run_json("verify", self.flipped("a.tfrecord", 3, 17), "--on-damage=fail", status=1)
        self.assertEqual(report["records"], 3)
        self.assertEqual([d["begin"] for d in report["damaged"]], [self.start(3)])
        self.assertIn("error", report)

    def test_large_files_as_well(self):
        run_json("make", self.folder / "in", "--bytes", "12MiB", "--files", 2)
        good, bad = sorted((self.folder / "in").iterdir())
        data = bytearray(bad.read_bytes())
        for place in (1_000_000, 2_500_000, 5_900_000):
            data[place] ^= 1
        bad.write_bytes(data)
        reports = run_json("verify", good, bad, status=1)
        for report in reports:
            digest = run_json("digest", report["file"], "--on-damage=skip",
                              status=int(report["file"] == str(bad)))
            self.assertEqual({key: report[key] for key in digest if key in report},
                             {key: digest[key] for key in digest if key in report})
        self.assertEqual(len(reports[1]["damaged"]), 3)
        first = run_json("verify", bad, "--on-damage=fail", status=1)
        self.assertEqual(first["damaged"][0]["begin"], reports[1]["damaged"][0]["begin"])

    def test_compressed_files(self):
        path = DATA / "tfrecord" / "examples.tfrecord.gz"
        report = run_json("verify", path)
        self.assertEqual((report["intact"], report["format"], report["records"]), (True, "tfrecord", 40))
        cut = self.folder / "cut.tfrecord.gz"
        cut.write_bytes(path.read_bytes()[:-100])
        report = run_json("verify", cut, status=1)
        self.assertTrue(report["damaged"])
        self.assertEqual(report["records"], run_json("digest", cut, "--on-damage=skip", status=1)["records"])

    def test_damaged_fixtures(self):
        for name, place in (("recordio/tiny_snappy.recordio", -1), ("recordio/go_gzip.recordio", 25),
                            ("webdataset/basic.tar", 150)):
            with self.subTest(name):
                path = self.folder / name.split("/")[1]
                data = bytearray((DATA / name).read_bytes())
                data[place] ^= 0x10
                path.write_bytes(data)
                report = run_json("verify", path, status=1)
                self.assertIs(report["intact"], False)
                self.assertTrue(report["damaged"])

    def test_a_cut_file_is_damaged_to_its_end(self):
        path = self.write("a.tfrecord", PAYLOADS)
        size = self.start(20) - 5
        with open(path, "r+b") as file:
            file.truncate(size)
        self.assert_damaged_at(run_json("verify", path, status=1), [(self.start(19), size)])

    def test_files_are_reported_in_their_order_whichever_is_ready_first(self):
        run_json("make", self.folder / "large", "--kind", "bytes", "--records", 100,
                 "--record-bytes", 400_000, "--files", 1)
        paths = [*(self.folder / "large").iterdir()]
        paths += [self.write(f"{i}.tfrecord", [b"x"] * i) for i in range(30)]
        paths.append(self.flipped("bad.tfrecord", 0))
        reports = run_json("verify", *paths, status=1)
        self.assertEqual([report["file"] for report in reports], list(map(str, paths)))
        self.assertEqual([report["records"] for report in reports], [100, *range(30), 19])
        self.assertEqual([report["intact"] for report in reports], [True] * 31 + [False])
        text = run("verify", *paths).stdout
        self.assertEqual(re.findall(r"^(?:ok|warning|damaged) +(\S+):", text, re.M), list(map(str, paths)))

    def test_a_glob_stands_for_its_files(self):
        for name in ("b.tfrecord", "a.tfrecord"):
            self.write(name, PAYLOADS)
        reports = run_json("verify", self.folder / "*.tfrecord")
        self.assertEqual([report["file"][-10:] for report in reports], ["a.tfrecord", "b.tfrecord"])

    def test_text_has_a_line_per_file_its_ranges_and_a_total(self):
        paths = [self.write("good.tfrecord", PAYLOADS), self.flipped("bad.tfrecord", 5)]
        result = run("verify", *paths)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "")
        good, bad, damaged, total = result.stdout.splitlines()
        self.assertRegex(good, r"^ok +\S+good.tfrecord: tfrecord, 20 records, 2.14 KiB$")
        self.assertRegex(bad, r"^damaged +\S+bad.tfrecord: tfrecord, 19 records")
        begin, end = self.ranges(5)[0]
        self.assertIn(f"bytes {begin} to {end}: ", damaged)
        self.assertRegex(total, r"^total +2 files, 1 not intact; 39 records, ")

    def test_a_file_that_cannot_be_read_does_not_stop_the_others(self):
        good = self.write("good.tfrecord", PAYLOADS)
        unknown = self.folder / "unknown"
        unknown.write_bytes(b"nobody knows")
        bad = [self.folder / "missing.tfrecord", unknown]
        reports = run_json("verify", *bad, good, status=1)
        self.assertEqual([report["intact"] for report in reports], [False] * 2 + [True])
        self.assertTrue(all(report["error"] for report in reports[:2]))
        self.assertIn("missing.tfrecord", run("verify", *bad, good).stderr)

    def test_an_unknown_format_is_a_usage_error(self):
        self.assert_refused(2, "verify", self.write("a.tfrecord", PAYLOADS), "--format", "nonsense")

    def test_a_named_format_counts(self):
        path = self.folder / "a.rows"
        path.write_bytes(b"x" * 161)
        report = run_json("verify", path, "--format", "rows:16", status=1)
        self.assertEqual((report["format"], report["records"]), ("rows:16", 10))
        self.assert_damaged_at(report, [(160, 161)])

    def test_stdin(self):
        data = self.flipped("a.tfrecord", 2).read_bytes()
        result = run("verify", "-", "--format", "tfrecord", stdin=data)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"bytes {self.start(2)} to {self.start(3)}".encode(), result.stdout)

    def test_records_larger_than_a_threads_share_of_memory(self):
        paths = [self.write(f"{i}.tfrecord", [b"x"]) for i in range(3)]
        large = self.folder / "large.raw"
        large.write_bytes(b"y" * (40 << 20))
        small_arena = {"RINGFEED_ARENA_BYTES": str(256 << 20)}
        result = subprocess.run([BINARY, "verify", "--format=raw", large, *paths], check=False,
                                capture_output=True, text=True, env=small_arena)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_stream_of_larger_records_is_read_once_and_whole(self):
        path = self.folder / "b.txt"
        path.write_bytes(b"x\n")
        data = b"a\n" * 100_000 + b"y" * (40 << 20) + b"\n" + b"b\n" * 10
        small_arena = {"RINGFEED_ARENA_BYTES": str(256 << 20)}
        for command in ("verify", "digest"):
            with self.subTest(command):
                result = subprocess.run([BINARY, command, "-", path, "--format=lines", "--json"], check=False,
                                        input=data, capture_output=True, env=small_arena)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual([file["records"] for file in json.loads(result.stdout)["files"]], [100_011, 1])

    def test_a_stream_that_is_named_twice_is_refused(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        again = self.folder / "again"
        again.symlink_to(fifo)
        for names in (["-", "-"], [fifo, fifo], [fifo, again]):
            for command in ("verify", "digest"):
                with self.subTest((command, names)):
                    self.assertIn("twice", self.assert_refused(2, command, *names))

    @unittest.skipIf(os.environ.get("RINGFEED_SANITIZER"), "a sanitizer has memory of its own")
    def test_a_length_in_compressed_content_that_nothing_stands_behind_takes_no_memory(self):
        length = struct.pack("<Q", 900 << 20)
        content = frame(b"a") + length + struct.pack("<I", masked(length)) + frame(b"b" * 990) * 20000
        path = self.folder / "promises.tfrecord.gz"
        path.write_bytes(gzip.compress(content))
        for words in ("verify", "digest --on-damage=skip", "cat --on-damage=skip",
                      "feed --batch=9 --on-damage=skip --verify"):
            with self.subTest(words):
                process = subprocess.Popen([BINARY, *words.split(), path], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(process.returncode, 1)
                self.assertLess(used.ru_maxrss, 300 << 10)

    def test_nothing_of_the_files_is_changed(self):
        path = self.flipped("a.tfrecord", 1)
        copy = shutil.copy2(path, self.folder / "copy")
        run("verify", path)
        self.assertEqual(path.read_bytes(), copy.read_bytes())


if __name__ == "__main__":
    main()
