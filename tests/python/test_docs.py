"""Every program of the guide, of the page on tuning and of the README runs, in order."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from test_tuning import write_tuning

import ringfeed

PROJECT = Path(__file__).resolve().parents[2]
PAGES = ["docs/PYTHON.md", "README.md", "docs/TUNING.md"]
#: What a page takes for granted.
GIVEN: dict[str, dict[str, Any]] = {"docs/TUNING.md": {"ringfeed": ringfeed, "files": "data/*"}}
#: What a program may need that need not be installed; it imports that first.
OPTIONAL = {"PIL", "jax", "numba", "pyarrow", "torch"}


def programs(page: str) -> list[tuple[int, str]]:
    """(line, text) of each block of Python of the page."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, block.start(1)) + 1, textwrap.dedent(block[1]))
        for block in re.finditer(r"^ *```python\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    ]


class Page:
    """Runs a page's programs in one namespace, each once and behind those before it.

    Attributes:
        thrown: by the lines of the programs that were run, what each threw, or None.
    """

    def __init__(self, page: str) -> None:
        self.thrown: dict[int, Optional[BaseException]] = {}
        self._path = str(PROJECT / page)
        self._programs = programs(page)
        self._names: dict[str, Any] = {"__name__": "page", **GIVEN.get(page, {})}

    def run_to(self, line: int) -> None:
        """Runs the program at `line`, and first those in front of it."""
        for start, text in self._programs:
            if start <= line and start not in self.thrown:
                self.thrown[start] = self._run("\n" * (start - 1) + text)

    def _run(self, text: str) -> Optional[BaseException]:
        try:
            exec(compile(text, self._path, "exec"), self._names)
        except Exception as error:
            return error
        return None


@pytest.fixture(scope="module")
def pages(
    image_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Page]]:
    """The pages, in a folder where they find their data."""
    pytest.importorskip("numpy", reason="NumPy is not installed")
    folder = tmp_path_factory.mktemp("pages")
    (folder / "data").symlink_to(image_folder)
    write_tuning(folder, format="tfrecord").rename(folder / "ringfeed.tuned.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield {page: Page(page) for page in PAGES}


def missing_package(thrown: Optional[BaseException]) -> Optional[str]:
    """The package for want of which a program stopped, where it may be missing."""
    if isinstance(thrown, ModuleNotFoundError) and thrown.name in OPTIONAL:
        return thrown.name
    return None


@pytest.mark.parametrize(
    "page, line", [(page, line) for page in PAGES for line, _ in programs(page)]
)
def test_the_program_of_the_page_runs(page: str, line: int, pages: dict[str, Page]) -> None:
    running = pages[page]
    running.run_to(line)
    thrown = running.thrown[line]
    package = missing_package(thrown)
    if package is not None:
        pytest.skip(f"{package} is not installed")
    if thrown is not None:
        raise thrown


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_programs(page: str) -> None:
    assert programs(page)
