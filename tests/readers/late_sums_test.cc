#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/stream_copy.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/engine/run.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/readers/run_switches.h"
#include "tests/support/stress_scale.h"

// Checksums that writers take: whatever is damaged, all that anybody sees is what it is where
// framing takes them.

namespace ringfeed {
namespace {

/// All that anybody can see of a chain.
struct LateSeen {
  std::vector<std::string> batches;  ///< contents, origins, and positions behind them
  std::string end;                   ///< "", or the failure with its place
  std::string position;
  std::string counts;
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, std::string>> damage;
};

struct LateCase {
  std::vector<std::string> files;
  OnDamage on_damage = OnDamage::kFail;
  ShuffleOptions shuffle{.mode = ShuffleMode::kNone};
  std::size_t batch = 7;
  std::uint64_t passes = 1;
  bool drop_remainder = false;
  Rank rank{};
  std::size_t long_bytes = 1;  ///< of payloads whose checksums are left
  bool shuffled() const { return shuffle.mode != ShuffleMode::kNone; }
};

class LateSumsTest : public PipelineTest {
 protected:
  ~LateSumsTest() override { takes_sums_at_once = false; }

  enum class Sums { kFramed, kLeftAndTakenAtOnce, kWritten, kWrittenFromMemory };

  Reader Chain(const LateCase& of, Sums sums, int threads) const {
    OpenOptions options = Options();
    options.threads = threads;
    options.cycle = 2;
    options.stripe_bytes = 16384;
    options.io.block_bytes = 4096;
    options.on_damage = of.on_damage;
    options.note_records = true;
    // Sums of what was read into memory are left only if a writer can take them beside its copy.
    const bool mapped =
        sums == Sums::kWritten || (sums == Sums::kLeftAndTakenAtOnce && !SumBeside::Works());
    options.io.path = mapped ? IoPath::kMmap : IoPath::kPread;
    Reader reader = OpenFiles(of.files, options);
    if (of.shuffled()) reader = Shuffle(reader, of.shuffle);
    if (of.passes != 1) reader = MultiPass(reader, of.passes);
    reader = Batch(Parse(reader, RawParser()),
                   {.size = of.batch, .drop_remainder = of.drop_remainder, .rank = of.rank});
    RunOptions run_options;
    if (sums != Sums::kFramed) run_options.long_payload_bytes = of.long_bytes;
    takes_sums_at_once = sums == Sums::kLeftAndTakenAtOnce;
    ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
    return reader;
  }

  static LateSeen See(Reader reader) {
    LateSeen seen;
    Instance batch;
    BatchOrigin origin;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&batch, {.origin = &origin})) == ReadResult::kRecord) {
      Drained ids;
      AddInstance(batch, &ids);
      EXPECT_EQ(ids.strange, 0u) << "what is damaged was delivered";
      std::string text =
          std::to_string(origin.batch) + " of pass " + std::to_string(origin.pass) + ":";
      for (const std::uint64_t id : ids.ids) text += " " + std::to_string(id);
      seen.batches.push_back(text + ", records" + RangesText(origin.records) + ", damaged" +
                             RangesText(origin.damaged) + ", " + reader.Position());
    }
    if (result == ReadResult::kFailed) seen.end = reader.status().ToString();
    seen.position = reader.Position();
    const PipelineStats stats = reader.Stats();
    for (const std::uint64_t count :
         {stats.records, stats.payload_bytes, stats.damaged_records, stats.dropped_records,
          stats.lost_ranges, stats.passes_ended, stats.batches, stats.batch_payload_bytes}) {
      seen.counts += " " + std::to_string(count);
    }
    for (const DamagedRange& range : stats.damage) {
      seen.damage.emplace_back(range.file, range.begin, range.end, range.reason);
    }
    std::sort(seen.damage.begin(), seen.damage.end());
    return seen;
  }

  static void ExpectSame(const LateSeen& got, const LateSeen& expected) {
    EXPECT_EQ(got.batches, expected.batches);
    EXPECT_EQ(got.end, expected.end);
    EXPECT_EQ(got.position, expected.position);
    EXPECT_EQ(got.counts, expected.counts);
    EXPECT_EQ(got.damage, expected.damage);
  }

  void ExpectSameByWriters(const LateCase& of) const {
    // Where a shuffle goes on behind a failure, what the framer finds is told without numbers.
    const bool framed =
        of.on_damage == OnDamage::kSkip || of.shuffle.window + of.shuffle.block == 0;
    const Sums plain = framed ? Sums::kFramed : Sums::kLeftAndTakenAtOnce;
    const LateSeen expected = See(Chain(of, plain, 1));
    ExpectSame(See(Chain(of, Sums::kLeftAndTakenAtOnce, 2)), expected);
    EXPECT_TRUE(was_asked_for_sums) << "this program has the run of the library";
    for (const int threads : {1, 3}) {
      ExpectSame(See(Chain(of, Sums::kWritten, threads)), expected);
      ExpectSame(See(Chain(of, Sums::kWrittenFromMemory, threads)), expected);
    }
  }

  /// Flips a bit of the record's payload, or of its length.
  static void Flip(const std::string& path, std::size_t record, bool header) {
    std::string bytes = ReadBytes(path);
    std::size_t at = 0;
    for (std::size_t i = 0; at < bytes.size(); ++i) {
      std::uint64_t length = 0;
      for (std::size_t byte = 0; byte < 8; ++byte) {
        length |= std::uint64_t{static_cast<unsigned char>(bytes[at + byte])} << (8 * byte);
      }
      if (i == record) {
        char& flipped = bytes[header ? at + 1 : at + 12 + length / 2];
        flipped = static_cast<char>(flipped ^ 4);
        WriteBytes(path, std::as_bytes(std::span(bytes)));
        return;
      }
      at += length + 16;
    }
    FAIL() << path << " has no record " << record;
  }
};

