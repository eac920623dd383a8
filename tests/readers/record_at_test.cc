// Records by their numbers, and which records a batch has, against what a chain delivers.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

std::string TextOf(const Instance& instance) {
  std::string text;
  for (const Tensor& tensor : instance) {
    text += ShapeToString(tensor.shape);
    for (const auto& level : tensor.lod) {
      for (const std::int64_t end : level) text += " " + std::to_string(end);
    }
    text.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
  }
  return text + (instance.is_record() ? "record" : "batch");
}

std::vector<std::string> AllOf(Reader reader) {
  std::vector<std::string> all;
  Instance instance;
  while (reader.TryReadNext(&instance) == ReadResult::kRecord) all.push_back(TextOf(instance));
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  return all;
}

class RecordAtTest : public PipelineTest {
 protected:
  std::vector<std::string> TestData() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(RINGFEED_TEST_DATA)) {
      // That names other files, which come by themselves.
      const bool table = entry.path().filename() == "index.json";
      if (entry.is_regular_file() && !table) files.push_back(entry.path().string());
    }
    return files;
  }
};

TEST_F(RecordAtTest, EveryRecordIsTheOneThatReadingInOrderGives) {
  std::size_t compared = 0;
  for (const std::string& file : TestData()) {
    SCOPED_TRACE(file);
    OpenOptions options = Options();
    options.index = IndexUse::kNever;
    Reader in_order = OpenFiles({file}, options);
    std::vector<std::string> wanted;
    Instance record;
    while (in_order.TryReadNext(&record) == ReadResult::kRecord) wanted.push_back(TextOf(record));
    if (!in_order.status().ok()) continue;
    options.index = IndexUse::kAsNeeded;
    options.index_folder = directory_.path();
    const Reader reader = OpenFiles({file}, options);
    std::vector<std::uint64_t> counts;
    try {
      counts = reader.FileRecords();
    } catch (const Error&) {
      continue;  // compressed
    }
    ASSERT_EQ(counts, std::vector<std::uint64_t>{wanted.size()});
    for (std::size_t number = wanted.size(); number-- > 0;) {
      ASSERT_EQ(TextOf(reader.RecordAt(number)), wanted[number]);
    }
    compared += wanted.size();
  }
  EXPECT_GT(compared, 100U);
}

TEST_F(RecordAtTest, RecordsAreParsedAsAChainParsesThem) {
  const std::vector<std::string> files = MakeFiles(3, 50, 8, 200);
  const auto parsed = [&] { return Parse(OpenFiles(files, Options()), RawParser()); };
  const std::vector<std::string> wanted = AllOf(parsed());
  const Reader reader = parsed();
  ASSERT_EQ(wanted.size(), 150U);
  for (std::size_t number = 0; number < wanted.size(); ++number) {
    ASSERT_EQ(TextOf(reader.RecordAt(number)), wanted[number]);
  }
  // Several as a batch, whatever follows Parse in their chain.
  const std::vector<std::string> batches = AllOf(Batch(parsed(), {.size = 40}));
  const Reader longer =
      Batch(Shuffle(parsed(), {.seed = 3, .mode = ShuffleMode::kGlobal}), {.size = 7});
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t n = 40 * batch; n < std::min<std::uint64_t>(150, 40 * batch + 40); ++n) {
      numbers.push_back(n);
    }
    ASSERT_EQ(TextOf(longer.RecordsAt(numbers)), batches[batch]);
  }
  EXPECT_EQ(longer.Stats().read_bytes, 0U);  // its threads were not started
}

TEST_F(RecordAtTest, RowsOfAMapAndOfPackedRecordsAreMadeAsInTheirChain) {
  const std::vector<std::string> files = MakeFiles(2, 30, 8, 50);
  const auto mapped = [&] {
    const auto place = [](const MapInput& in, RowWriter& out) {
      const DataPlace at = in.Place();
      const std::array<std::uint64_t, 3> values = {
          at.file.size(), static_cast<std::uint64_t>(at.record), in.Draw(3)};
      std::ranges::copy(std::as_bytes(std::span(values)), out.Fixed(0).begin());
    };
    return Map(Parse(OpenFiles(files, Options()), RawParser()), {{"place", kUInt64, {3}}}, place,
               {.seed = 5});
  };
  const std::vector<std::string> wanted = AllOf(mapped());
  const Reader reader = mapped();
  for (std::size_t number = 0; number < wanted.size(); ++number) {
    ASSERT_EQ(TextOf(reader.RecordAt(number)), wanted[number]);
  }
  const auto parsed = [&] { return Parse(OpenFiles(files, Options()), RawParser()); };
  const std::vector<std::string> rows = AllOf(parsed());
  PackOptions pack;
  pack.field = "bytes";
  pack.length = 64;
  pack.rows = 2;
  const Reader packed = Pack(parsed(), pack);
  EXPECT_EQ(TextOf(packed.RecordAt(7)), rows[7]);
}

