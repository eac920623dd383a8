#!/usr/bin/env python3
"""`ringfeed feed --journal` and `ringfeed audit`: runs that end early and go on from their position."""

import json

from command_line import CommandTest, main, run, run_json


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

    def test_options_that_do_nothing_are_refused(self):
        for words in (["--rank", 1], ["--ranks", 2], ["--rank", 2, "--ranks", 2],
                      ["--shuffle-mode", "block"], ["--position-every", 3],
                      ["--devices", "emu:1", "--max-batches", 2], ["--verify", "--max-batches", 2]):
            with self.subTest(words):
                self.assert_refused(2, "feed", self.data, *words)


if __name__ == "__main__":
    main()
