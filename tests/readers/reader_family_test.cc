// The family of readers that users write and nest: file readers, decorators, shared readers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/compat/random_data.h"
#include "ringfeed/data_balance.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/tensor.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Ids = std::vector<std::int64_t>;

Tensor Numbers64(const Ids& values, Shape shape) { return MakeTensor(std::move(shape), values); }

const std::vector<SlotSpec> kOneId = {{"id", kInt64, {-1, 1}, 0}};

/// A file of numbers, one a line; "x" is an instance of another shape, "!" an exception.
class NumbersReader final : public FileReader {
 public:
  NumbersReader(const std::string& path, const std::vector<SlotSpec>& slots)
      : FileReader(path, slots), file_(path) {
    if (path.find("refused") != std::string::npos) throw std::runtime_error("no such file for us");
  }

 protected:
  bool ReadNextImpl(Instance* instance) override {
    std::string line;
    if (!std::getline(file_, line)) return false;
    if (line == "!") throw std::runtime_error("a bad line");
    if (line == "x") {
      instance->push_back(Numbers64({0, 0}, {1, 2}));
    } else {
      instance->push_back(Numbers64({std::stoll(line)}, {1, 1}));
    }
    return true;
  }
  bool ReInitImpl() override {
    file_.clear();
    file_.seekg(0);
    return true;
  }

 private:
  std::ifstream file_;
};

/// Whose second instance is made once the first was had.
std::atomic<bool> had_first{false};
class AnsweringReader final : public FileReader {
 public:
  using FileReader::FileReader;
  bool Ready() const override { return false; }

 protected:
  bool ReadNextImpl(Instance* instance) override {
    if (next_ == 2) return false;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (next_ == 1 && !had_first.load() && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    instance->push_back(Numbers64({next_++}, {1, 1}));
    return true;
  }

 private:
  std::int64_t next_ = 0;
};

/// Instances with LoD, as they come from a producer.
class SequencesReader final : public InstanceSource {
 public:
  std::vector<SlotSpec> slots() const override { return {{"words", kInt64, {-1, 1}, 1}}; }
  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    static const std::vector<Ids> kLevels = {{0, 2, 5}, {0, 1, 3}};
    if (next_ == 2) return ReadResult::kEnd;
    const auto rows = kLevels[next_].back();
    instance->push_back(Numbers64(Ids(static_cast<std::size_t>(rows), 7), {rows, 1}));
    instance->back().lod = {kLevels[next_]};
    ++next_;
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }

 private:
  std::size_t next_ = 0;
};

