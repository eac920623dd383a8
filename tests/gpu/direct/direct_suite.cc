// What is read straight into a device's memory is what the CPU would have brought there: on a
// stand-in for cuFile, and on cuFile itself.

#include "tests/gpu/direct/direct_suite.h"

#include <algorithm>
#include <cstring>
#include <ostream>
#include <regex>
#include <utility>

#include "base/memory/arena.h"
#include "gpu/feed/batch_supply.h"
#include "gpu/feed/feed_core.h"
#include "gpu/piece_chunks.h"
#include "io/read_progress.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {
namespace {

/// A sector of every file that cannot be read, or the place where all of them end.
class BadPlace final : public ReadFaultHook {
 public:
  BadPlace(std::uint64_t begin, std::uint64_t end, int error)
      : begin_(begin), end_(end), error_(error) {
    SetReadFaultHook(this);
  }
  ~BadPlace() override { SetReadFaultHook(nullptr); }
  BadPlace(const BadPlace&) = delete;
  BadPlace& operator=(const BadPlace&) = delete;

  std::int64_t OnResult(const InputFile&, std::uint64_t offset, std::uint32_t bytes,
                        std::int64_t result) override {
    if (offset >= end_ || offset + bytes <= begin_) return result;
    if (offset >= begin_) return -error_;
    return std::min<std::int64_t>(result, static_cast<std::int64_t>(begin_ - offset));
  }

