#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// Whose samples: each family names the encodings of its columns in its own words.
enum class SampleFamily : std::uint8_t { kMds, kLitData };
/// "mds", "litdata": of the format and of the parser.
std::string_view FamilyName(SampleFamily family);

/// A column by its name and its encoding ("int", "ndarray:float32:2,3", "no_header_tensor:18").
struct SampleColumn {
  std::string name;
  std::string encoding;
};

/// What an encoding makes of a value.
struct SampleEncoding {
  enum class Kind : std::uint8_t {
    kUnknown,
    kNumber,  ///< `dtype`, little-endian
    kBytes,   ///< bytes as they are: a text, a JPEG, a list of them behind its sizes
    kArray,   ///< values behind a header
    kFixed,   ///< values of `dtype` and `shape` alone
    kPickle,  ///< Python's, which runs code when it is read
  };
  /// What stands in front of an array's values.
  enum class Header : std::uint8_t {
    kNone,   ///< nothing: one dimension of `dtype`
    kMds,    ///< a byte for the type unless `dtype` is set, one for the shape, the shape
    kTorch,  ///< u32 type, dimensions, and each of them, big-endian
    kNumpy,  ///< the same little-endian, with other types
  };
  Kind kind = Kind::kUnknown;
  std::optional<DType> dtype{};
  Shape shape{};
  Header header = Header::kNone;

  /// Whether values are of more than one size.
  bool variable() const { return kind != Kind::kNumber && kind != Kind::kFixed; }
  /// Of a value, if all have the same size.
  std::uint64_t value_bytes() const;
  /// Whether values have a size of their own in each sample: in LitData all have.
  bool sized(SampleFamily family) const { return variable() || family == SampleFamily::kLitData; }
};
SampleEncoding EncodingOf(SampleFamily family, std::string_view name);

/// What a value of an array says in front of its elements.
struct SampleArray {
  DType dtype = DType::kUInt8;
  Shape shape{};
  std::size_t header_bytes = 0;
};
/// Of a value with such an encoding, which is kArray. False unless the elements fill the rest.
bool ReadSampleArray(const SampleEncoding& encoding, std::span<const std::byte> value,
                     SampleArray* array);

/// The column of MDS that a field is written as (NewMdsEncoder). Its encoding is empty if there is
/// none: MDS has no bfloat16.
SampleColumn MdsColumnOf(const FieldSpec& field);
/// Appends what stands in front of the elements of an `ndarray:TYPE` of that shape.
void AppendMdsHeader(const Shape& shape, std::vector<std::byte>* value);

/// All columns in one text, as FileElements::name has them, and back. Names with a tab or a line
/// end have none.
std::string ColumnsText(std::span<const SampleColumn> columns);
std::vector<SampleColumn> ColumnsOf(std::string_view text);

}  // namespace ringfeed
