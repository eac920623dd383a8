#include "readers/formats/mds/columns.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr std::string_view kArrayName = "ndarray";
constexpr std::uint64_t kMostArrayBytes = std::numeric_limits<std::uint32_t>::max();

/// The types of arrays, with the bytes that stand for them.
struct ArrayType {
  std::uint8_t code;
  DType dtype;
};
constexpr ArrayType kArrayTypes[] = {
    {8, DType::kUInt8},    {9, DType::kInt8},    {16, DType::kUInt16}, {17, DType::kInt16},
    {18, DType::kFloat16}, {32, DType::kUInt32}, {33, DType::kInt32},  {34, DType::kFloat32},
    {64, DType::kUInt64},  {65, DType::kInt64},  {66, DType::kFloat64}};

constexpr std::string_view kOfBytes[] = {
    "bytes", "str", "str_int",   "str_float",  "str_decimal", "json",       "jpeg",
    "png",   "pil", "list[pil]", "list[jpeg]", "list[png]",   "jpeg_array", "jpegarray"};

std::optional<DType> TypeNamed(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kArrayTypes), std::end(kArrayTypes),
                   [&](const ArrayType& type) { return DTypeName(type.dtype) == name; });
  return found == std::end(kArrayTypes) ? std::nullopt : std::optional(found->dtype);
}

// The bytes of an array; none if they exceed the most.
std::optional<std::uint64_t> BytesOf(DType dtype, const Shape& shape) {
  std::uint64_t bytes = DTypeBytes(dtype);
  for (const std::int64_t dimension : shape) {
    const auto more = static_cast<std::uint64_t>(dimension);
    if (dimension < 0 || (more != 0 && bytes > kMostArrayBytes / more)) return std::nullopt;
    bytes *= more;
  }
  return bytes;
}

// "2,3"; none for anything else.
std::optional<Shape> ShapeNamed(std::string_view text) {
  Shape shape;
  while (true) {
    const std::string_view number = text.substr(0, text.find(','));
    std::int64_t dimension = 0;
    const char* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, dimension);
    if (read.ec != std::errc() || read.ptr != end || dimension <= 0) return std::nullopt;
    shape.push_back(dimension);
    if (number.size() == text.size()) return shape;
    text.remove_prefix(number.size() + 1);
  }
}

MdsEncoding ArrayNamed(std::string_view parameters) {
  MdsEncoding encoding{.kind = MdsEncoding::Kind::kArray};
  if (parameters.empty()) return encoding;
  const std::size_t colon = parameters.find(':', 1);
  encoding.dtype = TypeNamed(parameters.substr(1, colon - 1));
  if (parameters.front() != ':' || !encoding.dtype) return {};
  if (colon == std::string_view::npos) return encoding;
  const std::optional<Shape> shape = ShapeNamed(parameters.substr(colon + 1));
  if (!shape || !BytesOf(*encoding.dtype, *shape)) return {};
  return {.kind = MdsEncoding::Kind::kFixed, .dtype = encoding.dtype, .shape = *shape};
}

}  // namespace

MdsEncoding MdsEncodingOf(std::string_view name) {
  using Kind = MdsEncoding::Kind;
  if (name == "int") return {.kind = Kind::kNumber, .dtype = DType::kInt64};
  if (const auto dtype = TypeNamed(name)) return {.kind = Kind::kNumber, .dtype = dtype};
  if (name == "pkl") return {.kind = Kind::kPickle};
  if (name.starts_with(kArrayName)) return ArrayNamed(name.substr(kArrayName.size()));
  const bool bytes =
      std::find(std::begin(kOfBytes), std::end(kOfBytes), name) != std::end(kOfBytes);
  return {.kind = bytes ? Kind::kBytes : Kind::kUnknown};
}

bool ReadMdsArray(const MdsEncoding& encoding, std::span<const std::byte> value, MdsArray* array) {
  constexpr unsigned kWidths = 4;
  std::size_t at = 0;
  if (!encoding.dtype) {
    const auto* const type = std::find_if(
        std::begin(kArrayTypes), std::end(kArrayTypes),
        [&](const ArrayType& one) { return !value.empty() && std::byte{one.code} == value[0]; });
    if (type == std::end(kArrayTypes)) return false;
    array->dtype = type->dtype;
    at = 1;
  } else {
    array->dtype = *encoding.dtype;
  }
  if (value.size() <= at) return false;
  const auto shape_byte = std::to_integer<unsigned>(value[at++]);
  const std::size_t width = std::size_t{1} << shape_byte % kWidths;
  const std::size_t axes = shape_byte / kWidths;
  if (axes == 0 || value.size() - at < axes * width) return false;
  array->shape.clear();
  for (std::size_t axis = 0; axis < axes; ++axis, at += width) {
    std::uint64_t size = 0;
    for (std::size_t i = width; i-- > 0;)
      size = size << 8 | std::to_integer<unsigned>(value[at + i]);
    if (size > kMostArrayBytes) return false;
    array->shape.push_back(static_cast<std::int64_t>(size));
  }
  array->header_bytes = at;
  return BytesOf(array->dtype, array->shape) == value.size() - at;
}

std::string MdsColumnsText(std::span<const MdsColumn> columns) {
  std::string text;
  for (const MdsColumn& column : columns) text += column.name + '\t' + column.encoding + '\n';
  return text;
}

std::vector<MdsColumn> MdsColumnsOf(std::string_view text) {
  std::vector<MdsColumn> columns;
  while (!text.empty()) {
    const std::size_t tab = std::min(text.find('\t'), text.size() - 1);
    const std::size_t end = std::min(text.find('\n', tab), text.size() - 1);
    columns.push_back({std::string(text.substr(0, tab)),
                       std::string(text.substr(tab + 1, end - std::min(end, tab + 1)))});
    text.remove_prefix(end + 1);
  }
  return columns;
}

}  // namespace ringfeed
