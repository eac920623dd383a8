#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "readers/formats/record_index.h"

namespace ringfeed {

/// Records of one size at one distance, the last one perhaps shorter: by arithmetic.
class FixedIndex final : public RecordIndex {
 public:
  struct Layout {
    FixedUnits units{};
    std::uint64_t records = 0;
    std::uint64_t file_bytes = 0;       ///< where the last record's bytes end at the latest
    std::vector<IndexDamage> damage{};  ///< no record's
  };
  explicit FixedIndex(Layout layout) : layout_(std::move(layout)) {}

  std::uint64_t records() const override { return layout_.records; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  /// None where the last record is shorter.
  std::optional<FixedUnits> fixed() const override;
  std::span<const IndexDamage> damage() const override { return layout_.damage; }

 private:
  const Layout layout_;
};

}  // namespace ringfeed
