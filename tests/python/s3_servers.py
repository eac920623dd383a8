"""S3 servers as fixtures. Tests of them need @pytest.mark.xdist_group("s3"): then each server is
started once, by the one process that runs these tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "remote"))

from s3_server import MotoServer, Pys3Local, RadosGateway, S3Server  # noqa: E402


def running(kind: type[S3Server]) -> Iterator[S3Server]:
    reason = kind.missing()
    if reason:
        pytest.skip(reason)
    with kind() as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """Checks signatures; closes each connection."""
    yield from running(MotoServer)


@pytest.fixture(scope="session")
def radosgw() -> Iterator[S3Server]:
    """Checks signatures strictly; keeps connections."""
    yield from running(RadosGateway)


@pytest.fixture(scope="session")
def pys3local() -> Iterator[S3Server]:
    """Checks signatures; answers 200 where a range was asked for."""
    yield from running(Pys3Local)


@pytest.fixture(params=["moto", "radosgw"])
def s3(request: pytest.FixtureRequest) -> S3Server:
    """Each server that does what S3 promises, in turn."""
    server: S3Server = request.getfixturevalue(request.param)
    return server
