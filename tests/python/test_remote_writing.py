"""Objects of S3 are written as local files are: they appear when they are complete."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from s3_servers import S3Server
from s3_server import BUCKET

pytest.importorskip("boto3")
pytestmark = pytest.mark.xdist_group("s3")
MIB = 1 << 20
HERE = f"s3://{BUCKET}/written"


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the bucket, which is empty again afterwards."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    client = s3.client()
    yield client
    for name in names(client):
        client.delete_object(Bucket=BUCKET, Key=name)
    assert uploads(client) == []


def names(client: Any) -> list[str]:
    return [its["Key"] for its in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def uploads(client: Any) -> list[Any]:
    listed: list[Any] = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    return listed


def run(*words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "ringfeed", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def body(client: Any, name: str) -> str:
    return hashlib.sha256(client.get_object(Bucket=BUCKET, Key=name)["Body"].read()).hexdigest()


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("size", [1000, 8 * MIB, 20 * MIB])
def test_what_is_converted_is_what_a_disk_would_have(
    bucket: Any, tmp_path: Path, size: int
) -> None:
    lines, local = tmp_path / "in.rows", tmp_path / "out.rows"
    lines.write_bytes((bytes(range(250)) * (size // 250 + 1))[:size])
    words = ["--from", "rows:8", "--to", "rows:8"]
    run("convert", str(lines), str(local), *words)
    out = f"{HERE}/a=b c+.rows"
    run("convert", str(lines), out, *words)
    assert body(bucket, "written/a=b c+.rows") == sum_of(local)
    digests = [run("digest", its, "--format", "rows:8").split()[0] for its in (out, str(local))]
    assert digests[0] == digests[1]
    assert "already" in run("convert", str(lines), out, *words, status=2)
    run("convert", str(lines), out, *words, "--force")


def test_a_folder_and_parts_become_objects(bucket: Any, tmp_path: Path) -> None:
    run("make", str(tmp_path), "--kind", "table", "--records", "100", "--files", "2")
    run("convert", f"{tmp_path}/*.tfrecord", f"{HERE}/", "--to", "recordio")
    files = sorted(tmp_path.glob("*.tfrecord"))
    assert names(bucket) == [f"written/{its.stem}.recordio" for its in files]
    words = ["convert", f"{HERE}/*.recordio", f"{HERE}/cut.tfrecord"]
    run(*words, "--records-per-file", "40")
    assert [name for name in names(bucket) if "cut-" in name] == [
        f"written/cut-0000{number}.tfrecord" for number in range(3)
    ]
    again = run(*words, "--records-per-file", "60", "--force", status=2)
    assert "cut-00002.tfrecord is there already" in again


def test_a_manifest_is_written_beside_its_objects(bucket: Any, tmp_path: Path) -> None:
    run("make", f"{HERE}/data", "--kind", "table", "--records", "100", "--files", "3")
    manifest, files = f"{HERE}/all.manifest", f"{HERE}/data/*.tfrecord"
    run("index", files, "--manifest", manifest)
    for part in range(2):
        words = ["--manifest", f"{HERE}/{part}.part", "--part", f"{part}/2"]
        run("index", files, *words)
    run("index", "--merge", f"{HERE}/*.part", "--manifest", f"{HERE}/merged.manifest")
    assert body(bucket, "written/merged.manifest") == body(bucket, "written/all.manifest")
    digests = [run("digest", its).split()[0] for its in (manifest, files)]
    assert digests[0] == digests[1]


def test_nothing_is_visible_of_what_is_stopped_or_killed(bucket: Any, tmp_path: Path) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        command = [sys.executable, "-m", "ringfeed", "convert", "-", f"{HERE}/cut.rows"]
        words = ["--from", "rows:8", "--to", "rows:8"]
        writer = subprocess.Popen(
            [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=-3
        )
        assert writer.stdin is not None
        writer.stdin.write(bytes(20 * MIB))
        writer.stdin.flush()
        until = time.monotonic() + 60
        while not uploads(bucket) and time.monotonic() < until:
            time.sleep(0.05)
        assert len(uploads(bucket)) == 1
        writer.send_signal(kind)
        writer.wait(60)
        assert names(bucket) == []
        left = uploads(bucket)
        assert len(left) == (1 if kind == signal.SIGKILL else 0)
        for its in left:
            bucket.abort_multipart_upload(Bucket=BUCKET, Key=its["Key"], UploadId=its["UploadId"])


def test_a_bucket_that_is_not_there_is_told(bucket: Any, tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_bytes(bytes(80))
    words = ["convert", str(tmp_path / "a.rows"), "s3://nothing-here/x.rows"]
    assert "bucket" in run(*words, "--from", "rows:8", "--to", "rows:8", status=2)
