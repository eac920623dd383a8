"""What only Python reaches, in combinations that are drawn at random: see combinations.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SEARCH = Path(__file__).with_name("combinations.py")
#: Configurations that once differed, or of which each kind is run in any case.
_KEPT = [
    '{"records": 20000, "filter": "slow", "stop": "close"}',
    '{"records": 20000, "filter": "slow", "stop": "close elsewhere"}',
    '{"records": 20000, "filter": "slow", "stop": "leave"}',
    '{"records": 20000, "filter": "slow", "stop": "exit"}',
    '{"records": 20000, "filter": "slow", "stop": "exit by interrupt"}',
    '{"records": 20000, "parser": "own", "filter": "slow", "stop": "close"}',
    '{"loop": "tight", "stop": "interrupt"}',
    '{"loop": "tight", "stop": "signal"}',
    '{"source": "dataset", "batch": 2, "stop": "signal"}',
    '{"source": "generator", "stop": "signal", "resume": "here"}',
    '{"source": "generator", "stop": "close elsewhere"}',
    '{"records": 20000, "ranks": 2, "stop": "signal"}',
    '{"filter": "throws"}',
    '{"parser": "throws"}',
    '{"source": "generator", "filter": "throws"}',
    '{"order": "global", "epochs": "exact"}',
    '{"devices": "emu:2", "epochs": "part"}',
    '{"source": "sequences", "batching": "packs", "epochs": "exact"}',
    '{"source": "tfrecord", "skip": true, "drop": true, "ranks": 2}',
    '{"source": "mixture", "asker": "asyncio"}',
    '{"source": "arrays", "parser": "auto", "labels": true, "order": "global", "ranks": 2}',
]


def _search(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-B", str(_SEARCH), *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_configurations_at_random_deliver_each_record_once() -> None:
    _search("--seconds", os.environ.get("RINGFEED_SEARCH_SECONDS", "20"))


def test_configurations_that_once_differed() -> None:
    for kept in _KEPT:
        _search("--only", kept, "--tries", "2")
