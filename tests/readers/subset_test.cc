// Chains on a subset of a data set against the same chains on its twin: files of the kept records
// alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "readers/engine/files/subset_file.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Ids = std::vector<std::uint64_t>;
using Random = std::mt19937_64;

/// What a chain delivers, with its positions and the records that it notes.
struct Delivered {
  std::vector<Ids> batches;
  std::vector<Ids> noted;              ///< the same by BatchOrigin::records
  std::vector<std::string> positions;  ///< before each, and at the end
};

class SubsetTest : public PipelineTest {
 protected:
  /// Files whose records have the numbers 0, 1, … of the data set as payloads.
  void MakeData(const std::vector<std::size_t>& records, std::uint64_t seed,
                std::size_t most = 300) {
    std::uint64_t first = records_made();
    ASSERT_EQ(first, 0u);
    for (const std::size_t count : records) {
      sizes_.push_back(RandomSizes(++seed, count, 8, most));
      first_ids_.push_back(records_made());
      files_.push_back(MakeFile(sizes_.back()));
    }
  }
  /// Keeps records of each file, writes the subset and the twin.
  void Keep(const std::function<bool(std::uint64_t)>& keeps) {
    kept_.clear();
    twins_.clear();
    for (std::size_t file = 0; file < files_.size(); ++file) {
      std::vector<std::byte> bytes;
      for (std::size_t i = 0; i < sizes_[file].size(); ++i) {
        const std::uint64_t id = first_ids_[file] + i;
        if (!keeps(id)) continue;
        kept_.push_back(id);
        AppendTfRecord(RecordPayload(id, sizes_[file][i]), &bytes);
      }
      twins_.push_back(directory_.File("twin" + std::to_string(file) + ".tfrecord"));
      WriteBytes(twins_.back(), bytes);
    }
    WriteSubset(OpenFiles(files_, Options()), kept_, subset_);
  }

  /// Each file is one stripe, as its twin.
  OpenOptions Noting(bool twin) const {
    OpenOptions options = Options();
    options.note_records = true;
    if (!twin) options.subset = subset_;
    return options;
  }

  Delivered Take(Reader reader, bool twin, std::size_t most = ~std::size_t{0}) const {
    Delivered all;
    Instance batch;
    BatchOrigin origin;
    all.positions.push_back(reader.Position());
    ReadResult result = ReadResult::kRecord;
    while (all.batches.size() < most &&
           (result = reader.TryReadNext(&batch, {.origin = &origin})) == ReadResult::kRecord) {
      Drained drained;
      AddInstance(batch, &drained);
      all.batches.push_back(drained.ids);
      all.noted.emplace_back();
      for (const RecordRange& range : origin.records) {
        // Of a mixture the files follow each other; they are the same here.
        const std::size_t file = range.file % files_.size();
        for (std::uint64_t i = range.first; i < range.first + range.count; ++i) {
          all.noted.back().push_back(twin ? TwinId(file, i) : first_ids_[file] + i);
        }
      }
      all.positions.push_back(reader.Position());
    }
    EXPECT_NE(result, ReadResult::kFailed) << reader.status().ToString();
    return all;
  }
  std::uint64_t TwinId(std::size_t file, std::uint64_t record) const {
    const auto first = std::lower_bound(kept_.begin(), kept_.end(), first_ids_[file]);
    return first[static_cast<std::ptrdiff_t>(record)];
  }

  std::vector<std::string> files_;
  std::vector<std::vector<std::size_t>> sizes_;
  Ids first_ids_;
  Ids kept_;
  std::vector<std::string> twins_;
  const std::string subset_ = directory_.File("kept.rfs");
};

using Chain = std::function<Reader(const std::vector<std::string>&, OpenOptions)>;
struct Case {
  std::string name;
  Chain chain;
};

