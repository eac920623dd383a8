"""The reader creators over arrays and files."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from own_threads import thread_ids, threads_left

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


DATA = pathlib.Path(__file__).parents[1] / "data" / "recordio"
NONE, SNAPPY = DATA / "go_none.recordio", DATA / "tiny_snappy.recordio"
THREE = [b"12345", b"1234", b"12"]


class TestRecordio:
    @pytest.mark.parametrize("ahead", [0, 1, 100])
    def test_gives_the_records_of_each_pass_as_bytes(self, ahead):
        records = creator.recordio(NONE, ahead)
        for _ in range(2):
            delivered = list(records())
            assert delivered == THREE
            assert all(type(record) is bytes for record in delivered)

    def test_keeps_an_empty_record(self):
        records = creator.recordio(DATA / "empty_record_inside.recordio")
        assert list(records()) == [b"x", b"", b"yz"]

    @pytest.mark.parametrize(
        "paths",
        [
            f"{NONE},{SNAPPY}",
            [str(NONE), SNAPPY],
            (NONE, SNAPPY),
            map(pathlib.Path, [str(NONE), str(SNAPPY)]),
        ],
        ids=["commas", "list", "tuple", "iterator"],
    )
    def test_reads_one_file_after_the_other(self, paths):
        records = creator.recordio(paths)
        for _ in range(2):
            assert list(records()) == THREE + [b"ABC", b"BCD", b"CDE"]

    def test_takes_a_comma_in_a_list_for_a_character(self, tmp_path):
        path = tmp_path / "a,b"
        path.write_bytes(NONE.read_bytes())
        assert list(creator.recordio([path])()) == THREE
        assert list(creator.recordio(path)()) == THREE

    def test_decodes_as_the_caller_says(self):
        assert list(creator.recordio(NONE, decode=int)()) == [12345, 1234, 12]

    def test_hands_on_what_decode_raises(self):
        with pytest.raises(ZeroDivisionError):
            list(creator.recordio(NONE, decode=lambda record: 1 // 0)())

    def test_reports_a_missing_file_in_the_pass(self, tmp_path):
        records = creator.recordio(tmp_path / "missing.recordio")
        with pytest.raises(ringfeed.Error, match="missing.recordio"):
            list(records())

    def test_ends_the_kernel_s_threads_when_broken_off(self):
        records = creator.recordio([NONE] * 20)
        before = thread_ids()
        for _ in range(10):
            iterator = records()
            next(iterator)
            iterator.close()
        assert not threads_left(before)


def test_the_package_of_readers_needs_no_numpy():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from ringfeed import data_feeder, reader\n"
        "assert list(reader.batch(lambda: iter('abc'), 2)()) == [['a', 'b'], ['c']]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
