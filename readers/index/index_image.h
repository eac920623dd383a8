#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/formats/record_index.h"

namespace ringfeed {

/// An index as it is in its file, little-endian: a page of the header; pages; gaps; damage.
/// A page is 4 KiB: u32 CRC-32C of the rest of it, u32 entries, u64 offset and u64 record number
/// that entries count from, then an entry for each unit in the order of the file, as many as fit
/// (fewer in the last page alone):
///   offset                 u32, in a wide index u64
///   number of its record   the same; only if units are chunks of several records
/// A unit ends at the begin of the next one (the last one at `data_end`), unless a gap says
/// otherwise: u64 unit, u64 end, ascending. After the gaps comes the damage, for each range: u64
/// begin, u64 end, u64 record, u32 bytes of the reason, and these (IndexDamage).
struct IndexLayout {
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kPageHead = 24;

  bool chunks = false;
  bool wide = false;

  std::size_t number_bytes() const { return wide ? 8 : 4; }
  std::size_t entry_bytes() const { return chunks ? 2 * number_bytes() : number_bytes(); }
  std::size_t entries_per_page() const { return (kPageBytes - kPageHead) / entry_bytes(); }
};

/// Identifies a file.
struct FileIdentity {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< 0 of a store of the user's own
  std::uint64_t sample = 0;      ///< of its contents
  /// When anything of it was changed last, and its number in the file system: programs that set a
  /// time of modification do not set these back. 0 if they are not known or not reliable, as on
  /// file systems that are not local. Of a store of the user's own the number is a hash of its
  /// version.
  std::int64_t changed_ns = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The first bytes of an index file.
struct IndexHeader {
  static constexpr std::string_view kMagic{"ringfeed index\n\0", 16};
  static constexpr std::uint32_t kVersion = 4;
  static constexpr std::size_t kFormatBytes = 64;

  std::array<char, 16> magic{};
  std::uint32_t version = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of the header with zero here
  FileIdentity file;
  std::uint64_t max_record_bytes = 0;  ///< that it was made with
  std::uint64_t longest_unit = 0;
  std::uint64_t units = 0;
  std::uint64_t records = 0;
  std::uint64_t pages = 0;
  std::uint64_t gaps = 0;
  std::uint64_t data_end = 0;
  std::uint64_t damaged = 0;      ///< ranges that were found
  std::uint64_t lost_ranges = 0;  ///< those of them that no record has
  std::uint64_t first_lost = 0;   ///< the first of them begins here
  std::uint64_t damage_bytes = 0;
  std::uint32_t damage_checksum = 0;
  std::uint32_t gaps_checksum = 0;
  std::uint8_t chunks = 0;
  std::uint8_t wide = 0;
  std::array<char, 6> unused{};
  /// Its name, then zeros. Of a longer one the first 47 bytes, '#', and 16 hexadecimal digits of
  /// the hash (MixedHash) of all of it.
  std::array<char, kFormatBytes> format{};

  IndexLayout layout() const { return {chunks != 0, wide != 0}; }
};
static_assert(sizeof(IndexHeader) == 16 + 8 + 40 + 11 * 8 + 16 + 64);

/// A unit that ends before the next one begins.
struct IndexGap {
  std::uint64_t unit = 0;
  std::uint64_t end = 0;
};

/// One index in memory.
struct IndexImage {
  /// A file with more gaps and more damage is damaged all over: its index is kept only in memory.
  /// In an intact file each unit may have a gap, of bytes that are passed over.
  static constexpr std::uint64_t kMostGapsKept = 1 << 16;
  static constexpr std::uint64_t kMostDamageBytes = std::uint64_t{1} << 24;

  IndexHeader header;
  std::vector<std::byte> pages;
  std::vector<IndexGap> gaps;
  std::vector<IndexDamage> damage;  ///< sorted
  /// The medium did not give all of the file: that may change later.
  bool unreadable = false;
};

/// One page of an index, as IndexImage has it: a view.
class IndexPage {
 public:
  IndexPage(const std::byte* data, const IndexLayout& layout) : data_(data), layout_(layout) {}

  /// `stored`: so many bytes of it are there, and the rest are zeros.
  bool ChecksumMatches(std::size_t stored) const {
    constexpr std::array<std::byte, IndexLayout::kPageBytes> kZeros{};
    const std::uint32_t there = Crc32c({data_ + 4, stored - 4});
    return LoadLe<std::uint32_t>(data_) ==
           ExtendCrc32c(there, std::span(kZeros).first(IndexLayout::kPageBytes - stored));
  }
  std::uint32_t entries() const { return LoadLe<std::uint32_t>(data_ + 4); }
  std::uint64_t base_offset() const { return LoadLe<std::uint64_t>(data_ + 8); }
  std::uint64_t base_record() const { return LoadLe<std::uint64_t>(data_ + 16); }
  /// The begin of that unit.
  std::uint64_t Offset(std::size_t entry) const { return base_offset() + Number(entry, 0); }
  /// The number of its first record.
  std::uint64_t Record(std::size_t entry) const {
    return base_record() + (layout_.chunks ? Number(entry, layout_.number_bytes()) : entry);
  }

  static std::uint32_t Checksum(const std::byte* data) {
    return Crc32c({data + 4, IndexLayout::kPageBytes - 4});
  }

 private:
  std::uint64_t Number(std::size_t entry, std::size_t into) const {
    const std::byte* const at =
        data_ + IndexLayout::kPageHead + entry * layout_.entry_bytes() + into;
    return layout_.wide ? LoadLe<std::uint64_t>(at) : LoadLe<std::uint32_t>(at);
  }

  const std::byte* const data_;
  const IndexLayout layout_;
};

}  // namespace ringfeed
