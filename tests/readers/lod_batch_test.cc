#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/parsers/lod_records.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Levels = std::vector<std::vector<std::int64_t>>;

constexpr std::size_t kLabel = 3;  // the tensor that tells a record's number

std::shared_ptr<const Parser> RecordParser() {
  return LoDTensorParser({{"image", kFloat32, {-1, 2, 3}},
                          {"words", kInt64, {-1, 1}, 1},
                          {"nested", kInt16, {-1}, 2},
                          {"label", kUInt8, {2}}});
}

std::vector<std::uint16_t> NumbersOf(const Tensor& labels) {
  std::vector<std::uint16_t> numbers(labels.bytes / 2);
  std::memcpy(numbers.data(), labels.data, labels.bytes);
  return numbers;
}

class LoDBatchTest : public PipelineTest {
 protected:
  // `count` random records in two files; a RecordIO chunk is one block, TFRecords are many.
  void MakeRecords(std::size_t count) {
    std::mt19937_64 random(11);
    for (std::size_t i = 0; i < count; ++i) {
      records_.push_back(RandomRecord(static_cast<std::uint16_t>(i), &random));
    }
    const auto middle = records_.begin() + static_cast<std::ptrdiff_t>(count / 3);
    files_ = {WriteFile("a.recordio", {records_.begin(), middle}),
              WriteFile("b.tfrecord", {middle, records_.end()})};
  }
  std::string WriteFile(const std::string& name, const std::vector<LoDRecord>& records) {
    const std::string path = directory_.File(name);
    const RecordWriterResult opened = OpenRecordWriter(path, name.substr(name.find('.') + 1));
    EXPECT_TRUE(opened.status.ok()) << opened.status.ToString();
    for (const LoDRecord& record : records) {
      const std::string bytes = EncodedRecord(record);
      EXPECT_TRUE(opened.writer->Write(std::as_bytes(std::span(bytes))).ok());
    }
    EXPECT_TRUE(opened.writer->Close().ok());
    return path;
  }
  OpenOptions InFileOrder() const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.threads = 4;
    return options;
  }
  Reader Parsed() const { return Parse(OpenFiles(files_, InFileOrder()), RecordParser()); }

  // What Paddle makes of the records of these numbers; labels of fixed shape are stacked.
  LoDRecord Expected(const std::vector<std::uint16_t>& numbers) const {
    std::vector<LoDRecord> some;
    for (const std::uint16_t number : numbers) some.push_back(records_.at(number));
    LoDRecord expected = MergedAsPaddle(some);
    expected[kLabel].shape = {static_cast<std::int64_t>(numbers.size()), 2};
    return expected;
  }
  // Reads all batches, and holds each against what its labels say; the numbers in their order.
  std::vector<std::uint16_t> CheckBatches(Reader reader) const {
    std::vector<std::uint16_t> all;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto numbers = NumbersOf(batch[kLabel]);
      EXPECT_EQ(RecordOf(batch), Expected(numbers));
      all.insert(all.end(), numbers.begin(), numbers.end());
      if (testing::Test::HasFailure()) break;
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return all;
  }
  std::vector<std::uint16_t> AllNumbers(std::size_t passes = 1) const {
    std::vector<std::uint16_t> numbers;
    for (std::size_t i = 0; i < passes * records_.size(); ++i) {
      numbers.push_back(static_cast<std::uint16_t>(i % records_.size()));
    }
    return numbers;
  }

  std::vector<LoDRecord> records_;
  std::vector<std::string> files_;
};

TEST_F(LoDBatchTest, BatchesAreWhatPaddleMerges) {
  MakeRecords(900);
  for (const std::size_t size : {1u, 7u, 64u, 2000u}) {
    EXPECT_EQ(CheckBatches(Batch(Parsed(), {.size = size})), AllNumbers()) << size;
  }
}

TEST_F(LoDBatchTest, ShufflesPassesAndDroppedRestsKeepEachRecordsSequences) {
  MakeRecords(500);
  const std::vector<std::function<Reader(Reader)>> shuffles = {
      [](Reader reader) { return Shuffle(std::move(reader), {.window = 100, .seed = 3}); },
      [](Reader reader) { return Shuffle(std::move(reader), {.block = 64, .seed = 3}); }};
  for (const auto& shuffle : shuffles) {
    auto found = CheckBatches(Batch(MultiPass(shuffle(Parsed()), 3), {.size = 33}));
    EXPECT_NE(found, AllNumbers(3));
    auto expected = AllNumbers(3);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected);
  }
  const auto kept = CheckBatches(Batch(Parsed(), {.size = 33, .drop_remainder = true}));
  EXPECT_EQ(kept.size(), 495U);
}

