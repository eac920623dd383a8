#include "readers/engine/sources/indexed_lane.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/files/record_set.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/engine/sources/worker_io.h"
#include "readers/formats/format.h"
#include "readers/order/place_chunks.h"
#include "ringfeed/formats.h"
#include "tests/readers/order/planned_data.h"
#include "tests/support/fault_engine.h"
#include "tests/support/pattern_file.h"
#include "tests/support/random_fault_hook.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// What lanes gave, in the plan's order.
struct Brought {
  std::vector<std::optional<std::uint64_t>> ids;  ///< nothing: a null span
  std::vector<std::vector<std::byte>> records;    ///< empty where there is a null span
  std::vector<RowNumber> rows;
  std::vector<DamagedRange> damage;
  Status status;
  std::uint64_t passes = 0;
  std::size_t blocks = 0;
  std::size_t longest_block_bytes = 0;
  std::vector<IoChoice> choices;
};

/// Takes few requests at a time, and notes whether it was handed more.
class NarrowEngine final : public ReadEngine {
 public:
  NarrowEngine(std::unique_ptr<ReadEngine> inner, std::size_t* most_handed)
      : inner_(std::move(inner)), most_handed_(most_handed) {}

  std::string name() const override { return "narrow"; }
  std::size_t Submit(std::span<ReadRequest* const> requests) override {
    *most_handed_ = std::max(*most_handed_, requests.size());
    return inner_->Submit(requests.first(std::min(requests.size(), room())));
  }
  std::size_t room() const override { return kMost - inner_->in_flight(); }
  std::size_t Reap(std::span<ReadRequest*> finished,
                   std::chrono::steady_clock::time_point deadline) override {
    return inner_->Reap(finished, deadline);
  }
  void Wake() override { inner_->Wake(); }
  std::size_t in_flight() const override { return inner_->in_flight(); }
  ReadEngineStats stats() const override { return inner_->stats(); }

  static constexpr std::size_t kMost = 3;

 private:
  const std::unique_ptr<ReadEngine> inner_;
  std::size_t* const most_handed_;
};

class IndexedLaneTest : public testing::Test {
 protected:
  /// How the lanes of one test read.
  struct Setup {
    IoPath path = IoPath::kAuto;
    std::size_t lanes = 3;
    std::size_t rows_per_chunk = 64;
    std::uint64_t passes = 1;
    bool written = true;
    OnDamage on_damage = OnDamage::kFail;
    std::size_t max_record_bytes = std::size_t{1} << 30;
    EngineFactory engines{};
    std::size_t in_flight_bytes = 4 << 20;
  };

  IndexedLaneTest() : arena_(Arena::Create({.bytes = 64 << 20, .huge_pages = false})) {}

  std::string File(const std::string& name) const { return directory_.File(name); }

  /// Files of records of 8 to `most` bytes.
  std::shared_ptr<PlannedData> MakeData(PlannedFormat format, std::size_t files,
                                        std::size_t records, std::size_t most,
                                        bool sources = false) {
    auto data = std::make_shared<PlannedData>(format);
    for (std::size_t i = 0; i < files; ++i) {
      const std::string path = sources ? "" : File("data" + std::to_string(i));
      // One of the files is empty where there are many.
      data->AddFile(path, RandomSizes(i, i == 2 ? 0 : records + 13 * i, 8, most));
    }
    return data;
  }
  static std::vector<RowNumber> Shuffled(const PlannedData& data, std::uint64_t seed) {
    std::vector<RowNumber> rows(data.rows());
    std::iota(rows.begin(), rows.end(), RowNumber{0});
    std::shuffle(rows.begin(), rows.end(), std::mt19937_64(seed));
    return rows;
  }

  /// Takes the lanes in turn, in one thread, and checks what every block promises.
  Brought Bring(const std::shared_ptr<const FileTable>& data, const std::vector<RowNumber>& rows,
                const Setup& setup) {
    Brought brought;
    options_.on_damage = setup.on_damage;
    options_.max_record_bytes = setup.max_record_bytes;
    options_.io.path = setup.path;
    options_.io.in_flight_bytes = setup.in_flight_bytes;
    WorkerIo io(options_.io, arena_, setup.engines);
    LaneContext context;
    context.options = &options_;
    context.arena = arena_;
    context.io = &io;
    context.written = setup.written;
    context.read_clock = context.decompress_clock = context.frame_clock = &clock_;
    context.read_bytes = &read_bytes_;
    PlaceChunks::Options plan_options;
    plan_options.rows_per_chunk = setup.rows_per_chunk;
    plan_options.passes = setup.passes;
    ChunkPlan plan(setup.lanes,
                   std::make_unique<PlaceChunks>(std::make_unique<ListedRows>(rows), plan_options));
    const FileNews news{
        .opened = [&](const InputFile& file) { brought.choices.push_back(file.choice()); }};
    OpenedFiles files(data, options_.io, news, {.room = std::make_shared<CacheRoom>()});
    std::vector<std::unique_ptr<IndexedLane>> lanes;
    for (std::size_t i = 0; i < setup.lanes; ++i) {
      lanes.push_back(
          std::make_unique<IndexedLane>(IndexedLane::Options{i, 0}, &plan, &files, &context));
    }
    TakeTurns(lanes, &io, data.get(), &brought);
    lanes.clear();
    return brought;
  }

