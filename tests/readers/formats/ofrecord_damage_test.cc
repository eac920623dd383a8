#include <gtest/gtest.h>

#include <chrono>

#include "readers/formats/ofrecord/ofrecord.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/ofrecord_file.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, OnDamage on_damage, const Feeding& feeding = {}) {
  return FrameAll(*OfRecordFormat(), file, on_damage, feeding);
}

// Calls check(file, offset, number of the record that the offset is in, offset in that record).
template <typename Check>
void ForEveryByte(const Strings& records, Check check) {
  const std::string file = PlainOfRecordFile(records);
  std::size_t begin = 0;
  for (std::size_t record = 0; record < records.size(); ++record) {
    const std::size_t end = begin + records[record].size() + 8;
    for (std::size_t at = begin; at < end; ++at) check(file, at, record, at - begin);
    begin = end;
  }
}

TEST(OfRecordDamageTest, WrongLengthEndsTheFileAtItsRecord) {
  const Strings records = SomeOfRecords();
  ForEveryByte(records, [&](std::string file, std::size_t at, std::size_t record, std::size_t in) {
    if (in >= 8) return;
    for (const char flip : {'\x01', '\x02', '\x40', '\x80', '\xff'}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      for (const bool known : {true, false}) {
        const Feeding feeding{.known_size = known};
        const Framed failed = Frame(damaged, OnDamage::kFail, feeding);
        ASSERT_FALSE(failed.status.ok()) << at;
        ASSERT_EQ(failed.records, First(records, record)) << at;
        ASSERT_EQ(failed.status.place().record, static_cast<std::int64_t>(record));
        ASSERT_EQ(failed.status.place().offset, static_cast<std::int64_t>(at - in));
        ASSERT_EQ(failed.status.place().file, "file");
        const Framed skipped = Frame(damaged, OnDamage::kSkip, feeding);
        ASSERT_TRUE(skipped.status.ok());
        ASSERT_EQ(skipped.records, First(records, record)) << at;
        ASSERT_EQ(skipped.damage.size(), 1U);
        ASSERT_EQ(skipped.damage[0].begin, at - in);
        ASSERT_EQ(skipped.damage[0].end, file.size());
        ASSERT_FALSE(skipped.damage[0].reason.empty());
      }
    }
  });
}

// Nothing tells a flipped value from another one; the records around it are as they were, since the
// lengths lead on.
TEST(OfRecordDamageTest, FlippedByteOfARecordNeverShiftsTheOthers) {
  const Strings records = SomeOfRecords();
  ForEveryByte(records, [&](std::string file, std::size_t at, std::size_t record, std::size_t in) {
    if (in < 8) return;
    for (const char flip : {'\x01', '\x08', '\x80', '\xff'}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
        const Framed framed = Frame(damaged, on_damage, {.ends = {at}});
        Strings expected = records;
        expected[record] = damaged.substr(at - in + 8, records[record].size());
        const bool damage = framed.records.size() != records.size();
        if (damage && on_damage == OnDamage::kFail) expected = First(records, record);
        if (damage && on_damage == OnDamage::kSkip) expected = Without(records, record);
        ASSERT_EQ(framed.records, expected) << at;
        ASSERT_EQ(framed.damage.size() + (framed.status.ok() ? 0U : 1U), damage ? 1U : 0U);
        if (framed.damage.empty()) continue;
        ASSERT_EQ(framed.damaged.size(), records.size());  // it keeps its number
        ASSERT_TRUE(framed.damaged[record]);
        ASSERT_EQ(framed.damage[0].begin, at - in);
        ASSERT_EQ(framed.damage[0].end, at - in + 8 + records[record].size());
      }
    }
  });
}

// A length that leads nowhere is not believed: what stands there would be taken for records.
TEST(OfRecordDamageTest, AMessageThatIsNoneAndLeadsNowhereCostsTheRest) {
  const Strings records = SomeOfRecords();
  const std::size_t at = PlainOfRecordFile(First(records, 2)).size();
  for (const int more : {-1, 1, 7}) {
    std::string file = PlainOfRecordFile(records);
    file[at] = static_cast<char>(file[at] + more);
    file[at + 8] = 'x';
    for (const bool known : {true, false}) {
      const Framed framed =
          Frame(file, OnDamage::kSkip, {.ends = {at + 5, at + 9}, .known_size = known});
      ASSERT_EQ(framed.records, First(records, 2)) << more;
      ASSERT_EQ(framed.damage.size(), 1U);
      ASSERT_EQ(framed.damage[0].end, file.size());
    }
  }
}