TEST_F(LoDBatchTest, BatchesThatOutgrowTheirMemoryKeepTheirLevels) {
  for (std::int64_t i = 0; i < 600; ++i) {
    const std::int64_t words = std::int64_t{1} << (i / 50);
    LoDRecord record = {
        {kFloat32, {0, 2, 3}, {}, ""},
        {kInt64, {words, 1}, {{0}}, std::string(8 * static_cast<std::size_t>(words), 'w')},
        {kInt16, {0}, {{0}, {0}}, ""},
        {kUInt8, {2}, {}, ""}};
    for (std::int64_t k = 1; k <= words; ++k) record[1].lod[0].push_back(k);
    const auto number = static_cast<std::uint16_t>(i);
    record[kLabel].bytes.assign(reinterpret_cast<const char*>(&number), sizeof(number));
    records_.push_back(std::move(record));
  }
  files_ = {WriteFile("growing.tfrecord", records_)};
  Reader reader = Batch(Parsed(), {.size = 400});
  EXPECT_EQ(CheckBatches(reader), AllNumbers());
  EXPECT_GT(reader.Stats().grown_batches, 0U);
}

TEST_F(LoDBatchTest, InstancesHaveTheirOwnLevels) {
  MakeRecords(300);
  for (const bool shuffled : {false, true}) {
    Reader reader = Parsed();
    if (shuffled) reader = Shuffle(reader, {.window = 50});
    std::vector<Instance> kept;
    Instance instance;
    while (reader.TryReadNext(&instance) == ReadResult::kRecord) kept.push_back(instance);
    ASSERT_EQ(kept.size(), 300U) << reader.status().ToString();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const std::size_t number = NumbersOf(kept[i][kLabel]).at(0);
      if (!shuffled) {
        ASSERT_EQ(number, i);
      }
      ASSERT_EQ(RecordOf(kept[i]), records_[number]);
    }
  }
}

TEST_F(LoDBatchTest, AMapFunctionSeesTensorsWithTheirLevels) {
  MakeRecords(300);
  const Reader mapped =
      Map(Parsed(), {{"number", kUInt16, {}}}, [&](const MapInput& input, RowWriter& output) {
        const Instance& fields = *input.fields;
        const std::uint16_t number = NumbersOf(fields[kLabel]).at(0);
        if (RecordOf(fields) != records_.at(number)) {
          throw std::runtime_error("another record");
        }
        std::memcpy(output.Fixed(0).data(), &number, sizeof(number));
      });
  Reader reader = Batch(mapped, {.size = 1000});
  const Instance batch = reader.ReadNext();
  EXPECT_EQ(NumbersOf(batch[0]), AllNumbers());
}

TEST_F(LoDBatchTest, FieldsAreThoseThatWereDeclared) {
  MakeRecords(1);
  const auto names_and_shapes = [](const Reader& reader) {
    std::vector<std::pair<std::string, Shape>> found;
    for (const FieldSpec& field : reader.fields()) found.emplace_back(field.name, field.shape);
    return found;
  };
  using Found = std::vector<std::pair<std::string, Shape>>;
  EXPECT_EQ(names_and_shapes(Parsed()),
            (Found{{"image", {-1, 2, 3}}, {"words", {-1, 1}}, {"nested", {-1}}, {"label", {2}}}));
  EXPECT_EQ(
      names_and_shapes(Batch(Parsed(), {.size = 4})),
      (Found{{"image", {-1, 2, 3}}, {"words", {-1, 1}}, {"nested", {-1}}, {"label", {-1, 2}}}));
}