  void TakeTurns(const std::vector<std::unique_ptr<IndexedLane>>& lanes, WorkerIo* io,
                 const FileTable* data, Brought* brought) {
    while (true) {
      std::vector<bool> in_pass(lanes.size(), true);
      for (std::size_t turn = 0; std::count(in_pass.begin(), in_pass.end(), true) > 0; ++turn) {
        const std::size_t lane = turn % lanes.size();
        if (!in_pass[lane]) continue;
        std::unique_ptr<Block> filled;
        do {
          filled = std::make_unique<Block>();
          Block& block = *filled;
          FillOne(lanes[lane].get(), io, &block);
          Take(block, data, brought);
          if (after_block_) after_block_(brought->blocks);
          FreeRuns(&block);
        } while (!filled->turn_ends && filled->status.ok());
        if (filled->stream_ends || !filled->status.ok()) return;
        if (filled->pass_ends) in_pass[lane] = false;
      }
      ++brought->passes;
    }
  }

  static void FillOne(IndexedLane* lane, WorkerIo* io, Block* block) {
    while (!lane->Fill(block)) {
      ASSERT_TRUE(io->in_flight()) << "waits for nothing";
      io->Reap(std::chrono::steady_clock::now() + std::chrono::seconds(20));
    }
  }

  void FreeRuns(Block* block) {
    for (const SlabRun& run : block->runs) arena_->Free(run);
    block->runs.clear();
  }

  static void Take(const Block& block, const FileTable* data, Brought* brought) {
    brought->status = block.status;
    if (block.pass_ends || block.stream_ends) {
      EXPECT_EQ(block.rows(), 0u);
      return;
    }
    ++brought->blocks;
    ASSERT_EQ(block.row_numbers.size(), block.rows());
    std::size_t bytes = 0;
    for (std::uint32_t i = 0; i < block.rows(); ++i) {
      const RecordSpan record = block.frame.records[i];
      brought->rows.push_back(block.row_numbers[i]);
      brought->records.emplace_back(record.bytes().begin(), record.bytes().end());
      brought->ids.push_back(record.damaged() ? std::nullopt : IdOfPayload(record.bytes()));
      bytes += record.size;
      if (record.damaged()) continue;
      const DataPlace place = block.PlaceOf(i);
      const std::size_t file = FileOfRow(*data, block.row_numbers[i]);
      EXPECT_EQ(place.file, data->file(file).name);
      EXPECT_EQ(place.record,
                static_cast<std::int64_t>(block.row_numbers[i] - data->FirstRow(file)));
      if (const auto* const made = dynamic_cast<const PlannedData*>(data);
          made != nullptr && place.offset >= 0) {
        EXPECT_EQ(place.offset, static_cast<std::int64_t>(made->OffsetOf(block.row_numbers[i])));
      }
    }
    brought->longest_block_bytes = std::max(brought->longest_block_bytes, bytes);
    brought->damage.insert(brought->damage.end(), block.frame.damage.begin(),
                           block.frame.damage.end());
  }

  static std::vector<std::optional<std::uint64_t>> IdsOf(const std::vector<RowNumber>& rows) {
    std::vector<std::optional<std::uint64_t>> ids;
    for (const RowNumber row : rows) {
      ids.push_back(row == kNoRow ? std::nullopt : std::optional<std::uint64_t>(row));
    }
    return ids;
  }

  static std::vector<IoPath> Paths() {
    std::vector<IoPath> paths = {IoPath::kAuto, IoPath::kPread, IoPath::kMmap};
    if (ProbeUring().available) paths.push_back(IoPath::kUring);
    return paths;
  }

  TempDir directory_;
  std::shared_ptr<Arena> arena_;
  OpenOptions options_;
  StageClock clock_;
  StageCount read_bytes_;
  std::function<void(std::size_t)> after_block_;
};

