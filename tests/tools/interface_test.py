#!/usr/bin/env python3
"""Names of commands, options and fields are an interface: what is listed here stays."""

import gzip
import re

from command_line import CommandTest, main, run, run_json

OPTIONS = {
    "make": "--kind --bytes --records --files --record-bytes --seed --threads --force --json",
    "info": "--format --json",
    "devices": "--devices --json",
    "digest": "--format --on-damage --max-record-bytes --part --json",
    "index": "--format --folder --part --lengths --check --rebuild --manifest --merge --json",
    "subset": "--output --format --numbers --units --parse --field --subset --json",
    "plan": "--format --subset --parse --field --pack --tokens --batch --segment --fit --cost --alike "
    "--ranks --seed --json",
    "verify": "--format --columns --on-damage --max-record-bytes --part --strict --json",
    "cache": "--verify --trim --json",
    "which": "--format --columns --nulls --subset --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --epoch "
    "--passes --cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --rank --ranks "
    "--pack --tokens --field --segment --fit --cost --alike --number --position-in --json",
    "cat": "--columns --nulls --as --parse --number --format --on-damage --max-record-bytes",
    "convert": "--columns --nulls --from --to --records-per-file --on-damage --max-record-bytes --part --parse --force --json",
    "encode": "--input --to --flush-ms --on-damage",
    "decode": "--format --on-damage --max-record-bytes",
    "feed": "--format --columns --nulls --subset --cache --cache-bytes --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --passes "
    "--cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --threads --io "
    "--block-bytes --in-flight-bytes --direct --no-direct --slots --arena --digest --no-digest "
    "--verify --json --devices --step-ms --device-slots --distribution --last-step --transfer "
    "--transfer-costs --trace "
    "--epoch --rank --ranks --split-by-files --max-batches --position-in --position-out "
    "--position-every --journal --tuned --reopen-until",
    "audit": "--files --format --json",
    "shuffle-quality": "--format --columns --nulls --parse --batch --shuffle --shuffle-mode --seed --epoch --cycle "
    "--stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --label --classes --json",
    "run": "--grammar --json",
    "top": "--at --interval --once --json",
    "trace": "--out --json",
    "bench": "--format --columns --nulls --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --epoch "
    "--cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --bytes --seconds "
    "--gpu --devices --costs-out --json",
    "tune": "--format --columns --nulls --parse --batch --drop-remainder --shuffle --shuffle-mode --seed --epoch "
    "--cycle --stripe-bytes --on-damage --max-damaged --strict --max-record-bytes --bytes --seconds --pairs "
    "--devices --step-ms --distribution --last-step --transfer-costs --cache --out --report --json",
}
VERIFY_FIELDS = "file format intact records payload_bytes damaged_records damaged warnings"
DIGEST_FIELDS = "file records payload_bytes damaged_records damaged sha256 multiset"
FEED_FIELDS = (
    "records payload_bytes batches passes passes_ended interrupted wall_s cpu_s gb_per_s "
    "cpu_s_per_gb first_batch_ms peak_rss_bytes arena_bytes arena_peak_bytes pages read_bytes read_per_byte "
    "dropped_records filtered_records late_wakes damaged_records lost_ranges files_read files_refused files_missing damaged warnings io remote stages bottleneck advice digests order_digest multiset "
    "verified rank ranks ranks_source order restored position no_position"
)


