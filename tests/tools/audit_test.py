#!/usr/bin/env python3
"""`ringfeed feed --journal` and `ringfeed audit`: runs that end early and go on from their position."""

import gzip
import json

from command_line import CommandTest, main, run, run_json


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


class AuditTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.data = self.write("a.tfrecord", [b"%d" % i * 20 for i in range(500)])
        self.journal = self.folder / "journal"
        self.position = self.folder / "position"

    def feed(self, *words):
        return run_json("feed", self.data, "--batch", 64, "--journal", self.journal,
                        "--position-out", self.position, "--no-digest", *words)

    def test_a_run_that_goes_on_is_exact(self):
        report = self.feed("--max-batches", 3)
        self.assertEqual((report["records"], report["batches"]), (192, 3))
        self.assertEqual(report["position"], self.position.read_text().rstrip("\n"))
        self.assertEqual(json.loads(report["position"])["batch"], 3)
        audit = run_json("audit", self.journal)
        self.assertEqual((audit["records"], audit["missing"], audit["runs"]), (192, 0, 1))
        self.feed("--position-in", self.position)
        audit = run_json("audit", self.journal, "--files", self.data)
        found = [audit[key] for key in ("records", "missing", "repeated", "rolled_back", "damaged")]
        self.assertEqual(found, [500, 0, 0, 0, 0])
        self.assertEqual((audit["runs"], audit["complete_batches"]), (2, 8))
        self.assertTrue(audit["ended"])

    def test_what_came_behind_the_position_is_rolled_back(self):
        self.feed("--max-batches", 3)
        saved = self.folder / "saved"
        saved.write_bytes(self.position.read_bytes())
        self.feed("--position-in", self.position, "--max-batches", 4)
        self.feed("--position-in", saved)
        audit = run_json("audit", self.journal)
        self.assertEqual((audit["records"], audit["rolled_back"]), (500, 256))
        self.assertEqual((audit["missing"], audit["repeated"], audit["runs"]), (0, 0, 3))

    def test_a_compressed_file_goes_on_under_both_policies(self):
        packed = self.folder / "packed.tfrecord.gz"
        packed.write_bytes(gzip.compress(self.data.read_bytes()))
        self.data = packed
        for policy in ("fail", "skip"):
            with self.subTest(policy):
                self.journal = self.folder / f"journal-{policy}"
                self.assertEqual(self.feed("--on-damage", policy, "--max-batches", 3)["records"], 192)
                report = self.feed("--on-damage", policy, "--position-in", self.position)
                self.assertEqual(report["records"], 308)
                self.assertIn("by reading", report["restored"])
                audit = run_json("audit", self.journal, "--files", packed)
                self.assertEqual((audit["records"], audit["missing"], audit["repeated"]), (500, 0, 0))

    def test_ranks_without_rows_of_a_batch_stand_where_the_others_do(self):
        data = self.write("short.tfrecord", [b"%d" % i * 20 for i in range(60)])
        for batch, number_of_batches in ((200, 6), (40, 12)):
            journals = [self.folder / f"{batch}-{rank}.journal" for rank in range(2)]
            positions = [self.folder / f"{batch}-{rank}.position" for rank in range(2)]

            def feed(rank, *words):
                return run_json("feed", data, "--batch", batch, "--passes", 6, "--rank", rank, "--ranks", 2,
                                "--journal", journals[rank], "--position-out", positions[rank],
                                "--no-digest", *words)

            def same_position():
                texts = {path.read_text() for path in positions}
                self.assertEqual(len(texts), 1, texts)
                return json.loads(texts.pop())["batch"]

            for rank in range(2):
                feed(rank, "--max-batches", 2)
            self.assertEqual(same_position(), 2)
            audit = run_json("audit", *journals, "--files", data)
            self.assertEqual((audit["records"], audit["complete_batches"]), (120 if batch == 200 else 60, 2))
            saved = self.folder / f"{batch}.saved"
            saved.write_bytes(positions[1].read_bytes())
            for rank in range(2):
                feed(rank, "--position-in", saved)
            self.assertEqual(same_position(), number_of_batches)
            audit = run_json("audit", *journals, "--files", data)
            self.assertEqual((audit["records"], audit["missing"], audit["repeated"]), (360, 0, 0))

    def test_a_rank_without_any_row_goes_as_far_as_it_is_told(self):
        data = self.write("short.tfrecord", [b"%d" % i * 20 for i in range(60)])
        for rank, records in ((0, 120), (1, 0), (2, 0)):
            report = run_json("feed", data, "--batch", 300, "--passes", 0, "--rank", rank, "--ranks", 3,
                              "--max-batches", 2)
            self.assertEqual((report["records"], json.loads(report["position"])["batch"]), (records, 2))

    def test_batches_that_no_run_delivered_are_missing(self):
        # As two runs leave it of which the second went on from too far, from the end.
        self.feed("--passes", 3, "--max-batches", 3)
        ahead = json.loads(self.position.read_text())
        ahead["batch"] = 24
        self.position.write_text(json.dumps(ahead))
        self.feed("--passes", 3, "--position-in", self.position)
        audit = run_json("audit", self.journal, "--files", self.data, status=1)
        self.assertEqual((audit["records"], audit["missing"]), (192, 1500 - 192))

    def test_what_is_no_position_is_refused_at_once(self):
        words = ["feed", self.data, "--batch", 64, "--shuffle-mode", "global", "--no-digest"]
        run_json(*words, "--max-batches", 3, "--position-out", self.position)
        text = self.position.read_text()
        self.assertIn('"batch":3', text)
        run_json(*words, "--position-in", self.position)
        sparse = self.folder / "sparse"
        with open(sparse, "wb") as file:
            file.truncate(6 << 30)
        for path in (sparse, "/dev/zero", self.folder, self.folder / "none", self.data):
            with self.subTest(path):
                self.assert_refused(2, *words, "--position-in", path)
        deep = "[" * 200_000 + "]" * 200_000
        changed = [text.replace('"batch":3', f'"batch":{other}')
                   for other in ("-1", "1.9", "1e300", 2 ** 64, 2 ** 64 - 1, 9, "true", deep)]
        for other in (*changed, '{"ringfeed_position":' + deep + "}", text * 2, text[:-9], ""):
            with self.subTest(other[:60]):
                wrong = self.folder / "wrong"
                wrong.write_text(other)
                self.assert_refused(2, *words, "--position-in", wrong)

    def test_many_files_are_counted_together_and_a_damaged_one_by_itself(self):
        self.data = self.folder / "part-*"
        for i in range(30):
            self.write(f"part-{i:02}", [b"%d" % i * 20 for _ in range(10 + i)])
        self.feed("--format", "tfrecord", "--on-damage", "skip")
        audit = run_json("audit", self.journal, "--files", self.data, "--format", "tfrecord")
        self.assertEqual((audit["records"], audit["missing"], audit["repeated"]), (735, 0, 0))
        part = self.folder / "part-07"
        data = bytearray(part.read_bytes())
        data[2] ^= 1  # of a length: nobody knows how many records are lost
        part.write_bytes(data)
        run("audit", self.journal, "--files", self.data, "--format", "tfrecord")
        (self.folder / "part-08").unlink()
        absent = run("audit", self.journal, "--files", *(self.folder / f"part-{i:02}" for i in range(30)),
                     "--format", "tfrecord")
        self.assertEqual(absent.returncode, 2)
        self.assertIn("part-08", absent.stderr)

    def test_a_number_of_batches_that_nothing_has_ends_the_audit(self):
        self.feed("--max-batches", 3)
        for line in (b"e 1099511627776", b"e 18446744073709551615"):
            journal = self.folder / "changed"
            journal.write_bytes(self.journal.read_bytes() + line + b" *%08x\n" % crc32c(line))
            audit = run_json("audit", journal, "--files", self.data, status=1)
            self.assertGreater(audit["missing"], 2 ** 40)

    def damage(self, record):
        """Makes the checksum of a payload wrong."""
        data = bytearray(self.data.read_bytes())
        begin = sum(16 + len(b"%d" % i * 20) for i in range(record))
        data[begin + 12] ^= 1
        self.data.write_bytes(data)

    def test_a_batch_that_holds_only_a_damaged_record_is_accounted_for(self):
        for record in (0, 250, 499):
            with self.subTest(record):
                self.data = self.write("a.tfrecord", [b"%d" % i * 20 for i in range(500)])
                self.damage(record)
                self.journal = self.folder / f"journal-{record}"
                words = ["feed", self.data, "--batch", 1, "--journal", self.journal, "--on-damage=skip",
                         "--no-digest"]
                # Either may have met the damage, which is read ahead of what is delivered.
                for part in (["--max-batches", 251, "--position-out", self.position],
                             ["--position-in", self.position]):
                    self.assertIn(run(*words, *part).returncode, (0, 1))
                for files in ([], ["--files", self.data]):
                    audit = run_json("audit", self.journal, *files)
                    found = [audit[key] for key in ("records", "damaged", "missing", "repeated")]
                    self.assertEqual(found, [499, 1, 0, 0])

    def test_a_batch_that_a_failure_cuts_short_comes_again(self):
        self.data = self.write("a.tfrecord", [b"%d" % i * 20 for i in range(142)])
        self.damage(28)
        words = ["feed", self.data, "--batch", 600, "--no-digest", "--max-batches", 1,
                 "--journal", self.journal, "--position-out", self.position]
        for again in ([], ["--position-in", self.position]):
            report = run_json(*words, *again, status=1)
            self.assertEqual((report["records"], report["batches"]), (28, 1))
            self.assertIn("record 28", report["error"])
            self.assertEqual(json.loads(self.position.read_text())["batch"], 0)
            audit = run_json("audit", self.journal, "--files", self.data)
            found = [audit[key] for key in ("records", "missing", "repeated", "complete_batches")]
            self.assertEqual(found, [28, 0, 0, 0])
        report = run_json(*words, "--position-in", self.position, "--on-damage=skip", status=1)
        self.assertEqual(report["records"], 141)
        audit = run_json("audit", self.journal, "--files", self.data)
        found = [audit[key] for key in ("records", "damaged", "missing", "repeated", "rolled_back")]
        self.assertEqual(found, [141, 1, 0, 0, 56])

    def test_records_behind_damage_without_a_number_are_the_data_sets(self):
        # A run that may not skip it counts a length that is wrong as one record.
        self.data = self.write("a.tfrecord", [b"%d" % i * 20 for i in range(9)])
        data = bytearray(self.data.read_bytes())
        data[3 * (16 + 20) + 8] ^= 1
        self.data.write_bytes(data)
        last = 0
        for seed in range(12):
            with self.subTest(seed):
                self.journal = self.folder / f"journal-{seed}"
                report = run_json("feed", self.data, "--batch", 1, "--shuffle-mode", "block", "--shuffle", 20,
                                  "--seed", seed, "--journal", self.journal, "--no-digest", status=1)
                audit = run_json("audit", self.journal, "--files", self.data)
                found = [audit[key] for key in ("records", "missing", "repeated", "rolled_back")]
                self.assertEqual(found, [report["records"], 0, 0, 0])
                last += " 0:8 " in self.journal.read_text()
        self.assertGreater(last, 0)

    def test_lost_files_are_not_exact_where_nobody_knows_how_many_records_there_are(self):
        gone = self.folder / "gone.tfrecord"
        words = ["feed", gone, self.data, "--batch", 64, "--no-digest", "--on-damage=skip"]
        run_json(*words, "--journal", self.journal, status=1)
        audit = run_json("audit", self.journal, status=1)
        self.assertEqual((audit["records"], audit["missing"], audit["reported_damage"]), (500, 0, 1))
        self.assertFalse(audit["exact"])
        self.assert_refused(2, "audit", self.journal, "--files", gone, self.data)
        text = run("audit", self.journal)
        self.assertIn("lost: ", text.stdout)
        self.assertIn("NOT every record exactly once", text.stdout)

    def test_a_lost_entry_is_named(self):
        self.feed()
        lines = self.journal.read_bytes().splitlines(keepends=True)
        del lines[3]
        self.journal.write_bytes(b"".join(lines))
        audit = run_json("audit", self.journal, "--files", self.data, status=1)
        self.assertEqual((audit["missing"], audit["records"]), (64, 436))
        text = run("audit", self.journal, "--files", self.data)
        self.assertEqual(text.returncode, 1)
        self.assertIn("missing: pass 0, file 0, record 128\n", text.stdout)
        self.assertIn("NOT every record exactly once", text.stdout)

    def test_what_is_no_journal_is_refused(self):
        self.assert_refused(2, "audit", self.data)
        self.assert_refused(2, "audit", self.folder / "missing")
        self.assert_refused(2, "feed", self.data, "--journal", self.data)

    def test_empty_journals_alone_prove_nothing(self):
        empty = self.folder / "empty"
        empty.write_bytes(b"")
        audit = run_json("audit", empty, status=1)
        self.assertEqual((audit["exact"], audit["empty_journals"]), (False, 1))
        self.assertIn("no journal has an entry", run("audit", empty).stdout)

    def test_an_empty_journal_beside_others_is_of_a_run_that_was_killed_before_it_began(self):
        empty = self.folder / "empty"
        empty.write_bytes(b"")
        self.feed()
        result = run("audit", self.journal, empty)
        self.assertEqual(result.returncode, 0)
        self.assertIn("1 of them empty", result.stdout)

    def test_epochs_are_not_taken_for_each_other(self):
        """What one of them left out would be made up for by the other."""
        path = self.write("a.tfrecord", [str(i).encode() for i in range(100)])
        order = ["--batch", 10, "--shuffle-mode", "global", "--seed", 1]
        journal = self.folder / "journal"
        run_json("feed", path, *order, "--epoch", 0, "--max-batches", 3, "--journal", journal)
        run_json("feed", path, *order, "--epoch", 1, "--journal", journal)
        result = run("audit", journal)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("a journal for each epoch", result.stderr)

    def test_options_that_do_nothing_are_refused(self):
        for words in (["--rank", 1], ["--ranks", 2], ["--rank", 2, "--ranks", 2],
                      ["--shuffle-mode", "block"], ["--position-every", 3],
                      ["--devices", "emu:1", "--max-batches", 2], ["--verify", "--max-batches", 2]):
            with self.subTest(words):
                self.assert_refused(2, "feed", self.data, *words)


if __name__ == "__main__":
    main()
