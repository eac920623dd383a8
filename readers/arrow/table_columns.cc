#include "readers/arrow/table_columns.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "readers/parsers/element_value.h"
#include "readers/parsers/staged_columns.h"

namespace ringfeed {
namespace {

constexpr char kWayOut[] =
    "nulls= (in C++ TableOptions::nulls, for the command --nulls) says what stands for it";

}  // namespace

TableColumns::TableColumns(const std::vector<FieldSpec>& columns, const TableOptions& options) {
  constexpr std::size_t kNarrowBytes = 64;     // of a field's value, in the mean
  constexpr std::size_t kRunBytes = 16 << 10;  // half of L1
  bool has_ragged = false;
  for (const FieldSpec& field : columns) {
    const auto own = options.nulls_of.find(field.name);
    const NullOptions& nulls = own == options.nulls_of.end() ? options.nulls : own->second;
    Column column{fields_.size(), packed_bytes_, field.unit_bytes(), nulls.on_null};
    if (nulls.on_null != OnNull::kFail) {
      const ElementValue value =
          ElementValue::Of(nulls.value, field.dtype, "column \"" + field.name + "\"");
      column.value.resize(field.ragged() ? 0 : column.unit_bytes);
      value.Fill(column.value.data(), column.value.size());
      column.element.resize(nulls.on_null == OnNull::kDefault ? DTypeBytes(field.dtype) : 0);
      value.Fill(column.element.data(), column.element.size());
    }
    fields_.push_back(field);
    packed_bytes_ += column.unit_bytes;
    columns_.push_back(std::move(column));
    has_ragged = has_ragged || field.ragged();
    if (nulls.on_null != OnNull::kMask) continue;
    fields_.push_back({field.name + "_valid", DType::kUInt8, {}});
    ++packed_bytes_;
  }
  are_narrow_ = !has_ragged && packed_bytes_ > 0 && packed_bytes_ <= kNarrowBytes * fields_.size();
  if (are_narrow_) run_rows_ = std::clamp<std::size_t>(kRunBytes / packed_bytes_, 8, run_rows_);
}

Status TableColumns::Locate(const std::vector<PathColumn>& from, std::int64_t row,
                            LocatedStorage* storage, FieldLocation* locations) const {
  static constexpr std::byte kMask[2] = {std::byte{0}, std::byte{1}};
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    FieldLocation* const at = locations + column.field;
    ColumnValue value;
    Status status = ValueOf(column, from[c], row, storage, &value);
    if (status.ok() && !LocateAt(value.data, value.bytes, value.units, at)) {
      status = Status(StatusCode::kUnsupported, "4 GiB and more in a row");
    }
    if (!status.ok()) return InColumn(column, status);
    if (column.on_null == OnNull::kMask) {
      LocateAt(&kMask[value.is_null ? 0 : 1], 1, 0, at + 1);
    }
  }
  return {};
}

Status TableColumns::Pack(const std::vector<PathColumn>& from, std::span<const std::int64_t> rows,
                          LocatedStorage* converted, std::byte* to) const {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const Status status = PackColumn(column, from[c], rows, converted, to + column.offset);
    if (!status.ok()) return InColumn(column, status);
  }
  return {};
}

Status TableColumns::FillNulls(const Column& column, const PathColumn& from, std::int64_t row,
                               LocatedStorage* storage, ColumnValue* value) {
  if (column.on_null == OnNull::kMask) {
    return Status(StatusCode::kDamaged,
                  "it has a null element, which a mask of rows cannot tell: OnNull::kDefault takes "
                  "a value for it");
  }
  if (column.on_null == OnNull::kFail) {
    return Status(StatusCode::kDamaged, std::string("it has a null element: ") + kWayOut);
  }
  std::byte* const filled = storage->Allocate(value->bytes);
  std::copy_n(value->data, value->bytes, filled);
  from.FillNulls(row, column.element, value->bytes, filled);
  value->data = filled;
  return {};
}

Status TableColumns::ValueOf(const Column& column, const PathColumn& from, std::int64_t row,
                             LocatedStorage* storage, ColumnValue* value) {
  if (Status status = from.At(row, storage, value); !status.ok()) return status;
  if (!value->is_null) {
    return value->has_nulls ? FillNulls(column, from, row, storage, value) : Status();
  }
  if (column.on_null == OnNull::kFail) {
    return Status(StatusCode::kDamaged, std::string("it is null: ") + kWayOut);
  }
  *value = {column.value.data(), column.value.size(), 0, true};
  return {};
}

Status TableColumns::InColumn(const Column& column, const Status& why) const {
  return Status(why.code(), "column \"" + fields_[column.field].name + "\": " + why.message());
}

Status TableColumns::PackColumn(const Column& column, const PathColumn& from,
                                std::span<const std::int64_t> rows, LocatedStorage* converted,
                                std::byte* to) const {
  const std::size_t bytes = column.unit_bytes;
  const bool has_mask = column.on_null == OnNull::kMask;
  if (const std::byte* const numbers = from.plain_numbers()) {
    // The values of the next rows, most likely: the processor fetches none of so short a run.
    constexpr std::size_t kLine = 64;
    const std::byte* const next = numbers + (rows.back() + 1) * static_cast<std::int64_t>(bytes);
    for (std::size_t at = 0; at < rows.size() * bytes; at += kLine) __builtin_prefetch(next + at);
    WithCopyOf(bytes, [&](auto copy) {
      for (const std::int64_t row : rows) {
        copy(to, numbers + row * static_cast<std::int64_t>(bytes));
        if (has_mask) to[bytes] = std::byte{1};
        to += packed_bytes_;
      }
    });
    return {};
  }
  for (const std::int64_t row : rows) {
    ColumnValue value;
    if (Status status = ValueOf(column, from, row, converted, &value); !status.ok()) return status;
    std::memcpy(to, value.data, bytes);
    if (has_mask) to[bytes] = static_cast<std::byte>(!value.is_null);
    to += packed_bytes_;
  }
  return {};
}

}  // namespace ringfeed
