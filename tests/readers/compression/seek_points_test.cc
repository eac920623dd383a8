#include "readers/formats/compression/seek_points.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = CompressedForm::Kind;

constexpr std::pair<Kind, Compression> kKinds[] = {{Kind::kGzip, Compression::kGzip},
                                                   {Kind::kZlib, Compression::kZlib},
                                                   {Kind::kZstd, Compression::kZstd}};

/// Lines of numbers, which compress to about a third.
Bytes Text(std::size_t bytes) {
  std::mt19937_64 random(bytes);
  std::string text;
  while (text.size() < bytes) {
    text += "{\"id\": " + std::to_string(random() % 100000000) + ", \"label\": \"row\"}\n";
  }
  const auto all = std::as_bytes(std::span(text)).first(bytes);
  return {all.begin(), all.end()};
}

Bytes Noise(std::size_t bytes) {
  std::mt19937 random(7);
  Bytes noise(bytes);
  for (std::byte& one : noise) one = static_cast<std::byte>(random());
  return noise;
}

Status Make(Compression compression, std::span<const std::byte> file, SeekPoints* points,
            std::size_t piece = 100000) {
  return MakeSeekPoints(
      compression,
      [&](std::span<std::byte> to, std::size_t* got) {
        *got = std::min({piece, to.size(), file.size()});
        std::copy_n(file.begin(), *got, to.begin());
        file = file.subspan(*got);
        return Status();
      },
      points);
}

ReadStored ReaderOf(std::span<const std::byte> file) {
  return [file](std::uint64_t offset, std::span<std::byte> to) {
    if (offset > file.size() || to.size() > file.size() - offset) {
      return Status(StatusCode::kTruncated, "the file ends");
    }
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return Status();
  };
}

/// Each span by itself, the last one first.
void ExpectSpansGive(const SeekPoints& points, std::span<const std::byte> file,
                     std::span<const std::byte> content) {
  ASSERT_TRUE(points.Check().ok());
  ASSERT_EQ(points.content_bytes, content.size());
  for (std::size_t i = points.points.size(); i-- > 0;) {
    Bytes span(points.ContentBytes(i));
    const Status status = DecompressSpan(points, i, ReaderOf(file), span);
    ASSERT_TRUE(status.ok()) << i << ": " << status.ToString();
    const std::uint64_t begin = points.points[i].content_begin;
    ASSERT_TRUE(std::ranges::equal(span, content.subspan(begin, span.size()))) << i;
    ASSERT_EQ(points.ContentEnd(i), begin + span.size());
    ASSERT_EQ(points.SpanOf(begin), i);
  }
}

TEST(SeekPointsTest, EachSpanGivesItsContentWhateverTheWriterDid) {
  const std::size_t scale = kSanitized ? 4 : 1;
  const Bytes contents[] = {
      Text(4'000'000 / scale), Noise(2'000'000 / scale), Bytes(6'000'000 / scale), Text(100), {}};
  for (const auto& [kind, compression] : kKinds) {
    for (const Bytes& content : contents) {
      for (const std::size_t members : {1U, 3U, 60U}) {
        for (const int level : {1, 6}) {
          if (level == 1 && members == 60) continue;
          if (members > std::max<std::size_t>(1, content.size())) continue;
          SCOPED_TRACE(std::string(CompressionName(compression)) + " of " +
                       std::to_string(content.size()) + " in " + std::to_string(members));
          const std::size_t flush = members == 3 ? 70000 : 0;
          const Bytes file = Compress(content, {kind, members, flush, level});
          SeekPoints points;
          const Status status = Make(compression, file, &points);
          ASSERT_TRUE(status.ok()) << status.ToString();
          ExpectSpansGive(points, file, content);
        }
      }
    }
  }
}

TEST(SeekPointsTest, TheyTakeAtMostOnePercentOfTheFile) {
  const Bytes content = Text(kSanitized ? 6'000'000 : 24'000'000);
  for (const auto& [kind, compression] : kKinds) {
    const Bytes file = Compress(content, {kind, kind == Kind::kZstd ? 400U : 1U});
    SeekPoints points;
    ASSERT_TRUE(Make(compression, file, &points).ok());
    EXPECT_GT(points.points.size(), kSanitized ? 1U : 4U) << CompressionName(compression);
    EXPECT_LE(points.points.size() * sizeof(SeekPoint) + points.windows.size(),
              file.size() / 100 + sizeof(SeekPoint));
  }
}

TEST(SeekPointsTest, TheyDoNotDependOnThePiecesInWhichTheFileIsRead) {
  const Bytes file = Compress(Text(3'000'000), {Kind::kGzip, 2});
  SeekPoints points;
  SeekPoints again;
  ASSERT_TRUE(Make(Compression::kGzip, file, &points).ok());
  ASSERT_TRUE(Make(Compression::kGzip, file, &again, 977).ok());
  EXPECT_EQ(points.windows, again.windows);
  ASSERT_EQ(points.points.size(), again.points.size());
  for (std::size_t i = 0; i < points.points.size(); ++i) {
    EXPECT_EQ(points.points[i].stored_begin, again.points[i].stored_begin);
    EXPECT_EQ(points.points[i].checksum, again.points[i].checksum);
  }
}

