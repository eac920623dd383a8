#!/usr/bin/env python3
"""The pipes that Paddle's data pipeline was drawn with, as a shell runs them."""

import pathlib
import shlex
import subprocess

from command_line import BINARY, CommandTest, main, order_digest, run, run_json


class PipesTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.payloads = [b"%d %s" % (i, b"x" * (i % 70)) for i in range(5000)]
        plain = self.write("plain.tfrecord", self.payloads)
        self.data = self.folder / "data.recordio"
        self.assertEqual(run("convert", plain, self.data, "--to", "recordio").returncode, 0)

    def shell(self, line, **names):
        """Runs a line of bash, where $BIN is the folder of the command."""
        words = {"BIN": pathlib.Path(BINARY).parent, "DATA": self.data, **names}
        prefix = "; ".join(f"{name}={shlex.quote(str(value))}" for name, value in words.items())
        result = subprocess.run(["bash", "-o", "pipefail", "-c", f"{prefix}; {line}"], capture_output=True,
                                timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def assert_delivers(self, report, payloads):
        self.assertIn(order_digest(payloads).encode(), report)

    def test_cat_into_feed(self):
        report = self.shell("cat $DATA | $BIN/ringfeed feed /dev/stdin --format recordio --json")
        self.assert_delivers(report, self.payloads)

    def test_the_format_is_found_by_the_first_bytes(self):
        report = self.shell("cat $DATA | $BIN/ringfeed feed /dev/stdin --json")
        self.assert_delivers(report, self.payloads)

    def test_decoded_changed_by_awk_and_encoded_again(self):
        # Every second record, as it is: lines of base64 are what awk can hold.
        report = self.shell("cat $DATA | $BIN/recordio_decode - | awk 'NR % 2 == 1' | $BIN/recordio_encode | "
                            "$BIN/ringfeed feed /dev/stdin --json")
        self.assert_delivers(report, self.payloads[::2])

    def test_a_fifo_and_a_process_behind_it(self):
        fifo = self.folder / "fifo.recordio"
        report = self.shell("mkfifo $FIFO; cat $DATA > $FIFO & $BIN/ringfeed feed $FIFO --json", FIFO=fifo)
        self.assert_delivers(report, self.payloads)

    def test_the_same_from_the_file_itself(self):
        self.assertEqual(run_json("feed", self.data, "--cycle", 1)["order_digest"],
                         order_digest(self.payloads))


if __name__ == "__main__":
    main()
