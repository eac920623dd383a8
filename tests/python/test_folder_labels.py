"""label="folder": each record's label is the number of the folder that its file lies in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ringfeed

CLASSES = ("bird", "cat", "dog")


def _write_files(folder: Path, files: int = 20) -> dict[bytes, int]:
    """A file each in the folders of CLASSES, in turn; the label of each content."""
    labels = {}
    for number in range(files):
        label = number % len(CLASSES)
        path = folder / CLASSES[label] / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%03d" % number + b"x" * number)
        labels[path.read_bytes()] = label
    return labels


def _rows(batch: Any) -> list[tuple[bytes, int]]:
    content, ends = batch["bytes"].tobytes(), batch["bytes"].offsets.tolist()
    records = [content[begin:end] for begin, end in zip(ends, ends[1:])]
    return list(zip(records, batch["label"].tolist()))


def _loader(folder: Path, **options: Any) -> ringfeed.Loader:
    return ringfeed.Loader(folder, format="raw", label="folder", batch=4, seed=5, **options)


@pytest.mark.parametrize("shuffle", [None, "global", 8])
@pytest.mark.parametrize("io", ["auto", "pread", "mmap"])
def test_whole_files_have_the_number_of_their_folder(tmp_path: Path, shuffle: Any, io: str) -> None:
    labels = _write_files(tmp_path)
    loader = _loader(tmp_path, shuffle=shuffle, io=io)
    assert loader.classes == CLASSES and loader.names == ("bytes", "label")
    rows = [row for batch in loader for row in _rows(batch)]
    assert Counter(rows) == Counter(labels.items())


@pytest.mark.parametrize("shuffle", [None, "global"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_state_goes_on_with_the_same_labels_on_other_ranks(
    tmp_path: Path, shuffle: Any, ranks: int
) -> None:
    _write_files(tmp_path)
    alone = _loader(tmp_path, shuffle=shuffle)
    batches = [_rows(batch) for batch in alone]
    alone.reset()
    next(alone), next(alone)
    state = json.loads(json.dumps(alone.state_dict()))
    parts = []
    for rank in range(ranks):
        loader = _loader(tmp_path, shuffle=shuffle, rank=ringfeed.Rank(rank, ranks))
        assert loader.classes == CLASSES
        loader.load_state_dict(state)
        parts.append([_rows(batch) for batch in loader])
    assert [sum(rows, []) for rows in zip(*parts)] == batches[2:]


def test_records_of_other_formats_and_parsers_are_labelled_too(tmp_path: Path) -> None:
    for label, name in enumerate(CLASSES):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text(f'{{"n": {label}}}\n' * 5)
        (tmp_path / name / "a.txt").write_text(f"{label}\n" * 5)
    for shuffle in (None, "global"):
        with ringfeed.Loader(
            str(tmp_path / "*" / "*.jsonl"), label="folder", batch=4, shuffle=shuffle
        ) as loader:
            for batch in loader:
                assert batch["n"].tolist() == batch["label"].tolist()
        parse = ringfeed.csv({"n": ("int64", [])})
        with ringfeed.Loader(
            str(tmp_path / "*" / "*.txt"), parse=parse, label="folder", batch=4, shuffle=shuffle
        ) as loader:
            for batch in loader:
                assert batch["n"].tolist() == batch["label"].tolist()


def test_functions_of_rows_get_the_label(tmp_path: Path) -> None:
    labels = _write_files(tmp_path)

    def check(row: Any) -> dict[str, Any]:
        assert labels[row["bytes"].tobytes()] == row["label"]
        return {"twice": 2 * int(row["label"])}

    twice = ringfeed.MapRows(check, {"twice": ("int64", [])}, keep=["label"])
    with _loader(tmp_path, map=twice) as loader:
        for batch in loader:
            assert batch["twice"].tolist() == [2 * n for n in batch["label"].tolist()]


def test_images_are_decoded_beside_their_label(tmp_path: Path) -> None:
    if not hasattr(ringfeed._core, "jpeg_parser"):
        pytest.skip("this ringfeed was built without libjpeg-turbo")
    image = pytest.importorskip("PIL.Image")
    for label, name in enumerate(CLASSES):
        (tmp_path / name).mkdir()
        image.new("RGB", (8, 8), (80 * label,) * 3).save(tmp_path / name / "1.jpg", quality=100)
    parse = ringfeed.jpeg.decode(ringfeed.raw(), "bytes", 8, 8)
    with _loader(tmp_path, parse=parse, shuffle="global") as loader:
        (batch,) = loader
        for pixels, label in zip(batch["bytes"].tolist(), batch["label"].tolist()):
            assert abs(pixels[4][4][0] - 80 * label) < 4


def test_a_file_without_a_folder_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("1.jpg").write_bytes(b"1")
    for name in ("1.jpg", "./1.jpg", "*.jpg"):
        with pytest.raises(ValueError, match='1.jpg" has no folder in its name.*train/cat/1.jpg'):
            ringfeed.Loader(name, format="raw", label="folder", batch=1)
    with pytest.raises(ValueError, match="has no folder"):
        ringfeed.Loader("-", format="lines", label="folder", batch=1)


def test_what_cannot_be_labelled_is_refused_with_the_remedy(tmp_path: Path) -> None:
    _write_files(tmp_path)

    class Own(ringfeed.Parser):
        fields = {"n": ("int64", ())}

        def parse(self, sample: bytes) -> Any:
            return {"n": b"\0" * 8}

    with pytest.raises(TypeError, match="Row.file"):
        _loader(tmp_path, parse=Own())
    source = ringfeed.Source("cat/a", 1, lambda at, size: b"a")
    with pytest.raises(TypeError, match="Row.file"):
        ringfeed.Loader(source, format="raw", label="folder", batch=1)
    with pytest.raises(ValueError, match='label is "folder" or None'):
        ringfeed.Loader(tmp_path, format="raw", label="name", batch=1)  # type: ignore[arg-type]
    parse = ringfeed.rows({"label": ("int64", [])})
    with pytest.raises(ValueError, match='has a field "label" already'):
        ringfeed.Loader(tmp_path, format="rows:8", parse=parse, label="folder", batch=1)


def test_without_label_there_are_no_classes(tmp_path: Path) -> None:
    _write_files(tmp_path)
    loader = ringfeed.Loader(tmp_path, format="raw", batch=1)
    assert loader.classes == () and loader.names == ("bytes",)