TEST_F(IndexedLaneTest, EveryPathAndFormatBringsTheRowsInTheirOrder) {
  for (const PlannedFormat format :
       {PlannedFormat::kRows, PlannedFormat::kRecords, PlannedFormat::kChunks}) {
    for (const bool large : {false, true}) {
      const std::size_t records = kSanitized ? (large ? 20 : 200) : (large ? 60 : 2000);
      const auto data = MakeData(format, 4, records, large ? 40000 : 300);
      std::vector<RowNumber> rows = Shuffled(*data, 5);
      rows.insert(rows.begin() + 7, 3, kNoRow);
      rows.push_back(rows[0]);  // a mixture may repeat a row
      rows.push_back(rows[0]);
      for (const IoPath path : Paths()) {
        for (const bool cold : {false, true}) {
          for (std::size_t i = 0; cold && i < data->files(); ++i) MakeCold(data->file(i).name);
          for (const std::size_t chunk : {1u, 64u, 4096u}) {
            Setup setup;
            setup.path = path;
            setup.rows_per_chunk = chunk;
            setup.written = chunk != 64;
            const Brought brought = Bring(data, rows, setup);
            ASSERT_TRUE(brought.status.ok()) << brought.status.ToString();
            ASSERT_EQ(brought.ids, IdsOf(rows))
                << static_cast<int>(format) << " " << IoPathName(path) << " " << chunk;
            ASSERT_EQ(brought.rows, rows);
            EXPECT_TRUE(brought.damage.empty());
          }
        }
      }
      EXPECT_EQ(arena_->Report().in_use_bytes, 0u);
    }
  }
}

TEST_F(IndexedLaneTest, RowsInFileOrderAreReadInLargePieces) {
  const auto data = MakeData(PlannedFormat::kRecords, 1, 20000, 100);
  std::vector<RowNumber> rows(data->rows());
  std::iota(rows.begin(), rows.end(), RowNumber{0});
  struct Hook final : ReadFaultHook {
    std::int64_t OnResult(const InputFile&, std::uint64_t, std::uint32_t,
                          std::int64_t result) override {
      ++reads;
      return result;
    }
    std::size_t reads = 0;
  } hook;
  SetReadFaultHook(&hook);
  MakeWarm(data->file(0).name);
  Setup setup;
  setup.path = IoPath::kPread;
  setup.rows_per_chunk = 2000;
  EXPECT_EQ(Bring(data, rows, setup).ids, IdsOf(rows));
  SetReadFaultHook(nullptr);
  EXPECT_LE(hook.reads, 20u);
}

TEST_F(IndexedLaneTest, SourcesOfTheProgramsOwnAreRead) {
  for (const PlannedFormat format :
       {PlannedFormat::kRows, PlannedFormat::kRecords, PlannedFormat::kChunks}) {
    const auto data = MakeData(format, 3, 500, 1000, true);
    const std::vector<RowNumber> rows = Shuffled(*data, 6);
    EXPECT_EQ(Bring(data, rows, {}).ids, IdsOf(rows));
  }
}

TEST_F(IndexedLaneTest, PassesFollowEachOther) {
  const auto data = MakeData(PlannedFormat::kRecords, 2, 50, 100);
  const std::vector<RowNumber> rows = Shuffled(*data, 7);
  Setup setup;
  setup.passes = 3;
  setup.rows_per_chunk = 9;
  const Brought brought = Bring(data, rows, setup);
  std::vector<RowNumber> expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), rows.begin(), rows.end());
  EXPECT_EQ(brought.rows, expected);
  EXPECT_EQ(brought.passes, 3u);
}

TEST_F(IndexedLaneTest, ShortReadsAndTransientFailuresAreGotOver) {
  const auto data = MakeData(PlannedFormat::kRecords, 3, 400, 5000);
  const std::vector<RowNumber> rows = Shuffled(*data, 8);
  for (const IoPath path : Paths()) {
    RandomFaultHook hook(9, {.short_read = 0.2, .interrupted = 0.1, .again = 0.1});
    for (std::size_t i = 0; i < data->files(); ++i) MakeCold(data->file(i).name);
    Setup setup;
    setup.path = path;
    setup.engines.uring = [](const IoOptions& io, std::byte* arena, std::size_t bytes,
                             std::unique_ptr<ReadEngine>* engine) {
      const Status status = MakeUringEngine(io, arena, bytes, engine);
      if (status.ok()) {
        *engine = MakeFaultEngine(std::move(*engine), 1, {.delay = 0.2, .reorder = true});
      }
      return status;
    };
    EXPECT_EQ(Bring(data, rows, setup).ids, IdsOf(rows)) << IoPathName(path);
  }
}