class ReaderFamilyTest : public PipelineTest {
 protected:
  static void SetUpTestSuite() {
    static const bool registered = [] {
      RegisterFormat(
          "numbers",
          [](const std::string& path, const std::vector<SlotSpec>& slots) {
            return std::make_unique<NumbersReader>(path, slots);
          },
          "7000");
      return true;
    }();
    EXPECT_TRUE(registered);
  }
  std::string WriteLines(const std::string& name, const std::vector<std::string>& lines) const {
    const std::string path = directory_.File(name);
    std::ofstream file(path);
    for (const std::string& line : lines) file << line << "\n";
    return path;
  }
  /// Files of `each` numbers, which go on from file to file.
  std::vector<std::string> NumberFiles(int files, int each) const {
    std::vector<std::string> names;
    int next = 0;
    for (int f = 0; f < files; ++f) {
      std::vector<std::string> lines;
      for (int i = 0; i < each; ++i) lines.push_back(std::to_string(next++));
      names.push_back(WriteLines("f" + std::to_string(f) + ".numbers", lines));
    }
    return names;
  }
  OpenOptions WithSlots(bool unordered = false) const {
    OpenOptions options = Options();
    options.slots = kOneId;
    options.unordered = unordered;
    return options;
  }
  static Ids Range(std::int64_t count) {
    Ids ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  /// All numbers of the first slot, to the end or the failure.
  static Ids All(Reader reader, Status* status = nullptr) {
    Ids ids;
    Instance instance;
    while (reader.TryReadNext(&instance) == ReadResult::kRecord) {
      for (const std::int64_t id : instance[0].Values<std::int64_t>()) ids.push_back(id);
    }
    if (status != nullptr) *status = reader.status();
    return ids;
  }
  static Ids Sorted(Ids ids) {
    std::sort(ids.begin(), ids.end());
    return ids;
  }
};

TEST_F(ReaderFamilyTest, AFileReaderIsReadCheckedAndStartedAgain) {
  const std::string file = NumberFiles(1, 20).front();
  Reader reader = FromInstanceSource(std::make_unique<NumbersReader>(file, kOneId), Options());
  for (int pass = 0; pass < 3; ++pass) {
    Ids ids;
    while (reader.HasNext()) {
      const Instance instance = reader.ReadNext();
      ids.push_back(instance[0].Values<std::int64_t>()[0]);
    }
    EXPECT_EQ(ids, Range(20));
    EXPECT_THROW(reader.ReadNext(), EndOfData);
    reader.ReInit();
  }
  EXPECT_EQ(reader.slots()[0].dims, (Shape{-1, 1}));
}

TEST_F(ReaderFamilyTest, WhatAFileReaderGaveDoesNotWaitForWhatItGivesNext) {
  RegisterFormat("answers", [](const std::string& path, const std::vector<SlotSpec>& slots) {
    return std::make_unique<AnsweringReader>(path, slots);
  });
  std::vector<std::string> files;
  for (const char* name : {"a.answers", "b.answers"}) files.push_back(WriteLines(name, {"0"}));
  had_first = false;
  Reader reader = Batch(OpenFiles(files, WithSlots()), {.size = 1});
  Instance instance;
  ASSERT_EQ(reader.TryReadNext(&instance, {.deadline = DeadlineAfter(std::chrono::seconds(10))}),
            ReadResult::kRecord);
  had_first = true;
  EXPECT_EQ(All(reader).size(), 3u);
}

TEST_F(ReaderFamilyTest, AnErrorOfShapeNamesFileInstanceSlotExpectedAndFound) {
  const std::string file = WriteLines("a.numbers", {"0", "1", "x", "3"});
  Status status;
  EXPECT_EQ(All(OpenFiles({file}, WithSlots()), &status), Range(2));
  EXPECT_EQ(status.place().file, file);
  EXPECT_EQ(status.place().record, 2);
  EXPECT_NE(status.message().find("slot 0 \"id\": expected int64[-1, 1], found int64[1, 2]"),
            std::string::npos)
      << status.ToString();
}

TEST_F(ReaderFamilyTest, FilesOfARegisteredFormatAreFoundByTagNameAndFirstBytes) {
  const std::vector<std::string> by_ending = NumberFiles(2, 5);
  EXPECT_EQ(All(OpenFiles(by_ending, WithSlots())), Range(10));
  const std::string by_beginning = WriteLines("numbers-00000", {"0", "1"});
  EXPECT_EQ(All(OpenFiles({by_beginning}, WithSlots())), Range(2));
  const std::string by_bytes = WriteLines("anything", {"7000", "1"});
  EXPECT_EQ(All(OpenFiles({by_bytes}, WithSlots())), (Ids{7000, 1}));
  const std::string by_tag = WriteLines("other", {"0", "1"});
  OpenOptions options = WithSlots();
  options.format = "numbers";
  EXPECT_EQ(All(OpenFiles({by_tag}, options)), Range(2));
  EXPECT_THROW(OpenFiles(by_ending, Options()), Error) << "without slots";
  EXPECT_THROW(OpenFiles(MakeFiles(1, 2, 8, 8), WithSlots()), Error) << "with slots for nothing";
  EXPECT_THROW(OpenFiles({by_ending[0], MakeFiles(1, 2, 8, 8)[0]}, WithSlots()), Error);
  EXPECT_THROW(RegisterFormat("numbers", nullptr), Error);
  EXPECT_THROW(RegisterFormat("tfrecord",
                              [](const std::string& path, const std::vector<SlotSpec>& slots) {
                                return std::make_unique<NumbersReader>(path, slots);
                              }),
               Error);
}

TEST_F(ReaderFamilyTest, ManyFilesComeInTheirOrderOrWithoutOneEachOnce) {
  const std::vector<std::string> files = NumberFiles(9, 40);
  OpenOptions test_mode = WithSlots();
  test_mode.cycle = 1;
  EXPECT_EQ(All(OpenFiles(files, test_mode)), Range(360));
  // A file is one turn: with several open at a time they still come one after another.
  EXPECT_EQ(All(OpenFiles(files, WithSlots())), Range(360));
  for (const std::uint64_t passes : {1U, 3U}) {
    Ids want;
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      const Ids range = Range(360);
      want.insert(want.end(), range.begin(), range.end());
    }
    EXPECT_EQ(Sorted(All(MultiPass(OpenFiles(files, WithSlots(true)), passes))), Sorted(want));
  }
  const std::vector<std::string> records = MakeFiles(5, 300, 8, 900);
  OpenOptions unordered = Options();
  unordered.unordered = true;
  Drained drained = Drain(Batches(Shuffle(OpenFiles(records, unordered), {.window = 50}), 16));
  std::sort(drained.ids.begin(), drained.ids.end());
  EXPECT_EQ(drained.ids.size(), 1500U);
  EXPECT_EQ(std::set(drained.ids.begin(), drained.ids.end()).size(), 1500U);
}