Reader Rows(Reader records) { return Parse(std::move(records), RawParser()); }
Chain Shuffled(const ShuffleOptions& shuffle, std::uint64_t passes = 1) {
  return [=](const auto& files, OpenOptions options) {
    Reader rows = Shuffle(OpenFiles(files, options), shuffle);
    if (passes > 1) rows = MultiPass(std::move(rows), passes);
    return Batch(Rows(std::move(rows)), {.size = 7});
  };
}
Chain OfRank(int rank, bool by_files) {
  return [=](const auto& files, OpenOptions options) {
    BatchOptions batch{.size = 6};
    batch.rank = {rank, 3};
    batch.split_by_files = by_files;
    return Batch(
        Rows(Shuffle(OpenFiles(files, options), {.seed = 9, .mode = ShuffleMode::kGlobal})), batch);
  };
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"files",
       [](const auto& files, OpenOptions options) {
         options.cycle = 2;
         return MultiPass(Batch(Rows(OpenFiles(files, options)), {.size = 7}), 2);
       }},
      {"shuffled files",
       [](const auto& files, OpenOptions options) {
         options.files.shuffle = true;
         options.first_epoch = 3;
         BatchOptions batch{.size = 5, .drop_remainder = true};
         return MultiPass(Batch(Rows(OpenFiles(files, options)), batch), 2);
       }},
      {"window", Shuffled({.window = 17, .seed = 5})},
      {"block of joined passes", Shuffled({.block = 13, .seed = 5}, 3)},
      {"stripes", Shuffled({.window = 9, .seed = 5, .mode = ShuffleMode::kStripes})},
      {"global", Shuffled({.seed = 5, .mode = ShuffleMode::kGlobal}, 2)},
      {"rank 1 of 3", OfRank(1, false)},
      {"rank 2 of 3 by files", OfRank(2, true)},
      {"filter",
       [](const auto& files, OpenOptions options) {
         const auto odd = [](const RecordSpan& record) {
           return (record.data[0] & std::byte{1}) != std::byte{0};
         };
         return Batch(Rows(Filter(Shuffle(OpenFiles(files, options), {.window = 9}), odd)),
                      {.size = 4});
       }},
      {"mixture",
       [](const auto& files, OpenOptions options) {
         OpenOptions of_mix = options;
         of_mix.subset.clear();
         std::vector<MixSet> sets;
         for (std::size_t i = 0; i < 2; ++i) {
           Reader set = OpenFiles(files, options);
           if (i == 1) set = Shuffle(std::move(set), {.seed = 3, .mode = ShuffleMode::kGlobal});
           sets.push_back({.records = std::move(set), .weight = 1.0 + static_cast<double>(i)});
         }
         return Batch(Rows(Mix(sets, of_mix)), {.size = 8});
       }},
  };
  for (const int rank : {0, 1}) {
    cases.push_back({"token batches of rank " + std::to_string(rank),
                     [rank](const auto& files, OpenOptions options) {
                       TokenBatchOptions tokens{.field = "bytes", .tokens = 900, .shares = 3};
                       tokens.segment = 40;
                       tokens.best_fit = true;
                       tokens.steps = StepOptions{.rank = {rank, 2}, .balance = Balance{}};
                       return TokenBatch(Rows(Shuffle(OpenFiles(files, options),
                                                      {.seed = 2, .mode = ShuffleMode::kGlobal})),
                                         tokens);
                     }});
  }
  return cases;
}

TEST_F(SubsetTest, EveryOrderIsThatOfDataThatHaveNoOtherRecords) {
  MakeData({60, 1, 90, 44}, 1);
  Random draws(1);
  const Ids in_each{0, 60, 61, 151};  // an empty file has no stripe, a file without kept rows has
  for (int round = 0; round < 4; ++round) {
    Keep([&](std::uint64_t id) {
      const bool always = std::ranges::find(in_each, id) != in_each.end();
      return always || round == 3 || (round > 0 && draws() % (round == 1 ? 2 : 7) == 0);
    });
    for (const Case& each : Cases()) {
      SCOPED_TRACE(each.name + " round " + std::to_string(round));
      const Delivered wanted = Take(each.chain(twins_, Noting(true)), true);
      const Delivered whole = Take(each.chain(files_, Noting(false)), false);
      ASSERT_EQ(whole.batches, wanted.batches);
      EXPECT_EQ(whole.noted, wanted.noted);
      EXPECT_EQ(whole.positions.size(), wanted.positions.size());
      // Positions lie between steps.
      const std::size_t step = each.chain(files_, Noting(false)).BatchesOfStep();
      for (std::size_t from = 0; from <= whole.batches.size(); from += step * (1 + draws() % 5)) {
        Reader reader = each.chain(files_, Noting(false));
        reader.Restore(whole.positions[from]);
        const Delivered rest = Take(std::move(reader), false);
        const auto behind = whole.batches.begin() + static_cast<std::ptrdiff_t>(from);
        ASSERT_EQ(rest.batches, std::vector(behind, whole.batches.end())) << from;
        EXPECT_EQ(rest.positions.front(), whole.positions[from]);
        EXPECT_EQ(rest.positions.back(), whole.positions.back());
      }
    }
  }
}

