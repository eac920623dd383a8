#!/usr/bin/env python3
"""`ringfeed info`: formats found, fields suggested, the machine described."""

from command_line import DATA, CommandTest, main, run, run_json


class InfoTest(CommandTest):
    def test_the_suggested_fields_can_be_fed(self):
        for kind in ("image", "table", "features"):
            folder = self.folder / kind
            run_json("make", folder, "--kind", kind, "--records", 20, "--files", 1)
            (path,) = folder.iterdir()
            info = run_json("info", path)
            self.assertEqual(info["format"], "tfrecord")
            self.assertEqual(run_json("feed", path, "--parse", info["parse"])["records"], 20)

    def test_the_suggested_fields_of_other_files_can_be_fed(self):
        facts = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
        npy = b"\x93NUMPY\x01\x00" + len(facts).to_bytes(2, "little") + facts
        for name, content, parse in (
            ("a.csv", b"id,x,note\n1,0.5,a\n2,1,b\n", "csv: -header id=i8 x=f8 note=u1[]"),
            ("a.jsonl", b'{"n": 1, "t": "x", "v": [1, 2]}\n{"v": [3, 4]}\n', "jsonl: n=f8?nan t=u1[]? v=i8[2]"),
            ("a.npy", npy + bytes(24), "rows: c0=f4[3]"),
        ):
            path = self.folder / name
            path.write_bytes(content)
            self.assertEqual(run_json("info", path)["parse"], parse)
            self.assertEqual(run_json("feed", path, "--parse", parse)["records"], 2)

    def test_genuine_examples(self):
        info = run_json("info", DATA / "tfrecord" / "examples.tfrecord")
        self.assertIn({"name": "id", "kind": "int64", "records": 40, "fewest_values": 1, "most_values": 1},
                      info["features"])

    def test_records_that_are_no_examples_have_no_features(self):
        info = run_json("info", self.write("a.tfrecord", [b"no example", b"\xff" * 40]))
        self.assertEqual((info["features"], info["parse"]), ([], ""))
        self.assertEqual(info["first_record_bytes"], 10)

    def test_a_file_that_says_how_many_records_it_has(self):
        for name, records in (("mds/columns_none/shard.00000.mds", 14), ("litdata/items/chunk-0-0.bin", 10),
                              ("numpy/t_f4.npy", 5), ("tfrecord/examples.tfrecord", None)):
            self.assertEqual(run_json("info", DATA / name).get("records"), records, name)

    def test_several_files_give_a_list(self):
        paths = [self.write(f"{i}.tfrecord", [b"x"]) for i in range(3)]
        self.assertEqual([entry["file"] for entry in run_json("info", *paths)], [str(p) for p in paths])

    def test_the_machine(self):
        machine = run_json("info")
        self.assertGreaterEqual(machine["cpus"], 1)
        self.assertGreater(machine["memory_limit_bytes"], 0)
        self.assertTrue(machine["io_uring_reason"])

    def test_a_damaged_first_record_is_reported(self):
        path = self.write("a.tfrecord", [b"one"])
        path.write_bytes(path.read_bytes()[:-1])
        self.assertEqual(run("info", path).returncode, 1)


if __name__ == "__main__":
    main()
