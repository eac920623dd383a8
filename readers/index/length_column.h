// The units of one file's records (tokens, steps of a ragged field): what batches by content are
// planned from, without a look at the records. Kept beside the file's index.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/index/folder_index.h"
#include "readers/index/index_image.h"
#include "readers/index/kept_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The first bytes of a length column. Its key follows, then zeros up to a multiple of 64 bytes,
/// then pages of 4096 bytes: u32 CRC-32C of the rest of it, then entries of `width` bytes, one for
/// each record in the file's order. The last page ends with its last entry. The largest number of
/// that width is a hole.
struct LengthHeader {
  static constexpr std::string_view kMagic{"ringfeed lengths", 16};
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::size_t kMostKeyBytes = std::size_t{1} << 16;
  static constexpr std::size_t kBins = 33;

  std::array<char, 16> magic{};
  std::uint32_t version = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of the header with zero here, and of the key
  FileIdentity file;
  std::uint64_t max_record_bytes = 0;  ///< that it was made with
  std::uint64_t records = 0;
  std::uint64_t holes = 0;  ///< records that were damaged, or that the parser refused
  std::uint64_t sum = 0;    ///< of all units
  /// Of the units' squares; the largest number if they are more.
  std::uint64_t squares = 0;
  std::uint64_t digest = 0;  ///< MixedHash of all entries, four bytes each
  std::uint32_t most = 0;    ///< units of a record
  std::uint32_t width = 0;   ///< 1, 2 or 4
  std::uint32_t key_bytes = 0;
  std::uint32_t unused = 0;
  /// Records by the bits of their units: 0; 1; 2 to 3; 4 to 7; …
  std::array<std::uint64_t, kBins> histogram{};
};
static_assert(sizeof(LengthHeader) == 16 + 8 + 40 + 6 * 8 + 16 + 33 * 8);

/// Makes the bytes of a column. `units`: of each record, LengthColumn::kHole for a hole. `key`
/// tells what they are units of; at most kMostKeyBytes.
std::vector<std::byte> EncodeLengths(std::span<const std::uint32_t> units, const std::string& key,
                                     const FileIdentity& file, std::uint64_t max_record_bytes);

/// A column that was opened. Its pages are checked when they are first used. Thread safe.
class LengthColumn {
 public:
  /// In place of the units of a hole; no record has so many.
  static constexpr std::uint32_t kHole = std::numeric_limits<std::uint32_t>::max();

  /// Takes bytes that EncodeLengths made. Fails with kDamaged if they are no such.
  static Status Open(StoredIndex stored, std::shared_ptr<const LengthColumn>* column);
  LengthColumn(StoredIndex stored, const LengthHeader& header);

  const LengthHeader& header() const { return header_; }
  std::string_view key() const;
  std::span<const std::byte> bytes() const { return stored_.bytes(); }
  std::uint64_t records() const { return header_.records; }
  /// Of each record, by its number in the file; LengthColumn::kHole of a hole. kDamaged if a page
  /// is.
  Status UnitsOf(std::span<const std::uint64_t> records, std::span<std::uint32_t> units) const;
  /// Asks for the memory of a record's entry, which UnitsOf will read soon.
  void Prefetch(std::uint64_t record) const;
  /// Checks all pages that were not checked yet. kDamaged if one is.
  Status CheckAll() const;

 private:
  std::size_t OffsetOf(std::uint64_t record) const;
  template <typename Entry>
  Status Read(std::span<const std::uint64_t> records, std::span<std::uint32_t> units) const;
  Status Check(std::uint64_t page) const;

  const StoredIndex stored_;
  const LengthHeader header_;
  const std::span<const std::byte> pages_;
  mutable CheckedPages checked_;
};

/// What a column must be of to be used.
struct LengthPurpose {
  std::string key;
  FileIdentity file;
  std::uint64_t records = 0;
  std::uint64_t max_record_bytes = 0;
};
/// Opens the column at `place`. kNotFound if there is none; kDamaged; kInvalidArgument if it is of
/// another state of the file, of another key or of other options. Reads a column of up to 256 MiB
/// whole and checks it: it will be asked for records at random. Blocks.
Status LoadLengths(const IndexPlace& place, const LengthPurpose& purpose, FolderIndexes* folders,
                   std::string* path, std::shared_ptr<const LengthColumn>* column);
/// Keeps what EncodeLengths made: small ones among others, as indexes. Others see all of it or
/// nothing. *path is where it is. Blocks.
Status SaveLengths(const IndexPlace& place, std::span<const std::byte> column,
                   FolderIndexes* folders, std::string* path);

}  // namespace ringfeed