TEST_F(LateSumsTest, WhateverIsDamagedLooksAsWhereFramingFindsIt) {
  std::mt19937_64 random(20261127);
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  for (int round = 0; round < StressRounds(250); ++round) {
    LateCase of;
    // Long ones have theirs taken beside the copy.
    const bool is_long = draw(5) == 0;
    const std::size_t records = is_long ? 30 : 120;
    of.files = MakeFiles(1 + draw(3), records, is_long ? 6'000 : 20, is_long ? 30'000 : 900);
    of.on_damage = draw(2) == 0 ? OnDamage::kFail : OnDamage::kSkip;
    constexpr ShuffleMode kModes[] = {ShuffleMode::kNone, ShuffleMode::kWindow, ShuffleMode::kBlock,
                                      ShuffleMode::kStripes, ShuffleMode::kGlobal};
    of.shuffle.mode = kModes[draw(5)];
    of.shuffle.seed = draw(1000);
    if (draw(3) == 0) of.rank = {.rank = static_cast<int>(draw(3)), .world_size = 3};
    // Who asks for records by their numbers is refused files in which some have none.
    const bool by_number = of.rank.world_size > 1 || of.shuffle.mode == ShuffleMode::kStripes ||
                           of.shuffle.mode == ShuffleMode::kGlobal;
    const bool keeps_headers = by_number && of.on_damage == OnDamage::kFail;
    for (std::size_t file = 0; file < of.files.size(); ++file) {
      std::set<std::size_t> flipped;
      for (std::uint64_t i = draw(6); i > 0; --i) flipped.insert(draw(records));
      if (draw(20) == 0) {
        for (std::size_t i = draw(2); i < records; ++i) flipped.insert(i);
      }
      // From behind, so that lengths in front can be followed.
      for (auto it = flipped.rbegin(); it != flipped.rend(); ++it) {
        const bool header = !keeps_headers && draw(12) == 0;
        Flip(of.files[file], *it, header);
      }
    }
    if (of.shuffle.mode == ShuffleMode::kBlock) of.shuffle.block = 2 + draw(60);
    if (of.shuffle.mode == ShuffleMode::kWindow) of.shuffle.window = 2 + draw(60);
    if (of.shuffle.mode == ShuffleMode::kStripes) of.shuffle.window = draw(2) * (2 + draw(60));
    of.batch = static_cast<std::size_t>(of.rank.world_size) + draw(20);
    constexpr std::size_t kLong[] = {1, 300, 500};
    of.long_bytes = is_long ? 8'192 : kLong[draw(3)];
    of.passes = 1 + draw(3);
    of.drop_remainder = draw(2) == 0;
    SCOPED_TRACE(testing::Message()
                 << "round " << round << ", " << of.files.size() << " files, mode "
                 << static_cast<int>(of.shuffle.mode) << ", rank " << of.rank.rank << ", "
                 << (of.on_damage == OnDamage::kFail ? "fail" : "skip"));
    ExpectSameByWriters(of);
    if (HasFailure()) return;
  }
}

TEST_F(LateSumsTest, LongRecordsOfMappedFilesAreCheckedAsTheyAreWritten) {
  LateCase of;
  of.files = MakeFiles(1, 40, 20'000, 30'000);
  of.passes = 2;
  const LateSeen whole = See(Chain(of, Sums::kWritten, 1));
  EXPECT_EQ(whole.end, "");
  // What is not the first of a pass is not looked at before it is written: a batch is under way
  // then, and shorter by what is found.
  Flip(of.files[0], 30, false);
  of.on_damage = OnDamage::kSkip;
  std::size_t unchecked = 0;
  Reader reader = Chain(of, Sums::kWritten, 1);
  const LateSeen seen = See(reader);
  for (const auto& range : seen.damage) unchecked += std::get<3>(range).empty() ? 0 : 1;
  EXPECT_EQ(unchecked, 2u);  // one for each pass
  EXPECT_EQ(reader.Stats().damaged_records, 2u);
}

// A short one fails as it is framed, and framing goes on behind it.
TEST_F(LateSumsTest, ALongRecordBehindAShortOneThatFailsIsCheckedToo) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 120; ++i) sizes.push_back(i % 2 == 0 ? 60 : 800);
  LateCase of;
  of.files = {MakeFile(sizes)};
  of.shuffle = {.window = 40, .seed = 3};
  of.long_bytes = 500;
  Flip(of.files[0], 61, false);
  Flip(of.files[0], 60, false);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    of.shuffle.seed = seed;
    ExpectSameByWriters(of);
  }
}

