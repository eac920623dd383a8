#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class MapTest : public PipelineTest {
 protected:
  OpenOptions InFileOrder() const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.threads = 4;
    return options;
  }
  static std::uint64_t IdOf(const MapInput& input) {
    const auto id = IdOfPayload(input.record.bytes());
    return id ? *id : ~std::uint64_t{0};
  }
  /// Writes the record's number.
  static void WriteId(const MapInput& input, RowWriter& output, std::size_t field = 0) {
    const std::uint64_t id = IdOf(input);
    std::memcpy(output.Fixed(field).data(), &id, sizeof(id));
  }
  static std::vector<std::uint64_t> ReadIds(Reader reader, Status* status = nullptr) {
    std::vector<std::uint64_t> ids;
    Instance batch;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
      const auto values = batch[0].Values<std::uint64_t>();
      ids.insert(ids.end(), values.begin(), values.end());
    }
    if (status != nullptr) *status = reader.status();
    return ids;
  }
};

const std::vector<FieldSpec> kId{{"id", kUInt64, {}}};

TEST_F(MapTest, FixedOutputsComeInOrderFromSeveralThreadsAtOnce) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  Reader mapped = Map(OpenFiles(MakeFiles(2, 200, 8, 60), InFileOrder()), kId,
                      [&](const MapInput& input, RowWriter& output) {
                        EXPECT_EQ(input.fields, nullptr);
                        most.store(std::max(most.load(), ++inside));
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                        --inside;
                        const std::lock_guard lock(mutex);
                        threads.insert(std::this_thread::get_id());
                        WriteId(input, output);
                      });
  EXPECT_EQ(ReadIds(Batch(mapped, {.size = 64})), Numbers(400));
  EXPECT_GT(threads.size(), 1u);
  EXPECT_GT(most.load(), 1);
}

TEST_F(MapTest, RaggedOutputsComeInOrderBesideFixedOnes) {
  Reader mapped = Map(OpenFiles(MakeFiles(3, 100, 8, 60), InFileOrder()),
                      {{"id", kUInt64, {}}, {"copies", kUInt64, {-1}}},
                      [](const MapInput& input, RowWriter& output) {
                        WriteId(input, output);
                        const std::vector<std::uint64_t> copies(IdOf(input) % 5, IdOf(input));
                        output.Ragged(1, std::as_bytes(std::span(copies)));
                      });
  Reader reader = Batch(mapped, {.size = 32});
  std::uint64_t next = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    const auto ids = batch[0].Values<std::uint64_t>();
    const auto copies = batch[1].Values<std::uint64_t>();
    const auto offsets = batch[1].lod[0];
    for (std::size_t row = 0; row < ids.size(); ++row, ++next) {
      ASSERT_EQ(ids[row], next);
      ASSERT_EQ(offsets[row + 1] - offsets[row], static_cast<std::int64_t>(next % 5));
      for (auto at = offsets[row]; at < offsets[row + 1]; ++at) {
        ASSERT_EQ(copies[static_cast<std::size_t>(at)], next);
      }
    }
  }
  EXPECT_EQ(next, 300u);
}

TEST_F(MapTest, ParsedFieldsAreShownAndSeveralMapsMayFollowOneAnother) {
  Reader parsed = Parse(OpenFiles(MakeFiles(1, 100, 8, 60), InFileOrder()), RawParser());
  Reader sized = Map(parsed, {{"size", kUInt64, {}}, {"bytes", kUInt8, {-1}}},
                     [](const MapInput& input, RowWriter& output) {
                       const Tensor& bytes = input.fields->front();
                       const std::uint64_t size = bytes.bytes;
                       std::memcpy(output.Fixed(0).data(), &size, sizeof(size));
                       output.Ragged(1, {bytes.data, bytes.bytes});
                     });
  Reader checked = Map(sized, kId, [](const MapInput& input, RowWriter& output) {
    const Instance& fields = *input.fields;
    const std::uint64_t size = fields[0].Values<std::uint64_t>()[0];
    const auto id = IdOfPayload({fields[1].data, fields[1].bytes});
    const std::uint64_t result = id && fields[1].bytes == size ? *id : ~std::uint64_t{0};
    std::memcpy(output.Fixed(0).data(), &result, sizeof(result));
  });
  EXPECT_EQ(ReadIds(Batch(checked, {.size = 9})), Numbers(100));
}

TEST_F(MapTest, WhatItThrowsFailsTheStreamAtThatRowUnderEveryPolicy) {
  const auto files = MakeFiles(2, 200, 8, 60);
  for (const bool ragged : {false, true}) {
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      OpenOptions options = InFileOrder();
      options.on_damage = policy;
      std::vector<FieldSpec> fields = kId;
      if (ragged) fields.push_back({"rest", kUInt8, {-1}});
      Reader mapped = Map(OpenFiles(files, options), fields,
                          [ragged](const MapInput& input, RowWriter& output) {
                            if (IdOf(input) == 261) throw std::runtime_error("no such cat");
                            if (IdOf(input) == 300) throw 42;
                            WriteId(input, output);
                            if (ragged) output.Ragged(1, {});
                          });
      Status status;
      EXPECT_EQ(ReadIds(Batch(mapped, {.size = 50}), &status), Numbers(261));
      EXPECT_EQ(status.code(), StatusCode::kUserError);
      EXPECT_NE(status.message().find("no such cat"), std::string::npos) << status.ToString();
    }
  }
}

