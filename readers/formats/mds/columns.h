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

/// A column of MDS by its name and its encoding ("int", "ndarray:float32:2,3").
struct MdsColumn {
  std::string name;
  std::string encoding;
};

/// What an encoding makes of a value (streaming/base/format/mds/encodings.py).
struct MdsEncoding {
  enum class Kind : std::uint8_t {
    kUnknown,
    kNumber,  ///< `dtype`, little-endian
    kBytes,   ///< bytes as they are: a text, a JPEG, a list of them behind its sizes
    kArray,   ///< a byte for the type unless `dtype` is set, one for the shape, the shape, values
    kFixed,   ///< values of `dtype` and `shape` alone
    kPickle,  ///< Python's, which runs code when it is read
  };
  Kind kind = Kind::kUnknown;
  std::optional<DType> dtype{};
  Shape shape{};

  /// Whether values have a size of their own in each sample.
  bool variable() const { return kind != Kind::kNumber && kind != Kind::kFixed; }
};
MdsEncoding MdsEncodingOf(std::string_view name);

/// What a value of an array says in front of its elements.
struct MdsArray {
  DType dtype = DType::kUInt8;
  Shape shape{};
  std::size_t header_bytes = 0;
};
/// Of a value with such an encoding, which is kArray. False unless the elements fill the rest.
bool ReadMdsArray(const MdsEncoding& encoding, std::span<const std::byte> value, MdsArray* array);

/// All columns in one text, as FileElements::name has them, and back. Names with a tab or a line
/// end have none.
std::string MdsColumnsText(std::span<const MdsColumn> columns);
std::vector<MdsColumn> MdsColumnsOf(std::string_view text);

}  // namespace ringfeed
