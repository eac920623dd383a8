#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c_math.h"

namespace ringfeed {

// The arithmetic of one element of a device kernel: the same lines for the host twins and for CUDA.

/// (value - mean) * scale, rounded after each step. No compiler can fuse the two: a difference that
/// is multiplied is no multiply-add.
RINGFEED_HOST_DEVICE inline float Normalized(std::uint8_t value, float mean, float scale) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(__fsub_rn(static_cast<float>(value), mean), scale);
#else
  return (static_cast<float>(value) - mean) * scale;
#endif
}

RINGFEED_HOST_DEVICE inline std::uint32_t Float32Bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The bits of the nearest half, the even one of two; subnormal ones and infinities too. Every NaN
/// becomes the same quiet one, because processors keep different bits of it.
RINGFEED_HOST_DEVICE inline std::uint16_t Float16Bits(float value) {
  constexpr std::uint32_t kInfinity32 = 0x7F800000;
  constexpr std::uint32_t kTwoTo16 = 0x47800000;       // beyond all halves, whatever the rounding
  constexpr std::uint32_t kTwoToMinus14 = 0x38800000;  // the smallest normal half
  constexpr std::uint32_t kTwoToMinus25 = 0x33000000;  // half of the smallest subnormal one
  const std::uint32_t bits = Float32Bits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t rounded = 0;
  if (magnitude > kInfinity32) return 0x7E00;
  if (magnitude >= kTwoTo16) {
    rounded = 0x7C00;
  } else if (magnitude >= kTwoToMinus14) {
    const std::uint32_t rebiased = magnitude - ((127U - 15U) << 23);
    rounded = (rebiased + 0xFFFU + ((rebiased >> 13) & 1U)) >> 13;
  } else if (magnitude > kTwoToMinus25) {
    const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t shift = 126U - (magnitude >> 23);  // to multiples of 2^-24: 14 to 24
    rounded = (mantissa + (1U << (shift - 1)) - 1 + ((mantissa >> shift) & 1U)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

/// The same for bfloat16.
RINGFEED_HOST_DEVICE inline std::uint16_t BFloat16Bits(float value) {
  const std::uint32_t bits = Float32Bits(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// The index of [row, channel, pixel] in NCHW; `pixels` is height * width.
RINGFEED_HOST_DEVICE inline std::uint64_t ChannelsFirstIndex(std::uint64_t row,
                                                             std::uint64_t channel,
                                                             std::uint64_t pixel,
                                                             std::uint64_t channels,
                                                             std::uint64_t pixels) {
  return (row * channels + channel) * pixels + pixel;
}

/// The place of a crop in its image.
struct CropPlace {
  std::uint64_t top = 0;
  std::uint64_t left = 0;
  bool mirrored = false;  ///< left to right
};

/// The begin nearest to `wanted` for `crop` steps within `all` steps; `all` is at least `crop`.
RINGFEED_HOST_DEVICE inline std::uint64_t CropBegin(std::int32_t wanted, std::uint64_t crop,
                                                    std::uint64_t all) {
  const std::uint64_t last = all - crop;
  if (wanted < 0) return 0;
  return static_cast<std::uint64_t>(wanted) < last ? static_cast<std::uint64_t>(wanted) : last;
}

/// `numbers` are the row's three of CastNormalize::crops; null: the middle.
RINGFEED_HOST_DEVICE inline CropPlace CropPlaceOf(const std::int32_t* numbers, std::uint64_t height,
                                                  std::uint64_t width, std::uint64_t crop_height,
                                                  std::uint64_t crop_width) {
  CropPlace place;
  if (numbers == nullptr) {
    place.top = (height - crop_height) / 2;
    place.left = (width - crop_width) / 2;
  } else {
    place.top = CropBegin(numbers[0], crop_height, height);
    place.left = CropBegin(numbers[1], crop_width, width);
    place.mirrored = numbers[2] != 0;
  }
  return place;
}

/// The image's column for column x of its crop.
RINGFEED_HOST_DEVICE inline std::uint64_t CroppedColumn(const CropPlace& place, std::uint64_t x,
                                                        std::uint64_t crop_width) {
  return place.left + (place.mirrored ? crop_width - 1 - x : x);
}

/// The input steps that an output row takes; the rest of it is padding.
struct PaddedRow {
  std::uint64_t begin = 0;
  std::uint64_t steps = 0;
};

/// Whatever the offsets are, the steps lie in [0, input_units): a row whose offsets fall, or that
/// would begin beyond, takes none.
RINGFEED_HOST_DEVICE inline PaddedRow PaddedRowOf(std::int64_t begin_offset,
                                                  std::int64_t end_offset,
                                                  std::uint64_t input_units, std::uint64_t length) {
  PaddedRow row;
  row.begin = begin_offset < 0 ? 0 : static_cast<std::uint64_t>(begin_offset);
  std::uint64_t end = end_offset < 0 ? 0 : static_cast<std::uint64_t>(end_offset);
  if (end > input_units) end = input_units;
  if (row.begin < end) row.steps = end - row.begin;
  if (row.steps > length) row.steps = length;
  return row;
}

/// How many bytes of a piece are copied: those within the input and the output.
RINGFEED_HOST_DEVICE inline std::uint64_t GatheredBytes(std::uint64_t from, std::uint64_t to,
                                                        std::uint64_t bytes,
                                                        std::uint64_t input_bytes,
                                                        std::uint64_t output_bytes) {
  const std::uint64_t in_input = from < input_bytes ? input_bytes - from : 0;
  const std::uint64_t in_output = to < output_bytes ? output_bytes - to : 0;
  if (bytes > in_input) bytes = in_input;
  return bytes > in_output ? in_output : bytes;
}

/// How many bytes of a piece are summed: those within the input.
RINGFEED_HOST_DEVICE inline std::uint64_t SummedBytes(std::uint64_t from, std::uint64_t bytes,
                                                      std::uint64_t input_bytes) {
  const std::uint64_t in_input = from < input_bytes ? input_bytes - from : 0;
  return bytes > in_input ? in_input : bytes;
}

/// The term of the 8-byte word of that number in a Checksum.
RINGFEED_HOST_DEVICE inline std::uint64_t ChecksumTerm(std::uint64_t word, std::uint64_t number) {
  return (word + 1) * (2 * number + 0x9E3779B97F4A7C15U);
}

/// The word of `bytes` bytes (1 to 8), filled up with zeros.
RINGFEED_HOST_DEVICE inline std::uint64_t ChecksumWord(const std::byte* data, std::uint64_t bytes) {
  std::uint64_t word = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    word |= static_cast<std::uint64_t>(data[i]) << (8 * i);
  }
  return word;
}

}  // namespace ringfeed
