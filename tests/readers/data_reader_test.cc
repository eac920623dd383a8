#include "ringfeed/compat/data_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/dataset.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class NumberDataset final : public RandomAccessDataset {
 public:
  explicit NumberDataset(std::uint64_t size) : size_(size) {}
  std::uint64_t Size() const override { return size_; }
  void At(std::uint64_t index, std::string* sample) override { *sample = std::to_string(index); }

 private:
  const std::uint64_t size_;
};

class NumberParser final : public SampleParser {
 public:
  std::vector<FieldSpec> fields() const override { return {{"number", kInt64, {}}}; }
  void Parse(std::string_view sample, RowWriter& row) const override {
    std::int64_t number = 0;
    std::from_chars(sample.data(), sample.data() + sample.size(), number);
    if (number == 77) throw std::runtime_error("77 is not liked");
    std::memcpy(row.Fixed(0).data(), &number, sizeof(number));
  }
};

class DataReaderTest : public PipelineTest {
 protected:
  Reader Loader(std::uint64_t size) const {
    OpenOptions options;
    options.arena = arena_;
    options.threads = 3;
    return FromDataset(std::make_unique<NumberDataset>(size), options);
  }
};

TEST_F(DataReaderTest, SamplesAreParsedIntoBatchesInOrder) {
  DataReader reader(Loader(70), std::make_shared<NumberParser>(), {.batch_size = 32});
  std::vector<std::int64_t> numbers;
  std::vector<std::size_t> rows;
  Instance batch;
  while (reader.Read(&batch)) {
    const auto values = batch[0].Values<std::int64_t>();
    numbers.insert(numbers.end(), values.begin(), values.end());
    rows.push_back(values.size());
  }
  EXPECT_EQ(rows, (std::vector<std::size_t>{32, 32, 6}));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(numbers[i], static_cast<std::int64_t>(i));
  EXPECT_FALSE(reader.Read(&batch)) << "the end stays";
}

TEST_F(DataReaderTest, WhatParseThrowsIsThrownBehindTheGoodSamples) {
  DataReader reader(Loader(100), std::make_shared<NumberParser>(), {.batch_size = 50});
  Instance batch;
  ASSERT_TRUE(reader.Read(&batch));
  ASSERT_TRUE(reader.Read(&batch));
  EXPECT_EQ(batch[0].shape[0], 27);
  EXPECT_THROW(reader.Read(&batch), Error);
}

class ForgetfulParser final : public SampleParser {
 public:
  std::vector<FieldSpec> fields() const override { return {{"x", kInt64, {}}, {"y", kInt64, {}}}; }
  void Parse(std::string_view sample, RowWriter& row) const override {
    const auto size = static_cast<std::int64_t>(sample.size());
    std::memcpy(row.Fixed(0).data(), &size, sizeof(size));
    if (sample != "33") std::memcpy(row.Fixed(1).data(), &size, sizeof(size));
  }
};

TEST_F(DataReaderTest, AFieldThatParseDidNotWriteIsAnErrorByTheNameOfItsClass) {
  DataReader reader(Loader(100), std::make_shared<ForgetfulParser>(), {.batch_size = 30});
  Instance batch;
  ASSERT_TRUE(reader.Read(&batch));
  ASSERT_TRUE(reader.Read(&batch));
  EXPECT_EQ(batch.Rows(), 3);
  try {
    reader.Read(&batch);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kUserError);
    const std::string& message = error.status().message();
    EXPECT_NE(message.find("field \"y\" was not written by "), std::string::npos) << message;
    EXPECT_NE(message.find("ForgetfulParser::Parse"), std::string::npos) << message;
  }
}

// Writes its first field, and then does what it should not.
class WrongParser final : public SampleParser {
 public:
  explicit WrongParser(std::function<void(RowWriter& row)> wrong) : wrong_(std::move(wrong)) {}
  std::vector<FieldSpec> fields() const override {
    return {{"x", kInt64, {}}, {"words", kInt64, {-1}}};
  }
  void Parse(std::string_view sample, RowWriter& row) const override {
    const auto size = static_cast<std::int64_t>(sample.size());
    std::memcpy(row.Fixed(0).data(), &size, sizeof(size));
    wrong_(row);
  }

 private:
  const std::function<void(RowWriter& row)> wrong_;
};

