#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "readers/index/record_index.h"

namespace ringfeed {

/// Records of one size at one distance, the last one perhaps shorter: by arithmetic.
class FixedIndex final : public RecordIndex {
 public:
  struct Layout {
    FixedUnits units{};
    std::uint64_t records = 0;
    std::uint64_t file_bytes = 0;  ///< where the last record's bytes end at the latest
    IndexLoss loss{};
  };
  explicit FixedIndex(const Layout& layout) : layout_(layout) {}

  std::uint64_t records() const override { return layout_.records; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  /// None where the last record is shorter.
  std::optional<FixedUnits> fixed() const override;
  IndexLoss loss() const override { return layout_.loss; }

 private:
  const Layout layout_;
};

}  // namespace ringfeed
