// The pieces of programs in the documents run, each on a little data of its own.

#include "tests/examples/page_pieces.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>
#include <vector>

#include "ringfeed/tuning.h"
#include "tests/support/pattern_file.h"

using namespace ringfeed;

// What README's program asks for.
void TrainStep(DeviceStream stream, const Tensor& images) {
  EXPECT_TRUE(stream);
  EXPECT_EQ(images.shape, Shape({2}));
  ++train_steps;
}

namespace {

using BytesMaker = std::function<std::span<const std::byte>()>;

void WriteRecords(const std::string& path, const std::string& format, int count,
                  const BytesMaker& make) {
  const RecordWriterResult opened = OpenRecordWriter(path, format);
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  for (int record = 0; record < count; ++record) ASSERT_TRUE(opened.writer->Write(make()).ok());
  ASSERT_TRUE(opened.writer->Close().ok());
}

void WriteExamples(const std::string& path, int count) {
  ExampleBuilder builder;
  WriteRecords(path, "tfrecord", count, [&] {
    const std::int64_t label = 7;
    return builder.AddInts("label", std::span(&label, 1)).Finish();
  });
}

std::shared_ptr<const Parser> LabelParser() { return ExampleParser({{"label", kInt64, {}}}); }

/// A folder of its own, which is the current one.
class PagePiecesTest : public ::testing::Test {
 protected:
  PagePiecesTest() {
    std::filesystem::current_path(folder_.path());
    train_steps = 0;
  }
  ~PagePiecesTest() override { std::filesystem::current_path(before_); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  const TempDir folder_;
};

TEST_F(PagePiecesTest, AFeedOfTwoDevicesAsksForCudaIfItIsNotLinked) {
  WriteExamples("a.tfrecord", 4);
  const Reader batches = Batch(Parse(OpenFiles({"a.tfrecord"}), LabelParser()), {.size = 2});
  try {
    Train(batches, "cuda");
    FAIL() << "the feed has devices";
  } catch (const Error& error) {
    EXPECT_NE(error.status().message().find("UseCuda"), std::string::npos)
        << error.status().ToString();
  }
}

TEST_F(PagePiecesTest, AFeedOfTwoEmulatedDevicesTrainsOnEachBatch) {
  WriteExamples("a.tfrecord", 10);
  Train(Batch(Parse(OpenFiles({"a.tfrecord"}), LabelParser()), {.size = 2}), "emu:2");
  EXPECT_EQ(train_steps, 5);
}

TEST_F(PagePiecesTest, ARanksLoopTrainsOnEachBatch) {
  WriteExamples("a.tfrecord", 600);
  TrainFrom(OpenFiles({"a.tfrecord"}), LabelParser(), "", {});
  EXPECT_EQ(train_steps, 3);
}

TEST_F(PagePiecesTest, TheProgramTrainsForTenPasses) {
  std::ofstream("line.program") << kProgramOfThePage;
  LoDTensorBuilder builder;
  WriteRecords("train-0.recordio", "recordio", 40, [&] {
    builder.Add(MakeTensor({1, 13}, std::vector<float>(13)));
    return builder.Add(MakeTensor({1, 1}, std::vector<float>(1))).Finish();
  });
  RunProgram();
  EXPECT_EQ(train_steps, 20);
}

TEST_F(PagePiecesTest, TheRegisteredReaderIsMadeByItsName) {
  WriteExamples("a.tfrecord", 4);
  RegisterWindowReader();
  const Attributes attributes = {{"window", std::int64_t{8}}};
  Reader reader = CreateReader("create_window_reader", attributes, {OpenFiles({"a.tfrecord"})});
  int count = 0;
  while (reader.HasNext()) reader.ReadNext(), ++count;
  EXPECT_EQ(count, 4);
}

TEST_F(PagePiecesTest, PackedRowsAreSharedByRanksOfParallelGroups) {
  WriteExamples("train-0.tfrecord", 4);
  const std::vector<std::pair<const char*, const char*>> launched = {
      {"RANK", "17"}, {"WORLD_SIZE", "32"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "8"}};
  for (const auto& [name, value] : launched) setenv(name, value, 1);
  EXPECT_NO_THROW(PackOnRanks());
  for (const auto& [name, value] : launched) unsetenv(name);
}

TEST_F(PagePiecesTest, ATuningOfThisMachineIsTaken) {
  WriteExamples("a.tfrecord", 4);
  Tuning tuning;
  tuning.machine = ThisMachine();
  tuning.format = "tfrecord";
  std::ofstream("ringfeed.tuned.json") << TuningText(tuning);
  EXPECT_NO_THROW(OpenTuned({"a.tfrecord"}));
}

}  // namespace