TEST_F(ReaderFamilyTest, WhatFailsInOneFileFailsTheStreamOrIsSkipped) {
  const std::vector<std::string> files = {
      WriteLines("a.numbers", {"0", "1"}), WriteLines("b.numbers", {"2", "!", "9"}),
      WriteLines("refused.numbers", {"9"}), WriteLines("c.numbers", {"3"})};
  Status status;
  EXPECT_EQ(All(OpenFiles(files, WithSlots()), &status), Range(3));
  EXPECT_EQ(status.place().file, files[1]);
  EXPECT_NE(status.message().find("a bad line"), std::string::npos);
  OpenOptions skip = WithSlots();
  skip.on_damage = OnDamage::kSkip;
  Reader reader = OpenFiles(files, skip);
  EXPECT_EQ(All(reader), Range(4));
  ASSERT_EQ(reader.Stats().damage.size(), 2U);
  EXPECT_EQ(reader.Stats().damage[1].file, files[2]);
}

/// Adds to every number, and counts.
class AddingReader final : public DecoratedReader {
 public:
  AddingReader(Reader input, std::int64_t add, std::atomic<int>* reinits = nullptr)
      : DecoratedReader(std::move(input)), add_(add), reinits_(reinits) {}
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    Instance input;
    const ReadResult result = ReadInput(&input, stop, status);
    if (result != ReadResult::kRecord) return result;
    Ids ids;
    for (const std::int64_t id : input[0].Values<std::int64_t>()) ids.push_back(id + add_);
    instance->push_back(Numbers64(ids, input[0].shape));
    return result;
  }
  bool ReInit() override {
    if (reinits_ != nullptr) ++*reinits_;
    return true;
  }

 private:
  const std::int64_t add_;
  std::atomic<int>* const reinits_;
};

TEST_F(ReaderFamilyTest, DecoratorsNestOverFilesAndOverEachOther) {
  Reader reader = OpenFiles(NumberFiles(3, 30), WithSlots());
  for (int i = 0; i < 6; ++i) {
    reader = FromInstanceSource(std::make_unique<AddingReader>(reader, 1));
    if (i == 2) reader = Shuffle(reader, {.block = 10});
    if (i == 3) reader = Batch(reader, {.size = 7});
  }
  Status status;
  Ids ids = Sorted(All(reader, &status));
  EXPECT_TRUE(status.ok()) << status.ToString();
  for (std::int64_t& id : ids) id -= 6;
  EXPECT_EQ(ids, Range(90));
  reader.ReInit();
  EXPECT_EQ(All(reader).size(), 90U);
}

TEST_F(ReaderFamilyTest, PassesAndReInitStartTheWholeNestAgain) {
  std::atomic<int> reinits{0};
  Reader inner = OpenFiles(NumberFiles(2, 25), WithSlots());
  Reader reader = MultiPass(
      FromInstanceSource(std::make_unique<AddingReader>(std::move(inner), 0, &reinits)), 3);
  EXPECT_EQ(All(reader).size(), 150U);
  EXPECT_EQ(reinits.load(), 2);
  for (int i = 0; i < 10; ++i) {
    reader.ReInit();
    for (int k = 0; k < 7 * i; ++k) (void)reader.ReadNext();
  }
  reader.ReInit();
  EXPECT_EQ(Sorted(All(reader)).size(), 150U);
}

/// `values` in the shape and with the LoD of `like`.
template <typename T>
Tensor Like(const Tensor& like, std::vector<T> values) {
  auto memory = std::make_shared<const std::pair<Tensor, std::vector<T>>>(like, std::move(values));
  Tensor tensor = like;
  tensor.data = reinterpret_cast<const std::byte*>(memory->second.data());
  tensor.owner = std::move(memory);
  return tensor;
}

TEST_F(ReaderFamilyTest, PreprocessSeesInstancesOrBatchesAndKeepsLoD) {
  const auto one_more = [](const Instance& input, Instance* output) {
    Ids words;
    for (const std::int64_t word : input[0].Values<std::int64_t>()) words.push_back(word + 1);
    output->push_back(Like(input[0], words));
    output->push_back(input[0]);
  };
  const std::vector<SlotSpec> slots = {{"more", kInt64, {-1, 1}, 1}, {"words", kInt64, {-1, 1}, 1}};
  const auto sequences = [&] {
    return FromInstanceSource(std::make_unique<SequencesReader>(), Options());
  };
  const auto expect = [](Reader reader, const std::vector<Ids>& levels) {
    for (const Ids& level : levels) {
      const Instance instance = reader.ReadNext();
      ASSERT_EQ(instance.size(), 2U);
      for (const std::size_t slot : {0U, 1U}) {
        ASSERT_EQ(instance[slot].lod.size(), 1U);
        EXPECT_EQ(Ids(instance[slot].lod[0].begin(), instance[slot].lod[0].end()), level);
        const auto words = instance[slot].Values<std::int64_t>();
        EXPECT_EQ(Ids(words.begin(), words.end()),
                  Ids(static_cast<std::size_t>(level.back()), slot == 0 ? 8 : 7));
      }
    }
    EXPECT_FALSE(reader.HasNext());
  };
  expect(Preprocess(sequences(), slots, one_more), {{0, 2, 5}, {0, 1, 3}});
  expect(Preprocess(Batch(sequences(), {.size = 2}), slots, one_more), {{0, 2, 5, 6, 8}});
  expect(Batch(Preprocess(sequences(), slots, one_more), {.size = 2}), {{0, 2, 5, 6, 8}});
}

