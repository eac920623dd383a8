"""Shards of MDS that `ringfeed convert` writes, by MosaicML's own reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ringfeed

streaming = pytest.importorskip("streaming", reason="mosaicml-streaming is not installed")
RECORDS = [b"", b"a", bytes(range(256)), b"x" * 20_000, b"two\nlines"] * 7


def convert(*words: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ringfeed", "convert", *map(str, words)],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert done.returncode == 0, done.stderr


def written(folder: Path) -> list[str]:
    names = []
    for number in range(3):
        names.append(str(folder / f"part-{number}.tfrecord"))
        with ringfeed.open_record_writer(names[-1], "tfrecord") as writer:
            for record in RECORDS[number::3]:
                writer.write(record)
    return names


@pytest.mark.parametrize("in_parts", [False, True])
def test_the_real_reader_gives_the_records_in_their_order(tmp_path: Path, in_parts: bool) -> None:
    files, mds = written(tmp_path), tmp_path / "mds"
    if in_parts:
        convert(*files, mds / "shard.mds", "--records-per-file", "8")
    else:
        convert(*files, f"{mds}/", "--to", "mds")
    expected = [record for number in range(3) for record in RECORDS[number::3]]
    samples = streaming.StreamingDataset(local=str(mds), shuffle=False, batch_size=1)
    assert [samples[i]["data"] for i in range(len(samples))] == expected
    samples = [record.tobytes() for (record,) in ringfeed.open_files(str(mds))]
    assert [sample[4:] for sample in samples] == expected


def test_rows_become_columns_of_their_types(tmp_path: Path) -> None:
    rows = [
        {"blob": "x" * n, "n": n - 2, "v": [n / 2, -n], "w": list(range(300 * n))} for n in range(5)
    ]
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    convert(source, tmp_path / "mds" / "a.mds", "--parse", "jsonl: blob=u1[] n=i8 v=f4[2] w=i8[]")
    samples = streaming.StreamingDataset(local=str(tmp_path / "mds"), shuffle=False, batch_size=1)
    assert len(samples) == len(rows)
    for sample, row in zip((samples[i] for i in range(len(samples))), rows, strict=True):
        assert sample["blob"] == row["blob"].encode()
        assert sample["n"] == row["n"]
        for name, dtype in (("v", "float32"), ("w", "int64")):
            assert sample[name].dtype == dtype
            assert sample[name].tolist() == row[name]
