#include "ringfeed/dataset.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "ringfeed/compat/persistent_in_stream.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Texts = std::vector<std::string>;

/// The samples that the data set makes in this pass.
Texts PassOf(Dataset* dataset) {
  Texts samples;
  std::string sample;
  while (dataset->Next(&sample)) samples.push_back(std::exchange(sample, {}));
  return samples;
}

/// Text of each record, in the order of delivery; *status where it fails.
Texts Read(Reader reader, Status* status = nullptr) {
  Texts samples;
  Instance instance;
  ReadResult result = ReadResult::kRecord;
  while ((result = reader.TryReadNext(&instance)) == ReadResult::kRecord) {
    const Tensor& bytes = instance.front();
    samples.emplace_back(reinterpret_cast<const char*>(bytes.data), bytes.bytes);
  }
  EXPECT_EQ(result == ReadResult::kFailed, status != nullptr) << reader.status().ToString();
  if (status != nullptr) *status = reader.status();
  return samples;
}

class Countdown final : public RandomAccessDataset {
 public:
  explicit Countdown(std::uint64_t size) : size_(size) {}
  std::uint64_t Size() const override { return size_; }
  void At(std::uint64_t index, std::string* sample) override { *sample = std::to_string(index); }

 private:
  const std::uint64_t size_;
};

class LineDataset final : public Dataset {
 public:
  explicit LineDataset(Texts parts) : stream_(std::move(parts)) {}
  bool Next(std::string* sample) override { return stream_.ReadLine(sample); }
  bool ReInit() override {
    stream_.Rewind();
    return true;
  }

 private:
  PersistentInStream stream_;
};

class DatasetTest : public PipelineTest {
 protected:
  OpenOptions Open() const {
    OpenOptions options;
    options.arena = arena_;
    return options;
  }
  std::string Part(const std::string& name, const std::string& content) {
    const std::string path = directory_.File(name);
    WriteBytes(path, std::as_bytes(std::span(content)));
    return path;
  }
};

TEST_F(DatasetTest, LinesOfPartsComeOncePerPassAndAgainBehindReInit) {
  const Texts parts{Part("part-0", "a\nb\nc"), Part("part-1", ""), Part("part-2", "d\n\n")};
  Reader reader = MultiPass(FromDataset(std::make_unique<LineDataset>(parts), Open()), 2);
  const Texts wanted{"a", "b", "c", "d", "", "a", "b", "c", "d", ""};
  EXPECT_EQ(Read(reader), wanted);
  reader.ReInit();
  EXPECT_EQ(Read(reader), wanted);
}

TEST_F(DatasetTest, AMissingPartFailsTheStreamBehindTheSamplesBeforeIt) {
  const Texts parts{Part("part-0", "a\nb"), directory_.File("part-1"), Part("part-2", "c")};
  Status status;
  EXPECT_EQ(Read(FromDataset(std::make_unique<LineDataset>(parts), Open()), &status),
            (Texts{"a", "b"}));
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.place().file, parts[1]);
  EXPECT_EQ(status.place().record, -1) << "its number in the data set is none in the part";
}

class Throwing final : public RandomAccessDataset {
 public:
  std::uint64_t Size() const override { return 10; }
  void At(std::uint64_t index, std::string* sample) override {
    if (index == 7) throw std::runtime_error("the shelf is empty");
    sample->assign(1, 'x');
  }
  std::string name() const override { return "shelf"; }
};

TEST_F(DatasetTest, WhatAtThrowsFailsTheStreamAtThatSample) {
  Status status;
  EXPECT_EQ(Read(FromDataset(std::make_unique<Throwing>(), Open()), &status), Texts(7, "x"));
  EXPECT_EQ(status.code(), StatusCode::kUserError);
  EXPECT_EQ(status.place().file, "shelf");
  EXPECT_EQ(status.place().record, 7);
  EXPECT_NE(status.message().find("the shelf is empty"), std::string::npos);
}

TEST_F(DatasetTest, SamplesWithNumbersComeInTheirOrderInEachPass) {
  Countdown three(3);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(PassOf(&three), (Texts{"0", "1", "2"}));
    EXPECT_TRUE(three.ReInit());
  }
  EXPECT_EQ(Read(MultiPass(FromDataset(std::make_unique<Countdown>(2), Open()), 2)),
            (Texts{"0", "1", "0", "1"}));
}

