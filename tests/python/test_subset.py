"""Subsets of the records: what they leave out is as if it was not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loader_data import all_numbers, number_loader, numbers, write_rows

import ringfeed
from ringfeed import errors
from test_journal import audit, run


def keep(files: str, path: Path, kept: Any) -> str:
    ringfeed.write_subset(ringfeed.open_files(files, format="rows:8"), path, kept)
    return str(path)


def test_only_the_kept_records_are_read_and_all_of_them(tmp_path: Path) -> None:
    subset = keep(write_rows(tmp_path), tmp_path / "kept.rfs", range(299, -1, -3))
    wanted = list(range(2, 300, 3))
    for arguments in ({}, {"shuffle": "global", "seed": 3}, {"shuffle": 20}):
        with number_loader(str(tmp_path / "part-*.rows"), subset=subset, **arguments) as loader:
            assert len(loader) == -(-len(wanted) // 7)
            assert sorted(all_numbers(loader)) == wanted
    with number_loader(str(tmp_path / "part-*.rows"), subset=Path(subset)) as loader:
        assert all_numbers(loader) == wanted


def test_a_state_goes_on_and_is_of_its_subset(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    subset = keep(files, tmp_path / "kept.rfs", range(0, 300, 2))
    arguments: dict[str, Any] = {"shuffle": "global", "seed": 3}
    with number_loader(files, subset=subset, **arguments) as loader:
        first = [number for _, batch in zip(range(9), loader) for number in numbers(batch)]
        state = loader.state_dict()
    with number_loader(files, subset=subset, **arguments) as loader:
        loader.load_state_dict(state)
        assert sorted(first + all_numbers(loader)) == list(range(0, 300, 2))
    other = keep(files, tmp_path / "other.rfs", range(1, 300, 2))
    for kept in (other, None):
        with number_loader(files, subset=kept, **arguments) as loader:
            with pytest.raises(errors.InvalidArgument, match="order"):
                loader.load_state_dict(state)


def test_what_a_chain_delivers_is_written(tmp_path: Path) -> None:
    files, path = write_rows(tmp_path), tmp_path / "kept.rfs"
    records = ringfeed.open_files(files, format="rows:8", note_records=True)
    ringfeed.write_subset(ringfeed.filter(records, lambda record: record[0] < 5), path)
    with number_loader(files, subset=path) as loader:
        assert all_numbers(loader) == [0, 1, 2, 3, 4, 256, 257, 258, 259, 260]


def test_a_journal_proves_each_kept_record_once(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    subset = keep(files, tmp_path / "kept.rfs", range(0, 300, 7))
    arguments: dict[str, Any] = {"subset": subset, "shuffle": "global", "note_records": True}
    state = run(tmp_path / "j", number_loader(files, **arguments), batches=3)
    status, report = audit(tmp_path / "j")
    assert (status, report["records"], report["ended"]) == (0, 21, False)
    run(tmp_path / "j", number_loader(files, **arguments), state)
    status, report = audit(tmp_path / "j")
    assert (status, report["records"], report["missing"], report["repeated"]) == (0, 43, 0, 0)


def test_a_parser_is_inferred_of_files_with_a_subset(image_folder: Path, tmp_path: Path) -> None:
    files = str(image_folder / "*")
    ringfeed.write_subset(ringfeed.open_files(files), tmp_path / "kept.rfs", [5, 7, 239])
    with ringfeed.Loader(files, batch=2, subset=tmp_path / "kept.rfs", rank=None) as loader:
        assert [len(batch["label"]) for batch in loader] == [2, 1]


def test_what_is_no_subset_is_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    path = tmp_path / "kept.rfs"
    for kept, error in (([-1], ValueError), ([300], errors.InvalidArgument), ([1.5], TypeError)):
        with pytest.raises(error):
            keep(files, path, kept)
    with pytest.raises(TypeError, match="list of integers"):
        keep(files, path, 3)
    with pytest.raises(errors.NotFound, match="kept.rfs"):
        number_loader(files, subset=path)
    with pytest.raises(errors.InvalidArgument, match="note_records"):
        ringfeed.write_subset(ringfeed.open_files(files, format="rows:8"), path)
    path.write_bytes(b"anything")
    with pytest.raises(errors.Error, match="no subset of ringfeed's"):
        number_loader(files, subset=path)
    keep(files, path, [3])
    with pytest.raises(errors.InvalidArgument, match="of other data"):
        next(number_loader(str(tmp_path / "part-0.rows"), subset=path))
