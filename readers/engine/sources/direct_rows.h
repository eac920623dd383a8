#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/lane_files.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// Rows of one size in mapped files: nothing is read or framed, they are pointed at. One thread.
class DirectRows {
 public:
  DirectRows(const OpenedFiles* opened, LaneFiles* files) : opened_(opened), files_(files) {}

  /// Puts as many of `rows`, from the first on, into the empty block as suit one part; their
  /// number. 0, and the block is as it was, where one of them is not of such a file. Where the rows
  /// will be `written`, soon and by this thread, it begins to fetch their bytes.
  std::size_t Append(std::span<const RowNumber> rows, bool written, Block* block);
  /// Where a row stands, if it is of such a file, which a row before was too; else empty.
  std::span<const std::byte> Find(RowNumber row) const;

 private:
  /// Where the rows of the file that was looked at last stand.
  struct Place {
    RowNumber begin = 0;
    RowNumber end = 0;
    const std::byte* data = nullptr;
    std::size_t stride = 0;
    std::size_t bytes = 0;
  };
  bool Move(RowNumber row, Place* place, Block* block);

  const OpenedFiles* const opened_;
  LaneFiles* const files_;
  std::vector<std::shared_ptr<InputFile>> inputs_;
};

}  // namespace ringfeed
