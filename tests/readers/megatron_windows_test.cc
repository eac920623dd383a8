// Windows over Megatron's documents through whole chains: every order, restores, ranks, damage.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "io/file_mapping.h"
#include "readers/formats/tokens/megatron_line.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/megatron_pair.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kWindow = 16;
const std::vector<std::string> kModes = {
    "megatron:window=16,seed=5,epochs=3,positions,segments,mask",
    "megatron:window=16,seed=5,samples=90,order=megatron,positions,segments,mask"};

/// Of each window its tokens, then its positions, segments and mask.
using Windows = std::vector<std::vector<std::int32_t>>;

class MegatronWindowsTest : public PipelineTest {
 protected:
  MegatronWindowsTest() {
    std::mt19937_64 random(11);
    for (std::size_t i = 0; i < 60; ++i) {
      lengths_.push_back(i % 7 == 0 ? 0 : static_cast<std::int32_t>(random() % 25));
    }
    index_ = MegatronIndexBytes(lengths_);
    data_ = MegatronDataBytes(lengths_);
    Write();
  }
  void Write() const {
    WriteBytes(directory_.File("a.idx"), std::as_bytes(std::span(index_)));
    WriteBytes(directory_.File("a.bin"), std::as_bytes(std::span(data_)));
  }
  OpenOptions Opening(const std::string& format, OnDamage on_damage = OnDamage::kFail) const {
    OpenOptions options = Options();
    options.format = format;
    options.on_damage = on_damage;
    options.stripe_bytes = 4096;
    options.io.block_bytes = 4096;
    return options;
  }
  Reader Chain(const OpenOptions& options, ShuffleMode mode, BatchOptions batch) const {
    Reader rows = Parse(OpenFiles(files_, options), InferParser(files_, options).parser);
    if (mode != ShuffleMode::kNone) rows = Shuffle(std::move(rows), {.seed = 3, .mode = mode});
    return Batch(std::move(rows), batch);
  }
  /// What each window holds, by going over the documents element by element.
  Windows Slow(const std::string& format) const {
    const auto line = LineOf(format);
    const bool by_megatron = format.find("order=megatron") != std::string::npos;
    const std::uint64_t all = std::accumulate(lengths_.begin(), lengths_.end(), std::uint64_t{0});
    const std::uint64_t epochs = by_megatron ? 90 * kWindow / all + 1 : 3;
    struct Element {
      std::int32_t token;
      bool begins;
      bool ends;
    };
    std::vector<Element> joined;
    for (std::uint64_t entry = 0; entry < epochs * lengths_.size(); ++entry) {
      const std::uint64_t sequence = line->SequenceAt(entry);
      const std::int32_t length = lengths_[sequence];
      const std::int32_t first =
          std::accumulate(lengths_.begin(), lengths_.begin() + static_cast<long>(sequence), 0);
      for (std::int32_t i = 0; i < length; ++i) {
        joined.push_back({first + i, i == 0, i + 1 == length});
      }
    }
    Windows windows((joined.size() - 1) / kWindow);
    for (std::size_t k = 0; k < windows.size(); ++k) {
      std::vector<std::int32_t> fields[4];
      for (std::uint64_t i = 0; i <= kWindow; ++i) {
        const Element& element = joined[line->PlaceOfWindow(k) * kWindow + i];
        const bool first = i == 0;
        const bool restarts = first || element.begins;
        fields[0].push_back(element.token);
        fields[1].push_back(restarts ? 0 : fields[1].back() + 1);
        fields[2].push_back(first ? 0 : fields[2].back() + (restarts ? 1 : 0));
        fields[3].push_back(element.ends ? 0 : 1);
      }
      for (const auto& field : fields)
        windows[k].insert(windows[k].end(), field.begin(), field.end());
    }
    return windows;
  }
  std::shared_ptr<const MegatronLine> LineOf(const std::string& format) const {
    MegatronLineOptions options{.window = kWindow, .seed = 5, .epochs = 3};
    if (format.find("order=megatron") != std::string::npos) {
      options.order = MegatronLineOptions::Order::kMegatron;
      options.epochs = 1;
      options.samples = 90;
    }
    std::shared_ptr<const MegatronIndex> index;
    std::shared_ptr<const MegatronLine> line;
    EXPECT_TRUE(MegatronIndex::Load(directory_.File("a.idx"), &index).ok());
    EXPECT_TRUE(MegatronLine::Make("a.idx", *index, data_.size(), options, &line).ok());
    return line;
  }
  static void Append(const Instance& batch, Windows* windows) {
    const std::size_t first = windows->size();
    const auto add = [&](const auto& values) {
      windows->resize(first + values.size() / (kWindow + 1));
      for (std::size_t i = 0; i < values.size(); ++i) {
        (*windows)[first + i / (kWindow + 1)].push_back(values[i]);
      }
    };
    add(batch[0].Values<std::uint16_t>());
    add(batch[1].Values<std::int32_t>());
    add(batch[2].Values<std::int32_t>());
    add(batch[3].Values<std::uint8_t>());
  }
  static Windows ReadAll(Reader reader, Status* status = nullptr) {
    Windows windows;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) Append(batch, &windows);
    if (status != nullptr) {
      *status = reader.status();
    } else {
      EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    }
    return windows;
  }
  static Windows SortedWindows(Windows windows) {
    std::sort(windows.begin(), windows.end());
    return windows;
  }

  std::vector<std::int32_t> lengths_;
  std::string index_;
  std::string data_;
  const std::vector<std::string> files_ = {directory_.File("a.idx")};
};

