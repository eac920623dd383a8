#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/formats/recordio_file.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

/// Damage in the middle of the data, under every policy and behind every decorator.
class FailurePolicyTest : public PipelineTest {
 protected:
  using Chain = std::function<Reader(Reader)>;
  using Ids = std::vector<std::uint64_t>;

  static void FlipByte(const std::string& path, std::uint64_t offset) {
    std::FILE* file = std::fopen(path.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    std::fseek(file, static_cast<long>(offset), SEEK_SET);
    const int byte = std::fgetc(file);
    std::fseek(file, static_cast<long>(offset), SEEK_SET);
    std::fputc(byte ^ 0x40, file);
    std::fclose(file);
  }

  /// Files of records of 100 bytes, so that record i of a file starts at 116 * i.
  std::vector<std::string> MakeEvenFiles(std::size_t files, std::size_t records) {
    return MakeFiles(files, records, 100, 100);
  }
  static constexpr std::uint64_t kStride = 116;
  static constexpr std::uint64_t kPayloadAt = 12;

  OpenOptions Skipping() const {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    return options;
  }

  static std::vector<Chain> Chains() {
    const auto parse = [](Reader reader) { return Parse(std::move(reader), RawParser()); };
    return {
        [](Reader reader) { return reader; },
        parse,
        [](Reader reader) { return Batches(std::move(reader), 7); },
        [=](Reader reader) { return Batch(parse(std::move(reader)), {.size = 1000}); },
        [](Reader reader) { return Shuffle(std::move(reader), {.window = 50, .seed = 2}); },
        [=](Reader reader) { return parse(Shuffle(std::move(reader), {.block = 64})); },
        [](Reader reader) { return Batches(Shuffle(std::move(reader), {.window = 500}), 16); },
        [](Reader reader) { return Batches(Shuffle(std::move(reader), {.block = 30}), 16); },
        [](Reader reader) { return MultiPass(Batches(std::move(reader), 9), 2); },
    };
  }
};

TEST_F(FailurePolicyTest, EveryRecordBeforeTheDamageIsDeliveredThenTheError) {
  const auto files = MakeEvenFiles(3, 2000);
  // Record 1500 of the second file is number 3500.
  FlipByte(files[1], 1500 * kStride + kPayloadAt + 5);
  for (const Chain& chain : Chains()) {
    FlipByte(files[1], 1500 * kStride + kPayloadAt + 5);  // and back
    const Drained intact = Drain(chain(OpenFiles(files, Options())));
    FlipByte(files[1], 1500 * kStride + kPayloadAt + 5);
    const std::vector<std::uint64_t> before(intact.ids.begin(),
                                            std::find(intact.ids.begin(), intact.ids.end(), 3500u));
    for (const int threads : {1, 4}) {
      OpenOptions options = Options();
      options.threads = threads;
      const Drained found = Drain(chain(OpenFiles(files, options)));
      EXPECT_EQ(found.end, ReadResult::kFailed);
      EXPECT_EQ(found.status.code(), StatusCode::kDamaged) << found.status.ToString();
      EXPECT_EQ(found.status.place().file, files[1]);
      EXPECT_EQ(found.status.place().offset, static_cast<std::int64_t>(1500 * kStride));
      EXPECT_EQ(found.status.place().record, 1500);
      EXPECT_EQ(found.ids, before);
      EXPECT_EQ(found.strange, 0u);
    }
  }
}

TEST_F(FailurePolicyTest, SkipDeliversExactlyTheIntactRecordsAndListsTheRanges) {
  const auto files = MakeEvenFiles(3, 2000);
  FlipByte(files[0], 17 * kStride + kPayloadAt + 50);  // a payload: its length is known
  FlipByte(files[1], 1999 * kStride + 2);              // the last length
  FlipByte(files[2], 700 * kStride + 9);               // a length's checksum
  std::vector<std::uint64_t> wanted = Numbers(6000);
  for (const std::uint64_t gone : {4700u, 3999u, 17u}) {
    wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  for (const Chain& chain : Chains()) {
    Reader reader = chain(OpenFiles(files, Skipping()));
    Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    const std::size_t passes = found.ids.size() > 6000 ? 2 : 1;
    found.ids = Sorted(found.ids);
    if (passes == 2) {
      found.ids.erase(std::unique(found.ids.begin(), found.ids.end()), found.ids.end());
    }
    EXPECT_EQ(found.ids, wanted);
    const PipelineStats stats = reader.Stats();
    EXPECT_EQ(stats.records, passes * wanted.size());
    EXPECT_EQ(stats.damaged_records, passes * 3);
    ASSERT_EQ(stats.damage.size(), passes * 3);
    const auto first =
        std::find_if(stats.damage.begin(), stats.damage.end(),
                     [&](const DamagedRange& range) { return range.file == files[0]; });
    ASSERT_NE(first, stats.damage.end());
    EXPECT_EQ(first->begin, 17 * kStride);
    EXPECT_EQ(first->end, 18 * kStride);
  }
}

TEST_F(FailurePolicyTest, AForcedPathThatTheSystemRefusesIsAnErrorUnderEveryPolicy) {
  const auto files = MakeEvenFiles(3, 200);
  const ChildResult child = RunInChild([&](std::string* text) {
    if (!ForbidUring(EPERM)) return 2;
    setenv("RINGFEED_ARENA_BYTES", "64M", 1);
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      for (const ShuffleMode order :
           {ShuffleMode::kNone, ShuffleMode::kStripes, ShuffleMode::kGlobal}) {
        OpenOptions options;
        options.threads = 1;
        options.stripe_bytes = 65536;
        options.io.block_bytes = 65536;
        options.on_damage = policy;
        options.io.path = IoPath::kUring;
        Reader records = OpenFiles(files, options);
        if (order != ShuffleMode::kNone) records = Shuffle(records, {.seed = 1, .mode = order});
        const Drained found = Drain(Batches(std::move(records), 16));
        *text = found.status.ToString();
        if (found.end != ReadResult::kFailed || !found.ids.empty()) return 1;
        if (found.status.code() != StatusCode::kUnsupported) return 1;
        if (text->find("io_uring was asked for") == std::string::npos) return 1;
      }
    }
    return 0;
  });
  if (child.status == 2) GTEST_SKIP() << "seccomp filters cannot be installed here";
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST_F(FailurePolicyTest, RangesOfWhichNoRecordIsKnownAreCountedApartInEveryOrder) {
  const auto files = MakeEvenFiles(2, 2000);
  FlipByte(files[0], 17 * kStride + kPayloadAt + 50);  // a payload: its record is known
  FlipByte(files[1], 700 * kStride + 9);               // a length's checksum: none is
  for (const ShuffleOptions order : {ShuffleOptions{.window = 1}, ShuffleOptions{.window = 100},
                                     ShuffleOptions{.seed = 1, .mode = ShuffleMode::kGlobal}}) {
    Reader reader = MultiPass(Batches(Shuffle(OpenFiles(files, Skipping()), order), 100), 2);
    EXPECT_EQ(Drain(reader).end, ReadResult::kEnd);
    EXPECT_EQ(reader.Stats().damaged_records, 4U);
    EXPECT_EQ(reader.Stats().lost_ranges, 2U);
  }
  // A chunk is one piece of damage, of records that are known.
  const std::string chunks = directory_.File("chunks");
  std::vector<std::byte> bytes = MakeChunksOfTen(chunks, 0, 100);
  FlipByte(chunks, bytes.size() / 2);
  OpenOptions options = Skipping();
  options.format = "recordio";
  Reader reader = Batches(OpenFiles({chunks}, options), 10);
  EXPECT_EQ(Drain(reader).ids.size(), 90U);
  EXPECT_EQ(reader.Stats().damaged_records, 1U);
  EXPECT_EQ(reader.Stats().lost_ranges, 0U);
}

// All of its records are lost, and not only as many as take memory.
TEST_F(FailurePolicyTest, ALargeChunkThatIsLostIsOnePieceOfDamageByNumberToo) {
  constexpr std::uint64_t kOfChunk = 5000;
  const std::string file = directory_.File("chunks");
  std::string chunks;
  for (std::uint64_t chunk = 0; chunk < 3; ++chunk) {
    std::vector<std::string> records;
    for (std::uint64_t id = chunk * kOfChunk; id < (chunk + 1) * kOfChunk; ++id) {
      const std::vector<std::byte> payload = RecordPayload(id, 16);
      records.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
    }
    chunks += FluidChunk(records);
  }
  WriteBytes(file, std::as_bytes(std::span(chunks)));
  FlipByte(file, chunks.size() / 2);
  std::vector<std::uint64_t> wanted = Numbers(kOfChunk);
  for (std::uint64_t id = 2 * kOfChunk; id < 3 * kOfChunk; ++id) wanted.push_back(id);
  OpenOptions options = Skipping();
  options.format = "recordio";
  options.stripe_bytes = 4096;
  for (const bool global : {false, true}) {
    Reader records = OpenFiles({file}, options);
    if (global) records = Shuffle(records, {.seed = 1, .mode = ShuffleMode::kGlobal});
    Reader reader = Batches(records, 1000);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(Sorted(found.ids), wanted);
    EXPECT_EQ(reader.Stats().damaged_records, 1U);
    EXPECT_EQ(reader.Stats().lost_ranges, 0U);
  }
}

// Also where the index comes from the file's size, or from another program.
TEST_F(FailurePolicyTest, ARecordThatIsTooLongIsReportedByNumberToo) {
  constexpr std::size_t kMost = 1000;
  const std::string big = directory_.File("big.img");
  const std::string small = directory_.File("small.img");
  WriteBytes(big, RecordPayload(0, 2000));
  WriteBytes(small, RecordPayload(1, 100));
  const std::string records = MakeFile(std::array<std::size_t, 3>{100, 5000, 100});
  const std::string listed = MakeFile(std::array<std::size_t, 3>{100, 5000, 100});
  const std::string lines = "0 116\n116 5016\n5132 116\n";
  WriteBytes(listed + ".idx", std::as_bytes(std::span(lines)));
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"raw", {big, small}}, {"tfrecord", {records}}, {"tfrecord", {listed}}};
  for (const auto& one : cases) {
    const std::string& format = one.first;
    const std::vector<std::string>& files = one.second;
    for (const bool global : {false, true}) {
      SCOPED_TRACE(files[0] + (global ? " by number" : " in order"));
      OpenOptions options = Skipping();
      options.format = format;
      options.max_record_bytes = kMost;
      const auto open = [&] {
        const Reader reader = OpenFiles(files, options);
        return global ? Shuffle(reader, {.mode = ShuffleMode::kGlobal}) : reader;
      };
      Reader skipping = Batches(open(), 4);
      const Drained found = Drain(skipping);
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      EXPECT_EQ(found.ids.size(), format == "raw" ? 1U : 2U);
      const PipelineStats stats = skipping.Stats();
      EXPECT_EQ(stats.damaged_records, 1U);
      EXPECT_EQ(stats.lost_ranges, 0U);
      EXPECT_EQ(stats.damage.size(), 1U);
      if (stats.damage.empty()) continue;
      EXPECT_EQ(stats.damage[0].end - stats.damage[0].begin, format == "raw" ? 2000U : 5016U);
      EXPECT_NE(stats.damage[0].reason.find("longer than max_record_bytes (1000)"),
                std::string::npos)
          << stats.damage[0].reason;
      options.on_damage = OnDamage::kFail;
      EXPECT_EQ(Drain(Batches(open(), 4)).end, ReadResult::kFailed);
    }
  }
}

