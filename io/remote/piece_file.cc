#include "io/remote/piece_file.h"

#include <unistd.h>
#include <xxhash.h>
#if defined(RINGFEED_HAS_XXH_DISPATCH)
#include <xxh_x86dispatch.h>  // XXH3_64bits by the processor's widest registers
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kPieceMagic = 0x3145434549504652;  // "RFPIECE1"
constexpr std::size_t kMostTextBytes = 4096;
constexpr std::size_t kNameDigits = 32;
constexpr std::size_t kTailBytes = 48;
constexpr std::size_t kSumBytes = sizeof(std::uint64_t);

Status NoPiece(const char* why) { return Status(StatusCode::kDamaged, why); }

std::size_t BlocksOf(std::uint32_t piece_bytes) {
  return (piece_bytes + kPieceBlockBytes - 1) / kPieceBlockBytes;
}

std::size_t FooterBytes(std::uint32_t piece_bytes, std::size_t text_bytes) {
  return BlocksOf(piece_bytes) * kSumBytes + text_bytes + kTailBytes;
}

template <typename T>
void Put(std::vector<std::byte>* bytes, T value) {
  bytes->resize(bytes->size() + sizeof(T));
  StoreLe(bytes->data() + bytes->size() - sizeof(T), value);
}

void PutText(std::vector<std::byte>* bytes, const std::string& text) {
  const auto all = std::as_bytes(std::span(text));
  bytes->insert(bytes->end(), all.begin(), all.end());
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool IsHash(std::string_view name) {
  return name.size() == kNameDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::uint32_t PieceBytes(std::uint64_t object_bytes, std::uint64_t number) {
  if (number > object_bytes / kPieceBytes) return 0;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kPieceBytes, object_bytes - number * kPieceBytes));
}

bool IsCacheable(const CachedObject& object) {
  return !object.version.empty() && object.name.size() <= kMostTextBytes &&
         object.version.size() <= kMostTextBytes;
}