TEST_F(ReaderFamilyTest, PreprocessHalvesImagesAndRaisesLabels) {
  const std::vector<SlotSpec> slots = {{"image", kFloat32, {-1, 6}, 0},
                                       {"label", kInt64, {-1, 1}, 0}};
  const auto halve = [](const Instance& input, Instance* output) {
    std::vector<float> image;
    Ids label;
    for (const float x : input[0].Values<float>()) image.push_back(x / 2);
    for (const std::int64_t y : input[1].Values<std::int64_t>()) label.push_back(y + 1);
    output->push_back(Like(input[0], image));
    output->push_back(Like(input[1], label));
  };
  for (const std::size_t batch : {1U, 8U}) {
    const auto data = [&] {
      Reader random = RandomData({{"image", kFloat32, {1, 6}, 0}, {"label", kInt64, {1, 1}, 0}},
                                 {.high = 10, .seed = 2, .count = 50}, Options());
      return batch == 1 ? random : Batch(random, {.size = batch});
    };
    Reader plain = data();
    Reader halved = Preprocess(data(), slots, halve);
    Instance before;
    Instance after;
    std::size_t read = 0;
    for (; plain.TryReadNext(&before) == ReadResult::kRecord; ++read) {
      ASSERT_EQ(halved.TryReadNext(&after), ReadResult::kRecord);
      ASSERT_EQ(after[0].shape, before[0].shape);
      ASSERT_EQ(after[1].shape, before[1].shape);
      for (std::size_t i = 0; i < before[0].Values<float>().size(); ++i) {
        EXPECT_EQ(after[0].Values<float>()[i], before[0].Values<float>()[i] / 2);
      }
      for (std::size_t i = 0; i < before[1].Values<std::int64_t>().size(); ++i) {
        EXPECT_EQ(after[1].Values<std::int64_t>()[i], before[1].Values<std::int64_t>()[i] + 1);
      }
    }
    EXPECT_EQ(read, (50 + batch - 1) / batch);
    EXPECT_EQ(halved.TryReadNext(&after), ReadResult::kEnd);
  }
}

TEST_F(ReaderFamilyTest, WhatAPreprocessFunctionThrowsFailsTheStream) {
  Reader failing = Preprocess(OpenFiles(NumberFiles(1, 5), WithSlots()), kOneId,
                              [](const Instance&, Instance*) { throw std::runtime_error("no"); });
  Instance instance;
  EXPECT_EQ(failing.TryReadNext(&instance), ReadResult::kFailed);
  EXPECT_NE(failing.status().message().find("no"), std::string::npos);
}

TEST_F(ReaderFamilyTest, AnErrorOfTheInputIsTheSameBehindADecoratorOrAShare) {
  const auto missing = [&] {
    return Parse(Shuffle(OpenFiles({directory_.File("none.tfrecord")}, Options()),
                         {.mode = ShuffleMode::kGlobal}),
                 RawParser());
  };
  const auto pass = [](const Instance& input, Instance* output) {
    for (const Tensor& tensor : input) output->push_back(tensor);
  };
  Status plain;
  try {
    (void)missing().ReadNext();
  } catch (const Error& error) {
    plain = error.status();
  }
  EXPECT_EQ(plain.code(), StatusCode::kNotFound);
  Reader input = missing();
  Instance instance;
  for (Reader reader :
       {Preprocess(input, input.slots(), pass), Batch(Share(missing()), {.size = 2})}) {
    EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
    EXPECT_EQ(reader.status().code(), plain.code());
    EXPECT_EQ(reader.status().message(), plain.message());
  }
}

