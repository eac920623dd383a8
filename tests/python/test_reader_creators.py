"""The reader creators over arrays and files."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys

import pytest

import ringfeed
from ringfeed.reader import creator


class TestNpArray:
    @pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 2, 3), (0, 3)])
    def test_goes_along_the_first_dimension(self, shape):
        numpy = pytest.importorskip("numpy")
        array = numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape)
        samples = creator.np_array(array)
        for _ in range(2):
            delivered = list(samples())
            assert len(delivered) == shape[0]
            for sample, row in zip(delivered, array):
                assert sample.dtype == array.dtype
                numpy.testing.assert_array_equal(sample, row)

    def test_gives_rows_without_a_copy(self):
        numpy = pytest.importorskip("numpy")
        array = numpy.zeros((2, 3))
        assert all(numpy.shares_memory(row, array) for row in creator.np_array(array)())

    def test_gives_an_array_without_dimensions_as_one_sample(self):
        pytest.importorskip("numpy")
        assert list(creator.np_array(7)()) == [7]


class TestTextFile:
    def test_gives_lines_without_their_ends(self, tmp_path):
        path = tmp_path / "lines.txt"
        path.write_bytes("0 1\n\n  2 \r\nüber".encode())
        lines = creator.text_file(path)
        for _ in range(2):
            assert list(lines()) == ["0 1", "", "  2 ", "über"]

    def test_reports_a_missing_file_in_the_pass(self, tmp_path):
        lines = creator.text_file(tmp_path / "missing.txt")
        with pytest.raises(FileNotFoundError):
            next(lines())

    def test_closes_the_file_when_broken_off(self, tmp_path):
        path = tmp_path / "lines.txt"
        path.write_text("a\nb\n")
        lines = creator.text_file(path)()
        next(lines)
        file = lines.gi_frame.f_locals["file"]
        lines.close()
        assert file.closed


class FakeFiles:
    """Stands for what open_files returns: records in a buffer that is used again."""

    opened = []

    def __init__(self, names):
        self.opened.append(names)

    def records(self):
        buffer = bytearray(64)
        for name in self.opened[-1]:
            for record in (name.encode(), b"", pickle.dumps((1, name))):
                buffer[: len(record)] = record
                yield memoryview(buffer)[: len(record)]


@pytest.fixture
def fake_files(monkeypatch):
    monkeypatch.setattr(FakeFiles, "opened", [])
    monkeypatch.setattr(ringfeed, "open_files", FakeFiles, raising=False)
    return FakeFiles


class TestRecordio:
    def test_gives_records_as_bytes_of_their_own(self, fake_files):
        assert list(creator.recordio("a")()) == [b"a", b"", pickle.dumps((1, "a"))]

    @pytest.mark.parametrize(
        "paths, names",
        [
            ("a", ["a"]),
            ("a,b", ["a", "b"]),
            (["a,b", "c"], ["a,b", "c"]),
            (pathlib.Path("a,b"), ["a,b"]),
            (map(pathlib.Path, "ab"), ["a", "b"]),
        ],
    )
    def test_takes_paths_in_every_form(self, fake_files, paths, names):
        records = creator.recordio(paths, 3)
        assert len(list(records())) == len(list(records())) == 3 * len(names)
        assert fake_files.opened == [names, names]

    @pytest.mark.parametrize("ahead", [0, 1, 100])
    def test_reads_as_many_ahead_as_asked(self, fake_files, ahead):
        assert len(list(creator.recordio(["a", "b"], ahead)())) == 6

    def test_decodes_as_the_caller_says(self, fake_files):
        records = creator.recordio(
            "a", decode=lambda record: pickle.loads(record) if len(record) > 1 else None
        )
        assert list(records()) == [None, None, (1, "a")]

    def test_hands_on_what_decode_raises(self, fake_files):
        with pytest.raises(ValueError):
            list(creator.recordio("a", decode=lambda record: int(bytes(record), 10))())

    @pytest.mark.skipif(
        not hasattr(ringfeed, "open_files"), reason="this build of ringfeed has no open_files"
    )
    def test_reads_files_of_the_kernel_s(self):
        path = pathlib.Path(__file__).parents[1] / "data" / "recordio" / "go_none.recordio"
        for _ in range(2):
            records = list(creator.recordio(path)())
            assert records and all(isinstance(record, bytes) for record in records)
            assert list(creator.recordio([path, path])()) == records * 2


def test_the_package_of_readers_needs_no_numpy():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from ringfeed import data_feeder, reader\n"
        "assert list(reader.batch(lambda: iter('abc'), 2)()) == [['a', 'b'], ['c']]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
