"""Journals that a loop writes are what `ringfeed audit` proves deliveries by."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import pytest
from loader_data import number_loader, write_damaged_tfrecords, write_rows

import ringfeed
from ringfeed import errors


def audit(*journals: Path) -> tuple[int, dict[str, Any]]:
    """The command's status and its report."""
    done = subprocess.run(
        [sys.executable, "-m", "ringfeed", "audit", "--json", *map(str, journals)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def open_loader(files: str, rank: int = 0, ranks: int = 1, **arguments: Any) -> ringfeed.Loader:
    arguments = {"batch": 6, "shuffle": "global", "seed": 7, "note_records": True, **arguments}
    return number_loader(files, rank=ringfeed.Rank(rank, ranks), **arguments)


def run(
    path: Path, loader: ringfeed.Loader, state: Optional[Any] = None, batches: Optional[int] = None
) -> Any:
    """One run of one rank: the state behind its last batch, as if it was killed there, or the
    end where `batches` is None."""
    with loader:
        if state is not None:
            loader.load_state_dict(state)
        with ringfeed.Journal(path, loader) as journal:
            for _ in loader if batches is None else zip(range(batches), loader):
                journal.append()
            if batches is None:
                journal.end()
        return loader.state_dict()


def test_a_whole_pass_is_audited_as_exactly_once(tmp_path: Path) -> None:
    run(tmp_path / "j", open_loader(write_rows(tmp_path)))
    status, report = audit(tmp_path / "j")
    assert (status, report["records"], report["missing"], report["repeated"]) == (0, 300, 0, 0)


def test_runs_of_other_ranks_that_go_on_are_one_pass(tmp_path: Path) -> None:
    """Two ranks, of which one came further than the state that three ranks go on from."""
    files = write_rows(tmp_path)
    saved = run(tmp_path / "0", open_loader(files, 0, 2), batches=10)
    run(tmp_path / "1", open_loader(files, 1, 2), batches=13)
    for rank in range(3):
        run(tmp_path / str(rank), open_loader(files, rank, 3), json.loads(json.dumps(saved)))
    status, report = audit(*(tmp_path / str(rank) for rank in range(3)))
    assert (status, report["records"], report["missing"], report["repeated"]) == (0, 300, 0, 0)
    assert report["rolled_back"] == 3 * 3
    assert report["runs"] == 2


def test_a_batch_that_the_loop_left_out_is_missing(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    with loader, ringfeed.Journal(tmp_path / "j", loader) as journal:
        for number, _ in enumerate(loader):
            if number != 5:
                journal.append()
        journal.end()
    status, report = audit(tmp_path / "j")
    assert (status, report["missing"], report["repeated"]) == (1, 6, 0)


def test_a_batch_that_is_noted_twice_is_repeated(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    with loader, ringfeed.Journal(tmp_path / "j", loader) as journal:
        next(loader)
        journal.append()
        journal.append()
    status, report = audit(tmp_path / "j")
    assert (status, report["repeated"]) == (1, 6)


def test_damage_that_was_left_out_is_told(tmp_path: Path) -> None:
    files = write_damaged_tfrecords(tmp_path / "a.tfrecord", 20, 3)
    loader = ringfeed.Loader(
        files, batch=4, skip_damaged=True, note_records=True, rank=None, shuffle=True
    )
    run(tmp_path / "j", loader)
    _, report = audit(tmp_path / "j")
    assert (report["records"], report["damaged"], report["missing"]) == (19, 1, 0)


def test_a_loader_with_a_filter_may_leave_records_out(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path), filter=lambda record: record[0] % 2 == 0)
    run(tmp_path / "j", loader)
    status, report = audit(tmp_path / "j")
    assert status == 0 and 0 < report["records"] < 300


def test_the_command_and_the_package_write_journals_of_one_run(tmp_path: Path) -> None:
    """Ranks of both kinds; the command says of the data what the package says."""
    files = write_rows(tmp_path)
    run(tmp_path / "0", open_loader(files, 0, 2))
    words = ["--format", "rows:8", "--parse", "rows: x=i8", "--batch", "6", "--seed", "7"]
    words += ["--shuffle-mode", "global", "--rank", "1", "--ranks", "2"]
    command = [sys.executable, "-m", "ringfeed", "feed", *sorted(map(str, tmp_path.glob("*.rows")))]
    subprocess.run(
        [*command, *words, "--journal", str(tmp_path / "1")],
        check=True,
        capture_output=True,
        timeout=120,
    )
    status, report = audit(tmp_path / "0", tmp_path / "1")
    assert (status, report["records"], report["runs"]) == (0, 300, 1)


def test_an_epoch_behind_another_has_a_journal_from_its_beginning(tmp_path: Path) -> None:
    with open_loader(write_rows(tmp_path)) as loader:
        for epoch in range(2):
            with ringfeed.Journal(tmp_path / f"j{epoch}", loader) as journal:
                for _ in loader:
                    journal.append()
                journal.end()
        assert loader.epoch == 2
    for epoch in range(2):
        status, report = audit(tmp_path / f"j{epoch}")
        assert (status, report["records"]) == (0, 300)


def test_a_journal_takes_no_batch_of_another_epoch(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    with loader, ringfeed.Journal(tmp_path / "first", loader) as journal:
        for _ in loader:
            journal.append()
        journal.end()
        with pytest.raises(ValueError, match="at its end"):
            journal.append()
        next(iter(loader))
        with pytest.raises(ValueError, match="of epoch 0, the loop is in 1"):
            journal.append()
    assert audit(tmp_path / "first")[0] == 0


def test_joined_passes_are_noted_as_what_may_come_again(tmp_path: Path) -> None:
    """A batch over the end of a pass is of two of them: an audit then holds no pass to once."""
    run(tmp_path / "j", open_loader(write_rows(tmp_path), passes=2))
    status, report = audit(tmp_path / "j")
    assert (status, report["records"]) == (0, 600)


def test_the_end_is_noted_at_the_end_alone(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    with loader, ringfeed.Journal(tmp_path / "j", loader) as journal:
        with pytest.raises(ValueError, match="no batch yet"):
            journal.append()
        next(loader)
        with pytest.raises(ValueError, match="not at its end"):
            journal.end()


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    journal = ringfeed.Journal(tmp_path / "j", loader)
    next(loader)
    journal.close()
    journal.close()
    with pytest.raises(errors.InvalidArgument, match="closed"):
        journal.append()


def test_two_ranks_cannot_write_one_file(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    with ringfeed.Journal(tmp_path / "j", loader):
        with pytest.raises(errors.InvalidArgument, match="a file of its own"):
            ringfeed.Journal(tmp_path / "j", loader)
    ringfeed.Journal(tmp_path / "j", loader).close()


def test_what_is_no_journal_stays_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "notes"
    other.write_text("mine\n")
    with pytest.raises(errors.InvalidArgument, match="no journal"):
        ringfeed.Journal(other, open_loader(write_rows(tmp_path)))
    assert other.read_text() == "mine\n"


def test_loaders_that_do_not_say_enough_are_refused_with_the_remedy(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    with pytest.raises(errors.InvalidArgument, match="note_records=True"):
        ringfeed.Journal(tmp_path / "j", number_loader(files))
    chain = ringfeed.batch(ringfeed.open_files(files, format="rows:8", note_records=True), 4)
    with pytest.raises(TypeError, match="of files"):
        ringfeed.Journal(tmp_path / "j", ringfeed.Loader.from_reader(chain))
    with pytest.raises(TypeError, match="host memory"):
        ringfeed.Journal(tmp_path / "j", open_loader(files, devices="emu:1"))
    assert not (tmp_path / "j").exists()


def test_a_forked_child_leaves_the_journal_alone(tmp_path: Path) -> None:
    loader = open_loader(write_rows(tmp_path))
    with loader, ringfeed.Journal(tmp_path / "j", loader) as journal:
        next(loader)
        child = os.fork()
        if child == 0:
            try:
                journal.append()
            except RuntimeError:
                journal.close()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        journal.append()
    assert audit(tmp_path / "j")[1]["records"] == 6


@pytest.mark.parametrize("given, expected", [(None, "job"), ("mine", "mine")])
def test_the_launch_is_the_launchers_unless_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Optional[str], expected: str
) -> None:
    files = write_rows(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    rank = ringfeed.Rank(0, 1, source="torchrun")
    loader = number_loader(files, rank=rank, note_records=True)
    ringfeed.Journal(tmp_path / "j", loader, launch=given).close()
    assert f"launch={expected} " in (tmp_path / "j").read_text()


def test_a_launch_that_is_no_text_is_refused(tmp_path: Path) -> None:
    loader = number_loader(write_rows(tmp_path), note_records=True)
    with pytest.raises(TypeError, match="launch is a str"):
        ringfeed.Journal(tmp_path / "j", loader, launch=5)  # type: ignore[arg-type]
