#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/owned.h"
#include "readers/arrow/array_column.h"
#include "readers/arrow/column_type.h"
#include "ringfeed/tensor.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/readers/arrow/made_arrays.h"

namespace ringfeed {
namespace {

using Input = std::span<const std::byte>;

/// A format, and how many bytes a row takes in the buffer behind the validity.
struct ArrowFormat {
  const char* text;
  std::int64_t width;
};
constexpr ArrowFormat kFormats[] = {
    {"c", 1},        {"S", 2},   {"i", 4},    {"l", 8},  {"f", 4}, {"b", 0},          {"d:9,2", 16},
    {"d:9,2,32", 4}, {"tdD", 4}, {"w:3", 3},  {"u", 4},  {"Z", 8}, {"vu", 16},        {"+l", 4},
    {"+L", 8},       {"+vl", 4}, {"+w:2", 0}, {"+s", 0}, {"C", 1}, {"tsu:Europe", 8}, {"+r", 0},
};
constexpr std::size_t kDictionary = 18;  // its place there
constexpr int kMostDepth = 5;
constexpr std::int64_t kMostData = 300;

// So many bytes of the input, zeros behind its end.
std::string TakeBytes(Input* input, std::int64_t bytes) {
  std::string taken(static_cast<std::size_t>(bytes), '\0');
  const std::size_t some = std::min(taken.size(), input->size());
  std::memcpy(taken.data(), input->data(), some);
  *input = input->subspan(some);
  return taken;
}

// The last offset says how much data there is: a producer may lie, but not of its memory.
template <typename Offset>
std::int64_t TameLast(std::string* offsets) {
  Offset last = 0;
  char* const at = offsets->data() + offsets->size() - sizeof(last);
  std::memcpy(&last, at, sizeof(last));
  if (last > kMostData) last = static_cast<Offset>(last % kMostData);
  std::memcpy(at, &last, sizeof(last));
  return std::max<std::int64_t>(0, last);
}

void TakeViews(Input* input, MadeColumn* column) {
  std::string lengths;
  for (unsigned left = TakeByte(input) % 3; left > 0; --left) {
    const std::int64_t bytes = TakeByte(input) % 40;
    column->buffers.emplace_back(TakeBytes(input, bytes));
    lengths.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  }
  column->buffers.emplace_back(std::move(lengths));
}

// A column whose buffers and children are as long as its rows ask; what they hold is the input's.
MadeColumn TakeColumn(Input* input, int depth, std::int64_t least_rows) {
  MadeColumn column;
  const std::size_t kind = TakeByte(input) % std::size(kFormats);
  const ArrowFormat& format = kFormats[kind];
  column.format = format.text;
  column.name = std::string(1, static_cast<char>('a' + depth));
  column.length = least_rows + TakeByte(input) % 7;
  column.offset = TakeByte(input) % 4;
  const std::int64_t end = column.offset + column.length;
  const unsigned nulls = TakeByte(input) % 3;
  column.null_count = nulls == 0 ? 0 : -1;
  column.buffers.emplace_back();
  if (nulls == 1) column.buffers[0] = TakeBytes(input, end / 8 + 1);
  const std::string_view text = format.text;
  const bool has_offsets = text == "u" || text == "Z" || text == "+l" || text == "+L";
  const std::int64_t bytes =
      text == "b" ? end / 8 + 1 : (end + (has_offsets ? 1 : 0)) * format.width;
  const bool is_nested = text == "+w:2" || text == "+s" || text == "+r";
  if (!is_nested) column.buffers.emplace_back(TakeBytes(input, bytes));
  if (text == "u" || text == "Z") {
    std::string& offsets = *column.buffers[1];
    const auto data =
        text == "u" ? TameLast<std::int32_t>(&offsets) : TameLast<std::int64_t>(&offsets);
    column.buffers.emplace_back(TakeBytes(input, data));
  }
  if (text == "vu") TakeViews(input, &column);
  if (text == "+vl") column.buffers.emplace_back(TakeBytes(input, bytes));
  const bool is_list = text.starts_with("+") && text != "+s" && text != "+r";
  const std::int64_t least = text == "+w:2" ? 2 * end : text == "+s" ? end : 0;
  unsigned children = is_list ? 1 : text == "+s" ? TakeByte(input) % 4 : 0;
  if (depth == kMostDepth && children > 0) return TakeColumn(input, depth, least_rows);
  for (; children > 0; --children) {
    MadeColumn& child = column.children.emplace_back(TakeColumn(input, depth + 1, least));
    child.name += std::to_string(children);
  }
  if (kind == kDictionary && depth < kMostDepth) {
    column.dictionary.push_back(TakeColumn(input, depth + 1, 0));
  }
  return column;
}

// What a producer may get wrong of an array, but for the memory that it gives.
void Break(MadeColumn* column, unsigned how) {
  while (how % 2 == 1 && !column->children.empty()) {
    column = &column->children[how / 2 % column->children.size()];
    how /= 4;
  }
  const bool has_views = column->format == "vu";  // whose last buffer is about the others
  switch (how / 2 % 10) {
    case 1:
      column->length = -1;
      break;
    case 2:
      column->offset = std::numeric_limits<std::int64_t>::max();
      break;
    case 3:
      if (!has_views) column->buffers.pop_back();
      break;
    case 4:
      if (!has_views) column->buffers.emplace_back("more");
      break;
    case 5:
      if (column->buffers.size() > 1) column->buffers[1].reset();
      break;
    case 6:
      column->null_count = 1;
      break;
    case 7:
      if (!column->children.empty()) column->children.pop_back();
      break;
    case 8:
      column->dictionary.clear();
      break;
    case 9:
      column->length = 0;
      break;
    default:
      break;
  }
}

std::optional<std::string> ValueAt(const PathColumn& column, const FieldSpec& field,
                                   std::int64_t row) {
  LocatedStorage storage;
  ColumnValue value;
  if (!column.At(row, &storage, &value).ok()) return "damaged";
  if (value.is_null) return std::nullopt;
  FuzzExpect(value.bytes == (field.ragged() ? value.units : 1) * field.unit_bytes(),
             "a value has the bytes of its units", [&] { return field.name; });
  return std::string(reinterpret_cast<const char*>(value.data), value.bytes);  // reads all of it
}

void TakeRows(const MadeColumn& made, const ColumnType& type, const ColumnPath& path) {
  const Owned<ArrowArray> array(MakeArray(made));
  PathColumn column;
  if (!PathColumn::Open(type, *array, path, &column).ok()) return;
  std::vector<std::optional<std::string>> rows;
  for (std::int64_t row = 0; row < made.length; ++row) {
    rows.push_back(ValueAt(column, path.field, row));
  }
  for (std::int64_t row = made.length; row-- > 0;) {
    FuzzExpect(ValueAt(column, path.field, row) == rows[static_cast<std::size_t>(row)],
               "a row does not depend on those that were taken before");
  }
}

}  // namespace

FuzzTarget ArrowTarget(const char* /*unused*/) {
  return [](Input input) {
    const unsigned broken = TakeByte(&input);
    const unsigned of_text = TakeByte(&input);
    MadeColumn made = TakeColumn(&input, 0, 0);
    MadeColumn typed = made;
    if (of_text > 0) typed.format = TakeBytes(&input, of_text % 16).c_str();
    const Owned<ArrowSchema> schema(MakeSchema(typed));
    ColumnType type;
    std::vector<ColumnPath> paths;
    if (!ReadColumnType(*schema, &type).ok() || !FindColumns(type, {}, &paths).ok()) return;
    if (of_text > 0) return;  // the array is of another type
    Break(&made, broken);
    for (const ColumnPath& path : paths) TakeRows(made, type, path);
  };
}

}  // namespace ringfeed
