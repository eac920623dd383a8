#include "readers/arrow/column_type.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace ringfeed {
namespace {

constexpr int kMostDepth = 64;
constexpr std::int64_t kMostColumns = 1 << 17;
// A row stays far below the largest count of bytes.
constexpr std::int64_t kMostRowElements = std::int64_t{1} << 28;
constexpr std::size_t kShownText = 40;  // of a producer's

Status BadSchema(const std::string& why) {
  return Status(StatusCode::kDamaged, "the table's schema: " + why);
}

struct FixedFormat {
  std::string_view format;
  DType dtype;
  std::string_view logical_type = {};
};
constexpr FixedFormat kFixedFormats[] = {
    {"c", DType::kInt8},
    {"C", DType::kUInt8},
    {"s", DType::kInt16},
    {"S", DType::kUInt16},
    {"i", DType::kInt32},
    {"I", DType::kUInt32},
    {"l", DType::kInt64},
    {"L", DType::kUInt64},
    {"e", DType::kFloat16},
    {"f", DType::kFloat32},
    {"g", DType::kFloat64},
    {"tdD", DType::kInt32, "date32[day]"},
    {"tdm", DType::kInt64, "date64[ms]"},
    {"tts", DType::kInt32, "time32[s]"},
    {"ttm", DType::kInt32, "time32[ms]"},
    {"ttu", DType::kInt64, "time64[us]"},
    {"ttn", DType::kInt64, "time64[ns]"},
    {"tDs", DType::kInt64, "duration[s]"},
    {"tDm", DType::kInt64, "duration[ms]"},
    {"tDu", DType::kInt64, "duration[us]"},
    {"tDn", DType::kInt64, "duration[ns]"},
    {"tss:", DType::kInt64, "timestamp[s]"},
    {"tsm:", DType::kInt64, "timestamp[ms]"},
    {"tsu:", DType::kInt64, "timestamp[us]"},
    {"tsn:", DType::kInt64, "timestamp[ns]"},
};

// Reads the type of a number; false if it is none.
bool ReadNumber(std::string_view format, ColumnType* type) {
  const std::size_t zone_at =
      format.starts_with("ts") ? std::min<std::size_t>(4, format.size()) : format.size();
  for (const FixedFormat& known : kFixedFormats) {
    if (known.format != format.substr(0, zone_at)) continue;
    type->dtype = known.dtype;
    type->width = DTypeBytes(known.dtype);
    type->logical_type = known.logical_type;
    if (zone_at == format.size()) return true;
    type->logical_type.back() = ',';
    type->logical_type += " tz=" + std::string(format.substr(zone_at, kShownText)) + "]";
    return true;
  }
  return false;
}

bool ReadInteger(std::string_view text, std::int64_t* number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *number);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
}

// "d:precision,scale" or "d:precision,scale,bits".
Status ReadDecimal(std::string_view text, ColumnType* type) {
  std::int64_t parts[3] = {0, 0, 128};
  std::size_t count = 0;
  while (count < 3) {
    const std::size_t comma = text.find(',');
    if (!ReadInteger(text.substr(0, comma), &parts[count++])) return BadSchema("a decimal");
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (count == 3) return BadSchema("a decimal of more than three numbers");
  }
  const std::int64_t bits = parts[2];
  if (count < 2 || (bits != 32 && bits != 64 && bits != 128 && bits != 256)) {
    return BadSchema("a decimal of " + std::to_string(bits) + " bits");
  }
  type->layout = ColumnLayout::kDecimals;
  type->dtype = DType::kInt64;
  type->width = static_cast<std::size_t>(bits / 8);
  type->logical_type = "decimal" + std::to_string(bits) + "(" + std::to_string(parts[0]) + ", " +
                       std::to_string(parts[1]) + ")";
  return {};
}

void SetBytes(ColumnLayout layout, bool wide, ColumnType* type) {
  type->layout = layout;
  type->wide = wide;
  type->shape = {-1};
}

