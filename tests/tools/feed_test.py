#!/usr/bin/env python3
"""`ringfeed feed`: its report against the files, over orders, paths, damage and faults."""

import errno
import gzip
import json
import os
import random
import threading
import time

from command_line import (
    DATA, CommandTest, await_that, forbid_io_uring, main, multiset, order_digest, run, run_json, unread)


class FeedTest(CommandTest):
    def setUp(self):
        super().setUp()
        source = random.Random(5)
        self.payloads = [source.randbytes(source.randrange(3000)) for _ in range(500)]
        self.paths = [self.write(f"{i}.tfrecord", self.payloads[i * 100 : i * 100 + 100]) for i in range(5)]

    def test_in_file_order_the_digest_is_that_of_the_files(self):
        for words in ([], ["--batch", "7"], ["--parse", "raw"]):
            with self.subTest(words):
                report = run_json("feed", *self.paths, "--cycle", "1", *words)
                self.assertEqual(report["records"], 500)
                self.assertEqual(report["payload_bytes"], sum(map(len, self.payloads)))
                self.assertEqual(report["order_digest"], order_digest(self.payloads))
                self.assertEqual(report["multiset"], multiset(self.payloads))

    def test_the_order_does_not_depend_on_threads_and_paths(self):
        words = ["--shuffle", "60", "--seed", "3", "--batch", "16", "--stripe-bytes", "64KiB"]
        digests = {
            run_json("feed", *self.paths, *words, "--threads", threads, "--io", path)["order_digest"]
            for threads in (1, 2, 4)
            for path in ("auto", "pread", "mmap")
        }
        self.assertEqual(len(digests), 1)
        other = run_json("feed", *self.paths, *words[:2], "--seed", "4", *words[4:])
        self.assertNotIn(other["order_digest"], digests)
        self.assertEqual(other["multiset"], multiset(self.payloads))

    def test_both_shuffles_deliver_everything(self):
        for mode in ("window", "block"):
            report = run_json("feed", *self.paths, "--shuffle", 100, "--shuffle-mode", mode)
            self.assertEqual(report["multiset"], multiset(self.payloads))
            self.assertNotEqual(report["order_digest"], order_digest(self.payloads))

    def test_batches_are_counted_by_pass(self):
        report = run_json("feed", *self.paths, "--batch", 64, "--passes", 3)
        self.assertEqual((report["records"], report["batches"]), (1500, 24))
        self.assertEqual(report["multiset"], multiset(self.payloads * 3))
        report = run_json("feed", *self.paths, "--batch", 64, "--drop-remainder")
        self.assertEqual((report["records"], report["batches"]), (448, 7))
        self.assertEqual(report["dropped_records"], 52)
        self.assertEqual((report["files_read"], report["files_refused"], report["files_missing"]),
                         (len(self.paths), 0, 0))
        self.assertEqual(report["lost_ranges"], 0)

    def test_records_are_counted_where_a_batch_joins_them(self):
        path = DATA / "fluid_recordio" / "lod1_snappy_max5.recordio"
        for word in ("--digest", "--no-digest"):
            report = run_json("feed", path, "--parse", "lod: words=i8[,1]/1 score=f4[,1]",
                              "--batch", 5, word)
            self.assertEqual((report["records"], report["batches"]), (12, 3))

    def test_verify_proves_each_pass(self):
        report = run_json("feed", *self.paths, "--shuffle", 50, "--passes", 2, "--verify", "--no-digest")
        self.assertIs(report["verified"], True)
        self.assertIsNone(report["order_digest"])
        text = run("feed", *self.paths, "--batch", 10, "--verify")
        self.assertEqual(text.returncode, 0)
        self.assertIn("every record exactly once", text.stdout)

    def test_verify_refuses_a_stream_before_it_is_read(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for stream in ("-", fifo):
            result = run("feed", stream, "--format", "lines", "--verify", stdin="one\n", timeout=20)
            self.assertEqual(result.returncode, 2)
            self.assertIn("is a stream", result.stderr)

    def test_verify_takes_for_empty_and_missing_files_what_the_feed_takes(self):
        empty = self.folder / "empty.npy"
        empty.write_bytes(b"")
        report = run_json("feed", *self.paths, empty, "--batch", 10, "--verify")
        self.assertIs(report["verified"], True)
        report = run_json("feed", *self.paths, self.folder / "missing", "--on-damage=skip", "--verify", status=1)
        self.assertIs(report["verified"], True)
        self.assertEqual(report["records"], len(self.payloads))

    def test_the_report_says_where_time_went(self):
        report = run_json("feed", *self.paths, "--batch", 10)
        self.assertTrue(report["bottleneck"])
        self.assertTrue(report["advice"].endswith("."), report["advice"])
        self.assertEqual(sum(way["files"] for way in report["io"]), 5)
        self.assertTrue(all(way["reason"] for way in report["io"]))
        self.assertGreater(report["wall_s"], 0)
        self.assertGreater(report["cpu_s"], 0)
        self.assertGreater(report["first_batch_ms"], 0)
        self.assertGreater(report["peak_rss_bytes"], 1 << 20)
        self.assertTrue(all(stage["busy_s"] >= 0 and stage["wait_s"] >= 0 for stage in report["stages"]))

    def damage(self):
        data = bytearray(self.paths[2].read_bytes())
        self.begin = sum(16 + len(p) for p in self.payloads[200:230])
        data[self.begin + 8] ^= 1
        self.paths[2].write_bytes(data)

    def test_damage_fails_after_what_precedes_it(self):
        self.damage()
        report = run_json("feed", *self.paths, "--cycle", 1, "--batch", 10, status=1)
        self.assertEqual(report["records"], 230)
        self.assertEqual(report["order_digest"], order_digest(self.payloads[:230]))
        self.assertIn(str(self.paths[2]), report["error"])

    def test_a_failure_is_told_once_and_with_advice_only_where_something_came(self):
        strange = self.folder / "strange"
        strange.write_bytes(b"x" * 5000)
        broken = self.write("broken.tfrecord", self.payloads[:2])
        broken.write_bytes(b"\1" + broken.read_bytes()[1:])
        for path, told in ((strange, "was not recognised"), (self.folder / "missing.tfrecord", "missing.tfrecord")):
            failed = run("feed", path)
            self.assertEqual((failed.returncode, failed.stdout), (2, ""))
            self.assertEqual(failed.stderr.count(told), 1, failed.stderr)
        failed = run("feed", broken)
        self.assertEqual((failed.returncode, failed.stderr.count("broken.tfrecord")), (1, 1), failed.stderr)
        self.assertRegex(failed.stdout, "(?m)^failed +this is the report so far$")
        self.assertNotIn("broken.tfrecord", failed.stdout)
        self.assertFalse(failed.stdout.rstrip().endswith("."), failed.stdout)
        report = run_json("feed", broken, status=1)
        self.assertEqual((report["advice"], "broken.tfrecord" in report["error"]), ("", True))
        self.damage()
        report = run_json("feed", *self.paths, "--cycle", 1, "--batch", 10, status=1)
        self.assertTrue(report["advice"])

    def test_damage_skipped_is_counted_and_the_rest_delivered(self):
        self.damage()
        report = run_json("feed", *self.paths, "--cycle", 1, "--on-damage=skip", "--verify", status=1)
        rest = self.payloads[:230] + self.payloads[231:]
        self.assertEqual(report["order_digest"], order_digest(rest))
        self.assertEqual(report["damaged"][0]["begin"], self.begin)
        self.assertEqual(report["damaged"][0]["file"], str(self.paths[2]))
        self.assertIs(report["verified"], True)

    def test_the_cap_on_damage_is_kept(self):
        self.damage()
        self.assert_refused(1, "feed", *self.paths, "--on-damage=skip", "--max-damaged", 0)

    def test_orders_by_number_refuse_files_without_numbers(self):
        packed = self.folder / "packed.tfrecord.gz"
        packed.write_bytes(gzip.compress(self.paths[1].read_bytes()))
        missing = self.folder / "missing.tfrecord"
        odd = self.folder / "odd.dat"
        odd.write_bytes(b"no format begins like this")
        fortran = self.folder / "fortran.npy"
        header = b"{'descr': '<i8', 'fortran_order': True, 'shape': (4, 3), }".ljust(117) + b"\n"
        fortran.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(96))
        for file in (packed, missing, odd, fortran):
            for order in (["--shuffle-mode", "global"], ["--shuffle-mode", "stripes"],
                          ["--rank", 0, "--ranks", 2]):
                for policy in ("fail", "skip"):
                    with self.subTest(file=file.name, order=order, policy=policy):
                        error = self.assert_refused(2, "feed", self.paths[0], file, "--on-damage", policy,
                                                    "--batch", 10, *order)
                        self.assertIn(str(file), error)
                        self.assertIn("order of files", error)

    def test_a_glob_is_expanded_sorted(self):
        report = run_json("feed", self.folder / "*.tfrecord", "--cycle", 1)
        self.assertEqual(report["order_digest"], order_digest(self.payloads))

    def test_stdin_is_fed(self):
        data = b"".join(path.read_bytes() for path in self.paths)
        result = run("feed", "-", "--format", "tfrecord", "--json", stdin=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(order_digest(self.payloads).encode(), result.stdout)

    def test_io_uring_refused_is_an_error_where_it_was_asked_for(self):
        for error in (errno.EPERM, errno.ENOSYS):
            result = run("feed", *self.paths, "--io", "uring", before=lambda: forbid_io_uring(error))
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("io_uring", result.stderr)
            result = run("feed", *self.paths, "--json", before=lambda: forbid_io_uring(error))
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_rows_into_columns(self):
        data = os.urandom(160 * 1000)
        path = self.folder / "a.rows"
        path.write_bytes(data)
        report = run_json("feed", path, "--format", "rows:160", "--parse", "rows: f4[13] i4[26] i4",
                          "--batch", 128)
        rows = [data[i : i + 160] for i in range(0, len(data), 160)]
        self.assertEqual((report["batches"], report["order_digest"]), (8, order_digest(rows)))

    def test_the_first_row_of_csv_files_names_their_columns(self):
        for name, header in (("1.csv", "y,x z"), ("2.csv", "x z,y"), ("3.csv", "x,y")):
            (self.folder / name).write_text(header + "\n1,2\n3,4\n")
        words = ["--parse", "csv: -header y=i8", "--cycle", 1]
        report = run_json("feed", self.folder / "1.csv", self.folder / "2.csv", *words)
        self.assertEqual(report["records"], 4)
        self.assertEqual(report["multiset"], multiset([b"1,2", b"3,4", b"2,1", b"4,3"]))
        failed = run("feed", self.folder / "1.csv", self.folder / "3.csv", *words)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("3.csv", failed.stderr)
        self.assertIn('"x,y" where the columns "y,x z" are expected: it lacks "x z"', failed.stderr)
        unknown = run("feed", self.folder / "1.csv", "--parse", "csv: -header w=i8")
        self.assertEqual(unknown.returncode, 2)

    def test_a_header_that_is_read_as_a_row_is_told_how_to_be_one(self):
        hint = "line 1 looks like a header"
        path, packed = self.folder / "a.csv", self.folder / "b.csv.gz"
        ways = [["--parse", "csv: y=i8 x=f8"], ["--parse", "csv: y=i8 x=f8", "--digest"],
                ["--parse", "csv: y=i8 x=f8", "--batch", 2], ["--parse", "csv: y=i8 x=f8", "--passes", 2],
                ["--parse", "csv: y=i8 x=u1[]", "--shuffle-mode", "global"]]
        for text in ("y,x\n1,2\n3,4\n", "\ufeff\r\n\"y\",x\r\n1,2\r\n"):
            path.write_bytes(text.encode())
            packed.write_bytes(gzip.compress(text.encode()))
            for way in ways:
                failed = run("feed", path, *way)
                self.assertEqual((failed.returncode, failed.stderr.count(hint)), (1, 1), failed.stderr)
                self.assertIn("--parse 'csv: -header", failed.stderr)
            self.assertIn(hint, run("feed", packed, *ways[0]).stderr)
        skipped = run_json("feed", path, *ways[0], "--on-damage", "skip", status=1)
        self.assertIn(hint, skipped["damaged"][0]["reason"])
        for text, format in (("1,x\n", "csv"), ("-y,x\n", "csv"), (",x\n", "csv"), ("inf,x\n", "csv"),
                             ("1,2\ny,x\n", "csv"), ("1,2\ny,x\n", "csv:header"), ("y\nx,y\n", "csv:header")):
            path.write_text(text)
            failed = run("feed", path, "--format", format, "--parse", "csv: y=f8 x=f8")
            self.assertNotEqual(failed.returncode, 0)
            self.assertNotIn(hint, failed.stderr)

    def test_a_stream_is_read_until_nothing_comes(self):
        fifo = self.folder / "online.fifo"
        os.mkfifo(fifo)

        def write():
            with open(fifo, "wb") as stream:
                stream.write(b"one\ntwo\n")

        writer = threading.Thread(target=write)
        writer.start()
        report = run_json("feed", fifo, "--format", "lines", "--reopen-until", 0.05)
        writer.join()
        self.assertEqual(report["records"], 2)
        refused = run("feed", self.paths[0], "--reopen-until", "close")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("reopen_until", refused.stderr)

    def test_whoever_writes_a_stream_slowly_is_named(self):
        fifo = self.folder / "slow.fifo"
        os.mkfifo(fifo)

        def write():
            with open(fifo, "wb", buffering=0) as stream:
                for number in range(60):
                    # Only who has taken all that there was waits for the next line.
                    await_that(lambda: unread(stream) == 0, "a reader of the line before")
                    time.sleep(0.005)
                    stream.write(b"%d\n" % number)

        writer = threading.Thread(target=write)
        writer.start()
        report = run_json("feed", fifo, "--format", "lines", "--batch", 4)
        writer.join()
        self.assertIn("wait for whoever writes the stream", report["advice"])

    def test_records_that_are_no_examples_are_a_mistake_of_the_command(self):
        self.assert_refused(2, "feed", *self.paths, "--parse", "example: image=u1[] label=i8[1]")

    def test_a_parser_that_does_not_fit_is_refused_whatever_is_hashed(self):
        array = self.folder / "a.npy"
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 10), }".ljust(117) + b"\n"
        array.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(280))
        lines = self.folder / "a.jsonl"
        lines.write_bytes(b'{"label": 1, "text": "x"}\n' * 7)
        journal = ["--journal", self.folder / "journal"]
        for path, parser, policy, named in (
            (array, "rows: i4[10]", "fail", ('"<f4"', "int32")),
            (array, "rows: i4[10]", "skip", ('"<f4"', "int32")),
            (lines, "jsonl: labl=i8", "skip", ('"labl"', '"label"')),
        ):
            for words in (["--no-digest"], [], ["--verify"], journal):
                with self.subTest(parser=parser, policy=policy, words=words):
                    result = run("feed", path, "--parse", parser, "--on-damage", policy, "--json", *words)
                    self.assertIn(result.returncode, (1, 2), result.stderr)
                    report = json.loads(result.stdout or "null")  # of a mistake there is none
                    self.assertEqual(report is None, result.returncode == 2)
                    self.assertEqual((report or {"records": 0})["records"], 0)
                    for name in named:
                        self.assertIn(name, result.stderr)

    def test_an_arena_of_its_own_bounds_memory(self):
        report = run_json("feed", *self.paths, "--batch", 16, "--arena", "64MiB")
        self.assertEqual(report["arena_bytes"], 64 << 20)
        self.assertLessEqual(report["arena_peak_bytes"], 64 << 20)


if __name__ == "__main__":
    main()
