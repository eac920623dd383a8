#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "gpu/kernels/kernel_math.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

struct ToFloat32 {
  using Stored = float;
  static Stored Of(float value) { return value; }
};
struct ToFloat16 {
  using Stored = std::uint16_t;
  static Stored Of(float value) { return Float16Bits(value); }
};
struct ToBFloat16 {
  using Stored = std::uint16_t;
  static Stored Of(float value) { return BFloat16Bits(value); }
};

/// A byte has 256 values, so that every output is one of few.
template <typename To>
using ChannelTable = std::array<typename To::Stored, 256>;
template <typename To>
using Tables = std::array<ChannelTable<To>, CastNormalize::kMostChannels>;

template <typename To>
Tables<To> TablesOf(const CastNormalize& kernel) {
  Tables<To> tables{};
  for (std::size_t channel = 0; channel < kernel.channels; ++channel) {
    for (std::size_t value = 0; value < 256; ++value) {
      tables[channel][value] = To::Of(Normalized(static_cast<std::uint8_t>(value),
                                                 kernel.mean[channel], kernel.scale[channel]));
    }
  }
  return tables;
}

template <typename To>
void Cast(const CastNormalize& kernel) {
  const Tables<To> tables = TablesOf<To>(kernel);
  const auto* input = reinterpret_cast<const std::uint8_t*>(kernel.input);
  auto* output = reinterpret_cast<typename To::Stored*>(kernel.output);
  const std::uint64_t channels = kernel.channels;
  const std::uint64_t elements = kernel.rows * kernel.height * kernel.width * channels;
  std::uint64_t channel = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    output[i] = tables[channel][input[i]];
    channel = channel + 1 == channels ? 0 : channel + 1;
  }
}

template <typename To>
void CastChannelsFirst(const CastNormalize& kernel) {
  const Tables<To> tables = TablesOf<To>(kernel);
  const std::uint64_t channels = kernel.channels;
  const std::uint64_t pixels = kernel.height * kernel.width;
  const auto* image = reinterpret_cast<const std::uint8_t*>(kernel.input);
  auto* output = reinterpret_cast<typename To::Stored*>(kernel.output);
  for (std::uint64_t row = 0; row < kernel.rows; ++row, image += pixels * channels) {
    for (std::uint64_t channel = 0; channel < channels; ++channel) {
      const ChannelTable<To>& table = tables[channel];
      auto* plane = output + ChannelsFirstIndex(row, channel, 0, channels, pixels);
      for (std::uint64_t pixel = 0; pixel < pixels; ++pixel) {
        plane[pixel] = table[image[pixel * channels + channel]];
      }
    }
  }
}

/// The output's lines one after the other. Those of one plane have one channel, the others all.
template <typename To>
void CastCropped(const CastNormalize& kernel) {
  const Tables<To> tables = TablesOf<To>(kernel);
  const std::uint64_t channels = kernel.channels;
  const std::uint64_t planes = kernel.channels_first ? channels : 1;
  const std::uint64_t crop_height = kernel.output_height();
  const std::uint64_t crop_width = kernel.output_width();
  const auto* image = reinterpret_cast<const std::uint8_t*>(kernel.input);
  auto* output = reinterpret_cast<typename To::Stored*>(kernel.output);
  for (std::uint64_t row = 0; row < kernel.rows; ++row) {
    const std::int32_t* numbers =
        kernel.crops == nullptr ? nullptr : kernel.crops + row * CastNormalize::kCropNumbers;
    const CropPlace place =
        CropPlaceOf(numbers, kernel.height, kernel.width, crop_height, crop_width);
    for (std::uint64_t plane = 0; plane < planes; ++plane) {
      for (std::uint64_t y = 0; y < crop_height; ++y) {
        const std::uint8_t* line = image + (place.top + y) * kernel.width * channels;
        for (std::uint64_t x = 0; x < crop_width; ++x) {
          const std::uint8_t* pixel = line + CroppedColumn(place, x, crop_width) * channels;
          for (std::uint64_t channel = plane; channel < channels; channel += planes) {
            *output++ = tables[channel][pixel[channel]];
          }
        }
      }
    }
    image += kernel.height * kernel.width * channels;
  }
}

