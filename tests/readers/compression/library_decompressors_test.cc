// Streams that the writers of bzip2, xz, lz4, brotli and snappy made.
#include <gtest/gtest.h>
#include <snappy.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/compression/decompressor.h"
#include "readers/formats/format.h"
#include "ringfeed/ringfeed.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

#if defined(RINGFEED_WITH_BROTLI)
#include <brotli/encode.h>
#endif
#if defined(RINGFEED_WITH_BZIP2)
#include <bzlib.h>
#endif
#if defined(RINGFEED_WITH_LZ4)
#include <lz4frame.h>
#endif
#if defined(RINGFEED_WITH_XZ)
#include <lzma.h>
#endif

namespace ringfeed {
namespace {

using Result = Decompressor::Result;

struct Kind {
  Compression compression;
  const char* ending;
  bool is_checked;  ///< by checksums: a flipped bit is found
  bool is_marked;   ///< by a magic number
  std::function<std::string(const std::string&)> compress;
};

std::string ByBzip2([[maybe_unused]] const std::string& content) {
#if defined(RINGFEED_WITH_BZIP2)
  std::string out(content.size() + content.size() / 100 + 1000, '\0');
  auto bytes = static_cast<unsigned>(out.size());
  std::string given = content;  // which it takes to be written to
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &bytes, given.data(),
                                     static_cast<unsigned>(given.size()), 1, 0, 0),
            BZ_OK);
  out.resize(bytes);
  return out;
#else
  return {};
#endif
}

std::string ByXz([[maybe_unused]] const std::string& content) {
#if defined(RINGFEED_WITH_XZ)
  std::string out(lzma_stream_buffer_bound(content.size()), '\0');
  std::size_t bytes = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(
                6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(content.data()),
                content.size(), reinterpret_cast<std::uint8_t*>(out.data()), &bytes, out.size()),
            LZMA_OK);
  out.resize(bytes);
  return out;
#else
  return {};
#endif
}

std::string ByLz4([[maybe_unused]] const std::string& content) {
#if defined(RINGFEED_WITH_LZ4)
  LZ4F_preferences_t with{};
  with.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  with.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled;
  std::string out(LZ4F_compressFrameBound(content.size(), &with), '\0');
  const std::size_t bytes =
      LZ4F_compressFrame(out.data(), out.size(), content.data(), content.size(), &with);
  EXPECT_EQ(LZ4F_isError(bytes), 0U);
  out.resize(bytes);
  return out;
#else
  return {};
#endif
}

std::string ByBrotli([[maybe_unused]] const std::string& content) {
#if defined(RINGFEED_WITH_BROTLI)
  std::string out(BrotliEncoderMaxCompressedSize(content.size()) + 16, '\0');
  std::size_t bytes = out.size();
  EXPECT_EQ(BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, content.size(),
                                  reinterpret_cast<const std::uint8_t*>(content.data()), &bytes,
                                  reinterpret_cast<std::uint8_t*>(out.data())),
            BROTLI_TRUE);
  out.resize(bytes);
  return out;
#else
  return {};
#endif
}

std::string BySnappy(const std::string& content) {
  std::string out;
  snappy::Compress(content.data(), content.size(), &out);
  return out;
}

class LibraryDecompressorTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().compress("text").empty()) GTEST_SKIP() << "this build has no library for it";
  }
  std::string Compressed(const std::string& content) const { return GetParam().compress(content); }
  /// All content, or up to damage, by pieces of so many bytes.
  Result Decompressed(const std::string& file, std::size_t in, std::size_t out,
                      std::string* content) const {
    const auto decompressor = MakeDecompressor(GetParam().compression);
    std::span<const std::byte> rest = std::as_bytes(std::span(file));
    std::string room(out, '\0');
    content->clear();
    auto result = Result::kNeedsInput;
    std::span<const std::byte> input;
    while (true) {
      if (input.empty() && result != Result::kNeedsRoom) {
        if (rest.empty()) break;
        input = rest.first(std::min(in, rest.size()));
        rest = rest.subspan(input.size());
      }
      std::span<std::byte> output = std::as_writable_bytes(std::span(room));
      result = decompressor->Decompress(&input, &output);
      content->append(room, 0, room.size() - output.size());
      if (result == Result::kDamaged) return result;
    }
    return decompressor->inside_member() ? Result::kNeedsInput : Result::kMemberEnds;
  }
};

