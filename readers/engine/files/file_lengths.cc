#include "readers/engine/files/file_lengths.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

#include "base/mixed_hash.h"

namespace ringfeed {

static_assert(LengthColumn::kHole == LengthTable::kHole);

FileLengths::FileLengths(const FileTable& table, Columns columns, std::vector<LengthChange> changes)
    : files_(table), columns_(std::move(columns)), changes_(std::move(changes)) {
  assert(columns_.size() == table.files());
  MixedHash digest;
  for (const auto& column : columns_) {
    digest.Add(column == nullptr ? 0 : column->header().digest);
    if (column != nullptr) most_ = std::max(most_, Changed(column->header().most));
  }
  digest_ = digest.value();
}

std::uint32_t FileLengths::Changed(std::uint32_t units) const {
  if (units == kHole) return units;
  for (const LengthChange& change : changes_) {
    units = UpToMultiple(std::min(units, change.cut_at), change.multiple, kHole - 1);
  }
  return units;
}

Status FileLengths::UnitsOf(std::span<const RowNumber> rows, std::span<std::uint32_t> units) const {
  // So many places are looked up, and asked for, before the first of them is read.
  constexpr std::size_t kTogether = 64;
  std::array<const LengthColumn*, kTogether> columns;
  std::array<std::uint64_t, kTogether> records;
  while (!rows.empty()) {
    const std::size_t count = std::min(rows.size(), kTogether);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t file = files_.FileOf(rows[i]);
      columns[i] = columns_[file].get();
      records[i] = rows[i] - files_.FirstRow(file);
      columns[i]->Prefetch(records[i]);
    }
    for (std::size_t begin = 0; begin < count;) {
      std::size_t end = begin + 1;
      while (end < count && columns[end] == columns[begin]) ++end;
      const Status status = columns[begin]->UnitsOf(std::span(records).subspan(begin, end - begin),
                                                    units.subspan(begin, end - begin));
      if (!status.ok()) return status;
      begin = end;
    }
    if (!changes_.empty()) {
      for (std::uint32_t& each : units.first(count)) each = Changed(each);
    }
    rows = rows.subspan(count);
    units = units.subspan(count);
  }
  return {};
}

}  // namespace ringfeed
