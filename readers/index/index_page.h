#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/index/index_image.h"

namespace ringfeed {

/// One page of an index, as IndexImage has it: a view.
class IndexPage {
 public:
  IndexPage(const std::byte* data, const IndexLayout& layout) : data_(data), layout_(layout) {}

  bool ChecksumMatches() const { return LoadLe<std::uint32_t>(data_) == Checksum(data_); }
  /// Never more than a page has room for: a file that is mapped may change behind its check.
  std::uint32_t entries() const {
    return std::min(LoadOnceLe<std::uint32_t>(data_ + 4),
                    static_cast<std::uint32_t>(layout_.entries_per_page()));
  }
  std::uint64_t base_offset() const { return LoadLe<std::uint64_t>(data_ + 8); }
  std::uint64_t base_record() const { return LoadLe<std::uint64_t>(data_ + 16); }
  /// Where that unit begins.
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
