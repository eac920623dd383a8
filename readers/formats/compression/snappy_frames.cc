#include "readers/formats/compression/snappy_frames.h"

#include <snappy.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr std::array<unsigned char, 7> kStreamStart = {'s', 'n', 'a', 'p', 'p', 'y', 0};
constexpr std::array<unsigned char, 10> kOfficialStart = {0xff, 6,   0,   0,   's',
                                                          'N',  'a', 'P', 'p', 'Y'};
constexpr std::size_t kStreamBlockBytes = 32768;
constexpr std::size_t kOfficialBlockBytes = 65536;
constexpr std::size_t kStreamHeaderBytes = 7;
constexpr std::size_t kOfficialHeaderBytes = 8;  // with the checksum

enum OfficialType : unsigned { kCompressed = 0, kRaw = 1, kSkippable = 0x80, kStart = 0xff };

struct FramedBlock {
  bool compressed = false;
  std::span<const std::byte> stored;
  std::size_t bytes = 0;  // uncompressed
  std::uint32_t masked_crc = 0;
};

std::uint32_t LoadBigEndian32(const std::byte* at) {
  return __builtin_bswap32(LoadLe<std::uint32_t>(at));
}

template <std::size_t N>
bool StartsWith(std::span<const std::byte> bytes, const std::array<unsigned char, N>& start) {
  return bytes.size() >= N && std::memcmp(bytes.data(), start.data(), N) == 0;
}

// The length of the uncompressed block, as the block states it.
std::string_view PromisedBytes(FramedBlock* block, std::size_t most) {
  block->bytes = block->stored.size();
  if (block->compressed &&
      !snappy::GetUncompressedLength(reinterpret_cast<const char*>(block->stored.data()),
                                     block->stored.size(), &block->bytes)) {
    return "a snappy block without a length";
  }
  return block->bytes > most ? "a snappy block that promises more than a block may hold" : "";
}

// Takes the next block off `rest`; sets *ended if none is left.
std::string_view NextStreamBlock(std::span<const std::byte>* rest, FramedBlock* block,
                                 bool* ended) {
  while (StartsWith(*rest, kStreamStart)) *rest = rest->subspan(kStreamStart.size());
  *ended = rest->empty();
  if (*ended) return "";
  if (rest->size() < kStreamHeaderBytes) return "the snappy stream ends inside a block's header";
  const auto flag = std::to_integer<unsigned>((*rest)[0]);
  const std::size_t stored = Settled(std::to_integer<std::size_t>((*rest)[1]) << 8 |
                                     std::to_integer<std::size_t>((*rest)[2]));
  if (flag > 1) return "a snappy block of an unknown kind";
  if (stored == 0 || stored > kStreamBlockBytes) return "a snappy block of an impossible length";
  if (rest->size() - kStreamHeaderBytes < stored) return "the snappy stream ends inside a block";
  block->compressed = flag == 1;
  block->masked_crc = LoadBigEndian32(rest->data() + 3);
  block->stored = rest->subspan(kStreamHeaderBytes, stored);
  *rest = rest->subspan(kStreamHeaderBytes + stored);
  return PromisedBytes(block, kStreamBlockBytes);
}

std::string_view NextOfficialBlock(std::span<const std::byte>* rest, FramedBlock* block,
                                   bool* ended) {
  while (true) {
    *ended = rest->empty();
    if (*ended) return "";
    if (rest->size() < 4) return "the snappy stream ends inside a block's header";
    const auto header = LoadOnceLe<std::uint32_t>(rest->data());
    const unsigned type = header & 0xff;
    const std::size_t length = header >> 8;
    if (rest->size() - 4 < length) return "the snappy stream ends inside a block";
    const std::span<const std::byte> body = rest->subspan(4, length);
    if (type == kStart && !StartsWith(*rest, kOfficialStart)) return "a wrong snappy stream start";
    *rest = rest->subspan(4 + length);
    if (type >= kSkippable) continue;
    if (type > kRaw) return "a snappy block of an unknown kind";
    if (length < 4) return "a snappy block of an impossible length";
    block->compressed = type == kCompressed;
    block->masked_crc = LoadLe<std::uint32_t>(body.data());
    block->stored = body.subspan(4);
    return PromisedBytes(block, kOfficialBlockBytes);
  }
}

std::string_view NextBlock(SnappyFraming framing, std::span<const std::byte>* rest,
                           FramedBlock* block, bool* ended) {
  return framing == SnappyFraming::kStream ? NextStreamBlock(rest, block, ended)
                                           : NextOfficialBlock(rest, block, ended);
}

