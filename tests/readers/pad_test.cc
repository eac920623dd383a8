#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// Batches in which every place has its row, and a mask that says which of them are there.
class PadTest : public PipelineTest {
 protected:
  OpenOptions Skipping() const {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    options.threads = 3;
    return options;
  }
  static Reader Shuffled(Reader reader, int order) {
    if (order == 1) return Shuffle(std::move(reader), {.window = 100, .seed = 4});
    if (order == 2) return Shuffle(std::move(reader), {.block = 64, .seed = 4});
    return reader;
  }
  static std::uint64_t IdAt(const Tensor& column, std::size_t row) {
    std::uint64_t id = 0;
    std::memcpy(&id, column.data + row * column.bytes / static_cast<std::size_t>(column.shape[0]),
                sizeof(id));
    return id;
  }
};

TEST_F(PadTest, RowsThatFailWhileTheyAreWrittenAndShortRestsAreZeros) {
  constexpr std::size_t kRecords = 700;
  std::mt19937 random(3);
  std::vector<std::size_t> sizes(kRecords, 24);
  for (std::size_t& size : sizes) size = random() % 9 == 0 ? 25 : 24;
  for (std::size_t i = 300; i < 340; ++i) sizes[i] = 25;
  const std::vector<std::string> files = {MakeFile(sizes)};
  const auto parser = RowsParser({{"id", kUInt64, {}}, {"rest", kUInt8, {16}}});
  for (const int order : {0, 1, 2}) {
    for (const std::size_t size : {1u, 10u, 64u, 5000u}) {
      const std::vector<std::uint64_t> ids =
          Drain(Shuffled(OpenFiles(files, Options()), order)).ids;
      ASSERT_EQ(ids.size(), kRecords);
      Reader reader = Batch(Parse(Shuffled(OpenFiles(files, Skipping()), order), parser),
                            {.size = size, .pad = true});
      Instance batch;
      std::size_t first = 0;
      for (; reader.TryReadNext(&batch) == ReadResult::kRecord; first += size) {
        ASSERT_EQ(batch.size(), 3u);
        for (std::size_t row = 0; row < size; ++row) {
          const std::size_t at = first + row;
          const bool there = at < kRecords && sizes[ids[at]] == 24;
          ASSERT_EQ(batch[2].data[row], static_cast<std::byte>(there)) << at;
          ASSERT_EQ(IdAt(batch[0], row), there ? ids[at] : 0);
          const std::byte* const rest = batch[1].data + 16 * row;
          ASSERT_TRUE(there ||
                      std::all_of(rest, rest + 16, [](std::byte b) { return b == std::byte{}; }));
        }
      }
      EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
      EXPECT_EQ(first, (kRecords + size - 1) / size * size);
    }
  }
}

TEST_F(PadTest, RaggedRowsThatAreMissingHaveNoValues) {
  constexpr std::int64_t kRecords = 500;
  std::mt19937 random(5);
  std::set<std::int64_t> gone;
  while (gone.size() < 120) gone.insert(static_cast<std::int64_t>(random() % kRecords));
  std::vector<std::byte> whole;
  std::vector<std::byte> bytes;
  ExampleBuilder builder;
  for (std::int64_t i = 0; i < kRecords; ++i) {
    builder.AddInts("id", std::vector<std::int64_t>{i + 1});
    const auto record =
        builder.AddBytes("text", std::string(static_cast<std::size_t>(i % 30), 'x')).Finish();
    const std::vector<std::byte> good(record.begin(), record.end());
    AppendTfRecord(good, &whole);
    AppendTfRecord(gone.contains(i) ? std::vector<std::byte>(20, std::byte{0xFF}) : good, &bytes);
  }
  const std::string intact = directory_.File("intact.tfrecord");
  const std::string damaged = directory_.File("damaged.tfrecord");
  WriteBytes(intact, whole);
  WriteBytes(damaged, bytes);
  const auto parser = ExampleParser({{"id", kInt64, {}}, {"text", kUInt8, {-1}}});
  for (const int order : {0, 1, 2}) {
    Reader plain =
        Batch(Parse(Shuffled(OpenFiles({intact}, Options()), order), parser), {.size = kRecords});
    const Instance all = plain.ReadNext();
    const auto ids = all[0].Values<std::int64_t>();
    Reader reader = Batch(Parse(Shuffled(OpenFiles({damaged}, Skipping()), order), parser),
                          {.size = 16, .pad = true});
    Instance batch;
    std::size_t first = 0;
    for (; reader.TryReadNext(&batch) == ReadResult::kRecord; first += 16) {
      ASSERT_EQ(batch[1].lod[0].size(), 17u);
      for (std::size_t row = 0; row < 16; ++row) {
        const std::size_t at = first + row;
        const bool there = at < ids.size() && !gone.contains(ids[at] - 1);
        ASSERT_EQ(batch[2].data[row], static_cast<std::byte>(there));
        ASSERT_EQ(batch[0].Values<std::int64_t>()[row], there ? ids[at] : 0);
        ASSERT_EQ(batch[1].lod[0][row + 1] - batch[1].lod[0][row], there ? (ids[at] - 1) % 30 : 0);
      }
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    EXPECT_EQ(first, 512u);
  }
}

TEST_F(PadTest, AFieldThatIsNamedMaskIsRefusedAtSetUp) {
  const auto files = MakeFiles(1, 10, 16, 16);
  const auto padded = [&](const char* name) {
    return Batch(Parse(OpenFiles(files, Options()), RowsParser({{name, kUInt8, {16}}})),
                 {.size = 4, .pad = true});
  };
  EXPECT_THROW((void)padded("mask").ReadNext(), Error);
  Reader reader = padded("row");
  const std::vector<SlotSpec> slots = reader.slots();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[1].name, "mask");
  EXPECT_EQ(slots[1].dtype, kUInt8);
  EXPECT_EQ(slots[1].dims, (Shape{-1}));
  std::size_t rows = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) rows += batch[1].bytes;
  EXPECT_EQ(rows, 12u);
}

}  // namespace
}  // namespace ringfeed