// One of two fields is not written of row 261: fixed or ragged, beside a fixed or a ragged one,
// with batches or without, under every policy.
TEST_F(MapTest, AFieldThatWasNotWrittenFailsTheStreamAtThatRowUnderEveryPolicy) {
  const auto files = MakeFiles(2, 200, 8, 60);
  for (const int ragged : {0, 1, 2}) {
    const bool other_is_ragged = ragged == 1;
    const FieldSpec second{"y", kUInt64, ragged > 0 ? Shape{-1} : Shape{}};
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      for (const bool batched : {false, true}) {
        OpenOptions options = InFileOrder();
        options.on_damage = policy;
        // With ragged 1 the fixed field is left out, else the second one.
        Reader reader = Map(OpenFiles(files, options), {kId[0], second},
                            [&](const MapInput& input, RowWriter& output) {
                              const bool left_out = IdOf(input) == 261;
                              if (!left_out || !other_is_ragged) WriteId(input, output);
                              if (left_out && !other_is_ragged) return;
                              if (ragged == 0) WriteId(input, output, 1);
                              if (ragged > 0) output.Ragged(1, {});
                            });
        if (batched) reader = Batch(reader, {.size = 50});
        Status status;
        EXPECT_EQ(ReadIds(reader, &status), Numbers(261));
        EXPECT_EQ(status.code(), StatusCode::kUserError);
        const std::string wanted = std::string("field \"") + (other_is_ragged ? "id" : "y") +
                                   "\" was not written by the Map function";
        EXPECT_NE(status.message().find(wanted), std::string::npos) << status.ToString();
      }
    }
  }
}

TEST_F(MapTest, TheLastOfManyFieldsIsMissedToo) {
  std::vector<FieldSpec> fields;
  for (int field = 0; field < 130; ++field) {
    fields.push_back({"f" + std::to_string(field), kUInt64, {}});
  }
  const auto files = MakeFiles(1, 5, 8, 60);
  for (const std::size_t left_out : {0u, 63u, 64u, 128u, 129u}) {
    Reader reader = Batch(Map(OpenFiles(files, InFileOrder()), fields,
                              [=](const MapInput& input, RowWriter& output) {
                                for (std::size_t field = 0; field < 130; ++field) {
                                  if (field != left_out) WriteId(input, output, field);
                                }
                              }),
                          {.size = 5});
    Instance batch;
    ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kFailed);
    const std::string wanted = "field \"f" + std::to_string(left_out) + "\" was not written";
    EXPECT_NE(reader.status().message().find(wanted), std::string::npos)
        << reader.status().ToString();
  }
}

// A row that wrote all fields says nothing of the next one, and neither does a Map before this.
TEST_F(MapTest, AMapOnAnotherAndWhatPadsItMissAFieldToo) {
  const auto files = MakeFiles(1, 50, 8, 60);
  const auto chain = [&](std::uint64_t first_leaves, std::uint64_t second_leaves) {
    Reader first = Map(OpenFiles(files, InFileOrder()), {{"id", kUInt64, {}}, {"v", kUInt8, {-1}}},
                       [=](const MapInput& input, RowWriter& output) {
                         WriteId(input, output);
                         if (IdOf(input) != first_leaves) output.Ragged(1, {});
                       });
    Reader second = Map(first, {{"id", kUInt64, {}}, {"w", kUInt8, {-1}}},
                        [=](const MapInput& input, RowWriter& output) {
                          const auto id = (*input.fields)["id"].Values<std::uint64_t>()[0];
                          if (id != second_leaves) {
                            std::memcpy(output.Fixed(0).data(), &id, sizeof(id));
                          }
                          output.Ragged(1, {});
                        });
    return Batch(Pad(second, "w", {.length = 3}), {.size = 10});
  };
  Status status;
  EXPECT_EQ(ReadIds(chain(20, 99), &status), Numbers(20));
  EXPECT_NE(status.message().find("field \"v\" was not written"), std::string::npos);
  EXPECT_EQ(ReadIds(chain(99, 30), &status), Numbers(30));
  EXPECT_NE(status.message().find("field \"id\" was not written"), std::string::npos);
}

TEST_F(MapTest, WritingAFieldOfTheOtherKindIsAnError) {
  const auto files = MakeFiles(1, 5, 8, 60);
  Status status;
  ReadIds(Map(OpenFiles(files, InFileOrder()), kId,
              [](const MapInput&, RowWriter& output) { output.Ragged(0, {}); }),
          &status);
  EXPECT_EQ(status.code(), StatusCode::kUserError);
  ReadIds(Map(OpenFiles(files, InFileOrder()), kId,
              [](const MapInput&, RowWriter& output) { (void)output.Fixed(1); }),
          &status);
  EXPECT_EQ(status.code(), StatusCode::kUserError);
}

TEST_F(MapTest, BehindAShuffleEachRowIsMappedOnce) {
  std::atomic<int> calls{0};
  Reader mapped = Map(Shuffle(OpenFiles(MakeFiles(2, 500, 8, 60), InFileOrder()), {.window = 100}),
                      kId, [&](const MapInput& input, RowWriter& output) {
                        ++calls;
                        WriteId(input, output);
                      });
  EXPECT_EQ(Sorted(ReadIds(Batch(mapped, {.size = 32}))), Numbers(1000));
  EXPECT_EQ(calls.load(), 1000);
}

}  // namespace
}  // namespace ringfeed
