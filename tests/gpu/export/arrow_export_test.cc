#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/export/arrow_c.h"

namespace ringfeed {
namespace {

/// Both structures of an export; the test's releases, unless it gave them away.
struct Exported {
  ArrowSchema schema{};
  ArrowArray array{};

  Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() {
    if (schema.release != nullptr) schema.release(&schema);
    if (array.release != nullptr) array.release(&array);
  }
};

std::shared_ptr<const FieldNames> Names(std::vector<std::string> names) {
  return std::make_shared<FieldNames>(std::move(names));
}

Instance Batch(std::vector<Tensor> tensors, std::vector<std::string> names) {
  Instance batch(std::move(tensors));
  batch.set_names(Names(std::move(names)));
  return batch;
}

/// Elements from `begin` on as a text: "[[1 2] []]". What Arrow's specification says of each
/// format, written down once more.
template <typename T>
std::string Numbers(const ArrowArray& array, std::int64_t begin, std::int64_t count) {
  std::string text;
  const auto* values = static_cast<const T*>(array.buffers[1]);
  for (std::int64_t i = begin; i < begin + count; ++i) {
    text += (text.empty() ? "" : " ") + std::to_string(values[i]);
  }
  return text;
}

std::string Text(const ArrowSchema& schema, const ArrowArray& array, std::int64_t begin,
                 std::int64_t count) {
  const std::string format = schema.format;
  std::string text;
  const auto put = [&](const std::string& item) { text += (text.empty() ? "" : " ") + item; };
  if (format == "f") return Numbers<float>(array, begin, count);
  if (format == "C") return Numbers<std::uint8_t>(array, begin, count);
  if (format == "i") return Numbers<std::int32_t>(array, begin, count);
  if (format == "l") return Numbers<std::int64_t>(array, begin, count);
  for (std::int64_t i = begin; i < begin + count; ++i) {
    if (format == "b") {
      const auto* bits = static_cast<const std::uint8_t*>(array.buffers[1]);
      put((bits[i / 8] >> (i % 8) & 1) != 0 ? "yes" : "no");
    } else if (format == "Z") {
      const auto* offsets = static_cast<const std::int64_t*>(array.buffers[1]);
      const auto* data = static_cast<const char*>(array.buffers[2]);
      put("'" + std::string(data + offsets[i], data + offsets[i + 1]) + "'");
    } else if (format == "+L") {
      const auto* offsets = static_cast<const std::int64_t*>(array.buffers[1]);
      put("[" +
          Text(*schema.children[0], *array.children[0], offsets[i], offsets[i + 1] - offsets[i]) +
          "]");
    } else if (format.starts_with("+w:")) {
      const std::int64_t size = std::stoll(format.substr(3));
      put("[" + Text(*schema.children[0], *array.children[0], i * size, size) + "]");
    } else {
      throw std::runtime_error("format " + format);
    }
  }
  return text;
}

std::string Text(const Exported& exported) {
  return Text(exported.schema, exported.array, 0, exported.array.length);
}
std::string Text(const Exported& exported, int child) {
  const ArrowArray& column = *exported.array.children[child];
  return Text(*exported.schema.children[child], column, 0, column.length);
}

std::string FieldText(const Tensor& tensor) {
  Exported exported;
  const Status status = ExportArrow(tensor, &exported.schema, &exported.array);
  return status.ok() ? Text(exported) : status.message();
}

TEST(ArrowExportTest, EachFieldIsAColumnOfItsName) {
  const Instance batch = Batch({MakeTensor({3}, std::vector<std::int64_t>{7, 8, 9}),
                                MakeTensor({3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                                MakeRagged(std::vector<std::string>{"cat", "", "horse"})},
                               {"label", "point", "text"});
  Exported exported;
  ASSERT_TRUE(ExportArrow(batch, &exported.schema, &exported.array).ok());
  EXPECT_STREQ(exported.schema.format, "+s");
  ASSERT_EQ(exported.schema.n_children, 3);
  ASSERT_EQ(exported.array.n_children, 3);
  EXPECT_EQ(exported.array.length, 3);
  EXPECT_EQ(exported.array.n_buffers, 1);
  EXPECT_EQ(exported.array.buffers[0], nullptr);
  EXPECT_STREQ(exported.schema.children[0]->name, "label");
  EXPECT_STREQ(exported.schema.children[0]->format, "l");
  EXPECT_EQ(Text(exported, 0), "7 8 9");
  EXPECT_STREQ(exported.schema.children[1]->name, "point");
  EXPECT_STREQ(exported.schema.children[1]->format, "+w:2");
  EXPECT_STREQ(exported.schema.children[1]->children[0]->name, "item");
  EXPECT_EQ(exported.array.children[1]->n_buffers, 1);
  EXPECT_EQ(Text(exported, 1), "[1.000000 2.000000] [3.000000 4.000000] [5.000000 6.000000]");
  EXPECT_STREQ(exported.schema.children[2]->name, "text");
  EXPECT_STREQ(exported.schema.children[2]->format, "Z");
  EXPECT_EQ(exported.array.children[2]->n_buffers, 3);
  EXPECT_EQ(Text(exported, 2), "'cat' '' 'horse'");
}

TEST(ArrowExportTest, ValuesAndOffsetsAreTheTensorsOwn) {
  const Tensor tensor = MakeRagged(std::vector<float>{1, 2, 3}, {2, 0, 1});
  Exported exported;
  ASSERT_TRUE(ExportArrow(tensor, &exported.schema, &exported.array).ok());
  EXPECT_EQ(exported.array.buffers[1], tensor.lod[0].data());
  EXPECT_EQ(exported.array.children[0]->buffers[1], tensor.data);
}

TEST(ArrowExportTest, DimensionsAndLevelsBecomeNestedLists) {
  std::vector<std::int32_t> values(12);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(FieldText(MakeTensor({2, 3, 2}, values)), "[[0 1] [2 3] [4 5]] [[6 7] [8 9] [10 11]]");
  EXPECT_EQ(FieldText(MakeRagged(values, {1, 0, 2}, {2, 2})),
            "[[[0 1] [2 3]]] [] [[[4 5] [6 7]] [[8 9] [10 11]]]");
  EXPECT_EQ(FieldText(WithLoD(MakeTensor({6, 2}, values), {{0, 2, 2, 3}, {0, 1, 3, 6}})),
            "[[[0 1]] [[2 3] [4 5]]] [] [[[6 7] [8 9] [10 11]]]");
  EXPECT_EQ(FieldText(WithLoD(MakeBytes("abcd"), {{0, 1, 3}, {0, 2, 2, 4}})), "['ab'] ['' 'cd']");
}

TEST(ArrowExportTest, BoolsBecomeBits) {
  std::mt19937 random(3);
  for (std::size_t count = 0; count < 20; ++count) {
    std::vector<bool> values;
    std::string expected;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(random() % 2 == 1);
      expected += std::string(i == 0 ? "" : " ") + (values.back() ? "yes" : "no");
    }
    EXPECT_EQ(FieldText(MakeTensor(values)), expected);
  }
}

TEST(ArrowExportTest, EveryTypeHasItsFormatButBFloat16) {
  const std::vector<std::pair<DType, std::string>> formats = {
      {kBool, "b"},  {kUInt8, "C"},   {kInt8, "c"},    {kUInt16, "S"},
      {kInt16, "s"}, {kUInt32, "I"},  {kInt32, "i"},   {kUInt64, "L"},
      {kInt64, "l"}, {kFloat16, "e"}, {kFloat32, "f"}, {kFloat64, "g"}};
  static const std::byte bytes[8] = {};
  for (const auto& [dtype, format] : formats) {
    Exported exported;
    ASSERT_TRUE(ExportArrow(MakeTensorOver(dtype, {1}, bytes, 1, nullptr), &exported.schema,
                            &exported.array)
                    .ok());
    EXPECT_EQ(exported.schema.format, format);
    EXPECT_EQ(exported.schema.flags, 0);
    EXPECT_EQ(exported.array.null_count, 0);
  }
  const Tensor half = MakeTensorOver(kBFloat16, {1}, bytes, 1, nullptr);
  EXPECT_NE(FieldText(half).find("Arrow has no bfloat16"), std::string::npos);
}

TEST(ArrowExportTest, ABatchOfNoRowsHasItsColumns) {
  const Instance batch =
      Batch({MakeTensor({0, 4}, std::vector<float>{}), MakeRagged(std::vector<std::string>{})},
            {"point", "text"});
  Exported exported;
  ASSERT_TRUE(ExportArrow(batch, &exported.schema, &exported.array).ok());
  EXPECT_EQ(exported.array.length, 0);
  EXPECT_EQ(exported.array.children[0]->children[0]->length, 0);
  EXPECT_NE(exported.array.children[1]->buffers[2], nullptr);
}

TEST(ArrowExportTest, WhatHasNoColumnsIsRefusedAndNothingIsFilled) {
  Exported exported;
  const auto refused = [&](const Instance& batch) {
    const Status status = ExportArrow(batch, &exported.schema, &exported.array);
    EXPECT_EQ(exported.schema.release, nullptr);
    EXPECT_EQ(exported.array.release, nullptr);
    return status.message();
  };
  Instance record = Batch({MakeScalar(1)}, {"label"});
  record.set_is_record(true);
  EXPECT_NE(refused(record).find("put Batch behind"), std::string::npos);
  EXPECT_NE(refused(Batch({MakeScalar(1)}, {"label"})).find("\"label\" has no dimension of rows"),
            std::string::npos);
  const Tensor two = MakeTensor(std::vector<int>{1, 2});
  const Tensor three = MakeTensor(std::vector<int>{1, 2, 3});
  EXPECT_NE(
      refused(Batch({two, three}, {"a", "b"})).find("\"b\" has 3 rows on CPU, and the first one 2"),
      std::string::npos);
  Tensor device = two;
  device.place = {DeviceType::kCuda, 1};
  EXPECT_NE(refused(Batch({device}, {"a"})).find("ExportArrowDevice"), std::string::npos);
  EXPECT_NE(refused(Batch({two, device}, {"a", "b"})).find("2 rows on CUDA:1"), std::string::npos);
  Tensor torn = two;
  torn.bytes = 4;
  EXPECT_NE(refused(Batch({torn}, {"a"})), "");
}

TEST(ArrowExportTest, NamesAreNumbersIfThereAreNone) {
  const Tensor two = MakeTensor(std::vector<int>{1, 2});
  Exported pair;
  ASSERT_TRUE(ExportArrow(Instance{two, two}, &pair.schema, &pair.array).ok());
  EXPECT_STREQ(pair.schema.children[1]->name, "1");
  Exported alone;
  ASSERT_TRUE(ExportArrow(Instance{two}, &alone.schema, &alone.array).ok());
  EXPECT_STREQ(alone.schema.children[0]->name, "bytes");
}

/// A batch of a fixed and a ragged field whose owner's shares can be counted.
struct OwnedBatch {
  std::shared_ptr<std::vector<std::int32_t>> memory =
      std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{0, 1, 2, 3});
  std::vector<std::int64_t> offsets = {0, 1, 4};

  Instance Take() const {
    Tensor fixed = MakeTensorOver(kInt32, {2, 2}, memory->data(), 4, memory);
    Tensor ragged = MakeTensorOver(kInt32, {4}, memory->data(), 4, memory);
    ragged.lod = {offsets};
    return Batch({std::move(fixed), std::move(ragged)}, {"fixed", "ragged"});
  }
  bool is_free() const { return memory.use_count() == 1; }
};

TEST(ArrowExportTest, TheBatchIsHeldUntilReleaseFromAnyThread) {
  const OwnedBatch owned;
  ArrowSchema schema{};
  ArrowArray array{};
  ASSERT_TRUE(ExportArrow(owned.Take(), &schema, &array).ok());
  schema.release(&schema);
  EXPECT_EQ(schema.release, nullptr);
  EXPECT_FALSE(owned.is_free());
  ArrowArray moved = array;  // as consumers move: by its bytes
  array.release = nullptr;
  std::thread([&] { moved.release(&moved); }).join();
  EXPECT_EQ(moved.release, nullptr);
  EXPECT_TRUE(owned.is_free());
}

TEST(ArrowExportTest, AColumnThatWasMovedOutOutlivesItsBatch) {
  const OwnedBatch owned;
  Exported exported;
  ASSERT_TRUE(ExportArrow(owned.Take(), &exported.schema, &exported.array).ok());
  Exported column;
  column.array = std::exchange(*exported.array.children[1], {});
  column.schema = std::exchange(*exported.schema.children[1], {});
  exported.array.release(&exported.array);
  exported.schema.release(&exported.schema);
  EXPECT_FALSE(owned.is_free());
  EXPECT_EQ(Text(column), "[0] [1 2 3]");
  column.array.release(&column.array);
  EXPECT_TRUE(owned.is_free());
}

TEST(ArrowExportTest, ADevicesBatchNamesItsDeviceAndItsOffsets) {
  static const std::byte place[64] = {};  // an address alone: nobody reads there
  const std::vector<std::int64_t> offsets = {0, 1, 4};
  Tensor ragged = MakeTensorOver(kInt32, {4}, place, 4, nullptr);
  ragged.lod = {offsets};
  ragged.place = {DeviceType::kCuda, 1};
  Tensor flags = MakeTensorOver(kBool, {2}, place, 2, nullptr);
  flags.place = ragged.place;
  Tensor there = MakeTensorOver(kInt64, {3}, place + 32, 3, nullptr);
  there.place = ragged.place;
  const Instance batch = Batch({ragged, flags}, {"ids", "seen"});
  ArrowSchema schema{};
  ArrowDeviceArray array{};
  EXPECT_EQ(ExportArrowDevice(batch, {}, &schema, &array).code(), StatusCode::kUnsupported);
  ASSERT_TRUE(ExportArrowDevice(batch, {there, std::nullopt}, &schema, &array).ok());
  EXPECT_EQ(array.device_type, ARROW_DEVICE_CUDA);
  EXPECT_EQ(array.device_id, 1);
  EXPECT_EQ(array.sync_event, nullptr);
  EXPECT_EQ(array.array.children[0]->buffers[1], place + 32);
  EXPECT_EQ(array.array.children[0]->children[0]->buffers[1], place);
  EXPECT_STREQ(schema.children[1]->format, "C");
  schema.release(&schema);
  array.array.release(&array.array);
  ASSERT_TRUE(ExportArrowDevice({MakeTensor(std::vector<int>{1})}, {}, &schema, &array).ok());
  EXPECT_EQ(array.device_type, ARROW_DEVICE_CPU);
  EXPECT_EQ(array.device_id, -1);
  schema.release(&schema);
  array.array.release(&array.array);
}

/// A stream of the batches that are given, and what it says.
class StreamOf {
 public:
  explicit StreamOf(std::function<bool(Instance*)> next) {
    ExportArrowStream(std::move(next), &stream_);
  }
  explicit StreamOf(std::vector<Instance> batches)
      : StreamOf([batches = std::move(batches), at = std::size_t{0}](Instance* batch) mutable {
          if (at == batches.size()) return false;
          *batch = batches[at++];
          return true;
        }) {}
  StreamOf(const StreamOf&) = delete;
  StreamOf& operator=(const StreamOf&) = delete;
  ~StreamOf() { stream_.release(&stream_); }