TEST_F(FailurePolicyTest, WhatBecameOfTheFilesIsCounted) {
  auto files = MakeEvenFiles(2, 50);
  files.push_back(directory_.File("gone.tfrecord"));
  files.push_back(directory_.File("odd"));
  WriteBytes(files.back(), std::vector<std::byte>(100, std::byte{7}));
  const std::vector<std::size_t> none;
  files.push_back(MakeFile(none));
  Reader reader = MultiPass(Batches(OpenFiles(files, Skipping()), 10), 3);
  EXPECT_EQ(Drain(reader).ids.size(), 300U);
  PipelineStats stats = reader.Stats();
  EXPECT_EQ(stats.files_read, 3U);
  EXPECT_EQ(stats.files_missing, 1U);
  EXPECT_EQ(stats.files_refused, 1U);
  EXPECT_EQ(stats.lost_ranges, 6U);
  // By number each of them is a reason not to begin.
  Reader refused = Batches(
      Shuffle(OpenFiles({files[0], files[2]}, Skipping()), {.mode = ShuffleMode::kGlobal}), 10);
  EXPECT_THROW(refused.ReadNext(), Error);
  EXPECT_EQ(refused.Stats().files_missing, 1U);
  Reader good = Batches(Shuffle(OpenFiles({files[0], files[1], files[4]}, Skipping()),
                                {.mode = ShuffleMode::kGlobal}),
                        10);
  EXPECT_EQ(Drain(good).ids.size(), 100U);
  EXPECT_EQ(good.Stats().files_read, 3U);
}

