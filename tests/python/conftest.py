"""Data that the tests of several files read, made by the package's own command."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest
from s3_servers import moto, pys3local, radosgw, s3  # noqa: F401  (fixtures of several files)

#: tf.Examples of the session's data set: "image" ragged uint8, "label" one int64.
IMAGES = 240


def pytest_configure() -> None:
    """Ctrl-C is ignored in what a shell runs in the background, and in what that starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # What this machine lacks is told as a warning; tests of that say so.
    os.environ.setdefault("RINGFEED_LOG", "off")


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with IMAGES small tf.Examples in three TFRecord files. To be read only."""
    folder = tmp_path_factory.mktemp("images")
    subprocess.run(
        [sys.executable, "-m", "ringfeed", "make", str(folder), "--kind", "image"]
        + ["--records", str(IMAGES), "--record-bytes", "2KiB", "--files", "3", "--seed", "7"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return folder


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """A Loader that a traceback holds keeps its threads and its share of the pinned memory until
    the collector comes. Behind a test that imported a large package the collector leaves that
    alone: to look at JAX each time takes longer than all tests."""
    modules = len(sys.modules)
    yield
    gc.collect()
    if len(sys.modules) > modules + 50:
        gc.freeze()