TEST_F(IndexedLaneTest, AnEngineIsHandedNoMoreReadsThanItHasRoomFor) {
  if (!ProbeUring().available) GTEST_SKIP() << "no io_uring: " << ProbeUring().reason;
  const auto data = MakeData(PlannedFormat::kRecords, 3, 400, 5000);
  const std::vector<RowNumber> rows = Shuffled(*data, 15);
  for (std::size_t i = 0; i < data->files(); ++i) MakeCold(data->file(i).name);
  std::size_t most_handed = 0;
  Setup setup;
  setup.path = IoPath::kUring;
  setup.engines.uring = [&most_handed](const IoOptions& io, std::byte* arena, std::size_t bytes,
                                       std::unique_ptr<ReadEngine>* engine) {
    Status status = MakeUringEngine(io, arena, bytes, engine);
    if (status.ok()) *engine = std::make_unique<NarrowEngine>(std::move(*engine), &most_handed);
    return status;
  };
  EXPECT_EQ(Bring(data, rows, setup).ids, IdsOf(rows));
  EXPECT_GT(most_handed, 1u);
  EXPECT_LE(most_handed, NarrowEngine::kMost);
}

TEST_F(IndexedLaneTest, DamageIsAHoleInItsPlaceOrAFailureBehindWhatCameBefore) {
  for (const PlannedFormat format : {PlannedFormat::kRecords, PlannedFormat::kChunks}) {
    const auto data = MakeData(format, 3, 300, 200);
    const std::vector<RowNumber> rows = Shuffled(*data, 10);
    std::vector<RowNumber> damaged = {rows[333], rows[100], rows[101]};
    for (const RowNumber row : damaged) {
      std::fstream file(data->file(FileOfRow(*data, row)).name,
                        std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(data->OffsetOf(row) + data->SizeOf(row) / 2);
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(at);
      file.put(byte);
    }
    auto expected = IdsOf(rows);
    for (const std::size_t place : {100u, 101u, 333u}) expected[place] = std::nullopt;
    // Of a damaged chunk the records behind the damage are out of reach where nothing is skipped.
    const auto fails = [&](RowNumber row) {
      return std::any_of(damaged.begin(), damaged.end(), [&](RowNumber bad) {
        return row == bad || (format == PlannedFormat::kChunks && row > bad &&
                              data->UnitOf(row) == data->UnitOf(bad));
      });
    };
    const auto first_bad = std::find_if(rows.begin(), rows.end(), fails);
    const auto good = static_cast<std::size_t>(first_bad - rows.begin());
    for (const IoPath path : Paths()) {
      Setup setup;
      setup.path = path;
      setup.on_damage = OnDamage::kSkip;
      const Brought skipped = Bring(data, rows, setup);
      EXPECT_TRUE(skipped.status.ok());
      EXPECT_EQ(skipped.ids, expected) << IoPathName(path);
      EXPECT_EQ(skipped.damage.size(), damaged.size());
      setup.on_damage = OnDamage::kFail;
      const Brought failed = Bring(data, rows, setup);
      EXPECT_EQ(failed.status.code(), StatusCode::kDamaged);
      EXPECT_EQ(failed.ids, IdsOf({rows.begin(), first_bad}));
      const std::size_t file = FileOfRow(*data, rows[good]);
      EXPECT_EQ(failed.status.place().file, data->file(file).name);
      EXPECT_EQ(failed.status.place().record,
                static_cast<std::int64_t>(rows[good] - data->FirstRow(file)));
    }
  }
}

TEST_F(IndexedLaneTest, AChunksDamageIsReportedOnceWhoeverReadsItsRecords) {
  const auto data = MakeData(PlannedFormat::kChunks, 1, 70, 100);
  std::ofstream(data->file(0).name, std::ios::in | std::ios::binary)
      .seekp(static_cast<std::streamoff>(data->OffsetOf(16)))
      .put('?');
  Setup setup;
  setup.on_damage = OnDamage::kSkip;
  setup.rows_per_chunk = 1;  // every record of the damaged chunk is framed by itself
  const std::vector<RowNumber> rows = Shuffled(*data, 3);
  auto expected = IdsOf(rows);
  std::replace(expected.begin(), expected.end(), std::optional<std::uint64_t>(16),
               std::optional<std::uint64_t>());
  const Brought brought = Bring(data, rows, setup);
  EXPECT_EQ(brought.ids, expected);
  EXPECT_EQ(brought.damage.size(), 1u);
}

/// Fails every read that touches one byte of a file, for good.
class BadSector final : public ReadFaultHook {
 public:
  explicit BadSector(std::uint64_t at) : at_(at) { SetReadFaultHook(this); }
  ~BadSector() override { SetReadFaultHook(nullptr); }
  std::int64_t OnResult(const InputFile&, std::uint64_t offset, std::uint32_t bytes,
                        std::int64_t result) override {
    return offset <= at_ && at_ < offset + bytes ? -EBADMSG : result;
  }

 private:
  const std::uint64_t at_;
};

TEST_F(IndexedLaneTest, ABadSectorCostsOnlyTheRecordsThatStandInIt) {
  const auto data = MakeData(PlannedFormat::kRecords, 1, 500, 9000);
  std::vector<RowNumber> rows(data->rows());
  std::iota(rows.begin(), rows.end(), RowNumber{0});
  const BadSector bad(data->OffsetOf(250) + 4);
  std::vector<IoPath> paths = {IoPath::kPread};
  if (ProbeUring().available) paths.push_back(IoPath::kUring);
  for (const IoPath path : paths) {
    for (const bool cold : {false, true}) {
      if (cold) {
        MakeCold(data->file(0).name);
      } else if (!MakeWarm(data->file(0).name)) {
        GTEST_SKIP() << kKeepsNoFiles;
      }
      Setup setup;
      setup.path = path;
      setup.on_damage = OnDamage::kSkip;
      const Brought skipped = Bring(data, rows, setup);
      ASSERT_TRUE(skipped.status.ok()) << skipped.status.ToString();
      ASSERT_EQ(skipped.ids.size(), rows.size());
      EXPECT_FALSE(skipped.ids[250].has_value());
      std::size_t lost = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (skipped.ids[i] == rows[i]) continue;
        ++lost;  // direct reads bring whole sectors, so a neighbour's bytes may be in it
        EXPECT_NEAR(static_cast<double>(i), 250, 2) << IoPathName(path);
      }
      EXPECT_EQ(skipped.damage.size(), lost);
      EXPECT_LE(lost, path == IoPath::kPread && !cold ? 1u : 3u);
      setup.on_damage = OnDamage::kFail;
      const Brought failed = Bring(data, rows, setup);
      EXPECT_FALSE(failed.status.ok());
      EXPECT_EQ(failed.status.place().file, data->file(0).name);
      EXPECT_GE(failed.ids.size(), 248u);
      EXPECT_LE(failed.ids.size(), 250u);
    }
  }
}

