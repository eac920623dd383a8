#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Lists = std::vector<std::vector<std::uint64_t>>;

/// Damaged records that are skipped: holes, which have a place in the order and in their batch.
class HoleTest : public PipelineTest {
 protected:
  static constexpr std::size_t kBytes = 100;
  static constexpr long kStride = kBytes + 16;

  /// `count` files of `records` records each, of which the numbers in `damaged` fail their
  /// checksum.
  std::vector<std::string> MakeDamaged(std::size_t count, std::size_t records,
                                       const std::set<std::uint64_t>& damaged) {
    const std::uint64_t first = records_made();
    const auto files = MakeFiles(count, records, kBytes, kBytes);
    for (const std::uint64_t number : damaged) Damage(files, records, number - first);
    return files;
  }
  /// Damages the record at that place of the files, or, the second time, repairs it.
  static void Damage(const std::vector<std::string>& files, std::size_t records, std::uint64_t at) {
    std::FILE* const file = std::fopen(files[at / records].c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    const long place = static_cast<long>(at % records) * kStride + 12 + 50;
    std::fseek(file, place, SEEK_SET);
    const int byte = std::fgetc(file);
    std::fseek(file, place, SEEK_SET);
    std::fputc(byte ^ 0x40, file);
    std::fclose(file);
  }

  OpenOptions Skipping() const {
    OpenOptions options = Options();
    options.cycle = 2;
    options.on_damage = OnDamage::kSkip;
    return options;
  }

  /// The batches, those without a row left out.
  static Lists BatchesOf(const Drained& drained) {
    Lists batches;
    auto at = drained.ids.begin();
    for (const std::size_t rows : drained.rows) {
      batches.emplace_back(at, at + static_cast<std::ptrdiff_t>(rows));
      at += static_cast<std::ptrdiff_t>(rows);
    }
    return batches;
  }

  /// What holes leave of the batches of an undamaged order.
  static Lists WithHoles(const Lists& whole, const std::set<std::uint64_t>& damaged) {
    Lists left;
    for (std::vector<std::uint64_t> batch : whole) {
      std::erase_if(batch, [&](std::uint64_t id) { return damaged.contains(id); });
      if (!batch.empty()) left.push_back(batch);
    }
    return left;
  }
};

TEST_F(HoleTest, BatchesAreCutByPlacesWhereverTheHolesAreAndInAnyOrder) {
  std::mt19937 random(7);
  constexpr std::size_t kFiles = 3;
  constexpr std::size_t kRecords = 400;
  const std::vector<std::function<Reader(Reader)>> orders = {
      [](Reader reader) { return reader; },
      [](Reader reader) { return Shuffle(std::move(reader), {.window = 150, .seed = 5}); },
      [](Reader reader) { return Shuffle(std::move(reader), {.block = 64, .seed = 6}); },
      [](Reader reader) {
        return Shuffle(Shuffle(std::move(reader), {.block = 30}), {.window = 70});
      },
      [](Reader reader) { return Shuffle(MultiPass(std::move(reader), 2), {.window = 900}); },
      [](Reader reader) { return MultiPass(Shuffle(std::move(reader), {.window = 9}), 3); },
  };
  for (int round = 0; round < 6; ++round) {
    const std::uint64_t first = records_made();
    std::set<std::uint64_t> damaged;
    const std::size_t share = std::vector<std::size_t>{1, 40, 600}[random() % 3];
    while (damaged.size() < share) damaged.insert(first + random() % (kFiles * kRecords));
    const auto intact = MakeFiles(kFiles, kRecords, kBytes, kBytes);
    // The same numbers again, some of them damaged.
    const std::uint64_t again = records_made() - first;
    std::set<std::uint64_t> moved;
    for (const std::uint64_t number : damaged) moved.insert(number + again);
    const auto holed = MakeDamaged(kFiles, kRecords, moved);
    for (const auto& order : orders) {
      const std::size_t size = std::vector<std::size_t>{1, 2, 7, 64, 5000}[random() % 5];
      const bool drop = random() % 2 == 0;
      Lists whole = BatchesOf(Drain(Batches(order(OpenFiles(intact, Skipping())), size, drop)));
      for (auto& batch : whole) {
        for (std::uint64_t& id : batch) id += again;
      }
      Reader reader = Batches(order(OpenFiles(holed, Skipping())), size, drop);
      const Drained found = Drain(reader);
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      ASSERT_EQ(BatchesOf(found), WithHoles(whole, moved)) << size << " " << share;
    }
  }
}

TEST_F(HoleTest, BatchesOfHolesAloneAreLeftOutAndTheOthersStayAsTheyAre) {
  std::set<std::uint64_t> damaged;
  for (std::uint64_t number = 8; number < 31; ++number) damaged.insert(number);
  const auto files = MakeDamaged(1, 40, damaged);
  const Lists wanted = {{0, 1, 2, 3}, {4, 5, 6, 7}, {31}, {32, 33, 34, 35}, {36, 37, 38, 39}};
  EXPECT_EQ(BatchesOf(Drain(Batches(OpenFiles(files, Skipping()), 4))), wanted);
}

TEST_F(HoleTest, DataOfHolesAloneEndWithoutABatch) {
  std::set<std::uint64_t> damaged;
  for (std::uint64_t number = 0; number < 40; ++number) damaged.insert(number);
  const auto files = MakeDamaged(1, 40, damaged);
  for (const std::size_t window : {1u, 10u, 1000u}) {
    Reader reader = Batches(Shuffle(OpenFiles(files, Skipping()), {.window = window}), 4);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_TRUE(found.rows.empty());
    EXPECT_EQ(reader.Stats().damaged_records, 40u);
  }
}

TEST_F(HoleTest, RecordsAndRowsOneByOneAreThoseThatAreLeft) {
  std::mt19937 random(11);
  std::set<std::uint64_t> damaged;
  while (damaged.size() < 200) damaged.insert(random() % 1200);
  const auto files = MakeDamaged(3, 400, damaged);
  std::vector<std::uint64_t> wanted = Numbers(1200);
  std::erase_if(wanted, [&](std::uint64_t id) { return damaged.contains(id); });
  for (const bool parsed : {false, true}) {
    for (const bool shuffled : {false, true}) {
      Reader reader = OpenFiles(files, Skipping());
      if (shuffled) reader = Shuffle(reader, {.window = 100});
      if (parsed) reader = Parse(reader, RawParser());
      const Drained found = Drain(reader);
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      EXPECT_EQ(found.strange, 0u);
      EXPECT_EQ(Sorted(found.ids), wanted);
    }
  }
  EXPECT_EQ(Sorted(DrainBlocks(OpenFiles(files, Skipping())).ids), wanted);
  EXPECT_EQ(Sorted(DrainBlocks(Shuffle(OpenFiles(files, Skipping()), {.block = 99})).ids), wanted);
}

/// The places of a chain's records as blocks show them; damaged ones as kDamaged.
constexpr std::uint64_t kDamaged = ~std::uint64_t{0};
std::vector<std::uint64_t> PlacesOf(Reader reader) {
  std::vector<std::uint64_t> places;
  RecordBlock block;
  while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
    EXPECT_GT(block.size(), 0u);
    for (const RecordSpan& record : block.records()) {
      places.push_back(record.damaged() ? kDamaged
                                        : IdOfPayload(record.bytes()).value_or(kDamaged - 1));
    }
  }
  return places;
}