// Either stream begins with its name, even if nothing follows.
bool HasStart(SnappyFraming framing, std::span<const std::byte> stream) {
  return framing == SnappyFraming::kStream ? StartsWith(stream, kStreamStart)
                                           : StartsWith(stream, kOfficialStart);
}

void Append(std::span<const std::byte> bytes, std::vector<std::byte>* to) {
  to->insert(to->end(), bytes.begin(), bytes.end());
}

void AppendHeader(SnappyFraming framing, bool compressed, std::size_t stored, std::uint32_t crc,
                  std::vector<std::byte>* stream) {
  std::array<std::byte, kOfficialHeaderBytes> header;
  if (framing == SnappyFraming::kStream) {
    header[0] = static_cast<std::byte>(compressed ? 1 : 0);
    header[1] = static_cast<std::byte>(stored >> 8);
    header[2] = static_cast<std::byte>(stored);
    StoreLe(header.data() + 3, __builtin_bswap32(crc));
    Append(std::span(header).first(kStreamHeaderBytes), stream);
    return;
  }
  const unsigned type = compressed ? kCompressed : kRaw;
  StoreLe(header.data(), static_cast<std::uint32_t>((stored + 4) << 8 | type));
  StoreLe(header.data() + 4, crc);
  Append(header, stream);
}

}  // namespace

std::string_view SnappyFramedSize(SnappyFraming framing, std::span<const std::byte> stream,
                                  std::size_t* bytes) {
  *bytes = 0;
  if (!HasStart(framing, stream)) return "no snappy stream";
  bool ended = false;
  while (true) {
    FramedBlock block;
    const std::string_view wrong = NextBlock(framing, &stream, &block, &ended);
    if (!wrong.empty() || ended) return wrong;
    *bytes += block.bytes;
  }
}

std::string_view SnappyFramedDecompress(SnappyFraming framing, std::span<const std::byte> stream,
                                        std::span<std::byte> to) {
  constexpr std::string_view kChanged = "the snappy stream changed while it was read";
  std::vector<std::byte> stored;
  bool ended = false;
  while (true) {
    FramedBlock block;
    std::string_view wrong = NextBlock(framing, &stream, &block, &ended);
    if (!wrong.empty()) return wrong;
    if (ended) return to.empty() ? "" : kChanged;
    if (block.compressed) {
      // The library reads the length once more, and writes as much: it gets a copy of its own.
      stored.assign(block.stored.begin(), block.stored.end());
      block.stored = stored;
      wrong = PromisedBytes(&block, kOfficialBlockBytes);
      if (!wrong.empty()) return wrong;
    }
    if (block.bytes > to.size()) return kChanged;
    if (!block.compressed) {
      std::copy(block.stored.begin(), block.stored.end(), to.begin());
    } else if (!snappy::RawUncompress(reinterpret_cast<const char*>(block.stored.data()),
                                      block.stored.size(), reinterpret_cast<char*>(to.data()))) {
      return "a snappy block that does not decompress";
    }
    if (MaskCrc32c(Crc32c(to.first(block.bytes))) != block.masked_crc) {
      return "a snappy block's checksum does not match";
    }
    to = to.subspan(block.bytes);
  }
}

void SnappyFramedCompress(SnappyFraming framing, std::span<const std::byte> data,
                          std::vector<std::byte>* stream) {
  const bool is_stream = framing == SnappyFraming::kStream;
  if (is_stream) {
    Append(std::as_bytes(std::span(kStreamStart)), stream);
  } else {
    Append(std::as_bytes(std::span(kOfficialStart)), stream);
  }
  const std::size_t most = is_stream ? kStreamBlockBytes : kOfficialBlockBytes;
  std::vector<char> compressed(snappy::MaxCompressedLength(most));
  while (!data.empty()) {
    const std::span<const std::byte> block = data.first(std::min(most, data.size()));
    data = data.subspan(block.size());
    std::size_t size = 0;
    snappy::RawCompress(reinterpret_cast<const char*>(block.data()), block.size(),
                        compressed.data(), &size);
    const bool gains = size < block.size() - block.size() / 8;
    AppendHeader(framing, gains, gains ? size : block.size(), MaskCrc32c(Crc32c(block)), stream);
    Append(gains ? std::as_bytes(std::span(compressed).first(size)) : block, stream);
  }
}

}  // namespace ringfeed