TEST_F(MegatronWindowsTest, EveryOrderGivesTheWindowsOfTheJoinedDocuments) {
  for (const std::string& format : kModes) {
    const Windows wanted = Slow(format);
    ASSERT_GE(wanted.size(), 90U);
    for (const IoPath path : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap}) {
      OpenOptions options = Opening(format);
      options.io.path = path;
      EXPECT_EQ(ReadAll(Chain(options, ShuffleMode::kNone, {.size = 7})), wanted);
      const Instance ninth = Chain(options, ShuffleMode::kNone, {.size = 7}).RecordAt(9);
      const auto tokens = ninth[0].Values<std::uint16_t>();
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), wanted[9].begin()));
      for (const ShuffleMode mode : {ShuffleMode::kGlobal, ShuffleMode::kStripes}) {
        const Windows shuffled = ReadAll(Chain(options, mode, {.size = 7}));
        EXPECT_NE(shuffled, wanted);
        EXPECT_EQ(SortedWindows(shuffled), SortedWindows(wanted));
      }
    }
  }
}

TEST_F(MegatronWindowsTest, APositionAfterAnyBatchGoesOnWithTheNextWindow) {
  for (const std::string& format : kModes) {
    for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
      const auto chain = [&] { return Chain(Opening(format), mode, {.size = 23}); };
      const Windows all = ReadAll(MultiPass(chain(), 2));
      Reader whole = MultiPass(chain(), 2);
      Windows before;
      Instance batch;
      while (whole.TryReadNext(&batch) == ReadResult::kRecord) {
        Append(batch, &before);
        Reader again = MultiPass(chain(), 2);
        again.Restore(whole.Position());
        const Windows rest = ReadAll(std::move(again));
        ASSERT_EQ(rest, Windows(all.begin() + static_cast<long>(before.size()), all.end()));
      }
    }
  }
}

TEST_F(MegatronWindowsTest, APositionOfAnotherOrderOfDocumentsIsRefused) {
  Reader reader = Chain(Opening(kModes[0]), ShuffleMode::kGlobal, {.size = 9});
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
  const std::string seed = "megatron:window=16,seed=6,epochs=3,positions,segments,mask";
  Reader other = Chain(Opening(seed), ShuffleMode::kGlobal, {.size = 9});
  EXPECT_THROW(
      {
        other.Restore(reader.Position());
        (void)other.TryReadNext(&batch);
      },
      Error);
}

