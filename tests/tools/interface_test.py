#!/usr/bin/env python3
"""Names of commands, options and fields are an interface: what is listed here stays."""

import re

from command_line import CommandTest, main, run, run_json

OPTIONS = {
    "make": "--kind --bytes --records --files --record-bytes --seed --threads --force --json",
    "info": "--format --json",
    "devices": "--devices --json",
    "digest": "--format --on-damage --json",
    "verify": "--format --on-damage --strict --json",
    "cat": "--as --parse --format --on-damage",
    "convert": "--from --to --records-per-file --on-damage --force --json",
    "encode": "--input --to --flush-ms --on-damage",
    "decode": "--format --on-damage",
    "feed": "--format --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --passes "
    "--cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --threads --io "
    "--block-bytes --in-flight-bytes --direct --no-direct --slots --arena --digest --no-digest "
    "--verify --json --devices --step-ms --device-slots --distribution --last-step --transfer "
    "--transfer-costs --trace "
    "--epoch --rank --ranks --split-by-files --max-batches --position-in --position-out "
    "--position-every --journal --tuned --reopen-until",
    "audit": "--files --format --json",
    "shuffle-quality": "--format --parse --batch --shuffle --shuffle-mode --seed --epoch --cycle "
    "--stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --label --classes --json",
    "run": "--grammar --json",
    "top": "--at --interval --once --json",
    "trace": "--out --json",
    "bench": "--format --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --epoch "
    "--cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --bytes --seconds "
    "--gpu --devices --costs-out --json",
    "tune": "--format --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --epoch "
    "--cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --bytes --seconds --pairs "
    "--devices --step-ms --distribution --last-step --transfer-costs --cache --out --report --json",
}
VERIFY_FIELDS = "file format intact records payload_bytes damaged_records damaged warnings"
DIGEST_FIELDS = "file records payload_bytes damaged_records damaged sha256 multiset"
FEED_FIELDS = (
    "records payload_bytes batches passes passes_ended interrupted wall_s cpu_s gb_per_s "
    "cpu_s_per_gb first_batch_ms peak_rss_bytes arena_bytes arena_peak_bytes pages read_bytes read_per_byte "
    "dropped_records filtered_records late_wakes damaged_records lost_ranges files_read files_refused files_missing damaged warnings io stages bottleneck advice digests order_digest multiset "
    "verified rank ranks ranks_source order restored position no_position"
)


