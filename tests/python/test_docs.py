"""Every program of docs/PYTHON.md and of the README runs, as it stands there, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def programs(page: Path) -> list[tuple[int, str]]:
    """(line, text) of each block of Python of the page."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, block.start(1)) + 1, block[1])
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def run_all(page: Path) -> int:
    """Runs the page's programs in one namespace; how many there were. A program whose package is
    not installed is left out, with all that it imports first: `import torch` in its first line."""
    names: dict[str, Any] = {"__name__": "page"}
    ran = 0
    for line, text in programs(page):
        code = compile("\n" * (line - 1) + text, str(page), "exec")
        try:
            exec(code, names)
        except ModuleNotFoundError as missing:
            if missing.name not in {"torch", "jax", "numba"}:
                raise
            print(f"{page.name}:{line}: left out, {missing.name} is not installed")
            continue
        ran += 1
    return ran


@pytest.mark.parametrize("page", ["docs/PYTHON.md", "README.md"])
def test_every_program_of_the_page_runs(
    page: str, image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    (tmp_path / "data").symlink_to(image_folder)
    monkeypatch.chdir(tmp_path)
    assert run_all(PROJECT / page) >= 1