TEST_F(HoleTest, BlocksShowDamagedRecordsAtTheirPlacesInAnyOrder) {
  const std::set<std::uint64_t> damaged = {0, 1, 2, 77, 250, 398, 399};
  const auto files = MakeDamaged(2, 200, {});
  for (const ShuffleOptions& shuffle :
       {ShuffleOptions{.mode = ShuffleMode::kNone}, ShuffleOptions{.window = 60, .seed = 2},
        ShuffleOptions{.block = 50, .seed = 3},
        ShuffleOptions{.seed = 4, .mode = ShuffleMode::kGlobal}}) {
    const auto chain = [&] { return Shuffle(OpenFiles(files, Skipping()), shuffle); };
    std::vector<std::uint64_t> wanted = PlacesOf(chain());
    ASSERT_EQ(wanted.size(), 400u);
    for (const std::uint64_t number : damaged) Damage(files, 200, number);
    for (std::uint64_t& id : wanted) id = damaged.contains(id) ? kDamaged : id;
    EXPECT_EQ(PlacesOf(chain()), wanted);
    // Rows have none of them, and whether one more comes is known exactly.
    std::erase(wanted, kDamaged);
    Reader reader = chain();
    Drained rows;
    while (reader.HasNext()) {
      (void)reader.NextPass();
      AddInstance(reader.ReadNext(), &rows);
    }
    EXPECT_EQ(rows.ids, wanted);
    Instance row;
    EXPECT_EQ(reader.TryReadNext(&row), ReadResult::kEnd);
    for (const std::uint64_t number : damaged) Damage(files, 200, number);  // and back
  }
}

TEST_F(HoleTest, ASharedReaderHandsOnWhatIsNotDamaged) {
  const auto files = MakeDamaged(2, 200, {0, 199, 200, 201, 399});
  Reader shared = Share(OpenFiles(files, Skipping()));
  Reader one = Parse(shared, RawParser());
  EXPECT_EQ(Drain(one).ids.size(), 395u);
}

}  // namespace
}  // namespace ringfeed