TEST_F(LoDBatchTest, APaddedBatchHoldsTheSequencesOfTheRecordsThatAreThere) {
  constexpr std::size_t kSize = 7;
  MakeRecords(100);
  std::vector<LoDRecord> damaged = records_;
  for (const std::size_t record : {0u, 1u, 12u, 40u, 97u}) damaged[record][1].lod[0].back() += 1;
  for (std::size_t record = 21; record < 28; ++record) damaged[record][1].lod[0].back() += 1;
  files_ = {WriteFile("damaged.tfrecord", damaged)};
  OpenOptions options = InFileOrder();
  options.on_damage = OnDamage::kSkip;
  Reader reader =
      Batch(Parse(OpenFiles(files_, options), RecordParser()), {.size = kSize, .pad = true});
  EXPECT_EQ(reader.slots().back().name, "mask");
  Instance batch;
  std::size_t first = 0;
  for (; reader.TryReadNext(&batch) == ReadResult::kRecord; first += kSize) {
    const auto labels = NumbersOf(batch[kLabel]);
    const Tensor& mask = batch[kLabel + 1];
    ASSERT_EQ(labels.size(), kSize);
    ASSERT_EQ(mask.shape, (Shape{kSize}));
    std::vector<std::uint16_t> there;
    for (std::size_t row = 0; row < kSize; ++row) {
      const std::size_t number = first + row;
      const bool is_there = number < records_.size() && damaged[number] == records_[number];
      EXPECT_EQ(mask.data[row], static_cast<std::byte>(is_there)) << number;
      EXPECT_EQ(labels[row], is_there ? number : 0);
      if (is_there) there.push_back(static_cast<std::uint16_t>(number));
    }
    Instance tensors = batch;
    tensors.resize(kLabel);
    LoDRecord wanted = there.empty() ? RecordOf(tensors) : Expected(there);
    wanted.resize(kLabel);
    EXPECT_EQ(RecordOf(tensors), wanted) << first;
    if (there.empty()) {
      EXPECT_EQ(tensors[0].bytes + tensors[1].bytes + tensors[2].bytes, 0u);
    }
  }
  EXPECT_EQ(first, 105u);
}

TEST_F(LoDBatchTest, DamagedRecordsAreLeftOutOrEndTheData) {
  MakeRecords(100);
  std::vector<LoDRecord> damaged = records_;
  damaged[40][1].lod[0].back() += 1;
  files_ = {WriteFile("damaged.recordio", damaged)};
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    OpenOptions options = InFileOrder();
    options.on_damage = on_damage;
    Reader reader = Batch(Parse(OpenFiles(files_, options), RecordParser()), {.size = 64});
    std::vector<std::uint16_t> all;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto numbers = NumbersOf(batch[kLabel]);
      EXPECT_EQ(RecordOf(batch), Expected(numbers));
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    EXPECT_EQ(std::count(all.begin(), all.end(), 40), 0);
    EXPECT_EQ(all.size(), on_damage == OnDamage::kFail ? 40U : 99U);
    if (on_damage == OnDamage::kSkip) continue;
    EXPECT_EQ(reader.status().code(), StatusCode::kDamaged);
    EXPECT_NE(reader.status().message().find("tensor \"words\", byte "), std::string::npos)
        << reader.status().ToString();
  }
}

/// Loses some rows when it writes them, as a mapped file does that shrinks meanwhile.
class LosingParser final : public Parser {
 public:
  LosingParser() : inner_(RecordParser()) {
    fields_ = inner_->fields();
    for (std::size_t f = 0; f < fields_.size(); ++f) roles_.push_back(inner_->role(f));
    two_phase_ = true;
  }
  static bool Loses(std::uint16_t number) { return number % 5 == 2 || number == 0; }

  std::string name() const override { return "losing"; }
  std::unique_ptr<Scratch> NewScratch() const override { return inner_->NewScratch(); }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    inner_->Locate(rows, locations, scratch, failures);
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override {
    inner_->Write(rows, locations, targets, scratch, failures);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::uint16_t number = 0;
      std::memcpy(&number, targets.back().data + 2 * row, sizeof(number));
      if (Loses(number)) failures->push_back({row, Status(StatusCode::kTruncated, "lost")});
    }
  }

 private:
  const std::shared_ptr<const Parser> inner_;
};

TEST_F(LoDBatchTest, LevelsCloseUpWhereARowIsLostWhileItIsWritten) {
  MakeRecords(300);
  auto expected = AllNumbers();
  std::erase_if(expected, LosingParser::Loses);
  for (const std::size_t size : {1u, 10u, 300u}) {
    OpenOptions options = InFileOrder();
    options.on_damage = OnDamage::kSkip;
    Reader reader =
        Batch(Parse(OpenFiles(files_, options), std::make_shared<LosingParser>()), {.size = size});
    std::vector<std::uint16_t> all;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto numbers = NumbersOf(batch[kLabel]);
      if (!numbers.empty()) {
        ASSERT_EQ(RecordOf(batch), Expected(numbers));
      }
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    EXPECT_EQ(all, expected) << reader.status().ToString();
  }
}