TEST_F(SubsetTest, RecordsComeInPackedRowsOnAllRanks) {
  MakeData({120, 80}, 7, 60);
  Keep([](std::uint64_t id) { return id % 3 == 0; });
  Ids all;
  for (int rank = 0; rank < 3; ++rank) {
    PackOptions pack{.field = "bytes", .length = 128, .rows = 4, .fit = PackFit::kBest};
    pack.steps = StepOptions{.rank = {rank, 3}, .balance = Balance{}};
    Reader reader = Pack(Rows(OpenFiles(files_, Noting(false))), pack);
    Reader twin = Pack(Rows(OpenFiles(twins_, Noting(true))), pack);
    EXPECT_EQ(reader.CountBatches(), twin.CountBatches());
    Instance batch;
    BatchOrigin origin;
    while (reader.TryReadNext(&batch, {.origin = &origin}) == ReadResult::kRecord) {
      const Instance same = twin.ReadNext();
      const Tensor& bytes = *batch.Find("bytes");
      EXPECT_TRUE(std::equal(bytes.data, bytes.data + bytes.bytes, same.Find("bytes")->data));
      for (const RecordRange& range : origin.records) {
        for (std::uint64_t i = 0; i < range.count; ++i) {
          all.push_back(first_ids_[range.file] + range.first + i);
        }
      }
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  }
  EXPECT_EQ(Sorted(all), kept_);
}

TEST_F(SubsetTest, NothingElseIsRead) {
  MakeData({40, 40}, 3, 8);
  for (std::vector<std::size_t>& sizes : sizes_) sizes.assign(40, 50000);
  files_ = {MakeFile(sizes_[0]), MakeFile(sizes_[1])};
  WriteSubset(OpenFiles(files_, Options()), Ids{3, 47}, subset_);
  for (const IoPath path : {IoPath::kPread, IoPath::kUring, IoPath::kMmap}) {
    OpenOptions options = Noting(false);
    options.io.path = path;
    Reader reader = MultiPass(Batches(OpenFiles(files_, options), 1), 3);
    EXPECT_EQ(Drain(reader).ids, (Ids{83, 127, 83, 127, 83, 127}));
    EXPECT_LT(reader.Stats().read_bytes, 6u * 120000);
  }
}

TEST_F(SubsetTest, DamageThatIsLeftOutIsNotMet) {
  MakeData({40}, 4);
  std::string bytes = ReadBytes(files_[0]);
  std::size_t offset = 20;  // a payload's byte of record 1
  offset += sizes_[0][0] + 16;
  bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
  WriteBytes(files_[0], std::as_bytes(std::span(bytes)));
  WriteSubset(OpenFiles(files_, Options()), Ids{0, 2, 39}, subset_);
  Reader reader = Batches(OpenFiles(files_, Noting(false)), 2);
  EXPECT_EQ(Drain(reader).ids, (Ids{0, 2, 39}));
  EXPECT_EQ(reader.Stats().damaged_records, 0u);
  PackOptions pack{.field = "bytes", .length = 600, .rows = 1, .fit = PackFit::kBest};
  const auto packed = [&] { return Pack(Rows(OpenFiles(files_, Noting(false))), pack); };
  Instance batch;
  Reader rows = packed();
  EXPECT_EQ(rows.TryReadNext(&batch), ReadResult::kRecord) << rows.status().ToString();
  WriteSubset(OpenFiles(files_, Options()), Ids{1, 2}, subset_);
  EXPECT_EQ(Drain(Batches(OpenFiles(files_, Noting(false)), 2)).end, ReadResult::kFailed);
  EXPECT_THROW((void)packed().TryReadNext(&batch), Error);
}

TEST_F(SubsetTest, NoRecordMayBeKept) {
  MakeData({10, 10}, 5);
  WriteSubset(OpenFiles(files_, Options()), Ids{}, subset_);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    const Delivered none = Take(each.chain(files_, Noting(false)), false);
    for (const Ids& batch : none.batches) EXPECT_TRUE(batch.empty());
  }
  Reader endless = MultiPass(Batches(OpenFiles(files_, Noting(false)), 2), 0);
  Instance batch;
  EXPECT_EQ(endless.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_EQ(Batches(OpenFiles(files_, Noting(false)), 2).CountBatches(), 0u);
}

/// The refusal's message; empty, with a failure, if there is none.
std::string Refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

TEST_F(SubsetTest, AChainsRecordsAreWritten) {
  MakeData({30, 30}, 6);
  const auto odd = [](const RecordSpan& record) {
    return (record.data[0] & std::byte{1}) != std::byte{0};
  };
  OpenOptions options = Options();
  EXPECT_NE(Refusal([&] {
              WriteSubset(Filter(OpenFiles(files_, options), odd), subset_);
            }).find("note_records"),
            std::string::npos);
  options.note_records = true;
  Ids wanted;
  for (std::uint64_t id = 1; id < 60; id += 2) wanted.push_back(id);
  const auto global = [&](Reader reader) {
    return Shuffle(std::move(reader), {.seed = 1, .mode = ShuffleMode::kGlobal});
  };
  WriteSubset(Filter(OpenFiles(files_, options), odd), subset_);
  EXPECT_EQ(DrainBlocks(OpenFiles(files_, Noting(false))).ids, wanted);
  const std::string before = ReadBytes(subset_);
  WriteSubset(Batch(Rows(Filter(global(OpenFiles(files_, options)), odd)), {.size = 4}), subset_);
  EXPECT_EQ(ReadBytes(subset_), before);
  // A subset of a subset.
  const auto low = [](const RecordSpan& record) { return record.data[0] < std::byte{9}; };
  WriteSubset(Filter(OpenFiles(files_, Noting(false)), low), subset_);
  EXPECT_EQ(DrainBlocks(OpenFiles(files_, Noting(false))).ids, (Ids{1, 3, 5, 7}));
}

TEST_F(SubsetTest, SubsetsOfOtherDataAndPositionsOfOtherSubsetsAreRefused) {
  MakeData({30, 30}, 8);
  WriteSubset(OpenFiles(files_, Options()), Ids{4, 1, 4, 59}, subset_);
  const auto chain = [&](const std::vector<std::string>& files) {
    return Batches(OpenFiles(files, Noting(false)), 2);
  };
  Reader reader = chain(files_);
  Instance batch = reader.ReadNext();
  const std::string position = reader.Position();
  EXPECT_LE(position.size(), 1024u);
  EXPECT_NE(Refusal([&] {
              (void)chain({files_[1], files_[0]}).ReadNext();
            }).find("the subset is of other data; what changed: sizes of files, or their order"),
            std::string::npos);
  EXPECT_NE(
      Refusal([&] { (void)chain({files_[0]}).ReadNext(); }).find("make it anew (ringfeed subset)"),
      std::string::npos);
  WriteSubset(OpenFiles(files_, Options()), Ids{1, 4, 58}, subset_);
  EXPECT_NE(Refusal([&] { chain(files_).Restore(position); }).find("a chain with another order"),
            std::string::npos);
  EXPECT_NE(Refusal([&] {
              WriteSubset(OpenFiles(files_, Options()), Ids{1, 60}, subset_);
            }).find("no record 60"),
            std::string::npos);
}

TEST_F(SubsetTest, WhatCannotHaveOneIsRefused) {
  MakeData({30}, 9);
  WriteSubset(OpenFiles(files_, Options()), Ids{4}, subset_);
  OpenOptions options = Noting(false);
  options.index = IndexUse::kNever;
  EXPECT_NE(
      Refusal([&] { (void)OpenFiles(files_, options).ReadNext(); }).find("a subset needs an index"),
      std::string::npos);
  EXPECT_NE(Refusal([&] { (void)OpenFiles({"-"}, Noting(false)); }).find("list of files"),
            std::string::npos);
  options = Noting(false);
  options.subset = directory_.File("missing.rfs");
  EXPECT_NE(Refusal([&] { (void)OpenFiles(files_, options); }).find("missing.rfs"),
            std::string::npos);
}

TEST_F(SubsetTest, EveryDamagedFileIsRefused) {
  MakeData({30}, 10);
  WriteSubset(OpenFiles(files_, Options()), Ids{4, 7, 29}, subset_);
  const std::string good = ReadBytes(subset_);
  std::shared_ptr<const SubsetFile> subset;
  const auto open = [&](const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return SubsetFile::Open({nullptr, {bytes.begin(), bytes.end()}}, &subset).ok();
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      EXPECT_FALSE(open(bad)) << i;
    }
    EXPECT_FALSE(open(good.substr(0, i))) << i;
  }
  EXPECT_FALSE(open(good + '\0'));
  // Whole by its checksums, and wrong.
  ASSERT_TRUE(open(good));
  DataFingerprint data = subset->data();
  for (const Ids& numbers : {Ids{4, 4}, Ids{7, 4}, Ids{30}}) {
    const std::vector<std::byte> bytes = EncodeSubset(numbers, data);
    WriteBytes(subset_, bytes);
    EXPECT_THROW((void)OpenSubset(subset_), Error);
  }
  data.records = std::uint64_t{1} << 40;
  const Ids wide{3, std::uint64_t{1} << 33, (std::uint64_t{1} << 40) - 1};
  WriteBytes(subset_, EncodeSubset(wide, data));
  subset = OpenSubset(subset_);
  Ids rows{2, 0, 1};
  ASSERT_TRUE(subset->ToRows(rows).ok());
  EXPECT_EQ(rows, (Ids{wide[2], wide[0], wide[1]}));
  EXPECT_EQ(subset->Before(4), 1u);
  EXPECT_EQ(subset->Before(wide[2]), 2u);
  Ids behind{3};
  EXPECT_FALSE(subset->ToRows(behind).ok());
}

}  // namespace
}  // namespace ringfeed