TEST_F(FailurePolicyTest, WhatWasReadIsCountedForTheChainsLife) {
  const auto files = MakeEvenFiles(2, 500);
  for (const bool global : {false, true}) {
    Reader records = OpenFiles(files, Options());
    if (global) records = Shuffle(std::move(records), {.seed = 1, .mode = ShuffleMode::kGlobal});
    Reader reader = Batches(std::move(records), 50);
    EXPECT_EQ(Drain(reader).ids.size(), 1000U);
    const PipelineStats once = reader.Stats();
    EXPECT_EQ(once.passes_ended, 1U);
    EXPECT_EQ(once.batches, 20U);
    reader.ReInit();
    EXPECT_EQ(Drain(reader).ids.size(), 1000U);
    const PipelineStats twice = reader.Stats();
    EXPECT_EQ(twice.records, 2000U);
    EXPECT_EQ(twice.passes_ended, 2U);
    EXPECT_EQ(twice.batches, 40U);
    EXPECT_GE(twice.read_bytes, 2 * once.read_bytes / 10 * 9);
    EXPECT_NEAR(twice.read_per_byte, once.read_per_byte, 0.1);
    EXPECT_EQ(twice.io.size(), 2U);
    EXPECT_EQ(twice.files_read, 2U);
    reader.SeekTo(10);
    EXPECT_EQ(Drain(reader).ids.size(), 500U);
    EXPECT_EQ(reader.Stats().records, 2500U);
    EXPECT_EQ(reader.Stats().batches, 50U);
  }
}

