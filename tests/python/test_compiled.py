"""Compiled functions per record: of ctypes, of Numba, of an address."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from loader_data import all_numbers, number_loader, numbers, open_sequences, write_rows
from loader_data import write_sequences

import ringfeed

_SOURCE = r"""
#include <stdint.h>
#include <string.h>

int32_t halve(const void* const* inputs, const int64_t* bytes, void* const* outputs) {
  int64_t x;
  if (bytes[0] != sizeof x) return 3;
  memcpy(&x, inputs[0], sizeof x);
  const double half = x / 2.0;
  const int32_t pair[2] = {(int32_t)x, (int32_t)-x};
  memcpy(outputs[0], &half, sizeof half);
  memcpy(outputs[1], pair, sizeof pair);
  return 0;
}

int32_t refuse_50(const void* const* inputs, const int64_t* bytes, void* const* outputs) {
  int64_t x;
  memcpy(&x, inputs[0], sizeof x);
  memcpy(outputs[0], &x, sizeof x);
  return x == 50 ? 17 : 0;
}

int32_t sum(const void* const* inputs, const int64_t* bytes, void* const* outputs) {
  int64_t total = 0;
  for (int64_t i = 0; i < bytes[0] / 8; ++i) total += ((const int64_t*)inputs[0])[i];
  memcpy(outputs[0], &total, sizeof total);
  return 0;
}

/* Writes the second of two only. */
int32_t only_pair(const void* const* inputs, const int64_t* bytes, void* const* outputs) {
  const int32_t pair[2] = {1, 2};
  memcpy(outputs[1], pair, sizeof pair);
  return 0;
}

/* Bytes of every value, also those that a place may be filled with beforehand. */
int32_t low_byte(const void* const* inputs, const int64_t* bytes, void* const* outputs) {
  memcpy(outputs[0], inputs[0], 1);
  return 0;
}

/* From 150 on the place stays as it is. */
int32_t below_150(const void* const* inputs, const int64_t* bytes, void* const* outputs) {
  int64_t x;
  memcpy(&x, inputs[0], sizeof x);
  if (x < 150) memcpy(outputs[0], &x, sizeof x);
  return 0;
}

int32_t even(const void* record, int64_t bytes) {
  return bytes == 8 && (*(const unsigned char*)record & 1) == 0;
}

