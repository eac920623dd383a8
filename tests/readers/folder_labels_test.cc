#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class FolderLabelsTest : public PipelineTest {
 protected:
  std::string Make(const std::string& name, const std::string& content) const {
    const std::string path = directory_.File(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::vector<std::int64_t> LabelsOf(const Tensor& tensor) {
    const auto values = tensor.Values<std::int64_t>();
    return {values.begin(), values.end()};
  }
};

TEST_F(FolderLabelsTest, FoldersAreLabelsOfTheirFiles) {
  std::vector<std::string> files;
  for (const char* name : {"dog/1.jpg", "cat/2.jpg", "ant/3.jpg", "cat/4.jpg"}) {
    files.push_back(Make(name, name));
  }
  const std::vector<std::string> folders = FindFolders(files);
  EXPECT_EQ(folders, (std::vector<std::string>{"ant", "cat", "dog"}));
  OpenOptions options = Options();
  options.format = "raw";
  options.cycle = 1;
  Reader reader =
      Batch(Parse(OpenFiles(files, options), FolderLabelParser(RawParser(), folders, "kind")),
            {.size = 4});
  const Instance batch = reader.ReadNext();
  EXPECT_EQ(LabelsOf(batch["kind"]), (std::vector<std::int64_t>{2, 1, 0, 1}));
  EXPECT_EQ(batch["bytes"].bytes, 4 * std::string("dog/1.jpg").size());
}

TEST_F(FolderLabelsTest, AFileInAnotherFolderIsAFailureOfItsRecord) {
  const std::vector<std::string> files = {Make("cat/1.jpg", "a"), Make("dog/2.jpg", "b"),
                                          Make("cat/3.jpg", "c")};
  OpenOptions options = Options();
  options.format = "raw";
  options.cycle = 1;
  const auto open = [&] {
    return Batch(Parse(OpenFiles(files, options), FolderLabelParser(RawParser(), {"cat"})),
                 {.size = 4});
  };
  Reader reader = open();
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
  EXPECT_EQ(batch.Rows(), 1) << "what stands before it";
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_NE(reader.status().message().find("\"dog\" is none of"), std::string::npos);
  EXPECT_EQ(reader.status().place().file, files[1]);
  options.on_damage = OnDamage::kSkip;
  Reader skipping = open();
  ASSERT_EQ(skipping.TryReadNext(&batch), ReadResult::kRecord);
  EXPECT_EQ(batch.Rows(), 2);
}

TEST_F(FolderLabelsTest, AFileWithoutAFolderHasNoLabel) {
  EXPECT_THROW(FindFolders({"1.jpg"}), Error);
  EXPECT_THROW(FindFolders({"../1.jpg"}), Error);
  EXPECT_THROW(FolderLabelParser(RawParser(), {"cat"}, "bytes"), Error);
}

}  // namespace
}  // namespace ringfeed
