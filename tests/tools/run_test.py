#!/usr/bin/env python3
"""`ringfeed run`: programs as texts."""

import json
import os
import signal
import socket
import subprocess
import threading

from command_line import (
    BINARY, CommandTest, await_interrupt, main, multiset, payloads_of, run, run_json, sequence_sha256)

READ_ALL = """
main {
  op { has_next { reader: "READER" output: "more" } }
  op { while { condition: "more" body {
    op { read { reader: "READER" output: "x" } }
    op { call { function: "digest" input: "x" } }
    op { call { function: "count" input: "x" } }
    op { has_next { reader: "READER" output: "more" } }
  } } }
}
"""


class RunTest(CommandTest):
    def program(self, startup, main_text):
        path = self.folder / "test.program"
        path.write_text("startup {\n" + startup + "\n}\n" + main_text)
        return path

    def two_files(self):
        return [self.write(f"{i}.tfrecord", [bytes([i, j]) * (j * 37 % 500 + 1) for j in range(60)])
                for i in range(2)]

    def names(self, files):
        return " ".join(f'file_names: "{file}"' for file in files)

    def test_records_have_the_digest_that_ringfeed_digest_gives(self):
        path = self.write("a.tfrecord", [os.urandom(i) for i in range(100)])
        program = self.program(f'op {{ open_files {{ name: "a" file_names: "{path}" }} }}',
                               READ_ALL.replace("READER", "a"))
        report = run_json("run", program)
        self.assertEqual(report["instances"], 100)
        self.assertEqual(report["sha256"], sequence_sha256(payloads_of(path)))
        self.assertEqual(report["multiset"], multiset(payloads_of(path)))
        self.assertEqual(report["sha256"], run_json("digest", path)["sha256"])
        text = run("run", program)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("counted   100 instances", text.stdout)
        self.assertIn(report["sha256"], text.stdout)

    def test_the_same_graph_from_cpp_gives_the_same_digest(self):
        files = self.two_files()
        program = self.program(
            f'op {{ open_files {{ name: "files" {self.names(files)} cycle: 2 stripe_bytes: 4096 '
            'pass_num: 2 parse: "raw" } }\n'
            'op { create_shuffle_reader { name: "shuffled" input: "files" buffer_size: 16 seed: 5 } }\n'
            'op { create_batch_reader { name: "b" input: "shuffled" batch_size: 7 '
            'discard_leftover: false } }',
            READ_ALL.replace("READER", "b"))
        report = run_json("run", program)
        driver = subprocess.run([os.environ["RINGFEED_PROGRAM_DRIVER"], *files], capture_output=True,
                                text=True, check=True)
        self.assertEqual(report["sha256"], driver.stdout.strip())
        self.assertEqual((report["rows"], report["instances"]), (240, 35))

    def test_print_shows_variables(self):
        program = self.program("", """main {
          op { fill_constant { output: "i" value: -3 } }
          op { less_than { x: "i" value: 0 output: "less" } }
          op { call { function: "print" input: "i" input: "less" } }
        }""")
        self.assertEqual(run("run", program).stdout, "i: -3\nless: true\n")
        self.assertEqual(run("run", program, "--json").stderr, "i: -3\nless: true\n")

    def test_errors_of_the_program_name_their_place_and_end_with_2(self):
        files = self.two_files()
        start = f'op {{ open_files {{ name: "a" {self.names(files)} }} }}'
        for startup, main_text, place in (
            ("op { open_fils { } }", "", "2:6: "),
            (start, 'main {\n op { read { reader: "a" } } }', "5:7: read: output names 0 tensors"),
            (start, 'main {\n op { call { function: "train" } } }', "5:7: call: no function"),
            ("op { create_batch_reader {", "", ""),
        ):
            with self.subTest(startup + main_text):
                program = self.program(startup, main_text)
                self.assertIn(f"{program}:{place}", self.assert_refused(2, "run", program))
        self.assert_refused(2, "run")
        self.assert_refused(2, "run", self.folder / "none.program")
        self.assert_refused(2, "run", self.folder)

    def test_reading_past_the_end_is_a_failure_of_the_data(self):
        path = self.write("a.tfrecord", [])
        program = self.program(f'op {{ open_files {{ name: "a" file_names: "{path}" }} }}',
                               'main { op { read { reader: "a" output: "x" } } }')
        self.assertIn("read: there is no next record", self.assert_refused(1, "run", program))

    def test_damage_ends_with_status_1(self):
        path = self.write("a.tfrecord", [b"x" * 50] * 20)
        data = bytearray(path.read_bytes())
        data[66 * 7 + 12] ^= 1
        path.write_bytes(data)
        for policy, records in (("fail", 7), ("skip", 19)):
            with self.subTest(policy):
                program = self.program(
                    f'op {{ open_files {{ name: "a" file_names: "{path}" on_damage: "{policy}" }} }}',
                    READ_ALL.replace("READER", "a"))
                report = run_json("run", program, status=1)
                self.assertEqual(report["instances"], records)
                self.assertEqual("error" in report, policy == "fail")
        self.assertEqual((report["damaged"][0]["begin"], report["damaged"][0]["end"]),
                         (66 * 7, 66 * 8))

    def test_damage_is_told_also_of_readers_that_were_closed_or_reset(self):
        path = self.write("a.tfrecord", [b"x" * 50] * 20)
        data = bytearray(path.read_bytes())
        data[66 * 7 + 12] ^= 1
        path.write_bytes(data)
        startup = f'op {{ open_files {{ name: "a" file_names: "{path}" on_damage: "skip" }} }}'
        read_all = READ_ALL.replace("READER", "a").rstrip()[:-1]
        for last in ('op { close_reader { reader: "a" } }', 'op { reset { reader: "a" } }'):
            with self.subTest(last):
                program = self.program(startup, read_all + last + "\n}\n")
                report = run_json("run", program, status=1)
                self.assertEqual(report["instances"], 19)
                # What is reset may have met it again already.
                self.assertIn(report["damaged_records"], (1, 2) if "reset" in last else (1,))
                self.assertEqual({(each["begin"], each["end"]) for each in report["damaged"]},
                                 {(66 * 7, 66 * 8)})
                text = run("run", program)
                self.assertEqual(text.returncode, 1)
                self.assertIn("damaged   ", text.stdout)

    def serve(self, path, contents):
        """A socket at `path` that sends each of the contents over a connection of its own."""
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()
        server.settimeout(60)
        self.addCleanup(server.close)

        def send_all():
            for content in contents:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(content)

        thread = threading.Thread(target=send_all)
        thread.start()
        self.addCleanup(thread.join)

    def test_streams_that_were_opened_again_are_in_the_report(self):
        contents = [file.read_bytes() for file in self.two_files()]
        for limit, words in ((0, ("--json",)), (1, ("--json",)), (1, ())):
            with self.subTest(limit=limit, words=words):
                path = self.folder / f"generator{limit}{len(words)}"
                self.serve(path, contents[: limit + 1])
                program = self.program(
                    f'op {{ open_files {{ name: "a" file_names: "unix:{path}" format: "tfrecord" '
                    f'reopen_limit: {limit} }} }}', READ_ALL.replace("READER", "a"))
                if words:
                    report = run_json("run", program)
                    self.assertEqual(report["reopened"], limit)
                    self.assertEqual(report["instances"], 60 * (limit + 1))
                else:
                    self.assertIn("reopened  streams, 1 time\n", run("run", program).stdout)
        path = self.two_files()[0]
        text = run("run", self.program(f'op {{ open_files {{ name: "a" file_names: "{path}" }} }}',
                                       READ_ALL.replace("READER", "a"))).stdout
        self.assertNotIn("reopened", text)

    def test_ctrl_c_ends_an_endless_program_with_its_report(self):
        path = self.write("a.tfrecord", [b"x"] * 100)
        printing = 'op { call { function: "print" input: "x" } }\n    op { call { function: "count"'
        program = self.program(
            f'op {{ open_files {{ name: "a" file_names: "{path}" pass_num: 1000000000 }} }}',
            READ_ALL.replace("READER", "a").replace('op { call { function: "count"', printing))
        child = self.start("run", program)
        self.assertTrue(child.stdout.readline().startswith("x: "))
        self.assertIn("counted ", self.interrupted(child))

    def start(self, *words):
        child = subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def interrupted(self, child):
        """What it printed by its end, which is no failure."""
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, err), (0, ""))
        return out

    def test_ctrl_c_before_the_readers_are_there_ends_the_program_too(self):
        path = self.write("a.tfrecord", [b"x"] * 100)
        # So many that the signal comes before the last, which is the one that is read.
        startup = "\n".join(f'op {{ open_files {{ name: "a{i}" file_names: "{path}" pass_num: 1000000000 }} }}'
                            for i in range(3000))
        program = self.program(startup, READ_ALL.replace("READER", "a2999"))
        child = self.start("run", program, "--json")
        await_interrupt(child)
        report = json.loads(self.interrupted(child))
        self.assertIs(report["interrupted"], True)
        self.assertNotIn("error", report)

    def test_ctrl_c_ends_a_loop_that_reads_nothing(self):
        program = self.program("", """main {
          op { fill_constant { output: "i" value: 0 } }
          op { less_than { x: "i" value: 1 output: "less" } }
          op { while { condition: "less" body { op { fill_constant { output: "j" value: 0 } } } } }
        }""")
        child = self.start("run", program, "--json")
        await_interrupt(child)
        self.assertIs(json.loads(self.interrupted(child))["interrupted"], True)

    def test_the_grammar_names_every_operation(self):
        grammar = run("run", "--grammar").stdout
        for name in ("open_files", "create_batch_reader", "while", "discard_leftover"):
            self.assertIn(f" {name} = ", grammar)


if __name__ == "__main__":
    main()
