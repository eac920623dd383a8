#include "readers/formats/compression/decompressed_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
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

/// So many bytes of the file at most with each call.
DecompressedReader::Source InPieces(std::span<const std::byte> file, std::size_t in) {
  return [=](std::span<std::byte> buffer, std::size_t* got) mutable {
    *got = std::min({in, buffer.size(), file.size()});
    std::copy_n(file.begin(), *got, buffer.begin());
    file = file.subspan(*got);
    return Status();
  };
}

/// All of it, `in` compressed bytes and `out` decompressed ones at a time.
Read ReadAll(Compression compression, std::span<const std::byte> file, std::size_t in,
             std::size_t out) {
  DecompressedReader reader(compression, InPieces(file, in));
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

TEST(DecompressedReaderTest, EveryFormOfAStreamIsReadInPiecesOfAnySize) {
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

TEST(DecompressedReaderTest, NothingAndPaddingAreNoMembers) {
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

TEST(DecompressedReaderTest, ACutAtAnyByteGivesATruePrefixAndSaysWhere) {
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

TEST(DecompressedReaderTest, NoFlippedBitOfAStreamPassesUnnoticed) {
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

TEST(DecompressedReaderTest, AFailureOfTheMediumComesBehindWhatWasRead) {
  const Bytes content = Content(100'000);
  const Bytes file = Compress(content, {Kind::kGzip});
  bool first = true;
  DecompressedReader reader(Compression::kGzip, [&](std::span<std::byte> buffer, std::size_t* got) {
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

/// All of it where damage is skipped: the content between two losses each.
std::vector<Bytes> ReadSkipping(Compression compression, std::span<const std::byte> file,
                                std::size_t in, std::size_t out) {
  DecompressedReader reader(compression, InPieces(file, in));
  std::vector<Bytes> parts(1);
  Bytes room(out);
  while (true) {
    std::size_t got = 0;
    const Status status = reader.Read(room, &got);
    parts.back().insert(parts.back().end(), room.begin(),
                        room.begin() + static_cast<std::ptrdiff_t>(got));
    if (got > 0) continue;
    std::string loss;
    if (status.ok() || !reader.FindNextMember(&loss)) return parts;
    parts.emplace_back();
  }
}

Bytes Joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(DecompressedReaderTest, BehindAnyDamagedByteReadingGoesOnWithTheNextMember) {
  const Bytes content = Content(1200);
  for (const auto& [kind, compression] : kKinds) {
    std::vector<Bytes> members;
    for (std::size_t i = 0; i < 3; ++i) {
      members.push_back(Compress(std::span(content).subspan(i * 400, 400), {kind}));
    }
    const Bytes file = Joined(members);
    for (std::size_t at = 0; at < members[0].size() + members[1].size(); ++at) {
      for (const unsigned bit : {0U, 3U, 6U, 7U}) {
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1U << bit);
        // The first frame asks for a dictionary then, which is no damage.
        if (kind == Kind::kZstd && at == 4 && bit == 0) continue;
        const auto parts = ReadSkipping(compression, damaged, 1 << 20, 1000);
        const std::string what = std::string(CompressionName(compression)) + " byte " +
                                 std::to_string(at) + " bit " + std::to_string(bit);
        ASSERT_LE(parts.size(), 3U) << what;
        // The members behind the damaged one are there in full, and nothing twice.
        const std::size_t intact = at < members[0].size() ? 400U : 800U;
        const std::span tail = std::span(content).subspan(intact);
        ASSERT_GE(parts.back().size(), tail.size()) << what;
        ASSERT_TRUE(std::equal(tail.rbegin(), tail.rend(), parts.back().rbegin())) << what;
        ASSERT_LE(Joined(parts).size(), 1200U + 400U) << what;
      }
    }
  }
}

TEST(DecompressedReaderTest, WhatIsFoundBehindDamageDependsOnNoPieces) {
  Bytes content(600'000);
  std::uint64_t state = 1;
  for (std::byte& byte : content) {  // hardly compressed: members longer than the buffer
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 58);
  }
  for (const auto& [kind, compression] : kKinds) {
    Bytes file = Compress(content, {kind, 2});
    for (const std::size_t at : {5000U, 100'000U, 200'000U}) file[at] ^= std::byte{0x40};
    const auto parts = ReadSkipping(compression, file, 1 << 20, 1 << 20);
    ASSERT_EQ(parts.size(), 2U) << CompressionName(compression);
    EXPECT_TRUE(
        std::equal(parts[1].begin(), parts[1].end(), content.begin() + 300'000, content.end()));
    for (const std::size_t in : {999U, 65'536U}) {
      const auto pieces = ReadSkipping(compression, file, in, 5000);
      ASSERT_EQ(pieces.size(), 2U);
      EXPECT_EQ(pieces[1], parts[1]);
    }
  }
}

TEST(DecompressedReaderTest, GarbageBetweenMembersIsPassedOver) {
  const Bytes content = Content(900);
  for (const auto& [kind, compression] : kKinds) {
    for (const std::size_t garbage : {1U, 3U, 50U, 400'000U}) {
      Bytes file = Compress(std::span(content).first(500), {kind});
      file.insert(file.end(), garbage, std::byte{'x'});
      const Bytes second = Compress(std::span(content).subspan(500), {kind});
      file.insert(file.end(), second.begin(), second.end());
      const auto parts = ReadSkipping(compression, file, 4096, 4096);
      ASSERT_EQ(parts.size(), 2U);
      EXPECT_EQ(Joined(parts), content);
    }
  }
}

TEST(DecompressedReaderTest, AMemberInsideOfADamagedMemberIsNotTakenForTheNextOne) {
  const Bytes content = Content(300);
  for (const auto& [kind, compression] : kKinds) {
    // Without compression it stands as it is in the outer one, whose checksum is then wrong.
    const Bytes inner = Compress(Content(100), {kind});
    Bytes file = Compress(inner, {.kind = kind, .level = 0});
    ASSERT_NE(std::search(file.begin(), file.end(), inner.begin(), inner.end()), file.end());
    file.back() ^= std::byte{1};
    const Bytes second = Compress(content, {kind});
    file.insert(file.end(), second.begin(), second.end());
    const auto parts = ReadSkipping(compression, file, 4096, 4096);
    ASSERT_EQ(parts.size(), 2U) << CompressionName(compression);
    EXPECT_EQ(parts[0], inner);
    EXPECT_EQ(parts[1], content);
  }
}

TEST(DecompressedReaderTest, ACutMemberIsTheEnd) {
  for (const auto& [kind, compression] : kKinds) {
    const Bytes file = Compress(Content(9000), {kind, 2});
    const auto parts =
        ReadSkipping(compression, std::span(file).first(file.size() - 5), 4096, 4096);
    EXPECT_EQ(parts.size(), 1U);
  }
}

TEST(DecompressedReaderTest, AFailureOfTheMediumEndsTheSearch) {
  Bytes file = Compress(Content(1000), {Kind::kGzip});
  file[file.size() - 1] ^= std::byte{1};
  bool first = true;
  DecompressedReader reader(Compression::kGzip, [&](std::span<std::byte> buffer, std::size_t* got) {
    *got = 0;
    if (!std::exchange(first, false)) return Status(StatusCode::kIoError, "the disk burns");
    *got = file.size();
    std::copy_n(file.begin(), *got, buffer.begin());
    return Status();
  });
  Bytes room(2000);
  std::size_t got = 0;
  EXPECT_TRUE(reader.Read(room, &got).ok());
  EXPECT_EQ(reader.Read(room, &got).code(), StatusCode::kDamaged);
  std::string loss;
  EXPECT_TRUE(reader.FindNextMember(&loss));
  EXPECT_EQ(reader.Read(room, &got).code(), StatusCode::kIoError);
  EXPECT_FALSE(reader.FindNextMember(&loss));
}

}  // namespace
}  // namespace ringfeed