TEST_F(MegatronWindowsTest, RanksOfAnyNumberShareTheWindowsOfEachBatch) {
  constexpr std::size_t kRows = 10;
  for (const std::string& format : kModes) {
    const Windows wanted = ReadAll(Chain(Opening(format), ShuffleMode::kGlobal, {.size = kRows}));
    for (int ranks = 1; ranks <= 5; ++ranks) {
      std::map<std::uint64_t, Windows> batches;
      for (int rank = 0; rank < ranks; ++rank) {
        BatchOptions batching{.size = kRows};
        batching.rank = {rank, ranks};
        Reader reader = Chain(Opening(format), ShuffleMode::kGlobal, batching);
        Instance batch;
        BatchOrigin origin;
        while (reader.TryReadNext(&batch, {.origin = &origin}) == ReadResult::kRecord) {
          Append(batch, &batches[origin.batch]);
        }
        EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
      }
      Windows joined;
      for (const auto& [number, windows] : batches) {
        joined.insert(joined.end(), windows.begin(), windows.end());
      }
      EXPECT_EQ(joined, wanted) << ranks;
    }
  }
}

TEST_F(MegatronWindowsTest, ADamagedPlaceCostsTheWindowsThatHaveSomeOfItAndTheyAreNamed) {
  const std::size_t pointers = MegatronIndex::kHeaderBytes + 4 * lengths_.size();
  const std::int64_t lie = 2;
  ASSERT_GT(lengths_[30], 0);
  for (const std::string& format : kModes) {
    const Windows intact = Slow(format);
    for (const bool cut : {false, true}) {
      const std::string index = index_;
      const std::string data = data_;
      if (cut) data_.resize(data_.size() / 2 + 1);
      if (!cut) std::memcpy(index_.data() + pointers + 30 * 8, &lie, sizeof(lie));
      Write();
      const auto line = LineOf(format);
      Windows wanted;
      for (std::size_t k = 0; k < intact.size(); ++k) {
        if (line->WhyLost(k).ok()) wanted.push_back(intact[k]);
      }
      ASSERT_LT(wanted.size(), intact.size());
      const OpenOptions skips = Opening(format, OnDamage::kSkip);
      for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
        Reader reader = Chain(skips, mode, {.size = 6});
        Windows found;
        Instance batch;
        while (reader.TryReadNext(&batch) == ReadResult::kRecord) Append(batch, &found);
        EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
        EXPECT_EQ(SortedWindows(found), SortedWindows(wanted));
        const PipelineStats stats = reader.Stats();
        EXPECT_EQ(stats.damaged_records, intact.size() - wanted.size());
        EXPECT_NE(stats.damage.at(0).reason.find(cut ? "the .bin file has" : "sequence 30"),
                  std::string::npos)
            << stats.damage.at(0).reason;
        Status failure;
        const Windows first = ReadAll(Chain(Opening(format), mode, {.size = 6}), &failure);
        EXPECT_FALSE(failure.ok());
        EXPECT_LT(first.size(), intact.size());
      }
      index_ = index;
      data_ = data;
      Write();
    }
  }
}