/// What each rank gets in a pass; the data set is rewound so often first.
std::vector<Texts> Shares(std::uint64_t size, DistributedOptions options, int pass = 0) {
  std::vector<Texts> shares;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    DistributedTrainingDataset dataset(std::make_unique<Countdown>(size), options);
    for (int i = 0; i < pass; ++i) EXPECT_TRUE(dataset.ReInit());
    shares.push_back(PassOf(&dataset));
  }
  return shares;
}

TEST(DistributedTrainingDatasetTest, RanksShareByStrideOrByConsecutiveSamples) {
  EXPECT_EQ(Shares(7, {.ranks = 3}), (std::vector<Texts>{{"0", "3", "6"}, {"1", "4"}, {"2", "5"}}));
  EXPECT_EQ(Shares(7, {.ranks = 3, .contiguous = true}),
            (std::vector<Texts>{{"0", "1", "2"}, {"3", "4"}, {"5", "6"}}));
}

TEST(DistributedTrainingDatasetTest, PaddingGivesAllRanksAsManyByAFewTwice) {
  EXPECT_EQ(Shares(7, {.ranks = 3, .pad = true}),
            (std::vector<Texts>{{"0", "3", "6"}, {"1", "4", "1"}, {"2", "5", "2"}}));
  EXPECT_EQ(
      Shares(10, {.ranks = 4, .contiguous = true, .pad = true}),
      (std::vector<Texts>{{"0", "1", "2"}, {"3", "4", "5"}, {"6", "7", "2"}, {"8", "9", "3"}}));
  EXPECT_EQ(Shares(2, {.ranks = 3, .pad = true}), (std::vector<Texts>{{"0"}, {"1"}, {"0"}}));
  EXPECT_EQ(Shares(0, {.ranks = 2, .pad = true}), (std::vector<Texts>{{}, {}}));
}

TEST(DistributedTrainingDatasetTest, EverySampleComesOnceOverAllRanksInEachPass) {
  for (const std::uint64_t size : {0u, 1u, 2u, 3u, 4u, 5u, 17u, 64u, 65u, 1000u}) {
    for (std::size_t ranks = 1; ranks <= 6; ++ranks) {
      for (const bool contiguous : {false, true}) {
        for (const int pass : {0, 1}) {
          std::set<std::string> all;
          std::size_t count = 0;
          const auto shares = Shares(
              size, {.ranks = ranks, .contiguous = contiguous, .shuffle = true, .seed = 5}, pass);
          for (const Texts& share : shares) {
            all.insert(share.begin(), share.end());
            count += share.size();
            EXPECT_LE(shares.front().size() - share.size(), 1u);
          }
          EXPECT_EQ(all.size(), size);
          EXPECT_EQ(count, size);
        }
      }
    }
  }
}

TEST(DistributedTrainingDatasetTest, OrdersDifferBySeedAndPassAndByNothingElse) {
  DistributedOptions options{.shuffle = true, .seed = 1};
  std::set<Texts> orders;
  for (const int pass : {0, 1, 2}) {
    orders.insert(Shares(100, options, pass).front());
    EXPECT_EQ(Shares(100, options, pass), Shares(100, options, pass));
  }
  options.seed = 2;
  orders.insert(Shares(100, options).front());
  EXPECT_EQ(orders.size(), 4u);
}

TEST(DistributedTrainingDatasetTest, RanksThatAreNoneAreRefused) {
  const auto make = [](const DistributedOptions& options) {
    DistributedTrainingDataset dataset(std::make_unique<Countdown>(1), options);
  };
  EXPECT_THROW(make({.rank = 2, .ranks = 2}), Error);
  EXPECT_THROW(make({.ranks = 0}), Error);
  EXPECT_THROW(DistributedTrainingDataset(nullptr, {}), Error);
}

TEST(KeyedPermutationTest, PlacesOfANumberAreSpreadEvenly) {
  constexpr std::uint64_t kSize = 5;
  constexpr std::uint32_t kEpochs = 20'000;
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> times;
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const KeyedPermutation order(kSize, 9, epoch, DrawPurpose::kSampleOrder);
    for (std::uint64_t i = 0; i < kSize; ++i) ++times[{i, order.At(i)}];
  }
  const double expected = double{kEpochs} / kSize;
  double chi_squared = 0;
  for (std::uint64_t i = 0; i < kSize; ++i) {
    for (std::uint64_t place = 0; place < kSize; ++place) {
      const double off = times[{i, place}] - expected;
      chi_squared += off * off / expected;
    }
  }
  EXPECT_LT(chi_squared, 39.3) << "16 degrees of freedom: exceeded once in a thousand";
}

}  // namespace
}  // namespace ringfeed