TEST_F(IndexedLaneTest, AFileThatVanishedLosesItsRowsAlone) {
  for (const PlannedFormat format : {PlannedFormat::kRows, PlannedFormat::kRecords}) {
    const auto data = MakeData(format, 2, 40, 100);
    const std::vector<RowNumber> rows = Shuffled(*data, 11);
    unlink(data->file(1).name.c_str());
    auto expected = IdsOf(rows);
    std::size_t lost = 0;
    for (auto& id : expected) {
      if (*id < data->FirstRow(1)) continue;
      id = std::nullopt;
      ++lost;
    }
    Setup setup;
    setup.on_damage = OnDamage::kSkip;
    const Brought skipped = Bring(data, rows, setup);
    EXPECT_EQ(skipped.ids, expected);
    EXPECT_EQ(skipped.damage.size(), lost);
    setup.on_damage = OnDamage::kFail;
    const Brought failed = Bring(data, rows, setup);
    EXPECT_EQ(failed.status.code(), StatusCode::kNotFound);
    const auto first = std::find(expected.begin(), expected.end(), std::nullopt);
    EXPECT_EQ(failed.ids, std::vector(expected.begin(), first));
  }
}

TEST_F(IndexedLaneTest, AFileThatWasCutSinceItsIndexWasMadeLosesWhatIsGone) {
  for (const PlannedFormat format :
       {PlannedFormat::kRows, PlannedFormat::kRecords, PlannedFormat::kChunks}) {
    const auto data = MakeData(format, 2, 70, 3000);
    const std::vector<RowNumber> rows = Shuffled(*data, 12);
    const RowNumber cut = data->FirstRow(1) + 42;  // the first of a chunk, too
    const std::uint64_t end = data->OffsetOf(cut) - (format == PlannedFormat::kRows ? 0 : 8);
    ASSERT_EQ(truncate(data->file(1).name.c_str(), static_cast<off_t>(end)), 0);
    auto expected = IdsOf(rows);
    for (auto& id : expected) {
      if (*id >= cut) id = std::nullopt;
    }
    for (const IoPath path : Paths()) {
      Setup setup;
      setup.path = path;
      setup.on_damage = OnDamage::kSkip;
      EXPECT_EQ(Bring(data, rows, setup).ids, expected) << IoPathName(path);
      setup.on_damage = OnDamage::kFail;
      EXPECT_EQ(Bring(data, rows, setup).status.code(), StatusCode::kTruncated);
    }
  }
}

TEST_F(IndexedLaneTest, AFileThatIsCutWhileItIsReadGivesNoZeros) {
  for (const PlannedFormat format : {PlannedFormat::kRecords, PlannedFormat::kChunks}) {
    for (const IoPath path : Paths()) {
      const auto data = MakeData(format, 1, 300, 8000);
      const std::vector<RowNumber> rows = Shuffled(*data, 13);
      const std::string& name = data->file(0).name;
      Setup setup;
      setup.path = path;
      setup.on_damage = OnDamage::kSkip;
      setup.rows_per_chunk = 10;
      setup.in_flight_bytes = 64 * 1024;  // so that not everything is there before it is cut
      after_block_ = [&](std::size_t blocks) {
        if (blocks == 5) {
          ASSERT_EQ(truncate(name.c_str(), 300000), 0);
        }
      };
      const Brought brought = Bring(data, rows, setup);
      after_block_ = nullptr;
      ASSERT_EQ(brought.ids.size(), rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!brought.ids[i]) continue;
        ASSERT_EQ(*brought.ids[i], rows[i]) << IoPathName(path);
      }
      EXPECT_FALSE(brought.damage.empty());
      setup.on_damage = OnDamage::kFail;
      EXPECT_EQ(Bring(data, rows, setup).status.code(), StatusCode::kTruncated);
    }
  }
}