// The elements of a list become the dimensions behind its own, `length`.
void SetList(std::int64_t length, ColumnType* type) {
  const ColumnType& element = type->children[0];
  type->dtype = element.dtype;
  type->logical_type = element.logical_type;
  type->shape = {length};
  type->shape.insert(type->shape.end(), element.shape.begin(), element.shape.end());
  if (!element.unsupported.empty()) {
    type->unsupported = element.unsupported;
  } else if (element.ragged()) {
    type->unsupported = "a list of rows of different lengths: flatten it, or take its members";
  } else if (element.layout == ColumnLayout::kStruct ||
             element.layout == ColumnLayout::kDictionary) {
    type->unsupported = "a list of structures or of a dictionary";
  } else if (length == 0 || (length > 0 && ShapeElements(type->shape) > kMostRowElements)) {
    type->unsupported = "lists of " + std::to_string(length) + " elements";
  }
}

Status ReadFormat(std::string_view format, ColumnType* type) {
  if (ReadNumber(format, type)) return {};
  if (format == "b") {
    type->layout = ColumnLayout::kBits;
    type->dtype = DType::kBool;
  } else if (format.starts_with("d:")) {
    return ReadDecimal(format.substr(2), type);
  } else if (format.starts_with("w:")) {
    std::int64_t size = 0;
    if (!ReadInteger(format.substr(2), &size) || size < 0) return BadSchema("binary of no size");
    type->width = static_cast<std::size_t>(size);
    type->shape = {size};
    if (size == 0 || size > kMostRowElements) type->unsupported = "binary of that fixed size";
  } else if (format == "u" || format == "z" || format == "U" || format == "Z") {
    SetBytes(ColumnLayout::kBytes, format == "U" || format == "Z", type);
  } else if (format == "vu" || format == "vz") {
    SetBytes(ColumnLayout::kViews, false, type);
  } else if (format == "+s") {
    type->layout = ColumnLayout::kStruct;
  } else if (format == "+l" || format == "+L" || format == "+vl" || format == "+vL") {
    type->layout = format[1] == 'v' ? ColumnLayout::kListView : ColumnLayout::kList;
    type->wide = format.back() == 'L';
  } else if (format.starts_with("+w:")) {
    if (!ReadInteger(format.substr(3), &type->size) || type->size < 0) {
      return BadSchema("lists of no size");
    }
    type->layout = ColumnLayout::kFixedList;
  } else {
    type->unsupported = "Arrow's format \"" + std::string(format.substr(0, kShownText)) + "\"";
  }
  return {};
}

bool IsList(ColumnLayout layout) {
  return layout == ColumnLayout::kFixedList || layout == ColumnLayout::kList ||
         layout == ColumnLayout::kListView;
}

Status ReadType(const ArrowSchema& schema, int depth, std::int64_t* columns, ColumnType* type);

// What `type` was read as becomes the index of the values that the dictionary has.
Status ReadDictionary(const ArrowSchema& values, int depth, std::int64_t* columns,
                      ColumnType* type) {
  const bool is_index = type->layout == ColumnLayout::kNumbers && type->shape.empty() &&
                        type->dtype != DType::kFloat16 && type->dtype != DType::kFloat32 &&
                        type->dtype != DType::kFloat64;
  if (!is_index) return BadSchema("a dictionary's index is no integer");
  ColumnType read;
  if (Status status = ReadType(values, depth, columns, &read); !status.ok()) return status;
  type->layout = ColumnLayout::kDictionary;
  type->index = type->dtype;
  type->dtype = read.dtype;
  type->logical_type = read.logical_type;
  type->shape = read.shape;
  type->unsupported = read.unsupported;
  if (read.layout == ColumnLayout::kStruct || read.layout == ColumnLayout::kDictionary) {
    type->unsupported = "a dictionary of structures or dictionaries";
  }
  type->children = {std::move(read)};
  return {};
}

