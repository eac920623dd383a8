#include "readers/engine/files/record_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/guarded_sources.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

class RecordSetTest : public testing::Test {
 protected:
  // Files of 0, 1, …, count - 1 lines, every third one without any.
  std::vector<std::string> Files(std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      std::string text;
      for (std::size_t line = 0; i % 3 != 0 && line < i; ++line) {
        text += "file " + std::to_string(i) + " line " + std::to_string(line) + "\n";
      }
      names.push_back(folder_.File("f" + std::to_string(i) + ".txt"));
      WriteText(names.back(), text);
    }
    return names;
  }

  const TestFolder folder_;
  RecordSet::Options options_;
};

TEST_F(RecordSetTest, RowsAreNumberedThroughTheListOfFiles) {
  const std::vector<std::string> names = Files(20);
  options_.stripe_bytes = 40;
  const RecordSet set(names, {}, options_);
  ASSERT_TRUE(set.status().ok()) << set.status().ToString();
  ASSERT_EQ(set.files(), 20U);
  RowNumber row = 0;
  for (std::size_t file = 0; file < 20; ++file) {
    EXPECT_EQ(set.FirstRow(file), row);
    EXPECT_EQ(set.file(file).name, names[file]);
    const std::uint64_t lines = file % 3 == 0 ? 0 : file;
    for (std::uint64_t i = 0; i < lines; ++i, ++row) EXPECT_EQ(FileOfRow(set, row), file);
    EXPECT_EQ(set.FirstRow(file + 1), row);
    EXPECT_EQ(set.stripes(file), (set.file(file).bytes + 39) / 40);
  }
  EXPECT_EQ(set.rows(), row);
}

TEST_F(RecordSetTest, StripesBeginWhereReadingInOrderBeginsThem) {
  const std::vector<std::string> names = Files(17);
  options_.stripe_bytes = 33;
  const RecordSet set(names, {}, options_);
  for (std::size_t file = 0; file < set.files(); ++file) {
    const InOrder read = ReadInOrder(*set.file(file).format, ReadBytes(names[file]), 33);
    ASSERT_EQ(read.first_of_stripe.size(), set.stripes(file));
    for (std::uint64_t stripe = 0; stripe <= set.stripes(file); ++stripe) {
      RowNumber row = 0;
      ASSERT_TRUE(set.FirstRowOfStripe(file, stripe, &row).ok());
      const std::uint64_t first =
          stripe == set.stripes(file) ? read.records.size() : read.first_of_stripe[stripe];
      EXPECT_EQ(row, set.FirstRow(file) + first);
    }
  }
}

TEST_F(RecordSetTest, SourcesAreIndexedInMemory) {
  const std::vector<std::string> names = Files(5);
  std::vector<std::shared_ptr<Source>> sources;
  for (const std::string& name : names) {
    const std::string text = ReadBytes(name);
    const auto bytes = std::as_bytes(std::span(text));
    sources.push_back(
        std::make_shared<MemorySource>(name, std::vector<std::byte>(bytes.begin(), bytes.end())));
  }
  const RecordSet of_sources(names, sources, options_);
  ASSERT_TRUE(of_sources.status().ok());
  EXPECT_FALSE(std::filesystem::exists(IndexPlaceFor(names[4], {}).shared));
  const RecordSet of_files(names, {}, options_);
  EXPECT_TRUE(std::filesystem::exists(IndexPlaceFor(names[4], {}).shared));
  EXPECT_EQ(of_sources.rows(), of_files.rows());
  EXPECT_EQ(of_sources.fingerprint(), of_files.fingerprint());
}

TEST_F(RecordSetTest, WhatASourceThrowsIsItsFailureInAnyThread) {
  class ThrowingSource final : public MemorySource {
   public:
    using MemorySource::MemorySource;
    Status ReadAt(std::uint64_t, std::span<std::byte>, std::size_t*) override {
      throw std::runtime_error("connection reset by peer");
    }
  };
  for (const std::size_t count : {1u, 5u}) {
    std::vector<std::shared_ptr<Source>> sources;
    for (std::size_t i = 0; i < count; ++i) {
      sources.push_back(
          Guarded(std::make_shared<ThrowingSource>("far", std::vector<std::byte>(100))));
    }
    options_.threads = 3;
    const RecordSet set(std::vector<std::string>(count, "far"), sources, options_);
    EXPECT_EQ(set.status().code(), StatusCode::kUserError);
    EXPECT_NE(set.status().message().find("connection reset"), std::string::npos);
    EXPECT_EQ(set.rows(), 0u);
  }
}

