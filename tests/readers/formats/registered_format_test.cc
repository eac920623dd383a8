// Formats of the user's own, by where a record ends.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"

namespace ringfeed {
namespace {

/// A header "boxes 1\n", then records: '>', a length of two bytes, the payload, and its sum in a
/// byte.
class Boxes final : public RecordFormat {
 public:
  static constexpr std::string_view kHeader = "boxes 1\n";
  static constexpr std::size_t kBefore = 3;

  static unsigned SumOf(std::span<const std::byte> bytes) {
    unsigned sum = 7;
    for (const std::byte byte : bytes) sum = (sum * 31 + std::to_integer<unsigned>(byte)) % 251;
    return sum;
  }
  static void Append(std::span<const std::byte> record, std::string* file) {
    file->push_back('>');
    file->push_back(static_cast<char>(record.size() & 0xff));
    file->push_back(static_cast<char>(record.size() >> 8));
    file->append(reinterpret_cast<const char*>(record.data()), record.size());
    file->push_back(static_cast<char>(SumOf(record)));
  }

  FoundRecord Find(std::span<const std::byte> bytes, std::uint64_t offset,
                   bool /*at_end*/) const override {
    FoundRecord found;
    if (offset == 0) {
      found.is_record = false;
      if (bytes.size() < kHeader.size()) {
        found.need_bytes = kHeader.size();
      } else if (std::memcmp(bytes.data(), kHeader.data(), kHeader.size()) != 0) {
        found.status = Status(StatusCode::kDamaged, "the header is another one");
      } else {
        found.end = kHeader.size();
      }
      return found;
    }
    if (bytes.size() < kBefore) {
      found.need_bytes = kBefore;
      return found;
    }
    if (bytes[0] != std::byte{'>'}) {
      found.status = Status(StatusCode::kDamaged, "no box begins here");
      return found;
    }
    const std::size_t length =
        std::to_integer<std::size_t>(bytes[1]) | std::to_integer<std::size_t>(bytes[2]) << 8;
    if (bytes.size() < kBefore + length + 1) {
      found.need_bytes = kBefore + length + 1;
      return found;
    }
    found.begin = kBefore;
    found.bytes = length;
    found.end = kBefore + length + 1;
    if (SumOf(bytes.subspan(kBefore, length)) != std::to_integer<unsigned>(bytes[found.end - 1])) {
      found.status = Status(StatusCode::kDamaged, "the box's sum is another one");
    }
    return found;
  }
};

class RegisteredFormatTest : public PipelineTest {
 protected:
  static void SetUpTestSuite() {
    RegisterRecordFormat("boxes", std::make_shared<const Boxes>(), std::string(Boxes::kHeader));
  }
  /// Numbered records; returns where each begins, and the end.
  std::vector<std::size_t> Write(const std::string& path, std::uint64_t first, std::size_t count,
                                 std::size_t most) {
    std::string file(Boxes::kHeader);
    std::vector<std::size_t> places;
    for (const std::size_t size : RandomSizes(first, count, 8, most)) {
      places.push_back(file.size());
      Boxes::Append(RecordPayload(first++, size), &file);
    }
    places.push_back(file.size());
    std::ofstream(path, std::ios::binary) << file;
    return places;
  }
  static void Flip(const std::string& path, std::size_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x20));
  }
};

TEST_F(RegisteredFormatTest, EveryOrderReadsIt) {
  std::vector<std::string> files;
  for (std::uint64_t i = 0; i < 4; ++i) {
    // By its ending, and by its magic.
    files.push_back(directory_.File(std::to_string(i) + (i % 2 == 0 ? ".boxes" : ".data")));
    Write(files.back(), 500 * i, 500, 900);
  }
  const std::optional<ShuffleOptions> orders[] = {
      std::nullopt,
      ShuffleOptions{.window = 50, .seed = 2},
      ShuffleOptions{.seed = 2, .mode = ShuffleMode::kStripes},
      ShuffleOptions{.seed = 2, .mode = ShuffleMode::kGlobal},
  };
  for (const auto& order : orders) {
    for (const int ranks : {1, 2}) {
      std::vector<std::uint64_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        Reader reader = OpenFiles(files, Options());
        if (order) reader = Shuffle(reader, *order);
        Reader batches = Batch(Parse(reader, RawParser()),
                               {.size = 20, .rank = {.rank = rank, .world_size = ranks}});
        const Drained found = Drain(batches);
        EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
        EXPECT_EQ(found.strange, 0u);
        all.insert(all.end(), found.ids.begin(), found.ids.end());
      }
      EXPECT_EQ(Sorted(all), Numbers(2000));
    }
  }
}

TEST_F(RegisteredFormatTest, APositionIsRestored) {
  const std::string path = directory_.File("a.boxes");
  Write(path, 0, 3000, 300);
  const auto chain = [&] {
    return Batches(Shuffle(OpenFiles({path}, Options()), {.seed = 5, .mode = ShuffleMode::kGlobal}),
                   50);
  };
  Reader whole = chain();
  const Drained wanted = Drain(whole);
  Reader first = chain();
  Instance batch;
  for (int i = 0; i < 17; ++i) ASSERT_EQ(first.TryReadNext(&batch), ReadResult::kRecord);
  Reader rest = chain();
  rest.Restore(first.Position());
  const Drained found = Drain(rest);
  EXPECT_EQ(found.ids, std::vector(wanted.ids.begin() + 17 * 50, wanted.ids.end()));
}

