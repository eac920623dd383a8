#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// A version of an object of a store. Two that are equal here have the same bytes.
struct CachedObject {
  std::string name;         ///< its address, without anything secret: it is written to the disk
  std::uint64_t bytes = 0;  ///< its size
  std::string version;      ///< its ETag, or what else tells versions apart

  friend auto operator<=>(const CachedObject&, const CachedObject&) = default;
};

/// The part of an object that is kept in one file: half of the 8 MiB that a range in file order
/// has, so few files (51,200 of 200 GiB); and a small record among others costs one request of
/// little more time than its own.
inline constexpr std::uint32_t kPieceBytes = std::uint32_t{1} << 22;
/// What a checksum is of: what a direct read or the page cache reads at least, so checking a part
/// of a piece reads nothing more. The checksums of a piece take 1/512 of it.
inline constexpr std::uint32_t kPieceBlockBytes = 4096;

/// The bytes of that piece of an object; 0: it has no such piece.
std::uint32_t PieceBytes(std::uint64_t object_bytes, std::uint64_t number);

/// Whether an object can be cached: it has a version, and no text of more than 4 KiB.
bool IsCacheable(const CachedObject& object);

/// The name of a piece's file: a hash, in 32 hexadecimal digits. Nothing in it comes from the store
/// as it is.
std::string PieceFileName(const CachedObject& object, std::uint64_t number);
/// The ending of such a file's name while it is being written.
inline constexpr std::string_view kPartEnding = ".part";
bool IsPieceFileName(std::string_view name);
bool IsPartFileName(std::string_view name);

/// What stands behind the bytes in a piece's file: which piece they are, and their checksums.
///
///     the bytes, from offset 0 on, so that offsets in the file are those in the piece
///     XXH3-64 of each block of 4 KiB; u64
///     name, version
///     the object's size, the piece's number; u64
///     the bytes of the piece, of the name, of the version, 0; u32
///     "RFPIECE1", XXH3-64 of everything from the checksums on; u64
///
/// All numbers are little-endian.
struct PieceFooter {
  CachedObject object;
  std::uint64_t number = 0;
  std::vector<std::uint64_t> sums;

  std::uint32_t piece_bytes() const { return PieceBytes(object.bytes, number); }
};

/// The bytes of a piece's file, with its footer.
std::uint64_t PieceFileBytes(const CachedObject& object, std::uint64_t number);

std::vector<std::byte> EncodePieceFooter(const PieceFooter& footer);
/// Reads the footer at the end of `bytes`, which end where the file of `file_bytes` bytes ends.
/// kTruncated: as many of the last bytes as `needed` says would tell. kDamaged: it is none.
Status DecodePieceFooter(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                         PieceFooter* footer, std::uint64_t* needed);
/// Reads it from a file's descriptor. kDamaged: it is none; kIoError: it cannot be read.
Status ReadPieceFooter(int descriptor, std::uint64_t file_bytes, PieceFooter* footer);

/// The checksum of a block.
std::uint64_t PieceBlockSum(std::span<const std::byte> block);
/// Whether whole blocks, from the multiple `offset` of kPieceBlockBytes on, are as they were. The
/// last block of a piece may be shorter. False if they are not whole, or not in the piece.
bool PieceBlocksMatch(const PieceFooter& footer, std::uint32_t offset,
                      std::span<const std::byte> blocks);

/// pread and pwrite of all bytes. 0, or the error number; EIO if the file ends before.
int ReadAllAt(int descriptor, std::uint64_t offset, std::span<std::byte> into);
int WriteAllAt(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace ringfeed