TEST_F(RecordAtTest, SeveralThreadsAndAChildReadTheSame) {
  const std::vector<std::string> files = MakeFiles(5, 200, 8, 300);
  const auto parsed = [&] { return Parse(OpenFiles(files, Options()), RawParser()); };
  const std::vector<std::string> wanted = AllOf(parsed());
  const Reader reader = parsed();
  const auto count_wrong = [&](std::uint64_t seed) {
    std::mt19937_64 draws(seed);
    int wrong = 0;
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t number = draws() % wanted.size();
      wrong += TextOf(reader.RecordAt(number)) == wanted[number] ? 0 : 1;
    }
    return wrong;
  };
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] { wrong[i] = count_wrong(i); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  const pid_t child = fork();
  if (child == 0) _exit(count_wrong(9) == 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(RecordAtTest, WhatCannotBeHadIsRefusedWithItsPlace) {
  const std::vector<std::string> files = MakeFiles(2, 20, 100, 100);
  // A record has its length, two checksums and 100 bytes.
  {
    std::fstream file(files[1], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(116 * 7 + 50);
    file.put('!');
  }
  const Reader reader = Parse(OpenFiles(files, Options()), RawParser());
  const auto refused = [&](std::uint64_t number) -> Status {
    try {
      (void)reader.RecordAt(number);
    } catch (const Error& error) {
      return error.status();
    }
    return {};
  };
  for (std::uint64_t number = 0; number < 40; ++number) {
    const Status status = refused(number);
    if (number != 27) {
      ASSERT_TRUE(status.ok()) << number << ": " << status.ToString();
      continue;
    }
    EXPECT_EQ(status.code(), StatusCode::kDamaged);
    EXPECT_EQ(status.place().file, files[1]);
    EXPECT_EQ(status.place().record, 7);
    EXPECT_EQ(status.place().offset, 116 * 7);
  }
  EXPECT_EQ(refused(40).code(), StatusCode::kInvalidArgument);
  const std::vector<std::uint64_t> one_of_three = {3, 27, 5};
  EXPECT_THROW((void)reader.RecordsAt(one_of_three), Error);
  const Reader unparsed = OpenFiles(files, Options());
  EXPECT_EQ(unparsed.RecordAt(3).Rows(), 1);
  EXPECT_THROW((void)unparsed.RecordsAt(one_of_three), Error);
  // A file that was replaced after its index was opened is another one.
  std::filesystem::remove(files[0]);
  std::filesystem::copy_file(files[1], files[0]);
  const Reader later = Parse(OpenFiles(files, Options()), RawParser());
  EXPECT_EQ(later.RecordAt(3).Rows(), 1);
}

/// Numbers of the records of a batch that was read.
std::vector<std::uint64_t> NumbersOf(const BatchOrigin& origin, std::uint64_t records_of_file) {
  std::vector<std::uint64_t> numbers;
  for (const RecordRange& range : origin.records) {
    for (std::uint64_t i = 0; i < range.count; ++i) {
      numbers.push_back(range.file * records_of_file + range.first + i);
    }
  }
  return numbers;
}

TEST_F(RecordAtTest, WhichTellsTheRecordsOfEveryBatchOfAnyOrder) {
  constexpr std::uint64_t kRecords = 37;
  const std::vector<std::string> files = MakeFiles(4, kRecords, 8, 60);
  for (int seed = 0; seed < StressRounds(150); ++seed) {
    std::mt19937_64 draws(static_cast<std::uint64_t>(seed));
    const std::uint64_t mode = draws() % 5;
    const bool mixes = draws() % 4 == 0;
    const std::uint64_t changes = draws() % 12;  // the step at which the weights change; 0: none
    const std::uint64_t passes = 1 + draws() % 3;
    const bool joined = draws() % 2 == 0;
    BatchOptions batch;
    batch.size = 1 + draws() % 30;
    batch.pad = draws() % 3 == 0;
    batch.drop_remainder = !batch.pad && draws() % 2 == 0;
    const bool batched = draws() % 5 > 0;
    const std::size_t ranks = batched ? 1 + draws() % std::min<std::size_t>(3, batch.size) : 1;
    batch.size -= batch.size % ranks;
    const auto rank = static_cast<int>(draws() % ranks);
    batch.rank = {rank, static_cast<int>(ranks)};
    batch.empty_batches = true;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto chain = [&] {
      OpenOptions options = Options();
      options.stripe_bytes = 4096;
      options.note_records = true;
      Reader reader;
      if (mixes) {
        const auto part = [&](std::size_t first) {
          return OpenFiles({files[first], files[first + 1]}, options);
        };
        MixOptions mix;
        if (mode == 0 && changes > 0) mix.schedule = {{0, {2, 1}}, {changes, {1, 3}}};
        reader = Mix({{part(0), mix.schedule.empty() ? 2.0 : 1.0}, {part(2), 1.0}}, mix, options);
      } else {
        reader = OpenFiles(files, options);
      }
      ShuffleOptions shuffle{.seed = 5};
      if (mode == 1) shuffle.mode = ShuffleMode::kGlobal;
      if (mode == 2) shuffle.window = 20;
      if (mode == 3) shuffle.block = 11;
      if (mode == 4) shuffle.mode = ShuffleMode::kStripes;
      if (mixes && mode == 4) shuffle = {.window = 9};
      if (mixes && mode == 1) shuffle = {.window = 9};
      if (mode != 0) reader = Shuffle(std::move(reader), shuffle);
      if (joined) reader = MultiPass(std::move(reader), passes);
      reader = Parse(std::move(reader), RawParser());
      if (batched) reader = Batch(std::move(reader), batch);
      return joined ? reader : MultiPass(std::move(reader), passes);
    };
    Reader reader = chain();
    const Reader plan = chain();
    Instance instance;
    BatchOrigin origin;
    std::uint64_t batches = 0;
    std::string middle;
    while (reader.TryReadNext(&instance, {.origin = &origin}) == ReadResult::kRecord) {
      ASSERT_EQ(origin.batch, batches++);
      const std::vector<BatchRecord> which = plan.Which(origin.batch);
      std::vector<std::uint64_t> numbers;
      for (std::size_t i = 0; i < which.size(); ++i) {
        numbers.push_back(which[i].number);
        ASSERT_EQ(which[i].row, i);
        ASSERT_EQ(which[i].number, which[i].file * kRecords + which[i].record);
      }
      ASSERT_EQ(numbers, NumbersOf(origin, kRecords)) << "batch " << origin.batch;
      if (batches == 2) middle = reader.Position();
      if (!middle.empty()) {
        ASSERT_EQ(plan.Which(origin.batch, batches == 2 ? std::string() : middle), which);
      }
    }
    ASSERT_TRUE(reader.status().ok()) << reader.status().ToString();
    EXPECT_THROW((void)plan.Which(batches), Error);
    if (!middle.empty()) {
      EXPECT_THROW((void)plan.Which(0, middle), Error);
    }
  }
}

TEST_F(RecordAtTest, WhichFollowsAMixtureThatGoesOnWithOtherWeights) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 60);
  const auto chain = [&](double second) {
    OpenOptions options = Options();
    options.note_records = true;
    const Reader one = OpenFiles({files[0]}, options);
    const Reader other = OpenFiles({files[1]}, options);
    return Batches(Mix({{one, 1.0}, {other, second}}, options), 8);
  };
  Reader first = chain(1);
  Instance instance;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(first.TryReadNext(&instance), ReadResult::kRecord);
  const std::string position = first.Position();
  Reader rest = chain(3);
  rest.Restore(position);
  BatchOrigin origin;
  std::uint64_t batches = 4;
  while (rest.TryReadNext(&instance, {.origin = &origin}) == ReadResult::kRecord) {
    std::vector<std::uint64_t> numbers;
    for (const BatchRecord& record : chain(3).Which(batches, position)) {
      numbers.push_back(record.number);
    }
    EXPECT_EQ(numbers, NumbersOf(origin, 60)) << batches;
    ++batches;
  }
  EXPECT_EQ(batches, 15U);
}

TEST_F(RecordAtTest, BatchesThatDependOnWhatIsReadAreRefused) {
  const std::vector<std::string> files = MakeFiles(1, 20, 8, 60);
  const Reader reader =
      Batches(Filter(OpenFiles(files, Options()), [](const RecordSpan&) { return true; }), 4);
  try {
    (void)reader.Which(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kUnsupported);
  }
}

}  // namespace
}  // namespace ringfeed
