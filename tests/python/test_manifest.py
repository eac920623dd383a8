"""A manifest stands for the files that it lists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loader_data import all_numbers, number_loader, write_rows

from ringfeed import errors


def make_manifest(tmp_path: Path) -> tuple[str, str]:
    """The glob of some files, and a manifest of them."""
    files = write_rows(tmp_path)
    manifest = str(tmp_path / "all.manifest")
    words = ["index", files, "--format", "rows:8", "--manifest", manifest]
    command = [sys.executable, "-m", "ringfeed", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return files, manifest


def test_a_loader_of_it_is_one_of_its_files(tmp_path: Path) -> None:
    files, manifest = make_manifest(tmp_path)
    arguments: dict[str, Any] = {"shuffle": "global", "seed": 3}
    with number_loader(files, **arguments) as named:
        wanted = all_numbers(named)
        state = named.state_dict()
    for given in (manifest, [manifest], Path(manifest)):
        with number_loader(given, **arguments) as listed:
            assert len(listed) == -(-300 // 7)
            assert all_numbers(listed) == wanted
            assert listed.state_dict() == state


def test_a_changed_file_is_told(tmp_path: Path) -> None:
    _, manifest = make_manifest(tmp_path)
    write_rows(tmp_path, rows=101)
    with pytest.raises(errors.InvalidArgument, match="ringfeed index FILES --manifest"):
        with number_loader(manifest, shuffle="global", seed=3) as loader:
            all_numbers(loader)