TEST_F(RegisteredFormatTest, CompressedFilesAreRead) {
  const std::string path = directory_.File("a.boxes");
  Write(path, 0, 700, 300);
  const std::string text = ReadBytes(path);
  const std::string packed = directory_.File("a.boxes.gz");
  WriteBytes(packed, Compress(std::as_bytes(std::span(text)), {}));
  Reader reader = Batches(OpenFiles({packed}, Options()), 50);
  EXPECT_EQ(Drain(reader).ids, Numbers(700));
}

// A payload is flipped: that record is lost. A length or a mark is: the rest of the file.
TEST_F(RegisteredFormatTest, DamageCostsWhatTheFormatSays) {
  for (const bool global : {false, true}) {
    for (const bool of_payload : {false, true}) {
      const std::string path = directory_.File(of_payload ? "payload.boxes" : "mark.boxes");
      const auto places = Write(path, 0, 400, 300);
      Flip(path, places[200] + (of_payload ? 10 : 0));
      const auto read = [&](OnDamage policy) {
        OpenOptions options = Options();
        options.on_damage = policy;
        options.cycle = 1;
        Reader reader = OpenFiles({path}, options);
        if (global) reader = Shuffle(reader, {.seed = 5, .mode = ShuffleMode::kGlobal});
        Reader batches = Batches(reader, 50);
        Drained found = Drain(batches);
        EXPECT_EQ(batches.Stats().damaged_records > 0, policy == OnDamage::kSkip);
        return found;
      };
      const Drained skipped = read(OnDamage::kSkip);
      EXPECT_EQ(skipped.end, ReadResult::kEnd) << skipped.status.ToString();
      std::vector<std::uint64_t> left = Numbers(of_payload ? 400 : 200);
      if (of_payload) left.erase(left.begin() + 200);
      EXPECT_EQ(Sorted(skipped.ids), left);
      if (global) continue;
      const Drained failed = read(OnDamage::kFail);
      EXPECT_EQ(failed.ids, Numbers(200));
      EXPECT_EQ(failed.status.code(), StatusCode::kDamaged);
      EXPECT_EQ(failed.status.place().offset, static_cast<std::int64_t>(places[200]));
      EXPECT_EQ(failed.status.place().record, 200);
    }
  }
}

TEST_F(RegisteredFormatTest, AFileThatEndsInsideARecordIsTruncated) {
  const std::string path = directory_.File("a.boxes");
  const auto places = Write(path, 0, 100, 300);
  std::filesystem::resize_file(path, places[100] - 1);
  Reader reader = Batches(OpenFiles({path}, Options()), 7);
  const Drained found = Drain(reader);
  EXPECT_EQ(found.ids, Numbers(99));
  EXPECT_EQ(found.status.code(), StatusCode::kTruncated);
}

/// Answers that cannot be.
class Wrong final : public RecordFormat {
 public:
  explicit Wrong(int how) : how_(how) {}
  FoundRecord Find(std::span<const std::byte> bytes, std::uint64_t /*offset*/,
                   bool /*at_end*/) const override {
    FoundRecord found{.begin = 0, .bytes = 1, .end = 1};
    if (how_ == 0) found.end = 0;
    if (how_ == 1) found.end = bytes.size() + 1;
    if (how_ == 2) found.begin = 1;
    if (how_ == 3) found.need_bytes = bytes.size();
    if (how_ == 4) throw std::runtime_error("it throws");
    if (how_ == 5) throw 5;
    if (how_ == 6) found.bytes = ~std::size_t{0};
    return found;
  }

 private:
  const int how_;
};

TEST_F(RegisteredFormatTest, AnAnswerThatCannotBeFailsTheChainUnderEveryPolicy) {
  const std::string path = directory_.File("data");
  std::ofstream(path) << "some bytes";
  for (int how = 0; how < 7; ++how) {
    const std::string tag = "wrong" + std::to_string(how);
    RegisterRecordFormat(tag, std::make_shared<const Wrong>(how));
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      OpenOptions options = Options();
      options.on_damage = policy;
      options.format = tag;
      Reader reader = Batches(OpenFiles({path}, options), 7);
      const Drained found = Drain(reader);
      EXPECT_EQ(found.status.code(), StatusCode::kUserError) << how << found.status.ToString();
      EXPECT_NE(found.status.message().find("the format " + tag), std::string::npos);
    }
  }
}

TEST_F(RegisteredFormatTest, ATagIsRegisteredOnce) {
  const auto format = std::make_shared<const Boxes>();
  for (const char* const tag : {"boxes", "tfrecord", "Boxes", "", "a-b"}) {
    EXPECT_THROW(RegisterRecordFormat(tag, format), Error) << tag;
  }
  EXPECT_THROW(RegisterRecordFormat("none", nullptr), Error);
}

}  // namespace
}  // namespace ringfeed
