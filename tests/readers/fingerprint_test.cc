#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// A store of which some reads fail.
class FlakySource final : public MemorySource {
 public:
  FlakySource(std::vector<std::byte> bytes, int first_bad, int bad)
      : MemorySource("flaky.txt", std::move(bytes)), first_bad_(first_bad), bad_(bad) {}

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    const int number = reads_++;
    if (number >= first_bad_ && number - first_bad_ < bad_) {
      return Status(StatusCode::kIoError, "the store is away");
    }
    return MemorySource::ReadAt(offset, buffer, bytes_read);
  }
  int reads() const { return reads_; }

 private:
  const int first_bad_;
  const int bad_;
  int reads_ = 0;
};

/// By what a position knows its data again.
class FingerprintTest : public PipelineTest {
 protected:
  static constexpr int kNever = 1 << 30;

  Reader Open(std::shared_ptr<FlakySource> source, OnDamage on_damage) const {
    OpenOptions options = Options();
    options.format = "lines";
    options.on_damage = on_damage;
    return Batches(OpenSources({std::move(source)}, options), 10);
  }
  static std::vector<std::byte> Lines() {
    std::vector<std::byte> text;
    for (int i = 0; i < 20000; ++i) text.push_back(i % 10 == 9 ? std::byte{'\n'} : std::byte{'a'});
    return text;
  }
};

TEST_F(FingerprintTest, WhatFailsForAMomentIsNoneOfAPositionsBusiness) {
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const auto good = std::make_shared<FlakySource>(Lines(), kNever, 0);
    const std::string position = Open(good, on_damage).Position();
    ASSERT_GT(good->reads(), 2);
    for (int bad = 0; bad < good->reads(); ++bad) {
      SCOPED_TRACE(bad);
      EXPECT_EQ(Open(std::make_shared<FlakySource>(Lines(), bad, 1), on_damage).Position(),
                position);
    }
  }
}

TEST_F(FingerprintTest, WhatCannotBeReadFailsThePositionWithWords) {
  const auto away = std::make_shared<FlakySource>(Lines(), 0, kNever);
  try {
    (void)Open(away, OnDamage::kFail).Position();
    FAIL() << "a position was made of nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kIoError);
    EXPECT_NE(error.status().message().find("away"), std::string::npos);
  }
}

TEST_F(FingerprintTest, AFileThatIsNotThereCountsAsNothing) {
  std::vector<std::string> files = MakeFiles(2, 100, 100, 100);
  files.push_back(directory_.File("missing.tfrecord"));
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  const std::string position = Batches(OpenFiles(files, options), 10).Position();
  Reader again = Batches(OpenFiles(files, options), 10);
  again.Restore(position);
  EXPECT_EQ(Drain(again).ids.size(), 200U);
}

}  // namespace
}  // namespace ringfeed