/// An index that lies: it gives these units for every record.
class LyingIndex final : public RecordIndex {
 public:
  LyingIndex(RecordUnit unit, Status status) : unit_(unit), status_(std::move(status)) {}
  std::uint64_t records() const override { return 100; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override {
    for (std::size_t i = 0; i < records.size(); ++i) {
      units[i] = unit_;
      if (unit_.records == 1) units[i].first_record = records[i];
    }
    return status_;
  }
  Status FirstFrom(std::uint64_t, std::uint64_t*) const override { return {}; }

 private:
  const RecordUnit unit_;
  const Status status_;
};

TEST_F(IndexedLaneTest, AnIndexThatLiesIsNotBelieved) {
  const std::vector<std::size_t> sizes(100, 50);
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const RecordUnit unit :
       {RecordUnit{1 << 20, 10, 0, 1}, RecordUnit{5, huge, 0, 1}, RecordUnit{huge, 5, 0, 1},
        RecordUnit{huge - 3, 100, 0, 1}, RecordUnit{3, 58, 200, 7}, RecordUnit{3, 0, 0, 1},
        RecordUnit{3, 58, 0, 1000}, RecordUnit{4, 58, 0, 1}}) {
    auto data = std::make_shared<PlannedData>(PlannedFormat::kRecords);
    data->AddFile(File("data"), sizes);
    data->edit(0)->index = std::make_shared<LyingIndex>(unit, Status());
    for (const IoPath path : {IoPath::kPread, IoPath::kMmap}) {
      Setup setup;
      setup.path = path;
      setup.rows_per_chunk = 10;
      const Brought failed = Bring(data, {50, 51, 52}, setup);
      EXPECT_EQ(failed.status.code(), StatusCode::kDamaged) << unit.offset << " " << unit.bytes;
      EXPECT_TRUE(failed.ids.empty());
      setup.on_damage = OnDamage::kSkip;
      EXPECT_EQ(Bring(data, {50, 51, 52}, setup).ids,
                (std::vector<std::optional<std::uint64_t>>(3)));
    }
  }
}

TEST_F(IndexedLaneTest, AnIndexThatCannotBeReadFailsAlsoWhereDamageIsSkipped) {
  auto data = std::make_shared<PlannedData>(PlannedFormat::kRecords);
  data->AddFile(File("data"), std::vector<std::size_t>(100, 50));
  data->edit(0)->index =
      std::make_shared<LyingIndex>(RecordUnit{3, 58, 0, 1}, Status(StatusCode::kIoError, "gone"));
  Setup setup;
  setup.on_damage = OnDamage::kSkip;
  EXPECT_EQ(Bring(data, {1, 2}, setup).status.code(), StatusCode::kIoError);
}

TEST_F(IndexedLaneTest, AUnitFarLongerThanARecordMayBeIsReadInPart) {
  auto data = std::make_shared<PlannedData>(PlannedFormat::kRecords);
  data->AddFile(File("data"), std::vector<std::size_t>{50, 3000000, 60});
  // What the first record's unit has behind it was lost; the index gives it all of that.
  data->edit(0)->index =
      std::make_shared<LyingIndex>(RecordUnit{3, data->file(0).bytes - 3, 0, 1}, Status());
  Setup setup;
  setup.path = IoPath::kPread;
  setup.max_record_bytes = 1000;
  const std::uint64_t before = read_bytes_.count();
  EXPECT_EQ(Bring(data, {0}, setup).ids, IdsOf({0}));
  EXPECT_LE(read_bytes_.count() - before, 100000u);
}

TEST_F(IndexedLaneTest, WithoutMemoryTheFailureSaysWhatToDo) {
  arena_ = Arena::Create({.bytes = 4 << 20, .huge_pages = false});
  auto data = std::make_shared<PlannedData>(PlannedFormat::kRecords);
  data->AddFile(File("data"), std::vector<std::size_t>{100, 5000000, 100});
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    Setup setup;
    setup.path = IoPath::kPread;
    setup.on_damage = on_damage;
    const Brought brought = Bring(data, {0, 2, 1, 0}, setup);
    EXPECT_EQ(brought.status.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(brought.status.message().find("RINGFEED_ARENA_BYTES"), std::string::npos);
    EXPECT_EQ(brought.ids, IdsOf({0, 2}));
  }
}