TEST_F(DataReaderTest, WhatParseDoesWrongIsAnErrorByTheNameOfItsClass) {
  const auto said = [&](std::function<void(RowWriter & row)> wrong) -> std::string {
    DataReader reader(Loader(10), std::make_shared<WrongParser>(std::move(wrong)),
                      {.batch_size = 5});
    Instance batch;
    try {
      reader.Read(&batch);
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kUserError);
      return error.status().message();
    }
    return "nothing was thrown";
  };
  const auto expect_said = [&](const std::string& words,
                               std::function<void(RowWriter & row)> wrong) {
    const std::string message = said(std::move(wrong));
    EXPECT_NE(message.find("WrongParser::Parse threw"), std::string::npos) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_EQ(message.find("Map"), std::string::npos) << message;
  };
  expect_said("no digits", [](RowWriter&) { throw std::runtime_error("no digits"); });
  expect_said("what is no std::exception", [](RowWriter&) { throw 1; });
  expect_said("there is no field 7: 2 are declared", [](RowWriter& row) { (void)row.Fixed(7); });
  expect_said("there is no field 2", [](RowWriter& row) { row.Ragged(2, {}); });
  expect_said("field 1 (\"words\")", [](RowWriter& row) { (void)row.Fixed(1); });
  expect_said("field 0 (\"x\")", [](RowWriter& row) { row.Ragged(0, {}); });
  const std::byte odd[3] = {};
  expect_said("a multiple of 8 bytes, not 3", [&](RowWriter& row) { row.Ragged(1, odd); });
}

TEST_F(DataReaderTest, AsManyBatchesArePreparedAsPrefetchSays) {
  for (const std::size_t prefetch : {1u, 4u}) {
    DataReader reader(Loader(70), std::make_shared<NumberParser>(),
                      {.batch_size = 1, .prefetch = prefetch});
    std::vector<Instance> held(prefetch + 1);
    for (Instance& batch : held) ASSERT_TRUE(reader.Read(&batch));
    Instance another;
    EXPECT_THROW(reader.Read(&another), Error) << "this thread holds them all";
    held.clear();
    EXPECT_TRUE(reader.Read(&another));
  }
  EXPECT_THROW(DataReader(Loader(1), {.prefetch = 0}), Error);
}

class PairParser final : public SampleParser {
 public:
  std::vector<FieldSpec> fields() const override { return {{"pair", kFloat32, {2}}}; }
  void Parse(std::string_view sample, RowWriter& row) const override {
    const auto size = static_cast<float>(sample.size());
    const std::array<float, 2> pair{size, 2 * size};
    std::memcpy(row.Fixed(0).data(), pair.data(), sizeof(pair));
  }
};

TEST_F(DataReaderTest, ABatchHasAsManySamplesAsAskedForWhateverOneHolds) {
  DataReader reader(Loader(18), std::make_shared<PairParser>(), {.batch_size = 10});
  Instance batch;
  ASSERT_TRUE(reader.Read(&batch));
  EXPECT_EQ(batch[0].shape, (Shape{10, 2}));
  EXPECT_EQ(batch[0].Values<float>().size(), 20u);
  ASSERT_TRUE(reader.Read(&batch));
  EXPECT_EQ(batch[0].shape, (Shape{8, 2}));
  EXPECT_FALSE(reader.Read(&batch));
}

TEST_F(DataReaderTest, CloseEndsAReadThatFollows) {
  DataReader reader(Loader(70), {.batch_size = 10});
  Instance batch;
  EXPECT_TRUE(reader.Read(&batch));
  reader.Close();
  EXPECT_THROW(while (reader.Read(&batch)){}, Error);
}

TEST(MultiThreadLoopTest, EachIndexIsCalledOnceByTheThreadsAskedFor) {
  for (const std::size_t count : {0u, 1u, 2u, 7u, 1000u}) {
    for (const int threads : {0, 1, 3, 8}) {
      std::vector<std::atomic<int>> calls(count);
      MultiThreadLoop(
          count, [&](std::size_t i) { ++calls[i]; }, threads);
      for (const auto& each : calls) EXPECT_EQ(each.load(), 1);
    }
  }
  std::vector<std::thread::id> threads(4);
  MultiThreadLoop(
      4, [&](std::size_t i) { threads[i] = std::this_thread::get_id(); }, 4);
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 4u);
}

TEST(MultiThreadLoopTest, TheFirstRangesExceptionIsThrownOnceAllAreDone) {
  std::vector<std::atomic<int>> calls(9);
  const auto call = [&](std::size_t i) {
    ++calls[i];
    if (i == 4 || i == 6) throw std::out_of_range(std::to_string(i));
  };
  try {
    MultiThreadLoop(9, call, 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "4");
  }
  EXPECT_EQ(calls[5].load(), 0) << "of the range that threw";
  EXPECT_EQ(calls[2].load(), 1);
  EXPECT_THROW(MultiThreadLoop(1, call, -1), Error);
}

}  // namespace
}  // namespace ringfeed
