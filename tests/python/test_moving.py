"""Every program of docs/moving runs as it stands there, the peers' too where they are installed.

scripts/python --moving installs the peers from PyPI, into two environments, and runs this there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from page_programs import PROJECT, Program, programs_of

FOLDER = PROJECT / "docs" / "moving"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
PROGRAMS = [(page.stem, program) for page in PAGES for program in programs_of(page)]


class Runs:
    """The pages that were run, each once and in a process of its own: the peers' libraries need
    not bear each other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._raised: dict[str, dict[str, str]] = {}

    def raised(self, page: str, line: int) -> str:
        """What the program at that line raised, "" where nothing."""
        if page not in self._raised:
            self._raised[page] = self._run(page)
        return self._raised[page][str(line)]

    def _run(self, page: str) -> dict[str, str]:
        folder = self._folder / page
        folder.mkdir()
        report = self._folder / f"{page}.json"
        runner = [sys.executable, str(PROJECT / "tests" / "python" / "page_programs.py")]
        done = subprocess.run(
            [*runner, str(FOLDER / f"{page}.md"), "--report", str(report)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert report.exists(), done.stderr
        raised: dict[str, str] = json.loads(report.read_text())
        return raised


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    return Runs(tmp_path_factory.mktemp("moving"))


@pytest.mark.parametrize(
    "page, program", PROGRAMS, ids=[f"{page}:{program.line}" for page, program in PROGRAMS]
)
def test_the_program_of_the_page_runs(page: str, program: Program, runs: Runs) -> None:
    if not program.runs:
        compile(program.text, page, "exec")
        pytest.skip("it stands there to be read: the page says so")
    if program.missing is not None:
        pytest.skip(f"{program.missing} is not installed here: scripts/python --moving runs it")
    raised = runs.raised(page, program.line)
    assert not raised, raised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_their_program_and_ours(page: Path) -> None:
    programs = programs_of(page)
    assert any(program.runs and not program.missing for program in programs)
    assert any("import ringfeed" in program.text for program in programs)
    said = "not run" in page.read_text(encoding="utf-8")
    assert said == any(not program.runs for program in programs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_index_leads_to_the_page(page: Path) -> None:
    assert f"]({page.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", ["no_such_package", "no_such_package.of_it"])
def test_a_program_names_the_package_that_it_lacks(package: str) -> None:
    assert Program(1, "", ("json", package), True).missing == package
    assert Program(1, "", ("json", "os.path"), True).missing is None


def test_a_fence_that_says_what_nobody_knows_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python need=torch\nimport torch\n```\n")
    with pytest.raises(ValueError, match="need=torch"):
        programs_of(page)
