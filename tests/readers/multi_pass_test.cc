#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class MultiPassTest : public PipelineTest {};

TEST_F(MultiPassTest, ABoundaryIsSeenBeforeItsFirstInstance) {
  const std::vector<std::string> files = MakeFiles(3, 40, 8, 200);
  const std::vector<Reader> chains = {
      MultiPass(OpenFiles(files, Options()), 3),
      MultiPass(Parse(OpenFiles(files, Options()), RawParser()), 3),
      MultiPass(Shuffle(OpenFiles(files, Options()), {.window = 16}), 3),
      MultiPass(Shuffle(Parse(OpenFiles(files, Options()), RawParser()), {.block = 16}), 3)};
  for (Reader reader : chains) {
    for (int round = 0; round < 2; ++round) {
      for (std::uint64_t row = 0; row < 360; ++row) {
        ASSERT_EQ(reader.NextPass(), row / 120) << row;
        ASSERT_TRUE(reader.HasNext());
        (void)reader.ReadNext();
      }
      EXPECT_EQ(reader.NextPass(), std::nullopt);
      EXPECT_FALSE(reader.HasNext());
      reader.ReInit();
    }
  }
}

TEST_F(MultiPassTest, BatchesBeginInThePassOfTheirFirstRow) {
  const std::vector<std::string> files = MakeFiles(2, 25, 8, 90);
  // Joined: 50 rows a pass in batches of 20 begin at rows 0, 20, 40, 60, 80.
  Reader joined = Batches(MultiPass(OpenFiles(files, Options()), 2), 20);
  std::vector<std::uint64_t> passes;
  while (const auto pass = joined.NextPass()) {
    passes.push_back(*pass);
    (void)joined.ReadNext();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 0, 1, 1}));
  Reader apart = MultiPass(Batches(OpenFiles(files, Options()), 20), 2);
  passes.clear();
  while (const auto pass = apart.NextPass()) {
    passes.push_back(*pass);
    (void)apart.ReadNext();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 0, 1, 1, 1}));
}

// What was scheduled of a file ends where it ended when it was first opened.
TEST_F(MultiPassTest, ALineOfALongerFileThatIsCutThereIsDamageNotALine) {
  const std::string file = directory_.File("lines.txt");
  const auto write = [&](const std::string& name, const std::string& line) {
    std::ofstream text(name, std::ios::binary);
    for (int i = 0; i < 20000; ++i) text << line;
  };
  write(file, "a line\n");
  OpenOptions options = Options();
  options.format = "lines";
  options.on_damage = OnDamage::kSkip;
  options.stripe_bytes = 4096;
  options.cycle = 1;
  Reader reader = Batch(Parse(MultiPass(OpenFiles({file}, options), 2), RawParser()),
                        {.size = 100, .slots = 3});
  Instance batch = reader.ReadNext();
  write(file + ".new", "one of a longer file\n");
  std::filesystem::rename(file + ".new", file);
  std::uint64_t lines = 0;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    const std::string rows(reinterpret_cast<const char*>(batch[0].data), batch[0].bytes);
    for (std::size_t at = 0; at < rows.size(); ++lines) {
      const std::size_t size = rows[at] == 'a' ? 6 : 20;
      ASSERT_EQ(rows.substr(at, size), size == 6 ? "a line" : "one of a longer file");
      at += size;
    }
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(lines, 19900 + 140000 / 21);
  EXPECT_EQ(reader.Stats().damaged_records, 1u);
}

TEST_F(MultiPassTest, AFailureIsNoPass) {
  OpenOptions options = Options();
  Reader reader = OpenFiles({directory_.File("missing.tfrecord")}, options);
  EXPECT_EQ(reader.NextPass(), std::nullopt);
  EXPECT_TRUE(reader.HasNext());
}

}  // namespace
}  // namespace ringfeed