TEST_F(FailurePolicyTest, ADamagedRecordKeepsItsOrdinalBehindAShuffle) {
  const auto files = MakeEvenFiles(2, 1000);
  for (const ShuffleOptions shuffle :
       {ShuffleOptions{.window = 300, .seed = 1}, ShuffleOptions{.block = 128, .seed = 1}}) {
    Drained intact = Drain(Shuffle(OpenFiles(files, Skipping()), shuffle));
    FlipByte(files[1], 10 * kStride + kPayloadAt);
    const Drained found = Drain(Shuffle(OpenFiles(files, Skipping()), shuffle));
    FlipByte(files[1], 10 * kStride + kPayloadAt);
    std::erase(intact.ids, 1010u);
    EXPECT_EQ(found.ids, intact.ids);
  }
}

// A job fails at damage; it is to go on from there and skip that. Damage without a record's number
// takes a place where it fails and none where it is skipped: the order behind it is another one.
TEST_F(FailurePolicyTest, AFailedRunGoesOnUnderSkipWhereItsOrderIsTheSameAndElseSaysSo) {
  constexpr std::uint64_t kPayload = 100 * kStride + kPayloadAt + 50;
  constexpr std::uint64_t kHeader = 100 * kStride + 9;
  for (const IndexUse index : {IndexUse::kAsNeeded, IndexUse::kNever}) {
    for (const std::size_t window : {1u, 400u}) {
      for (const std::uint64_t damage : {kPayload, kHeader}) {
        const auto files = MakeEvenFiles(2, 300);
        FlipByte(files[0], damage);
        const auto chain = [&](OnDamage policy) {
          OpenOptions options = Options();
          options.on_damage = policy;
          options.index = index;
          Reader reader = OpenFiles(files, options);
          if (window > 1) reader = Shuffle(std::move(reader), {.window = window, .seed = 3});
          return Batches(std::move(reader), 10);
        };
        const Ids wanted = Sorted(Drain(chain(OnDamage::kSkip)).ids);
        Reader failing = chain(OnDamage::kFail);
        Ids ids = Drain(failing).ids;
        ids.resize(ids.size() / 10 * 10);  // what was cut short comes again
        ASSERT_GE(ids.size(), 10u);
        Reader skipping = chain(OnDamage::kSkip);
        skipping.Restore(failing.Position());
        const Drained rest = Drain(skipping);
        if (damage == kHeader && window > 1) {
          EXPECT_EQ(rest.end, ReadResult::kFailed);
          EXPECT_EQ(rest.ids, Ids());
          EXPECT_EQ(rest.status.code(), StatusCode::kInvalidArgument) << rest.status.ToString();
          EXPECT_EQ(rest.status.place().file, files[0]);
          continue;
        }
        EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
        ids.insert(ids.end(), rest.ids.begin(), rest.ids.end());
        EXPECT_EQ(Sorted(ids), wanted) << window << " " << damage;
      }
    }
  }
}

