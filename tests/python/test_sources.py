"""What type checkers and linters say of the package's Python files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ringfeed

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = str(PROJECT / "python" / "pyproject.toml")
PACKAGE = Path(ringfeed.__file__).parent


def run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=PROJECT,
    )


def type_check(*what: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy", reason="mypy is not installed")
    if not (PACKAGE / "_core.pyi").exists():
        pytest.skip("the package is taken from a build tree, where it has no stubs")
    return run("mypy", "--config-file", SETTINGS, *what)


def test_the_package_passes_a_strict_type_check(tmp_path: Path) -> None:
    # A copy: mypy says nothing of what is installed.
    shutil.copytree(PACKAGE, tmp_path / "ringfeed", ignore=shutil.ignore_patterns("bin", "*.so"))
    done = type_check("--no-site-packages", str(tmp_path / "ringfeed"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_users_type_check_knows_what_the_package_promises(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text('from ringfeed import Loader\n\nloader = Loader("files", batch="64")\n')
    done = type_check(str(program))
    assert "[arg-type]" in done.stdout, done.stdout + done.stderr


def test_the_package_and_its_tests_pass_the_linter() -> None:
    pytest.importorskip("ruff", reason="ruff is not installed")
    folders = ["python/ringfeed", "tests/python", "tests/remote", "tests/install"]
    done = run("ruff", "check", "--config", SETTINGS, *folders)
    assert done.returncode == 0, done.stdout + done.stderr
