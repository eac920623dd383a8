#include "readers/order/file_table.h"

namespace ringfeed {

std::size_t FileOfRow(const FileTable& table, RowNumber row) {
  std::size_t begin = 0;
  std::size_t end = table.files();
  while (end - begin > 1) {  // files without rows: the last that starts there has it
    const std::size_t middle = begin + (end - begin) / 2;
    (table.FirstRow(middle) <= row ? begin : end) = middle;
  }
  return begin;
}

}  // namespace ringfeed