TEST_F(LoDBatchTest, FluidsFilesGiveWhatPaddleMerges) {
  const auto batch_of = [&](const std::string& name, const std::vector<LoDTensorSpec>& tensors) {
    const std::string path = std::string(RINGFEED_TEST_DATA) + "/fluid_recordio/" + name;
    Reader reader =
        Batch(Parse(OpenFiles({path}, InFileOrder()), LoDTensorParser(tensors)), {.size = 100});
    return RecordOf(reader.ReadNext());
  };
  const LoDRecord nested = batch_of("lod2_none_max3.recordio",
                                    {{"points", kFloat32, {-1, 2}, 2}, {"label", kInt64, {-1, 1}}});
  EXPECT_EQ(nested[0].shape, (Shape{157, 2}));
  EXPECT_EQ(nested[0].lod, (Levels{{0,  2,  4,  5,  6,  9,  12, 13, 15, 17, 19, 21, 24,
                                    27, 30, 31, 32, 34, 37, 38, 41, 44, 46, 48, 49},
                                   {0,   3,   8,   10,  12,  16,  19,  20,  22,  27,  32,  37,  38,
                                    39,  44,  48,  51,  53,  55,  57,  62,  65,  70,  73,  75,  78,
                                    82,  87,  91,  92,  97,  102, 103, 108, 112, 117, 118, 121, 123,
                                    128, 131, 133, 135, 138, 139, 144, 148, 152, 154, 157}}));
  EXPECT_EQ(nested[1].shape, (Shape{24, 1}));
  EXPECT_TRUE(nested[1].lod.empty());
  const LoDRecord empty = batch_of("lod1_empty_sequences_none_max1000.recordio",
                                   {{"words", kInt64, {-1, 1}, 1}, {"score", kFloat32, {-1, 1}}});
  EXPECT_EQ(empty[0].lod, (Levels{{0,   8,   9,   15,  18,  23,  23,  27,  28,  30,  37,  37,  37,
                                   44,  47,  54,  62,  63,  70,  78,  81,  87,  92,  97,  97,  105,
                                   106, 107, 114, 118, 126, 130, 133, 139, 143, 150, 155, 158, 158,
                                   159, 164, 169, 174, 182, 190, 193, 197, 203, 206}}));
  const LoDRecord dense = batch_of("dense_batch1_snappy_max10.recordio",
                                   {{"image", kFloat32, {-1, 3, 4}}, {"label", kInt64, {-1, 1}}});
  EXPECT_EQ(dense[0].shape, (Shape{25, 3, 4}));
  EXPECT_EQ(dense[1].shape, (Shape{25, 1}));
}

TEST_F(LoDBatchTest, TwoRecordsOfTwoTensorsComeBackInEveryType) {
  for (const DType dtype : {kInt32, kInt16, kUInt8, kFloat32, kFloat64}) {
    records_.clear();
    for (const char first : {'\0', '\x20'}) {
      std::string bytes(20 * DTypeBytes(dtype), first);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(first + static_cast<char>(i % 19));
      }
      const std::string others(bytes.rbegin(), bytes.rend());
      records_.push_back({{dtype, {4, 5}, {}, bytes}, {dtype, {4, 5}, {}, others}});
    }
    files_ = {WriteFile("two.recordio", records_)};
    Reader reader = Parse(OpenFiles(files_, InFileOrder()),
                          LoDTensorParser({{"a", dtype, {4, 5}}, {"b", dtype, {4, 5}}}));
    for (const LoDRecord& record : records_) EXPECT_EQ(RecordOf(reader.ReadNext()), record);
    EXPECT_FALSE(reader.HasNext());
  }
}

TEST_F(LoDBatchTest, InstancesAreMergedAsLoDTensors) {
  const std::string path = directory_.File("instances.tfrecord");
  const RecordWriterResult opened = OpenRecordWriter(path, "tfrecord");
  InstanceBuilder builder;
  const LoDRecord expected = {{kInt8, {8, 1}, {{0, 2, 5, 6, 8}}, "abcdefgh"},
                              {kUInt8, {2}, {}, "xy"}};
  for (const auto& [lod, words, label] :
       {std::tuple(Levels{{0, 2, 5}}, "abcde", "x"), std::tuple(Levels{{0, 1, 3}}, "fgh", "y")}) {
    const std::string_view values = words;
    builder.Add("label", kUInt8, {}, std::as_bytes(std::span(label, 1)));
    builder.Add("words", kInt8, {static_cast<std::int64_t>(values.size()), 1},
                std::as_bytes(std::span(values)), lod);
    ASSERT_TRUE(opened.writer->Write(builder.Finish()).ok());
  }
  ASSERT_TRUE(opened.writer->Close().ok());
  const auto parser = InstanceProtoParser({{"words", kInt8, {-1, 1}, 1}, {"label", kUInt8, {}}});
  Reader reader = Batch(Parse(OpenFiles({path}, InFileOrder()), parser), {.size = 2});
  EXPECT_EQ(RecordOf(reader.ReadNext()), expected);
}

}  // namespace
}  // namespace ringfeed
