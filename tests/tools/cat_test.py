#!/usr/bin/env python3
"""`ringfeed cat`: a line per record, in every spelling, intact and damaged."""

import base64
import hashlib
import signal
import subprocess

from command_line import BINARY, CommandTest, frame, main, run

PAYLOADS = [b"", b"a", b"two\nlines\\", bytes(range(256)), b"x" * 1000, "grüße".encode()]


class CatTest(CommandTest):
    def lines(self, path, *words, status=0):
        result = run("cat", path, *words)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout.split("\n")[:-1]

    def test_spellings(self):
        path = self.write("a.tfrecord", PAYLOADS)
        for spelling, spell in (
            ("sha256", lambda p: hashlib.sha256(p).hexdigest()),
            ("hex", bytes.hex),
            ("base64", lambda p: base64.b64encode(p).decode()),
            ("length", lambda p: str(len(p))),
        ):
            with self.subTest(spelling):
                self.assertEqual(self.lines(path, "--as", spelling), [spell(p) for p in PAYLOADS])

    def test_text_keeps_a_record_on_its_line(self):
        path = self.write("a.tfrecord", [b"", b"two\nlines\\", b"tab\t\x01", "grüße".encode()])
        self.assertEqual(self.lines(path, "--as", "text"), ["", "two\\nlines\\\\", "tab\t\\x01", "grüße"])

    def damaged_file(self):
        path = self.write("a.tfrecord", [str(i).encode() * 9 for i in range(10)])
        data = bytearray(path.read_bytes())
        data[25 * 4 + 15] ^= 4
        path.write_bytes(data)
        return path

    def test_fail_prints_what_precedes_the_damage_and_says_where_it_is(self):
        result = run("cat", self.damaged_file(), "--as", "text")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.split(), [str(i) * 9 for i in range(4)])
        self.assertIn("offset 100", result.stderr)
        self.assertIn("record 4", result.stderr)

    def test_skip_prints_the_intact_records_and_says_what_it_left_out(self):
        result = run("cat", self.damaged_file(), "--as", "text", "--on-damage=skip")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.split(), [str(i) * 9 for i in range(10) if i != 4])
        self.assertIn("100 to 125", result.stderr)

    def test_what_was_skipped_is_told_where_it_is_interrupted_too(self):
        for command, words in (("cat", ("--as", "text")), ("decode", ())):
            with self.subTest(command):
                data = self.damaged_file().read_bytes()
                child = subprocess.Popen(
                    [BINARY, command, "-", "--format", "tfrecord", "--on-damage=skip", *words],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                child.stdin.write(data)
                child.stdin.flush()
                for _ in range(9):  # the records behind the damage, too
                    self.assertTrue(child.stdout.readline())
                child.send_signal(signal.SIGINT)
                child.wait(timeout=60)
                err = child.stderr.read().decode()
                child.communicate()
                self.assertEqual(child.returncode, 1)
                self.assertIn("skipped bytes 100 to 125", err)
                self.assertIn("cancelled", err)

    def test_what_was_skipped_is_told_where_it_fails_behind_that(self):
        result = subprocess.run(
            [BINARY, "cat", self.damaged_file(), "--as", "text", "--on-damage=skip"],
            stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("skipped bytes 100 to 125", result.stderr)
        self.assertIn("stdout", result.stderr)

    def test_a_stream_that_ends_early_gives_what_a_file_gives(self):
        whole = {
            "rows:8,header=16": bytes(40),
            "rows:8,header=16,stride=11": bytes(48),
            "tfrecord": b"".join(map(frame, PAYLOADS[:3])),
            "lines": b"one\ntwo\nthree",
        }
        for format, data in whole.items():
            for cut in (0, 1, 2, 7, 15, 16, 17, 23, 24, 27, 30, len(data)):
                with self.subTest(format=format, cut=cut):
                    path = self.folder / "cut"
                    path.write_bytes(data[:cut])
                    words = ("--format", format, "--as", "hex")
                    file = run("cat", path, *words)
                    stream = run("cat", "-", *words, stdin=data[:cut])
                    self.assertEqual(stream.returncode, file.returncode)
                    self.assertEqual(stream.stdout.decode(), file.stdout)
                    self.assertEqual(bool(stream.stderr), bool(file.stderr))

    def test_a_length_that_nobody_can_hold_is_damage(self):
        good = self.write("good.tfrecord", [b"good"]).read_bytes()
        import struct
        from command_line import masked
        length = struct.pack("<Q", 2**62)
        path = self.folder / "long.tfrecord"
        path.write_bytes(good + length + struct.pack("<I", masked(length)) + b"x" * 100)
        result = run("cat", path, "--as", "text")
        self.assertEqual((result.returncode, result.stdout), (1, "good\n"))
        self.assertTrue(result.stderr)

    def test_every_cut_of_a_file_gives_its_whole_records(self):
        payloads = [b"one", b"", b"three"]
        data = self.write("a.tfrecord", payloads).read_bytes()
        ends, at = [], 0
        for payload in payloads:
            at += 16 + len(payload)
            ends.append(at)
        path = self.folder / "cut.tfrecord"
        for cut in range(len(data)):
            path.write_bytes(data[:cut])
            whole = sum(end <= cut for end in ends)
            clean = cut == 0 or cut in ends
            result = run("cat", path, "--as", "length", "--format", "tfrecord")
            self.assertEqual(result.returncode, 0 if clean else 1, (cut, result.stderr))
            self.assertEqual(result.stdout.split(), [str(len(p)) for p in payloads[:whole]], cut)


if __name__ == "__main__":
    main()