TEST_F(FailurePolicyTest, MoreDamageThanTheCapIsAFailure) {
  const auto files = MakeEvenFiles(2, 500);
  for (const std::uint64_t record : {10u, 20u, 30u}) {
    FlipByte(files[0], record * kStride + kPayloadAt);
  }
  for (const std::uint64_t cap : {0u, 2u, 3u}) {
    OpenOptions options = Skipping();
    options.max_damaged = cap;
    const Drained found = Drain(Batches(OpenFiles(files, options), 50));
    EXPECT_EQ(found.end, cap < 3 ? ReadResult::kFailed : ReadResult::kEnd);
    if (cap < 3) {
      EXPECT_EQ(found.status.code(), StatusCode::kDamaged);
    }
  }
}

TEST_F(FailurePolicyTest, AFileThatIsMissingEndsTheOrderThereOrIsSkipped) {
  auto files = MakeEvenFiles(2, 1500);
  files.insert(files.begin() + 1, directory_.File("gone.tfrecord"));
  OpenOptions options = Options();
  options.cycle = 1;
  const Drained failed = Drain(Batches(OpenFiles(files, options), 100));
  EXPECT_EQ(failed.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(failed.ids, Numbers(1500));
  options.on_damage = OnDamage::kSkip;
  Reader reader = Batches(OpenFiles(files, options), 100);
  const Drained skipped = Drain(reader);
  EXPECT_EQ(skipped.end, ReadResult::kEnd) << skipped.status.ToString();
  EXPECT_EQ(skipped.ids, Numbers(3000));
  EXPECT_EQ(reader.Stats().damaged_records, 1u);
}

// ReInit and SeekTo start another run of the chain, not another account.
TEST_F(FailurePolicyTest, WhatWasMetIsKnownForTheReadersLife) {
  const auto files = MakeEvenFiles(2, 200);
  FlipByte(files[1], 50 * kStride + kPayloadAt);
  const ShuffleOptions global{.seed = 3, .mode = ShuffleMode::kGlobal};
  for (const bool by_number : {false, true}) {
    Reader records = OpenFiles(files, Skipping());
    if (by_number) records = Shuffle(records, global);
    Reader reader = Batches(records, 16);
    EXPECT_EQ(Drain(reader).ids.size(), 399U);
    reader.ReInit();
    EXPECT_EQ(Drain(reader).ids.size(), 399U);
    reader.SeekTo(25);
    EXPECT_LT(Drain(reader).ids.size(), 16U);
    reader.Close();
    const PipelineStats stats = reader.Stats();
    EXPECT_GE(stats.damaged_records, 2U);
    EXPECT_EQ(stats.damage.size(), stats.damaged_records);
    EXPECT_GE(stats.records, 2 * 399U);
  }
}

// An order by number without them would be another order.
TEST_F(FailurePolicyTest, FilesWithoutNumbersAreRefusedByNameUnderBothPoliciesInOrdersByNumber) {
  const auto even = MakeEvenFiles(2, 300);
  const std::string gone = directory_.File("gone.tfrecord");
  const std::string odd = directory_.File("odd.dat");
  WriteBytes(odd, std::as_bytes(std::span("no format begins like this", 26)));
  const std::string packed = directory_.File("packed.tfrecord.gz");
  WriteBytes(packed, Compress({}, {}));
  for (const auto& without : {gone, odd, packed}) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      OpenOptions options = Options();
      options.on_damage = on_damage;
      const auto open = [&] { return OpenFiles({even[0], without, even[1]}, options); };
      BatchOptions of_rank{.size = 10};
      of_rank.rank = {0, 2};
      const Reader chains[] = {Shuffle(open(), {.mode = ShuffleMode::kGlobal}),
                               Shuffle(open(), {.mode = ShuffleMode::kStripes}),
                               Batch(Parse(open(), RawParser()), of_rank)};
      for (Reader reader : chains) {
        Status refused;
        try {
          (void)reader.HasNext();
        } catch (const Error& error) {
          refused = error.status();
        }
        EXPECT_EQ(refused.place().file, without);
        EXPECT_NE(refused.message().find("order of files"), std::string::npos)
            << refused.ToString();
      }
    }
  }
  OpenOptions options = Skipping();
  Reader reader = Shuffle(OpenFiles({gone, packed, even[0], odd, packed, gone}, options),
                          {.mode = ShuffleMode::kGlobal});
  try {
    (void)reader.HasNext();
    FAIL() << "it is not refused";
  } catch (const Error& error) {
    const std::string& message = error.status().message();
    EXPECT_NE(message.find("5 of the 6 files"), std::string::npos) << message;
    EXPECT_NE(message.find(odd), std::string::npos) << message;
    EXPECT_NE(message.find("and 1 more"), std::string::npos) << message;
  }
}

