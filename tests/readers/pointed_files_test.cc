// Compressed files with seek points, against the same files as they are.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "readers/index/compressed_file.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

using Kind = CompressedForm::Kind;

class PointedFilesTest : public PipelineTest {
 protected:
  static constexpr const char* kEndings[] = {".gz", ".zlib", ".zst"};

  /// Compresses the files, each in another form, of as many members that each has several points.
  std::vector<std::string> Compressed(const std::vector<std::string>& files) const {
    std::vector<std::string> compressed;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string text = ReadBytes(files[i]);
      const auto kind = static_cast<Kind>(i % 3);
      compressed.push_back(files[i] + kEndings[i % 3]);
      WriteBytes(compressed.back(), Compress(std::as_bytes(std::span(text)), {kind, 5, 9000}));
    }
    return compressed;
  }
  static MadePoints Point(const std::string& name, const std::string& folder = {}) {
    const ExaminedFile file = ExamineFile(name, nullptr, "", 1 << 20);
    EXPECT_NE(file.compression, Compression::kNone);
    IndexOptions options;
    options.folder = folder;
    return MakePoints({file.name, nullptr, file.bytes, file.format, file.compression}, options);
  }
  static void PointAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const MadePoints made = Point(name);
      ASSERT_TRUE(made.status.ok()) << made.status.ToString();
    }
  }
  std::vector<std::string> SomeFiles() {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < 4; ++i) files.push_back(MakeFiles(1, 900, 100, 900).front());
    return files;
  }
};

constexpr ShuffleOptions kOrders[] = {
    {.mode = ShuffleMode::kNone},
    {.window = 100, .seed = 2},
    {.window = 50, .seed = 3, .mode = ShuffleMode::kStripes},
    {.seed = 4, .mode = ShuffleMode::kGlobal},
};

TEST_F(PointedFilesTest, EveryOrderIsThatOfTheFilesAsTheyAre) {
  const std::vector<std::string> files = SomeFiles();
  const std::vector<std::string> compressed = Compressed(files);
  PointAll(compressed);
  for (const ShuffleOptions& order : kOrders) {
    const auto chain = [&](const std::vector<std::string>& names) {
      return Batches(MultiPass(Shuffle(OpenFiles(names, Options()), order), 2), 30);
    };
    const Drained plain = Drain(chain(files));
    ASSERT_TRUE(plain.status.ok()) << plain.status.ToString();
    ASSERT_EQ(plain.ids.size(), 2 * records_made());
    const Drained pointed = Drain(chain(compressed));
    EXPECT_TRUE(pointed.status.ok()) << pointed.status.ToString();
    EXPECT_EQ(pointed, plain);
  }
}

TEST_F(PointedFilesTest, RanksOfAGlobalOrderShareTheRecords) {
  const std::vector<std::string> compressed = Compressed(SomeFiles());
  PointAll(compressed);
  std::vector<std::uint64_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    const Drained part =
        Drain(Batch(Parse(Shuffle(OpenFiles(compressed, Options()), {.mode = ShuffleMode::kGlobal}),
                          RawParser()),
                    {.size = 12, .rank = {rank, 3}}));
    EXPECT_TRUE(part.status.ok()) << part.status.ToString();
    all.insert(all.end(), part.ids.begin(), part.ids.end());
  }
  EXPECT_EQ(Sorted(all), Numbers(records_made()));
}

TEST_F(PointedFilesTest, APositionHoldsWhetherTheFilesHavePointsOrNot) {
  const std::vector<std::string> compressed = Compressed(SomeFiles());
  const auto chain = [&] {
    return Batches(Shuffle(OpenFiles(compressed, Options()), {.window = 60, .seed = 1}), 20);
  };
  const Drained all = Drain(chain());
  Reader before = chain();
  Instance batch;
  for (int i = 0; i < 40; ++i) ASSERT_EQ(before.TryReadNext(&batch), ReadResult::kRecord);
  const std::string position = before.Position();
  PointAll(compressed);
  Reader after = chain();
  after.Restore(position);
  const Drained rest = Drain(std::move(after));
  EXPECT_TRUE(rest.status.ok()) << rest.status.ToString();
  EXPECT_EQ(rest.ids, std::vector<std::uint64_t>(all.ids.begin() + 40 * 20, all.ids.end()));
}

TEST_F(PointedFilesTest, WithoutPointsAnOrderByNumberIsRefusedWithTheCommandThatMakesThem) {
  const std::vector<std::string> compressed = Compressed(SomeFiles());
  try {
    Drain(Batches(Shuffle(OpenFiles(compressed, Options()), {.mode = ShuffleMode::kGlobal}), 10));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ringfeed index"), std::string::npos) << error.what();
  }
}

TEST_F(PointedFilesTest, PointsOfAnotherStateOfTheFileAreNotUsed) {
  const std::vector<std::string> files = SomeFiles();
  const std::vector<std::string> compressed = Compressed(files);
  PointAll(compressed);
  std::filesystem::copy_file(compressed[3], compressed[0],
                             std::filesystem::copy_options::overwrite_existing);
  const auto chain = [&](ShuffleMode mode) {
    return Batches(Shuffle(OpenFiles(compressed, Options()), {.mode = mode}), 10);
  };
  const Drained in_order = Drain(chain(ShuffleMode::kNone));
  EXPECT_TRUE(in_order.status.ok()) << in_order.status.ToString();
  EXPECT_EQ(in_order.ids.size(), records_made());
  EXPECT_THROW(Drain(chain(ShuffleMode::kGlobal)), Error);
}

