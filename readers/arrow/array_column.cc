#include "readers/arrow/array_column.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

Status BadArray(const ColumnType& type, const std::string& why) {
  return Status(StatusCode::kDamaged, "the array of column \"" + type.name + "\": " + why);
}

Status BadValue(const char* why) { return Status(StatusCode::kDamaged, why); }

std::int64_t BuffersOf(ColumnLayout layout) {
  switch (layout) {
    case ColumnLayout::kStruct:
    case ColumnLayout::kFixedList:
      return 1;
    case ColumnLayout::kBytes:
    case ColumnLayout::kListView:
      return 3;
    case ColumnLayout::kViews:
      return 3;  // and one for each of its data buffers
    default:
      return 2;
  }
}

// Bytes of the buffer behind the validity for so many rows; -1 if they overflow.
std::int64_t BytesFor(const ColumnType& type, std::int64_t rows) {
  std::int64_t width = static_cast<std::int64_t>(type.width);
  std::int64_t more = 0;
  if (type.layout == ColumnLayout::kBits) return rows / 8 + 1;
  if (type.layout == ColumnLayout::kViews) width = 16;
  if (type.layout == ColumnLayout::kDictionary) {
    width = static_cast<std::int64_t>(DTypeBytes(type.index));
  }
  if (type.layout == ColumnLayout::kBytes || type.layout == ColumnLayout::kList) {
    width = type.wide ? 8 : 4;
    more = width;
  }
  if (type.layout == ColumnLayout::kListView) width = type.wide ? 8 : 4;
  std::int64_t bytes = 0;
  const bool overflows =
      __builtin_mul_overflow(rows, width, &bytes) || __builtin_add_overflow(bytes, more, &bytes);
  return overflows ? -1 : bytes;
}

// What is the same for arrays of all types.
Status CheckArray(const ColumnType& type, const ArrowArray& array, std::int64_t least_rows) {
  std::int64_t end = 0;
  if (array.release == nullptr) return BadArray(type, "it was released");
  if (array.length < 0 || array.offset < 0 ||
      __builtin_add_overflow(array.length, array.offset, &end)) {
    return BadArray(type, "length " + std::to_string(array.length) + ", offset " +
                              std::to_string(array.offset));
  }
  if (array.length < least_rows) {
    return BadArray(type, std::to_string(array.length) + " rows where " +
                              std::to_string(least_rows) + " are needed");
  }
  const std::int64_t buffers = BuffersOf(type.layout);
  const bool has_views = type.layout == ColumnLayout::kViews;
  if (array.buffers == nullptr || array.n_buffers < buffers ||
      (!has_views && array.n_buffers != buffers)) {
    return BadArray(type, std::to_string(array.n_buffers) + " buffers");
  }
  const bool has_children = type.layout != ColumnLayout::kDictionary;
  const auto children = static_cast<std::int64_t>(has_children ? type.children.size() : 0);
  if (array.n_children != children || (children > 0 && array.children == nullptr)) {
    return BadArray(type, std::to_string(array.n_children) + " members");
  }
  for (std::int64_t i = 0; i < children; ++i) {
    if (array.children[i] == nullptr) return BadArray(type, "a member is not there");
  }
  if (array.null_count < -1 || array.null_count > array.length ||
      (array.null_count > 0 && array.buffers[0] == nullptr)) {
    return BadArray(type, std::to_string(array.null_count) + " nulls");
  }
  return {};
}

// Bits of rows from the array's offset on.
ValidBits BitsOf(const ArrowArray& array) {
  if (array.null_count == 0) return {};
  return {static_cast<const std::uint8_t*>(array.buffers[0]), array.offset};
}

}  // namespace

bool ValidBits::HasAll(std::int64_t first, std::int64_t count) const {
  if (bits == nullptr) return true;
  const std::int64_t end = first + count;
  while (first < end) {
    const bool whole = (offset + first) % 8 == 0 && end - first >= 8;
    if (whole ? bits[(offset + first) / 8] != 0xFF : !Has(first)) return false;
    first += whole ? 8 : 1;
  }
  return true;
}

