#!/usr/bin/env python3
"""scripts/bench where fio is missing, or pages cannot be dropped: rows are skipped and say why; that is no failure.

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

    def measure(self, rows, data, path=None):
        """{name: row} of a run of the script, whose exit status is 0."""
        words = [str(SCRIPT), "--json", "--repetitions", "1", "--only", ",".join(sorted(rows))]
        out = io.StringIO()
        with self.environment(RINGFEED_BENCH_DATA=str(data), PATH=path or os.environ["PATH"]):
            before, sys.argv = sys.argv, words
            try:
                with contextlib.redirect_stdout(out):
                    status = script().main()
            finally:
                sys.argv = before
        self.assertEqual(status, 0, out.getvalue())
        found = {row["name"]: row for row in json.loads(out.getvalue())}
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
