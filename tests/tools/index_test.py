#!/usr/bin/env python3
"""`ringfeed index`: numbers of records beside their files, made once and checked."""

import os
import shutil

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

    def test_formats_of_rows_of_one_size_need_none(self):
        report = run_json("index", DATA / "numpy/t_f4.npy")
        self.assertEqual((report["origin"], report["index"]), ("computed", ""))
        self.assertGreater(report["records"], 0)

    def test_what_has_no_index_is_told_and_the_others_are_made(self):
        path = self.write("a.tfrecord", PAYLOADS)
        packed = path.with_name("b.jsonl.gz")
        shutil.copy(DATA / "text/objects.jsonl.gz", packed)
        refused, made = run_json("index", packed, path, status=1)
        self.assertIn("compressed", refused["error"])
        self.assertEqual(made["origin"], "built")
        text = run("index", packed, path)
        self.assertEqual(text.returncode, 1)
        self.assertIn("opened", text.stdout)
        self.assertIn("3,000 records", text.stdout)
        self.assertIn("unsupported", text.stderr)

    def test_damage_that_is_in_no_record_is_counted(self):
        path = self.write("a.tfrecord", PAYLOADS)
        data = bytearray(path.read_bytes())
        data[2] ^= 1
        path.write_bytes(data)
        report = run_json("index", path)
        self.assertEqual((report["records"], report["lost_ranges"]), (2999, 1))


if __name__ == "__main__":
    main()