TEST_F(IndexedLaneTest, SmallRecordsOfAColdFileAreReadManyAtATime) {
  if (!ProbeUring().available) GTEST_SKIP() << "no io_uring: " << ProbeUring().reason;
  const auto data = MakeData(PlannedFormat::kRows, 1, 20000, 160);
  const std::vector<RowNumber> rows = Shuffled(*data, 14);
  MakeCold(data->file(0).name);
  Setup setup;
  setup.path = IoPath::kUring;
  setup.lanes = 1;
  setup.rows_per_chunk = 4096;
  const Brought brought = Bring(data, rows, setup);
  EXPECT_EQ(brought.ids, IdsOf(rows));
  // Much of the file is needed for each part: parts are as large as they may be.
  EXPECT_LE(brought.blocks, 100u);
}

/// What the format's own framer finds in a file, from its start to its end.
std::vector<std::vector<std::byte>> FrameAll(const DataFile& file, OnDamage on_damage) {
  const std::string image = ReadBytes(file.name);
  HeapFrameMemory memory;
  FrameOutput output;
  FrameInput input;
  input.bytes = std::as_bytes(std::span(image));
  input.limit = image.size();
  input.at_end = true;
  input.memory = &memory;
  const auto framer = file.format->NewFramer({file.name, image.size(), on_damage});
  EXPECT_TRUE(framer->Frame(input, &output).status.ok());
  std::vector<std::vector<std::byte>> records;
  for (const RecordSpan& record : output.records) {
    records.emplace_back(record.bytes().begin(), record.bytes().end());
  }
  return records;
}

class PlannedFormatsTest : public IndexedLaneTest {
 protected:
  std::string Write(const std::string& format, int number) {
    const std::string path = File("part" + std::to_string(number));
    auto [status, writer] = OpenRecordWriter(path, format);
    EXPECT_TRUE(status.ok()) << status.ToString();
    const bool is_text = format == "lines" || format == "csv";
    for (std::uint64_t id = 0; id < records_ + 50u * static_cast<unsigned>(number); ++id) {
      std::vector<std::byte> record = RecordPayload(id, 8 + id * 37 % 400);
      if (format == "rows:100,header=10,stride=128") record.resize(100);
      if (is_text)
        for (std::byte& b : record) b = std::byte{'a'} | (b & std::byte{7});
      const Status wrote = writer->Write(record);
      EXPECT_TRUE(wrote.ok()) << format << ": " << wrote.ToString();
      if (!wrote.ok()) break;
    }
    EXPECT_TRUE(writer->Close().ok());
    return path;
  }

  void Compare(const std::string& format, OnDamage on_damage,
               const std::function<void(const std::string&)>& damage) {
    std::vector<std::string> names;
    for (int i = 0; i < 3; ++i) names.push_back(Write(format, i));
    if (damage) damage(names[1]);
    RecordSet::Options options;
    options.format = format;
    options.on_damage = on_damage;
    const auto set =
        std::make_shared<RecordSet>(names, std::vector<std::shared_ptr<Source>>(), options);
    ASSERT_TRUE(set->status().ok()) << set->status().ToString();
    std::vector<std::vector<std::byte>> expected;
    for (std::size_t i = 0; i < set->files(); ++i) {
      for (auto& record : FrameAll(set->file(i), on_damage)) expected.push_back(std::move(record));
    }
    ASSERT_EQ(set->rows(), expected.size()) << format;
    std::vector<RowNumber> rows(expected.size());
    std::iota(rows.begin(), rows.end(), RowNumber{0});
    for (const bool shuffled : {false, true}) {
      if (shuffled) std::shuffle(rows.begin(), rows.end(), std::mt19937_64(4));
      for (const IoPath path : Paths()) {
        Setup setup;
        setup.path = path;
        setup.on_damage = on_damage;
        setup.rows_per_chunk = shuffled ? 100 : 1000;
        const Brought brought = Bring(set, rows, setup);
        ASSERT_TRUE(brought.status.ok()) << format << brought.status.ToString();
        ASSERT_EQ(brought.rows, rows);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          ASSERT_EQ(brought.records[i], expected[rows[i]])
              << format << " " << IoPathName(path) << " row " << rows[i];
        }
      }
    }
  }

  std::size_t records_ = 700;
};

TEST_F(PlannedFormatsTest, RecordsAreThoseThatTheFramerFinds) {
  if (kSanitized) records_ = 150;
  for (const char* format : {"tfrecord", "recordio", "recordio:fluid,none", "recordio:go,gzip",
                             "lines", "rows:100,header=10,stride=128", "tar:ext=bin"}) {
    Compare(format, OnDamage::kFail, {});
  }
}