Status ArrayColumn::Open(const ColumnType& type, const ArrowArray& array, std::int64_t least_rows,
                         ArrayColumn* column) {
  if (Status status = CheckArray(type, array, least_rows); !status.ok()) return status;
  column->layout_ = type.layout;
  column->wide_ = type.wide;
  column->index_ = type.index;
  column->width_ = type.width;
  column->size_ = type.size;
  column->offset_ = array.offset;
  column->rows_ = array.length;
  column->valid_ = BitsOf(array);
  if (Status status = column->OpenBuffers(type, array); !status.ok()) return status;
  if (type.children.empty() || type.layout == ColumnLayout::kStruct) return {};
  const ArrowArray* child = nullptr;
  std::int64_t least = 0;
  if (type.layout == ColumnLayout::kDictionary) {
    child = array.dictionary;
    if (child == nullptr) return BadArray(type, "it has no dictionary");
  } else {
    child = array.children[0];
  }
  if (type.layout == ColumnLayout::kFixedList &&
      __builtin_mul_overflow(array.offset + array.length, type.size, &least)) {
    return BadArray(type, "its elements overflow");
  }
  column->last_offset_ = child->length;
  return Open(type.children[0], *child, least, &column->child_.emplace_back());
}

Status ArrayColumn::OpenBuffers(const ColumnType& type, const ArrowArray& array) {
  if (layout_ == ColumnLayout::kFixedList || layout_ == ColumnLayout::kStruct) return {};
  const std::int64_t end = array.offset + array.length;
  const std::int64_t bytes = BytesFor(type, end);
  values_ = static_cast<const std::byte*>(array.buffers[1]);
  if (bytes < 0 || (array.length > 0 && bytes > 0 && values_ == nullptr)) {
    return BadArray(type, "it lacks a buffer, or that overflows");
  }
  if (layout_ == ColumnLayout::kViews) return OpenViews(array);
  if (layout_ != ColumnLayout::kBytes && layout_ != ColumnLayout::kListView) return {};
  data_ = static_cast<const std::byte*>(array.buffers[2]);
  if (array.length == 0) return {};
  if (layout_ == ColumnLayout::kListView) {
    return data_ != nullptr ? Status() : BadArray(type, "it lacks its sizes");
  }
  // As much data as the last offset says there is.
  last_offset_ = Integer(values_, end);
  if (last_offset_ < 0 || (last_offset_ > 0 && data_ == nullptr)) {
    return BadArray(type, "it lacks its data");
  }
  return {};
}

Status ArrayColumn::OpenViews(const ArrowArray& array) {
  buffer_count_ = array.n_buffers - 3;
  buffers_ = array.buffers + 2;
  buffer_bytes_ = static_cast<const std::byte*>(array.buffers[array.n_buffers - 1]);
  if (buffer_count_ > 0 && buffer_bytes_ == nullptr) {
    return BadValue("an array of views lacks the lengths of its data");
  }
  return {};
}

// An offset or a size; no alignment is promised.
std::int64_t ArrayColumn::Integer(const std::byte* from, std::int64_t at) const {
  if (wide_) return LoadLe<std::int64_t>(from + at * 8);
  return LoadLe<std::int32_t>(from + at * 4);
}

Status ArrayColumn::Index(std::int64_t row, std::int64_t* index) const {
  const std::int64_t at = offset_ + row;
  const auto load = [&]<typename Number>(Number) {
    const auto number = LoadLe<Number>(values_ + at * static_cast<std::int64_t>(sizeof(Number)));
    *index = std::in_range<std::int64_t>(number) ? static_cast<std::int64_t>(number) : -1;
  };
  switch (index_) {
    case DType::kInt8:
      load(std::int8_t{});
      break;
    case DType::kUInt8:
      load(std::uint8_t{});
      break;
    case DType::kInt16:
      load(std::int16_t{});
      break;
    case DType::kUInt16:
      load(std::uint16_t{});
      break;
    case DType::kInt32:
      load(std::int32_t{});
      break;
    case DType::kUInt32:
      load(std::uint32_t{});
      break;
    case DType::kUInt64:
      load(std::uint64_t{});
      break;
    default:
      load(std::int64_t{});
  }
  if (*index < 0 || *index >= last_offset_) return BadValue("an index outside of the dictionary");
  return {};
}

