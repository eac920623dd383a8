#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// Decodes a packed run of varints (https://protobuf.dev/programming-guides/encoding#varints) that
/// must hold exactly `count` of them and nothing else. False if it does not; then `values` is
/// unspecified. Reads nothing outside the run. The processor's abilities choose the way.
bool DecodeVarints(std::span<const std::byte> run, std::size_t count, std::int64_t* values);

/// How many varints the run holds; false if it does not end with one, or one is longer than ten
/// bytes.
bool CountVarints(std::span<const std::byte> run, std::size_t* count);

/// The ways, for tests: those that this processor lacks are null.
using VarintDecoder = bool (*)(std::span<const std::byte>, std::size_t, std::int64_t*);
struct VarintDecoders {
  VarintDecoder portable = nullptr;
  VarintDecoder bmi2 = nullptr;
  VarintDecoder avx512 = nullptr;
};
VarintDecoders AllVarintDecoders();

}  // namespace ringfeed
