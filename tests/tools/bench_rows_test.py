#!/usr/bin/env python3
"""scripts/bench where fio is missing, or pages cannot be dropped: rows are skipped and say why; that is no failure.
And the curves by numbers of threads.

bench_rows_test.py SCRIPT PROGRAMS: the folder that the benchmark programs were built into."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv[1])
PROGRAMS = pathlib.Path(sys.argv[2])
COLD_ROWS = {"io.cold_cpu", "io.cold_wall", "io.cold_cpu_limit", "order.blocks_cold", "order.global_cold"}
MEMORY = pathlib.Path("/dev/shm")  # what lies here has no pages to drop


def script():
    """scripts/bench, of programs that are built."""
    loader = importlib.machinery.SourceFileLoader("bench_script", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_script", loader))
    loader.exec_module(module)
    module.install = module.build = lambda *_, **__: None
    module.BUILD = PROGRAMS.parent
    return module


class BenchRowsTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ringfeed-bench-"))
        stack.enter_context(self.environment(RINGFEED_BENCH_SMOKE="1"))

    @contextlib.contextmanager
    def environment(self, **values):
        before = dict(os.environ)
        os.environ.update(values)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def run_script(self, *words, data, path=None):
        """(exit status, what it prints) of one repetition."""
        out = io.StringIO()
        with self.environment(RINGFEED_BENCH_DATA=str(data), PATH=path or os.environ["PATH"]):
            before, sys.argv = sys.argv, [str(SCRIPT), "--json", "--repetitions", "1", *words]
            try:
                with contextlib.redirect_stdout(out):
                    status = script().main()
            finally:
                sys.argv = before
        return status, out.getvalue()

    def measure(self, rows, data, path=None):
        """{name: row} of a run of the script, whose exit status is 0."""
        status, output = self.run_script("--only", ",".join(sorted(rows)), data=data, path=path)
        self.assertEqual(status, 0, output)
        found = {row["name"]: row for row in json.loads(output)}
        self.assertEqual(set(found), set(rows))
        return found

    def without_fio(self):
        """A PATH of all programs but that one."""
        folder = pathlib.Path(self.folder) / "bin"
        folder.mkdir()
        for place in os.environ["PATH"].split(os.pathsep):
            for program in pathlib.Path(place).glob("*"):
                link = folder / program.name
                if program.name != "fio" and not link.is_symlink():
                    link.symlink_to(program)
        return str(folder)

    def test_rows_beside_fio_are_skipped_without_it(self):
        found = self.measure({"io.cold_cpu", "io.cold_wall"}, self.folder, self.without_fio())
        for row in found.values():
            self.assertRegex(row["skipped"], "fio is not installed|page cache|io_uring")

    def test_cold_rows_are_skipped_where_pages_stay(self):
        if not os.access(MEMORY, os.W_OK):
            self.skipTest("no file system in memory")
        with tempfile.TemporaryDirectory(prefix="ringfeed-bench-", dir=MEMORY) as data:
            found = self.measure(COLD_ROWS, data)
        for name, row in found.items():
            self.assertTrue(row.get("skipped"), (name, row))

    def test_a_curve_has_a_point_for_each_number_of_threads(self):
        results = pathlib.Path(self.folder) / "curves.json"
        status, output = self.run_script("--threads", "2,1", "--only", "rows,lines", "--results", str(results),
                                         data=self.folder)
        self.assertEqual(status, 0, output)
        points = json.loads(output)
        self.assertEqual([(point["work"], point["threads"]) for point in points],
                         [("rows", 1), ("rows", 2), ("lines", 1), ("lines", 2)])
        for point in points:
            self.assertTrue(point["verified"], point)
            self.assertGreater(point["ours"], 0)
            self.assertGreater(point["baseline_cpu"], 0)
        written = json.loads(results.read_text())
        self.assertEqual((written["curves"], written["command"]), (points, "scripts/bench --threads 2,1"))

    def test_a_work_that_is_not_there_or_no_number_is_refused(self):
        self.assertEqual(self.run_script("--threads", "1", "--only", "nothing", data=self.folder)[0], 1)
        for wrong in ("0", "1,", "two"):
            self.assertEqual(self.run_script("--threads", wrong, data=self.folder)[0], 2)

    def test_a_package_that_cannot_be_had_is_done_without(self):
        # Neither dpkg nor apt know it, or they are not there.
        folder = pathlib.Path(self.folder) / "bin"
        folder.mkdir()
        for name in ("dpkg-query", "apt-get", "sudo"):
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
        words = 'source scripts/packages; want_packages "${bench_packages[@]}"; echo "it goes on"'
        with self.environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", words], cwd=SCRIPT.parent.parent,
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Going on without what needs: fio", done.stdout)
        self.assertIn("it goes on", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
