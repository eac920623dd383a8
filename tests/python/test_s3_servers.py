"""The S3 servers that tests of remote reading use do what S3 does, as boto3 sees it."""

from __future__ import annotations

from typing import Any

import pytest
from s3_servers import S3Server
from s3_server import BUCKET

boto3 = pytest.importorskip("boto3")
from botocore.exceptions import ClientError  # noqa: E402

pytestmark = pytest.mark.xdist_group("s3")
BODY = b"0123456789" * 1000
NAMES = ["train-0.bin", "a=b/train 1.bin", "plus+/\u00fc.bin"]


def filled(server: S3Server) -> Any:
    client = server.client()
    for name in NAMES:
        client.put_object(Bucket=BUCKET, Key=name, Body=BODY)
    return client


def status(error: pytest.ExceptionInfo[ClientError]) -> int:
    return int(error.value.response["ResponseMetadata"]["HTTPStatusCode"])


def test_it_lists_and_serves_ranges(s3: S3Server) -> None:
    client = filled(s3)
    listed = client.list_objects_v2(Bucket=BUCKET, MaxKeys=2)
    assert listed["IsTruncated"]
    rest = client.list_objects_v2(Bucket=BUCKET, ContinuationToken=listed["NextContinuationToken"])
    assert [its["Key"] for its in listed["Contents"] + rest["Contents"]] == sorted(NAMES)
    for name in NAMES:
        got = client.get_object(Bucket=BUCKET, Key=name, Range="bytes=5-14")
        assert got["ContentRange"] == "bytes 5-14/10000"
        assert got["Body"].read() == b"5678901234"


def test_it_refuses_what_changed_is_missing_or_is_beyond_the_end(s3: S3Server) -> None:
    client = filled(s3)
    asked: list[tuple[int, dict[str, str]]] = [
        (412, {"Key": NAMES[0], "IfMatch": '"another"'}),
        (404, {"Key": "nothing"}),
        (416, {"Key": NAMES[0], "Range": "bytes=10000-10001"}),
    ]
    for code, what in asked:
        with pytest.raises(ClientError) as error:
            client.get_object(Bucket=BUCKET, **what)
        assert status(error) == code


@pytest.mark.parametrize("server", ["moto", "radosgw", "pys3local"])
def test_it_checks_signatures(server: str, request: pytest.FixtureRequest) -> None:
    its: S3Server = request.getfixturevalue(server)
    filled(its)
    with pytest.raises(ClientError) as error:
        its.client(aws_secret_access_key="another").get_object(Bucket=BUCKET, Key=NAMES[0])
    assert status(error) == 403


def test_pys3local_ignores_ranges(pys3local: S3Server) -> None:
    got = filled(pys3local).get_object(Bucket=BUCKET, Key=NAMES[0], Range="bytes=5-14")
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert got["Body"].read() == BODY


def test_radosgw_keeps_connections(radosgw: S3Server) -> None:
    client = filled(radosgw)
    kept = [
        client.head_object(Bucket=BUCKET, Key=NAMES[0])["ResponseMetadata"]["HTTPHeaders"]
        for _ in range(2)
    ]
    assert [its.get("connection", "").lower() for its in kept] == ["keep-alive"] * 2