// The elements, or bytes, of a ragged row.
Status ArrayColumn::Range(std::int64_t row, std::int64_t* first, std::int64_t* count) const {
  const std::int64_t at = offset_ + row;
  *first = Integer(values_, at);
  std::int64_t end = 0;
  if (layout_ == ColumnLayout::kListView) {
    const std::int64_t size = Integer(data_, at);
    if (size < 0 || __builtin_add_overflow(*first, size, &end)) return BadValue("a list's size");
  } else {
    end = Integer(values_, at + 1);
  }
  if (*first < 0 || end < *first || end > last_offset_) {
    return BadValue("offsets that do not ascend, or lie outside of the elements");
  }
  *count = end - *first;
  return {};
}

Status ArrayColumn::View(std::int64_t row, ColumnValue* value) const {
  constexpr std::int64_t kInline = 12;
  const std::byte* const view = values_ + (offset_ + row) * 16;
  const auto length = LoadLe<std::int32_t>(view);
  if (length < 0) return BadValue("a view of negative length");
  value->bytes = value->units = static_cast<std::size_t>(length);
  value->data = view + 4;
  if (length <= kInline) return {};
  const auto buffer = LoadLe<std::int32_t>(view + 8);
  const auto offset = LoadLe<std::int32_t>(view + 12);
  if (buffer < 0 || buffer >= buffer_count_ || offset < 0) return BadValue("a view of no buffer");
  const auto bytes = LoadLe<std::int64_t>(buffer_bytes_ + buffer * 8);
  if (buffers_[buffer] == nullptr || std::int64_t{offset} + length > bytes) {
    return BadValue("a view past the end of its buffer");
  }
  value->data = static_cast<const std::byte*>(buffers_[buffer]) + offset;
  return {};
}

Status ArrayColumn::At(std::int64_t row, LocatedStorage* storage, ColumnValue* value) const {
  if (!valid_.Has(row)) {
    value->is_null = true;
    return {};
  }
  std::int64_t first = row;
  std::int64_t count = 1;
  switch (layout_) {
    case ColumnLayout::kViews:
      return View(row, value);
    case ColumnLayout::kDictionary: {
      if (Status status = Index(row, &first); !status.ok()) return status;
      return child_[0].At(first, storage, value);
    }
    case ColumnLayout::kBytes:
    case ColumnLayout::kList:
    case ColumnLayout::kListView: {
      if (Status status = Range(row, &first, &count); !status.ok()) return status;
      value->units = static_cast<std::size_t>(count);
      if (layout_ != ColumnLayout::kBytes) {
        return child_[0].Elements(first, count, storage, value);
      }
      value->bytes = value->units;
      value->data = data_ + first;
      return {};
    }
    default:
      return Elements(first, count, storage, value);
  }
}

void ArrayColumn::FillNulls(std::int64_t row, std::span<const std::byte> element, std::size_t bytes,
                            std::byte* to) const {
  std::int64_t first = row;
  std::int64_t count = 1;
  if (layout_ == ColumnLayout::kDictionary) {
    if (Index(row, &first).ok()) child_[0].FillNulls(first, element, bytes, to);
  } else if (layout_ == ColumnLayout::kList || layout_ == ColumnLayout::kListView) {
    if (Range(row, &first, &count).ok()) child_[0].FillElements(first, count, element, bytes, to);
  } else {
    FillElements(first, count, element, bytes, to);
  }
}

