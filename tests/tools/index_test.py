#!/usr/bin/env python3
"""`ringfeed index`: numbers of records beside their files, made once and checked."""

import base64
import gzip
import hashlib
import json
import os

from command_line import BINARY, DATA, CommandTest, main, run, run_json

PAYLOADS = [bytes([i % 256]) * (100 + i % 50) for i in range(3000)]


class IndexTest(CommandTest):
    def test_is_made_once_and_opened_then(self):
        path = self.write("a.tfrecord", PAYLOADS)
        kept = path.with_name(".a.tfrecord.rfx")
        made = run_json("index", path)
        self.assertEqual((made["origin"], made["records"], made["format"]), ("built", 3000, "tfrecord"))
        self.assertEqual((made["index"], made["index_bytes"]), (str(kept), kept.stat().st_size))
        again = run_json("index", path)
        self.assertEqual((again["origin"], again["records"]), ("opened", 3000))
        self.assertEqual(run_json("index", path, "--rebuild")["origin"], "built")

    def test_check_tells_what_is_missing_stale_or_damaged(self):
        path = self.write("a.tfrecord", PAYLOADS)
        kept = path.with_name(".a.tfrecord.rfx")
        self.assertIn("not_found", run_json("index", path, "--check", status=1)["error"])
        self.assertFalse(kept.exists())
        run_json("index", path)
        good = kept.read_bytes()
        self.assertEqual(run_json("index", path, "--check")["origin"], "checked")
        for place in (8200, 40, len(good) - 1000):
            kept.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1:])
            self.assertIn("damaged", run_json("index", path, "--check", status=1)["error"])
        kept.write_bytes(good)
        os.utime(path, ns=(1, 1))
        self.assertIn("written since", run_json("index", path, "--check", status=1)["error"])
        self.assertEqual(kept.read_bytes(), good)
        self.assertEqual(run_json("index", path)["origin"], "rebuilt")

    def test_a_folder_keeps_them_apart_from_the_data(self):
        path = self.write("a.tfrecord", PAYLOADS)
        folder = path.parent / "indexes"
        folder.mkdir()
        made = run_json("index", path, "--folder", folder)
        self.assertEqual(made["origin"], "built")
        self.assertEqual([str(entry) for entry in folder.iterdir()], [made["index"]])
        self.assertFalse(path.with_name(".a.tfrecord.rfx").exists())
        self.assertEqual(run_json("index", path, "--folder", folder)["origin"], "opened")
        self.assertEqual(run_json("index", path, "--folder", folder, "--check")["origin"], "checked")

    def test_small_files_have_one_index_and_it_is_told_where(self):
        paths = [self.write(f"{i}.tfrecord", PAYLOADS[i:i + 9]) for i in range(5)]
        kept = paths[0].with_name(".rfx")
        reports = run_json("index", *paths)
        self.assertEqual({report["index"] for report in reports}, {str(kept)})
        self.assertGreater(kept.stat().st_size, sum(report["index_bytes"] for report in reports))
        self.assertEqual(run("index", *paths).stdout.count(f" in {kept}, "), 5)
        self.assertEqual({report["origin"] for report in run_json("index", *paths, "--check")}, {"checked"})

    def test_compressed_files_get_seek_points_and_so_numbers(self):
        lines = [b"%d:%s" % (i, base64.b16encode(PAYLOADS[i % 3000])) for i in range(20000)]
        content = b"".join(line + b"\n" for line in lines)
        for level, members in ((1, 1), (6, 3), (9, 1)):
            path = self.folder / f"{level}.txt.gz"
            part = len(content) // members + 1
            path.write_bytes(b"".join(gzip.compress(content[i:i + part], level)
                                      for i in range(0, len(content), part)))
            self.assertIn("ringfeed index", run_json("index", path, "--check", status=1)["error"])
            run_json("index", path, "--manifest", path.with_name("m"), status=1)
            self.assertFalse(path.with_name(f".{path.name}.rfp").exists())
            made = run_json("index", path)
            self.assertEqual((made["origin"], made["records"], made["bytes"]),
                             ("built", len(lines), len(content)))
            self.assertLess(made["points"]["bytes"], path.stat().st_size / 100 + 200)
            again = run_json("index", path)
            self.assertEqual((again["origin"], "points" in again), ("opened", False))
            self.assertEqual(run_json("index", path, "--check")["origin"], "checked")
            for number in (0, 7777, len(lines) - 1):
                shown = run("cat", path, "--number", str(number), "--as", "sha256").stdout
                self.assertEqual(shown.split()[0], hashlib.sha256(lines[number]).hexdigest())
            self.assertEqual(run_json("index", path, "--rebuild")["points"]["points"],
                             made["points"]["points"])
            refused = run_json("index", path, "--manifest", path.with_name("m"), status=1)
            self.assertIn("compressed", refused["error"])

    def test_lengths_are_made_once_and_kept_then(self):
        path = self.write("a.tfrecord", PAYLOADS)
        made = run_json("index", path, "--lengths", "raw")["lengths"]
        self.assertEqual((made["origin"], made["of"], made["entry_bytes"]), ("made", "raw", 1))
        self.assertEqual((made["units"], made["most"]), (sum(map(len, PAYLOADS)), max(map(len, PAYLOADS))))
        self.assertEqual(made["histogram"][7], sum(64 <= len(payload) < 128 for payload in PAYLOADS))
        kept = run_json("index", path, "--lengths", "raw")["lengths"]
        self.assertEqual(kept, {**made, "origin": "kept"})
        self.assertEqual(run_json("index", path, "--lengths", "raw", "--rebuild")["lengths"]["origin"], "made")
        other = run_json("index", path, "--lengths", "tokens: u1[]")["lengths"]
        self.assertEqual(other["origin"], "made")
        self.write("a.tfrecord", PAYLOADS[:-1])
        self.assertEqual(run_json("index", path, "--lengths", "raw")["lengths"]["units"], made["units"] - len(PAYLOADS[-1]))

    def test_a_manifest_stands_for_its_files(self):
        paths = [self.write(f"{i}.tfrecord", PAYLOADS[i:i + 500 * i + 3]) for i in range(4)]
        manifest = paths[0].with_name("all.manifest")
        reports = run_json("index", *paths, "--manifest", manifest, "--lengths", "raw")
        self.assertEqual({report["origin"] for report in reports}, {"built"})
        self.assertEqual(len(list(manifest.parent.glob(".*"))), 0)
        order = ("--shuffle", 1, "--shuffle-mode", "global", "--batch", 7)
        for command, words, fields in (
                ("digest", (), ("file", "sha256")), ("verify", (), ("file", "records", "intact")),
                ("info", (), ("file", "bytes", "format")), ("index", ("--check",), ("file", "records", "origin")),
                ("which", (*order, "--number", "3-5"), ("batches",)),
                ("feed", (*order, "--digest"), ("order_digest", "multiset", "records")),
                ("plan", ("--parse", "raw", "--batch", 8, "--pack", 1024, "--seed", 7), ("plans",))):
            with self.subTest(command):
                found = []
                for files in ([manifest], paths):
                    if command == "index" and files == paths:
                        run("index", *paths)
                    reports = run_json(command, *files, *words)
                    reports = reports if isinstance(reports, list) else [reports]
                    for plan in reports[0].get("plans", []):
                        plan.pop("seconds")
                    found.append([[report[field] for field in fields] for report in reports])
                self.assertEqual(*found)
        self.assertEqual(run("cat", manifest, "--number", "0,7,1500", "--as", "sha256").stdout.split()[0],
                         run("cat", paths[0], "--number", "0", "--as", "sha256").stdout.split()[0])
        self.assertEqual({report["origin"] for report in run_json("index", manifest)}, {"manifest"})
        kept = manifest.with_name("kept.rfs")
        run_json("subset", manifest, "--units", "0:120", "--parse", "raw", "--output", kept)
        self.assertEqual(run_json("feed", manifest, "--subset", kept)["multiset"],
                         run_json("feed", *paths, "--subset", kept)["multiset"])

    def test_parts_of_a_manifest_are_merged(self):
        paths = [self.write(f"{i}.tfrecord", PAYLOADS[i:i + 40 * i]) for i in range(5)]
        folder = paths[0].parent
        whole, merged = folder / "whole.manifest", folder / "merged.manifest"
        run_json("index", *paths, "--manifest", whole)
        for parts in (1, 2, 3, 7):
            made = [folder / f"{part}.part" for part in range(parts)]
            for part, path in enumerate(made):
                done = run("index", *paths, "--manifest", path, "--part", f"{part}/{parts}")
                self.assertEqual(done.returncode, 0, done.stderr)
            done = run("index", "--merge", *reversed(made), "--manifest", merged)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(merged.read_bytes(), whole.read_bytes())
        self.assert_refused(2, "index", "--merge", made[0], "--manifest", folder / "none")
        self.assert_refused(2, "index", "--merge", *made[1:], "--manifest", folder / "none")
        self.assert_refused(2, "index", "--merge", *made)
        self.assert_refused(2, "digest", made[1])
        self.assert_refused(2, "index", *paths, "--manifest", paths[0])
        self.assert_refused(2, "index", *paths, "--manifest", whole, "--check")

    def test_a_changed_file_needs_another_manifest(self):
        path = self.write("a.tfrecord", PAYLOADS)
        manifest = path.with_name("a.manifest")
        run_json("index", path, "--manifest", manifest)
        self.write("a.tfrecord", PAYLOADS[1:])
        result = run("feed", manifest, "--shuffle", "1", "--shuffle-mode", "global", "--batch", 7)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"ringfeed index FILES --manifest {manifest}", result.stderr)
        self.assertIn(f"--manifest {manifest}", run_json("index", manifest, status=1)["error"])
        run_json("index", manifest, "--manifest", manifest, "--rebuild")
        self.assertEqual(run_json("feed", manifest)["records"], len(PAYLOADS) - 1)

    def test_lengths_are_of_one_ragged_field(self):
        path = self.write("a.tfrecord", PAYLOADS)
        for text in ("example: a=i8[] b=i8[]", "rows: f4[13]", "exmaple: a=i8[]"):
            with self.subTest(text):
                self.assert_refused(2, "index", path, "--lengths", text)

    def test_a_plan_has_the_batches_of_a_pass(self):
        path = self.write("a.tfrecord", PAYLOADS)
        words = ["plan", path, "--parse", "raw", "--batch", 8, "--ranks", "2,8", "--seed", 7]
        first, best = run_json(*words, "--pack", 1024, "--alike", 1)["plans"]
        self.assertEqual((first["fit"], best["fit"]), ("first", "best"))
        for plan in (first, best):
            self.assertEqual((plan["records"], plan["units"]), (3000, sum(map(len, PAYLOADS))))
            self.assertAlmostEqual(plan["padding"], 1 - plan["units"] / (1024 * plan["shares"]))
            self.assertEqual(plan["steps"], -(-plan["shares"] // 8))
            self.assertEqual([load["ranks"] for load in plan["loads"]], [2, 8])
            for load, apart in zip(plan["loads"], plan["loads_apart"]):
                self.assertLessEqual(1, load["step"])
                self.assertLessEqual(load["step"], apart["step"] + 1e-9)
        self.assertLessEqual(best["padding"], first["padding"])
        tokens = run_json(*words, "--tokens", 5000, "--fit", "best", "--alike", "1,4")["plans"]
        self.assertEqual([plan["alike"] for plan in tokens], [1, 4])
        self.assert_refused(2, *words)
        self.assert_refused(2, *words, "--pack", 1024, "--ranks", 9)

    def test_which_tells_the_records_of_a_batch(self):
        paths = [self.write(name, PAYLOADS) for name in ("a.tfrecord", "b.tfrecord")]
        chain = ["which", *paths, "--shuffle", "global", "--seed", 7, "--batch", 8]
        whole = run_json(*chain, "--number", "3,5-6")["batches"]
        self.assertEqual([batch["batch"] for batch in whole], [3, 5, 6])
        for batch in whole:
            self.assertEqual([record["row"] for record in batch["records"]], list(range(8)))
            for record in batch["records"]:
                self.assertEqual(record["number"], 3000 * [str(path) for path in paths].index(record["file"]) + record["record"])
                (length,) = run("cat", record["file"], "--number", record["record"], "--as", "length").stdout.split()
                self.assertEqual(int(length), len(PAYLOADS[record["record"]]))
                self.assertEqual(record["bytes"], int(length) + 16)
        parts = [run_json(*chain, "--number", 3, "--rank", rank, "--ranks", 2)["batches"][0] for rank in range(2)]
        numbers = [record["number"] for part in parts for record in part["records"]]
        self.assertEqual(numbers, [record["number"] for record in whole[0]["records"]])
        packed = run_json(*chain, "--parse", "raw", "--pack", 1024, "--number", 0)["batches"][0]
        self.assertTrue(all(record["units"] == len(PAYLOADS[record["record"]]) for record in packed["records"]))
        self.assertEqual({record["row"] for record in packed["records"]}, set(range(8)))
        self.assertIn("no batch 750", self.assert_refused(2, *chain, "--number", 750))
        for numbers in ("x", "3-", "", "3,,4"):
            self.assert_refused(2, *chain, "--number", numbers)

    def test_records_are_printed_by_their_numbers(self):
        path = self.write("a.tfrecord", PAYLOADS)
        printed = run("cat", path, "--number", "7,2990-2999,3", "--as", "base64").stdout.split()
        wanted = [PAYLOADS[number] for number in (7, *range(2990, 3000), 3)]
        self.assertEqual([base64.b64decode(line) for line in printed], wanted)
        as_json = run("cat", path, "--number", 7, "--as", "json", "--parse", "raw").stdout
        self.assertEqual(list(json.loads(as_json)), ["bytes"])
        self.assert_refused(2, "cat", path, "--number", 3000)
        damaged = bytearray(path.read_bytes())
        damaged[50] ^= 1
        path.write_bytes(damaged)
        self.assertEqual(run("cat", path, "--number", "0-2", "--as", "length").returncode, 1)
        skipped = run("cat", path, "--number", "0-2", "--as", "length", "--on-damage", "skip")
        self.assertEqual((skipped.returncode, len(skipped.stdout.split())), (1, 2))

    def test_a_subset_keeps_the_records_of_a_list(self):
        paths = [self.write(name, PAYLOADS) for name in ("a.tfrecord", "b.tfrecord")]
        subset, numbers = self.folder / "kept.rfs", self.folder / "numbers"
        numbers.write_text("3001\n0-2\r\n\n2\n")
        report = run_json("subset", *paths, "--numbers", numbers, "-o", subset)
        self.assertEqual((report["kept"], report["records"]), (4, 6000))
        fed = run_json("feed", *paths, "--subset", subset, "--shuffle", "global", "--passes", 2)
        self.assertEqual((fed["records"], fed["damaged_records"]), (8, 0))
        again = run("subset", *paths, "--numbers", "-", "-o", self.folder / "same.rfs", stdin="2\n1\n0\n3001\n")
        self.assertIn("4 of 6,000 records", again.stdout)
        self.assertEqual(subset.read_bytes(), (self.folder / "same.rfs").read_bytes())
        self.assertIn("of other data", self.assert_refused(2, "feed", paths[0], "--subset", subset))
        for words in ("6000", "1,", "5-4", "-3", "0-99999999999"):
            with self.subTest(words):
                numbers.write_text(words)
                self.assert_refused(2, "subset", *paths, "--numbers", numbers, "-o", subset)
        self.assert_refused(2, "subset", *paths, "-o", subset)
        self.assert_refused(2, "subset", *paths, "--numbers", numbers, "-o", paths[0])
        self.assert_refused(2, "feed", *paths, "--subset", subset, "--verify")

    def test_a_subset_keeps_records_of_some_lengths(self):
        path = self.write("a.tfrecord", PAYLOADS)
        subset, smaller = self.folder / "kept.rfs", self.folder / "smaller.rfs"
        words = ["subset", path, "--parse", "raw"]
        wanted = [payload for payload in PAYLOADS if 110 <= len(payload) <= 127]
        self.assertEqual(run_json(*words, "--units", "110:127", "-o", subset)["kept"], len(wanted))
        self.assertEqual(run_json("feed", path, "--subset", subset)["payload_bytes"], sum(map(len, wanted)))
        wanted = [payload for payload in wanted if len(payload) >= 120]
        report = run_json(*words, "--units", "120:", "--subset", subset, "-o", smaller)
        self.assertEqual(report["kept"], len(wanted))
        (plan,) = run_json("plan", path, "--parse", "raw", "--subset", smaller, "--pack", 1024, "--batch", 8,
                           "--fit", "best", "--alike", 1)["plans"]
        self.assertEqual((plan["records"], plan["units"]), (len(wanted), sum(map(len, wanted))))
        for units in ("64", "9:3", "a:", "1:2:3"):
            with self.subTest(units):
                self.assert_refused(2, *words, "--units", units, "-o", subset)

    def test_formats_of_rows_of_one_size_need_none(self):
        report = run_json("index", DATA / "numpy/t_f4.npy")
        self.assertEqual((report["origin"], report["index"]), ("computed", ""))
        self.assertGreater(report["records"], 0)

    def test_what_has_no_index_is_told_and_the_others_are_made(self):
        path = self.write("a.tfrecord", PAYLOADS)
        packed = path.with_name("b.jsonl.gz")
        packed.write_bytes((DATA / "text/objects.jsonl.gz").read_bytes()[:-5])
        refused, made = run_json("index", packed, path, status=1)
        self.assertIn("cut off", refused["error"])
        self.assertEqual(made["origin"], "built")
        text = run("index", packed, path)
        self.assertEqual(text.returncode, 1)
        self.assertIn("opened", text.stdout)
        self.assertIn("3,000 records", text.stdout)
        self.assertIn("truncated", text.stderr)

    def test_damage_that_is_in_no_record_is_counted(self):
        path = self.write("a.tfrecord", PAYLOADS)
        data = bytearray(path.read_bytes())
        data[2] ^= 1
        path.write_bytes(data)
        report = run_json("index", path)
        self.assertEqual((report["records"], report["lost_ranges"]), (2999, 1))


if __name__ == "__main__":
    main()