template <typename To>
void CastTo(const CastNormalize& kernel) {
  if (!kernel.takes_all()) return CastCropped<To>(kernel);
  kernel.channels_first ? CastChannelsFirst<To>(kernel) : Cast<To>(kernel);
}

void Run(const CastNormalize& kernel) {
  if (kernel.rows == 0 || kernel.height == 0 || kernel.width == 0) return;
  switch (kernel.output_dtype) {
    case DType::kFloat32:
      return CastTo<ToFloat32>(kernel);
    case DType::kFloat16:
      return CastTo<ToFloat16>(kernel);
    default:
      assert(kernel.output_dtype == kBFloat16);
      return CastTo<ToBFloat16>(kernel);
  }
}

template <typename Wide>
void Widen(const WidenTokens& kernel) {
  const auto* input = reinterpret_cast<const std::uint16_t*>(kernel.input);
  auto* output = reinterpret_cast<Wide*>(kernel.output);
  std::transform(input, input + kernel.count, output, [](std::uint16_t token) { return token; });
}

void Run(const WidenTokens& kernel) {
  if (kernel.count == 0) return;
  kernel.output_dtype == kInt32 ? Widen<std::int32_t>(kernel) : Widen<std::int64_t>(kernel);
}

/// Doubles the filled part, so that a long gap takes few copies.
void FillUp(std::byte* to, std::uint64_t bytes, const RaggedToPadded& kernel) {
  if (bytes == 0) return;
  std::uint64_t done = kernel.padding_bytes;
  std::memcpy(to, kernel.padding.data(), done);
  while (done < bytes) {
    const std::uint64_t next = std::min(done, bytes - done);
    std::memcpy(to + done, to, next);
    done += next;
  }
}

void Run(const RaggedToPadded& kernel) {
  if (kernel.length == 0) return;
  const std::uint64_t unit = kernel.unit_bytes;
  const std::uint64_t row_bytes = kernel.length * unit;
  std::byte* output = kernel.output;
  for (std::uint64_t i = 0; i < kernel.rows; ++i, output += row_bytes) {
    const PaddedRow row =
        PaddedRowOf(kernel.offsets[i], kernel.offsets[i + 1], kernel.input_units, kernel.length);
    const std::uint64_t taken = row.steps * unit;
    if (taken > 0) std::memcpy(output, kernel.input + row.begin * unit, taken);
    FillUp(output + taken, row_bytes - taken, kernel);
  }
}

void Run(const GatherPieces& kernel) {
  for (std::uint64_t i = 0; i < kernel.count; ++i) {
    const GatheredPiece& piece = kernel.pieces[i];
    const std::uint64_t bytes =
        GatheredBytes(piece.from, piece.to, piece.bytes, kernel.input_bytes, kernel.output_bytes);
    if (bytes > 0) std::memcpy(kernel.output + piece.to, kernel.input + piece.from, bytes);
  }
}

void Run(const SumPieces& kernel) {
  std::fill_n(kernel.output, kernel.texts, 0U);
  for (std::uint64_t i = 0; i < kernel.count; ++i) {
    const SummedPiece& piece = kernel.pieces[i];
    const std::uint64_t bytes = SummedBytes(piece.from, piece.bytes, kernel.input_bytes);
    if (bytes == 0 || piece.text >= kernel.texts) continue;
    const std::uint32_t crc = Crc32c({kernel.input + piece.from, bytes});
    kernel.output[piece.text] ^= ShiftCrc32c(crc, piece.behind);
  }
}

void Run(const Checksum& kernel) {
  const std::uint64_t words = kernel.bytes / 8;
  const std::uint64_t rest = kernel.bytes % 8;
  std::uint64_t sum = kernel.bytes;
  for (std::uint64_t i = 0; i < words; ++i) {
    sum += ChecksumTerm(LoadLe<std::uint64_t>(kernel.input + 8 * i), i);
  }
  if (rest > 0) sum += ChecksumTerm(ChecksumWord(kernel.input + 8 * words, rest), words);
  *kernel.output = sum;
}

}  // namespace

void RunKernelOnHost(const DeviceKernel& kernel) {
  std::visit([](const auto& one) { Run(one); }, kernel);
}

}  // namespace ringfeed
