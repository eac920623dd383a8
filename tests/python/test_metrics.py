"""RINGFEED_METRICS shows what a program in Python reads, by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loader_data import write_rows

PROGRAM = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from loader_data import number_loader

where, files = sys.argv[2], sys.argv[3]
os.environ["RINGFEED_METRICS"] = where  # before the first read
with number_loader(files) as loader:
    next(iter(loader))
    if where.startswith("unix:"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(where[len("unix:"):])
            accept = b"Accept: application/openmetrics-text\\r\\n"
            connection.sendall(b"GET /metrics HTTP/1.1\\r\\n" + accept + b"\\r\\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        sys.stdout.write(answer.partition(b"\\r\\n\\r\\n")[2].decode())
"""


def run_program(tmp_path: Path, where: str) -> "subprocess.CompletedProcess[str]":
    files = write_rows(tmp_path)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), where, files],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def skip_without_metrics(errors: str) -> None:
    if "has nothing that shows metrics" in errors:
        pytest.skip("the package was built without prometheus-cpp")


def test_a_loader_is_shown_at_a_socket(tmp_path: Path) -> None:
    result = run_program(tmp_path, f"unix:{tmp_path}/sock")
    assert result.returncode == 0, result.stderr
    skip_without_metrics(result.stderr)
    assert 'ringfeed_chain_batches_total{chain="0:part-0.rows"} ' in result.stdout
    assert result.stdout.endswith("# EOF\n")
    assert not (tmp_path / "sock").exists(), "it goes with its process"


def test_what_it_shows_is_openmetrics_by_the_official_parser(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    result = run_program(tmp_path, f"unix:{tmp_path}/sock")
    skip_without_metrics(result.stderr)
    found = parser.text_string_to_metric_families(result.stdout)
    families = {family.name: family for family in found}
    assert families["ringfeed_chain_records"].type == "counter"
    assert families["ringfeed_stage_wait_seconds"].unit == "seconds"
    assert len(families) > 30


def test_a_file_has_the_last_figures(tmp_path: Path) -> None:
    result = run_program(tmp_path, str(tmp_path / "job.prom"))
    assert result.returncode == 0, result.stderr
    skip_without_metrics(result.stderr)
    assert 'ringfeed_chain_ended{chain="0:part-0.rows"} 1' in (tmp_path / "job.prom").read_text()


def test_a_value_that_makes_no_sense_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    result = run_program(tmp_path, "9400")
    skip_without_metrics(result.stderr)
    assert result.returncode == 1
    assert "RINGFEED_METRICS=9400: " in result.stderr and "127.0.0.1:9400" in result.stderr