int64_t remainder_of_3(const void* record, int64_t bytes) {
  int64_t x;
  memcpy(&x, record, sizeof x);
  return x % 3;
}
"""

Library = Any


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc)")
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "functions.c").write_text(_SOURCE)
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", "functions.so", "functions.c"],
        cwd=folder,
        check=True,
    )
    yield ctypes.CDLL(str(folder / "functions.so"))


HALVES = {"half": ("float64", ()), "pair": ("int32", (2,))}


@pytest.mark.parametrize("threads", [1, 4])
def test_a_map_gets_the_parsed_fields_and_writes_the_declared_ones(
    tmp_path: Path, library: Library, threads: int
) -> None:
    loader = number_loader(
        write_rows(tmp_path), map=ringfeed.compiled(library.halve, HALVES), threads=threads
    )
    assert loader.names == ("half", "pair")
    expected = all_numbers(number_loader(write_rows(tmp_path)))
    halves: list[float] = []
    pairs: list[int] = []
    for batch in loader:
        halves += memoryview(batch["half"]).tolist()
        pairs += [x for pair in memoryview(batch["pair"]).tolist() for x in pair]
    assert halves == [x / 2 for x in expected]
    assert pairs == [y for x in expected for y in (x, -x)]


def test_without_a_parser_a_map_gets_the_record(tmp_path: Path, library: Library) -> None:
    (batch,) = ringfeed.Loader(
        write_rows(tmp_path, 1),
        format="rows:8",
        batch=100,
        map=ringfeed.compiled(library.halve, HALVES),
    )
    assert memoryview(batch["half"]).tolist() == [x / 2 for x in range(100)]


def test_a_ragged_field_comes_with_its_length(tmp_path: Path, library: Library) -> None:
    sequences = [[1, 2, 3], [], [40, 2]]
    reader = open_sequences(write_sequences(tmp_path / "a.jsonl", sequences))
    reader = ringfeed.map(reader, ringfeed.compiled(library.sum, {"total": ("int64", ())}))
    (batch,) = ringfeed.Loader.from_reader(ringfeed.batch(reader, 3))
    assert numbers(batch["total"]) == [6, 0, 42]


def test_an_output_that_is_not_written_is_an_error_by_its_name(
    tmp_path: Path, library: Library
) -> None:
    loader = number_loader(
        write_rows(tmp_path), map=ringfeed.compiled(library.only_pair, HALVES), skip_damaged=True
    )
    wanted = 'field "half" was not written by the compiled function only_pair'
    with pytest.raises(ringfeed.errors.UserError, match=wanted):
        next(loader)


def test_the_rows_before_one_that_is_not_written_come(tmp_path: Path, library: Library) -> None:
    function = ringfeed.compiled(library.below_150, {"x": ("int64", ())})
    loader = number_loader(write_rows(tmp_path), map=function, threads=4)
    got: list[int] = []
    with pytest.raises(ringfeed.errors.UserError, match='field "x" was not written'):
        for batch in loader:
            got += numbers(batch)
    assert got == list(range(150))


def test_an_output_may_have_every_value(tmp_path: Path, library: Library) -> None:
    function = ringfeed.compiled(library.low_byte, {"low": ("uint8", ())})
    batches = number_loader(write_rows(tmp_path), map=function, batch=300)
    assert next(batches)["low"].tobytes() == bytes(x % 256 for x in range(300))


def test_a_result_other_than_0_fails_that_record_with_its_number(
    tmp_path: Path, library: Library
) -> None:
    function = ringfeed.compiled(library.refuse_50, {"x": ("int64", ())})
    loader = number_loader(write_rows(tmp_path, 1), map=function)
    with pytest.raises(ringfeed.errors.UserError, match="returned 17") as caught:
        all_numbers(loader)
    assert caught.value.record == 50
    assert caught.value.file.endswith("part-0.rows")


def test_a_compiled_filter_keeps_what_it_says(tmp_path: Path, library: Library) -> None:
    loader = number_loader(write_rows(tmp_path, 1), filter=ringfeed.compiled(library.even))
    assert [len(batch["x"]) for batch in loader] == [7] * 7 + [1]
    assert loader.stats()["filtered_records"] == 50
    assert all_numbers(loader) == list(range(0, 100, 2))
    assert loader.stats()["filtered_records"] == 100, "of both passes that were read"


def test_a_python_filter_keeps_the_same(tmp_path: Path, library: Library) -> None:
    files = write_rows(tmp_path)
    by_python = number_loader(files, filter=lambda record: record[0] % 2 == 0, shuffle=True)
    by_c = number_loader(files, filter=ringfeed.compiled(library.even), shuffle=True)
    assert all_numbers(by_python) == all_numbers(by_c)


def test_groups_are_batched_among_themselves(tmp_path: Path, library: Library) -> None:
    records = ringfeed.open_files(write_rows(tmp_path, 1), format="rows:8")
    parsed = ringfeed.parse(records, ringfeed.rows({"x": ("int64", ())}))
    chain = ringfeed.group_batch(parsed, 5, ringfeed.compiled(library.remainder_of_3))
    batches = [numbers(arrays[0]) for arrays in chain]
    assert all(len({x % 3 for x in batch}) == 1 for batch in batches)
    assert sorted(x for batch in batches for x in batch) == list(range(100))
    assert batches[0] == [0, 3, 6, 9, 12]


def test_an_address_is_a_function_too(tmp_path: Path, library: Library) -> None:
    address = ctypes.cast(library.even, ctypes.c_void_p).value
    loader = number_loader(write_rows(tmp_path, 1), filter=ringfeed.compiled(address))
    assert all_numbers(loader) == list(range(0, 100, 2))


def test_a_callback_of_ctypes_lives_as_long_as_the_chain(tmp_path: Path) -> None:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
    loader = number_loader(
        write_rows(tmp_path, 1),
        filter=ringfeed.compiled(prototype(lambda record, bytes: int(bytes == 8))),
    )
    assert all_numbers(loader) == list(range(100))


def test_a_function_of_numba_is_taken_by_its_address(tmp_path: Path) -> None:
    numba = pytest.importorskip("numba")
    types = numba.types

    @numba.cfunc(types.int32(types.CPointer(types.uint8), types.int64))
    def keep(record, bytes):  # type: ignore[no-untyped-def]
        return record[0] % 10 == 0

    @numba.cfunc(
        types.int32(
            types.CPointer(types.CPointer(types.int64)),
            types.CPointer(types.int64),
            types.CPointer(types.CPointer(types.float32)),
        )
    )
    def root(inputs, bytes, outputs):  # type: ignore[no-untyped-def]
        outputs[0][0] = inputs[0][0] ** 0.5
        return 0

    loader = number_loader(
        write_rows(tmp_path, 1),
        filter=ringfeed.compiled(keep),
        map=ringfeed.compiled(root, {"root": ("float32", ())}),
        batch=100,
    )
    (batch,) = loader
    roots = memoryview(batch["root"]).tolist()
    assert roots == pytest.approx([x**0.5 for x in range(0, 100, 10)])


def test_what_is_no_function_is_refused(tmp_path: Path, library: Library) -> None:
    with pytest.raises(TypeError, match="not str"):
        ringfeed.compiled("halve")
    with pytest.raises(TypeError, match="null"):
        ringfeed.compiled(0)
    reader = ringfeed.open_files(write_rows(tmp_path, 1), format="rows:8")
    with pytest.raises(TypeError, match="outputs"):
        ringfeed.map(reader, ringfeed.compiled(library.halve))
    with pytest.raises(ValueError, match="'t' is ragged"):
        ringfeed.map(reader, ringfeed.compiled(library.sum, {"t": ("int64", (-1,))}))