TEST(OfRecordDamageTest, CutFileFailsBehindItsWholeRecords) {
  const Strings records = SomeOfRecords();
  ForEveryByte(records, [&](const std::string& file, std::size_t at, std::size_t record,
                            std::size_t in) {
    const std::string cut = file.substr(0, at);
    for (const bool known : {true, false}) {
      for (const std::size_t split : {std::size_t{0}, at / 2}) {
        const Feeding feeding{.ends = {split}, .known_size = known};
        const Framed failed = Frame(cut, OnDamage::kFail, feeding);
        ASSERT_EQ(failed.status.code(), in == 0 ? StatusCode::kOk : StatusCode::kTruncated) << at;
        ASSERT_EQ(failed.records, First(records, record)) << at;
        const Framed skipped = Frame(cut, OnDamage::kSkip, feeding);
        ASSERT_TRUE(skipped.status.ok());
        ASSERT_FALSE(skipped.stuck);
        ASSERT_EQ(skipped.records, First(records, record)) << at;
        ASSERT_EQ(skipped.damage.size(), in == 0 ? 0U : 1U);
        ASSERT_TRUE(in == 0 || skipped.damage[0].end == cut.size());
      }
    }
  });
}

TEST(OfRecordDamageTest, ImpossibleLengthsSayWhatWasExpected) {
  const std::string before = PlainFeature("x", 1, "before");
  const std::string after = PlainOfRecordFile(SomeOfRecords());
  struct Case {
    std::int64_t length;
    std::string said;
  };
  for (const auto& [length, said] : std::vector<Case>{{0, "at least 1"},
                                                      {-1, "a record of -1 bytes"},
                                                      {-(1LL << 62), "at least 1"},
                                                      {1LL << 62, "past the end"},
                                                      {0x7fffffffffffffffLL, "past the end"},
                                                      {100000, "past the end"}}) {
    const std::string file = PlainOfRecordFile({before}) + PlainLength(length) + after;
    const Framed failed = Frame(file, OnDamage::kFail);
    EXPECT_NE(failed.status.message().find(said), std::string::npos) << failed.status.ToString();
    EXPECT_EQ(failed.records, (Strings{before}));
    for (const bool known : {true, false}) {
      const Framed skipped = Frame(file, OnDamage::kSkip, {.ends = {30}, .known_size = known});
      EXPECT_EQ(skipped.records, (Strings{before})) << length;
      ASSERT_EQ(skipped.damage.size(), 1U);
      EXPECT_EQ(skipped.damage[0].end, file.size());
    }
  }
}

TEST(OfRecordDamageTest, LengthBeyondTheFileFailsBeforeItIsRead) {
  const std::string file = PlainLength(1000000) + std::string(5000, '\x0a');
  const auto framer = OfRecordFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file)).first(8);
  const FrameResult result = framer->Frame({bytes, 0, file.size(), false}, &output);
  EXPECT_EQ(result.status.code(), StatusCode::kTruncated);
  EXPECT_EQ(result.need_bytes, 0U);
}

