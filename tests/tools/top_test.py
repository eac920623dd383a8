#!/usr/bin/env python3
"""`ringfeed top`: which jobs it finds, and what it says of them."""

import json
import os
import pty
import signal
import socketserver
import subprocess
import threading

from command_line import BINARY, CommandTest, await_that, main, run
from shown_job import Job, make_files


class Peer:
    """Whoever listens at a port where a job was: it sends what it wants."""

    def __init__(self, test, answer):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(65536)
                try:
                    for piece in answer():
                        self.request.sendall(piece)
                except OSError:
                    pass  # the other end had enough

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.address = f"127.0.0.1:{server.server_address[1]}"


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
COUNTED = b"ringfeed_counted_time_seconds 1\n"


class TopTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.files = make_files(self.folder)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=str(self.folder))

    def top(self, *words):
        return subprocess.run([BINARY, "top", *map(str, words)], capture_output=True, text=True, timeout=120,
                              check=False, env=self.environment)

    def job(self, where, *words):
        job = Job(where, self.folder, self.files, *words)
        self.addCleanup(job.__exit__)
        job.note()
        return job

    def own_jobs(self):
        """Those of this test: other ones may run here."""
        jobs = json.loads(self.top("--json").stdout)["jobs"]
        return [job for job in jobs if str(self.folder) in job["command"] + job["address"]]

    def test_jobs_are_listed_as_long_as_they_run(self):
        self.assertEqual(self.own_jobs(), [])
        first, second = self.job(f"unix:{self.folder}/s-%p"), self.job("127.0.0.1:0")
        self.assertEqual({job["pid"] for job in self.own_jobs()}, {first.pid, second.pid})
        listed = self.top()
        self.assertEqual(listed.returncode, 0)
        self.assertIn(f"unix:{self.folder}"[:20], listed.stdout)
        self.assertEqual(first.end(), 0)
        second.process.kill()  # what it leaves behind is passed over
        second.process.communicate()
        self.assertEqual(self.own_jobs(), [])

    def test_a_job_is_shown_by_its_socket_its_port_and_its_file(self):
        for where in (f"unix:{self.folder}/sock", "127.0.0.1:0", str(self.folder / "job.prom")):
            with self.subTest(where):
                job = self.job(where, "--devices", "emu:2", "--step-ms", 2)
                report = await_that(lambda: self.report(job.pid), "rates of the feed", job.process)
                self.assertEqual(report["pid"], job.pid)
                self.assertEqual([device["device"] for device in report["feeds"][0]["devices"]], ["0", "1"])
                for device in report["feeds"][0]["devices"]:
                    self.assertGreater(device["batches_per_s"], 0)
                    self.assertLessEqual(device["batches_ahead"], 16)
                chain = report["chains"][0]
                self.assertGreater(chain["records_per_s"], 0)
                self.assertIn("read", [stage["stage"] for stage in chain["stages"]])
                self.assertEqual(chain["late_wakes"], 0)
                self.assertEqual(job.end(), 0)

    def report(self, pid):
        result = self.top(pid, "--json", "--interval", "0.5")
        self.assertEqual(result.returncode, 0, result.stderr)
        (report,) = json.loads(result.stdout)["jobs"]
        devices = [device for feed in report["feeds"] for device in feed["devices"]]
        # A chain whose lock is held shows what it did at the look before.
        rates = [device["batches_per_s"] for device in devices]
        rates += [chain["records_per_s"] for chain in report["chains"]]
        return report if devices and report["chains"] and all(rates) else None

    def test_without_a_terminal_it_looks_once(self):
        job = self.job("127.0.0.1:0")
        result = self.top(job.pid)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("records/s", result.stdout)
        self.assertNotIn("\033", result.stdout)
        at = self.top("--at", job.note(), "--interval", "0.2")
        self.assertEqual(at.returncode, 0, at.stderr)
        self.assertIn("records/s", at.stdout)

    def test_in_a_terminal_it_looks_until_it_is_interrupted(self):
        job = self.job("127.0.0.1:0")
        ours, theirs = pty.openpty()
        top = subprocess.Popen([BINARY, "top", str(job.pid), "--interval", "0.2"], stdout=theirs, env=self.environment)
        os.close(theirs)
        seen = b""
        while seen.count(b"records/s") < 3:
            seen += os.read(ours, 65536)
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(timeout=60), -signal.SIGINT)
        os.close(ours)

    def test_what_is_not_there_is_refused_with_the_remedy(self):
        quiet = subprocess.Popen(["sleep", "60"])
        self.addCleanup(quiet.wait)
        self.addCleanup(quiet.kill)
        result = self.top(quiet.pid)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("RINGFEED_METRICS=", result.stderr)
        other = self.folder / "other.prom"
        other.write_text("node_load1 0.5\n")
        for where in (f"unix:{self.folder}/none", "127.0.0.1:1", str(self.folder / "none.prom"), "nonsense", str(other)):
            with self.subTest(where):
                result = self.top("--at", where, "--once")
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assertNotEqual(result.stderr, "")

    def test_what_is_no_process_is_told_in_a_line(self):
        for word in ("abc", "0", "4x", "1.5", "99999999999"):
            result = run("top", word)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f'PID: "{word}" is no process number', result.stderr)
            self.assertLess(len(result.stderr), 200)

    def test_what_a_peer_sends_cannot_change_the_terminal(self):
        evil = b"\x1b[31m\x9b\x07" + 5000 * b"x"
        label = HEAD + COUNTED + b'ringfeed_chain_info{chain="\x1b[31m"} 1\n'
        for answer in (b"HTTP/1.1 500 " + evil + b"\r\n\r\n", evil, HEAD + evil, HEAD + COUNTED + evil, label):
            with self.subTest(answer[:40]):
                peer = Peer(self, lambda answer=answer: [answer])
                top = subprocess.run([BINARY, "top", "--at", peer.address, "--interval", "0.2"], timeout=120,
                                     capture_output=True, check=False, env=self.environment)
                self.assertEqual(top.returncode, 0 if answer is label else 2, top.stderr)
                self.assertRegex(top.stdout + top.stderr, rb"\A[\n -~]+\Z")
                self.assertLess(len(top.stderr), 500)

    def test_of_what_a_peer_sends_so_much_is_taken_and_no_more(self):
        def endless():
            yield HEAD
            while True:
                yield 65536 * b"#\n"

        def chains(count):
            lines = [b'ringfeed_chain_info{chain="%d"} 1\n' % number for number in range(count)]
            return lambda: [HEAD + COUNTED + b"".join(lines)]

        for answer, why in ((endless, "too long"), (chains(300_000), "more figures"), (chains(40_000), "more figures")):
            with self.subTest(why):
                result = self.top("--at", Peer(self, answer).address, "--interval", "0.2")
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assertIn(why, result.stderr)

    def test_a_file_of_any_size_is_looked_at_before_it_is_taken(self):
        huge = self.folder / "huge.prom"
        with open(huge, "wb") as file:
            file.truncate(1 << 42)
        result = self.top("--at", huge)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertIn("too long", result.stderr)


main()
