#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "readers/formats/examined_file.h"
#include "readers/index/open_index.h"
#include "tests/readers/formats/tar_file.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

OpenedIndex OpenInMemory(const IndexedFile& file) {
  IndexOptions options;
  options.save = false;
  return OpenRecordIndex(file, options);
}

TEST(IndexedFormatsTest, EveryRecordIsTheOneThatReadingInOrderGives) {
  const TestFolder folder;
  for (const ScannedFile& one : ScannedFiles()) {
    SCOPED_TRACE(one.format);
    const IndexedFile in_memory = FileInMemory(one.format, one.bytes);
    const IndexedFile on_disk = FileAt(folder.File("file"), one.format, one.bytes);
    for (const IndexedFile& file : {in_memory, on_disk}) {
      const OpenedIndex opened = OpenInMemory(file);
      ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
      EXPECT_EQ(opened.origin, IndexOrigin::kBuilt);
      EXPECT_GT(opened.index->records(), 1U);
      EXPECT_EQ(opened.index->loss().ranges, 0U);
      ExpectSameBothWays(file, one.bytes, *opened.index);
    }
  }
}

TEST(IndexedFormatsTest, FilesOfOtherProgramsAreReadTheSame) {
  std::size_t indexed = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RINGFEED_TEST_DATA)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().string();
    SCOPED_TRACE(name);
    ExaminedFile examined = ExamineFile(name, nullptr, "", 1 << 20);
    if (!examined.status.ok() || examined.compression != Compression::kNone) continue;
    const bool fortran = name.ends_with("fortran_f4.npy");
    IndexedFile file{examined.name, nullptr, examined.bytes, examined.format};
    const OpenedIndex opened = OpenInMemory(file);
    ASSERT_EQ(opened.status.ok(), !fortran) << opened.status.ToString();
    if (fortran) continue;
    const std::string bytes = ReadBytes(file.name);
    if (file.format->Stripes(bytes.size(), 1 << 20) == 0) continue;
    ExpectSameBothWays(file, bytes, *opened.index);
    ++indexed;
  }
  EXPECT_GT(indexed, 40U);
}

TEST(IndexedFormatsTest, FixedRecordsNeedNoFileForTheirIndex) {
  const std::string bytes = [] {
    std::string some;
    for (int i = 0; i < 1000; ++i) some += static_cast<char>(i * 37 >> 2);
    return some;
  }();
  for (const std::string format :
       {"rows:7", "rows:8", "rows:13,header=100", "rows:5,header=3,stride=8", "rows:1000",
        "rows:1001", "tokens:u2,block=32", "tokens:u4,block=250", "tokens:u4,block=251",
        "tokens:u2,block=300,tail=drop", "tokens:u2,block=65,stride=64",
        "tokens:u4,block=100,stride=7", "raw"}) {
    SCOPED_TRACE(format);
    const IndexedFile file = FileInMemory(format, bytes);
    const OpenedIndex opened = OpenInMemory(file);
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_EQ(opened.origin, IndexOrigin::kComputed);
    ExpectSameBothWays(file, bytes, *opened.index);
    const auto fixed = opened.index->fixed();
    for (std::uint64_t number = 0; fixed && number < opened.index->records(); ++number) {
      RecordUnit unit;
      ASSERT_TRUE(opened.index->Find({&number, 1}, {&unit, 1}).ok());
      EXPECT_EQ(unit.offset, fixed->offset + number * fixed->stride_bytes);
      EXPECT_GE(unit.bytes, fixed->record_bytes);
    }
  }
}

TEST(IndexedFormatsTest, RecordsThatAreTooLongKeepTheirNumbers) {
  for (const ScannedFile& one : ScannedFiles()) {
    if (one.format == "ofrecord") continue;  // what is behind one is lost to it
    SCOPED_TRACE(one.format);
    for (const std::size_t most : {3U, 8U, 50U, 199U, 2000U, 3000U}) {
      IndexedFile file = FileInMemory(one.format, one.bytes);
      file.max_record_bytes = most;
      const OpenedIndex opened = OpenInMemory(file);
      ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
      ExpectSameBothWays(file, one.bytes, *opened.index);
    }
  }
}

TEST(IndexedFormatsTest, WhatCannotBeReadByItselfIsRefusedWithAReason) {
  IndexedFile file = FileInMemory("lines", "a\nb\n");
  file.compression = Compression::kGzip;
  EXPECT_EQ(OpenInMemory(file).status.code(), StatusCode::kUnsupported);
  const std::string globals = TarPax(PaxRecord("path", "x.jpg"), 'g') + TarOf(SomeSamples(2));
  const OpenedIndex tar = OpenInMemory(FileInMemory("tar", globals));
  EXPECT_EQ(tar.status.code(), StatusCode::kUnsupported) << tar.status.ToString();
  EXPECT_EQ(tar.index, nullptr);
  EXPECT_EQ(OpenInMemory(FileInMemory("megatron", "abc")).status.code(), StatusCode::kUnsupported);
}

TEST(IndexedFormatsTest, AFileThatIsNotThereIsAFailure) {
  IndexedFile file = FileInMemory("lines", "a\n");
  file.source = nullptr;
  file.name = "/nowhere/at/all";
  EXPECT_EQ(OpenInMemory(file).status.code(), StatusCode::kNotFound);
}

TEST(IndexedFormatsTest, AChangedUnitIsDamageNotAnotherRecord) {
  for (const ScannedFile& one : ScannedFiles()) {
    SCOPED_TRACE(one.format);
    if (one.format.find("sv") != std::string::npos || one.format.find("lines") == 0 ||
        one.format == "jsonl") {
      continue;  // nothing is checked in text
    }
    const IndexedFile file = FileInMemory(one.format, one.bytes);
    const OpenedIndex opened = OpenInMemory(file);
    ASSERT_TRUE(opened.status.ok());
    const std::uint64_t number = 0;
    RecordUnit unit;
    ASSERT_TRUE(opened.index->Find({&number, 1}, {&unit, 1}).ok());
    std::vector<std::byte> bytes(static_cast<std::size_t>(unit.bytes), std::byte{0xa5});
    FrameOutput output;
    FramerOptions options{"file", one.bytes.size(), OnDamage::kSkip};
    const auto skipping = file.format->NewUnitFramer(options);
    EXPECT_TRUE(skipping->Frame({bytes, unit.offset}, unit.records, &output).ok());
    ASSERT_EQ(output.records.size(), unit.records);
    EXPECT_TRUE(output.records[0].damaged());
    ASSERT_EQ(output.damage.size(), 1U);
    EXPECT_EQ(output.damage[0].begin, unit.offset);
    options.on_damage = OnDamage::kFail;
    FrameOutput none;
    const Status failed =
        file.format->NewUnitFramer(options)->Frame({bytes, unit.offset}, unit.records, &none);
    EXPECT_EQ(failed.code(), StatusCode::kDamaged);
    EXPECT_EQ(failed.place().file, "file");
    EXPECT_TRUE(none.records.empty());
  }
}

}  // namespace
}  // namespace ringfeed
