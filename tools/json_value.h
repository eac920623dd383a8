#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ringfeed/tensor.h"

namespace ringfeed::tools {

// Values as JSON, appended to a line. NaN and the infinities are NaN, Infinity and -Infinity, as
// Python's json reads and writes them; numbers have as many digits as tell them apart in their
// type.

/// A key; bytes that are no UTF-8 are replaced.
void AppendJsonKey(std::string_view key, std::string* json);
/// A string where the bytes are UTF-8, else {"base64": "…"}.
void AppendJsonBytes(std::span<const std::byte> bytes, std::string* json);
void AppendJsonNumber(float value, std::string* json);
void AppendJsonNumber(double value, std::string* json);
void AppendJsonNumber(std::int64_t value, std::string* json);
void AppendJsonNumber(std::uint64_t value, std::string* json);
/// An array of `shape` as nested arrays, a number for the shape of a scalar.
void AppendJsonArray(DType dtype, const Shape& shape, const std::byte* data, std::string* json);
/// A tensor that has LoD: an array for each sequence of each level, rows as AppendJsonArray has
/// them.
void AppendJsonSequences(const Tensor& tensor, std::string* json);

}  // namespace ringfeed::tools
