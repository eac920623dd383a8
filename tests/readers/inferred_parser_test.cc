#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class InferredParserTest : public PipelineTest {
 protected:
  std::string Make(const std::string& name, const std::string& content) const {
    const std::string path = directory_.File(name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  /// The first batch of what the files tell.
  Instance FirstBatch(const std::vector<std::string>& files) const {
    OpenOptions options = Options();
    const InferredParser inferred = InferParser(files, options);
    options.format = inferred.format;
    Reader reader = Batch(Parse(OpenFiles(files, options), inferred.parser), {.size = 3});
    Instance batch;
    EXPECT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord) << reader.status().ToString();
    return batch;
  }
  template <typename T>
  static std::vector<T> ValuesOf(const Tensor& tensor) {
    const auto values = tensor.Values<T>();
    return {values.begin(), values.end()};
  }
};

TEST_F(InferredParserTest, AHeaderGivesTheColumnsAndTheFormat) {
  const std::string file = Make("a.csv", "y,x\n1,0.5\n2,1\n3,2\n");
  const InferredParser inferred = InferParser({file}, Options());
  EXPECT_EQ(inferred.name, "csv");
  EXPECT_EQ(inferred.csv.header, "y,x");
  EXPECT_EQ(inferred.format, "csv:header=792c78");
  const Instance batch = FirstBatch({file});
  EXPECT_EQ(ValuesOf<std::int64_t>(batch["y"]), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(ValuesOf<double>(batch["x"]), (std::vector<double>{0.5, 1, 2}));
}

TEST_F(InferredParserTest, WhatSomeLinesLackIsNoNumber) {
  const Instance batch = FirstBatch({Make("a.jsonl", "{\"n\":1}\n{\"n\":null}\n{\"m\":2}\n")});
  const auto n = ValuesOf<double>(batch["n"]);
  EXPECT_EQ(n[0], 1);
  EXPECT_TRUE(std::isnan(n[1]) && std::isnan(n[2]));
}

TEST_F(InferredParserTest, FeaturesOfExamplesAreFields) {
  const std::string file = directory_.File("a.tfrecord");
  auto writer = OpenRecordWriter(file, "tfrecord");
  ASSERT_TRUE(writer.status.ok());
  for (std::int64_t n = 0; n < 3; ++n) {
    ExampleBuilder builder;
    const std::vector<std::int64_t> values = {n};
    builder.AddInts("n", values);
    ASSERT_TRUE(writer.writer->Write(builder.Finish()).ok());
  }
  ASSERT_TRUE(writer.writer->Close().ok());
  const Instance batch = FirstBatch({file});
  EXPECT_EQ(batch["n"].shape, (Shape{3}));
  EXPECT_EQ(ValuesOf<std::int64_t>(batch["n"]), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(InferredParserTest, WhatTellsNothingIsBytesAndSaysWhatWasLookedAt) {
  const InferredParser inferred = InferParser({Make("a.csv", "1,2\n")}, Options());
  EXPECT_EQ(inferred.name, "raw");
  EXPECT_NE(inferred.why.find("a.csv\" (csv): its first row is no header"), std::string::npos);
  EXPECT_TRUE(InferParser({Make("a.txt", "1\n")}, Options()).why.empty());
  EXPECT_THROW(InferParser({directory_.File("none.csv")}, Options()), Error);
}

}  // namespace
}  // namespace ringfeed
