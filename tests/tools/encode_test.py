#!/usr/bin/env python3
"""`ringfeed encode` and `decode`, by these and their other names: lines of base64 and records."""

import base64
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import unittest

from command_line import (
    BINARY, DATA, CommandTest, await_interrupt, await_that, main, run, run_json, sequence_sha256, unread)

PAYLOADS = [random.Random(size).randbytes(size) for size in range(201)] + [b"", b"x" * 100_000]


def lines_of(payloads):
    return b"".join(base64.b64encode(payload) + b"\n" for payload in payloads)


class EncodeTest(CommandTest):
    def encode(self, lines, *words, status=0):
        path = self.folder / "out.recordio"
        result = run("encode", path, *words, stdin=lines)
        self.assertEqual(result.returncode, status, result.stderr)
        return path

    def test_lines_become_records(self):
        path = self.encode(lines_of(PAYLOADS))
        report = run_json("digest", path)
        self.assertEqual((report["records"], report["sha256"]), (len(PAYLOADS), sequence_sha256(PAYLOADS)))

    def test_records_become_lines(self):
        path = self.write("a.tfrecord", PAYLOADS)
        self.assertEqual(run("decode", path).stdout, lines_of(PAYLOADS).decode())

    def test_dialects_and_other_formats(self):
        for to, name in (("recordio:go,gzip", "recordio"), ("recordio:none", "recordio"),
                         ("tfrecord", "tfrecord")):
            with self.subTest(to):
                path = self.encode(lines_of(PAYLOADS), "--to", to)
                self.assertEqual(run_json("verify", path)["format"], name)
                self.assertEqual(run("decode", path).stdout, lines_of(PAYLOADS).decode())

    def test_genuine_files(self):
        for name in ("go_gzip", "raw_bytes_snappy_max4", "empty_record_inside", "lodtensor_dense_none"):
            with self.subTest(name):
                path = DATA / "recordio" / f"{name}.recordio"
                lines = run("decode", path).stdout
                payloads = [base64.b64decode(line, validate=True) for line in lines.splitlines()]
                self.assertEqual(run_json("digest", path)["sha256"], sequence_sha256(payloads))
                again = self.encode(lines.encode())
                self.assertEqual(run("decode", again).stdout, lines)

    def test_several_files_and_globs_in_their_order(self):
        paths = [self.write(f"{i}.tfrecord", [bytes([i])] * 2) for i in range(3)]
        expected = lines_of([bytes([i]) for i in (0, 0, 1, 1, 2, 2)]).decode()
        self.assertEqual(run("decode", *paths).stdout, expected)
        self.assertEqual(run("decode", self.folder / "*.tfrecord").stdout, expected)

    def test_line_ends_and_empty_lines(self):
        path = self.encode(b"QQ==\r\n\nQUI=\n\r\nQUJD")
        self.assertEqual(run("cat", path).stdout.split("\n"), ["A", "", "AB", "", "ABC", ""])

    def test_an_input_file_and_no_lines(self):
        lines = self.folder / "lines.txt"
        lines.write_bytes(lines_of(PAYLOADS))
        path = self.encode(b"", "--input", lines)
        self.assertEqual(run_json("digest", path)["records"], len(PAYLOADS))
        self.assertEqual(self.encode(b"").read_bytes(), b"")

    def test_its_input_is_not_written_over(self):
        path = self.folder / "lines"
        path.write_bytes(b"YQ==\n")
        self.assertIn("input", self.assert_refused(2, "encode", "--input", path, path))
        self.assertEqual(path.read_bytes(), b"YQ==\n")

    def test_a_bad_line_ends_it_by_its_number_and_leaves_no_file(self):
        good = lines_of([b"one", b"two"])
        for bad in (b"QQ", b"Q===", b"Q!==", b"QR==", b"====", b" QQ==", b"QQ== ", b"\xff\xff\xff\xff"):
            with self.subTest(bad):
                path = self.folder / "out.recordio"
                result = run("encode", path, stdin=good + bad + b"\n" + good)
                self.assertEqual(result.returncode, 1)
                self.assertIn(b"line 3: ", result.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_every_byte_that_is_no_base64_is_refused(self):
        alphabet = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        bad = [bytes([b]) + b"AAA" for b in range(256) if b not in alphabet and b != 10]
        result = run("encode", self.folder / "out.recordio", "--on-damage=skip", stdin=b"\n".join(bad))
        self.assertIn(f"skipped {len(bad)} bad lines, the first: line 1: ".encode(), result.stderr)

    def test_bad_lines_are_skipped_and_counted_where_asked_for(self):
        lines = b"QQ==\nbad!\nQg==\n#\nQw==\n"
        path = self.folder / "out.recordio"
        result = run("encode", path, "--on-damage=skip", stdin=lines)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"skipped 2 bad lines, the first: line 2: ", result.stderr)
        self.assertEqual(run("cat", path).stdout, "A\nB\nC\n")

    def test_stdout_gets_what_a_file_gets(self):
        payloads = [b"%d" % i for i in range(40_000)]
        for to in ("recordio", "recordio:go,none", "tfrecord"):
            with self.subTest(to):
                result = run("encode", "--to", to, stdin=lines_of(payloads))
                self.assertEqual(result.returncode, 0, result.stderr)
                path = self.folder / "stdout"
                path.write_bytes(result.stdout)
                self.assertEqual(run_json("digest", path)["sha256"], sequence_sha256(payloads))
                if to == "recordio":
                    self.assertEqual(result.stdout, self.encode(lines_of(payloads)).read_bytes())
        self.assertIn("stream", run("encode", "--to", "npy:f4[1]", stdin="").stderr)

    def test_damaged_records_are_not_decoded(self):
        path = self.write("a.tfrecord", [b"one", b"two", b"three"])
        data = bytearray(path.read_bytes())
        data[19 + 13] ^= 1
        path.write_bytes(data)
        result = run("decode", path)
        self.assertEqual((result.returncode, result.stdout), (1, "b25l\n"))
        result = run("decode", path, "--on-damage=skip")
        self.assertEqual((result.returncode, result.stdout), (1, "b25l\ndGhyZWU=\n"))
        self.assertIn("skipped bytes 19 to 38", result.stderr)

    def test_the_other_names(self):
        folder = pathlib.Path(BINARY).parent
        encoded = subprocess.run([folder / "recordio_encode"], input=lines_of(PAYLOADS), check=True,
                                 capture_output=True).stdout
        decoded = subprocess.run([folder / "recordio_decode"], input=encoded, check=True,
                                 capture_output=True).stdout
        self.assertEqual(decoded, lines_of(PAYLOADS))
        path = self.folder / "a.recordio"
        subprocess.run([folder / "recordio_encode", path], input=b"QUJD\n", check=True)
        result = subprocess.run([folder / "recordio_decode", path], check=True, capture_output=True)
        self.assertEqual(result.stdout, b"QUJD\n")
        self.assertEqual(subprocess.run([folder / "recordio_decode", "--nonsense"], check=False,
                                        capture_output=True).returncode, 2)

    def test_nothing_is_recordio_without_records(self):
        folder = pathlib.Path(BINARY).parent
        for encode, decode in (([BINARY, "encode"], [BINARY, "decode"]),
                               ([folder / "recordio_encode"], [folder / "recordio_decode"])):
            encoded = subprocess.run(encode, input=b"", check=True, capture_output=True).stdout
            decoded = subprocess.run(decode, input=encoded, check=False, capture_output=True)
            self.assertEqual((decoded.returncode, decoded.stdout, decoded.stderr), (0, b"", b""))
        # What is empty where a format must be told says so, and no more.
        result = run("feed", "-", stdin="")
        self.assertEqual(result.returncode, 2)
        self.assertIn("without a byte", result.stderr)
        self.assertLess(len(result.stderr), 200)

    def start(self, *words):
        child = subprocess.Popen([BINARY, "encode", *words], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stderr.close)
        return child

    def test_a_record_waits_no_longer_than_it_is_told(self):
        child = self.start("--to", "recordio:none", "--flush-ms", "20")
        for payload in (b"first", b"second"):
            child.stdin.write(lines_of([payload]))
            child.stdin.flush()
            chunk = child.stdout.read1(1 << 16)  # comes while the input is open
            self.assertTrue(chunk.endswith(payload), chunk)
        child.stdin.close()
        self.assertEqual(child.wait(timeout=60), 0)
        self.assertEqual(child.stdout.read(), b"")

    def test_what_came_is_written_when_it_is_ended(self):
        for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            for to_file in (False, True):
                with self.subTest(stop=stop, to_file=to_file):
                    path = self.folder / f"{int(stop)}.recordio"
                    child = self.start("--flush-ms", "0", *([path] if to_file else []))
                    # The beginning of a line is none: "VGhp" is half of it.
                    child.stdin.write(lines_of([b"one", b"two"]) + b"VGhp")
                    child.stdin.flush()
                    await_interrupt(child)
                    await_that(lambda: unread(child.stdin) == 0, "reading the lines", child)
                    child.send_signal(stop)
                    encoded = child.stdout.read()
                    said = child.stderr.read()
                    self.assertEqual(child.wait(timeout=60), 0, said)
                    self.assertIn(b"interrupted", said)
                    child.stdin.close()
                    if not to_file:
                        path.write_bytes(encoded)
                    self.assertEqual(run("cat", path).stdout, "one\ntwo\n")

    def test_of_a_file_that_can_be_read_again_nothing_is_left_when_it_is_ended(self):
        lines, path = self.folder / "lines", self.folder / "out.recordio"
        # Without end, as far as this gets: lines, and a hole of 1 TiB behind them.
        lines.write_bytes(b"QUFB\n" * 100_000)
        os.truncate(lines, 1 << 40)
        child = self.start("--input", lines, "--on-damage=skip", path)
        await_interrupt(child)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1, said)
        self.assertIn(b"interrupted", said)
        self.assertEqual([file.name for file in self.folder.iterdir()], ["lines"])

    def test_memory_does_not_grow_with_the_data(self):
        if os.environ.get("RINGFEED_SANITIZER"):
            raise unittest.SkipTest("a sanitizer keeps what is freed")
        line = base64.b64encode(b"y" * 30_000) + b"\n"
        child = subprocess.Popen([BINARY, "encode", "--to", "recordio:none"], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL)
        peaks = []
        for number in range(3000):
            child.stdin.write(line)
            if number in (1500, 2999):
                child.stdin.flush()
                status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
                peaks.append(int(status.split("VmHWM:")[1].split()[0]))
        child.stdin.close()
        self.assertEqual(child.wait(timeout=60), 0)
        self.assertLess(peaks[1], peaks[0] + 24 * 1024)

    def test_a_pipe_that_is_closed_leaves_nothing_behind(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        child = subprocess.Popen([BINARY, "encode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env={"TMPDIR": str(temporary)})
        child.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(lines_of([b"x" * 1000] * 50_000))
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.wait(timeout=60)
        child.stderr.close()
        self.assertEqual(child.returncode, 1)
        self.assertEqual(list(temporary.iterdir()), [])


if __name__ == "__main__":
    main()
