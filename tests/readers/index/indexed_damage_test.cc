#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "readers/index/open_index.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/recordio_file.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

// Places between those that are damaged: under a sanitizer some of them do.
constexpr std::size_t kSparser = kSanitized ? 5 : 1;

// Whatever was done to the bytes, numbers and records are those of reading in order; or reading in
// order fails altogether, and so does one of opening and reading by index.
void CheckDamaged(const std::string& format, const std::string& bytes) {
  const IndexedFile file = FileInMemory(format, bytes);
  IndexOptions options;
  options.save = false;
  const OpenedIndex opened = OpenRecordIndex(file, options);
  if (!ReadInOrder(*file.format, bytes, 1 << 20).status.ok()) return;
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  ExpectSameBothWays(file, bytes, *opened.index);
}

TEST(IndexedDamageTest, AnyFlippedBitLeavesTheSameRecordsUnderTheSameNumbers) {
  for (const ScannedFile& one : ScannedFiles()) {
    SCOPED_TRACE(one.format);
    const std::size_t step = (one.bytes.size() > 2000 ? 3 : 1) * kSparser;
    for (std::size_t at = 0; at < one.bytes.size(); at += step) {
      std::string damaged = one.bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at / step % 8)));
      CheckDamaged(one.format, damaged);
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "byte " << at;
    }
  }
}

TEST(IndexedDamageTest, AFileCutAnywhereIsTheSameBothWays) {
  for (const ScannedFile& one : ScannedFiles()) {
    SCOPED_TRACE(one.format);
    const std::size_t step = (one.bytes.size() > 2000 ? 5 : 1) * kSparser;
    for (std::size_t end = 0; end < one.bytes.size(); end += step) {
      CheckDamaged(one.format, one.bytes.substr(0, end));
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "cut at " << end;
    }
  }
}

TEST(IndexedDamageTest, ScribbledFilesAreTheSameBothWays) {
  Scribbler scribbler;
  for (const ScannedFile& one : ScannedFiles()) {
    SCOPED_TRACE(one.format);
    for (int i = 0; i < 300 / static_cast<int>(kSparser); ++i) {
      const std::string damaged = scribbler.Scribbled(one.bytes + one.bytes, 1 + i % 7);
      CheckDamaged(one.format, damaged);
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "round " << i;
    }
  }
}

TEST(IndexedDamageTest, ExchangedAndLostPiecesAreTheSameBothWays) {
  for (const ScannedFile& one : ScannedFiles()) {
    SCOPED_TRACE(one.format);
    const std::size_t size = one.bytes.size();
    for (std::size_t i = 1; i < 60; ++i) {
      const std::size_t at = size * i / 60;
      const std::size_t piece = std::min<std::size_t>(size - at, 1 + i * 13 % 600);
      std::string zeros = one.bytes;
      zeros.replace(at, piece, std::string(piece, '\0'));
      CheckDamaged(one.format, zeros);
      CheckDamaged(one.format, one.bytes.substr(0, at) + one.bytes.substr(at + piece));
      CheckDamaged(one.format, one.bytes.substr(at) + one.bytes);
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "piece " << i;
    }
  }
}

TEST(IndexedDamageTest, ADamagedChunkKeepsTheNumbersOfItsRecords) {
  const std::string first = FluidChunk({"a", "b", "c"});
  const std::string second = GoChunk({"d", "e"});
  std::string file = first + second;
  file[24] = 'X';  // of the first payload
  const auto format = FindFormat("recordio").format;
  const InOrder read = ReadInOrder(*format, file, 1 << 20);
  const NumberedRecords expected{std::nullopt, std::nullopt, std::nullopt, "d", "e"};
  EXPECT_EQ(read.records, expected);
}

TEST(IndexedDamageTest, AHeaderThatPromisesMoreThanCanBeInTheChunkCostsNothing) {
  std::string file = FluidChunk({"a", "b", "c"}) + GoChunk({"d", "e"});
  file[7] = '\x7f';  // of the number of records, the highest byte
  const auto format = FindFormat("recordio").format;
  const InOrder read = ReadInOrder(*format, file, 1 << 20);
  EXPECT_EQ(read.records, (NumberedRecords{"d", "e"}));
  CheckDamaged("recordio", file);
}

TEST(IndexedDamageTest, WhatNoRecordHasIsCounted) {
  std::string bytes = ScannedFiles()[0].bytes;
  bytes[1] = 'x';  // the first length
  const OpenedIndex opened = OpenRecordIndex(FileInMemory("tfrecord", bytes));
  ASSERT_TRUE(opened.status.ok());
  EXPECT_EQ(opened.index->loss().ranges, 1U);
  EXPECT_EQ(opened.index->loss().first_offset, 0U);
}

}  // namespace
}  // namespace ringfeed
