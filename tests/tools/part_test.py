#!/usr/bin/env python3
"""--part: several processes share the files of one command."""

import json
import os
import subprocess

from command_line import BINARY, CommandTest, main, run, run_json

FILES = 5


class PartTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.paths = [self.write(f"{i}.tfrecord", [bytes([i]) * 100] * (i + 1)) for i in range(FILES)]

    def reports(self, command, *words):
        result = run(command, *self.paths, *words, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["files"]

    def test_parts_together_are_all_files_in_order(self):
        for command in ("digest", "verify", "index"):
            whole = [report["file"] for report in self.reports(command)]
            for parts in range(1, FILES + 3):
                shared = [report["file"] for part in range(parts)
                          for report in self.reports(command, "--part", f"{part}/{parts}")]
                self.assertEqual(shared, whole, (command, parts))

    def test_a_launchers_rank_is_a_part(self):
        whole = [report["file"] for report in self.reports("digest")]
        shared = []
        for rank in range(2):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": "2"}
            said = subprocess.run([BINARY, "digest", *self.paths, "--part", "launcher"], env=environment,
                                  capture_output=True, text=True, check=True).stdout
            shared += [path for path in whole if path in said]
        self.assertEqual(shared, whole)

    def test_parts_of_a_conversion_are_its_files(self):
        folders = [self.paths[0].with_name(name) for name in ("whole", "shared")]
        run_json("convert", *self.paths, f"{folders[0]}/", "--to", "recordio")
        written = 0
        for part in range(7):
            written += run_json("convert", *self.paths, f"{folders[1]}/", "--to", "recordio", "--part",
                                f"{part}/7")["written"]
        self.assertEqual(written, FILES)
        whole, shared = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
        self.assertEqual(shared, whole)

    def test_what_is_no_part_is_refused(self):
        for word in ("5/5", "1", "/2", "1/", "-1/2", "a/b", "0/0", "1/2/3", ""):
            result = run("digest", *self.paths, "--part", word)
            self.assertEqual((result.returncode, result.stdout), (2, ""), word)
            self.assertIn("--part", result.stderr)
        one = run("convert", *self.paths, self.paths[0].with_name("one.recordio"), "--part", "0/2")
        self.assertEqual(one.returncode, 2)
        self.assertIn("name a folder", one.stderr)


if __name__ == "__main__":
    main()
