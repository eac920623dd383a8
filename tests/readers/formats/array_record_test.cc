#include "readers/formats/array_record/array_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

// Of the hundred records that most of the genuine files have.
constexpr const char* kDigest = "0d24e35b8e588861cdfbe40eeb03ee850026c3e141232829a0a743f858629454";
constexpr std::size_t kBlock = 65536;

/// The genuine file of that name.
std::string Genuine(const std::string& name) {
  const std::string stored = ReadFixture("array_record/" + name + ".array_record.gz");
  Status failure;
  return Bytes(HeadOfContent(Compression::kGzip, std::as_bytes(std::span(stored)),
                             std::size_t{1} << 20, &failure));
}

// Each record by its own number, damage skipped: an empty text for what is lost.
std::vector<std::string> EachByNumber(const Format& format, const std::string& file) {
  const FramerOptions options{"file", file.size(), OnDamage::kSkip};
  const OwnIndexResult own = format.OwnIndex(options, {});
  EXPECT_TRUE(own.status.ok() && own.index != nullptr);
  const auto framer = format.NewUnitFramer(options);
  std::vector<std::string> records;
  for (std::uint64_t number = 0; number < own.index->records(); ++number) {
    RecordUnit unit;
    EXPECT_TRUE(own.index->Find({&number, 1}, {&unit, 1}).ok());
    EXPECT_LE(unit.offset + unit.bytes, file.size());
    std::uint64_t from_here = 0;
    EXPECT_TRUE(own.index->FirstFrom(unit.offset, &from_here).ok());
    EXPECT_EQ(from_here, unit.first_record);
    FrameOutput output;
    HeapFrameMemory memory;
    FrameInput input;
    input.bytes = std::as_bytes(std::span(file)).subspan(unit.offset, unit.bytes);
    input.offset = unit.offset;
    input.memory = &memory;
    EXPECT_TRUE(framer->Frame(input, unit.records, &output).ok());
    const RecordSpan record = output.records.at(number - unit.first_record);
    records.push_back(record.damaged() ? "" : Bytes(record.bytes()));
  }
  return records;
}

TEST(ArrayRecordTest, FilesOfTheRealWriterAreReadAsTheirDigestsSay) {
  const std::pair<const char*, const char*> files[] = {
      {"group_size1", kDigest},
      {"group_size1_uncompressed", kDigest},
      {"group_size65536", kDigest},
      {"group_size65536_uncompressed", kDigest},
      {"group_size7_brotli6", kDigest},
      {"group_size7_snappy", kDigest},
      {"group_size7_zstd3", kDigest},
      {"no_records", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"one_record_90KB", "724834753665e3582bc7ad52952c6784f44bcecd5fc40eca6df735b53d68427c"}};
  for (const auto& [name, digest] : files) {
    const std::string file = Genuine(name);
    const auto head = std::as_bytes(std::span(file)).first(kHeadBytes);
    EXPECT_EQ(DetectFormat("a", head).format->name(), "arrayrecord");
    const auto format = FormatOfFile(*ArrayRecordFormat(), file);
    for (const Feeding& feeding : {Feeding{}, Feeding{.ends = {1, 70, 150, 5000, 65600}},
                                   Feeding{.limit_step = 512}, Feeding{.known_size = false}}) {
      const Framed framed = FrameAll(*format, file, OnDamage::kFail, feeding);
      // A build may be without brotli.
      if (framed.status.message().find("brotli") != std::string::npos) break;
      ASSERT_TRUE(framed.status.ok()) << name << framed.status.ToString();
      EXPECT_FALSE(framed.stuck) << name;
      EXPECT_EQ(DigestOf(framed.records), digest) << name;
      EXPECT_EQ(EachByNumber(*format, file), framed.records) << name;
    }
  }
}

TEST(ArrayRecordTest, TransposedChunksAndStreamsAreRefusedByName) {
  const std::string file = Genuine("group_size16_transpose");
  std::shared_ptr<const Format> own;
  const Status status = ArrayRecordFormat()->ReadEnd(
      file.size(),
      [&](std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
        std::copy_n(std::as_bytes(std::span(file)).data() + offset, to.size(), to.data());
        *got = to.size();
        return Status();
      },
      &own);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("transpose:false"), std::string::npos) << status.message();
  // Of a stream nobody reads the end first.
  const Framed framed =
      FrameAll(*ArrayRecordFormat(), file, OnDamage::kSkip, {.known_size = false});
  EXPECT_EQ(framed.status.code(), StatusCode::kUnsupported);
  EXPECT_NE(framed.status.message().find("stream"), std::string::npos);
}

