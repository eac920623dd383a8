"""Objects of S3 are read as local files are, by real servers that check signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest
from loader_data import all_numbers, number_loader, numbers, write_rows
from s3_servers import S3Server
from s3_server import BUCKET

from ringfeed import errors

pytest.importorskip("boto3")
pytestmark = pytest.mark.xdist_group("s3")
FILES, ROWS = 5, 20_000
NAMES = [f"data/a=b/train {number}+.rows" for number in range(FILES)]
INDEX = NAMES[0] + ".idx"
OTHERS = ["changing.rows", "train.manifest", INDEX]
PATTERN = f"s3://{BUCKET}/data/*/train*.rows"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("remote"), FILES, ROWS)


def use(server: S3Server, local: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server with the files in its bucket, which is empty again afterwards."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    client = server.client()
    for number, name in enumerate(NAMES):
        client.upload_file(local.replace("*", str(number)), BUCKET, name)
    yield server
    for name in [*NAMES, *OTHERS]:
        client.delete_object(Bucket=BUCKET, Key=name)


@pytest.fixture
def bucket(s3: S3Server, local: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    yield from use(s3, local, monkeypatch)


@pytest.fixture
def without_ranges(
    pys3local: S3Server, local: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    yield from use(pys3local, local, monkeypatch)


def read(files: Any, **options: Any) -> list[int]:
    with number_loader(files, batch=1000, **options) as loader:
        return all_numbers(loader)


def test_a_pattern_and_a_prefix_stand_for_the_objects(bucket: S3Server, local: str) -> None:
    wanted = read(local)
    assert read(PATTERN) == wanted
    assert read(f"s3://{BUCKET}/data/") == wanted
    bucket.client().put_object(Bucket=BUCKET, Key=INDEX, Body=b"another program's")
    assert read(f"s3://{BUCKET}/data/") == wanted
    with pytest.raises(errors.NotFound):
        read(f"s3://{BUCKET}/data/nothing-*")


def test_orders_and_positions_are_those_of_local_files(
    bucket: S3Server, local: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"shuffle": "global", "seed": 3, "batch": 1000}
    wanted = read(local, shuffle="global", seed=3)
    with number_loader(local, **options) as loader:
        batches = iter(loader)
        for _ in range(20):
            next(batches)
        state = loader.state_dict()
    with number_loader(PATTERN, cache=str(tmp_path / "cache"), **options) as loader:
        assert all_numbers(loader) == wanted
        loader.load_state_dict(state)
        assert all_numbers(loader) == wanted[20_000:]
        assert loader.stats()["remote"]["cached_bytes"] > 0


def test_the_command_makes_a_manifest_of_objects(
    bucket: S3Server, local: str, tmp_path: Path
) -> None:
    manifest = str(tmp_path / "train.manifest")
    words = ["index", PATTERN, "--format", "rows:8", "--manifest", manifest]
    command = [sys.executable, "-m", "ringfeed", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    bucket.client().upload_file(manifest, BUCKET, "train.manifest")
    options: dict[str, Any] = {"shuffle": "global", "seed": 4, "cache": str(tmp_path / "cache")}
    wanted = read(local, shuffle="global", seed=4)
    assert read(manifest, **options) == wanted
    assert read(f"s3://{BUCKET}/train.manifest", **options) == wanted


def test_an_object_that_changes_is_a_failure_that_says_so(bucket: S3Server, local: str) -> None:
    name, client = "changing.rows", bucket.client()
    client.upload_file(local.replace("*", "0"), BUCKET, name)
    options: dict[str, Any] = {"stripe_bytes": 4096, "cycle": 1, "arena_bytes": 4 << 20}
    with number_loader(f"s3://{BUCKET}/{name}", **options) as loader:
        batches = iter(loader)
        assert numbers(next(batches))[0] == 0
        client.upload_file(local.replace("*", "1"), BUCKET, name)
        with pytest.raises(errors.Damaged, match="changed"):
            for _ in batches:
                pass


def test_wrong_keys_are_refused_in_words_without_them(
    bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-nobody-sees")
    with pytest.raises(errors.PermissionDenied) as failure:
        read(PATTERN, remote_patience_ms=2000)
    assert "a-secret-nobody-sees" not in str(failure.value)


def test_a_server_that_ignores_ranges_is_read(without_ranges: S3Server, local: str) -> None:
    one = local.replace("*", "0")
    assert read(f"s3://{BUCKET}/{NAMES[0]}") == read(one)