TEST_F(PlannedFormatsTest, DamagedRecordsAreHolesWithTheSameNumbers) {
  for (const char* format : {"tfrecord", "recordio:fluid,none", "lines"}) {
    Compare(format, OnDamage::kSkip, [](const std::string& name) {
      std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
      for (const int at : {3000, 20000, 20003, 60000, 100000}) {
        file.seekg(at);
        const char byte = static_cast<char>(file.get() ^ 0x10);
        file.seekp(at);
        file.put(byte);
      }
    });
  }
}

TEST_F(IndexedLaneTest, ReadsThatAnEngineFailsForGoodAreFailuresInTheirPlace) {
  if (!ProbeUring().available) GTEST_SKIP() << "no io_uring: " << ProbeUring().reason;
  const auto data = MakeData(PlannedFormat::kRecords, 3, 300, 4000);
  const std::vector<RowNumber> rows = Shuffled(*data, 21);
  Setup setup;
  setup.path = IoPath::kUring;
  setup.engines.uring = [](const IoOptions& io, std::byte* arena, std::size_t bytes,
                           std::unique_ptr<ReadEngine>* engine) {
    const Status status = MakeUringEngine(io, arena, bytes, engine);
    if (status.ok()) *engine = MakeFaultEngine(std::move(*engine), 5, {.failure = 0.5});
    return status;
  };
  setup.on_damage = OnDamage::kSkip;
  const Brought skipped = Bring(data, rows, setup);
  ASSERT_EQ(skipped.rows, rows);
  std::size_t lost = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!skipped.ids[i]) {
      ++lost;
    } else {
      ASSERT_EQ(*skipped.ids[i], rows[i]);
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(skipped.damage.size(), lost);
  setup.on_damage = OnDamage::kFail;
  const Brought failed = Bring(data, rows, setup);
  EXPECT_EQ(failed.status.code(), StatusCode::kIoError);
  EXPECT_EQ(failed.ids,
            IdsOf({rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(failed.ids.size())}));
}

TEST_F(IndexedLaneTest, ABlockTellsWhichOfItsRowsStandInAFileThatShrank) {
  const auto data = MakeData(PlannedFormat::kRows, 2, 500, 100);
  Block block;
  for (std::size_t i = 0; i < 2; ++i) {
    OpenInputResult opened =
        OpenInput(data->file(i).name, {.path = IoPath::kMmap}, {.may_map = true});
    ASSERT_TRUE(opened.status.ok());
    block.files.push_back(std::move(opened.file));
  }
  const RowNumber other = data->FirstRow(1) + 499;
  for (const RowNumber row : {RowNumber{499}, other, RowNumber{0}}) {
    const std::size_t file = FileOfRow(*data, row);
    block.frame.records.push_back(
        {block.files[file]->mapping().data() + data->OffsetOf(row), data->SizeOf(row)});
  }
  block.frame.records.emplace_back();
  EXPECT_FALSE(block.shrunk());
  ASSERT_EQ(truncate(data->file(1).name.c_str(), 0), 0);
  EXPECT_FALSE(IdOfPayload(block.frame.records[1].bytes()) == other);
  EXPECT_TRUE(block.shrunk());
  EXPECT_FALSE(block.ShrunkAt(0));
  EXPECT_TRUE(block.ShrunkAt(1));
  EXPECT_FALSE(block.ShrunkAt(2));
  EXPECT_FALSE(block.ShrunkAt(3));
}

TEST_F(IndexedLaneTest, ManyFilesMayBeReadWithFewOpen) {
  auto data = std::make_shared<PlannedData>(PlannedFormat::kRecords);
  for (int i = 0; i < 60; ++i) {
    data->AddFile(File("many" + std::to_string(i)), std::vector<std::size_t>(20, 64));
  }
  OpenedFiles files(data, {.path = IoPath::kPread}, {}, {}, 5);
  std::vector<std::weak_ptr<InputFile>> seen;
  for (std::size_t i = 0; i < data->files(); ++i) {
    Status status;
    seen.push_back(files.Get(i, &status));
    ASSERT_TRUE(status.ok());
    EXPECT_LE(std::count_if(seen.begin(), seen.end(), [](auto& w) { return !w.expired(); }), 5);
    EXPECT_FALSE(seen.back().expired());
  }
  Status status;
  const auto kept = files.Get(57, &status);  // used again: it is not the next to go
  EXPECT_EQ(kept, seen[57].lock());
  EXPECT_EQ(files.FileOf(0), 0u);
  EXPECT_EQ(files.FileOf(19), 0u);
  EXPECT_EQ(files.FileOf(20), 1u);
  EXPECT_EQ(files.FileOf(1199), 59u);
}

}  // namespace
}  // namespace ringfeed
