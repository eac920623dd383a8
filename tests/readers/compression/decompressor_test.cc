#include "readers/formats/compression/decompressor.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory/memory_limit.h"
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

// Two bytes and what is too short to be wrong are no stream of zlib.
TEST(DecompressorTest, ShortTextThatBeginsAsZlibDoesIsText) {
  for (const std::string text : {"X\tcount\n1\t2\n", "HK\nUS\nUS\n", "x\x9c", "x\x9ck", "HK\nU"}) {
    EXPECT_EQ(DetectCompression(Bytes(text)), Compression::kNone) << text;
    EXPECT_EQ(DetectCompression(Bytes(text), "a.tsv"), Compression::kNone) << text;
  }
}

TEST(DecompressorTest, AShortStreamOfZlibThatIsCutIsToldByItsName) {
  const auto whole = Compress(RecordPayload(7, 900), {.kind = Kind::kZlib});
  const auto cut = std::span(whole).first(whole.size() - 3);
  EXPECT_EQ(DetectCompression(whole), Compression::kZlib);
  EXPECT_EQ(DetectCompression(cut, "a.txt"), Compression::kNone);
  EXPECT_EQ(DetectCompression(cut, "a.txt.zlib"), Compression::kZlib);
  EXPECT_EQ(DetectCompression(cut, "a.zz"), Compression::kZlib);
  EXPECT_TRUE(MayBeCompressed(cut));
  EXPECT_FALSE(MayBeCompressed(Bytes("abc\ndef\n")));
  EXPECT_EQ(DetectCompression(Bytes("abc\n"), "a.zlib"), Compression::kNone);
}

TEST(DecompressorTest, OneByteOrTwoMayBeginACompressedStreamOrNone) {
  for (const std::string text : {"", "x", "(", "P", "\x1f", "x\x9c", "\x1f\x8b", "(\xb5/", "P*M"}) {
    EXPECT_TRUE(MayBeCompressed(Bytes(text))) << text;
  }
  for (const std::string text : {"1", "a", "\n", "x\n", "(1", "Pa", "\x1f\n", "8\n", "x2\n"}) {
    EXPECT_FALSE(MayBeCompressed(Bytes(text))) << text;
  }
}

// A flush ends in four bytes that nothing else has at the end of a block.
TEST(DecompressorTest, AFlushTellsAStreamOfZlibThatIsShort) {
  const std::vector<std::byte> content = RecordPayload(7, 60);
  const auto whole = Compress(content, {.kind = Kind::kZlib, .flush_every = 20});
  std::size_t told = whole.size();
  for (std::size_t bytes = whole.size(); bytes > 0; --bytes) {
    const auto head = std::span(whole).first(bytes);
    if (DetectCompression(head) == Compression::kZlib) told = bytes;
    EXPECT_EQ(DetectCompression(head) == Compression::kZlib, bytes == told) << bytes;
    EXPECT_TRUE(MayBeCompressed(head));
  }
  constexpr std::byte kFlush[] = {std::byte{0}, std::byte{0}, std::byte{0xff}, std::byte{0xff}};
  EXPECT_LT(told, whole.size() / 2);
  EXPECT_TRUE(std::ranges::equal(std::span(whole).subspan(told - 4, 4), kFlush));
  // However it goes on.
  auto damaged = whole;
  for (std::size_t at = told; at < damaged.size(); ++at) damaged[at] = std::byte{0xff};
  EXPECT_EQ(DetectCompression(damaged), Compression::kZlib);
}

// Two numbers, 376 and -256, begin as zlib and a flush of nothing do.
TEST(DecompressorTest, AFlushOfNothingTellsNoStreamOfZlib) {
  const std::string numbers("\x78\x01\x00\x00\x00\xff\xff\xff\x02\x00\x00\x00", 12);
  EXPECT_EQ(DetectCompression(Bytes(numbers)), Compression::kNone);
  const std::string flushes("\x78\x01\x00\x00\x00\xff\xff\x00\x00\x00\xff\xff", 12);
  EXPECT_EQ(DetectCompression(Bytes(flushes)), Compression::kNone);
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

// zlib writes the header: every part of it, with its checksum.
std::vector<std::byte> WithHeader(std::string extra, std::string name, std::string comment) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  gz_header header{};
  header.hcrc = 1;
  header.extra = reinterpret_cast<Bytef*>(extra.data());
  header.extra_len = static_cast<uInt>(extra.size());
  if (!name.empty()) header.name = reinterpret_cast<Bytef*>(name.data());
  if (!comment.empty()) header.comment = reinterpret_cast<Bytef*>(comment.data());
  EXPECT_EQ(deflateSetHeader(&stream, &header), Z_OK);
  std::vector<std::byte> file(1000);
  std::string text = "text";
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = 4;
  stream.next_out = reinterpret_cast<Bytef*>(file.data());
  stream.avail_out = 1000;
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  file.resize(stream.total_out);
  deflateEnd(&stream);
  return file;
}

// The last result, and all that was written.
std::pair<Decompressor::Result, std::string> InPieces(std::span<const std::byte> file,
                                                      std::size_t piece) {
  const auto decompressor = MakeDecompressor(Compression::kGzip);
  std::vector<std::byte> room(1000);
  std::span<std::byte> output = room;
  auto result = Decompressor::Result::kNeedsInput;
  while (!file.empty() && result == Decompressor::Result::kNeedsInput) {
    std::span<const std::byte> input = file.first(std::min(piece, file.size()));
    file = file.subspan(input.size());
    result = decompressor->Decompress(&input, &output);
  }
  return {result, {reinterpret_cast<const char*>(room.data()), room.size() - output.size()}};
}