TEST_F(ReaderFamilyTest, TwoChainsOnOneMultipleReaderGetEverythingOnce) {
  const std::vector<std::string> files = MakeFiles(6, 400, 8, 700);
  for (const bool is_test : {false, true}) {
    Reader shared = Share(MultipleReader(files, is_test, 3, Options()));
    std::vector<Reader> chains = {Batches(Shuffle(shared, {.window = 64}), 10),
                                  Batches(Shuffle(shared, {.block = 30}), 7)};
    EXPECT_THROW(MultiPass(shared, 2).ReadNext(), Error);
    for (int round = 0; round < 3; ++round) {
      std::vector<Drained> found(2);
      {
        std::jthread other([&] { found[1] = Drain(chains[1]); });
        found[0] = Drain(chains[0]);
      }
      std::vector<std::uint64_t> ids = found[0].ids;
      ids.insert(ids.end(), found[1].ids.begin(), found[1].ids.end());
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(ids, Numbers(2400));
      EXPECT_EQ(found[0].strange + found[1].strange, 0U);
      chains[static_cast<std::size_t>(round % 2)].ReInit();  // of both
    }
  }
}

TEST_F(ReaderFamilyTest, WhatADestroyedChainTookAheadGoesWithItAndTheOtherOneGoesOn) {
  Reader shared = Share(OpenFiles(MakeFiles(6, 400, 8, 700), Options()));
  Reader stays = Batches(shared, 7);
  Drained found;
  {
    Reader leaves = Batches(Shuffle(shared, {.window = 64}), 10);
    found = Drain(leaves, 3);
    EXPECT_EQ(found.ids.size(), 30U);
  }
  const Drained rest = Drain(stays);
  EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
  found.ids.insert(found.ids.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(std::set(found.ids.begin(), found.ids.end()).size(), found.ids.size());
  stays.ReInit();
  EXPECT_EQ(ringfeed::Sorted(Drain(stays).ids), Numbers(2400));
}

// Each of those that failed has taken a block of the shared reader's, of which it wants no more.
TEST_F(ReaderFamilyTest, ChainsThatFailedOrWereClosedKeepNothingFromTheOther) {
  OpenOptions options = Options();
  options.cycle = 1;
  // Chains that were closed keep what they took ahead until they are destroyed.
  options.arena = std::make_shared<PinnedArena>(std::size_t{512} << 20);
  for (const bool closes : {false, true}) {
    Reader shared = Share(OpenFiles(MakeFiles(4, 1500, 1000, 2000), options));
    Reader stays = Batches(shared, 7);
    std::vector<Reader> others;
    Instance batch;
    BatchOrigin origin;
    for (int i = 0; i < 24; ++i) {  // more than the shared reader has blocks
      const auto refuse = [closes](const MapInput&, RowWriter& output) {
        if (!closes) throw std::runtime_error("this chain takes no row");
        output.Ragged(0, {});
      };
      others.push_back(Batch(Map(shared, {{"number", kInt64, {-1}}}, refuse), {.size = 5}));
      const ReadResult result = others.back().TryReadNext(
          &batch, {.origin = &origin, .deadline = DeadlineAfter(std::chrono::seconds(20))});
      // Each takes as far ahead as it comes before it ends: together they may take all.
      if (result == ReadResult::kEnd) break;
      ASSERT_EQ(result, closes ? ReadResult::kRecord : ReadResult::kFailed)
          << "chain " << i << ": " << others.back().status().ToString();
      batch.clear();
      if (closes) others.back().Close();
    }
    ReadResult result = ReadResult::kRecord;
    while (result == ReadResult::kRecord) {
      result = stays.TryReadNext(
          &batch, {.origin = &origin, .deadline = DeadlineAfter(std::chrono::seconds(20))});
    }
    EXPECT_EQ(result, ReadResult::kEnd) << stays.status().ToString();
  }
}

TEST_F(ReaderFamilyTest, SharedRowsAndBatchesAreWhole) {
  const auto open = [&] { return OpenFiles(NumberFiles(2, 60), WithSlots()); };
  Reader instances = Share(open());
  EXPECT_EQ(Sorted(All(Batch(instances, {.size = 9}))), Range(120));
  Reader batches = Share(Batch(open(), {.size = 9}));
  Reader again = Batch(batches, {.size = 2});
  const Instance joined = again.ReadNext();
  EXPECT_EQ(joined[0].shape, (Shape{18, 1}));
  EXPECT_EQ(All(again).size(), 102U);
  Reader rows = Share(Parse(OpenFiles(MakeFiles(1, 40, 8, 40), Options()), RawParser()));
  EXPECT_EQ(Drain(Batch(rows, {.size = 6})).ids.size(), 40U);
}

TEST_F(ReaderFamilyTest, RowsOfAShareOfAShareAreRows) {
  const Reader rows = Parse(OpenFiles(MakeFiles(1, 4, 8, 40), Options()), RawParser());
  const Instance batch = Batch(Share(Share(rows)), {.size = 4}).ReadNext();
  EXPECT_EQ(batch.Rows(), 4);
  EXPECT_EQ(batch[0].lod.size(), 1U);
}

TEST_F(ReaderFamilyTest, EndPointsFollowDecoratorsAsTheyComeAndGo) {
  Reader shared = Share(OpenFiles(NumberFiles(1, 10), WithSlots()));
  Reader a = Batch(shared, {.size = 2});
  Reader b = Shuffle(shared, {.block = 4});
  EXPECT_EQ(shared.EndPoints().size(), 2U);
  {
    const Reader c = FromInstanceSource(std::make_unique<AddingReader>(shared, 1));
    EXPECT_EQ(shared.EndPoints().size(), 3U);
    EXPECT_EQ(c.EndPoints().size(), 3U);
  }
  EXPECT_EQ(a.EndPoints().size(), 2U);
  EXPECT_TRUE(b.HasNext());
  shared.ResetAll();
  Ids ids = All(b);
  const Ids rest = All(a);
  ids.insert(ids.end(), rest.begin(), rest.end());
  EXPECT_EQ(Sorted(ids), Range(10));
}

TEST_F(ReaderFamilyTest, ReInitOfANestWhileOthersReadGivesTheFreshPassOnce) {
  Reader shared = Share(OpenFiles(NumberFiles(4, 250), WithSlots()));
  std::vector<Reader> ends = {
      Batch(FromInstanceSource(std::make_unique<AddingReader>(shared, 0)), {.size = 3}),
      Batch(Shuffle(shared, {.window = 20}), {.size = 5})};
  std::atomic<bool> restarting{true};
  std::vector<Ids> found(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        Instance instance;
        while (restarting.load()) (void)ends[i].TryReadNext(&instance);
      });
    }
    for (int i = 0; i < 20; ++i) {
      ends[static_cast<std::size_t>(i % 2)].ReInit();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    restarting.store(false);
    // They may wait for what comes; the data end, so they return.
  }
  ends[0].ReInit();
  {
    std::jthread other([&] { found[1] = All(ends[1]); });
    found[0] = All(ends[0]);
  }
  found[0].insert(found[0].end(), found[1].begin(), found[1].end());
  EXPECT_EQ(Sorted(found[0]), Range(1000));
}

