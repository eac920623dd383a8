#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "readers/formats/record_index.h"
#include "readers/index/index_image.h"
#include "readers/index/kept_file.h"

namespace ringfeed {

/// An index of pages. A page of a file is checked when it is first used; if that fails, the call
/// returns kDamaged.
class PagedIndex final : public RecordIndex {
 public:
  /// In memory.
  explicit PagedIndex(IndexImage image);
  /// Of a file: `stored` holds `pages`, of the last of which zeros at the end may be left out.
  PagedIndex(const IndexHeader& header, std::span<const std::byte> pages,
             std::vector<IndexGap> gaps, std::vector<IndexDamage> damage, StoredIndex stored);

  std::uint64_t records() const override { return header_.records; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  std::span<const IndexDamage> damage() const override { return damage_; }
  IndexLoss loss() const override { return {header_.lost_ranges, header_.first_lost}; }
  /// Checks every page now.
  Status CheckPages() const;

  /// Whether the other one has the same units in the same places.
  bool SameUnits(const PagedIndex& other) const;

  const IndexHeader& header() const { return header_; }
  std::span<const std::byte> pages() const { return pages_; }
  std::span<const IndexGap> gaps() const { return gaps_; }
  /// The begin of that unit; of the one after the last, the end of all.
  Status OffsetOf(std::uint64_t unit, std::uint64_t* offset) const;

 private:
  Status Check(std::uint64_t page) const;
  /// Whether the file still has the bytes that were read: checked pages are gone if it was cut.
  Status CheckLength() const;
  std::uint64_t EntriesOf(std::uint64_t page) const;
  IndexPage At(std::uint64_t page) const {
    return {pages_.data() + page * IndexLayout::kPageBytes, layout_};
  }
  Status FindOne(std::uint64_t record, RecordUnit* unit) const;
  /// The unit that holds a record.
  Status UnitOf(std::uint64_t record, std::uint64_t* unit) const;
  /// The first page for which `before` is false; pages that it gets are checked.
  template <typename Before>
  Status FirstPage(const Before& before, std::uint64_t* page) const;
  /// Begin and first record of a unit; of the one after the last, the end of all.
  Status Place(std::uint64_t unit, std::uint64_t* begin, std::uint64_t* record) const;

  const IndexHeader header_;
  const IndexLayout layout_;
  const StoredIndex stored_;
  const std::vector<IndexGap> gaps_;
  const std::vector<IndexDamage> damage_;
  const std::span<const std::byte> pages_;
  mutable std::optional<CheckedPages>
      checked_;  ///< of a file; in memory pages are as they were made
};

}  // namespace ringfeed
