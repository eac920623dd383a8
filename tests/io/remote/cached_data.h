#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/remote/piece_cache.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {

/// An object with the bytes of a pattern, by its number.
inline CachedObject PatternObject(std::uint64_t seed, std::uint64_t bytes) {
  return {"s3://bucket/" + std::to_string(seed), bytes, "\"v1\""};
}

/// The bytes of one of its pieces.
inline std::vector<std::byte> PatternPiece(std::uint64_t seed, const CachedObject& object,
                                           std::uint64_t number) {
  std::vector<std::byte> bytes(PieceBytes(object.bytes, number));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = PatternByte(number * kPieceBytes + i, seed);
  }
  return bytes;
}

/// The files of a cache's folder.
struct FolderFacts {
  std::uint64_t bytes = 0;  ///< of pieces and parts
  std::size_t pieces = 0;
  std::size_t parts = 0;
};
inline FolderFacts LookAt(const std::string& folder) {
  FolderFacts facts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!IsPieceFileName(name) && !IsPartFileName(name)) continue;
    struct stat file {};
    if (lstat(entry.path().c_str(), &file) != 0) continue;  // it has just been removed
    facts.bytes += static_cast<std::uint64_t>(file.st_size);
    (IsPieceFileName(name) ? facts.pieces : facts.parts) += 1;
  }
  return facts;
}

/// What a cache gives of a piece.
enum class Given { kNothing, kItsBytes, kWrongBytes };
inline Given Take(PieceCache* cache, const CachedObject& object, std::uint64_t number,
                  std::span<const std::byte> expected) {
  const std::unique_ptr<CachedPiece> piece = cache->Find(object, number);
  if (piece == nullptr) return Given::kNothing;
  std::vector<std::byte> bytes(piece->bytes());
  if (!piece->Read(0, bytes)) return Given::kNothing;
  const bool same = bytes.size() == expected.size() &&
                    std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
  return same ? Given::kItsBytes : Given::kWrongBytes;
}

}  // namespace ringfeed
