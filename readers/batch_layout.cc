#include "readers/batch_layout.h"

namespace ringfeed {

namespace {

constexpr std::size_t kColumnAlignment = 256;

std::size_t Take(std::size_t* end, std::size_t bytes) {
  const std::size_t begin = (*end + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
  *end = begin + bytes;
  return begin;
}

}  // namespace

BatchLayout::BatchLayout(std::span<const FieldSpec> fields, std::size_t rows,
                         std::span<const std::uint64_t> unit_capacity)
    : columns_(fields.size()) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    Column& column = columns_[f];
    column.ragged = fields[f].ragged();
    column.unit_bytes = fields[f].unit_bytes();
    column.capacity = column.ragged ? unit_capacity[f] : rows;
    if (!column.ragged) column.data = Take(&bytes_, rows * column.unit_bytes);
  }
  for (Column& column : columns_) {
    if (column.ragged) column.offsets = Take(&bytes_, (rows + 1) * sizeof(std::int64_t));
  }
  for (Column& column : columns_) {
    if (column.ragged) column.data = Take(&bytes_, column.capacity * column.unit_bytes);
  }
}

}  // namespace ringfeed