class InterfaceTest(CommandTest):
    def test_every_command_has_its_options(self):
        for command, options in OPTIONS.items():
            with self.subTest(command):
                help_text = run(command, "--help").stdout
                listed = help_text.split("\nOptions:\n")[1]
                found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", listed))
                self.assertEqual(found - {"--help"}, set(options.split()))

    def test_help_teaches_by_examples(self):
        for command in OPTIONS:
            with self.subTest(command):
                result = run(command, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertIn(f"  ringfeed {command} ", result.stdout.split("Usage:")[0] + " ")
        self.assertEqual(run("--help").returncode, 0)

    def test_help_names_every_format_and_parser(self):
        path = self.write("a.tfrecord", [b"one"])
        unknown = run("digest", path, "--format", "nonsense").stderr.split("there are: ")[1]
        formats = unknown.split(";")[0].split(", ")
        self.assertGreater(len(formats), 11)
        for command in ("feed", "info", "digest", "verify", "cat", "decode", "convert"):
            help_text = " ".join(run(command, "--help").stdout.split())
            for name in formats:
                self.assertRegex(help_text, rf"\b{name}\b", (command, name))
        grammar = run("feed", path, "--parse", "nonsense: x").stderr.split("expected ")[1]
        grammar = grammar.split(", as in")[0]
        self.assertGreater(grammar.count('"'), 20)
        for command in ("feed", "cat"):
            for parser in re.findall(r'"(\w+)', grammar):
                self.assertRegex(run(command, "--help").stdout, rf"\b{parser}\b", (command, parser))

    def test_a_slip_is_answered_with_what_was_meant(self):
        path = self.write("a.tfrecord", [b"one"])
        for words, wanted in (
            (["fead", path], "there is no command fead; did you mean feed?"),
            (["feed", path, "--shufle-mode", "global"], "there is no option --shufle-mode; did you mean --shuffle-mode?"),
            (["feed", path, "--shufle-mode=global"], "there is no option --shufle-mode; did you mean --shuffle-mode?"),
            (["feed", path, "--on-damge", "skip", "--jsn"], "there is no option --on-damge; did you mean --on-damage?"),
            (["--jsn", "feed", path], "there is no option --jsn; did you mean --json?"),
            (["feed", path, "--on-damage", "skp"], '--on-damage: "skp" is none of fail, skip; did you mean skip?'),
            (["verify", path, "--on-damage=Skip"], '--on-damage: "Skip" is none of fail, skip; did you mean skip?'),
            (["feed", path, "--shuffle-mode", "gobal"],
             '--shuffle-mode: "gobal" is none of block, global, none, stripes, window; did you mean global?'),
            (["feed", path, "--io", "0"], '--io: "0" is none of auto, mmap, pread, uring'),
            (["cat", path, "--as", "jsno"], '--as: "jsno" is none of base64, hex, json, length, sha256, text; did you mean json?'),
            (["train", path], "there is no command train"),
            (["feed", path, "--prefetch-factor", "2"], "there is no option --prefetch-factor"),
        ):
            with self.subTest(words):
                result = run(*words)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertEqual(result.stderr, f"{wanted}\nRun with --help for more information.\n")

    def test_what_is_set_up_wrongly_is_told_in_three_lines(self):
        path = self.write("a.tfrecord", [b"one"])
        unknown = self.folder / "a.bin"
        unknown.write_bytes(b"\x01\x80\xff\xfe")
        for words in (
            [],
            ["feed"],
            ["fead", path],
            ["feed", path, "--batch"],
            ["feed", path, "--batch", "many"],
            ["feed", path, "--device-slots", "3"],
            ["feed", path, "--on-damage", "skp"],
            ["feed", path, "--format", "nonsense"],
            ["feed", path, "--parse", "nonsense: x"],
            ["feed", path, "--parse", "example: x=q4"],
            ["feed", path, "--parse", "csv: -columns=0 a=f4"],
            ["feed", path, "--devices", "cuda:x"],
            ["feed", path, "--devices", "tpu"],
            ["feed", path, "--rank", "7", "--ranks", "2"],
            ["digest", unknown],
            ["feed", self.folder / "none-*"],
            ["convert", path, self.folder / "b.parquet"],
            ["make", self.folder / "made", "--kind", "imgae"],
            ["run", self.folder / "no.program"],
        ):
            with self.subTest(words):
                result = run(*words)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr)
                self.assertLessEqual(len(result.stderr.splitlines()), 3, result.stderr)
                self.assertLess(len(result.stderr), 500, result.stderr)

    def test_a_number_is_taken_as_it_is_written_or_refused(self):
        path = self.write("a.tfrecord", [b"%d" % i for i in range(40)])

        def digest(seed):
            return run_json("feed", path, "--batch", 8, "--shuffle-mode", "global", "--seed", seed)["order_digest"]

        self.assertEqual(digest("8"), digest(8))
        self.assertEqual(len({digest(seed) for seed in (0, 8, 10, 2**64 - 1)}), 4)
        no_number = ("010", "-1", "+1", "0x10", "1.0", "1e3", " 1", "1_000", "1'000", str(2**64), str(10**22), "many")
        for option in ("--seed", "--epoch", "--passes", "--cycle", "--batch", "--shuffle", "--slots", "--max-batches",
                       "--max-damaged"):
            for number in no_number:
                with self.subTest([option, number]):
                    self.assert_refused(2, "feed", path, option, number)
        for option, numbers in (("--threads", ("010", "0x1", "1.5", str(2**63), str(2**32))),
                                ("--rank", ("01", "-1", "1.5")), ("--ranks", ("01", "0", str(2**32 + 1))),
                                ("--stripe-bytes", ("-1", "1.5M", "16EiB", "1e6", "many", "0x10")),
                                ("--arena", ("-1", "many", "1KiBs")),
                                ("--reopen-until", ("nan", "inf", "0x1p3", "1e999", "soon", ""))):
            for number in numbers:
                with self.subTest([option, number]):
                    self.assert_refused(2, "feed", path, option, number)
        for words in (["make", self.folder / "made", "--seed", "-1"], ["make", self.folder / "made", "--bytes", "-1"],
                      ["tune", path, "--seed", "010"]):
            with self.subTest(words):
                self.assert_refused(2, *words)

    def test_a_version_can_be_asked_for(self):
        self.assertRegex(run("--version").stdout, r"^\d+\.\d+\.\d+\n$")

    def test_usage_errors_end_with_status_2(self):
        path = self.write("a.tfrecord", [b"one"])
        for words in (
            [],
            ["unknown"],
            ["digest"],
            ["digest", path, "--unknown"],
            ["verify"],
            ["convert", path],
            ["encode", self.folder / "out", "--to", "nonsense"],
            ["digest", path, "--on-damage=perhaps"],
            ["cat", path, "--as", "poem"],
            ["feed", path, "--io", "telepathy"],
            ["feed", path, "--parse", "nonsense: x"],
            ["feed", path, "--format", "nonsense"],
            ["feed", path, "--batch", "-3"],
            ["feed", self.folder / "missing.tfrecord"],
            ["digest", self.folder / "missing.tfrecord"],
            ["cat", self.folder / "missing.tfrecord"],
            ["decode", self.folder / "missing.tfrecord"],
            ["encode", self.folder / "out", "--input", self.folder / "missing"],
            ["feed", self.folder / "*.nothing"],
            ["feed", self.folder],
            ["make", self.folder / "made", "--kind", "poems"],
        ):
            with self.subTest(words):
                self.assert_refused(2, *words)

    def test_fields_of_digest(self):
        path = self.write("a.tfrecord", [b"one", b""])
        self.assertEqual(list(run_json("digest", path)), DIGEST_FIELDS.split())

    def test_fields_of_verify(self):
        path = self.write("a.tfrecord", [b"one", b""])
        self.assertEqual(list(run_json("verify", path)), VERIFY_FIELDS.split())

    def test_fields_of_feed(self):
        path = self.write("a.tfrecord", [b"one", b""])
        report = run_json("feed", path)
        self.assertEqual(list(report), FEED_FIELDS.split())
        self.assertEqual(list(report["io"][0]), ["file", "path", "direct", "resident", "reason"])
        self.assertEqual(list(report["stages"][0]), ["name", "busy_s", "wait_s", "waits_for"])

    def test_fields_of_damage(self):
        path = self.write("a.tfrecord", [b"one", b"two"])
        data = bytearray(path.read_bytes())
        data[13] ^= 1
        path.write_bytes(data)
        for command in ("digest", "verify", "feed"):
            damaged = run_json(command, path, "--on-damage=skip", status=1)["damaged"]
            self.assertEqual(list(damaged[0]), ["file", "begin", "end", "reason"])

    def test_nothing_is_drawn_where_there_is_no_terminal(self):
        path = self.write("a.tfrecord", [b"one"] * 1000)
        made = self.folder / "made"
        for words in (["feed", path], ["digest", path], ["verify", path], ["make", made, "--bytes", "1M"]):
            self.assertEqual(run(*words).stderr, "")


if __name__ == "__main__":
    main()
