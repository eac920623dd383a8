#include "readers/formats/samples/columns.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/writing/row_encoder.h"

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

using Kind = SampleEncoding::Kind;
using Header = SampleEncoding::Header;

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

SampleEncoding ArrayNamed(std::string_view parameters) {
  SampleEncoding encoding{.kind = SampleEncoding::Kind::kArray,
                          .header = SampleEncoding::Header::kMds};
  if (parameters.empty()) return encoding;
  const std::size_t colon = parameters.find(':', 1);
  encoding.dtype = TypeNamed(parameters.substr(1, colon - 1));
  if (parameters.front() != ':' || !encoding.dtype) return {};
  if (colon == std::string_view::npos) return encoding;
  const std::optional<Shape> shape = ShapeNamed(parameters.substr(colon + 1));
  if (!shape || !BytesOf(*encoding.dtype, *shape)) return {};
  return {.kind = SampleEncoding::Kind::kFixed, .dtype = encoding.dtype, .shape = *shape};
}

// streaming/base/format/mds/encodings.py.
SampleEncoding MdsEncodingOf(std::string_view name) {
  if (name == "int") return {.kind = Kind::kNumber, .dtype = DType::kInt64};
  if (const auto dtype = TypeNamed(name)) return {.kind = Kind::kNumber, .dtype = dtype};
  if (name == "pkl") return {.kind = Kind::kPickle};
  if (name.starts_with(kArrayName)) return ArrayNamed(name.substr(kArrayName.size()));
  const bool bytes =
      std::find(std::begin(kOfBytes), std::end(kOfBytes), name) != std::end(kOfBytes);
  return {.kind = bytes ? Kind::kBytes : Kind::kUnknown};
}

// LitData's types of Torch's tensors by their numbers (its constants.py). Each type that has two
// names has two numbers.
constexpr std::optional<DType> kTorchTypes[] = {DType::kFloat32,
                                                DType::kFloat32,
                                                DType::kFloat64,
                                                DType::kFloat64,
                                                {},
                                                {},
                                                {},
                                                {},
                                                DType::kFloat16,
                                                DType::kFloat16,
                                                DType::kBFloat16,
                                                DType::kUInt8,
                                                DType::kInt8,
                                                DType::kInt16,
                                                DType::kInt16,
                                                DType::kInt32,
                                                DType::kInt32,
                                                DType::kInt64,
                                                DType::kInt64,
                                                DType::kBool,
                                                DType::kUInt16};
// Those of NumPy's arrays. Before July 2024 the machine of the writer chose the numbers from 11 on.
constexpr std::optional<DType> kNumpyTypes[] = {DType::kInt8,
                                                DType::kInt16,
                                                DType::kInt32,
                                                DType::kInt64,
                                                DType::kUInt8,
                                                DType::kUInt16,
                                                DType::kUInt32,
                                                DType::kUInt64,
                                                DType::kFloat16,
                                                DType::kFloat32,
                                                DType::kFloat64,
                                                {},
                                                {},
                                                DType::kBool};

std::optional<DType> LitDataType(Header header, std::uint64_t number) {
  const std::span<const std::optional<DType>> types =
      header == Header::kTorch ? std::span<const std::optional<DType>>(kTorchTypes)
                               : std::span<const std::optional<DType>>(kNumpyTypes);
  return number < types.size() ? types[static_cast<std::size_t>(number)] : std::nullopt;
}

// Serializers whose values are bytes to others. "graph" holds a pickle.
constexpr std::string_view kLitDataBytes[] = {
    "str", "text", "bytes", "file",     "jpeg", "image", "video",      "audio",
    "pdf", "mesh", "pil",   "tifffile", "tiff", "json",  "jpeg_array", "nifti"};

// LitData's streaming/serializers.py. What follows a colon is a type or an ending of files.
SampleEncoding LitDataEncodingOf(std::string_view name) {
  const std::string_view first = name.substr(0, name.find(':'));
  const std::string_view more = name.substr(std::min(first.size() + 1, name.size()));
  if (name == "int") return {.kind = Kind::kNumber, .dtype = DType::kInt64};
  if (name == "float") return {.kind = Kind::kNumber, .dtype = DType::kFloat64};
  if (name == "bool") return {.kind = Kind::kNumber, .dtype = DType::kBool};
  if (name == "tensor") return {.kind = Kind::kArray, .header = Header::kTorch};
  if (name == "numpy") return {.kind = Kind::kArray, .header = Header::kNumpy};
  if (first == "pickle" || first == "graph" || more == "pickle") return {.kind = Kind::kPickle};
  const bool tensor = first == "no_header_tensor";
  if (tensor || first == "no_header_numpy") {
    std::uint64_t number = 0;
    const char* const end = more.data() + more.size();
    const auto read = std::from_chars(more.data(), end, number);
    const auto dtype = LitDataType(tensor ? Header::kTorch : Header::kNumpy, number);
    if (read.ec != std::errc() || read.ptr != end || !dtype) return {};
    return {.kind = Kind::kArray, .dtype = dtype};
  }
  const auto* const end = std::end(kLitDataBytes);
  const bool bytes = std::find(std::begin(kLitDataBytes), end, first) != end;
  return {.kind = bytes ? Kind::kBytes : Kind::kUnknown};
}

