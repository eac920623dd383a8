#include "ringfeed/compat/part_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Names = std::vector<std::string>;

TEST(PartFileNamesTest, NumbersAreFilledWithZerosAndNeverCut) {
  PartFileOptions options{.data_dir = "/data", .data_part_num = 12};
  EXPECT_EQ(PartFileNames(options)[0], "/data/part-0");
  EXPECT_EQ(PartFileNames(options)[11], "/data/part-11");
  options.part_name_suffix_length = 5;
  EXPECT_EQ(PartFileNames(options)[11], "/data/part-00011");
  options.part_name_suffix_length = 1;
  EXPECT_EQ(PartFileNames(options)[11], "/data/part-11");
  options.part_name_prefix = "train_";
  EXPECT_EQ(PartFileNames(options)[3], "/data/train_3");
  EXPECT_EQ(PartFileNames(options).size(), 12u);
}

TEST(PartFileNamesTest, FoldersAreJoinedCleanly) {
  EXPECT_EQ(PartFileNames({.data_dir = "a//b/./../c/"}), Names{"a/c/part-0"});
  EXPECT_EQ(PartFileNames({}), Names{"part-0"});
  EXPECT_THROW(PartFileNames({.data_part_num = 0}), Error);
}

TEST(PartFileNamesTest, RanksHaveConsecutivePartsAndTheFirstRanksOneMore) {
  PartFileOptions options{.data_part_num = 5, .ranks = 3};
  std::vector<Names> shares;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    shares.push_back(PartFilesOfRank(options));
  }
  EXPECT_EQ(shares, (std::vector<Names>{{"part-0", "part-1"}, {"part-2", "part-3"}, {"part-4"}}));
  EXPECT_THROW(PartFilesOfRank(options), Error) << "rank 3 of 3";
}

TEST(PartFileNamesTest, TheGlobalBatchIsSplitOverTheRanksOrRefused) {
  EXPECT_EQ(LocalBatchSize({.batch_size = 12, .ranks = 4}), 3u);
  EXPECT_EQ(LocalBatchSize({.batch_size = 0, .ranks = 4}), 0u);
  EXPECT_THROW(LocalBatchSize({.batch_size = 10, .ranks = 4}), Error);
  EXPECT_THROW(LocalBatchSize({.batch_size = 10, .ranks = 0}), Error);
}

class PartFilesTest : public PipelineTest {
 protected:
  /// Writes parts of so many records each; numbers go on from part to part.
  PartFileOptions MakeParts(const std::vector<std::size_t>& records) {
    PartFileOptions options{.data_dir = directory_.path(), .data_part_num = records.size()};
    std::uint64_t next = 0;
    first_.clear();
    for (std::size_t part = 0; part < records.size(); ++part) {
      const std::vector<std::size_t> sizes(records[part], 40);
      WriteTfRecords(PartFileNames(options)[part], next, sizes);
      first_.push_back(next);
      next += records[part];
    }
    first_.push_back(next);
    return options;
  }
  OpenOptions Open() const {
    OpenOptions options = Options();
    options.cycle = 1;
    return options;
  }
  /// What each rank delivers.
  std::vector<Drained> Ranks(PartFileOptions options, std::size_t ranks) {
    options.ranks = ranks;
    std::vector<Drained> all;
    for (options.rank = 0; options.rank < ranks; ++options.rank) {
      all.push_back(Drain(OpenPartFiles(options, Open())));
      EXPECT_EQ(all.back().end, ReadResult::kEnd) << all.back().status.ToString();
    }
    return all;
  }
  /// The parts in the order in which their first records came.
  std::vector<std::size_t> PartsIn(const Drained& drained) const {
    std::vector<std::size_t> parts;
    for (const std::uint64_t id : drained.ids) {
      const auto at = std::find(first_.begin(), first_.end() - 1, id);
      if (at != first_.end() - 1) parts.push_back(static_cast<std::size_t>(at - first_.begin()));
    }
    return parts;
  }
  static std::vector<std::uint64_t> Joined(const std::vector<Drained>& ranks) {
    std::vector<std::uint64_t> ids;
    for (const Drained& each : ranks) ids.insert(ids.end(), each.ids.begin(), each.ids.end());
    return ids;
  }

  std::vector<std::uint64_t> first_;  ///< number of each part's first record, and of none
};

