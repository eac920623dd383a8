#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/stream_copy.h"
#include "readers/parsers/example/column_stager.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// A stager for each column of a batch.
class StagedColumns {
 public:
  StagedColumns() = default;
  StagedColumns(std::size_t columns, std::size_t stage_bytes) {
    for (std::size_t i = 0; i < columns; ++i) Add(stage_bytes);
  }
  /// One more column, with room for so many bytes; where it is short, little of them is ever
  /// touched.
  void Add(std::size_t stage_bytes) {
    const std::size_t lines = (stage_bytes - 1) / ColumnStager::kLine + 2;
    stages_.push_back(std::make_unique_for_overwrite<Line[]>(lines));
    stagers_.emplace_back(stages_.back()[0].bytes, stage_bytes);
  }

  ColumnStager& operator[](std::size_t column) { return stagers_[column]; }

  /// Starts every column where its target says; `fields` have their unit_bytes.
  template <typename Fields>
  void Start(const Fields& fields, std::span<const ColumnTarget> targets) {
    for (std::size_t f = 0; f < stagers_.size(); ++f) {
      const bool ragged = targets[f].offsets != nullptr;
      const auto unit = static_cast<std::size_t>(ragged ? targets[f].offsets[0] : 0);
      stagers_[f].Start(targets[f].data + unit * fields[f].unit_bytes);
    }
  }
  /// Appends rows whose fields are located as the bytes that belong to their columns. `first_row`:
  /// of the call that Start belongs to.
  void AppendLocated(std::span<const ColumnTarget> targets, const FieldLocation* locations,
                     std::size_t first_row, std::size_t rows) {
    for (std::size_t f = 0; f < stagers_.size(); ++f) {
      const FieldLocation* at = locations + f;
      std::int64_t* offsets = targets[f].offsets;
      if (offsets != nullptr) offsets += first_row;
      for (std::size_t row = 0; row < rows; ++row, at += stagers_.size()) {
        if (offsets != nullptr) offsets[row + 1] = offsets[row] + at->units;
        stagers_[f].Append(at->data, at->bytes);
      }
      stagers_[f].Flush();
    }
  }
  /// Sends everything, and orders it before all that follows.
  void Finish() {
    for (ColumnStager& stager : stagers_) stager.Finish();
    StreamFence();
  }

 private:
  struct alignas(ColumnStager::kLine) Line {
    std::byte bytes[ColumnStager::kLine];
  };

  std::vector<std::unique_ptr<Line[]>> stages_;
  std::vector<ColumnStager> stagers_;
};

}  // namespace ringfeed