bool ReadMdsHeader(const SampleEncoding& encoding, std::span<const std::byte> value,
                   SampleArray* array) {
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
  return true;
}

// u32 type, dimensions, and each of them.
bool ReadLitDataHeader(Header header, std::span<const std::byte> value, SampleArray* array) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  const auto word = [&](std::size_t number) {
    const auto read = LoadOnceLe<std::uint32_t>(value.data() + number * kWord);
    return header == Header::kTorch ? __builtin_bswap32(read) : read;
  };
  if (value.size() < 2 * kWord) return false;
  const std::optional<DType> dtype = LitDataType(header, word(0));
  const std::size_t rank = word(1);
  if (!dtype || rank > value.size() / kWord - 2) return false;
  array->dtype = *dtype;
  array->shape.clear();
  for (std::size_t axis = 0; axis < rank; ++axis) array->shape.push_back(word(2 + axis));
  array->header_bytes = (2 + rank) * kWord;
  return true;
}

}  // namespace

std::string_view FamilyName(SampleFamily family) {
  return family == SampleFamily::kMds ? "mds" : "litdata";
}

SampleEncoding EncodingOf(SampleFamily family, std::string_view name) {
  return family == SampleFamily::kMds ? MdsEncodingOf(name) : LitDataEncodingOf(name);
}

bool ReadSampleArray(const SampleEncoding& encoding, std::span<const std::byte> value,
                     SampleArray* array) {
  if (encoding.header == Header::kNone) {
    *array = {*encoding.dtype, {0}, 0};
    array->shape[0] = static_cast<std::int64_t>(value.size() / DTypeBytes(array->dtype));
  } else if (!(encoding.header == Header::kMds
                   ? ReadMdsHeader(encoding, value, array)
                   : ReadLitDataHeader(encoding.header, value, array))) {
    return false;
  }
  return BytesOf(array->dtype, array->shape) == value.size() - array->header_bytes;
}

std::uint64_t SampleEncoding::value_bytes() const {
  std::uint64_t bytes = DTypeBytes(dtype.value_or(DType::kUInt8));
  for (const std::int64_t dimension : shape) bytes *= static_cast<std::uint64_t>(dimension);
  return bytes;
}

SampleColumn MdsColumnOf(const FieldSpec& field) {
  const DType dtype = field.dtype == DType::kBool ? DType::kUInt8 : field.dtype;
  const std::string type(DTypeName(dtype));
  if (IsBytesField(field)) return {field.name, "bytes"};
  if (!TypeNamed(type)) return {field.name, ""};
  const auto is_one = [](std::int64_t dimension) { return dimension == 1; };
  if (std::ranges::all_of(field.shape, is_one)) {
    return {field.name, dtype == DType::kInt64 ? "int" : type};
  }
  std::string encoding = std::string(kArrayName) + ":" + type;
  const auto is_fixed = [](std::int64_t dimension) { return dimension > 0; };
  if (!std::ranges::all_of(field.shape, is_fixed)) return {field.name, encoding};
  char before = ':';
  for (const std::int64_t dimension : field.shape) {
    encoding += std::exchange(before, ',') + std::to_string(dimension);
  }
  return {field.name, encoding};
}

void AppendMdsHeader(const Shape& shape, std::vector<std::byte>* value) {
  constexpr unsigned kWidths = 4;
  const auto largest = static_cast<std::uint64_t>(*std::ranges::max_element(shape));
  unsigned code = 0;  // of the width
  while (code + 1 < kWidths && largest >> (8U << code) != 0) ++code;
  value->push_back(std::byte(shape.size() * kWidths + code));
  for (const std::int64_t dimension : shape) {
    for (unsigned byte = 0; byte < 1U << code; ++byte) {
      value->push_back(std::byte(static_cast<std::uint64_t>(dimension) >> (8 * byte) & 0xff));
    }
  }
}

std::string ColumnsText(std::span<const SampleColumn> columns) {
  std::string text;
  for (const SampleColumn& column : columns) text += column.name + '\t' + column.encoding + '\n';
  return text;
}

std::vector<SampleColumn> ColumnsOf(std::string_view text) {
  std::vector<SampleColumn> columns;
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