TEST(DecompressorTest, AHeaderOfGzipIsReadAndCheckedInPiecesOfAnySize) {
  const std::string_view long_extra(std::string_view("ab\3\0def", 7));
  for (const std::string& extra : {std::string(), std::string(long_extra), std::string(300, 'e')}) {
    for (const std::string name : {"", "name.txt"}) {
      for (const std::string comment : {"", "a comment"}) {
        const auto file = WithHeader(extra, name, comment);
        for (const std::size_t piece : {1U, 2U, 3U, 11U, 1000U}) {
          const auto [result, text] = InPieces(file, piece);
          ASSERT_EQ(result, Decompressor::Result::kMemberEnds) << piece;
          ASSERT_EQ(text, "text");
        }
      }
    }
  }
  // A byte of the time, which nothing but the checksum covers, and a flag that means nothing yet.
  for (const std::size_t at : {4U, 3U}) {
    auto file = WithHeader("", "name.txt", "");
    file[at] ^= std::byte{0x20};
    for (const std::size_t piece : {1U, 2U, 3U, 11U, 1000U}) {
      ASSERT_EQ(InPieces(file, piece).first, Decompressor::Result::kDamaged) << at << " " << piece;
    }
  }
}

// A frame with a window of 2^log bytes, as `zstd --long=` makes it, or by a dictionary.
std::vector<std::byte> ZstdFrame(std::span<const std::byte> content, int log,
                                 const std::string& dictionary = {}) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  if (log > 0) {
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, log);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_strategy, ZSTD_fast);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_hashLog, 6);
  }
  if (!dictionary.empty()) {
    ZSTD_CCtx_loadDictionary(context.get(), dictionary.data(), dictionary.size());
  }
  std::vector<std::byte> frame(content.size() + 1000);
  ZSTD_inBuffer in{content.data(), content.size(), 0};
  ZSTD_outBuffer out{frame.data(), frame.size(), 0};
  ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_flush);  // its size is not known before
  EXPECT_EQ(ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_end), 0U);
  frame.resize(out.pos);
  return frame;
}

TEST(DecompressorTest, AWindowOfZstdIsTakenIfMemoryAllows) {
  if (AvailableMemory() < std::uint64_t{1} << 30) GTEST_SKIP() << "there is less than 1 GiB";
  const auto content = RecordPayload(1, 5000);
  const auto frame = ZstdFrame(content, 28);
  for (const std::size_t piece : {1U, 3U, 6U, 100U, 10000U}) {
    const auto decompressor = MakeDecompressor(Compression::kZstd);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::byte> room(content.size() + 1);
      std::span<std::byte> output = room;
      std::span<const std::byte> rest = frame;
      auto result = Decompressor::Result::kNeedsInput;
      while (!rest.empty() && result != Decompressor::Result::kDamaged) {
        std::span<const std::byte> input = rest.first(std::min(piece, rest.size()));
        rest = rest.subspan(input.size());
        result = decompressor->Decompress(&input, &output);
      }
      ASSERT_EQ(result, Decompressor::Result::kMemberEnds) << decompressor->problem();
      EXPECT_EQ(output.size(), 1U);
      room.pop_back();
      EXPECT_EQ(room, content);
    }
  }
}

TEST(DecompressorTest, WhatCannotBeReadIsNotDamaged) {
  const auto content = RecordPayload(1, 500);
  auto dictionary = ZstdFrame(content, 0, std::string(200, 'd'));
  // A dictionary without a header has no number: give the frame one.
  dictionary[4] |= std::byte{1};
  dictionary.insert(
      dictionary.begin() + ((dictionary[4] & std::byte{0x20}) == std::byte{0} ? 6 : 5),
      std::byte{77});
  const auto zstd = MakeDecompressor(Compression::kZstd);
  std::vector<std::byte> room(1000);
  std::span<std::byte> output = room;
  std::span<const std::byte> input = dictionary;
  EXPECT_EQ(zstd->Decompress(&input, &output), Decompressor::Result::kDamaged);
  EXPECT_EQ(zstd->code(), StatusCode::kUnsupported);
  EXPECT_NE(zstd->problem().find("dictionary 77"), std::string_view::npos) << zstd->problem();

  // RFC 1950: a dictionary is asked for by the second byte, and named by its Adler-32.
  const auto zlib = MakeDecompressor(Compression::kZlib);
  const auto preset = Bytes(std::string("\x78\xbb\x01\x02\x03\x04\x03\0", 8));
  input = preset;
  EXPECT_EQ(zlib->Decompress(&input, &output), Decompressor::Result::kDamaged);
  EXPECT_EQ(zlib->code(), StatusCode::kUnsupported);

  zstd->Restart();
  const auto garbage = Bytes("this is no frame");
  input = garbage;
  EXPECT_EQ(zstd->Decompress(&input, &output), Decompressor::Result::kDamaged);
  EXPECT_EQ(zstd->code(), StatusCode::kDamaged);
}

}  // namespace
}  // namespace ringfeed
