#include <gtest/gtest.h>

#include <chrono>

#include "readers/formats/tfrecord/tfrecord.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tfrecord_file.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, OnDamage on_damage, const Feeding& feeding = {}) {
  return FrameAll(*TfRecordFormat(), file, on_damage, feeding);
}

// Calls check(damaged file, offset, number of the record that the offset is in).
template <typename Check>
void ForEveryByte(const Strings& payloads, Check check) {
  const std::string file = PlainFile(payloads);
  std::size_t at = 0;
  for (std::size_t record = 0; record < payloads.size(); ++record) {
    for (const std::size_t end = at + payloads[record].size() + 16; at < end; ++at) {
      check(file, at, record);
    }
  }
}

TEST(TfRecordDamageTest, FlippedByteFailsAtItsRecord) {
  const Strings payloads = SomePayloads();
  ForEveryByte(payloads, [&](std::string file, std::size_t at, std::size_t record) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const Framed framed = Frame(damaged, OnDamage::kFail);
      ASSERT_EQ(framed.status.code(), StatusCode::kDamaged) << at;
      ASSERT_EQ(framed.records, First(payloads, record)) << at;
      ASSERT_EQ(framed.status.place().record, static_cast<std::int64_t>(record));
      ASSERT_EQ(framed.status.place().file, "file");
      ASSERT_LE(framed.status.place().offset, static_cast<std::int64_t>(at));
    }
  });
}

TEST(TfRecordDamageTest, FlippedByteCostsItsRecordAloneUnderSkip) {
  const Strings payloads = SomePayloads();
  ForEveryByte(payloads, [&](std::string file, std::size_t at, std::size_t record) {
    file[at] = static_cast<char>(file[at] ^ 0x10);
    for (const bool known : {true, false}) {
      for (const std::size_t split : {std::size_t{0}, at, at + 5}) {
        const Framed framed = Frame(file, OnDamage::kSkip, {.ends = {split}, .known_size = known});
        ASSERT_TRUE(framed.status.ok()) << at << framed.status.ToString();
        ASSERT_EQ(framed.records, Without(payloads, record)) << at << " split at " << split;
        ASSERT_EQ(framed.damage.size(), 1U);
        ASSERT_LE(framed.damage[0].begin, at);
        ASSERT_GT(framed.damage[0].end, at);
        ASSERT_FALSE(framed.damage[0].reason.empty());
      }
    }
  });
}

TEST(TfRecordDamageTest, DamagedPayloadKeepsItsPlace) {
  std::string file = PlainFile({"first", "second", "third"});
  file[21 + 12] ^= 1;
  const Framed framed = Frame(file, OnDamage::kSkip);
  EXPECT_EQ(framed.damaged, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(framed.damage[0].begin, 21U);
  EXPECT_EQ(framed.damage[0].end, 21U + 22U);
}

// Whether one of these records starts there, or they end there.
bool StartsRecord(const Strings& payloads, std::size_t place) {
  std::size_t at = 0;
  for (const std::string& payload : payloads) {
    if (at == place) return true;
    at += payload.size() + 16;
  }
  return at == place;
}

// Its own checksum says that the length is right, and neither the payload's nor what stands behind
// it does.
TEST(TfRecordDamageTest, AWrongLengthCostsOneRecord) {
  const Strings payloads = {"first", "", "the third", std::string(300, 'x'), "last"};
  const std::string file = PlainFile(payloads);
  for (std::size_t record = 0, at = 0; record < payloads.size(); ++record) {
    for (std::size_t length = 0; at + length + 16 <= file.size(); ++length) {
      // One that leads to another header is believed.
      if (StartsRecord(payloads, at + length + 16)) continue;
      std::string damaged = file;
      damaged.replace(at, 12, PlainHeader(length));
      for (const bool known : {true, false}) {
        for (const std::size_t split : {std::size_t{0}, at + 13, at + length + 15}) {
          const Feeding feeding{.ends = {std::min(split, file.size())}, .known_size = known};
          const Framed framed = Frame(damaged, OnDamage::kSkip, feeding);
          ASSERT_FALSE(framed.stuck);
          ASSERT_EQ(framed.records, Without(payloads, record)) << record << " " << length;
          ASSERT_EQ(framed.damage.size(), 1U);
          ASSERT_EQ(framed.damage[0].begin, at);
          ASSERT_EQ(framed.damage[0].end, at + payloads[record].size() + 16);
          ASSERT_EQ(Frame(damaged, OnDamage::kFail, feeding).records, First(payloads, record));
        }
      }
    }
    at += payloads[record].size() + 16;
  }
}

TEST(TfRecordDamageTest, CutFileFailsBehindItsWholeRecords) {
  const Strings payloads = SomePayloads();
  ForEveryByte(payloads, [&](const std::string& file, std::size_t at, std::size_t record) {
    const std::string cut = file.substr(0, at);
    const bool between = cut == PlainFile(First(payloads, record));
    for (const bool known : {true, false}) {
      const Framed failed = Frame(cut, OnDamage::kFail, {.known_size = known});
      ASSERT_EQ(failed.status.code(), between ? StatusCode::kOk : StatusCode::kTruncated) << at;
      ASSERT_EQ(failed.records, First(payloads, record)) << at;
      const Framed skipped = Frame(cut, OnDamage::kSkip, {.known_size = known});
      ASSERT_TRUE(skipped.status.ok());
      ASSERT_FALSE(skipped.stuck);
      ASSERT_EQ(skipped.records, First(payloads, record)) << at;
      ASSERT_EQ(skipped.damage.size(), between ? 0U : 1U);
      ASSERT_TRUE(between || skipped.damage[0].end == cut.size());
    }
  });
}

TEST(TfRecordDamageTest, ForgedLengthIsDamageNotMemory) {
  for (const std::uint64_t length :
       {std::uint64_t{1} << 62, ~std::uint64_t{0}, ~std::uint64_t{0} - 15, std::uint64_t{1} << 31,
        std::uint64_t{100000}}) {
    const std::string file = PlainFile({"before"}) + PlainHeader(length) + PlainFile({"a", "b"});
    for (const bool known : {true, false}) {
      const Feeding feeding{.known_size = known};
      const Framed failed = Frame(file, OnDamage::kFail, feeding);
      EXPECT_FALSE(failed.status.ok());
      EXPECT_EQ(failed.records, (Strings{"before"}));
      const Framed skipped = Frame(file, OnDamage::kSkip, feeding);
      EXPECT_TRUE(skipped.status.ok()) << skipped.status.ToString();
      EXPECT_EQ(skipped.records, (Strings{"before", "a", "b"})) << length;
    }
  }
}

TEST(TfRecordDamageTest, LengthBeyondTheFileFailsBeforeItIsRead) {
  const std::string file = PlainHeader(1000000) + std::string(5000, 'x');
  const auto framer = TfRecordFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file)).first(12);
  const FrameResult result = framer->Frame({bytes, 0, file.size(), false}, &output);
  EXPECT_EQ(result.status.code(), StatusCode::kTruncated);
  EXPECT_EQ(result.need_bytes, 0U);
}