// A length that cannot be trusted, and the last record of a file cut off: nobody knows how many
// records were there.
TEST_F(FailurePolicyTest, WhatNoRecordHasIsReportedOncePerPassInOrdersByNumberToo) {
  const auto files = MakeEvenFiles(3, 200);
  FlipByte(files[1], 50 * kStride + 1);
  std::filesystem::resize_file(files[2], 199 * kStride + 40);
  using Ranges = std::multiset<std::tuple<std::string, std::uint64_t, std::uint64_t>>;
  const auto ranges_of = [](const PipelineStats& stats) {
    Ranges ranges;
    for (const DamagedRange& range : stats.damage) {
      ranges.insert({range.file, range.begin, range.end});
    }
    EXPECT_EQ(stats.damaged_records, ranges.size());
    return ranges;
  };
  const auto seen = [&](Reader reader) {
    const Drained all = Drain(reader);
    EXPECT_EQ(all.end, ReadResult::kEnd) << all.status.ToString();
    return std::make_pair(Sorted(all.ids), ranges_of(reader.Stats()));
  };
  const auto open = [&] { return OpenFiles(files, Skipping()); };
  const ShuffleOptions global{.seed = 3, .mode = ShuffleMode::kGlobal};
  const ShuffleOptions blocks{.window = 20, .mode = ShuffleMode::kStripes};
  const auto one_pass = seen(Batches(open(), 9));
  ASSERT_EQ(one_pass.first.size(), 598U);
  ASSERT_EQ(one_pass.second.size(), 2U);
  EXPECT_EQ(seen(Batches(Shuffle(open(), global), 9)), one_pass);
  EXPECT_EQ(seen(Batches(Shuffle(open(), blocks), 9)), one_pass);
  const auto three = seen(MultiPass(Batches(open(), 9), 3));
  EXPECT_EQ(seen(MultiPass(Batches(Shuffle(open(), global), 9), 3)), three);
  EXPECT_EQ(seen(Batches(MultiPass(Shuffle(open(), global), 3), 9)), three);
  // The ranks together.
  auto ranks = std::make_pair(std::vector<std::uint64_t>(), Ranges());
  for (int rank = 0; rank < 3; ++rank) {
    BatchOptions batch{.size = 9};
    batch.rank = {rank, 3};
    const auto part = seen(Batch(Parse(Shuffle(open(), global), RawParser()), batch));
    ranks.first.insert(ranks.first.end(), part.first.begin(), part.first.end());
    ranks.second.insert(part.second.begin(), part.second.end());
  }
  ranks.first = Sorted(std::move(ranks.first));
  EXPECT_EQ(ranks, one_pass);
  // From the middle of a pass on.
  Reader later = Batches(Shuffle(open(), global), 9);
  later.SeekTo(30);
  EXPECT_EQ(seen(later).second, one_pass.second);
  // The cap counts them.
  OpenOptions capped = Skipping();
  capped.max_damaged = 1;
  EXPECT_EQ(Drain(Batches(Shuffle(OpenFiles(files, capped), global), 9)).status.code(),
            StatusCode::kDamaged);
}