TEST_F(MegatronWindowsTest, ABlendOfHundredsOfSetsHasNoMappingAndFewDescriptorsOfThem) {
  constexpr std::size_t kSets = 300;
  const auto open_data_files = [] {
    std::size_t open = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;  // the one that lists them
      const std::string file = std::filesystem::read_symlink(entry.path(), closed).string();
      open += file.ends_with(".bin") ? 1 : 0;
    }
    return open;
  };
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{400, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Windows each = SortedWindows(Slow(kModes[0]));
  const std::size_t mappings = FileMapping::Count();
  {
    std::vector<MixSet> sets;
    for (std::size_t i = 0; i < kSets; ++i) {
      const std::string name = directory_.File("blend" + std::to_string(i));
      WriteBytes(name + ".idx", std::as_bytes(std::span(index_)));
      WriteBytes(name + ".bin", std::as_bytes(std::span(data_)));
      const OpenOptions options = Opening(kModes[0]);
      Reader set =
          Parse(OpenFiles({name + ".idx"}, options), InferParser({name + ".idx"}, options).parser);
      sets.push_back({Shuffle(std::move(set), {.seed = i, .mode = ShuffleMode::kGlobal}),
                      1.0 + static_cast<double>(i % 3)});
    }
    Reader reader = Batch(Mix(sets), {.size = 50});
    Windows found;
    Instance batch;
    std::size_t most = 0;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      Append(batch, &found);
      most = std::max(most, open_data_files());
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    EXPECT_EQ(FileMapping::Count(), mappings);
    EXPECT_GT(most, 0U);
    EXPECT_LE(most, 120U);
    std::map<std::vector<std::int32_t>, std::size_t> times;
    for (const auto& window : found) ++times[window];
    EXPECT_EQ(found.size(), kSets * each.size());
    for (const auto& window : each) EXPECT_EQ(times[window] % kSets, 0U);
  }
  EXPECT_EQ(open_data_files(), 0U);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_F(MegatronWindowsTest, ADataFileThatIsReplacedBeforeItIsOpenedIsDamage) {
  const CompanionResult found =
      FindFormat("megatron:window=16").format->FindCompanion(directory_.File("a.idx"));
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  const std::string other = directory_.File("other");
  WriteBytes(other, std::as_bytes(std::span(data_)));
  std::filesystem::rename(other, directory_.File("a.bin"));
  std::byte row[8];
  std::size_t got = 0;
  const Status status = found.source->ReadAt(0, row, &got);
  EXPECT_EQ(status.code(), StatusCode::kDamaged);
  EXPECT_NE(status.message().find("written or replaced since it was found"), std::string::npos)
      << status.ToString();
}

TEST_F(MegatronWindowsTest, TheIndexTellsTheFieldsAndAnotherParserIsRefused) {
  const OpenOptions plain = Opening("megatron:window=16");
  EXPECT_EQ(InferParser(files_, plain).name, "tokens");
  const OpenOptions options = Opening(kModes[0]);
  const InferredParser inferred = InferParser(files_, options);
  EXPECT_EQ(inferred.name, "rows");
  ASSERT_EQ(inferred.fields.size(), 4U);
  EXPECT_EQ(inferred.fields[1].name, "position_ids");
  const auto refused = [&](const OpenOptions& open, std::shared_ptr<const Parser> parser) {
    for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
      Reader rows = Parse(OpenFiles(files_, open), parser);
      if (mode != ShuffleMode::kNone) rows = Shuffle(std::move(rows), {.mode = mode});
      Instance row;
      try {
        EXPECT_EQ(rows.TryReadNext(&row), ReadResult::kFailed);
        EXPECT_NE(rows.status().message().find("rows: tokens=u2[17]"), std::string::npos)
            << rows.status().ToString();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("rows: tokens=u2[17]"), std::string::npos)
            << error.what();
      }
    }
  };
  refused(options, TokensParser({.dtype = kUInt16}));
  refused(options, RowsParser({{"tokens", kUInt16, {17}}}));
}

TEST_F(MegatronWindowsTest, OptionsThatDoNotGoTogetherAreRefusedWithWords) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"seed=3", "window=TOKENS is missing"},
      {"window=0", "1 to 2^24"},
      {"window=16,positons", "none of window=TOKENS"},
      {"window=16,documents=5:3", "documents=FIRST:END"},
      {"window=16,samples=9", "order=megatron alone"},
      {"window=16,order=megatron,epochs=2", "samples= in place of epochs="},
      {"window=16,order=megatron,seed=4294967296", "32 bits"}};
  for (const auto& [options, words] : cases) {
    try {
      (void)OpenFiles(files_, Opening("megatron:" + options));
      ADD_FAILURE() << options;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ringfeed