 private:
  const std::uint64_t begin_;
  const std::uint64_t end_;
  const int error_;
};

std::string ContentsOf(DeviceBackend* backend, DeviceStream stream, DeviceLease* lease) {
  std::string text = std::to_string(lease->rows());
  std::vector<std::byte> bytes;
  for (const Tensor& tensor : lease->On(stream)) {
    text += ShapeToString(tensor.shape);
    bytes.resize(tensor.bytes);
    if (!bytes.empty()) {
      EXPECT_TRUE(backend->CopyToHost(stream, bytes.data(), tensor.data, bytes.size()).ok());
      EXPECT_TRUE(backend->SyncStream(stream).ok());
    }
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text;
}

// How long a read was that failed, and where it stopped, is its path's own affair: those of the CPU
// differ in that, too.
std::string WithoutLengths(const std::string& text) {
  static const std::regex kLengths("reading [0-9]+ bytes");
  static const std::regex kEnds("offset [0-9]+: ((record [0-9]+: )?the file had)");
  return std::regex_replace(std::regex_replace(text, kLengths, "reading bytes"), kEnds, "$1");
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const DirectOutcome& outcome) {
  out << outcome.batches.size() << " batches, end \"" << outcome.end << "\", " << outcome.damaged
      << " damaged, " << TransferPlanName(outcome.stats.transfer) << ": "
      << outcome.stats.transfer_reason;
  for (const std::string& loss : outcome.losses) out << "\n  " << loss;
  return out;
}

void DirectTest::SetUp() {
  std::string why_not;
  backend_ = GetParam().open(&why_not);
  if (backend_ == nullptr) GTEST_SKIP() << why_not;
  library_ = GetParam().library();
}

DirectOutcome DirectTest::Feed(const Reader& reader, TransferPlan transfer, FeedOptions options) {
  options.backend = backend_;
  if (options.devices.empty()) options.devices = {0};
  options.transfer = transfer;
  DirectOutcome outcome;
  DeviceStream stream;
  EXPECT_TRUE(backend_->BindThread(0).ok());
  EXPECT_TRUE(backend_->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  {
    const auto core = FeedCore::Start(SupplyOf(reader, options, library_), options);
    while (true) {
      DeviceLease lease;
      Status status;
      const ReadResult result = core->TryNext(&lease, &status);
      if (result == ReadResult::kFailed) outcome.end = WithoutLengths(status.ToString());
      if (result != ReadResult::kRecord) break;
      outcome.batches.push_back(ContentsOf(backend_.get(), stream, &lease));
    }
    outcome.stats = core->Stats().devices[0];
    EXPECT_TRUE(core->Close().ok());
  }
  EXPECT_TRUE(backend_->DestroyStream(stream).ok());
  const PipelineStats stats = reader.Stats();
  outcome.damaged = stats.damaged_records;
  for (const DamagedRange& range : stats.damage) {
    outcome.losses.push_back(range.file + " " + std::to_string(range.begin) + " " +
                             std::to_string(range.end) + " " + WithoutLengths(range.reason));
  }
  std::sort(outcome.losses.begin(), outcome.losses.end());
  const auto* const emulated = dynamic_cast<EmulatedDevices*>(backend_.get());
  if (emulated != nullptr && !emulated->offences().empty()) {
    ADD_FAILURE() << emulated->offences().front().ToString();
  }
  return outcome;
}

void DirectTest::ExpectTheSame(const std::function<Reader()>& chain, const FeedOptions& options) {
  const DirectOutcome expected = Feed(chain(), TransferPlan::kBatch, options);
  const DirectOutcome got = Feed(chain(), TransferPlan::kDirect, options);
  EXPECT_TRUE(got == expected) << got << "\nfor\n" << expected;
  if (got.batches.empty()) return;
  EXPECT_EQ(got.stats.transfer, TransferPlan::kDirect) << got.stats.transfer_reason;
  EXPECT_EQ(got.stats.member_bytes + got.stats.slab_bytes, 0u);
}

void DirectTest::TakeOneDirectly(const Reader& reader) {
  FeedOptions options;
  options.backend = backend_;
  options.devices = {0};
  options.transfer = TransferPlan::kDirect;
  const auto core = FeedCore::Start(SupplyOf(reader, options, library_), options);
  DeviceLease lease;
  Status status;
  ASSERT_EQ(core->TryNext(&lease, &status), ReadResult::kRecord) << status.ToString();
  lease.Release();
  EXPECT_TRUE(core->Close().ok());
}

void DirectTest::ExpectMore(Reader* reader) {
  std::size_t behind = 0;
  Instance batch;
  while (reader->TryReadNext(&batch) == ReadResult::kRecord) ++behind;
  EXPECT_TRUE(reader->status().ok()) << reader->status().ToString();
  EXPECT_GT(behind, 0u);
}

OpenOptions DirectTest::Fresh(const std::string& format) const {
  OpenOptions options = Options();
  options.arena = std::make_shared<PinnedArena>(kArenaBytes);
  options.format = format;
  return options;
}

std::string DirectTest::Rows(std::size_t rows, std::size_t row_bytes) {
  const std::string path =
      directory_.File("rows" + std::to_string(rows) + "x" + std::to_string(row_bytes) + ".bin");
  std::vector<std::byte> bytes(rows * row_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 131 + i / 251 + i / row_bytes);
  }
  WriteBytes(path, bytes);
  return path;
}

std::shared_ptr<const Parser> DirectTest::RowParser(std::size_t row_bytes) {
  return RowsParser(
      {{"label", kInt64, {}}, {"pixels", kUInt8, {static_cast<std::int64_t>(row_bytes) - 8}}});
}

Reader DirectTest::Globally(Reader reader) {
  return Shuffle(std::move(reader), {.seed = 5, .mode = ShuffleMode::kGlobal});
}

Reader DirectTest::RowChain(const std::string& path, OnDamage on_damage) const {
  OpenOptions options = Fresh("rows:" + std::to_string(kRowBytes));
  options.on_damage = on_damage;
  return Batch(Globally(Parse(OpenFiles({path}, options), RowParser())), {.size = 6});
}

// All of it but the last page of each file came past the host.
TEST_P(DirectTest, RowsComeWithoutACopyByTheCpu) {
  const std::string path = Rows(150);
  ExpectTheSame([&] { return RowChain(path); });
  const DirectOutcome outcome = Feed(RowChain(path), TransferPlan::kDirect);
  EXPECT_EQ(outcome.stats.direct_bytes, 150 * kRowBytes);
  EXPECT_EQ(outcome.stats.delivered_bytes, 150 * kRowBytes);
  // The tables by which the device takes rows to their places, no more.
  EXPECT_LE(outcome.stats.copied_bytes,
            150 * (kRowBytes / kChunkBytes + 2) * sizeof(GatheredPiece));
}

// The last batch has 2 rows of 6.
TEST_P(DirectTest, EveryLastStep) {
  const std::string path = Rows(152);
  for (const LastStep last_step : {LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
    SCOPED_TRACE(static_cast<int>(last_step));
    FeedOptions options;
    options.last_step = last_step;
    ExpectTheSame([&] { return RowChain(path); }, options);
  }
}

TEST_P(DirectTest, ShortRowsAndLongOnes) {
  for (const std::size_t row_bytes :
       {std::size_t{16}, std::size_t{160}, std::size_t{4096}, std::size_t{3'000'001}}) {
    SCOPED_TRACE(row_bytes);
    const std::string path = Rows(row_bytes > 1'000'000 ? 7 : 500, row_bytes);
    ExpectTheSame([&] {
      const OpenOptions options = Fresh("rows:" + std::to_string(row_bytes));
      return Batch(Globally(Parse(OpenFiles({path}, options), RowParser(row_bytes))),
                   {.size = row_bytes > 1'000'000 ? 2u : 33u});
    });
  }
}

// The images and the places of their crops come past the host, and the kernel reads both.
TEST_P(DirectTest, ImagesAreCroppedByPlacesBesideThem) {
  const std::string path = Rows(150);
  const auto chain = [&] {
    const auto parser =
        RowsParser({{"image", kUInt8, {70, 30, 2}},
                    {"place", kInt32, {3}},
                    {"rest", kUInt8, {static_cast<std::int64_t>(kRowBytes) - 4212}}});
    const OpenOptions options = Fresh("rows:" + std::to_string(kRowBytes));
    return Batch(Globally(Parse(OpenFiles({path}, options), parser)), {.size = 6});
  };
  FeedOptions options;
  NormalizeField crop{.field = 0, .mean = {7}, .scale = {0.25F}, .channels_first = true};
  crop.crop_height = 64;
  crop.crop_width = 21;
  crop.crops = 1;
  options.transforms = {crop};
  const DirectOutcome expected = Feed(chain(), TransferPlan::kBatch, options);
  const DirectOutcome got = Feed(chain(), TransferPlan::kDirect, options);
  EXPECT_EQ(got.batches.size(), 25u);
  EXPECT_TRUE(got == expected) << got << "\nfor\n" << expected;
  EXPECT_EQ(got.stats.transfer, TransferPlan::kDirect) << got.stats.transfer_reason;
  EXPECT_EQ(got.stats.direct_bytes, 150 * kRowBytes);
}

TEST_P(DirectTest, SeveralFilesPassesAndOrders) {
  const std::vector<std::string> files = {Rows(31), Rows(1), Rows(64)};
  const auto order = [&](ShuffleOptions shuffle, bool drop, std::size_t size) {
    ExpectTheSame([&] {
      const OpenOptions options = Fresh("rows:" + std::to_string(kRowBytes));
      Reader rows = Shuffle(Parse(OpenFiles(files, options), RowParser()), shuffle);
      return Batch(MultiPass(rows, 3), {.size = size, .drop_remainder = drop});
    });
  };
  order({.seed = 3, .mode = ShuffleMode::kGlobal}, false, 7);
  order({.seed = 3, .mode = ShuffleMode::kGlobal}, true, 10);
  order({.window = 20, .seed = 9, .mode = ShuffleMode::kStripes}, false, 5);
}

TEST_P(DirectTest, WindowsOfTokensAndArrays) {
  const std::string tokens = directory_.File("tokens.bin");
  WritePatternFile(tokens, 2 * 100'000);
  ExpectTheSame([&] {
    const OpenOptions options = Fresh("tokens:u2,block=512,tail=drop");
    const auto parser = TokensParser({.dtype = kUInt16, .shape = {512}});
    return Batch(Globally(Parse(OpenFiles({tokens}, options), parser)), {.size = 16});
  });
  // An array of NumPy's: a header, then rows.
  const std::string array = directory_.File("array.npy");
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 6000), }";
  header += std::string(117 - header.size(), ' ') + "\n";
  std::string bytes = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header;
  for (std::size_t i = 0; i < 40 * 6000 * 4; ++i)
    bytes.push_back(static_cast<char>(i * 7 + i / 999));
  WriteBytes(array, std::as_bytes(std::span(bytes)));
  ExpectTheSame([&] {
    const auto parser = RowsParser({{"x", kFloat32, {6000}}});
    return Batch(Globally(Parse(OpenFiles({array}, Fresh("npy")), parser)), {.size = 7});
  });
  // Bytes of any length: of a format of rows each is as long as the others.
  const std::string path = Rows(40);
  ExpectTheSame([&] {
    const OpenOptions options = Fresh("rows:" + std::to_string(kRowBytes));
    return Batch(Globally(Parse(OpenFiles({path}, options), RawParser())), {.size = 9});
  });
}

TEST_P(DirectTest, RanksAndPositions) {
  const std::string path = Rows(90);
  for (const int rank : {0, 1, 2}) {
    ExpectTheSame([&] {
      const OpenOptions options = Fresh("rows:" + std::to_string(kRowBytes));
      Rank of_three;
      of_three.rank = rank;
      of_three.world_size = 3;
      return Batch(Parse(OpenFiles({path}, options), RowParser()), {.size = 12, .rank = of_three});
    });
  }
  const auto seek = [&](TransferPlan transfer) {
    Reader reader = RowChain(path);
    reader.SeekTo(4);
    return Feed(reader, transfer);
  };
  const DirectOutcome expected = seek(TransferPlan::kBatch);
  EXPECT_EQ(expected.batches.size(), 11u);
  EXPECT_TRUE(seek(TransferPlan::kDirect) == expected);
}

TEST_P(DirectTest, StartsAgainAndClosesInTheMiddle) {
  const std::string path = Rows(120);
  const Reader reader = RowChain(path);
  FeedOptions options;
  options.backend = backend_;
  options.devices = {0};
  options.transfer = TransferPlan::kDirect;
  DeviceStream stream;
  ASSERT_TRUE(backend_->BindThread(0).ok());
  ASSERT_TRUE(backend_->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  {
    const auto core = FeedCore::Start(SupplyOf(reader, options, library_), options);
    std::string first;
    for (int round = 0; round < 8; ++round) {
      DeviceLease lease;
      Status status;
      ASSERT_EQ(core->TryNext(&lease, &status), ReadResult::kRecord) << status.ToString();
      const std::string contents = ContentsOf(backend_.get(), stream, &lease);
      if (round == 0) first = contents;
      EXPECT_EQ(contents, first);
      core->ReInit();
    }
    EXPECT_TRUE(core->Close().ok());
  }
  EXPECT_TRUE(backend_->DestroyStream(stream).ok());
}

// Who reads on after the feed gets what stands in the device's memory, and the next pass by the
// CPU.
TEST_P(DirectTest, APlainReadBehindTheFeedGetsWholeBatches) {
  const std::string path = Rows(60);
  Reader reader = RowChain(path);
  ASSERT_NO_FATAL_FAILURE(TakeOneDirectly(reader));
  ExpectMore(&reader);
  Reader plain = RowChain(path);
  reader.ReInit();
  Instance batch;
  while (plain.TryReadNext(&batch) == ReadResult::kRecord) {
    const Instance again = reader.ReadNext();
    ASSERT_EQ(again[1].bytes, batch[1].bytes);
    EXPECT_EQ(std::memcmp(again[1].data, batch[1].data, batch[1].bytes), 0);
  }
}

// No copy may stand in two registrations; memory of other feeds can begin anywhere in a batch.
TEST_P(DirectTest, APlainReadCopiesIntoMemoryThatIsRegisteredInPieces) {
  constexpr std::size_t kReadBytes = 16'384;  // shorter than a row
  const std::string path = Rows(60);
  OpenOptions open = Fresh("rows:" + std::to_string(kRowBytes));
  Reader reader = Batch(Globally(Parse(OpenFiles({path}, open), RowParser())), {.size = 6});
  ASSERT_NO_FATAL_FAILURE(TakeOneDirectly(reader));
  const Arena& arena = *open.arena->arena();
  for (std::size_t at = 0; at < arena.bytes(); at += kReadBytes) {
    ASSERT_TRUE(backend_->RegisterHost(arena.data() + at, kReadBytes).ok());
  }
  ExpectMore(&reader);
  for (std::size_t at = 0; at < arena.bytes(); at += kReadBytes) {
    EXPECT_TRUE(backend_->UnregisterHost(arena.data() + at).ok());
  }
}

// A bad sector, and a file that ends earlier than it did when it was opened.
TEST_P(DirectTest, DamageMeansWhatItMeansOnTheCpu) {
  // Long enough that rows which are no neighbours are read apart, whatever reads them.
  constexpr std::size_t kPagedRow = 32'768;
  const std::string path = Rows(200, kPagedRow);
  struct Case {
    std::uint64_t begin;
    std::uint64_t end;
    int error;
  };
  for (const Case& bad :
       {Case{40 * kPagedRow + 4096, 40 * kPagedRow + 8192, EIO},
        Case{199 * kPagedRow, 200 * kPagedRow, EIO}, Case{150 * kPagedRow, 200 * kPagedRow, 0}}) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      SCOPED_TRACE(testing::Message() << bad.begin << " " << bad.error << " "
                                      << (on_damage == OnDamage::kSkip ? "skip" : "fail"));
      const BadPlace place(bad.begin, bad.end, bad.error);
      ExpectTheSame([&] {
        OpenOptions options = Fresh("rows:" + std::to_string(kPagedRow));
        options.on_damage = on_damage;
        options.io.path = IoPath::kPread;
        options.io.retries = 0;
        return Batch(Globally(Parse(OpenFiles({path}, options), RowParser(kPagedRow))),
                     {.size = 8});
      });
    }
  }
}

// These go by the host's memory, as they would without cuFile, and the report says why.
TEST_P(DirectTest, WhatCannotBeReadDirectlyComesAllTheSame) {
  const std::string path = Rows(60);
  const auto open = [&] { return OpenFiles({path}, Fresh("rows:" + std::to_string(kRowBytes))); };
  const std::vector<std::pair<std::string, std::function<Reader()>>> chains = {
      {"order of their files", [&] { return Batch(Parse(open(), RowParser()), {.size = 6}); }},
      {"looks into its records",
       [&] {
         return Batch(
             Filter(Globally(Parse(open(), RowParser())), [](const RecordSpan&) { return true; }),
             {.size = 6});
       }},
      {"looks into its records",
       [&] {
         const auto parser = TokensParser(
             {.dtype = kUInt8, .shape = {static_cast<std::int64_t>(kRowBytes)}, .as = kInt32});
         return Batch(Globally(Parse(open(), parser)), {.size = 6});
       }},
  };
  for (const auto& [why, chain] : chains) {
    const DirectOutcome expected = Feed(chain(), TransferPlan::kBatch);
    const DirectOutcome got = Feed(chain(), TransferPlan::kDirect);
    EXPECT_TRUE(got == expected) << got;
    EXPECT_NE(got.stats.transfer, TransferPlan::kDirect);
    EXPECT_NE(got.stats.transfer_reason.find("not read directly"), std::string::npos);
    EXPECT_NE(got.stats.transfer_reason.find(why), std::string::npos) << got.stats.transfer_reason;
  }
}

}  // namespace ringfeed
