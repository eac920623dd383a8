#!/usr/bin/env python3
"""`ringfeed make`: exact, the same for the same seed, readable as it says."""

import hashlib

from command_line import CommandTest, main, payloads_of, run, run_json

KINDS = ("image", "table", "features", "bytes", "rows", "raw")


class MakeTest(CommandTest):
    def make(self, name, *words):
        return run_json("make", self.folder / name, *words)

    def content(self, name):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted((self.folder / name).iterdir())}

    def test_every_kind_is_fed_as_its_report_says(self):
        for kind in KINDS:
            with self.subTest(kind):
                made = self.make(kind, "--kind", kind, "--records", 30)
                self.assertEqual(made["records"], 30)
                fed = run_json("feed", *sorted((self.folder / kind).iterdir()), "--format",
                               made["format"], "--parse", made["parse"], "--batch", 8)
                self.assertEqual(fed["records"], 30)
                self.assertEqual(fed["payload_bytes"], made["payload_bytes"])

    def test_the_seed_alone_decides_what_is_made(self):
        for name, words in (("a", ["--threads", 1]), ("b", ["--threads", 3]), ("c", ["--seed", 1])):
            self.make(name, "--kind", "table", "--records", 1000, "--files", 4, *words)
        self.assertEqual(self.content("a"), self.content("b"))
        self.assertNotEqual(self.content("a"), self.content("c"))
        self.assertEqual(len(set(self.content("a").values())), 4)

    def test_about_as_many_bytes_as_asked_for(self):
        made = self.make("a", "--bytes", "8MiB", "--files", 2)
        self.assertTrue(8 << 20 <= made["payload_bytes"] <= 12 << 20)
        sizes = [len(p) for path in (self.folder / "a").iterdir() for p in payloads_of(path)]
        self.assertTrue(70_000 < sum(sizes) / len(sizes) < 150_000)
        self.assertGreater(len(set(sizes)), len(sizes) / 2)

    def test_nothing_is_written_over_without_force(self):
        self.make("a", "--records", 2, "--files", 1)
        before = self.content("a")
        self.assert_refused(2, "make", self.folder / "a", "--records", 2, "--files", 1, "--seed", 9)
        self.assertEqual(self.content("a"), before)
        self.make("a", "--records", 2, "--files", 1, "--seed", 9, "--force")
        self.assertNotEqual(self.content("a"), before)

    def test_a_folder_that_cannot_be_made_is_named(self):
        (self.folder / "file").write_text("")
        self.assertIn("file", self.assert_refused(2, "make", self.folder / "file" / "below"))

    def test_options_that_do_not_go_together_are_refused(self):
        self.assert_refused(2, "make", self.folder, "--bytes", "1M", "--records", 3)
        self.assert_refused(2, "make", self.folder, "--kind", "table", "--record-bytes", 100)
        self.assert_refused(2, "make", self.folder, "--kind", "raw", "--files", 3)

    def test_records_larger_than_any_memory_are_refused(self):
        self.assertIn("--record-bytes", self.assert_refused(2, "make", self.folder, "--kind", "bytes",
                                                            "--record-bytes", "8EiB"))

    def test_text_says_how_to_feed_it(self):
        result = run("make", self.folder / "a", "--records", 3, "--files", 1)
        self.assertIn("ringfeed feed", result.stdout)


if __name__ == "__main__":
    main()