std::string Lines(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines += "line " + std::to_string(i) + " of " + std::to_string(random() % 1000) + "\n";
  }
  return lines;
}

TEST_P(LibraryDecompressorTest, StreamsOfAnySizeAreReadInPiecesOfAnySize) {
  for (const std::size_t count : {0U, 1U, 300U, 40'000U}) {
    const std::string content = Lines(count);
    const std::string file = Compressed(content);
    for (const auto& [in, out] :
         {std::pair<std::size_t, std::size_t>{1, 7}, {3, 1}, {100, 4096}, {1 << 20, 1 << 20}}) {
      if (count > 300 && in < 100) continue;
      std::string found;
      ASSERT_EQ(Decompressed(file, in, out, &found), Result::kMemberEnds) << count << " " << in;
      ASSERT_EQ(found, content) << count << " " << in;
    }
  }
}

TEST_P(LibraryDecompressorTest, StreamsFollowEachOther) {
  const std::string file = Compressed(Lines(10)) + Compressed("") + Compressed(Lines(20, 2));
  for (const std::size_t in : {1U, 13U, 100'000U}) {
    std::string found;
    ASSERT_EQ(Decompressed(file, in, 64, &found), Result::kMemberEnds);
    EXPECT_EQ(found, Lines(10) + Lines(20, 2));
  }
}

TEST_P(LibraryDecompressorTest, AStreamThatIsCutHasNotEnded) {
  const std::string content = Lines(200);
  const std::string file = Compressed(content);
  for (std::size_t bytes = 1; bytes < file.size(); ++bytes) {
    std::string found;
    ASSERT_EQ(Decompressed(file.substr(0, bytes), 64, 4096, &found), Result::kNeedsInput) << bytes;
    ASSERT_TRUE(content.starts_with(found)) << bytes;
  }
}

TEST_P(LibraryDecompressorTest, AFlippedBitIsFoundIfThereAreChecksums) {
  const std::string content = Lines(200);
  const std::string file = Compressed(content);
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    std::string found;
    const Result result = Decompressed(damaged, 64, 4096, &found);
    if (!GetParam().is_checked) continue;
    // A few bits mean nothing: then the content is right.
    ASSERT_TRUE(result != Result::kMemberEnds || found == content) << at;
  }
}

TEST_P(LibraryDecompressorTest, ItIsToldByItsFirstBytesOrItsName) {
  const Compression kind = GetParam().compression;
  const std::string name = std::string("a.txt") + GetParam().ending;
  for (const std::size_t count : {0U, 1U, 40'000U}) {
    const std::string file = Compressed(Lines(count));
    const auto head =
        std::as_bytes(std::span(file)).first(std::min<std::size_t>(file.size(), 4096));
    EXPECT_EQ(DetectCompression(head, name), kind) << count;
    if (!GetParam().is_marked) continue;
    EXPECT_EQ(DetectCompression(head), kind) << count;
    for (std::size_t bytes = 1; bytes < 10; ++bytes) {
      EXPECT_TRUE(MayBeCompressed(head.first(bytes))) << bytes;
    }
  }
  std::string_view format = "lines";
  const std::string asked = std::string("lines+") + CompressionName(kind);
  std::string_view left = asked;
  EXPECT_EQ(TakeCompression(&left), kind);
  EXPECT_EQ(left, format);
}

TEST_P(LibraryDecompressorTest, AFileOfLinesIsReadAsOne) {
  const TempDir folder;
  const std::string content = Lines(40'000);
  const std::string path = folder.File("lines.txt") + GetParam().ending;
  std::ofstream(path, std::ios::binary) << Compressed(content);
  std::string found;
  Reader reader = OpenFiles({path});
  RecordBlock block;
  while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
    for (const RecordSpan& record : block.records()) {
      found.append(reinterpret_cast<const char*>(record.data), record.size);
      found += '\n';
    }
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(found, content);
}

// What follows the damaged stream is read, if a stream can be found.
TEST_P(LibraryDecompressorTest, DamageOfOneStreamCostsNotTheNext) {
  if (!GetParam().is_marked) GTEST_SKIP() << "its streams have no marks";
  const TempDir folder;
  const std::string first = Compressed(Lines(300, 1));
  std::string damaged = first + Compressed(Lines(300, 2));
  damaged[first.size() / 2] = static_cast<char>(damaged[first.size() / 2] ^ 4);
  const std::string path = folder.File("lines.txt") + GetParam().ending;
  std::ofstream(path, std::ios::binary) << damaged;
  OpenOptions options;
  options.on_damage = OnDamage::kSkip;
  Reader reader = OpenFiles({path}, options);
  std::string found;
  RecordBlock block;
  while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
    for (const RecordSpan& record : block.records()) {
      if (record.damaged()) continue;
      found.append(reinterpret_cast<const char*>(record.data), record.size);
      found += '\n';
    }
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  const std::string second = Lines(300, 2);  // its first line may be the rest of a lost one
  EXPECT_TRUE(found.ends_with(second.substr(second.find('\n') + 1))) << found.size();
  EXPECT_FALSE(reader.Stats().damage.empty());
}

// Even if what is cut off may be any byte, so that the next stream's first one is taken for it.
TEST_P(LibraryDecompressorTest, AStreamThatIsCutCostsNotTheNext) {
  if (!GetParam().is_marked) GTEST_SKIP() << "its streams have no marks";
  const std::string second = Compressed(Lines(300, 2));
  for (std::size_t lines = 1; lines < 40; ++lines) {
    const std::string first = Compressed(Lines(lines, 1));
    std::string file = first.substr(0, first.size() - 1) + second;
    std::span<const std::byte> rest = std::as_bytes(std::span(file));
    DecompressedReader reader(GetParam().compression, [&](std::span<std::byte> to, std::size_t* n) {
      *n = std::min(to.size(), rest.size());
      std::copy_n(rest.begin(), *n, to.begin());
      rest = rest.subspan(*n);
      return Status();
    });
    std::string found;
    std::string room(4096, '\0');
    std::string loss;
    for (bool goes_on = true; goes_on;) {
      std::size_t got = 0;
      const Status status = reader.Read(std::as_writable_bytes(std::span(room)), &got);
      found.append(room, 0, got);
      goes_on = got > 0 || (!status.ok() && reader.FindNextMember(&loss));
    }
    EXPECT_TRUE(found.ends_with(Lines(300, 2))) << lines;
  }
}

TEST_P(LibraryDecompressorTest, ItIsNotWritten) {
  const TempDir folder;
  const std::string format = std::string("lines+") + CompressionName(GetParam().compression);
  const RecordWriterResult writer = OpenRecordWriter(folder.File("a"), format);
  EXPECT_EQ(writer.status.code(), StatusCode::kUnsupported);
  EXPECT_NE(writer.status.message().find("+zstd"), std::string::npos);
}

TEST(SnappyTest, ABlockThatGivesOtherBytesThanItSaysIsDamaged) {
  for (const std::string& file : {
           std::string("\xff\xff\xff\xff\xff\x01", 6),  // a length of more than 32 bits
           std::string("\x02\x08xyz", 5),               // a literal of three bytes for two
           std::string("\x05\0x\x01\x02", 5),           // a copy from in front of the first byte
       }) {
    const auto decompressor = MakeDecompressor(Compression::kSnappy);
    std::span<const std::byte> input = std::as_bytes(std::span(file));
    std::string room(4096, '\0');
    std::span<std::byte> output = std::as_writable_bytes(std::span(room));
    EXPECT_EQ(decompressor->Decompress(&input, &output), Result::kDamaged);
    EXPECT_EQ(output.size(), room.size());
  }
}

// Of snzip and others, which call their files so, too.
TEST(SnappyTest, AStreamOfBlocksIsNoRawBlock) {
  const std::string stream("\xff\x06\0\0sNaPpY", 10);
  const FormatResult found = ChooseFormat("", "a.txt.snappy", std::as_bytes(std::span(stream)));
  EXPECT_NE(found.status.message().find("a snappy stream"), std::string::npos)
      << found.status.ToString();
}

INSTANTIATE_TEST_SUITE_P(
    All, LibraryDecompressorTest,
    testing::Values(Kind{Compression::kBzip2, ".bz2", true, true, ByBzip2},
                    Kind{Compression::kXz, ".xz", true, true, ByXz},
                    Kind{Compression::kLz4, ".lz4", true, true, ByLz4},
                    Kind{Compression::kBrotli, ".br", false, false, ByBrotli},
                    Kind{Compression::kSnappy, ".snappy", false, false, BySnappy}),
    [](const auto& tested) { return std::string(CompressionName(tested.param.compression)); });

}  // namespace
}  // namespace ringfeed