TEST_F(ReaderFamilyTest, RandomDataIsTheSameEveryPassInRangeAndOfAnyType) {
  std::vector<SlotSpec> slots;
  for (const DType dtype :
       {kUInt8, kInt8, kUInt16, kInt16, kUInt32, kInt32, kUInt64, kInt64, kFloat32, kFloat64}) {
    slots.push_back({std::string(DTypeName(dtype)), dtype, {50, 2}, 0});
  }
  Reader reader = RandomData(slots, {.low = 3, .high = 9, .seed = 5, .count = 4}, Options());
  std::vector<std::vector<std::byte>> first;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t n = 0; n < 4; ++n) {
      const Instance instance = reader.ReadNext();
      ASSERT_EQ(instance.size(), slots.size());
      const auto bytes = std::vector(instance[8].data, instance[8].data + instance[8].bytes);
      if (pass == 0) {
        first.push_back(bytes);
      } else {
        EXPECT_EQ(bytes, first[n]);
      }
      const auto whole = instance[0].Values<std::uint8_t>();
      EXPECT_EQ(std::set(whole.begin(), whole.end()), (std::set<std::uint8_t>{3, 4, 5, 6, 7, 8}));
      for (const float value : instance[8].Values<float>()) {
        EXPECT_GE(value, 3);
        EXPECT_LT(value, 9);
      }
    }
    EXPECT_FALSE(reader.HasNext());
    reader.ReInit();
  }
  EXPECT_NE(first[0], first[1]);
  EXPECT_THROW(RandomData(slots, {.low = 1, .high = 0.5}), Error);
  EXPECT_THROW(RandomData(slots, {.low = 1.5, .high = 1.5}), Error) << "no whole number";
  EXPECT_THROW(RandomData({{"x", kUInt8, {1}, 0}}, {.low = 0, .high = 300}), Error);
  EXPECT_THROW(RandomData(kOneId), Error) << "an open dimension";
}

