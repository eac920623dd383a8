#include "readers/engine/batches/batch_buffer.h"

#include "base/little_endian.h"

namespace ringfeed {

namespace {

constexpr std::size_t kColumnAlignment = 256;

/// Takes `lead` bytes and `count` units after `end`, and returns their begin. If they do not fit in
/// kMostBytes, `end` becomes that and stays there.
std::size_t Take(std::size_t* end, std::size_t count, std::size_t unit_bytes,
                 std::size_t lead = 0) {
  const std::size_t begin = (*end + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
  std::size_t bytes = 0;
  const bool wraps = __builtin_mul_overflow(count, unit_bytes, &bytes) ||
                     __builtin_add_overflow(bytes, begin + lead, end);
  if (wraps || *end > BatchBuffer::Layout::kMostBytes) *end = BatchBuffer::Layout::kMostBytes;
  return begin;
}

}  // namespace

BatchBuffer::Layout::Layout(const Parser& parser, std::size_t rows,
                            std::span<const std::uint64_t> unit_capacity, bool masked)
    : columns_(parser.fields().size()) {
  const std::vector<FieldSpec>& fields = parser.fields();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    Column& column = columns_[f];
    column.ragged = fields[f].ragged();
    column.level = parser.role(f) == FieldRole::kLodLevel;
    column.unit_bytes = fields[f].unit_bytes();
    column.capacity = column.ragged ? unit_capacity[f] : rows;
    if (!column.ragged) column.data = Take(&bytes_, rows, column.unit_bytes);
  }
  if (masked) mask_ = Take(&bytes_, rows, 1);
  for (Column& column : columns_) {
    if (column.ragged)
      column.offsets = Take(&bytes_, rows, sizeof(std::int64_t), sizeof(std::int64_t));
  }
  for (Column& column : columns_) {
    if (!column.ragged) continue;
    const std::size_t lead = column.level ? kLevelLeadBytes : 0;
    column.data = Take(&bytes_, column.capacity, column.unit_bytes, lead) + lead;
  }
}

void BatchBuffer::Layout::SetStarts(std::byte* memory) const {
  for (const Column& column : columns_) {
    if (column.ragged) StoreLe<std::int64_t>(memory + column.offsets, 0);
    if (column.level) StoreLe<std::int64_t>(memory + column.data - kLevelLeadBytes, 0);
  }
}

Instance BatchBuffer::Layout::Columns(const Parser& parser, const std::byte* memory,
                                      std::size_t row_count,
                                      const std::shared_ptr<const void>& owner) const {
  Instance instance(columns_.size());
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const FieldSpec& field = parser.fields()[f];
    const Column& column = columns_[f];
    Tensor& tensor = instance[f];
    tensor.dtype = field.dtype;
    tensor.data = memory + column.data;
    tensor.owner = owner;
    std::size_t unit_count = row_count;
    if (column.ragged) {
      const auto* offsets = reinterpret_cast<const std::int64_t*>(memory + column.offsets);
      tensor.lod.push_back({offsets, row_count + 1});
      unit_count = static_cast<std::size_t>(offsets[row_count]);
    }
    tensor.shape.push_back(static_cast<std::int64_t>(unit_count));
    tensor.shape.insert(tensor.shape.end(), field.shape.begin() + (column.ragged ? 1 : 0),
                        field.shape.end());
    tensor.bytes = unit_count * column.unit_bytes;
  }
  return instance;
}

void BatchBuffer::Layout::RebaseLevel(std::size_t column, std::size_t row_count, std::size_t row,
                                      std::byte* memory) const {
  const Column& level = columns_[column];
  const auto* offsets = reinterpret_cast<const std::int64_t*>(memory + level.offsets);
  const auto* next = reinterpret_cast<const std::int64_t*>(memory + columns_[column + 1].offsets);
  auto* ends = reinterpret_cast<std::int64_t*>(memory + level.data);
  const std::int64_t lost = next[row + 1] - next[row];
  for (std::int64_t i = offsets[row + 1]; i < offsets[row_count]; ++i) ends[i] -= lost;
}

}  // namespace ringfeed