TEST_F(PartFilesTest, TheRanksTogetherDeliverEachRecordOncePerPass) {
  for (std::size_t parts = 1; parts <= 7; parts += kSanitized ? 3 : 1) {
    std::vector<std::size_t> records;
    for (std::size_t part = 0; part < parts; ++part) records.push_back(20 + 7 * part);
    for (std::size_t ranks = 1; ranks <= 6; ++ranks) {
      for (const bool shuffled : {false, true}) {
        PartFileOptions options = MakeParts(records);
        options.shuffle_after_epoch = options.random_shuffle = shuffled;
        options.spare_ranks = SpareRanks::kIdle;
        for (const std::uint64_t passes : {1u, 3u}) {
          options.passes = passes;
          std::vector<std::uint64_t> wanted;
          for (std::uint64_t id = 0; id < first_.back(); ++id)
            wanted.insert(wanted.end(), passes, id);
          EXPECT_EQ(Sorted(Joined(Ranks(options, ranks))), wanted) << parts << " by " << ranks;
        }
      }
    }
  }
}

TEST_F(PartFilesTest, PartsArePermutedAnewBehindEachPassAlikeOnAllRanks) {
  PartFileOptions options = MakeParts(std::vector<std::size_t>(6, 5));
  options.shuffle_after_epoch = true;
  options.passes = 4;
  const std::vector<std::size_t> alone = PartsIn(Ranks(options, 1).front());
  ASSERT_EQ(alone.size(), 24u);
  std::set<std::vector<std::size_t>> orders;
  for (auto pass = alone.begin(); pass != alone.end(); pass += 6) orders.insert({pass, pass + 6});
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_EQ(std::vector(alone.begin(), alone.begin() + 6),
            (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}))
      << "the first pass has the list as it is";
  const std::vector<Drained> ranks = Ranks(options, 3);
  for (std::size_t pass = 0; pass < 4; ++pass) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const std::vector<std::size_t> parts = PartsIn(ranks[rank]);
      ASSERT_EQ(parts.size(), 8u);
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(parts[2 * pass + i], alone[6 * pass + 2 * rank + i]);
    }
  }
}

TEST_F(PartFilesTest, TheOrderOfPartsIsThatOfItsSeedAndNotOfTheSamplesSeed) {
  PartFileOptions options = MakeParts(std::vector<std::size_t>(6, 1));
  options.shuffle_after_epoch = true;
  options.passes = 3;
  const auto order = [&] { return Ranks(options, 1).front().ids; };
  const std::vector<std::uint64_t> first = order();
  options.seed = 77;
  EXPECT_EQ(order(), first);
  options.file_seed = 77;
  EXPECT_NE(order(), first);
}

TEST_F(PartFilesTest, SamplesAreShuffledWithinTheirPassByTheSeed) {
  PartFileOptions options = MakeParts({300, 300});
  options.random_shuffle = true;
  options.shuffle_buffer_size = 100;
  options.passes = 2;
  options.seed = 5;
  const std::vector<std::uint64_t> found = Ranks(options, 1).front().ids;
  EXPECT_EQ(Ranks(options, 1).front().ids, found);
  EXPECT_EQ(Sorted({found.begin(), found.begin() + 600}), Numbers(600));
  EXPECT_NE(std::vector(found.begin(), found.begin() + 600), Numbers(600));
  options.seed = 6;
  EXPECT_NE(Ranks(options, 1).front().ids, found);
}

TEST_F(PartFilesTest, AFreshSeedIsReported) {
  PartFileOptions options = MakeParts({300});
  options.random_shuffle = true;
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < 3; ++i) {
    Reader reader = OpenPartFiles(options, Open());
    const std::vector<std::uint64_t> found = Drain(reader).ids;
    ASSERT_EQ(reader.Stats().seeds.size(), 1u);
    const std::uint64_t seed = reader.Stats().seeds.front();
    seeds.insert(seed);
    Reader again =
        Shuffle(OpenFiles(PartFileNames(options), Open()), {.window = 1024, .seed = seed});
    EXPECT_EQ(Drain(again).ids, found) << "with the seed the same order comes again";
  }
  EXPECT_EQ(seeds.size(), 3u);
}

TEST_F(PartFilesTest, BatchesAreThisRanksPartOfTheGlobalOneAndGoOnOverTheEndOfAPass) {
  PartFileOptions options = MakeParts({7, 7});
  options.batch_size = 8;
  options.passes = 2;
  for (const Drained& rank : Ranks(options, 2)) {
    EXPECT_EQ(rank.rows, (std::vector<std::size_t>{4, 4, 4, 2}));
  }
  options.ranks = 3;
  EXPECT_THROW(OpenPartFiles(options, Open()), Error);
  Reader parsed = Parse(OpenPartFiles(MakeParts({10}), Open()), RawParser());
  EXPECT_EQ(Drain(parsed).ids, Numbers(10));
  options = MakeParts({10});
  options.batch_size = 10;
  EXPECT_EQ(Drain(Parse(OpenPartFiles(options, Open()), RawParser())).rows,
            (std::vector<std::size_t>{10}));
}