TEST_F(ReaderFamilyTest, RandomDataOfOneNumberAreThatNumber) {
  const std::vector<SlotSpec> slots = {
      {"whole", kInt64, {3}, 0}, {"half", kFloat16, {3}, 0}, {"real", kFloat32, {3}, 0}};
  Reader reader = RandomData(slots, {.low = 2, .high = 2, .count = 2}, Options());
  for (int i = 0; i < 2; ++i) {
    const Instance instance = reader.ReadNext();
    for (const std::int64_t value : instance[0].Values<std::int64_t>()) EXPECT_EQ(value, 2);
    for (const std::uint16_t bits : instance[1].Values<std::uint16_t>()) EXPECT_EQ(bits, 0x4000);
    for (const float value : instance[2].Values<float>()) EXPECT_EQ(value, 2.0F);
  }
  Reader tenth = RandomData({{"x", kFloat32, {2}, 0}}, {.low = 0.1, .high = 0.1}, Options());
  const Instance tenths = tenth.ReadNext();
  EXPECT_EQ(tenths[0].Values<float>()[1], 0.1F);
}

// The number that bits of a 16-bit form stand for, with so many bits of mantissa.
double Decoded(std::uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double size =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -size : size;
}

TEST_F(ReaderFamilyTest, RandomDataOfShortFloatsStayAtOrAboveLowAndBelowHigh) {
  constexpr std::int64_t kValues = 20'000;
  const std::vector<SlotSpec> slots = {{"half", kFloat16, {kValues}, 0},
                                       {"brain", kBFloat16, {kValues}, 0},
                                       {"single", kFloat32, {kValues}, 0}};
  const std::vector<std::pair<double, double>> ranges = {
      {-2, -1},     {-1, 0},      {-1e-6, 1e-6},  {-0.3, 0.3}, {-65504, -65000}, {0.7, 0.9},
      {-0.9, -0.7}, {100.3, 117}, {-117, -100.3}, {-1e-7, 0},  {0.1, 0.1005}};
  for (const auto& [low, high] : ranges) {
    SCOPED_TRACE(std::to_string(low) + " to " + std::to_string(high));
    Reader reader = RandomData(slots, {.low = low, .high = high, .count = 1}, Options());
    const Instance instance = reader.ReadNext();
    std::set<double> outside;
    for (const std::size_t slot : {0U, 1U}) {
      for (const std::uint16_t bits : instance[slot].Values<std::uint16_t>()) {
        const double value = Decoded(bits, slot == 0 ? 10 : 7);
        if (value < low || value >= high) outside.insert(value);
      }
    }
    for (const float value : instance[2].Values<float>()) {
      if (value < low || value >= high) outside.insert(value);
    }
    EXPECT_EQ(outside, std::set<double>());
  }
}

TEST_F(ReaderFamilyTest, RandomDataBetweenTwoNeighboursOfATypeAreRefused) {
  // Next to 1 come 1 + 2^-10 and 1 + 2^-7.
  const RandomDataOptions between{.low = 1.0001, .high = 1.0005};
  EXPECT_THROW(RandomData({{"x", kFloat16, {1}, 0}}, between), Error);
  EXPECT_THROW(RandomData({{"x", kBFloat16, {1}, 0}}, between), Error);
  EXPECT_NO_THROW(RandomData({{"x", kFloat32, {1}, 0}}, between));
  EXPECT_NO_THROW(RandomData({{"x", kFloat16, {1}, 0}}, {.low = 1, .high = 1.0005}));
  EXPECT_THROW(RandomData({{"x", kFloat32, {1}, 0}}, {.low = 1 + 1e-10, .high = 1 + 2e-10}), Error);
}

/// Rows of each device in the step that `left` rows are left for: whole batches, or, where these do
/// not reach the last device, an equal share and one more for the first ones.
Ids RowsPerDevice(std::size_t left, std::size_t devices, std::size_t batch) {
  Ids rows;
  const bool spread = left <= batch * (devices - 1);
  for (std::size_t d = 0; d < devices; ++d) {
    const std::size_t whole = std::min(batch, left - std::min(left, d * batch));
    const std::size_t share = left / devices + (d < left % devices ? 1 : 0);
    rows.push_back(static_cast<std::int64_t>(spread ? share : whole));
  }
  return rows;
}

TEST_F(ReaderFamilyTest, TheLastRowsAreSpreadOverAllDevicesEachOnce) {
  for (const std::size_t rows : {50U, 3U, 16U, 17U, 1U}) {
    for (const std::size_t devices : {1U, 2U, 4U, 7U}) {
      Reader batches = Batch(OpenFiles(NumberFiles(1, static_cast<int>(rows)), WithSlots()),
                             {.size = 4, .slots = rows % 2 == 0 ? 2 : devices + 2});
      DeviceBatches feed(batches, devices);
      std::vector<Instance> step;
      Ids ids;
      while (feed.ReadNext(&step) == ReadResult::kRecord) {
        const Ids want = RowsPerDevice(rows - ids.size(), devices, 4);
        Ids found;
        for (const Instance& instance : step) {
          found.push_back(instance[0].shape[0]);
          for (const std::int64_t id : instance[0].Values<std::int64_t>()) ids.push_back(id);
        }
        ASSERT_EQ(found, want) << rows << " rows, " << devices << " devices";
      }
      EXPECT_EQ(ids, Range(static_cast<std::int64_t>(rows)));
    }
  }
}