TEST(OfRecordDamageTest, RecordAboveTheLimitEndsTheFile) {
  const Strings records = {PlainFeature("a", 1, "a"), PlainFeature("b", 1, std::string(5000, 'b')),
                           PlainFeature("c", 1, "c")};
  const std::string file = PlainOfRecordFile(records);
  const Framed failed = FrameAll(*OfRecordFormat(), file, OnDamage::kFail, {}, 1000);
  EXPECT_EQ(failed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(failed.status.message().find("max_record_bytes"), std::string::npos);
  const Framed skipped =
      FrameAll(*OfRecordFormat(), file, OnDamage::kSkip, {.ends = {20, 40, 900}}, 1000);
  EXPECT_EQ(skipped.records, First(records, 1));
}

TEST(OfRecordDamageTest, DamageIsToldOnceOverCallsAndStripes) {
  const Strings records = SomeOfRecords();
  const std::string file = PlainOfRecordFile(records) + std::string(3000, '\x5a');
  for (std::size_t step = 1; step < 400; step += 7) {
    for (const bool known : {true, false}) {
      Feeding feeding{.ends = {}, .limit_step = step, .known_size = known};
      for (std::size_t end = step; end < file.size(); end += step) feeding.ends.push_back(end);
      const Framed framed = Frame(file, OnDamage::kSkip, feeding);
      ASSERT_EQ(framed.records, records) << step;
      ASSERT_FALSE(framed.stuck);
      ASSERT_EQ(framed.damage.size(), 1U);
      EXPECT_EQ(framed.damage[0].begin, file.size() - 3000);
      EXPECT_EQ(framed.damage[0].end, file.size());
    }
  }
}

// A stream's last call has the bytes that the one before left: there must be some.
TEST(OfRecordDamageTest, DamageOfAStreamIsToldAtItsEnd) {
  const std::string file = PlainOfRecordFile(SomeOfRecords()) + std::string(3000, '\x5a');
  const auto framer = OfRecordFormat()->NewFramer({.file = "f", .on_damage = OnDamage::kSkip});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  std::size_t at = 0;
  for (const std::size_t end : {file.size() - 2000, file.size() - 1000, file.size()}) {
    at += framer->Frame({bytes.subspan(at, end - at), at, kUnknownSize, false}, &output).consumed;
    ASSERT_LT(at, end);
  }
  EXPECT_TRUE(output.damage.empty());
  framer->Frame({bytes.subspan(at), at, kUnknownSize, true}, &output);
  EXPECT_EQ(output.records.size(), SomeOfRecords().size());
  ASSERT_EQ(output.damage.size(), 1U);
  EXPECT_EQ(output.damage[0].end, file.size());
}

TEST(OfRecordDamageTest, FileThatShrankBetweenRecordsIsNotAtItsEnd) {
  const std::string file = PlainOfRecordFile(SomeOfRecords());
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const auto framer = OfRecordFormat()->NewFramer(
        {.file = "f", .file_bytes = 2 * file.size(), .on_damage = on_damage});
    FrameOutput output;
    const FrameResult result =
        framer->Frame({std::as_bytes(std::span(file)), 0, 2 * file.size(), true}, &output);
    EXPECT_EQ(output.records.size(), SomeOfRecords().size());
    EXPECT_EQ(result.status.ok(), on_damage == OnDamage::kSkip);
    EXPECT_EQ(output.damage.size(), on_damage == OnDamage::kSkip ? 1U : 0U);
  }
}

// The framer looks at the top level alone: what is deep costs it nothing.
TEST(OfRecordDamageTest, DeepNestingIsAnEntryLikeAnother) {
  std::string nested;
  for (int i = 0; i < 10000; ++i) nested = "\x0a" + PlainVarint(nested.size()) + nested;
  const Framed framed = Frame(PlainOfRecordFile({nested, nested}), OnDamage::kFail);
  EXPECT_EQ(framed.records, (Strings{nested, nested}));
}

TEST(OfRecordDamageTest, EndlessVarintsAndEmptyEntriesCostLinearTime) {
  const std::string empty_entries = [] {
    std::string entries;
    while (entries.size() < (4U << 20)) entries += std::string("\x0a\0", 2);
    return entries;
  }();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Frame(PlainOfRecordFile({empty_entries}), OnDamage::kFail).records.size(), 1U);
  const std::string endless = "\x0a" + std::string(1U << 20, '\xff');
  EXPECT_EQ(Frame(PlainOfRecordFile({endless}), OnDamage::kFail).status.code(),
            StatusCode::kDamaged);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(OfRecordDamageTest, GarbageOfAllKindsEndsInOrder) {
  Scribbler scribbler;
  for (int round = 0; round < 300; ++round) {
    const std::string file = scribbler.Scribbled(PlainOfRecordFile(SomeOfRecords()), 20);
    for (const bool known : {true, false}) {
      const Framed whole = Frame(file, OnDamage::kSkip, {.known_size = known});
      const Framed framed = Frame(file, OnDamage::kSkip, {.ends = {100, 350}, .known_size = known});
      ASSERT_TRUE(framed.status.ok());
      ASSERT_FALSE(framed.stuck);
      ASSERT_EQ(framed.records, whole.records);
      ASSERT_EQ(framed.damaged, whole.damaged);
      ExpectOrderly(framed);
    }
  }
}

}  // namespace
}  // namespace ringfeed