// `bytes` are those of all `count` values.
void ArrayColumn::FillElements(std::int64_t first, std::int64_t count,
                               std::span<const std::byte> element, std::size_t bytes,
                               std::byte* to) const {
  if (layout_ == ColumnLayout::kFixedList) {
    child_[0].FillElements((offset_ + first) * size_, count * size_, element, bytes, to);
  }
  const std::size_t each = count == 0 ? 0 : bytes / static_cast<std::size_t>(count);
  for (std::int64_t i = 0; i < count; ++i, to += each) {
    if (valid_.Has(first + i)) continue;
    for (std::size_t at = 0; at < each; at += element.size()) {
      std::copy(element.begin(), element.end(), to + at);
    }
  }
}

// So many values of a fixed size, one after another.
Status ArrayColumn::Elements(std::int64_t first, std::int64_t count, LocatedStorage* storage,
                             ColumnValue* value) const {
  if (first + count > rows_) return BadValue("elements past the end of their array");
  if (!valid_.HasAll(first, count)) value->has_nulls = true;
  const std::int64_t at = offset_ + first;
  if (layout_ == ColumnLayout::kFixedList) {
    return child_[0].Elements(at * size_, count * size_, storage, value);
  }
  if (layout_ == ColumnLayout::kDecimals) return Decimals(at, count, storage, value);
  if (layout_ == ColumnLayout::kBits) {
    const ValidBits bits{reinterpret_cast<const std::uint8_t*>(values_), at};
    std::byte* const bools = storage->Allocate(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) bools[i] = std::byte{bits.Has(i)};
    value->data = bools;
    value->bytes = static_cast<std::size_t>(count);
    return {};
  }
  value->data = values_ + at * static_cast<std::int64_t>(width_);
  value->bytes = static_cast<std::size_t>(count) * width_;
  return {};
}

Status ArrayColumn::Decimals(std::int64_t first, std::int64_t count, LocatedStorage* storage,
                             ColumnValue* value) const {
  value->bytes = static_cast<std::size_t>(count) * sizeof(std::int64_t);
  std::byte* to = storage->Allocate(value->bytes);
  value->data = to;
  for (std::int64_t i = first; i < first + count; ++i, to += sizeof(std::int64_t)) {
    const std::byte* const from = values_ + i * static_cast<std::int64_t>(width_);
    if (!valid_.Has(i - offset_)) {
      StoreLe(to, std::int64_t{0});
      continue;
    }
    const std::int64_t number =
        width_ == 4 ? LoadLe<std::int32_t>(from) : LoadLe<std::int64_t>(from);
    const std::byte sign{static_cast<unsigned char>(number < 0 ? 0xFF : 0)};
    for (std::size_t byte = 8; byte < width_; ++byte) {
      if (from[byte] != sign) return BadValue("a decimal that int64 cannot hold");
    }
    StoreLe(to, number);
  }
  return {};
}

Status PathColumn::Open(const ColumnType& top, const ArrowArray& array, const ColumnPath& path,
                        PathColumn* column) {
  const ColumnType* type = &top;
  const ArrowArray* at = &array;
  std::int64_t least = 0;
  for (const std::size_t member : path.members) {
    if (Status status = CheckArray(*type, *at, least); !status.ok()) return status;
    ValidBits valid = BitsOf(*at);
    valid.offset += column->shift_;
    if (valid.bits != nullptr) column->parents_.push_back(valid);
    // As many rows as the structure has from its offset on.
    column->shift_ += at->offset;
    least = at->offset + at->length;
    at = at->children[member];
    type = &type->children[member];
  }
  Status status = ArrayColumn::Open(*type, *at, least, &column->leaf_);
  if (!status.ok() || !column->parents_.empty()) return status;
  if (const std::byte* const numbers = column->leaf_.PlainNumbers()) {
    const auto width = static_cast<std::int64_t>(column->leaf_.width());
    column->plain_numbers_ = numbers + column->shift_ * width;
  }
  return status;
}

}  // namespace ringfeed