TEST(ArrayRecordTest, ACutFileIsDamageFromItsFirstByte) {
  const std::string whole = Genuine("one_record_90KB");
  for (const std::size_t bytes : {std::size_t{1}, kBlock - 1, kBlock, 2 * kBlock, 3 * kBlock - 1}) {
    const std::string cut = whole.substr(0, bytes);
    const auto format = FormatOfFile(*ArrayRecordFormat(), cut);
    EXPECT_EQ(FrameAll(*format, cut, OnDamage::kFail).status.code(), StatusCode::kTruncated);
    const Framed framed = FrameAll(*format, cut, OnDamage::kSkip);
    ASSERT_EQ(framed.damage.size(), 1U);
    EXPECT_EQ(framed.damage[0].end, bytes);
    const OwnIndexResult own = format->OwnIndex({"file", bytes}, {});
    EXPECT_EQ(own.index->records(), 0U);
    EXPECT_EQ(own.index->damage().size(), 1U);
  }
  // If it shrinks after its end was read the rest is lost.
  const auto format = FormatOfFile(*ArrayRecordFormat(), whole);
  FramerOptions options{"file", whole.size(), OnDamage::kSkip};
  const Framed framed = FrameWith(format->NewFramer(options).get(), whole.substr(0, kBlock));
  EXPECT_TRUE(framed.records.empty());
  EXPECT_EQ(framed.damage.at(0).end, whole.size());
}

TEST(ArrayRecordTest, AChunkAboveTheLimitIsLostWithItsRecords) {
  const std::string file = Genuine("group_size7_zstd3");
  const auto format = FormatOfFile(*ArrayRecordFormat(), file);
  const auto intact = FrameAll(*format, file, OnDamage::kFail).records;
  const Framed framed = FrameAll(*format, file, OnDamage::kSkip, {}, 250);
  ExpectOrderly(framed);
  const auto records = RecordsInOrder(framed);
  ASSERT_EQ(records.size(), intact.size());
  for (std::size_t begin = 0; begin < intact.size(); begin += 7) {
    std::size_t bytes = 0;
    const std::size_t end = std::min(begin + 7, intact.size());
    for (std::size_t i = begin; i < end; ++i) bytes += intact[i].size();
    for (std::size_t i = begin; i < end; ++i) {
      EXPECT_EQ(records[i], bytes > 250 ? "" : intact[i]) << i;
    }
  }
  EXPECT_EQ(FrameAll(*format, file, OnDamage::kFail, {}, 250).status.code(),
            StatusCode::kResourceExhausted);
}

TEST(ArrayRecordTest, AFramerBeginsAtTheFirstChunkAfterALoss) {
  const std::string file = Genuine("group_size7_snappy");
  const auto format = FormatOfFile(*ArrayRecordFormat(), file);
  const auto intact = FrameAll(*format, file, OnDamage::kFail).records;
  ASSERT_EQ(intact.size(), 100U);
  const FramerOptions options{"file", file.size(), OnDamage::kSkip};
  for (const std::uint64_t gap : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{500}}) {
    std::uint64_t first = 0;
    EXPECT_TRUE(format->OwnIndex(options, {}).index->FirstFrom(gap, &first).ok());
    const Framed framed = FrameWith(format->NewFramerBehindGap(options, gap).get(),
                                    file.substr(gap), {.offset = gap});
    EXPECT_EQ(framed.records,
              std::vector<std::string>(intact.begin() + static_cast<std::ptrdiff_t>(first),
                                       intact.end()));
  }
}

TEST(ArrayRecordTest, ScribblesLeadNowhere) {
  Scribbler scribbler;
  const std::string whole = Genuine("group_size1");
  const std::size_t used = whole.substr(0, kBlock).find_last_not_of('\0') + 1;
  std::size_t delivered = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string file =
        scribbler.Scribbled(whole.substr(0, used), 1 + round % 9) + whole.substr(used);
    const auto format = FormatOfFile(*ArrayRecordFormat(), file);
    const Framed framed = FrameAll(*format, file, OnDamage::kSkip);
    ExpectOrderly(framed);
    EXPECT_EQ(EachByNumber(*format, file), RecordsInOrder(framed)) << round;
    delivered += framed.records.size();
  }
  EXPECT_GT(delivered, 0U);
}

}  // namespace
}  // namespace ringfeed