// `columns` counts them all: a producer may name one member again and again.
Status ReadType(const ArrowSchema& schema, int depth, std::int64_t* columns, ColumnType* type) {
  if (++*columns > kMostColumns) return BadSchema("more than 2^17 columns");
  if (depth > kMostDepth) return BadSchema("nested deeper than " + std::to_string(kMostDepth));
  if (schema.release == nullptr) return BadSchema("it was released");
  if (schema.format == nullptr) return BadSchema("a column has no format");
  const std::int64_t count = schema.n_children;
  if (count < 0 || count > kMostColumns) {
    return BadSchema(std::to_string(count) + " members of a column");
  }
  if (count > 0 && schema.children == nullptr) return BadSchema("members that are not there");
  if (schema.name != nullptr) type->name = schema.name;
  if (Status status = ReadFormat(schema.format, type); !status.ok()) return status;
  if (IsList(type->layout) && count != 1) return BadSchema("a list without elements of a type");
  const bool has_children = IsList(type->layout) || type->layout == ColumnLayout::kStruct;
  if (!has_children && count != 0 && type->unsupported.empty()) {
    return BadSchema("a column of values has members");
  }
  for (std::int64_t i = 0; has_children && i < count; ++i) {
    if (schema.children[i] == nullptr) return BadSchema("a member is not there");
    Status status =
        ReadType(*schema.children[i], depth + 1, columns, &type->children.emplace_back());
    if (!status.ok()) return status;
  }
  if (IsList(type->layout)) {
    SetList(type->layout == ColumnLayout::kFixedList ? type->size : -1, type);
  }
  if (schema.dictionary == nullptr) return {};
  return ReadDictionary(*schema.dictionary, depth + 1, columns, type);
}

std::string PathOf(const std::string& prefix, const ColumnType& member) {
  return prefix.empty() ? member.name : prefix + "." + member.name;
}

// Collects the leaves below a structure.
void Collect(const ColumnType& type, const std::string& prefix, std::vector<std::size_t>* members,
             std::vector<std::pair<ColumnPath, const ColumnType*>>* leaves) {
  for (std::size_t i = 0; i < type.children.size(); ++i) {
    const ColumnType& member = type.children[i];
    members->push_back(i);
    if (member.layout == ColumnLayout::kStruct) {
      Collect(member, PathOf(prefix, member), members, leaves);
    } else {
      leaves->push_back({{*members, member.FieldNamed(PathOf(prefix, member))}, &member});
    }
    members->pop_back();
  }
}

}  // namespace

Status ReadColumnType(const ArrowSchema& schema, ColumnType* type) {
  *type = {};
  std::int64_t columns = 0;
  return ReadType(schema, 0, &columns, type);
}

Status FindColumns(const ColumnType& top, const std::vector<std::string>& wanted,
                   std::vector<ColumnPath>* found) {
  std::vector<std::pair<ColumnPath, const ColumnType*>> leaves;
  std::vector<std::size_t> members;
  if (top.layout == ColumnLayout::kStruct) {
    Collect(top, "", &members, &leaves);
  } else {
    const std::string name = top.name.empty() ? "values" : top.name;
    leaves.push_back({{{}, top.FieldNamed(name)}, &top});
  }
  std::string known;
  for (const auto& leaf : leaves) known += (known.empty() ? "" : ", ") + leaf.first.field.name;
  found->clear();
  const auto take = [&](const std::pair<ColumnPath, const ColumnType*>& leaf) {
    if (!leaf.second->unsupported.empty()) {
      return Status(StatusCode::kUnsupported,
                    "column \"" + leaf.first.field.name +
                        "\" cannot be a field: " + leaf.second->unsupported);
    }
    found->push_back(leaf.first);
    return Status();
  };
  if (wanted.empty()) {
    for (const auto& leaf : leaves) {
      if (Status status = take(leaf); !status.ok()) {
        return Status(status.code(), status.message() + "; name the wanted columns of " + known);
      }
    }
    return {};
  }
  for (const std::string& path : wanted) {
    const std::size_t before = found->size();
    for (const auto& leaf : leaves) {
      const std::string& name = leaf.first.field.name;
      if (name != path && !name.starts_with(path + ".")) continue;
      if (Status status = take(leaf); !status.ok()) return status;
    }
    if (found->size() == before) {
      return Status(StatusCode::kNotFound,
                    "the table has no column \"" + path + "\": it has " + known);
    }
  }
  return {};
}

}  // namespace ringfeed