class LateEndTest : public LateSumsTest {
 protected:
  /// The run's own deliveries, which several consumers would take at the same time.
  void ExpectNothingBehindDamage(const LateCase& of) const {
    ExecutionPlan plan = LowerChain(*ReaderAccess::NodeOf(Chain(of, Sums::kWritten, 3)));
    RunInput input{plan, arena_->arena()};
    input.options.long_payload_bytes = 1;
    const auto run = std::make_shared<ringfeed::Run>(std::move(input));
    run->Start();
    bool failed = false;
    Delivery delivery;
    while (run->NextUntil(&delivery, kNoDeadline) == QueueResult::kOk) {
      EXPECT_FALSE(failed) << "a batch came behind the one that fails";
      failed = failed || !delivery.batch->status.ok();
      (void)run->Lease(std::move(delivery));
    }
    EXPECT_TRUE(failed);
    EXPECT_EQ(run->end_status().code(), StatusCode::kDamaged);
    run->Stop();
  }
};

TEST_F(LateEndTest, NobodyIsGivenWhatStandsBehindARecordThatFails) {
  LateCase of;
  of.files = MakeFiles(1, 400, 200, 900);
  Flip(of.files[0], 200, false);
  for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kWindow}) {
    of.shuffle.mode = mode;
    of.shuffle.window = 20;
    ExpectNothingBehindDamage(of);
  }
}

TEST_F(LateEndTest, TheLastBatchEndsTheDataByItsOwnFailure) {
  LateCase of;
  of.files = MakeFiles(1, 400, 200, 900);
  Flip(of.files[0], 399, false);
  for (int round = 0; round < StressRounds(50); ++round) ExpectNothingBehindDamage(of);
}

/// A file whose bytes from `fails_at` on cannot be read.
class BrokenSource final : public Source {
 public:
  BrokenSource(std::string bytes, std::uint64_t fails_at)
      : bytes_(std::move(bytes)), fails_at_(fails_at) {}
  std::string name() const override { return "broken.tfrecord"; }
  std::uint64_t Size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    const std::uint64_t end = std::min<std::uint64_t>(offset + buffer.size(), fails_at_);
    *bytes_read = static_cast<std::size_t>(end - std::min(offset, end));
    std::copy_n(reinterpret_cast<const std::byte*>(bytes_.data()) + offset, *bytes_read,
                buffer.data());
    if (*bytes_read == buffer.size() || end == bytes_.size()) return {};
    return Status(StatusCode::kIoError, "the medium fails");
  }

 private:
  const std::string bytes_;
  const std::uint64_t fails_at_;
};

TEST_F(LateSumsTest, AGoodRecordInFrontOfAReadThatFailsIsDelivered) {
  // Four records to a read: those that fail begin where a record ends.
  const std::vector<std::size_t> sizes(50, 1008);
  const std::string bytes = ReadBytes(MakeFile(sizes));
  const auto drain = [&](std::size_t long_bytes) {
    OpenOptions options = Options();
    options.io.block_bytes = 4096;
    options.index = IndexUse::kNever;
    const auto source = std::make_shared<BrokenSource>(bytes, 10 * 4096);
    Reader reader = Batches(Shuffle(OpenSources({source}, options), {.window = 5}), 1);
    RunOptions run_options;
    run_options.long_payload_bytes = long_bytes;
    ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
    return Drain(reader);
  };
  const Drained framed = drain(FrameInput::kLeavesNone);
  EXPECT_EQ(framed.end, ReadResult::kFailed);
  EXPECT_GT(framed.ids.size(), 30u);
  EXPECT_EQ(drain(1).ids, framed.ids);
}

TEST_F(LateSumsTest, AReadThatFailsIsOneLossAndNoShrunkFile) {
  const std::string bytes = ReadBytes(MakeFile(std::vector<std::size_t>(50, 1008)));
  for (const std::uint64_t fails_at : {10U * 4096, 10U * 4096 + 500, 10U * 4096 + 1024}) {
    OpenOptions options = Options();
    options.io.block_bytes = 4096;
    options.index = IndexUse::kNever;
    options.on_damage = OnDamage::kSkip;
    const auto source = std::make_shared<BrokenSource>(bytes, fails_at);
    Reader reader = Batches(OpenSources({source}, options), 1);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd);
    EXPECT_EQ(found.ids, Numbers(found.ids.size()));
    const PipelineStats stats = reader.Stats();
    EXPECT_EQ(stats.damaged_records, 1u);
    EXPECT_EQ(stats.lost_ranges, 1u);
    ASSERT_EQ(stats.damage.size(), 1u);
    EXPECT_EQ(stats.damage[0].begin, found.ids.size() * 1024);
    EXPECT_EQ(stats.damage[0].end, bytes.size());
    EXPECT_NE(stats.damage[0].reason.find("the medium fails"), std::string::npos);
    reader.Close();
  }
}

}  // namespace
}  // namespace ringfeed
