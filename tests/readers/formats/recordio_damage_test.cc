#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>

#include "readers/formats/recordio/recordio.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/recordio_file.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, OnDamage on_damage, const Feeding& feeding = {},
             std::size_t max_record_bytes = std::size_t{1} << 30) {
  return FrameAll(*RecordIoFormat({}), file, on_damage, feeding, max_record_bytes);
}

struct Chunk {
  std::string bytes;
  Strings records;
};

std::vector<Chunk> SomeChunks() {
  std::vector<Chunk> chunks;
  const std::vector<Strings> contents = {
      {"ABC", "BCD"}, {""}, {"first", "", "third"}, {"x"}, {std::string(300, 'y'), "z"}};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    chunks.push_back({i % 2 == 0 ? FluidChunk(contents[i]) : GoChunk(contents[i]), contents[i]});
  }
  return chunks;
}

std::string FileOf(const std::vector<Chunk>& chunks) {
  std::string file;
  for (const Chunk& chunk : chunks) file += chunk.bytes;
  return file;
}

Strings RecordsOf(const std::vector<Chunk>& chunks, std::size_t end, std::size_t without = 99) {
  Strings records;
  for (std::size_t i = 0; i < end; ++i) {
    if (i == without) continue;
    records.insert(records.end(), chunks[i].records.begin(), chunks[i].records.end());
  }
  return records;
}

// Calls check(offset, number of the chunk that it is in).
template <typename Check>
void ForEveryByte(const std::vector<Chunk>& chunks, Check check) {
  std::size_t at = 0;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (const std::size_t end = at + chunks[chunk].bytes.size(); at < end; ++at) check(at, chunk);
  }
}

TEST(RecordIoDamageTest, AFlippedByteCostsItsChunkAlone) {
  const std::vector<Chunk> chunks = SomeChunks();
  ForEveryByte(chunks, [&](std::size_t at, std::size_t chunk) {
    for (const char flip : {'\x01', '\x80', '\x10'}) {
      std::string file = FileOf(chunks);
      file[at] = static_cast<char>(file[at] ^ flip);
      const Framed failed = Frame(file, OnDamage::kFail);
      ASSERT_FALSE(failed.status.ok()) << at;
      ASSERT_EQ(failed.records, RecordsOf(chunks, chunk)) << at;
      ASSERT_LE(failed.status.place().offset, static_cast<std::int64_t>(at));
      for (const bool known : {true, false}) {
        const Framed skipped =
            Frame(file, OnDamage::kSkip, {.ends = {at, at + 9}, .known_size = known});
        ASSERT_TRUE(skipped.status.ok()) << at << skipped.status.ToString();
        ASSERT_FALSE(skipped.stuck);
        ASSERT_EQ(skipped.records, RecordsOf(chunks, chunks.size(), chunk)) << at << " " << known;
        ASSERT_EQ(skipped.damage.size(), 1U) << at;
        ASSERT_LE(skipped.damage[0].begin, at);
        ASSERT_GT(skipped.damage[0].end, at);
      }
    }
  });
}

TEST(RecordIoDamageTest, ACutFileGivesItsWholeChunks) {
  const std::vector<Chunk> chunks = SomeChunks();
  const std::string whole = FileOf(chunks);
  std::size_t begin = 0;
  ForEveryByte(chunks, [&](std::size_t at, std::size_t chunk) {
    begin = FileOf({chunks.begin(), chunks.begin() + static_cast<std::ptrdiff_t>(chunk)}).size();
    for (const bool known : {true, false}) {
      const std::string file = whole.substr(0, at);
      const Framed failed = Frame(file, OnDamage::kFail, {.known_size = known});
      ASSERT_EQ(failed.status.code(), at == begin ? StatusCode::kOk : StatusCode::kTruncated) << at;
      ASSERT_EQ(failed.records, RecordsOf(chunks, chunk));
      const Framed skipped = Frame(file, OnDamage::kSkip, {.known_size = known});
      ASSERT_TRUE(skipped.status.ok());
      ASSERT_EQ(skipped.records, RecordsOf(chunks, chunk));
      ASSERT_EQ(skipped.damage.size(), at == begin ? 0U : 1U);
    }
  });
}

TEST(RecordIoDamageTest, CompressedChunksAreCheckedToo) {
  for (const std::string name : {"raw_bytes_snappy_max4", "go_gzip", "go_snappy_compressible"}) {
    const std::string whole = ReadFixture("recordio/" + name + ".recordio");
    const Strings records = Frame(whole, OnDamage::kFail).records;
    const std::size_t step = whole.size() > 1000 ? 37 : 1;
    for (std::size_t at = 0; at < whole.size(); at += step) {
      std::string file = whole;
      file[at] = static_cast<char>(file[at] ^ 4);
      const Framed failed = Frame(file, OnDamage::kFail);
      ASSERT_FALSE(failed.status.ok()) << name << " " << at;
      const Framed skipped = Frame(file + whole, OnDamage::kSkip);
      ASSERT_TRUE(skipped.status.ok()) << skipped.status.ToString();
      ASSERT_GE(skipped.records.size(), records.size()) << name << " " << at;
      ASSERT_EQ(Strings(skipped.records.end() - static_cast<std::ptrdiff_t>(records.size()),
                        skipped.records.end()),
                records)
          << name << " " << at;
    }
  }
}