/// Rows of two sizes: those that do not fit the fields fail to parse.
class ParseFailureTest : public FailurePolicyTest {
 protected:
  /// 3 files of 200 records of 16 bytes; the numbers in `odd` have 17.
  std::vector<std::string> MakeRows(const std::vector<std::size_t>& odd) {
    std::vector<std::string> files;
    for (std::size_t file = 0; file < 3; ++file) {
      std::vector<std::size_t> sizes(200, 16);
      for (const std::size_t each : odd) {
        if (each / 200 == file) sizes[each % 200] = 17;
      }
      files.push_back(MakeFile(sizes));
    }
    return files;
  }
  static constexpr std::int64_t kRowStride = 32;
  static std::shared_ptr<const Parser> Direct() { return RowsParser({{"row", kUInt8, {16}}}); }

  OpenOptions InFileOrder(OnDamage on_damage) const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.on_damage = on_damage;
    return options;
  }
};

TEST_F(ParseFailureTest, ADirectParserFailsAtThatRowWithTheRowsBeforeItDelivered) {
  const auto files = MakeRows({333, 334, 500});
  const std::vector<std::uint64_t> before = Numbers(333);
  for (const std::size_t size : {1u, 8u, 50u, 1000u}) {
    for (const int threads : {1, 4}) {
      OpenOptions options = InFileOrder(OnDamage::kFail);
      options.threads = threads;
      const Drained found =
          Drain(Batch(Parse(OpenFiles(files, options), Direct()), {.size = size}));
      EXPECT_EQ(found.ids, before) << size;
      EXPECT_EQ(found.status.code(), StatusCode::kDamaged) << found.status.ToString();
      EXPECT_EQ(found.status.place().file, files[1]);
      EXPECT_EQ(found.status.place().record, 133);
      EXPECT_EQ(found.status.place().offset, 133 * kRowStride + 12);
    }
  }
  const Drained rows = Drain(Parse(OpenFiles(files, InFileOrder(OnDamage::kFail)), Direct()));
  EXPECT_EQ(rows.ids, before);
}

TEST_F(ParseFailureTest, ADirectParserSkipsExactlyTheRowsThatFailAndCountsThem) {
  const auto files = MakeRows({0, 333, 334, 335, 336, 599});
  std::vector<std::uint64_t> wanted = Numbers(600);
  std::erase_if(wanted,
                [](std::uint64_t id) { return id == 0 || (id >= 333 && id <= 336) || id == 599; });
  for (const std::size_t size : {1u, 2u, 50u, 1000u}) {
    Reader reader =
        Batch(Parse(OpenFiles(files, InFileOrder(OnDamage::kSkip)), Direct()), {.size = size});
    Drained found;
    while (reader.HasNext()) AddInstance(reader.ReadNext(), &found);
    EXPECT_EQ(found.ids, wanted) << size;
    EXPECT_EQ(std::count(found.rows.begin(), found.rows.end(), 0u), 0) << "no empty batch";
    EXPECT_EQ(reader.Stats().damaged_records, 6u);
    ASSERT_EQ(reader.Stats().damage.size(), 6u);
    for (const DamagedRange& range : reader.Stats().damage) {
      EXPECT_EQ(range.end - range.begin, 17u) << range.reason;
      EXPECT_NE(range.reason.find("record "), std::string::npos) << range.reason;
    }
  }
}