/// Fifty instances: a number, and a sequence of i % 4 words of it.
class FiftySequences final : public InstanceSource {
 public:
  std::vector<SlotSpec> slots() const override {
    return {{"id", kInt64, {-1, 1}, 0}, {"words", kInt64, {-1, 1}, 1}};
  }
  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    static const std::vector<Ids> kLevels = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
    if (next_ == 50) return ReadResult::kEnd;
    const std::int64_t words = next_ % 4;
    instance->push_back(Numbers64({next_}, {1, 1}));
    instance->push_back(Numbers64(Ids(static_cast<std::size_t>(words), next_), {words, 1}));
    instance->back().lod = {kLevels[static_cast<std::size_t>(words)]};
    ++next_;
    return ReadResult::kRecord;
  }

 private:
  std::int64_t next_ = 0;
};

TEST_F(ReaderFamilyTest, SequencesAreSpreadOverAllDevicesEachOnceWithTheirWords) {
  for (const std::size_t devices : {2U, 4U, 7U}) {
    Reader batches = Batch(FromInstanceSource(std::make_unique<FiftySequences>(), Options()),
                           {.size = 4, .slots = devices + 2});
    DeviceBatches feed(batches, devices);
    std::vector<Instance> step;
    Ids ids;
    while (feed.ReadNext(&step) == ReadResult::kRecord) {
      const Ids want = RowsPerDevice(50 - ids.size(), devices, 4);
      Ids found;
      for (const Instance& instance : step) {
        const auto numbers = instance[0].Values<std::int64_t>();
        const auto words = instance[1].Values<std::int64_t>();
        const auto level = instance[1].lod.at(0);
        found.push_back(static_cast<std::int64_t>(numbers.size()));
        ASSERT_EQ(level.size(), numbers.size() + 1);
        Ids want_words;
        for (std::size_t row = 0; row < numbers.size(); ++row) {
          EXPECT_EQ(level[row + 1] - level[row], numbers[row] % 4);
          want_words.insert(want_words.end(), static_cast<std::size_t>(numbers[row] % 4),
                            numbers[row]);
        }
        EXPECT_EQ(Ids(words.begin(), words.end()), want_words);
        ids.insert(ids.end(), numbers.begin(), numbers.end());
      }
      ASSERT_EQ(found, want) << devices << " devices";
    }
    EXPECT_EQ(ids, Range(50));
  }
}

TEST_F(ReaderFamilyTest, SpreadRowsKeepTheirLoD) {
  // Sequences of 1, 2, 3 words, and of 0 and 4: five top-level rows, fifteen words.
  const Ids first_level = {0, 1, 3, 6};
  const Ids second_level = {0, 0, 4};
  Tensor a = Numbers64({1, 2, 2, 3, 3, 3}, {6, 1});
  a.lod = {first_level};
  Tensor b = Numbers64({4, 4, 4, 4}, {4, 1});
  b.lod = {second_level};
  const std::vector<Instance> spread = SpreadRows({{a}, {b}}, 2);
  ASSERT_EQ(spread.size(), 2U);
  EXPECT_EQ(Ids(spread[0][0].lod[0].begin(), spread[0][0].lod[0].end()), (Ids{0, 1, 3, 6}));
  EXPECT_EQ(Ids(spread[1][0].lod[0].begin(), spread[1][0].lod[0].end()), (Ids{0, 0, 4}));
  EXPECT_EQ(spread[0][0].shape, (Shape{6, 1}));
  EXPECT_EQ(spread[1][0].shape, (Shape{4, 1}));
  EXPECT_EQ(spread[1][0].Values<std::int64_t>()[3], 4);
}

TEST_F(ReaderFamilyTest, InstancesPassAsTheyAreAndAreJoinedWithTheirLoDBehindBatch) {
  Reader plain = FromInstanceSource(std::make_unique<SequencesReader>(), Options());
  const Instance first = plain.ReadNext();
  EXPECT_EQ(Ids(first[0].lod[0].begin(), first[0].lod[0].end()), (Ids{0, 2, 5}));
  Reader joined =
      Batch(FromInstanceSource(std::make_unique<SequencesReader>(), Options()), {.size = 2});
  const Instance batch = joined.ReadNext();
  EXPECT_EQ(batch[0].shape, (Shape{8, 1}));
  EXPECT_EQ(Ids(batch[0].lod[0].begin(), batch[0].lod[0].end()), (Ids{0, 2, 5, 6, 8}));
}

}  // namespace
}  // namespace ringfeed
