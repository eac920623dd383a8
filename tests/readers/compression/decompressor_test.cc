#include "readers/compression/decompressor.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/compressed.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

using Kind = CompressedForm::Kind;

std::vector<std::byte> Bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Compression Of(Kind kind) {
  return kind == Kind::kGzip   ? Compression::kGzip
         : kind == Kind::kZlib ? Compression::kZlib
                               : Compression::kZstd;
}

TEST(DecompressorTest, CompressedFilesAreToldByTheirFirstBytes) {
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    for (const int level : {1, 6, 9}) {
      for (const std::size_t bytes : {8U, 5000U, 500'000U}) {
        const auto file = Compress(RecordPayload(7, bytes), {.kind = kind, .level = level});
        const auto head = std::span(file).first(std::min<std::size_t>(file.size(), 4096));
        EXPECT_EQ(DetectCompression(head), Of(kind)) << CompressionName(Of(kind)) << bytes;
      }
    }
  }
}

TEST(DecompressorTest, OtherFilesAreNotTakenForCompressedOnes) {
  for (const std::string text : {"", "x", "x^2 + y^2", "x\x9c is no stream at all, nor is this one",
                                 "\x1f\x8b", "(\xb5/", "80 80 80 80", "{\"a\": 1}"}) {
    EXPECT_EQ(DetectCompression(Bytes(text)), Compression::kNone) << text;
  }
}

TEST(DecompressorTest, EmptyContentIsAMember) {
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    const auto file = Compress({}, {.kind = kind});
    const auto decompressor = MakeDecompressor(Of(kind));
    std::span<const std::byte> input = file;
    std::byte room;
    std::span<std::byte> output(&room, 1);
    EXPECT_EQ(decompressor->Decompress(&input, &output), Decompressor::Result::kMemberEnds);
    EXPECT_EQ(output.size(), 1U);
    EXPECT_TRUE(input.empty());
    EXPECT_FALSE(decompressor->inside_member());
  }
}

// A distance too far back behind a wrong header, met at the end of what there is.
TEST(DecompressorTest, NoMoreIsTakenOfADamagedStreamThanThereIs) {
  constexpr unsigned char kStream[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                       0x03, 0x2b, 0xc9, 0x48, 0x55, 0x28, 0x4e, 0xcc, 0x4d, 0x55,
                                       0x48, 0x4c, 0x4f, 0xcc, 0xcc, 0x53, 0x48, 0xcc, 0x4b, 0x41,
                                       0x20, 0x95, 0xa0, 0x48, 0x72, 0x95, 0xd0, 0x48, 0x2d, 0x2b,
                                       0x1b, 0x13, 0x23, 0x0b, 0x33, 0x03, 0x3b, 0x07};
  const std::span<const std::byte> stream = std::as_bytes(std::span(kStream));
  const auto decompressor = MakeDecompressor(Compression::kGzip);
  std::byte room[20];
  auto result = Decompressor::Result::kNeedsInput;
  for (std::size_t at = 0; at < stream.size(); at += 16) {
    std::span<const std::byte> input = stream.subspan(at, 16);
    do {
      std::span<std::byte> output(room);
      result = decompressor->Decompress(&input, &output);
      ASSERT_LE(input.size(), 16U);
      ASSERT_LE(output.size(), sizeof room);
    } while (result == Decompressor::Result::kNeedsRoom);
  }
  EXPECT_EQ(result, Decompressor::Result::kDamaged);
}

TEST(DecompressorTest, AfterDamageItIsDamagedUntilRestart) {
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    const auto file = Compress(RecordPayload(1, 100), {.kind = kind});
    const auto decompressor = MakeDecompressor(Of(kind));
    std::vector<std::byte> room(200);
    for (int round = 0; round < 2; ++round) {
      const auto garbage = Bytes("this is no header");
      std::span<const std::byte> input = garbage;
      std::span<std::byte> output = room;
      EXPECT_EQ(decompressor->Decompress(&input, &output), Decompressor::Result::kDamaged);
      EXPECT_FALSE(decompressor->problem().empty());
      input = file;
      EXPECT_EQ(decompressor->Decompress(&input, &output), Decompressor::Result::kDamaged);
      decompressor->Restart();
      input = file;
      output = room;
      EXPECT_EQ(decompressor->Decompress(&input, &output), Decompressor::Result::kMemberEnds);
      EXPECT_EQ(output.size(), 100U);
    }
  }
}

}  // namespace
}  // namespace ringfeed
