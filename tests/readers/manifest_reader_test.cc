// Chains on a manifest against the same chains on the files that it lists.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "readers/index/open_index.h"
#include "tests/readers/index/made_manifest.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Files = std::vector<std::string>;
using Chain = std::function<Reader(const Files&, OpenOptions)>;

struct Delivered {
  std::vector<std::vector<std::uint64_t>> batches;
  std::vector<std::string> positions;  ///< before each, and at the end
};

Delivered Take(Reader reader) {
  Delivered all;
  Instance batch;
  all.positions.push_back(reader.Position());
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    Drained drained;
    AddInstance(batch, &drained);
    EXPECT_EQ(drained.strange, 0u);
    all.batches.push_back(drained.ids);
    all.positions.push_back(reader.Position());
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  return all;
}

Chain Shuffled(const ShuffleOptions& shuffle, const BatchOptions& batch) {
  return [=](const Files& files, const OpenOptions& options) {
    return Batch(Parse(Shuffle(OpenFiles(files, options), shuffle), RawParser()), batch);
  };
}

std::vector<std::pair<std::string, Chain>> Chains() {
  BatchOptions of_rank{.size = 6};
  of_rank.rank = {1, 3};
  BatchOptions by_files = of_rank;
  by_files.split_by_files = true;
  const ShuffleOptions global{.seed = 5, .mode = ShuffleMode::kGlobal};
  return {
      {"files",
       [](const Files& files, OpenOptions options) {
         options.files.shuffle = true;
         return MultiPass(Batch(Parse(OpenFiles(files, options), RawParser()), {.size = 7}), 2);
       }},
      {"window", Shuffled({.window = 17, .seed = 5}, {.size = 7})},
      {"block", Shuffled({.block = 13, .seed = 5}, {.size = 7})},
      {"stripes", Shuffled({.window = 9, .seed = 5, .mode = ShuffleMode::kStripes}, {.size = 7})},
      {"global", Shuffled(global, {.size = 7})},
      {"rank 1 of 3", Shuffled(global, of_rank)},
      {"rank 1 of 3 by files", Shuffled(global, by_files)},
      {"mixture",
       [=](const Files& files, const OpenOptions& options) {
         std::vector<MixSet> sets;
         sets.push_back({.records = OpenFiles(files, options), .weight = 1});
         sets.push_back({.records = Shuffle(OpenFiles(files, options), global), .weight = 2});
         return Batch(Parse(Mix(sets, options), RawParser()), {.size = 8});
       }},
      {"token batches",
       [=](const Files& files, const OpenOptions& options) {
         TokenBatchOptions tokens{.field = "bytes", .tokens = 900, .shares = 3};
         tokens.steps = StepOptions{.rank = {1, 2}, .balance = Balance{}};
         return TokenBatch(Parse(Shuffle(OpenFiles(files, options), global), RawParser()), tokens);
       }},
  };
}

class ManifestReaderTest : public PipelineTest {
 protected:
  void MakeData() {
    for (const std::size_t records : {60u, 1u, 90u, 44u}) {
      files_.push_back(MakeFile(RandomSizes(records, records, 8, 300)));
    }
    MakeManifest(manifest_, files_);
  }
  /// By number, damage skipped.
  Drained ReadAll(ShuffleMode mode) {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    Reader reader = OpenFiles({manifest_}, options);
    if (mode != ShuffleMode::kNone) reader = Shuffle(std::move(reader), {.seed = 1, .mode = mode});
    return Drain(Batches(std::move(reader), 9));
  }

  Files files_;
  const std::string manifest_ = directory_.File("all.manifest");
};

TEST_F(ManifestReaderTest, EveryOrderAndPositionIsThatOfItsFiles) {
  MakeData();
  for (const auto& [name, chain] : Chains()) {
    SCOPED_TRACE(name);
    const Delivered listed = Take(chain({manifest_}, Options()));
    EXPECT_FALSE(listed.batches.empty());
    const Delivered named = Take(chain(files_, Options()));
    EXPECT_EQ(listed.batches, named.batches);
    EXPECT_EQ(listed.positions, named.positions);
    const std::size_t middle = named.batches.size() / 2 / 2 * 2;
    for (const Files& files : {files_, Files{manifest_}}) {
      Reader reader = chain(files, Options());
      reader.Restore(named.positions[middle]);
      const Delivered rest = Take(std::move(reader));
      const auto behind = named.batches.begin() + static_cast<std::ptrdiff_t>(middle);
      EXPECT_EQ(rest.batches, std::vector(behind, named.batches.end()));
    }
  }
}

TEST_F(ManifestReaderTest, NothingIsKeptBesideTheFiles) {
  MakeData();
  EXPECT_EQ(ReadAll(ShuffleMode::kGlobal).ids.size(), records_made());
  const IndexPlace place = IndexPlaceFor(files_.front(), {});
  EXPECT_FALSE(std::filesystem::exists(place.own));
  EXPECT_FALSE(std::filesystem::exists(place.shared));
}

TEST_F(ManifestReaderTest, DamageOfItIsNoDamageOfTheFiles) {
  MakeData();
  std::string bytes = ReadBytes(manifest_);
  bytes[bytes.size() - 100] ^= 1;
  WriteBytes(manifest_, std::as_bytes(std::span(bytes)));
  const Drained drained = ReadAll(ShuffleMode::kGlobal);
  EXPECT_EQ(drained.end, ReadResult::kFailed);
  EXPECT_NE(drained.status.message().find("--manifest " + manifest_), std::string::npos)
      << drained.status.ToString();
}

TEST_F(ManifestReaderTest, AFileThatWasWrittenSinceIsAFailure) {
  MakeData();
  std::filesystem::last_write_time(files_[2], std::filesystem::file_time_type::clock::now());
  const auto expect_told = [&](const Status& status) {
    for (const std::string& part : {std::string("it was written"), files_[2], manifest_}) {
      EXPECT_NE(status.ToString().find(part), std::string::npos) << status.ToString();
    }
  };
  const Drained in_order = Drain(Batches(OpenFiles({manifest_}, Options()), 9));
  EXPECT_EQ(in_order.end, ReadResult::kFailed);
  expect_told(in_order.status);
  try {
    (void)ReadAll(ShuffleMode::kGlobal);
    FAIL() << "it was read";
  } catch (const Error& error) {
    expect_told(error.status());
  }
}

TEST_F(ManifestReaderTest, ItIsTheOnlyName) {
  MakeData();
  const Drained drained = Drain(Batches(OpenFiles({files_[0], manifest_}, Options()), 9));
  EXPECT_NE(drained.status.message().find("the file is a manifest"), std::string::npos)
      << drained.status.ToString();
  MakeManifest(manifest_, files_, {1, 2});
  try {
    OpenFiles({manifest_}, Options());
    FAIL() << "a part was opened";
  } catch (const Error& error) {
    EXPECT_NE(error.status().message().find("2 of 4 files"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