std::string PieceFileName(const CachedObject& object, std::uint64_t number) {
  std::vector<std::byte> key;
  for (const std::string* text : {&object.name, &object.version}) {
    Put(&key, std::uint64_t{text->size()});
    PutText(&key, *text);
  }
  Put(&key, object.bytes);
  Put(&key, number);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  std::array<char, kNameDigits + 1> name{};
  std::snprintf(name.data(), name.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return name.data();
}

bool IsPieceFileName(std::string_view name) { return IsHash(name); }

bool IsPartFileName(std::string_view name) {
  return name.ends_with(kPartEnding) && IsHash(name.substr(0, name.size() - kPartEnding.size()));
}

std::uint64_t PieceFileBytes(const CachedObject& object, std::uint64_t number) {
  const std::uint32_t bytes = PieceBytes(object.bytes, number);
  return bytes + FooterBytes(bytes, object.name.size() + object.version.size());
}

std::vector<std::byte> EncodePieceFooter(const PieceFooter& footer) {
  std::vector<std::byte> bytes;
  bytes.reserve(
      FooterBytes(footer.piece_bytes(), footer.object.name.size() + footer.object.version.size()));
  for (const std::uint64_t sum : footer.sums) Put(&bytes, sum);
  PutText(&bytes, footer.object.name);
  PutText(&bytes, footer.object.version);
  Put(&bytes, footer.object.bytes);
  Put(&bytes, footer.number);
  Put(&bytes, footer.piece_bytes());
  Put(&bytes, static_cast<std::uint32_t>(footer.object.name.size()));
  Put(&bytes, static_cast<std::uint32_t>(footer.object.version.size()));
  Put(&bytes, std::uint32_t{0});
  Put(&bytes, kPieceMagic);
  Put(&bytes, static_cast<std::uint64_t>(XXH3_64bits(bytes.data(), bytes.size())));
  return bytes;
}

Status DecodePieceFooter(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                         PieceFooter* footer, std::uint64_t* needed) {
  *needed = kTailBytes;
  if (file_bytes < kTailBytes) return NoPiece("it is too short for a piece");
  if (bytes.size() < kTailBytes) return Status(StatusCode::kTruncated, "more bytes are needed");
  const std::byte* const tail = bytes.data() + bytes.size() - kTailBytes;
  if (LoadLe<std::uint64_t>(tail + 32) != kPieceMagic) return NoPiece("it does not end as a piece");
  const auto piece_bytes = LoadLe<std::uint32_t>(tail + 16);
  const auto name_bytes = LoadLe<std::uint32_t>(tail + 20);
  const auto version_bytes = LoadLe<std::uint32_t>(tail + 24);
  if (piece_bytes > kPieceBytes || name_bytes > kMostTextBytes || version_bytes > kMostTextBytes) {
    return NoPiece("its footer has a length that no piece has");
  }
  *needed = FooterBytes(piece_bytes, name_bytes + version_bytes);
  if (*needed + piece_bytes != file_bytes) return NoPiece("its size is not that of its footer");
  if (bytes.size() < *needed) return Status(StatusCode::kTruncated, "more bytes are needed");
  bytes = bytes.last(*needed);
  if (XXH3_64bits(bytes.data(), bytes.size() - kSumBytes) != LoadLe<std::uint64_t>(tail + 40)) {
    return NoPiece("its footer is damaged");
  }
  footer->object.bytes = LoadLe<std::uint64_t>(tail);
  footer->number = LoadLe<std::uint64_t>(tail + 8);
  if (footer->piece_bytes() != piece_bytes || piece_bytes == 0 ||
      LoadLe<std::uint32_t>(tail + 28) != 0) {
    return NoPiece("its footer contradicts itself");
  }
  footer->sums.resize(BlocksOf(piece_bytes));
  for (std::uint64_t& sum : footer->sums) {
    sum = LoadLe<std::uint64_t>(bytes.data());
    bytes = bytes.subspan(kSumBytes);
  }
  footer->object.name = TextOf(bytes.first(name_bytes));
  footer->object.version = TextOf(bytes.subspan(name_bytes, version_bytes));
  return {};
}

Status ReadPieceFooter(int descriptor, std::uint64_t file_bytes, PieceFooter* footer) {
  std::vector<std::byte> bytes;
  std::uint64_t needed = 0;
  // The first call asks for the tail, the second one for the footer, whose size that tells.
  for (;;) {
    Status status = DecodePieceFooter(bytes, file_bytes, footer, &needed);
    if (status.code() != StatusCode::kTruncated) return status;
    bytes.resize(static_cast<std::size_t>(needed));
    const int error = ReadAllAt(descriptor, file_bytes - needed, bytes);
    if (error != 0) return StatusFromErrno(error, "read its footer");
  }
}

std::uint64_t PieceBlockSum(std::span<const std::byte> block) {
  return XXH3_64bits(block.data(), block.size());
}

bool PieceBlocksMatch(const PieceFooter& footer, std::uint32_t offset,
                      std::span<const std::byte> blocks) {
  const std::uint32_t piece_bytes = footer.piece_bytes();
  if (offset % kPieceBlockBytes != 0 || offset > piece_bytes ||
      blocks.size() > piece_bytes - offset ||
      (blocks.size() % kPieceBlockBytes != 0 && offset + blocks.size() != piece_bytes)) {
    return false;
  }
  for (std::size_t n = offset / kPieceBlockBytes; !blocks.empty(); ++n) {
    const auto block = blocks.first(std::min<std::size_t>(blocks.size(), kPieceBlockBytes));
    if (PieceBlockSum(block) != footer.sums[n]) return false;
    blocks = blocks.subspan(block.size());
  }
  return true;
}

int ReadAllAt(int descriptor, std::uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = pread(descriptor, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return EIO;
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return 0;
}

int WriteAllAt(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return 0;
}

}  // namespace ringfeed
