#!/usr/bin/env python3
"""`ringfeed convert`: the same records in another format; stopped anywhere, it goes on there."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
import zlib

from command_line import (
    BINARY, DATA, CommandTest, await_interrupt, await_that, frame, main, payloads_of, run, run_json, sequence_sha256)

PAYLOADS = [b"", b"a", bytes(range(256)), b"x" * 20_000, b"two\nlines", "grüße".encode()] * 5
LINES = [b"", b"a", b"x" * 1000, "grüße".encode(), b"\x00\xff"]


class ConvertTest(CommandTest):
    def convert(self, *words, status=0):
        return run_json("convert", *words, status=status)

    def sha256(self, path, *words):
        return run_json("digest", path, *words)["sha256"]

    def names(self, folder=None):
        return sorted(path.name for path in (folder or self.folder).iterdir())

    def outcomes(self, report):
        return [output["outcome"] for output in report["outputs"]]

    def set_age(self, path, seconds):
        then = time.time() - seconds
        os.utime(path, (then, then))

    def test_round_trips_keep_every_byte(self):
        path = self.write("a.tfrecord", PAYLOADS)
        for name, to in (("b.recordio", "recordio"), ("b.recordio", "recordio:go,gzip"),
                         ("b.recordio", "recordio:none"), ("b.tfrecord", "tfrecord")):
            with self.subTest(to):
                there, back = self.folder / name, self.folder / "back.tfrecord"
                report = self.convert(path, there, "--to", to, "--force")
                self.assertEqual((report["records"], report["payload_bytes"]),
                                 (len(PAYLOADS), sum(map(len, PAYLOADS))))
                self.assertEqual(self.sha256(there), sequence_sha256(PAYLOADS))
                self.convert(there, back, "--force")
                self.assertEqual(back.read_bytes(), path.read_bytes())

    def test_compressed_files(self):
        path = self.write("a.tfrecord", PAYLOADS)
        for name, opened in (("b.tfrecord.gz", gzip.decompress), ("b.tfrecord.zlib", zlib.decompress),
                             ("b.tfrecord.zst", None)):
            with self.subTest(name):
                self.convert(path, self.folder / name)
                if opened:
                    self.assertEqual(opened((self.folder / name).read_bytes()), path.read_bytes())
                self.convert(self.folder / name, self.folder / "back.tfrecord", "--force")
                self.assertEqual((self.folder / "back.tfrecord").read_bytes(), path.read_bytes())
        self.convert(path, f"{self.folder}/out/", "--to", "recordio+gzip")
        self.assertEqual(self.names(self.folder / "out"), ["a.recordio.gz"])
        self.assertEqual(self.sha256(self.folder / "out" / "a.recordio.gz"),
                         sequence_sha256(PAYLOADS))

    def test_shards_of_mds_and_their_index(self):
        files = [self.write(f"{i}.tfrecord", PAYLOADS[i::2]) for i in range(2)]
        folder = self.folder / "out"
        self.convert(*files, f"{folder}/", "--to", "mds")
        self.assertEqual(self.names(folder), ["0.mds", "1.mds", "index.json"])
        shards = json.loads((folder / "index.json").read_text())["shards"]
        self.assertEqual([(shard["raw_data"]["basename"], shard["samples"], shard["raw_data"]["bytes"])
                          for shard in shards],
                         [(f"{i}.mds", 15, (folder / f"{i}.mds").stat().st_size) for i in range(2)])
        for i in range(2):
            samples = [len(payload).to_bytes(4, "little") + payload for payload in PAYLOADS[i::2]]
            self.assertEqual(self.sha256(folder / f"{i}.mds"), sequence_sha256(samples))
        run_json("verify", folder)
        # The shards of another conversion are another data set, whose index it would be.
        refused = run("convert", files[0], folder / "other.mds")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertEqual(self.names(folder), ["0.mds", "1.mds", "index.json"])
        self.assertEqual(json.loads((folder / "index.json").read_text())["shards"], shards)
        # What is up to date stays, and is in the index.
        (folder / "index.json").unlink()
        report = self.convert(*files, f"{folder}/", "--to", "mds")
        self.assertEqual(self.outcomes(report), ["up to date"] * 2)
        self.assertEqual(json.loads((folder / "index.json").read_text())["shards"], shards)
        # Without samples there is no data set.
        for file in files:
            file.write_bytes(b"")
        self.convert(*files, f"{folder}/", "--from", "tfrecord", "--to", "mds", "--force")
        self.assertEqual(self.names(folder), ["0.mds", "1.mds"])

    def test_a_name_that_the_index_of_mds_cannot_hold_is_refused_before_it_is_written(self):
        name = os.fsdecode(b"\xff.tfrecord")
        self.write(name, PAYLOADS)
        refused = run("convert", self.folder / name, f"{self.folder}/out/", "--to", "mds",
                      stdin=b"")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_text_formats(self):
        path = self.write("a.tfrecord", LINES)
        there = self.folder / "b.txt"
        self.convert(path, there)
        self.assertEqual(there.read_bytes(), b"".join(line + b"\n" for line in LINES))
        self.convert(there, self.folder / "back.tfrecord")
        self.assertEqual((self.folder / "back.tfrecord").read_bytes(), path.read_bytes())
        for name in ("objects.jsonl", "tab.tsv"):
            with self.subTest(name):
                copy = self.folder / name
                self.convert(DATA / "text" / name, self.folder / "t.tfrecord", "--force")
                self.convert(self.folder / "t.tfrecord", copy)
                self.assertEqual(self.sha256(copy), self.sha256(DATA / "text" / name))

    def test_ofrecords(self):
        path = DATA / "ofrecord" / "imagenet_like" / "part-00000"
        self.convert(path, self.folder / "a.tfrecord")
        self.convert(self.folder / "a.tfrecord", self.folder / "a.ofrecord")
        self.assertEqual((self.folder / "a.ofrecord").read_bytes(), path.read_bytes())

    def test_tar_members_are_the_records(self):
        path = self.write("a.tfrecord", PAYLOADS)
        self.convert(path, self.folder / "b.tar", "--to", "tar:ext=dat")
        with tarfile.open(self.folder / "b.tar") as archive:
            members = [(member.name, archive.extractfile(member).read()) for member in archive]
        self.assertEqual(members, [(f"{i:09}.dat", payload) for i, payload in enumerate(PAYLOADS)])

    def test_samples_of_tar_files_are_pieces_of_the_archive(self):
        path = DATA / "webdataset" / "basic.tar"
        self.convert(path, self.folder / "a.tfrecord")
        archive = path.read_bytes()
        pieces = payloads_of(self.folder / "a.tfrecord")
        self.assertGreater(len(pieces), 1)
        self.assertTrue(archive.startswith(b"".join(pieces)))

    def rows(self, path, *words):
        lines = run("cat", path, "--as", "json", *words).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def test_samples_of_mds_stay_as_they_are_in_mds(self):
        source = DATA / "mds" / "columns_none"
        there = self.folder / "out" / "shard.mds"
        self.convert(source, there, "--records-per-file", "20")
        first = json.loads((source / "index.json").read_text())["shards"][0]
        for shard in json.loads((there.parent / "index.json").read_text())["shards"]:
            for name in ("column_names", "column_encodings", "column_sizes"):
                self.assertEqual(shard[name], first[name])
        samples = [run("cat", folder, "--as", "hex").stdout for folder in (there.parent, source)]
        self.assertTrue(samples[0])
        self.assertEqual(*samples)
        run_json("verify", there.parent)
        # Other columns in one shard would be read as the first ones.
        shards = [source / "shard.00000.mds", DATA / "mds" / "encodings" / "shard.00000.mds"]
        self.assertEqual(run("convert", *shards, self.folder / "both.mds").returncode, 2)

    def test_columns_become_features_and_columns(self):
        source = DATA / "litdata" / "items"
        rows = self.rows(source, "--parse", run_json("info", source)[0]["parse"])
        there = self.folder / "out" / "a.mds"
        self.assertEqual(self.convert(source, there)["records"], len(rows))
        self.assertEqual(self.rows(there, "--parse", run_json("info", there)["parse"]), rows)
        source = DATA / "mds" / "columns_none"
        rows = self.rows(source, "--parse", run_json("info", source)[0]["parse"])
        self.convert(source, self.folder / "a.tfrecord")
        self.assertEqual(self.rows(self.folder / "a.tfrecord", "--parse",
                                   "example: blob=u1[] id=i8 vec=f4[4]"),
                         [{name: row[name] for name in ("blob", "id", "vec")} for row in rows])

    def test_rows_by_a_parser_become_columns_of_mds_and_members_of_tar(self):
        fields = "blob=u1[] n=i8 v=f4[2] w=i8[]"
        rows = [{"blob": "x" * n, "n": n - 2, "v": [n / 2, -n], "w": list(range(300 * n))}
                for n in range(5)]
        source = self.folder / "a.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        mds, tar = self.folder / "mds" / "a.mds", self.folder / "a.tar"
        self.convert(source, mds, "--parse", f"jsonl: {fields}")
        shard = json.loads((mds.parent / "index.json").read_text())["shards"][0]
        self.assertEqual(dict(zip(shard["column_names"], shard["column_encodings"])),
                         {"blob": "bytes", "n": "int", "v": "ndarray:float32:2", "w": "ndarray:int64"})
        self.assertEqual(shard["column_sizes"], [None, 8, 8, None])
        parse = run_json("info", mds)["parse"]
        self.assertEqual(self.rows(mds, "--parse", parse), rows)
        self.convert(source, tar, "--parse", f"jsonl: {fields}")
        self.assertEqual(self.rows(tar, "--parse", "tar: blob=u1[] n.npy=i8 v.npy=f4[2] w.npy=i8[]"),
                         [{"blob": row["blob"], "n.npy": row["n"], "v.npy": row["v"], "w.npy": row["w"]}
                          for row in rows])
        # And back.
        self.convert(mds, self.folder / "back.tfrecord")
        self.assertEqual(self.rows(self.folder / "back.tfrecord", "--parse", f"example: {fields}"), rows)
        for to in ("lines", "mds+zstd", "tar:ext=bin"):
            refused = run("convert", mds, self.folder / "refused", "--to", to)
            self.assertEqual(refused.returncode, 2, (to, refused.stderr))

    def test_samples_of_tar_files_are_written_again_as_they_are(self):
        path = DATA / "webdataset" / "basic.tar"
        with tarfile.open(path) as archive:
            members = [(member.name, archive.extractfile(member).read()) for member in archive]
        self.convert(path, self.folder / "part.tar", "--records-per-file", "2")
        again = []
        for part in sorted(self.folder.glob("part-*.tar")):
            with tarfile.open(part) as archive:
                again += [(member.name, archive.extractfile(member).read()) for member in archive]
        self.assertEqual(again, members)
        self.convert(path, self.folder / "keys.tar", "--parse", "tar: __key__=u1[] txt=u1[]")
        with tarfile.open(self.folder / "keys.tar") as archive:
            self.assertEqual([(member.name, archive.extractfile(member).read()) for member in archive],
                             [member for member in members if member[0].endswith(".txt")])

    def test_rows_and_raw_files(self):
        rows = [bytes([i]) * 16 for i in range(20)]
        path = self.write("a.tfrecord", rows)
        self.convert(path, self.folder / "a.rows", "--to", "rows:16")
        self.assertEqual((self.folder / "a.rows").read_bytes(), b"".join(rows))
        self.convert(self.folder / "a.rows", self.folder / "back.tfrecord", "--from", "rows:16")
        self.assertEqual((self.folder / "back.tfrecord").read_bytes(), path.read_bytes())
        self.convert(path, self.folder / "one.raw", "--to", "raw", "--records-per-file", 1)
        self.assertEqual((self.folder / "one-00019.raw").read_bytes(), rows[19])

    def test_arrays_and_tokens(self):
        for name, to in (("numpy/t_f4.npy", "npy:f4[3]"), ("tokens/llmc_gpt2.bin", "tokens"),
                         ("tokens/llmc_llama3.bin", "tokens:u4,llmc"),
                         ("megatron/gpt_uint16.idx", "megatron:u2")):
            with self.subTest(name):
                there, back = self.folder / "a.tfrecord", self.folder / name.rpartition("/")[2]
                self.convert(DATA / name, there, "--force")
                self.assertEqual(self.sha256(there), self.sha256(DATA / name))
                self.convert(there, back, "--to", to)
                self.assertEqual(self.sha256(back), self.sha256(DATA / name))
                if back.suffix == ".bin":
                    self.assertEqual(back.read_bytes(), (DATA / name).read_bytes())
        error = self.assert_refused(2, "convert", there, self.folder / "b", "--to", "npy")
        self.assertIn("npy:f4", error)

    def test_the_two_files_of_one_data_set_are_not_two_inputs(self):
        for ending in ("idx", "bin"):
            shutil.copy(DATA / f"megatron/gpt_uint16.{ending}", self.folder)
        error = self.assert_refused(2, "convert", self.folder / "gpt*", self.folder / "a.tfrecord",
                                    "--from", "megatron")
        self.assertIn("the two files of one data set", error)

    def test_several_inputs_become_one_file_in_their_order(self):
        paths = [self.write(f"{i}.tfrecord", [bytes([i])] * i) for i in range(4)]
        self.convert(*paths, self.folder / "all.recordio")
        self.assertEqual(self.sha256(self.folder / "all.recordio"),
                         sequence_sha256([bytes([i]) for i in range(4) for _ in range(i)]))

    def test_stdin(self):
        result = run("convert", "-", self.folder / "a.recordio", "--from", "tfrecord",
                     stdin=b"".join(map(frame, PAYLOADS)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.sha256(self.folder / "a.recordio"), sequence_sha256(PAYLOADS))

    def test_a_folder_gets_a_file_for_each_input(self):
        for name in ("a.tfrecord", "b.c.tfrecords", "part-00000"):
            self.write(name, PAYLOADS)
        report = self.convert(self.folder / "*", f"{self.folder}/out/", "--to", "recordio")
        self.assertEqual(self.names(self.folder / "out"),
                         ["a.recordio", "b.c.recordio", "part-00000.recordio"])
        self.assertEqual(self.outcomes(report), ["written"] * 3)
        for path in (self.folder / "out").iterdir():
            self.assertEqual(self.sha256(path), sequence_sha256(PAYLOADS))

    def test_names_that_do_not_go_together_are_refused(self):
        path = self.write("a.tfrecord", PAYLOADS)
        (self.folder / "sub").mkdir()
        same = self.write("sub/a.tfrecord", PAYLOADS)
        before = path.read_bytes()
        for words, says in (
            ([path, self.folder], "--to"),
            ([path, self.folder, "--to", "tfrecord"], "is an input too"),
            ([path, path], "is an input too"),
            ([path, same, f"{self.folder}/out/", "--to", "recordio"], "both become"),
            ([path, self.folder / "out"], "--to"),
            ([path, self.folder / "out.npy.gz", "--to", "npy:u1[3]"], "compress"),
            ([path, self.folder / "out.raw.gz", "--to", "raw"], "compress"),
            ([path, self.folder / "out", "--to", "nonsense"], "nonsense"),
            ([path, f"{self.folder}/out/", "--to", "recordio", "--records-per-file", "3"], "needs"),
            (["-", f"{self.folder}/out/", "--to", "recordio"], "no name"),
            ([self.write("a-00000.tfrecord", PAYLOADS), self.folder / "a.tfrecord",
              "--records-per-file", "3", "--force"], "of a part"),
            ([path, "-", "--to", "lines"], "stdout"),
            ([path], "FILE"),
            ([self.folder / "missing", self.folder / "o.recordio"], "missing"),
        ):
            with self.subTest(words):
                self.assertIn(says, self.assert_refused(2, "convert", *words))
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual(self.names(self.folder), ["a-00000.tfrecord", "a.tfrecord", "sub"])

    def megatron(self, name):
        """The two files, of 30 sequences of two tokens."""
        lines = self.write("pairs.tfrecord", [bytes([i, 0, i, 1]) for i in range(30)])
        self.convert(lines, self.folder / f"{name}.idx", "--to", "megatron:u2")
        lines.unlink()
        return self.folder / f"{name}.idx", self.folder / f"{name}.bin"

    def test_neither_of_two_files_that_belong_together_is_written_over(self):
        index, data = self.megatron("c")
        before = index.read_bytes(), data.read_bytes()
        part = self.folder / "p-00000.bin"
        part.write_bytes(data.read_bytes())
        tokens, out = ["--from", "tokens:u2,block=4,stride=4,tail=drop"], ["--to", "megatron:u2"]
        for words in ([data, index, *tokens, *out],
                      [data, self.folder, *tokens, *out],
                      [part, self.folder / "p.idx", *tokens, *out, "--records-per-file", 5],
                      [index, data, "--to", "tokens:u2"],
                      [data, index, "--from", "megatron", "--to", "lines"]):
            with self.subTest(words):
                self.assertIn("is an input", self.assert_refused(2, "convert", *words, "--force"))
                self.assertEqual((index.read_bytes(), data.read_bytes()), before)
        self.assertIn("is an input", self.assert_refused(
            2, "feed", index, "--batch", 4, "--position-out", data))
        lines = data.rename(self.folder / "lines.bin")
        lines.write_bytes(b"AAAA\n")
        self.assertIn("is an input", self.assert_refused(
            2, "encode", "--input", lines, self.folder / "lines.idx", *out))
        self.assertEqual(lines.read_bytes(), b"AAAA\n")

    def test_of_two_files_both_must_be_up_to_date(self):
        index, data = self.megatron("c")
        there, back = self.folder / "t.tfrecord", [self.folder / "d.idx", self.folder / "d.bin"]
        self.convert(index, there)
        self.convert(there, back[0], "--to", "megatron:u2")
        self.assertEqual(self.outcomes(self.convert(there, back[0], "--to", "megatron:u2")), ["up to date"])
        back[1].unlink()
        self.assertEqual(self.outcomes(self.convert(there, back[0], "--to", "megatron:u2")), ["written"])
        self.assertEqual(back[1].read_bytes(), data.read_bytes())
        self.set_age(there, 100)
        self.set_age(index, 200)
        self.assertEqual(self.outcomes(self.convert(index, there)), ["written"])  # its data are newer

    def test_what_is_up_to_date_is_left_and_said(self):
        paths = [self.write(f"{i}.tfrecord", PAYLOADS) for i in range(3)]
        words = [*paths, f"{self.folder}/out/", "--to", "recordio"]
        self.convert(*words)
        outputs = [self.folder / "out" / f"{i}.recordio" for i in range(3)]
        for path in paths:
            self.set_age(path, 100)
        for path in outputs:
            self.set_age(path, 50)
        self.set_age(paths[1], 10)
        before = [path.stat().st_mtime_ns for path in outputs]
        report = self.convert(*words)
        self.assertEqual(self.outcomes(report), ["up to date", "written", "up to date"])
        self.assertEqual([path.stat().st_mtime_ns == then for path, then in zip(outputs, before)],
                         [True, False, True])
        self.assertIn("up to date " + str(outputs[0]), run("convert", *words).stdout)
        self.assertEqual(self.outcomes(self.convert(*words, "--force")), ["written"] * 3)

    def old_inputs(self, records):
        """Three files of so many records, each of its file's number. Where what is made of them can be
        noted: else the test skips."""
        probe = self.write("probe", [])
        try:
            os.setxattr(probe, "user.ringfeed.probe", b"1")
        except OSError:
            self.skipTest("this file system keeps no extended attributes")
        finally:
            probe.unlink()
        paths = [self.write(f"{i}.tfrecord", [b"%d" % i] * records) for i in range(3)]
        for path in paths:
            self.set_age(path, 100)
        return paths

    def test_what_was_made_of_other_inputs_is_made_again(self):
        paths = self.old_inputs(records=3)
        output = self.folder / "all.recordio"
        for some in (paths[:2], paths, [paths[1], paths[0], paths[2]], paths[1:]):
            with self.subTest(len(some)):
                self.assertEqual(self.outcomes(self.convert(*some, output)), ["written"])
                self.assertEqual(self.sha256(output), sequence_sha256(
                    [b"%d" % paths.index(path) for path in some for _ in range(3)]))
                self.assertEqual(self.outcomes(self.convert(*some, output)), ["up to date"])
        # One that is replaced by an older file.
        self.write("2.tfrecord", [b"another"])
        self.set_age(paths[2], 100)
        self.assertEqual(self.outcomes(self.convert(*paths[1:], output)), ["written"])
        self.assertEqual(self.sha256(output), sequence_sha256([b"1"] * 3 + [b"another"]))

    def test_parts_of_other_inputs_of_the_same_length_are_not_mixed_with_these(self):
        paths = self.old_inputs(records=10)
        words = [self.folder / "out.tfrecord", "--records-per-file", 10]
        self.convert(*paths[:2], *words)
        self.assertIn("other inputs", self.assert_refused(2, "convert", *paths[1:], *words))
        self.assertEqual(self.outcomes(self.convert(*paths[1:], *words, "--force")), ["written"] * 2)
        self.assertEqual(payloads_of(self.folder / "out-00000.tfrecord"), [b"1"] * 10)
        self.assertEqual(self.outcomes(self.convert(*paths[1:], *words)), ["up to date"] * 2)

    def test_what_is_of_another_format_is_made_again(self):
        path = self.write("a.tfrecord", LINES)
        for name, formats in (
            ("b.recordio", ["recordio", "lines", "recordio:go,gzip", "tfrecord", "recordio"]),
            ("b.txt", ["lines", "lines+gzip", "tfrecord+gzip", "tfrecord", "lines", "lines+zstd"]),
        ):
            for to in formats:
                with self.subTest((name, to)):
                    words = [path, self.folder / name, "--to", to]
                    self.assertEqual(self.outcomes(self.convert(*words)), ["written"])
                    self.assertEqual(self.outcomes(self.convert(*words)), ["up to date"])
                    family = to.split("+")[0].split(":")[0]
                    self.assertEqual(self.sha256(self.folder / name, "--format", family),
                                     sequence_sha256(LINES))

    def test_parts_of_so_many_records(self):
        payloads = [str(i).encode() for i in range(25)]
        paths = [self.write("a.tfrecord", payloads[:13]), self.write("b.tfrecord", payloads[13:])]
        words = [*paths, self.folder / "out.tfrecord", "--records-per-file", 10]
        report = self.convert(*words)
        parts = [self.folder / f"out-0000{i}.tfrecord" for i in range(3)]
        self.assertEqual([output["output"] for output in report["outputs"]], list(map(str, parts)))
        self.assertEqual([payloads_of(part) for part in parts],
                         [payloads[:10], payloads[10:20], payloads[20:]])
        parts[1].unlink()
        self.assertEqual(self.outcomes(self.convert(*words)), ["up to date", "written", "up to date"])
        self.assertEqual(payloads_of(parts[1]), payloads[10:20])

    def test_parts_of_another_conversion_are_not_mixed_with_these(self):
        path = self.write("a.tfrecord", [b"x"] * 25)
        words = [path, self.folder / "out.tfrecord", "--records-per-file"]
        self.convert(*words, 10)
        for number in (7, 12):
            self.assertIn("another conversion", self.assert_refused(2, "convert", *words, number))
        # A part fewer: the one behind the last is not of this conversion.
        self.assertIn("another conversion", self.assert_refused(2, "convert", *words, 20, "--force"))
        (self.folder / "out-00002.tfrecord").unlink()
        self.assertEqual(self.outcomes(self.convert(*words, 20, "--force")), ["written"] * 2)

    def test_a_record_that_the_format_cannot_hold_is_named(self):
        good = self.write("good.tfrecord", [b"x" * 16])
        lines = self.write("lines.tfrecord", [b"one", b"two", b"a\nb"])
        rows = self.write("rows.tfrecord", [b"x" * 16, b"x" * 15])
        for path, to, record in ((lines, "lines", 2), (rows, "rows:16", 1), (lines, "raw", 1)):
            with self.subTest(to):
                error = self.assert_refused(1, "convert", path, self.folder / "o", "--to", to)
                self.assertIn(f"{path}: record {record}: ", error)
                self.assertEqual(self.names(), ["good.tfrecord", "lines.tfrecord", "rows.tfrecord"])
        report = self.convert(rows, good, f"{self.folder}/out/", "--to", "rows:16", status=1)
        self.assertEqual(self.outcomes(report), ["failed", "written"])
        self.assertEqual(self.names(self.folder / "out"), ["good.rows"])

    def damaged(self):
        path = self.write("a.tfrecord", [str(i).encode() * 9 for i in range(10)])
        data = bytearray(path.read_bytes())
        data[25 * 4 + 15] ^= 4
        path.write_bytes(data)
        return path

    def test_damage_ends_it_without_an_output(self):
        report = self.convert(self.damaged(), self.folder / "b.recordio", status=1)
        self.assertEqual(report["damaged"][0]["begin"], 100)
        self.assertIn("error", report["outputs"][0])
        self.assertEqual(self.names(), ["a.tfrecord"])

    def test_damage_is_skipped_where_asked_for(self):
        result = run("convert", self.damaged(), self.folder / "b.tfrecord", "--on-damage=skip")
        self.assertEqual(result.returncode, 1)
        self.assertIn("skipped bytes 100 to 125", result.stderr)
        self.assertEqual(payloads_of(self.folder / "b.tfrecord"),
                         [str(i).encode() * 9 for i in range(10) if i != 4])

    def test_an_output_without_what_was_skipped_is_not_up_to_date(self):
        words = ["convert", self.damaged(), f"{self.folder}/out/", "--to=recordio", "--json"]
        for _ in range(2):
            result = run(*words, "--on-damage=skip")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(self.outcomes(json.loads(result.stdout)), ["written"])

    def test_what_was_skipped_is_told_where_it_fails_behind_that(self):
        # A row of another size is refused by the format of the output.
        path = self.write("odd.tfrecord", [str(i).encode() * 9 for i in range(10)] + [b"odd"])
        data = bytearray(path.read_bytes())
        data[25 * 4 + 15] ^= 4
        path.write_bytes(data)
        for words in ([self.folder / "b.rows"], [f"{self.folder}/out/"],
                      [self.folder / "c.rows", "--records-per-file", 4]):
            with self.subTest(words):
                words = [path, *words, "--to", "rows:9", "--on-damage=skip"]
                report = run("convert", *words, "--json")
                self.assertEqual(report.returncode, 1)
                self.assertEqual([each["begin"] for each in json.loads(report.stdout)["damaged"]], [100])
                self.assertIn("skipped bytes 100 to 125", report.stderr)

    def await_half_file(self, child, output, more_than=0):
        """Until some of what becomes `output` is on disk; and the command takes Ctrl-C."""
        def begun():
            return any(file.stat().st_size > more_than for file in self.folder.glob(f".{output}.partial-*"))

        await_interrupt(child)
        await_that(begun, f"a half {output}", child)

    def test_what_was_skipped_is_told_where_it_is_interrupted_too(self):
        data = self.damaged().read_bytes()
        child = subprocess.Popen(
            [BINARY, "convert", "-", str(self.folder / "b.tfrecord"), "--from", "tfrecord",
             "--on-damage=skip", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        child.stdin.write(data + frame(b"x" * 1000) * 3000)
        child.stdin.flush()
        self.await_half_file(child, "b.tfrecord", more_than=len(data))  # it is past the damage
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        out, err = child.stdout.read(), child.stderr.read().decode()
        child.communicate()
        self.assertEqual(child.returncode, 1)
        self.assertEqual([each["begin"] for each in json.loads(out)["damaged"]], [100])
        self.assertIn("skipped bytes 100 to 125", err)
        self.assertEqual(self.names(), ["a.tfrecord"])

    def start(self, *words):
        return subprocess.Popen([BINARY, "convert", *map(str, words)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def kill(self, child, ready):
        """Once ready() holds. The command must not be able to end before."""
        try:
            await_that(ready, "the middle", child)
        finally:
            child.kill()
            child.communicate(timeout=60)
        self.assertEqual(child.returncode, -signal.SIGKILL)

    def test_killed_anywhere_it_leaves_no_half_file_and_goes_on(self):
        inputs, out = [self.folder / f"{number:02}.rows" for number in range(16)], self.folder / "out"
        for path in inputs:
            path.write_bytes(os.urandom(2 << 20))
        expected = {path.stem: self.sha256(path, "--format", "rows:1024") for path in inputs}
        words = [*inputs, f"{out}/", "--from", "rows:1024", "--to", "recordio"]

        def started():  # some of it is written, some is being written
            names = self.names(out) if out.is_dir() else []
            return len(names) > 4 and any(".partial-" in name for name in names)

        # Of one file there is no end, as far as the first run gets: a hole takes no disk.
        whole = inputs[8].rename(self.folder / "whole")
        inputs[8].touch()
        os.truncate(inputs[8], 1 << 40)
        self.kill(self.start(*words), started)
        whole.rename(inputs[8])
        done = [path for path in out.iterdir() if path.suffix == ".recordio"]
        self.assertLess(len(done), 16)
        for path in done:
            self.assertEqual(self.sha256(path), expected[path.stem], path)
        before = {path: path.stat().st_mtime_ns for path in done}
        report = self.convert(*words)
        self.assertEqual(report["up_to_date"], len(done))
        self.assertEqual({path: path.stat().st_mtime_ns for path in done}, before)
        self.assertEqual(self.names(out), sorted(f"{stem}.recordio" for stem in expected))
        for path in out.iterdir():
            self.assertEqual(self.sha256(path), expected[path.stem], path)

    def test_killed_between_parts_it_goes_on(self):
        run_json("make", self.folder / "in", "--kind", "bytes", "--record-bytes", 1000,
                 "--records", 30_000, "--files", 1)
        (path,) = (self.folder / "in").iterdir()
        words = [path, self.folder / "out.recordio", "--records-per-file", 1000]
        # The first run gets half of it, by a pipe that stays open.
        whole = path.rename(self.folder / "whole")
        os.mkfifo(path)
        child = self.start(*words)
        with open(path, "wb") as pipe:
            pipe.write(whole.read_bytes()[:15_000_000])
            pipe.flush()
            self.kill(child, lambda: len(self.names()) > 7)
        whole.rename(path)
        report = self.convert(*words)
        self.assertEqual(report["written"] + report["up_to_date"], 30)
        self.assertEqual(self.names(), ["in"] + [f"out-{i:05}.recordio" for i in range(30)])
        self.assertEqual(run_json("digest", path)["multiset"], self.sum_of_parts())

    def sum_of_parts(self):
        reports = run_json("digest", *sorted(self.folder.glob("out-*")))
        return f"{sum(int(report['multiset'], 16) for report in reports) % 2**256:064x}"

    def test_an_interrupt_leaves_no_half_file(self):
        fifo, out = self.folder / "fifo", self.folder / "out.recordio"
        os.mkfifo(fifo)
        child = self.start(fifo, out, "--from", "lines", "--to", "recordio:none")
        with open(fifo, "wb") as pipe:
            pipe.write(b"a line\n" * 500_000)
            pipe.flush()
            self.await_half_file(child, "out.recordio")
            child.send_signal(signal.SIGINT)
            child.wait(timeout=60)
        child.communicate()
        self.assertEqual(child.returncode, 1)
        self.assertEqual(self.names(), ["fifo"])

    def test_what_a_killed_writer_left_is_no_data(self):
        fifo, data = self.folder / "fifo", self.folder / "d"
        os.mkfifo(fifo)
        data.mkdir()
        (data / "a.txt").write_bytes(b"whole\n" * 10)
        child = self.start(fifo, data / "b.txt", "--from", "lines", "--to", "lines")
        with open(fifo, "wb") as pipe:
            pipe.write(b"half\n" * 500_000)
            pipe.flush()
            self.kill(child, lambda: any(".partial-" in name and (data / name).stat().st_size > 0
                                         for name in self.names(data)))
        report = run_json("feed", f"{data}/*", "--format", "lines")
        self.assertEqual((report["records"], report["payload_bytes"]), (10, 50))

    def test_what_killed_writers_left_is_removed_and_nothing_else(self):
        path = self.write("a.tfrecord", PAYLOADS)
        gone = subprocess.Popen(["true"])
        gone.wait()
        stale = [self.folder / f".b.recordio.partial-{gone.pid}-0",
                 self.folder / f"b.recordio.partial-{gone.pid}-0"]  # of ringfeed 0.2
        others = [self.folder / f".b.recordio.partial-{os.getpid()}-0",
                  self.folder / f".c.recordio.partial-{gone.pid}-0",
                  self.folder / f".b.recordio.partial-{gone.pid}-0.keep"]
        for file in (*stale, *others):
            file.write_bytes(b"half")
        self.convert(path, self.folder / "b.recordio")
        self.assertFalse(any(file.exists() for file in stale))
        self.assertTrue(all(file.exists() for file in others))

    def test_what_a_killed_writer_of_the_same_number_left_is_in_nobodys_way(self):
        path = self.write("a.tfrecord", PAYLOADS)

        def leave_partials():  # as process numbers come again in a container
            for name in ("b.recordio", "c.recordio", "position"):
                (self.folder / f".{name}.partial-{os.getpid()}-0").write_bytes(b"half")

        result = run("convert", path, self.folder / "b.recordio", before=leave_partials)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(list(self.folder.glob(".b.recordio.partial-*")), [])
        result = run("feed", path, "--batch", 8, "--position-out", self.folder / "position",
                     before=leave_partials)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_name_that_is_too_long_for_parts_is_told(self):
        path = self.write("a.tfrecord", [])
        result = run("convert", path, self.folder / ("n" * 243 + ".recordio"), "--records-per-file", 2)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("look for", result.stderr)

    def test_fields_of_the_report(self):
        path = self.write("a.tfrecord", PAYLOADS)
        report = self.convert(path, self.folder / "b.recordio")
        self.assertEqual(list(report), "version command written up_to_date failed records payload_bytes outputs "
                         "damaged wall_s".split())
        self.assertEqual(list(report["outputs"][0]), ["output", "outcome", "records", "payload_bytes"])
        text = run("convert", path, self.folder / "c.recordio").stdout.splitlines()
        self.assertRegex(text[0], r"^written +\S+c.recordio: 30 records, ")
        self.assertRegex(text[1], r"^total +1 written, 0 up to date, 0 failed; 30 records, ")


if __name__ == "__main__":
    main()