TEST_F(ParseFailureTest, ARowIsNamedBehindShufflesByEveryPathOfReading) {
  const auto files = MakeRows({555});
  for (const IoPath path : {IoPath::kPread, IoPath::kUring, IoPath::kMmap}) {
    for (const ShuffleOptions shuffle : {ShuffleOptions{.window = 100}, {.block = 64}}) {
      OpenOptions options = InFileOrder(OnDamage::kFail);
      options.stripe_bytes = 4096;
      options.io.path = path;
      Reader rows = MultiPass(Parse(Shuffle(OpenFiles(files, options), shuffle), Direct()), 2);
      const Drained found = Drain(Batch(rows, {.size = 32}));
      EXPECT_EQ(found.status.place().file, files[2]) << found.status.ToString();
      EXPECT_EQ(found.status.place().record, 155);
    }
  }
}

// Writers find what does not fit as late as in the last batch.
TEST_F(ParseFailureTest, NoEndIsOkBehindMoreRefusedRecordsThanTheCap) {
  const auto files = MakeRows({0, 50, 100, 333, 334, 599});
  for (const std::uint64_t cap : {5u, 6u}) {
    for (const std::size_t size : {7u, 600u}) {
      OpenOptions options = InFileOrder(OnDamage::kSkip);
      options.max_damaged = cap;
      options.threads = 1;
      const Reader records = Shuffle(OpenFiles(files, options), {.block = 600});
      const Drained found = Drain(Batch(Parse(records, Direct()), {.size = size}));
      EXPECT_EQ(found.end, cap < 6 ? ReadResult::kFailed : ReadResult::kEnd) << size;
      if (cap < 6) {
        EXPECT_EQ(found.status.code(), StatusCode::kDamaged) << found.status.ToString();
      }
    }
  }
}

/// A two-phase parser that some records fail in its first phase: no tf.Example.
TEST_F(ParseFailureTest, ATwoPhaseParserFailsAndSkipsAtThatRow) {
  std::vector<std::byte> bytes;
  ExampleBuilder builder;
  std::int64_t odd_at = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    if (i == 120 || i == 250) {
      if (i == 120) odd_at = static_cast<std::int64_t>(bytes.size());
      AppendTfRecord(std::vector<std::byte>(20, std::byte{0xFF}), &bytes);
      continue;
    }
    builder.AddInts("id", std::vector<std::int64_t>{i});
    AppendTfRecord(
        builder.AddBytes("text", std::string(static_cast<std::size_t>(i % 30), 'x')).Finish(),
        &bytes);
  }
  const std::string path = directory_.File("examples.tfrecord");
  WriteBytes(path, bytes);
  const auto parser = ExampleParser({{"id", kInt64, {1}}, {"text", kUInt8, {-1}}});
  for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
    Reader reader = Batch(Parse(OpenFiles({path}, InFileOrder(policy)), parser), {.size = 64});
    std::vector<std::int64_t> ids;
    Instance batch;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
      const auto values = batch[0].Values<std::int64_t>();
      for (std::size_t row = 0; row < values.size(); ++row) {
        EXPECT_EQ(batch[1].lod[0][row + 1] - batch[1].lod[0][row], values[row] % 30);
      }
      ids.insert(ids.end(), values.begin(), values.end());
    }
    if (policy == OnDamage::kFail) {
      EXPECT_EQ(result, ReadResult::kFailed);
      EXPECT_EQ(reader.status().place().record, 120) << reader.status().ToString();
      EXPECT_EQ(reader.status().place().offset, odd_at + 12);
      EXPECT_EQ(ids.size(), 120u);
    } else {
      EXPECT_EQ(result, ReadResult::kEnd);
      EXPECT_EQ(ids.size(), 298u);
      EXPECT_EQ(reader.Stats().damaged_records, 2u);
      const DamagedRange first = reader.Stats().damage.at(0);
      EXPECT_EQ(first.begin, static_cast<std::uint64_t>(odd_at) + 12);
      EXPECT_EQ(first.end, first.begin + 20);
    }
  }
}

}  // namespace
}  // namespace ringfeed