TEST(RecordIoDamageTest, AChunkInsideADamagedPayloadIsNotTaken) {
  const std::string inner = FluidChunk({"not a record of this file"});
  const Chunk outer{FluidChunk({inner, "outer"}), {inner, "outer"}};
  const std::string after = FluidChunk({"after"});
  ASSERT_EQ(Frame(outer.bytes + after, OnDamage::kFail).records,
            (Strings{inner, "outer", "after"}));
  // In the magic number, the count, the checksum, the compressor, and in the payload.
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{5}, std::size_t{9}, std::size_t{12}, outer.bytes.size() - 2}) {
    std::string file = outer.bytes + after;
    file[at] = static_cast<char>(file[at] ^ 2);
    const Framed skipped = Frame(file, OnDamage::kSkip);
    EXPECT_EQ(skipped.records, Strings{"after"}) << at;
    EXPECT_EQ(skipped.damage.size(), 1U);
  }
}

// Where the size of a file is not known, that it ends there is seen long after it was decided where
// the damaged chunk ends.
TEST(RecordIoDamageTest, AChunkInsideADamagedOneIsNotTakenWhereTheFileEndsBehindIt) {
  const std::string inner = FluidChunk({"not a record of this file"});
  std::string file = FluidChunk({inner, "outer"});
  const std::size_t end = file.size();
  file[end - 2] = static_cast<char>(file[end - 2] ^ 2);
  const std::string after = FluidChunk({"the file ends in this"});
  file += after.substr(0, after.size() - 3);
  for (const Feeding& feeding : {Feeding{}, Feeding{.known_size = false},
                                 Feeding{.ends = {end + 20}, .known_size = false}}) {
    const Framed skipped = Frame(file, OnDamage::kSkip, feeding);
    EXPECT_EQ(skipped.records, Strings{});
    ASSERT_EQ(skipped.damage.size(), 2U);
    EXPECT_EQ(skipped.damage[0].end, end);
    EXPECT_EQ(skipped.damage[1].begin, end);
  }
}

// Of a stream nobody knows that it ends before what a false header promises.
TEST(RecordIoDamageTest, PromisesThatAreNotKeptDoNotEndTheSearch) {
  std::string promise = FluidChunk({"none"}).substr(0, 20);
  promise.replace(16, 4, "\xff\xff\xff\xff");
  std::string file = "garbage";
  for (int i = 0; i < 40; ++i) file += promise;
  file += FluidChunk({"good"});
  for (const bool known : {true, false}) {
    const Framed skipped =
        Frame(file, OnDamage::kSkip, {.ends = {30, 300}, .known_size = known}, SIZE_MAX);
    EXPECT_EQ(skipped.records, Strings{"good"}) << known;
  }
}

// Each chunk holds all the others behind it, with the right checksum, and is none by its
// compressor.
TEST(RecordIoDamageTest, ChunksInChunksAreGivenUpAfterABound) {
  constexpr std::size_t kHeader = 20;
  constexpr std::size_t kChunks = 60'000;
  constexpr std::size_t kTail = 30;  // what follows the innermost one, and all of them
  std::vector<std::string> headers;
  auto crc = static_cast<uLong>(PlainCrc32(std::string(kTail, 'x')));
  std::size_t stored = kTail;
  while (headers.size() < kChunks) {
    headers.push_back(PlainWords(
        {0x01020304, 1, static_cast<std::uint32_t>(crc), 2, static_cast<std::uint32_t>(stored)}));
    crc = crc32_combine(PlainCrc32(headers.back()), crc, static_cast<z_off_t>(stored));
    stored += kHeader;
  }
  std::string file;
  for (std::size_t i = headers.size(); i-- > 0;) file += headers[i];
  file += std::string(2 * kTail, 'x');
  for (const bool known : {true, false}) {
    const Framed framed = Frame(file, OnDamage::kSkip, {.known_size = known});
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    EXPECT_TRUE(framed.records.empty());
    ASSERT_FALSE(framed.damage.empty());
    const DamagedRange& rest = framed.damage.back();
    EXPECT_EQ(rest.end, file.size());
    EXPECT_GT(rest.end - rest.begin, file.size() / 2);
  }
}

