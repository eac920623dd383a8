#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/instance.h"

namespace ringfeed {

/// A LoDTensor in the plainest form.
struct LoDValue {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<std::vector<std::int64_t>> lod;
  std::string bytes;

  bool operator==(const LoDValue&) const = default;
};
void PrintTo(const LoDValue& value, std::ostream* out);

using LoDRecord = std::vector<LoDValue>;

/// The number of a type in Paddle's framework.proto.
std::uint32_t PaddleTypeOf(DType dtype);

/// A TensorDesc as Paddle writes it, or with its dimensions packed.
std::string TensorDesc(std::uint64_t type, const std::vector<std::int64_t>& dims,
                       bool packed = false);
/// A stream of one tensor whose description is given.
std::string TensorStream(const std::vector<std::vector<std::int64_t>>& lod,
                         const std::string& description, const std::string& bytes);
/// A record, put together byte by byte.
std::string EncodedRecord(const LoDRecord& record, bool packed = false);
/// What Paddle makes of instances that are batched, its code followed step by step.
LoDRecord MergedAsPaddle(const std::vector<LoDRecord>& records);

/// A record of "image" float32[n, 2, 3] without LoD, "words" int64[n, 1] of one level, "nested"
/// int16[n] of two, and "label" uint8[2], fixed. Some sequences and some tensors are empty. The
/// label is `number`, little-endian.
LoDRecord RandomRecord(std::uint16_t number, std::mt19937_64* random);

/// Values as builders take them, and records as tests compare them.
std::span<const std::byte> BytesOf(const std::string& text);
std::string Text(std::span<const std::byte> bytes);

/// A tensor as a reader delivers it.
LoDValue ValueOfTensor(const Tensor& tensor);
/// All tensors of a batch or an instance.
LoDRecord RecordOf(const Instance& instance);

}  // namespace ringfeed
