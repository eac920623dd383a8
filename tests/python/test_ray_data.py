"""Ray Data reads files by ranges of batches, in processes of its own."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest
from loader_data import NUMBER, all_numbers, number_loader, write_rows

import ringfeed
from ringfeed.parsers import inferred

FILES, ROWS = 3, 35
RECORDS = FILES * ROWS


@pytest.fixture
def files(tmp_path: Path) -> str:
    return write_rows(tmp_path, FILES, ROWS)


def test_a_parser_is_the_same_after_it_was_pickled(files: str) -> None:
    parser = pickle.loads(pickle.dumps(ringfeed.rows(NUMBER)))
    pickled = ringfeed.Loader(files, format="rows:8", parse=parser, batch=7)
    assert all_numbers(pickled) == all_numbers(number_loader(files))


def test_so_is_one_that_files_told_of(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"x": 1}\n{"x": 2}\n')
    parser = pickle.loads(pickle.dumps(inferred([str(path)], {}).parser))
    assert all_numbers(ringfeed.Loader(path, parse=parser, batch=7)) == [1, 2]


@pytest.fixture
def datasource() -> Any:
    for package in ("ray", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: scripts/python --moving installs it")
    import ringfeed.ray

    return ringfeed.ray.datasource


def chain_of(**more: Any) -> dict[str, Any]:
    return {"format": "rows:8", "parse": ringfeed.rows(NUMBER), "batch": 10, **more}


@pytest.mark.parametrize("shuffle", [None, "global"])
@pytest.mark.parametrize("tasks", [1, 3, 11, 100])
def test_its_tasks_read_what_one_loop_reads(
    files: str, datasource: Any, shuffle: Any, tasks: int
) -> None:
    chain = chain_of(shuffle=shuffle, seed=3)
    made = pickle.loads(pickle.dumps(datasource(files, **chain))).get_read_tasks(tasks)
    assert len(made) == min(tasks, 11)
    read = []
    for task in made:
        rows = [row for table in task() for row in table["x"].to_pylist()]
        assert task.metadata.num_rows == len(rows)
        read += rows
    assert read == all_numbers(ringfeed.Loader(files, rank=None, **chain))


def test_ray_reads_each_record_once(files: str, datasource: Any) -> None:
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        data = ray.data.read_datasource(datasource(files, **chain_of()), override_num_blocks=4)
        assert data.count() == RECORDS
        read = sorted(int(row["x"]) for row in data.iter_rows())
    finally:
        ray.shutdown()
    assert read == list(range(RECORDS))


def test_what_ray_decides_is_no_option(files: str, datasource: Any) -> None:
    for name in ("rank", "copy", "passes", "devices"):
        with pytest.raises(TypeError, match=name):
            datasource(files, **{name: None})
    with Path(files.replace("*", "0")).open("rb") as file, pytest.raises(TypeError, match="name"):
        datasource(ringfeed.Source.of(file))
