#!/usr/bin/env python3
"""`ringfeed digest` against digests taken by Python."""

import json
import os
import unittest

from command_line import DATA, CommandTest, main, multiset, payloads_of, run, run_json, sequence_sha256

# As TensorFlow's own software reads them back.
GENUINE = {
    "examples.tfrecord": (40, 5700, "3eec463647d5764e4734bb6f50e97b3e385bc6d96a3fc9f4aeb45b582e9608c5"),
}


class DigestTest(CommandTest):
    def check(self, path, payloads):
        report = run_json("digest", path)
        self.assertEqual(report["records"], len(payloads))
        self.assertEqual(report["payload_bytes"], sum(map(len, payloads)))
        self.assertEqual(report["sha256"], sequence_sha256(payloads))
        self.assertEqual(report["multiset"], multiset(payloads))
        self.assertEqual(report["damaged"], [])

    def test_genuine_files(self):
        for name, (records, payload_bytes, sha256) in GENUINE.items():
            report = run_json("digest", DATA / "tfrecord" / name)
            self.assertEqual((report["records"], report["payload_bytes"], report["sha256"]),
                             (records, payload_bytes, sha256))

    def test_all_intact_files_of_the_test_data(self):
        files = sorted((DATA / "tfrecord").glob("*.tfrecord"))
        self.assertTrue(files)
        for path in files:
            with self.subTest(path.name):
                self.check(path, payloads_of(path))

    def test_records_of_all_sizes(self):
        sizes = [0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 600_000]
        payloads = [os.urandom(size) for size in sizes]
        self.check(self.write("sizes.tfrecord", payloads), payloads)

    def test_a_file_without_records(self):
        self.check(self.write("empty.tfrecord", []), [])

    def test_several_files_give_a_list_in_their_order(self):
        sets = [[b"b"], [], [b"a", b"c" * 100]]
        paths = [self.write(f"{i}.tfrecord", payloads) for i, payloads in enumerate(sets)]
        reports = run_json("digest", *paths)
        self.assertEqual([report["file"] for report in reports], [str(path) for path in paths])
        self.assertEqual([report["sha256"] for report in reports], [sequence_sha256(s) for s in sets])

    def test_a_glob_stands_for_its_files_and_many_come_in_their_order(self):
        sets = [[bytes([i]) * (1 + 50_000 * (i % 3))] * (i % 5) for i in range(40)]
        paths = [self.write(f"{i:02}.tfrecord", payloads) for i, payloads in enumerate(sets)]
        reports = run_json("digest", self.folder / "*.tfrecord")
        self.assertEqual([report["file"] for report in reports], [str(path) for path in paths])
        self.assertEqual([report["sha256"] for report in reports], [sequence_sha256(s) for s in sets])

    def test_braces_stand_for_their_files_as_a_shell_has_them(self):
        paths = [self.write(f"{i:03}.tfrecord", [bytes([i])]) for i in range(4)]
        reports = run_json("digest", self.folder / "{002..000}.tfrecord", self.folder / "{003,001}.*")
        self.assertEqual([report["file"] for report in reports],
                         [str(paths[i]) for i in (2, 1, 0, 3, 1)])
        named = self.write("{000..001}.tfrecord", [b"itself"])
        self.assertEqual(run_json("digest", named)["file"], str(named))

    def test_too_many_names_are_refused(self):
        self.assert_refused(2, "digest", self.folder / "{1..2000000}.tfrecord")

    def test_a_file_that_cannot_be_read_leaves_the_others(self):
        paths = [self.write("a.tfrecord", [b"a"]), self.folder / "missing", self.write("b.tfrecord", [b"b"])]
        process = run("digest", *paths, "--json")
        self.assertEqual(process.returncode, 2)
        reports = json.loads(process.stdout)["files"]
        self.assertEqual([report.get("error", "")[:9] for report in reports], ["", "not_found", ""])
        self.assertEqual(reports[2]["sha256"], sequence_sha256([b"b"]))

    def test_rows_and_raw_files(self):
        data = os.urandom(160 * 7)
        path = self.folder / "a.rows"
        path.write_bytes(data)
        rows = [data[i : i + 160] for i in range(0, len(data), 160)]
        self.assertEqual(run_json("digest", path, "--format", "rows:160")["sha256"], sequence_sha256(rows))
        self.assertEqual(run_json("digest", path, "--format", "raw")["sha256"], sequence_sha256([data]))

    def test_skip_leaves_out_the_damaged_record_alone(self):
        payloads = [bytes([i]) * (100 + i) for i in range(20)]
        path = self.write("a.tfrecord", payloads)
        data = bytearray(path.read_bytes())
        start = sum(16 + len(p) for p in payloads[:7])
        data[start + 12] ^= 0x10
        path.write_bytes(data)
        report = run_json("digest", path, "--on-damage=skip", status=1)
        rest = payloads[:7] + payloads[8:]
        self.assertEqual(report["records"], 19)
        self.assertEqual(report["sha256"], sequence_sha256(rest))
        (damaged,) = report["damaged"]
        self.assertEqual((damaged["begin"], damaged["end"]), (start, start + 16 + len(payloads[7])))

    def test_fail_digests_what_precedes_the_damage(self):
        payloads = [bytes([i]) * 50 for i in range(20)]
        path = self.write("a.tfrecord", payloads)
        data = bytearray(path.read_bytes())
        data[66 * 7 + 12] ^= 1
        path.write_bytes(data)
        report = run_json("digest", path, status=1)
        self.assertEqual(report["records"], 7)
        self.assertEqual(report["sha256"], sequence_sha256(payloads[:7]))
        self.assertEqual(report["damaged"][0]["begin"], 66 * 7)
        self.assertIn("error", report)

    def test_stdin(self):
        payloads = [b"x" * i for i in range(300)]
        data = self.write("a.tfrecord", payloads).read_bytes()
        result = run("digest", "-", "--format", "tfrecord", "--json", stdin=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(sequence_sha256(payloads).encode(), result.stdout)

    def test_compressed_files_have_the_digest_of_their_content(self):
        plain = run("digest", DATA / "tfrecord" / "examples.tfrecord")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        for name in ("examples.tfrecord.gz", "examples.tfrecord.zlib"):
            packed = run("digest", DATA / "tfrecord" / name)
            self.assertEqual(packed.returncode, 0, packed.stderr)
            self.assertEqual(packed.stdout.splitlines()[1:], plain.stdout.splitlines()[1:])


if __name__ == "__main__":
    main()