  int GetSchema(ArrowSchema* schema) { return stream_.get_schema(&stream_, schema); }
  int GetNext(ArrowArray* array) { return stream_.get_next(&stream_, array); }
  std::string error() {
    const char* const text = stream_.get_last_error(&stream_);
    return text == nullptr ? "" : text;
  }

 private:
  ArrowArrayStream stream_{};
};

Instance Labels(std::vector<std::int32_t> labels) {
  return Batch({MakeTensor(std::move(labels))}, {"label"});
}

TEST(ArrowExportTest, AStreamGivesItsTypeAtAnyTimeAndEachBatchOnce) {
  for (const bool asks_first : {true, false}) {
    StreamOf stream({Labels({1, 2}), Labels({}), Labels({3})});
    Exported type;
    if (asks_first) {
      ASSERT_EQ(stream.GetSchema(&type.schema), 0);
    }
    std::string all;
    for (int i = 0; i < 3; ++i) {
      Exported batch;
      ASSERT_EQ(stream.GetNext(&batch.array), 0);
      ASSERT_NE(batch.array.release, nullptr);
      all += "(" + Numbers<std::int32_t>(*batch.array.children[0], 0, batch.array.length) + ")";
    }
    EXPECT_EQ(all, "(1 2)()(3)");
    for (int i = 0; i < 2; ++i) {
      Exported end;
      ASSERT_EQ(stream.GetNext(&end.array), 0);
      EXPECT_EQ(end.array.release, nullptr);
    }
    Exported late;
    ASSERT_EQ(stream.GetSchema(&late.schema), 0);
    EXPECT_STREQ(late.schema.children[0]->name, "label");
    EXPECT_EQ(stream.error(), "");
  }
}

TEST(ArrowExportTest, AStreamWithoutBatchesHasNoColumns) {
  StreamOf stream(std::vector<Instance>{});
  Exported none;
  ASSERT_EQ(stream.GetSchema(&none.schema), 0);
  EXPECT_EQ(none.schema.n_children, 0);
  ASSERT_EQ(stream.GetNext(&none.array), 0);
  EXPECT_EQ(none.array.release, nullptr);
}

TEST(ArrowExportTest, AStreamsFailureComesAfterTheBatchesBeforeItAndStays) {
  StreamOf stream([calls = 0](Instance* batch) mutable {
    if (calls++ == 1) throw std::runtime_error("the disk is gone");
    *batch = Labels({1});
    return true;
  });
  Exported batch;
  ASSERT_EQ(stream.GetNext(&batch.array), 0);
  for (int i = 0; i < 2; ++i) {
    Exported failed;
    EXPECT_EQ(stream.GetNext(&failed.array), EIO);
    EXPECT_EQ(failed.array.release, nullptr);
    EXPECT_EQ(stream.error(), "the disk is gone");
  }
}

TEST(ArrowExportTest, AStreamRefusesABatchOfOtherColumns) {
  StreamOf stream({Labels({1}), Batch({MakeTensor(std::vector<float>{1})}, {"label"})});
  Exported batch;
  ASSERT_EQ(stream.GetNext(&batch.array), 0);
  Exported other;
  EXPECT_EQ(stream.GetNext(&other.array), EINVAL);
  EXPECT_NE(stream.error().find("other columns"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed
