#include "readers/compression/content_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/compressed.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = CompressedForm::Kind;

constexpr std::pair<Kind, Compression> kKinds[] = {{Kind::kGzip, Compression::kGzip},
                                                   {Kind::kZlib, Compression::kZlib},
                                                   {Kind::kZstd, Compression::kZstd}};

/// Text-like content, so that it is really compressed.
Bytes Content(std::size_t bytes) {
  Bytes content;
  for (std::uint64_t i = 0; content.size() < bytes; ++i) {
    const std::string line = "{\"id\": " + std::to_string(i * i % 1009) + ", \"name\": \"row\"}\n";
    const auto some = std::as_bytes(std::span(line));
    content.insert(content.end(), some.begin(), some.end());
  }
  content.resize(bytes);
  return content;
}

struct Read {
  Bytes content;
  Status status;
};

/// All of it, `in` compressed bytes and `out` decompressed ones at a time.
Read ReadAll(Compression compression, std::span<const std::byte> file, std::size_t in,
             std::size_t out) {
  ContentReader reader(compression, [&](std::span<std::byte> buffer, std::size_t* got) {
    *got = std::min({in, buffer.size(), file.size()});
    std::copy_n(file.begin(), *got, buffer.begin());
    file = file.subspan(*got);
    return Status();
  });
  Read read;
  Bytes room(out);
  std::size_t got = 1;
  while (got > 0) {
    read.status = reader.Read(room, &got);
    read.content.insert(read.content.end(), room.begin(),
                        room.begin() + static_cast<std::ptrdiff_t>(got));
  }
  return read;
}

TEST(ContentReaderTest, EveryFormOfAStreamIsReadInPiecesOfAnySize) {
  const Bytes content = Content(40'000);
  for (const auto& [kind, compression] : kKinds) {
    for (const std::size_t members : {1U, 2U, 7U}) {
      for (const std::size_t flush : {0U, 1000U}) {
        const Bytes file = Compress(content, {kind, members, flush});
        for (const std::size_t in : {1U, 7U, 4096U, 1U << 20}) {
          for (const std::size_t out : {1U, 100U, 1U << 20}) {
            const Read read = ReadAll(compression, file, in, out);
            ASSERT_TRUE(read.status.ok()) << read.status.ToString();
            ASSERT_EQ(read.content, content) << CompressionName(compression) << in << " " << out;
          }
        }
      }
    }
  }
}

TEST(ContentReaderTest, NothingAndPaddingAreNoMembers) {
  const Bytes content = Content(100);
  for (const auto& [kind, compression] : kKinds) {
    EXPECT_TRUE(ReadAll(compression, {}, 10, 10).status.ok());
    Bytes file = Compress(content, {kind});
    file.resize(file.size() + 3000);
    const Read padded = ReadAll(compression, file, 100, 100);
    EXPECT_TRUE(padded.status.ok()) << padded.status.ToString();
    EXPECT_EQ(padded.content, content);
    file.insert(file.end(), 30, std::byte{'x'});
    EXPECT_EQ(ReadAll(compression, file, 100, 100).status.code(), StatusCode::kDamaged);
  }
}

TEST(ContentReaderTest, ACutAtAnyByteGivesATruePrefixAndSaysWhere) {
  const Bytes content = Content(2000);
  for (const auto& [kind, compression] : kKinds) {
    const Bytes file = Compress(content, {kind, 3});
    std::size_t whole = 0;
    for (std::size_t cut = 1; cut < file.size(); ++cut) {
      const Read read = ReadAll(compression, std::span(file).first(cut), 64, 100);
      ASSERT_LE(read.content.size(), content.size());
      ASSERT_TRUE(std::equal(read.content.begin(), read.content.end(), content.begin())) << cut;
      if (read.status.ok()) {
        ++whole;  // between two members nothing is missing
      } else {
        ASSERT_EQ(read.status.code(), StatusCode::kTruncated) << read.status.ToString();
        ASSERT_NE(read.status.message().find("at byte " + std::to_string(cut)), std::string::npos);
      }
    }
    EXPECT_EQ(whole, 2U);
  }
}

TEST(ContentReaderTest, NoFlippedBitOfAStreamPassesUnnoticed) {
  const Bytes content = Content(1500);
  for (const auto& [kind, compression] : kKinds) {
    const Bytes file = Compress(content, {kind});
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const unsigned bit : {0U, 3U, 7U}) {
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1U << bit);
        const Read read = ReadAll(compression, damaged, 64, 100);
        ASSERT_LE(read.content.size(), 2'000'000U);
        if (!read.status.ok()) continue;
        // Bits without a meaning for the content, of the header's time for one.
        ASSERT_EQ(read.content, content) << CompressionName(compression) << " " << at;
      }
    }
  }
}

TEST(ContentReaderTest, AFailureOfTheMediumComesBehindWhatWasRead) {
  const Bytes content = Content(100'000);
  const Bytes file = Compress(content, {Kind::kGzip});
  bool first = true;
  ContentReader reader(Compression::kGzip, [&](std::span<std::byte> buffer, std::size_t* got) {
    *got = 0;
    if (!std::exchange(first, false)) return Status(StatusCode::kIoError, "the disk burns");
    *got = file.size() / 2;
    std::copy_n(file.begin(), *got, buffer.begin());
    return Status();
  });
  Bytes room(1 << 20);
  std::size_t got = 0;
  std::size_t all = 0;
  Status status;
  while (status.ok()) {
    status = reader.Read(std::span(room).subspan(all), &got);
    all += got;
  }
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_GT(all, content.size() / 10);
  EXPECT_TRUE(std::equal(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(all),
                         room.begin()));
  EXPECT_EQ(reader.Read(room, &got).code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace ringfeed