class InterfaceTest(CommandTest):
    def test_every_command_has_its_options(self):
        for command, options in OPTIONS.items():
            with self.subTest(command):
                help_text = run(command, "--help-all").stdout
                listed = help_text.split("\nOptions:\n")[1]
                found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", listed))
                self.assertEqual(found - {"--help", "--help-all"}, set(options.split()))

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
        empty = self.folder / "empty"
        empty.mkdir()
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
            ["feed", empty],
            ["make", self.folder / "made", "--kind", "poems"],
        ):
            with self.subTest(words):
                self.assert_refused(2, *words)

    def test_a_set_up_that_fails_prints_no_report(self):
        path, packed = self.write("a.tfrecord", [b"one"]), self.folder / "a.tfrecord.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        for words in (
            ["feed", self.folder / "missing"],
            ["feed", self.folder / "missing", "--json"],
            ["feed", packed, "--shuffle", "global"],
            ["feed", path, self.folder / "*.nothing"],
            ["digest", self.folder / "missing"],
            ["cat", self.folder / "missing"],
            ["shuffle-quality", self.folder / "missing", "--json"],
            ["bench", self.folder / "missing", "--json"],
        ):
            with self.subTest(words):
                result = run(*words)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(result.stderr)

    def test_a_size_takes_a_unit_in_every_option_and_in_rows(self):
        rows = self.folder / "a.rows"
        rows.write_bytes(bytes(1 << 17))
        words = ["feed", rows, "--format", "rows:64k,stride=64KiB", "--batch", 1, "--stripe-bytes", "64k", "--arena", "64m"]
        self.assertEqual(run_json(*words, "--max-record-bytes", "64k")["records"], 2)
        self.assert_refused(1, *words, "--max-record-bytes", "63k")
        made = run_json("make", self.folder / "d", "--kind", "bytes", "--bytes", "64k", "--record-bytes", "1k")
        self.assertGreater(made["payload_bytes"], 1 << 15)

    def test_no_record_longer_than_allowed_is_taken(self):
        path = self.write("a.tfrecord", [b"x" * 2000])
        for words in (["feed", path], ["verify", path], ["cat", path], ["digest", path], ["decode", path],
                      ["convert", path, self.folder / "b.recordio", "--force"]):
            with self.subTest(words):
                self.assertEqual(run(*words, "--max-record-bytes", "2k").returncode, 0)
                refused = run(*words, "--max-record-bytes", "1k")
                self.assertEqual(refused.returncode, 1)
                self.assertIn("max_record_bytes", refused.stdout + refused.stderr)

    def test_a_mode_of_shuffling_needs_one_option(self):
        path = self.write("a.tfrecord", [b"%d" % i for i in range(40)])
        words = ["feed", path, "--batch", 8, "--seed", 7]
        for mode in ("global", "stripes", "none"):
            short, long = (run_json(*words, option, mode) for option in ("--shuffle", "--shuffle-mode"))
            self.assertEqual(short["order_digest"], long["order_digest"])
        self.assertEqual(run_json(*words, "--shuffle", "stripes")["records"], 40)
        self.assertIn("say it once", self.assert_refused(2, *words, "--shuffle", "global", "--shuffle-mode", "window"))
        self.assert_refused(2, *words, "--shuffle", "gobal")

    def test_a_folder_is_its_files(self):
        folder = self.folder / "d"
        (folder / "deep").mkdir(parents=True)
        self.write("d/b.tfrecord", [b"two", b"three"])
        self.write("d/a.tfrecord", [b"one"])
        self.write("d/deep/c.tfrecord", [b"four"])
        run("index", folder)  # which is beside the files, and hidden
        self.assertEqual(run("cat", folder).stdout, "one\ntwo\nthree\nfour\n")
        self.assertEqual(run_json("feed", folder, "--cycle", 1, "--shuffle", "global")["records"], 4)
        for command in ("digest", "verify", "info"):
            names = [entry["file"] for entry in run_json(command, folder)]
            self.assertEqual(names, [str(folder / name) for name in ("a.tfrecord", "b.tfrecord", "deep/c.tfrecord")])
        self.assertEqual(run("convert", folder, self.folder / "all.recordio").returncode, 0)
        self.assertEqual(run_json("digest", self.folder / "all.recordio")["records"], 4)

    def test_an_address_is_told_how_to_be_read(self):
        path = self.write("a.tfrecord", [b"one"])
        for address in ("ftp://host/a.tfrecord", "abfs://bucket/*", "memory://x/y.jsonl"):
            for words in (["feed", address], ["info", address], ["cat", address], ["verify", address], ["digest", address],
                          ["index", address], ["convert", address, path], ["convert", path, address],
                          ["convert", path, address + "/", "--to", "recordio"], ["make", address]):
                with self.subTest(words):
                    self.assertIn("copy", self.assert_refused(2, *words))
        self.assertIn(f"the path alone, {path}", self.assert_refused(2, "feed", f"file://{path}"))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["a.tfrecord"])

    def test_fields_of_digest(self):
        path = self.write("a.tfrecord", [b"one", b""])
        self.assertEqual(list(run_json("digest", path)), DIGEST_FIELDS.split())

    def test_fields_of_verify(self):
        path = self.write("a.tfrecord", [b"one", b""])
        self.assertEqual(list(run_json("verify", path)), VERIFY_FIELDS.split())

    def test_fields_of_feed(self):
        path = self.write("a.tfrecord", [b"one", b""])
        report = run_json("feed", path)
        self.assertEqual(list(report), ["version", "command", *FEED_FIELDS.split()])
        self.assertEqual(list(report["io"][0]), ["files", "first_file", "path", "direct", "resident", "reason"])
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