TEST_F(RecordSetTest, AFileThatCannotBeHadHasAStatusAndNoRows) {
  std::vector<std::string> names = Files(3);
  names.insert(names.begin() + 1, folder_.File("missing.txt"));
  const RecordSet set(names, {}, options_);
  EXPECT_EQ(set.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(set.file(1).status.code(), StatusCode::kNotFound);
  EXPECT_EQ(set.FirstRow(2), set.FirstRow(1));
  EXPECT_EQ(set.stripes(1), 0U);
  EXPECT_EQ(set.rows(), 3U);
}

TEST_F(RecordSetTest, WhatNoRecordHasIsAFailureUnlessDamageIsSkipped) {
  std::string bytes = PlainFile(SomePayloads());
  const std::string name = folder_.File("a.tfrecord");
  bytes[3] ^= 1;
  WriteText(name, bytes);
  options_.format = "tfrecord";
  EXPECT_EQ(RecordSet({name}, {}, options_).status().code(), StatusCode::kDamaged);
  options_.on_damage = OnDamage::kSkip;
  const RecordSet skipping({name}, {}, options_);
  EXPECT_TRUE(skipping.status().ok());
  EXPECT_EQ(skipping.rows(), SomePayloads().size() - 1);
}

TEST_F(RecordSetTest, TheFingerprintTellsWhatChanged) {
  const std::vector<std::string> names = Files(9);
  const DataFingerprint before = RecordSet(names, {}, options_).fingerprint();
  EXPECT_EQ(DifferenceOf(before, RecordSet(names, {}, options_).fingerprint()), "");

  const std::string text = ReadBytes(names[7]);
  WriteText(names[7], "other" + text.substr(5));
  const std::string contents = DifferenceOf(before, RecordSet(names, {}, options_).fingerprint());
  EXPECT_NE(contents.find("contents"), std::string::npos) << contents;
  EXPECT_NE(contents.find("number 7"), std::string::npos) << contents;

  WriteText(names[7], text + "one more\n");
  const std::string longer = DifferenceOf(before, RecordSet(names, {}, options_).fingerprint());
  EXPECT_NE(longer.find("bytes"), std::string::npos) << longer;
  WriteText(names[7], text);

  std::vector<std::string> others = names;
  std::swap(others[1], others[2]);
  const std::string order = DifferenceOf(before, RecordSet(others, {}, options_).fingerprint());
  EXPECT_NE(order.find("order"), std::string::npos) << order;
  others.pop_back();
  const std::string fewer = DifferenceOf(before, RecordSet(others, {}, options_).fingerprint());
  EXPECT_NE(fewer.find("files: 8, were 9"), std::string::npos) << fewer;
}

TEST_F(RecordSetTest, ManyFilesShareThePartsOfAFingerprint) {
  const std::vector<std::string> names = Files(150);
  const DataFingerprint before = RecordSet(names, {}, options_).fingerprint();
  EXPECT_EQ(before.parts.size(), DataFingerprint::kMostParts);
  const std::string text = ReadBytes(names[100]);
  WriteText(names[100], "X" + text.substr(1));
  const RecordSet now(names, {}, options_);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < before.parts.size(); ++i) {
    changed += before.parts[i] != now.fingerprint().parts[i] ? 1U : 0U;
  }
  EXPECT_EQ(changed, 1U);
  const std::string difference = DifferenceOf(before, now.fingerprint());
  EXPECT_NE(difference.find("contents"), std::string::npos) << difference;
  EXPECT_NE(difference.find(" to "), std::string::npos) << difference;
}

}  // namespace
}  // namespace ringfeed