TEST(TfRecordDamageTest, RecordAboveTheLimitIsPassedOverWithoutBeingHeld) {
  const std::string file = PlainFile({"a", std::string(5000, 'x'), "b"});
  const Framed failed = FrameAll(*TfRecordFormat(), file, OnDamage::kFail, {}, 1000);
  EXPECT_EQ(failed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(failed.status.message().find("max_record_bytes"), std::string::npos);
  const Framed skipped =
      FrameAll(*TfRecordFormat(), file, OnDamage::kSkip, {.ends = {20, 40, 900, 2000}}, 1000);
  EXPECT_EQ(skipped.records, (Strings{"a", "b"}));
  EXPECT_EQ(skipped.damaged, (std::vector<bool>{false, true, false}));
}

TEST(TfRecordDamageTest, SearchGoesOnOverCallsAndStripes) {
  std::string garbage(3000, '\x5a');
  const std::string file = PlainFile({"a"}) + garbage + PlainFile({"b", "c"});
  for (std::size_t step = 1; step < 400; step += 7) {
    Feeding feeding{.ends = {}, .limit_step = step};
    for (std::size_t end = step; end < file.size(); end += step) feeding.ends.push_back(end);
    const Framed framed = Frame(file, OnDamage::kSkip, feeding);
    ASSERT_EQ(framed.records, (Strings{"a", "b", "c"})) << step;
    ASSERT_EQ(framed.damage.size(), 1U);
    EXPECT_EQ(framed.damage[0].begin, 17U);
    EXPECT_EQ(framed.damage[0].end, 3017U);
  }
}

TEST(TfRecordDamageTest, FileThatShrankBetweenRecordsIsNotAtItsEnd) {
  const std::string file = PlainFile({"a", "b"});
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const auto framer = TfRecordFormat()->NewFramer(
        {.file = "f", .file_bytes = 2 * file.size(), .on_damage = on_damage});
    FrameOutput output;
    const FrameResult result =
        framer->Frame({std::as_bytes(std::span(file)), 0, 1000, true}, &output);
    EXPECT_EQ(output.records.size(), 2U);
    EXPECT_EQ(result.status.ok(), on_damage == OnDamage::kSkip);
    EXPECT_EQ(output.damage.size(), on_damage == OnDamage::kSkip ? 1U : 0U);
  }
}

// Every twelve bytes a header that matches but whose record does not fit: each is looked at once.
// Each promises nearly all the rest, so each costs a checksum of that.
TEST(TfRecordDamageTest, HeadersInHeadersAreGivenUpAfterABound) {
  constexpr std::size_t kHeader = 12;
  constexpr std::size_t kBytes = 180'000 * kHeader;
  constexpr std::size_t kTail = 6;
  std::string file;
  file.reserve(kBytes);
  while (file.size() < kBytes - 2 * kHeader) {
    file += PlainHeader(kBytes - file.size() - 16 - kTail);
  }
  file.resize(kBytes, 'x');
  for (const bool known : {true, false}) {
    const Framed framed = Frame(file, OnDamage::kSkip, {.known_size = known});
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    EXPECT_TRUE(framed.records.empty());
    ASSERT_FALSE(framed.damage.empty());
    const DamagedRange& rest = framed.damage.back();
    EXPECT_EQ(rest.end, kBytes);
    EXPECT_GT(rest.end - rest.begin, kBytes / 2);
  }
}

TEST(TfRecordDamageTest, HostileHeadersCostLinearTime) {
  std::string file;
  while (file.size() < (1U << 20)) file += PlainHeader(std::uint64_t{1} << 40);
  const auto begin = std::chrono::steady_clock::now();
  for (const bool known : {true, false}) {
    const Framed framed = Frame(file, OnDamage::kSkip, {.known_size = known});
    EXPECT_TRUE(framed.records.empty());
    EXPECT_TRUE(framed.status.ok());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(TfRecordDamageTest, GarbageOfAllKindsEndsInOrder) {
  Scribbler scribbler;
  for (int round = 0; round < 300; ++round) {
    const std::string file = scribbler.Scribbled(PlainFile(SomePayloads()), 20);
    for (const bool known : {true, false}) {
      const Framed framed = Frame(file, OnDamage::kSkip, {.ends = {100, 350}, .known_size = known});
      ASSERT_TRUE(framed.status.ok());
      ExpectOrderly(framed);
    }
  }
}

}  // namespace
}  // namespace ringfeed