TEST(SeekPointsTest, ZerosAfterMembersAreNoContent) {
  Bytes file = Compress(Text(300'000), {Kind::kGzip, 2});
  file.resize(file.size() + 5000);
  const Bytes more = Compress(Text(200'000), {Kind::kGzip, 1});
  file.insert(file.end(), more.begin(), more.end());
  file.resize(file.size() + 5000);
  Bytes content = Text(300'000);
  const Bytes second = Text(200'000);
  content.insert(content.end(), second.begin(), second.end());
  SeekPoints points;
  ASSERT_TRUE(Make(Compression::kGzip, file, &points).ok());
  ExpectSpansGive(points, file, content);
}

TEST(SeekPointsTest, AFileThatIsDamagedOrCutOffGetsNone) {
  for (const auto& [kind, compression] : kKinds) {
    const Bytes file = Compress(Text(400'000), {kind, 3});
    SeekPoints points;
    const auto cut = std::span(file).first(file.size() - 3);
    EXPECT_EQ(Make(compression, cut, &points).code(), StatusCode::kTruncated);
    Bytes damaged = file;
    damaged[file.size() / 2] ^= std::byte{0x10};
    EXPECT_EQ(Make(compression, damaged, &points).code(), StatusCode::kDamaged)
        << CompressionName(compression);
  }
}

TEST(SeekPointsTest, AFrameThatIsTooLongIsRefusedWithTheWayOut) {
  const Bytes file = Compress(Bytes(SeekPoints::kMostSpanBytes + 1), {Kind::kZstd, 1});
  SeekPoints points;
  const Status status = Make(Compression::kZstd, file, &points);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("seekable"), std::string::npos) << status.message();
}

TEST(SeekPointsTest, AFlippedBitCostsItsSpanAlone) {
  const Bytes content = Text(3'000'000);
  for (const auto& [kind, compression] : kKinds) {
    const Bytes file = Compress(content, {kind, 9});
    SeekPoints points;
    ASSERT_TRUE(Make(compression, file, &points).ok());
    ASSERT_GT(points.points.size(), 2U);
    for (std::size_t at = 11; at < file.size(); at += file.size() / 9) {
      Bytes damaged = file;
      damaged[at] ^= std::byte{4};
      for (std::size_t i = 0; i < points.points.size(); ++i) {
        Bytes span(points.ContentBytes(i));
        const Status status = DecompressSpan(points, i, ReaderOf(damaged), span);
        const std::uint64_t begin = points.points[i].content_begin;
        const bool touched = at + 1 >= points.points[i].stored_begin && at < points.StoredEnd(i);
        if (!touched) {
          ASSERT_TRUE(status.ok()) << status.ToString();
        }
        if (status.ok()) {  // such a bit may be one of a header or trailer that is not needed
          ASSERT_TRUE(std::ranges::equal(span, std::span(content).subspan(begin, span.size())));
        } else {
          ASSERT_EQ(status.code(), StatusCode::kDamaged) << status.ToString();
        }
      }
    }
  }
}

/// Frames of `content` with a table at the end, as zstd's seekable format has it.
Bytes Seekable(std::span<const std::byte> content, std::size_t frame_bytes, bool sums) {
  Bytes file;
  Bytes table;
  std::uint32_t frames = 0;
  const auto put = [&table](std::uint32_t number) {
    table.resize(table.size() + 4);
    StoreLe(table.data() + table.size() - 4, number);
  };
  for (std::size_t at = 0; at < content.size(); at += frame_bytes, ++frames) {
    const auto part = content.subspan(at, std::min(frame_bytes, content.size() - at));
    const Bytes frame = Compress(part, {Kind::kZstd, 1});
    file.insert(file.end(), frame.begin(), frame.end());
    put(static_cast<std::uint32_t>(frame.size()));
    put(static_cast<std::uint32_t>(part.size()));
    if (sums) put(static_cast<std::uint32_t>(XXH64(part.data(), part.size(), 0)));
  }
  put(frames);
  table.push_back(sums ? std::byte{0x80} : std::byte{0});
  put(0x8F92EAB1);
  Bytes head(8);
  StoreLe(head.data(), std::uint32_t{0x184D2A5E});
  StoreLe(head.data() + 4, static_cast<std::uint32_t>(table.size()));
  file.insert(file.end(), head.begin(), head.end());
  file.insert(file.end(), table.begin(), table.end());
  return file;
}

TEST(SeekPointsTest, TheTableOfZstdsSeekableFormatIsEnough) {
  const Bytes content = Text(1'000'000);
  for (const bool sums : {false, true}) {
    const Bytes file = Seekable(content, 70'000, sums);
    SeekPoints points;
    const Status status = ReadSeekTable(file.size(), ReaderOf(file), &points);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(points.points.size(), 15U);
    ExpectSpansGive(points, file, content);
  }
  const Bytes plain = Compress(content, {Kind::kZstd, 3});
  SeekPoints points;
  EXPECT_EQ(ReadSeekTable(plain.size(), ReaderOf(plain), &points).code(), StatusCode::kNotFound);
}

// A wrong size moves what follows to other offsets, but each frame gives its own bytes.
TEST(SeekPointsTest, ADamagedTableGivesNoOtherContent) {
  const Bytes content = Text(200'000);
  const Bytes file = Seekable(content, 60'000, true);
  const std::size_t table = 8 + 4 * 12 + 9;
  SeekPoints intact;
  ASSERT_TRUE(ReadSeekTable(file.size(), ReaderOf(file), &intact).ok());
  for (std::size_t at = file.size() - table; at < file.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = file;
      damaged[at] ^= static_cast<std::byte>(1 << bit);
      SeekPoints points;
      if (!ReadSeekTable(damaged.size(), ReaderOf(damaged), &points).ok()) continue;
      for (std::size_t i = 0; i < points.points.size(); ++i) {
        Bytes span(points.ContentBytes(i));
        if (!DecompressSpan(points, i, ReaderOf(damaged), span).ok()) continue;
        const auto same = std::ranges::find(intact.points, points.points[i].stored_begin,
                                            &SeekPoint::stored_begin);
        ASSERT_NE(same, intact.points.end()) << at << " " << bit;
        ASSERT_TRUE(
            std::ranges::equal(span, std::span(content).subspan(same->content_begin, span.size())));
      }
    }
  }
}

}  // namespace
}  // namespace ringfeed