TEST_F(PartFilesTest, PartsThatOneFlowWroteAreReadByTheirNameAndParsedBehindBatch) {
  const PartFileOptions options{.data_dir = RINGFEED_TEST_DATA "/ofrecord/prefix_suffix3",
                                .part_name_prefix = "train.data-",
                                .part_name_suffix_length = 3,
                                .batch_size = 4};
  Reader reader = Parse(OpenPartFiles(options, Open()), OFRecordParser({{"id", kInt32, {}}}));
  std::vector<std::int32_t> ids;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    const auto values = batch[0].Values<std::int32_t>();
    ids.insert(ids.end(), values.begin(), values.end());
  }
  EXPECT_EQ(ids, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(PartFilesTest, PassesWithoutEndGoOn) {
  PartFileOptions options = MakeParts({3, 0, 4});
  options.passes = 0;
  const Drained found = Drain(OpenPartFiles(options, Open()), 100);
  ASSERT_EQ(found.ids.size(), 100u);
  for (std::size_t i = 0; i < found.ids.size(); ++i) EXPECT_EQ(found.ids[i], i % 7);
}

TEST_F(PartFilesTest, AMissingPartIsAnErrorThatNamesItBeforeAnythingIsRead) {
  PartFileOptions options = MakeParts({3, 3});
  options.data_part_num = 3;
  try {
    OpenPartFiles(options, Open());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kNotFound);
    EXPECT_EQ(error.status().place().file, PartFileNames(options)[2]);
  }
  options.ranks = 3;
  EXPECT_EQ(Drain(OpenPartFiles(options, Open())).ids, Numbers(3)) << "another rank's part";
  options.shuffle_after_epoch = true;
  EXPECT_THROW(OpenPartFiles(options, Open()), Error) << "this rank may come to it";
}

TEST_F(PartFilesTest, ADamagedRecordIsSkippedAndCountedOrFailsTheStream) {
  const PartFileOptions options = MakeParts({5, 5});
  std::FILE* const out = std::fopen(PartFileNames(options)[0].c_str(), "r+b");
  ASSERT_NE(out, nullptr);
  std::fseek(out, 56 * 3 + 30, SEEK_SET);
  std::fputc(0x5A, out);
  std::fclose(out);
  const Drained failed = Drain(OpenPartFiles(options, Open()));
  EXPECT_EQ(failed.end, ReadResult::kFailed);
  EXPECT_EQ(failed.ids, Numbers(3));
  OpenOptions skip = Open();
  skip.on_damage = OnDamage::kSkip;
  Reader reader = OpenPartFiles(options, skip);
  EXPECT_EQ(Drain(reader).ids, (std::vector<std::uint64_t>{0, 1, 2, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(reader.Stats().damaged_records, 1u);
}

TEST_F(PartFilesTest, MoreRanksThanPartsAreAnErrorOrIdle) {
  PartFileOptions options = MakeParts({3, 3});
  options.ranks = 3;
  options.rank = 2;
  EXPECT_THROW(OpenPartFiles(options, Open()), Error);
  options.rank = 0;
  EXPECT_THROW(OpenPartFiles(options, Open()), Error) << "on all ranks alike";
  options.spare_ranks = SpareRanks::kIdle;
  EXPECT_EQ(Drain(OpenPartFiles(options, Open())).ids, Numbers(3));
  options.rank = 2;
  options.passes = 0;
  const Drained idle = Drain(OpenPartFiles(options, Open()));
  EXPECT_EQ(idle.end, ReadResult::kEnd) << idle.status.ToString();
  EXPECT_TRUE(idle.ids.empty());
}

TEST_F(PartFilesTest, AnOrderOfFilesNeedsFilesAndARank) {
  OpenOptions options = Open();
  options.files = {.rank = 1, .ranks = 1};
  EXPECT_THROW(OpenFiles({"a"}, options), Error);
  options.files = {.rank = 0, .ranks = 2};
  EXPECT_THROW(OpenFiles({"-"}, options), Error) << "a stream is no list";
}

}  // namespace
}  // namespace ringfeed
