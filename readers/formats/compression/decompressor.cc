#include "readers/formats/compression/decompressor.h"

#include <array>

#include "readers/formats/compression/gzip_decompressor.h"
#include "readers/formats/compression/zlib_decompressor.h"
#include "readers/formats/compression/zstd_decompressor.h"

namespace ringfeed {
namespace {

unsigned At(std::span<const std::byte> head, std::size_t index) {
  return std::to_integer<unsigned>(head[index]);
}

// The third byte is the method, the fourth has flags of which three are reserved.
bool StartsAsGzip(std::span<const std::byte> head) {
  return At(head, 0) == 0x1f && At(head, 1) == 0x8b && At(head, 2) == 8 && At(head, 3) < 0x20;
}

// A frame, or a skippable one.
bool StartsAsZstd(std::span<const std::byte> head) {
  const bool frame = At(head, 0) == 0x28 && At(head, 1) == 0xb5;
  if (frame && At(head, 2) == 0x2f && At(head, 3) == 0xfd) return true;
  const bool skippable = At(head, 0) >> 4 == 5 && At(head, 1) == 0x2a;
  return skippable && At(head, 2) == 0x4d && At(head, 3) == 0x18;
}

bool StartsAsZlib(std::span<const std::byte> head) {
  // RFC 1950: method 8, a window of at most 32 KiB, a multiple of 31.
  const unsigned method_and_window = At(head, 0);
  return (method_and_window & 0x0f) == 8 && method_and_window >> 4 < 8 &&
         (method_and_window * 256 + At(head, 1)) % 31 == 0;
}

bool Inflates(std::span<const std::byte> head) {
  ZlibDecompressor inflater;
  std::array<std::byte, 4096> discarded;
  while (true) {
    std::span<std::byte> room = discarded;
    const Decompressor::Result result = inflater.Decompress(&head, &room);
    if (result != Decompressor::Result::kNeedsRoom) return result != Decompressor::Result::kDamaged;
  }
}

}  // namespace

const char* CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
    case Compression::kZstd:
      return "zstd";
    case Compression::kNone:
      break;
  }
  return "nothing";
}

bool StartsMember(Compression compression, std::span<const std::byte> head) {
  switch (compression) {
    case Compression::kGzip:
      return StartsAsGzip(head);
    case Compression::kZlib:
      return StartsAsZlib(head);
    case Compression::kZstd:
      return StartsAsZstd(head);
    case Compression::kNone:
      break;
  }
  return false;
}

Compression DetectCompression(std::span<const std::byte> head) {
  if (head.size() < 4) return Compression::kNone;
  if (StartsAsGzip(head)) return Compression::kGzip;
  if (StartsAsZstd(head)) return Compression::kZstd;
  return StartsAsZlib(head) && Inflates(head) ? Compression::kZlib : Compression::kNone;
}

std::unique_ptr<Decompressor> MakeDecompressor(Compression compression) {
  if (compression == Compression::kGzip) return std::make_unique<GzipDecompressor>();
  if (compression == Compression::kZlib) return std::make_unique<ZlibDecompressor>();
  return std::make_unique<ZstdDecompressor>();
}

}  // namespace ringfeed
