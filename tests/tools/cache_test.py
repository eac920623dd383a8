#!/usr/bin/env python3
"""`ringfeed cache`: what is there, checked and trimmed."""

import shutil

from command_line import DATA, CommandTest, main, run, run_json


def make_cache(folder):
    """A cache with one piece, of 94 bytes."""
    shutil.copytree(DATA / "piece_cache", folder)
    (piece,) = folder.iterdir()
    folder.chmod(0o700)
    piece.chmod(0o600)
    return piece


class CacheTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.piece = make_cache(self.cache)

    def test_it_shows_the_objects(self):
        report = run_json("cache", self.cache)
        self.assertEqual((report["pieces"], report["file_bytes"], report["bad"], report["trimmed"]), (1, 94, 0, 0))
        self.assertEqual(report["objects"], [{"name": "s3://bucket/a.tfrecord", "version": '"etag"', "bytes": 10,
                                              "pieces": 1, "cached_bytes": 10}])
        text = run("cache", self.cache).stdout
        self.assertIn("s3://bucket/a.tfrecord  10 B  of  10 B", text)
        self.assertIn("total    1 pieces of 1 objects, 94 B; 0 bad, 0 trimmed", text)

    def test_verify_removes_a_bad_piece_and_says_so(self):
        self.assertEqual(run("cache", self.cache, "--verify").returncode, 0)
        self.piece.write_bytes(b"x" + self.piece.read_bytes()[1:])
        self.assertEqual(run("cache", self.cache).returncode, 0)  # it reads no bytes of pieces
        result = run("cache", self.cache, "--verify")
        self.assertEqual(result.returncode, 1)
        self.assertIn("a bad piece of s3://bucket/a.tfrecord", result.stderr)
        self.assertFalse(self.piece.exists())
        self.assertEqual(run("cache", self.cache, "--verify").returncode, 0)

    def test_trim_removes_what_is_more(self):
        self.assertEqual(run_json("cache", self.cache, "--trim", "94")["trimmed"], 0)
        self.assertEqual(run_json("cache", self.cache, "--trim", "93")["trimmed"], 1)
        self.assertFalse(self.piece.exists())

    def test_what_is_no_cache_of_ours_is_refused(self):
        self.assertIn("No such file", self.assert_refused(2, "cache", self.folder / "none"))
        self.cache.chmod(0o770)
        self.assertIn("chmod go-w", self.assert_refused(2, "cache", self.cache))


if __name__ == "__main__":
    main()