TEST_F(PointedFilesTest, PointsAreKeptInTheFolderOfIndexes) {
  const std::vector<std::string> compressed = Compressed({MakeFiles(1, 900, 100, 900).front()});
  const TempDir folder;
  const MadePoints made = Point(compressed[0], folder.path());
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_TRUE(made.path.starts_with(folder.path())) << made.path;
  OpenOptions options = Options();
  options.index_folder = folder.path();
  const Drained drained =
      Drain(Batches(Shuffle(OpenFiles(compressed, options), {.mode = ShuffleMode::kGlobal}), 10));
  EXPECT_TRUE(drained.status.ok()) << drained.status.ToString();
  EXPECT_EQ(Sorted(drained.ids), Numbers(records_made()));
}

// The content of both files has as many bytes.
TEST_F(PointedFilesTest, LengthsOfAFileThatWasWrittenAnewAreMeasuredAnew) {
  const auto write = [&](const std::string& name, std::size_t one, std::size_t other) {
    std::string lines;
    for (int i = 0; i < 200; ++i) lines += std::string(i % 2 == 0 ? one : other, 'x') + "\n";
    const std::string path = directory_.File(name);
    WriteBytes(path, Compress(std::as_bytes(std::span(lines)), {}));
    PointAll({path});
    return path;
  };
  const auto steps = [&](const std::string& path) {
    PackOptions options;
    options.field = "bytes";
    options.length = 32;
    options.rows = 4;
    options.fit = PackFit::kBest;
    options.steps = StepOptions{};
    Reader reader = Pack(Parse(OpenFiles({path}, Options()), RawParser()), options);
    std::vector<std::vector<std::byte>> all;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const Tensor& segments = *batch.Find("bytes_segments");
      all.emplace_back(segments.data, segments.data + segments.bytes);
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return all;
  };
  const auto even = steps(write("a.txt.gz", 10, 10));
  const auto uneven = steps(write("b.txt.gz", 4, 16));
  ASSERT_NE(even, uneven);
  EXPECT_EQ(steps(write("a.txt.gz", 4, 16)), uneven);
}

TEST_F(PointedFilesTest, PointsBesideTheFileServeReadersWithAFolderOfIndexes) {
  const std::vector<std::string> compressed = Compressed({MakeFiles(1, 300, 100, 900).front()});
  PointAll(compressed);
  const TempDir folder;
  OpenOptions options = Options();
  options.index_folder = folder.path();
  EXPECT_EQ(OpenFiles(compressed, options).FileRecords().front(), records_made());
}

TEST_F(PointedFilesTest, AnEmptyFileTakesItsTurnWithPointsAndWithout) {
  std::vector<std::string> files = SomeFiles();
  files.insert(files.begin() + 1, MakeFile({}));
  const std::vector<std::string> compressed = Compressed(files);
  OpenOptions options = Options();
  options.cycle = 2;
  options.stripe_bytes = 4096;
  const auto chain = [&](ShuffleMode mode) {
    return Batches(Shuffle(OpenFiles(compressed, options), {.mode = mode}), 10);
  };
  const Drained before = Drain(chain(ShuffleMode::kNone));
  PointAll(compressed);
  EXPECT_EQ(Drain(chain(ShuffleMode::kNone)), before);
  for (const ShuffleMode mode : {ShuffleMode::kStripes, ShuffleMode::kGlobal}) {
    const Drained shuffled = Drain(chain(mode));
    EXPECT_TRUE(shuffled.status.ok()) << shuffled.status.ToString();
    EXPECT_EQ(Sorted(shuffled.ids), Numbers(records_made()));
  }
}

TEST_F(PointedFilesTest, DamageCostsTheRecordsOfItsSpanUnderSkip) {
  const std::vector<std::string> compressed = Compressed({MakeFiles(1, 4000, 300, 900).front()});
  PointAll(compressed);
  const auto chain = [&](OnDamage on_damage) {
    OpenOptions options = Options();
    options.on_damage = on_damage;
    return Batches(Shuffle(OpenFiles(compressed, options), {.mode = ShuffleMode::kGlobal}), 10);
  };
  ASSERT_EQ(Drain(chain(OnDamage::kFail)).ids.size(), records_made());
  Reader skipping = chain(OnDamage::kSkip);
  Reader failing = chain(OnDamage::kFail);
  ASSERT_EQ(skipping.FileRecords().front(), records_made());
  ASSERT_EQ(failing.FileRecords().front(), records_made());
  // A medium that flips a bit leaves the file's times alone.
  const auto written = std::filesystem::last_write_time(compressed[0]);
  std::string bytes = ReadBytes(compressed[0]);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 16);
  std::ofstream(compressed[0], std::ios::in | std::ios::out | std::ios::binary) << bytes;
  std::filesystem::last_write_time(compressed[0], written);

  const Drained left = Drain(std::move(skipping));
  EXPECT_TRUE(left.status.ok()) << left.status.ToString();
  EXPECT_EQ(left.strange, 0U);
  EXPECT_LT(left.ids.size(), records_made());
  EXPECT_GT(left.ids.size(), records_made() / 2);
  const Drained failed = Drain(std::move(failing));
  EXPECT_EQ(failed.status.code(), StatusCode::kDamaged) << failed.status.ToString();
  EXPECT_NE(failed.status.message().find("gzip"), std::string::npos) << failed.status.ToString();
  EXPECT_EQ(Point(compressed[0]).status.code(), StatusCode::kDamaged);
}

}  // namespace
}  // namespace ringfeed