TEST(RecordIoDamageTest, GarbageSwapsAndZerosBetweenChunksCostNothingElse) {
  const std::vector<Chunk> chunks = SomeChunks();
  const std::string garbage =
      "garbage" + std::string(100, '\0') + std::string("\x04\x03\x02\x01", 4);
  for (std::size_t place = 0; place <= chunks.size(); ++place) {
    std::vector<Chunk> with = chunks;
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(place), Chunk{garbage, {}});
    for (const bool known : {true, false}) {
      const Framed skipped =
          Frame(FileOf(with), OnDamage::kSkip, {.ends = {60, 130}, .known_size = known});
      EXPECT_EQ(skipped.records, RecordsOf(chunks, chunks.size())) << place;
      EXPECT_EQ(skipped.damage.size(), 1U);
    }
  }
  std::vector<Chunk> swapped = chunks;
  std::swap(swapped[1], swapped[3]);
  EXPECT_EQ(Frame(FileOf(swapped), OnDamage::kFail).records, RecordsOf(swapped, swapped.size()));
}

TEST(RecordIoDamageTest, TheSearchGoesOnOverCallsAndStripes) {
  const std::string file = FluidChunk({"a"}) + std::string(3000, '\x04') + FluidChunk({"b", "c"});
  for (std::size_t step = 1; step < 400; step += 7) {
    Feeding feeding{.ends = {}, .limit_step = step};
    for (std::size_t end = step; end < file.size(); end += step) feeding.ends.push_back(end);
    const Framed framed = Frame(file, OnDamage::kSkip, feeding);
    ASSERT_EQ(framed.records, (Strings{"a", "b", "c"})) << step;
    ASSERT_EQ(framed.damage.size(), 1U);
  }
}

TEST(RecordIoDamageTest, PromisesAreCheckedBeforeMemoryIsTaken) {
  const std::string after = FluidChunk({"after"});
  const std::vector<std::string> bad = {
      FluidChunk(PlainPayload({"abc"}), 2),           // a wrong count
      FluidChunk(PlainPayload({"abc"}), 0xffffffff),  // of many
      FluidChunk(PlainLe(0xfffffff0U) + "abc", 1),    // a record of 4 GiB
      FluidChunk(PlainPayload({"abc"}) + "xy", 1),    // more than its records
      FluidChunk(std::string("snappy\0\1\0\5", 10) + "abcd" + "\xff\xff\xff\xff\x0f", 1, 1),
      GoChunk(std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + std::string(8, '\xff'), 1, 2),
      FluidChunk(PlainPayload({"abc"}), 1, 2),
      GoChunk(PlainPayload({"abc"}), 1, 77),
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const std::string file = bad[i] + after;
    EXPECT_FALSE(Frame(file, OnDamage::kFail).status.ok()) << i;
    const Framed skipped = Frame(file, OnDamage::kSkip);
    EXPECT_TRUE(skipped.status.ok()) << i << skipped.status.ToString();
    EXPECT_EQ(skipped.records, Strings{"after"}) << i;
  }
  const std::string large = FluidChunk({std::string(5000, 'x')}) + after;
  EXPECT_EQ(Frame(large, OnDamage::kFail, {}, 1000).status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Frame(large, OnDamage::kSkip, {}, 1000).records, Strings{"after"});
}

// What a header says of a damaged chunk costs memory for each record that it promises.
TEST(RecordIoDamageTest, ACompressedChunkThatPromisesVeryManyRecordsKeepsNoPlacesForThem) {
  const std::string bad = GoChunk(std::string(4076, 'x'), 1 << 20, 2);
  const std::string fair = GoChunk(std::string(4076, 'x'), 4 * 4076, 2);
  const Framed framed = Frame(bad + fair + bad + FluidChunk({"after"}), OnDamage::kSkip);
  EXPECT_EQ(framed.records, Strings{"after"});
  EXPECT_EQ(framed.damaged.size(), 4U * 4076 + 1);
  EXPECT_EQ(framed.damage.size(), 3U);
}

// Every twenty bytes a header whose chunk fits into the file but is none.
TEST(RecordIoDamageTest, HostileHeadersEnd) {
  std::string file;
  while (file.size() < (1U << 20)) file += PlainWords({0x01020304, 1, 2, 0, 1U << 19});
  for (const bool known : {true, false}) {
    const Framed framed = Frame(file, OnDamage::kSkip, {.known_size = known});
    EXPECT_TRUE(framed.records.empty());
    EXPECT_TRUE(framed.status.ok());
  }
}

TEST(RecordIoDamageTest, GarbageOfAllKindsEndsInOrder) {
  Scribbler scribbler;
  const std::string whole = FileOf(SomeChunks()) + ReadFixture("recordio/go_gzip.recordio") +
                            ReadFixture("recordio/raw_bytes_snappy_max4.recordio");
  for (int round = 0; round < 500; ++round) {
    const std::string file = scribbler.Scribbled(whole, 12);
    for (const bool known : {true, false}) {
      const Framed framed = Frame(file, OnDamage::kSkip, {.ends = {100, 350}, .known_size = known});
      ASSERT_TRUE(framed.status.ok() || framed.status.code() == StatusCode::kUnsupported);
      ExpectOrderly(framed);
    }
  }
}

}  // namespace
}  // namespace ringfeed
