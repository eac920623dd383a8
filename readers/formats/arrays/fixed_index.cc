#include "readers/formats/arrays/fixed_index.h"

#include <algorithm>
#include <cstddef>

namespace ringfeed {

Status FixedIndex::Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const {
  const FixedUnits& fixed = layout_.units;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::uint64_t offset = fixed.offset + records[i] * fixed.stride_bytes;
    const std::uint64_t left = layout_.file_bytes - std::min(layout_.file_bytes, offset);
    units[i] = {offset, std::min(fixed.stride_bytes, left), records[i], 1};
  }
  return {};
}

Status FixedIndex::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  const FixedUnits& fixed = layout_.units;
  *record = 0;
  if (offset <= fixed.offset) return {};
  const std::uint64_t into = offset - fixed.offset;
  const std::uint64_t stride = std::max<std::uint64_t>(fixed.stride_bytes, 1);
  *record = std::min(layout_.records, into / stride + (into % stride != 0 ? 1 : 0));
  return {};
}

std::optional<FixedUnits> FixedIndex::fixed() const {
  const FixedUnits& units = layout_.units;
  if (layout_.records == 0) return units;
  const std::uint64_t last = units.offset + (layout_.records - 1) * units.stride_bytes;
  if (last + units.record_bytes > layout_.file_bytes) return std::nullopt;
  return units;
}

}  // namespace ringfeed
