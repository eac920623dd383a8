#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/engine/files/file_table.h"

namespace ringfeed {

/// Files of which no more is known than how many rows each has.
class CountedFiles final : public FileTable {
 public:
  explicit CountedFiles(const std::vector<std::uint64_t>& rows) : first_rows_(1) {
    for (const std::uint64_t count : rows) first_rows_.push_back(first_rows_.back() + count);
  }
  std::size_t files() const override { return first_rows_.size() - 1; }
  RowNumber FirstRow(std::size_t file) const override { return first_rows_[file]; }
  const DataFile& file(std::size_t /*file*/) const override { return file_; }

 private:
  std::vector<RowNumber> first_rows_;
  const DataFile file_{};
};

}  // namespace ringfeed
