#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "gpu/backends/cuda/cuda_kernels.h"
#include "gpu/backends/cuda/kernel_launch.h"
#include "gpu/kernels/kernel_math.h"

namespace ringfeed {
namespace {

// All kernels are bound by memory: they move 16 bytes a store if the addresses allow it, and stride
// over the grid, which is small so that they run beside a training step.

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kMostBlocks = 1024;
constexpr int kStoreBytes = 16;

__device__ std::uint64_t ThreadNumber() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::uint64_t ThreadCount() { return std::uint64_t{gridDim.x} * blockDim.x; }

/// Work in rows: threads along x share a row, y takes rows. No division is needed to find an
/// element.
struct RowShape {
  dim3 grid;
  dim3 block;
};

RowShape ShapeOf(std::uint64_t rows, std::uint64_t row_items) {
  unsigned x = 1;
  while (x < kThreads && x < row_items) x *= 2;
  const unsigned y = kThreads / x;
  const std::uint64_t blocks_down = std::min((rows + y - 1) / y, kMostBlocks);
  const std::uint64_t blocks_across =
      std::min((row_items + x - 1) / x, std::max<std::uint64_t>(kMostBlocks / blocks_down, 1));
  return {dim3(static_cast<unsigned>(blocks_across), static_cast<unsigned>(blocks_down)),
          dim3(x, y)};
}

unsigned BlocksFor(std::uint64_t items) {
  const std::uint64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, kMostBlocks));
}

bool IsOn(const void* data, std::uint64_t boundary) {
  return reinterpret_cast<std::uintptr_t>(data) % boundary == 0;
}

/// Items that one instruction loads or stores, if they are aligned for it.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T items[kCount];
};

// The processor's conversions round as kernel_math.h's do, subnormal numbers too. They differ only
// for NaN, which finite means and scales never give.
struct ToFloat32 {
  using Stored = float;
  static __device__ float Of(float value) { return value; }
};
struct ToFloat16 {
  using Stored = std::uint16_t;
  static __device__ std::uint16_t Of(float value) {
    return __half_as_ushort(__float2half_rn(value));
  }
};
struct ToBFloat16 {
  using Stored = std::uint16_t;
  static __device__ std::uint16_t Of(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
};

/// CastNormalize as kernels take it: as a __grid_constant__, so that a channel's numbers are read
/// in place, not from a copy in each thread's stack.
struct CastNumbers {
  const std::uint8_t* input;
  void* output;
  std::uint64_t rows;
  std::uint64_t pixels;  ///< height * width
  float mean[CastNormalize::kMostChannels];
  float scale[CastNormalize::kMostChannels];
};

template <typename To>
__device__ typename To::Stored CastOne(const CastNumbers& cast, std::uint8_t value, int channel) {
  return To::Of(Normalized(value, cast.mean[channel], cast.scale[channel]));
}

/// Elements in their order, `kPack` a thread.
template <typename To, int kChannels, int kPack>
__global__ void CastInOrder(const __grid_constant__ CastNumbers cast) {
  using Stored = typename To::Stored;
  const std::uint64_t elements = cast.rows * cast.pixels * kChannels;
  const std::uint64_t packs = elements / kPack;
  const auto* input = reinterpret_cast<const Pack<std::uint8_t, kPack>*>(cast.input);
  auto* output = static_cast<Pack<Stored, kPack>*>(cast.output);
  for (std::uint64_t i = ThreadNumber(); i < packs; i += ThreadCount()) {
    const Pack<std::uint8_t, kPack> values = input[i];
    Pack<Stored, kPack> results;
    int channel = static_cast<int>(i * kPack % kChannels);
#pragma unroll
    for (int item = 0; item < kPack; ++item) {
      results.items[item] = CastOne<To>(cast, values.items[item], channel);
      channel = channel + 1 == kChannels ? 0 : channel + 1;
    }
    output[i] = results;
  }
  const std::uint64_t rest = packs * kPack + ThreadNumber();
  if (rest < elements) {
    static_cast<Stored*>(cast.output)[rest] =
        CastOne<To>(cast, cast.input[rest], static_cast<int>(rest % kChannels));
  }
}

/// The bytes of `kPack` pixels. If kPack > 1 these are whole words, aligned to a word.
template <int kChannels, int kPack>
struct PixelPack {
  static constexpr int kBytes = kChannels * kPack;
  using Word = std::conditional_t<(kPack > 1), std::uint32_t, std::uint8_t>;
  static constexpr int kWordBytes = sizeof(Word);

  __device__ explicit PixelPack(const std::uint8_t* input) {
#pragma unroll
    for (int i = 0; i < kBytes / kWordBytes; ++i)
      words[i] = reinterpret_cast<const Word*>(input)[i];
  }
  __device__ std::uint8_t At(int pixel, int channel) const {
    const int byte = pixel * kChannels + channel;
    return static_cast<std::uint8_t>(words[byte / kWordBytes] >> (8 * (byte % kWordBytes)));
  }

  Word words[kBytes / kWordBytes];
};

/// Images taken apart into planes, `kPack` pixels a thread.
template <typename To, int kChannels, int kPack>
__global__ void CastChannelsFirst(const __grid_constant__ CastNumbers cast) {
  using Stored = typename To::Stored;
  const std::uint64_t packs = cast.pixels / kPack;
  for (std::uint64_t row = std::uint64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < cast.rows;
       row += std::uint64_t{gridDim.y} * blockDim.y) {
    for (std::uint64_t i = ThreadNumber(); i < packs; i += ThreadCount()) {
      const std::uint64_t pixel = i * kPack;
      const PixelPack<kChannels, kPack> values(cast.input +
                                               (row * cast.pixels + pixel) * kChannels);
#pragma unroll
      for (int channel = 0; channel < kChannels; ++channel) {
        Pack<Stored, kPack> results;
#pragma unroll
        for (int item = 0; item < kPack; ++item) {
          results.items[item] = CastOne<To>(cast, values.At(item, channel), channel);
        }
        Stored* plane_place = static_cast<Stored*>(cast.output) +
                              ChannelsFirstIndex(row, static_cast<std::uint64_t>(channel), pixel,
                                                 kChannels, cast.pixels);
        *reinterpret_cast<Pack<Stored, kPack>*>(plane_place) = results;
      }
    }
  }
}

/// A cropped CastNormalize. Its output is lines of crop_width pixels: of all channels, or, with
/// channels first, of one, each image's planes one after the other.
struct CropNumbers {
  CastNumbers cast;
  const std::int32_t* crops;
  std::uint64_t height;
  std::uint64_t width;
  std::uint64_t crop_height;
  std::uint64_t crop_width;
  std::uint64_t channels;
  std::uint64_t planes;  ///< channels, or 1
};

/// Lines along y, `kPack` of their elements a thread along x. Mirrored or not, the input is not
/// aligned, so it is read by bytes, which neighbours share; the output is written wide.
template <typename To, int kLineChannels, int kPack>
__global__ void CastCropped(const __grid_constant__ CropNumbers crop) {
  using Stored = typename To::Stored;
  const std::uint64_t lines = crop.cast.rows * crop.planes * crop.crop_height;
  const std::uint64_t line_packs = crop.crop_width * kLineChannels / kPack;
  auto* output = static_cast<Pack<Stored, kPack>*>(crop.cast.output);
  for (std::uint64_t line = std::uint64_t{blockIdx.y} * blockDim.y + threadIdx.y; line < lines;
       line += std::uint64_t{gridDim.y} * blockDim.y) {
    const std::uint64_t of_planes = line / crop.crop_height;
    const std::uint64_t row = of_planes / crop.planes;
    const auto plane = static_cast<int>(of_planes - row * crop.planes);
    const std::int32_t* numbers =
        crop.crops == nullptr ? nullptr : crop.crops + row * CastNormalize::kCropNumbers;
    const CropPlace place =
        CropPlaceOf(numbers, crop.height, crop.width, crop.crop_height, crop.crop_width);
    const std::uint64_t y = line - of_planes * crop.crop_height;
    const std::uint8_t* input =
        crop.cast.input + (row * crop.height + place.top + y) * crop.width * crop.channels;
    for (std::uint64_t i = ThreadNumber(); i < line_packs; i += ThreadCount()) {
      Pack<Stored, kPack> results;
      std::uint64_t x = i * kPack / kLineChannels;
      int channel = static_cast<int>(i * kPack % kLineChannels);
#pragma unroll
      for (int item = 0; item < kPack; ++item) {
        const std::uint8_t* pixel =
            input + CroppedColumn(place, x, crop.crop_width) * crop.channels;
        results.items[item] = CastOne<To>(crop.cast, pixel[plane + channel], plane + channel);
        if (++channel == kLineChannels) {
          channel = 0;
          ++x;
        }
      }
      output[line * line_packs + i] = results;
    }
  }
}

template <typename To, int kLineChannels>
cudaError_t LaunchLines(const CropNumbers& crop, cudaStream_t stream) {
  constexpr int kPack = kStoreBytes / static_cast<int>(sizeof(typename To::Stored));
  const std::uint64_t lines = crop.cast.rows * crop.planes * crop.crop_height;
  const std::uint64_t line_items = crop.crop_width * kLineChannels;
  if (IsOn(crop.cast.output, kStoreBytes) && line_items % kPack == 0) {
    const RowShape shape = ShapeOf(lines, line_items / kPack);
    return Enqueue(CastCropped<To, kLineChannels, kPack>, shape.grid, shape.block, stream, crop);
  }
  const RowShape shape = ShapeOf(lines, line_items);
  return Enqueue(CastCropped<To, kLineChannels, 1>, shape.grid, shape.block, stream, crop);
}

template <typename To>
cudaError_t LaunchCropped(const CastNormalize& kernel, const CastNumbers& cast,
                          cudaStream_t stream) {
  CropNumbers crop{};
  crop.cast = cast;
  crop.crops = kernel.crops;
  crop.height = kernel.height;
  crop.width = kernel.width;
  crop.crop_height = kernel.output_height();
  crop.crop_width = kernel.output_width();
  crop.channels = kernel.channels;
  crop.planes = kernel.channels_first ? kernel.channels : 1;
  switch (kernel.channels / crop.planes) {
    case 1:
      return LaunchLines<To, 1>(crop, stream);
    case 2:
      return LaunchLines<To, 2>(crop, stream);
    case 3:
      return LaunchLines<To, 3>(crop, stream);
    default:
      return LaunchLines<To, 4>(crop, stream);
  }
}

template <typename To, int kChannels>
cudaError_t LaunchCast(const CastNumbers& cast, bool channels_first, cudaStream_t stream) {
  constexpr int kPack = kStoreBytes / static_cast<int>(sizeof(typename To::Stored));
  const bool wide = IsOn(cast.output, kStoreBytes);
  if (channels_first && kChannels > 1 && cast.pixels > 1) {
    if (wide && IsOn(cast.input, sizeof(std::uint32_t)) && cast.pixels % kPack == 0) {
      const RowShape shape = ShapeOf(cast.rows, cast.pixels / kPack);
      return Enqueue(CastChannelsFirst<To, kChannels, kPack>, shape.grid, shape.block, stream,
                     cast);
    }
    const RowShape shape = ShapeOf(cast.rows, cast.pixels);
    return Enqueue(CastChannelsFirst<To, kChannels, 1>, shape.grid, shape.block, stream, cast);
  }
  const std::uint64_t elements = cast.rows * cast.pixels * kChannels;
  if (wide && IsOn(cast.input, kPack)) {
    return Enqueue(CastInOrder<To, kChannels, kPack>, BlocksFor(elements / kPack), kThreads, stream,
                   cast);
  }
  return Enqueue(CastInOrder<To, kChannels, 1>, BlocksFor(elements), kThreads, stream, cast);
}

template <typename To>
cudaError_t LaunchCast(const CastNormalize& kernel, cudaStream_t stream) {
  CastNumbers cast{};
  cast.input = reinterpret_cast<const std::uint8_t*>(kernel.input);
  cast.output = kernel.output;
  cast.rows = kernel.rows;
  cast.pixels = kernel.height * kernel.width;
  std::copy(kernel.mean.begin(), kernel.mean.end(), cast.mean);
  std::copy(kernel.scale.begin(), kernel.scale.end(), cast.scale);
  if (!kernel.takes_all()) return LaunchCropped<To>(kernel, cast, stream);
  switch (kernel.channels) {
    case 1:
      return LaunchCast<To, 1>(cast, kernel.channels_first, stream);
    case 2:
      return LaunchCast<To, 2>(cast, kernel.channels_first, stream);
    case 3:
      return LaunchCast<To, 3>(cast, kernel.channels_first, stream);
    default:
      return LaunchCast<To, 4>(cast, kernel.channels_first, stream);
  }
}

cudaError_t Launch(const CastNormalize& kernel, cudaStream_t stream) {
  if (kernel.rows == 0 || kernel.height == 0 || kernel.width == 0) return cudaSuccess;
  switch (kernel.output_dtype) {
    case DType::kFloat32:
      return LaunchCast<ToFloat32>(kernel, stream);
    case DType::kFloat16:
      return LaunchCast<ToFloat16>(kernel, stream);
    default:
      return LaunchCast<ToBFloat16>(kernel, stream);
  }
}

template <typename Wide, int kPack>
__global__ void Widen(const std::uint16_t* input, Wide* output, std::uint64_t count) {
  const std::uint64_t packs = count / kPack;
  const auto* packed_input = reinterpret_cast<const Pack<std::uint16_t, kPack>*>(input);
  auto* packed_output = reinterpret_cast<Pack<Wide, kPack>*>(output);
  for (std::uint64_t i = ThreadNumber(); i < packs; i += ThreadCount()) {
    const Pack<std::uint16_t, kPack> tokens = packed_input[i];
    Pack<Wide, kPack> results;
#pragma unroll
    for (int item = 0; item < kPack; ++item) results.items[item] = tokens.items[item];
    packed_output[i] = results;
  }
  const std::uint64_t rest = packs * kPack + ThreadNumber();
  if (rest < count) output[rest] = input[rest];
}

template <typename Wide>
cudaError_t LaunchWiden(const WidenTokens& kernel, cudaStream_t stream) {
  constexpr int kPack = kStoreBytes / static_cast<int>(sizeof(Wide));
  const auto* input = reinterpret_cast<const std::uint16_t*>(kernel.input);
  auto* output = reinterpret_cast<Wide*>(kernel.output);
  if (IsOn(output, kStoreBytes) && IsOn(input, kPack * sizeof(std::uint16_t))) {
    return Enqueue(Widen<Wide, kPack>, BlocksFor(kernel.count / kPack), kThreads, stream, input,
                   output, kernel.count);
  }
  return Enqueue(Widen<Wide, 1>, BlocksFor(kernel.count), kThreads, stream, input, output,
                 kernel.count);
}

cudaError_t Launch(const WidenTokens& kernel, cudaStream_t stream) {
  if (kernel.count == 0) return cudaSuccess;
  return kernel.output_dtype == DType::kInt32 ? LaunchWiden<std::int32_t>(kernel, stream)
                                              : LaunchWiden<std::int64_t>(kernel, stream);
}

/// Works in words of a size that all addresses, steps and the padding are multiples of.
template <typename Word>
__global__ void Pad(const Word* input, const std::int64_t* offsets, Word* output,
                    std::uint64_t rows, std::uint64_t length, std::uint64_t input_units,
                    std::uint64_t unit_words, Word padding) {
  const std::uint64_t row_words = length * unit_words;
  for (std::uint64_t i = std::uint64_t{blockIdx.y} * blockDim.y + threadIdx.y; i < rows;
       i += std::uint64_t{gridDim.y} * blockDim.y) {
    const PaddedRow row = PaddedRowOf(offsets[i], offsets[i + 1], input_units, length);
    const std::uint64_t first = row.begin * unit_words;
    const std::uint64_t taken = row.steps * unit_words;
    Word* to = output + i * row_words;
    for (std::uint64_t word = ThreadNumber(); word < row_words; word += ThreadCount()) {
      to[word] = word < taken ? input[first + word] : padding;
    }
  }
}

template <typename Word>
cudaError_t LaunchPad(const RaggedToPadded& kernel, cudaStream_t stream) {
  Word padding{};
  auto* padding_bytes = reinterpret_cast<std::byte*>(&padding);
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    padding_bytes[i] = kernel.padding[i % kernel.padding_bytes];
  }
  const std::uint64_t unit_words = kernel.unit_bytes / sizeof(Word);
  const RowShape shape = ShapeOf(kernel.rows, kernel.length * unit_words);
  return Enqueue(Pad<Word>, shape.grid, shape.block, stream,
                 reinterpret_cast<const Word*>(kernel.input), kernel.offsets,
                 reinterpret_cast<Word*>(kernel.output), kernel.rows, kernel.length,
                 kernel.input_units, unit_words, padding);
}

cudaError_t Launch(const RaggedToPadded& kernel, cudaStream_t stream) {
  if (kernel.rows == 0 || kernel.length == 0) return cudaSuccess;
  const auto fits = [&kernel](std::uint64_t word) {
    return kernel.unit_bytes % word == 0 && IsOn(kernel.input, word) && IsOn(kernel.output, word);
  };
  // In a checked kernel everything is a multiple of padding_bytes, so no word is smaller than the
  // padding.
  if (fits(16)) return LaunchPad<ulonglong2>(kernel, stream);
  if (fits(8)) return LaunchPad<std::uint64_t>(kernel, stream);
  if (fits(4)) return LaunchPad<std::uint32_t>(kernel, stream);
  if (fits(2)) return LaunchPad<std::uint16_t>(kernel, stream);
  return LaunchPad<std::uint8_t>(kernel, stream);
}

/// A piece in words of one size, by the threads along x. Bytes up to the first word boundary of
/// `to`, and after the last word, are copied one by one.
template <typename Word>
__device__ void CopyPiece(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t misaligned = reinterpret_cast<std::uintptr_t>(to) % sizeof(Word);
  std::uint64_t head = misaligned == 0 ? 0 : sizeof(Word) - misaligned;
  if (head > bytes) head = bytes;
  const std::uint64_t words = (bytes - head) / sizeof(Word);
  const std::uint64_t tail = head + words * sizeof(Word);
  for (std::uint64_t i = ThreadNumber(); i < head; i += ThreadCount()) to[i] = from[i];
  const auto* words_from = reinterpret_cast<const Word*>(from + head);
  auto* words_to = reinterpret_cast<Word*>(to + head);
  for (std::uint64_t i = ThreadNumber(); i < words; i += ThreadCount()) words_to[i] = words_from[i];
  for (std::uint64_t i = tail + ThreadNumber(); i < bytes; i += ThreadCount()) to[i] = from[i];
}

/// 16 of the 32 bytes in two registers, from byte `at` on, 1 to 15.
__device__ uint4 BytesFrom(uint4 first, uint4 second, unsigned at) {
  if ((at & 8U) != 0) {
    first = make_uint4(first.z, first.w, second.x, second.y);
    second = make_uint4(second.z, second.w, 0, 0);
  }
  if ((at & 4U) != 0) {
    first = make_uint4(first.y, first.z, first.w, second.x);
    second.x = second.y;
  }
  const unsigned bits = 8 * (at & 3U);
  return make_uint4(
      __funnelshift_r(first.x, first.y, bits), __funnelshift_r(first.y, first.z, bits),
      __funnelshift_r(first.z, first.w, bits), __funnelshift_r(first.w, second.x, bits));
}

/// The same if the two addresses have different alignments: shifts whole words of the input in
/// registers. The first word may begin before the piece, in the same 16 bytes and so in the same
/// allocation; none ends after it.
__device__ void CopyShiftedPiece(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  std::uint64_t head =
      (kStoreBytes - reinterpret_cast<std::uintptr_t>(to) % kStoreBytes) % kStoreBytes;
  if (head > bytes) head = bytes;
  const auto at =
      static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from + head) % kStoreBytes);
  const std::uint64_t behind = kStoreBytes - at;  // of the last word that is read
  const std::uint64_t rest = bytes - head;
  const std::uint64_t words = rest > behind ? (rest - behind) / kStoreBytes : 0;
  const std::uint64_t tail = head + words * kStoreBytes;
  for (std::uint64_t i = ThreadNumber(); i < head; i += ThreadCount()) to[i] = from[i];
  const auto* words_from = reinterpret_cast<const uint4*>(from + head - at);
  auto* words_to = reinterpret_cast<uint4*>(to + head);
  for (std::uint64_t i = ThreadNumber(); i < words; i += ThreadCount()) {
    words_to[i] = BytesFrom(words_from[i], words_from[i + 1], at);
  }
  for (std::uint64_t i = tail + ThreadNumber(); i < bytes; i += ThreadCount()) to[i] = from[i];
}

/// Pieces are taken along y. Source and target of a piece seldom have the same alignment.
__global__ void Gather(const std::byte* input, std::uint64_t input_bytes,
                       const GatheredPiece* pieces, std::uint64_t count, std::byte* output,
                       std::uint64_t output_bytes) {
  for (std::uint64_t i = std::uint64_t{blockIdx.y} * blockDim.y + threadIdx.y; i < count;
       i += std::uint64_t{gridDim.y} * blockDim.y) {
    const GatheredPiece piece = pieces[i];
    const std::uint64_t bytes =
        GatheredBytes(piece.from, piece.to, piece.bytes, input_bytes, output_bytes);
    if (bytes == 0) continue;
    std::byte* to = output + piece.to;
    const std::byte* from = input + piece.from;
    const std::uint64_t apart =
        reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
    if (apart % kStoreBytes == 0) {
      CopyPiece<ulonglong2>(to, from, bytes);
    } else {
      CopyShiftedPiece(to, from, bytes);
    }
  }
}

cudaError_t Launch(const GatherPieces& kernel, cudaStream_t stream) {
  if (kernel.count == 0) return cudaSuccess;
  // Only the device knows how long the pieces are. If there are few, many blocks share them.
  constexpr std::uint64_t kFewestWords = 8;
  const std::uint64_t words = kernel.output_bytes / kernel.count / kStoreBytes;
  const RowShape shape = ShapeOf(kernel.count, std::max(words, kFewestWords));
  return Enqueue(Gather, shape.grid, shape.block, stream, kernel.input, kernel.input_bytes,
                 kernel.pieces, kernel.count, kernel.output, kernel.output_bytes);
}

constexpr unsigned kSumThreads = 512;
constexpr unsigned kLanes = 32;
constexpr unsigned kLog2Lanes = 5;
constexpr unsigned kSumWarps = kSumThreads / kLanes;
constexpr unsigned kLog2SumWarps = 4;
constexpr std::uint64_t kMostOfAWarp = 8192;  // bytes of a piece; longer ones are for whole blocks
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
static_assert(1U << kLog2Lanes == kLanes && 1U << kLog2SumWarps == kSumWarps);

__constant__ Crc32cPowers sum_powers = AllCrc32cPowers();

/// Tables for the effect of four bytes on a remainder, one table for each byte.
struct SumTables {
  std::uint32_t behind[4][256];  ///< [n]: of a byte that n bytes of its word follow

  /// Each thread makes the entries of one byte.
  __device__ void Make(unsigned byte) {
    std::uint32_t remainder = Crc32cOfByte(byte);
    behind[0][byte] = remainder;
    for (unsigned i = 1; i < 4; ++i) {
      remainder = Crc32cOfByte(remainder & 0xFFU) ^ remainder >> 8;
      behind[i][byte] = remainder;
    }
  }
  __device__ std::uint32_t AddByte(std::uint32_t remainder, std::byte byte) const {
    return behind[0][(remainder ^ static_cast<std::uint32_t>(byte)) & 0xFFU] ^ remainder >> 8;
  }
  __device__ std::uint32_t AddWord(std::uint32_t remainder, std::uint32_t word) const {
    word ^= remainder;
    return behind[3][word & 0xFFU] ^ behind[2][word >> 8 & 0xFFU] ^ behind[1][word >> 16 & 0xFFU] ^
           behind[0][word >> 24];
  }
  /// Four words are loaded at a time.
  __device__ std::uint32_t Add(std::uint32_t remainder, const std::byte* data,
                               const std::byte* end) const {
    constexpr std::ptrdiff_t kWord = sizeof(std::uint32_t);
    while (data < end && reinterpret_cast<std::uintptr_t>(data) % kWord != 0) {
      remainder = AddByte(remainder, *data++);
    }
    for (; end - data >= 4 * kWord; data += 4 * kWord) {
      const auto* const words = reinterpret_cast<const std::uint32_t*>(data);
      const std::uint32_t next[4] = {words[0], words[1], words[2], words[3]};
      for (const std::uint32_t word : next) remainder = AddWord(remainder, word);
    }
    for (; end - data >= kWord; data += kWord) {
      remainder = AddWord(remainder, *reinterpret_cast<const std::uint32_t*>(data));
    }
    while (data < end) remainder = AddByte(remainder, *data++);
    return remainder;
  }
};

/// Joins all lanes' remainders, of 2^log2_each bytes each; the first lane gets the result.
__device__ std::uint32_t JoinLanes(std::uint32_t sum, unsigned log2_each, unsigned log2_lanes) {
  for (unsigned level = 0; level < log2_lanes; ++level) {
    const std::uint32_t next = __shfl_down_sync(kAllLanes, sum, 1U << level);
    sum = JoinCrc32c(sum, next, sum_powers, log2_each + level);
  }
  return sum;
}

/// The pieces that are not long, one by each warp.
__device__ void SumByWarps(const std::byte* input, std::uint64_t input_bytes,
                           const SummedPiece* pieces, std::uint64_t count, std::uint32_t* output,
                           const SumTables& tables) {
  const unsigned lane = threadIdx.x % kLanes;
  for (std::uint64_t i = std::uint64_t{threadIdx.x / kLanes} * gridDim.x + blockIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * kSumWarps) {
    const SummedPiece piece = pieces[i];
    const std::uint64_t bytes = SummedBytes(piece.from, piece.bytes, input_bytes);
    if (bytes > kMostOfAWarp) continue;
    const SummedParts parts = SummedParts::Of(bytes, kLanes);
    const SummedParts::Part part = parts[lane];
    const std::byte* const data = input + piece.from;
    std::uint32_t sum = part.before();
    if (part.begin < part.end) sum = tables.Add(sum, data + part.begin, data + part.end);
    sum = JoinLanes(sum, parts.log2_each, kLog2Lanes);
    if (lane == 0) output[i] = bytes == 0 ? 0 : ~sum;
  }
}

/// A long piece, by all threads of a block.
__device__ std::uint32_t SumByBlock(const std::byte* data, std::uint64_t bytes,
                                    const SumTables& tables) {
  __shared__ std::uint32_t warp_sums[kLanes];
  const SummedParts parts = SummedParts::Of(bytes, kSumThreads);
  const SummedParts::Part part = parts[threadIdx.x];
  std::uint32_t sum = part.before();
  if (part.begin < part.end) sum = tables.Add(sum, data + part.begin, data + part.end);
  sum = JoinLanes(sum, parts.log2_each, kLog2Lanes);
  __syncthreads();  // all have read the shared memory
  if (threadIdx.x % kLanes == 0) warp_sums[threadIdx.x / kLanes] = sum;
  __syncthreads();
  if (threadIdx.x >= kLanes) return 0;
  sum = threadIdx.x < kSumWarps ? warp_sums[threadIdx.x] : 0;
  return JoinLanes(sum, parts.log2_each + kLog2Lanes, kLog2SumWarps);
}

/// Each block has every gridDim.x-th piece. Its threads look for long pieces together, so that they
/// pass over many short pieces at a time.
__global__ void __launch_bounds__(kSumThreads)
    SumAll(const std::byte* input, std::uint64_t input_bytes, const SummedPiece* pieces,
           std::uint64_t count, std::uint32_t* output) {
  __shared__ SumTables tables;
  if (threadIdx.x < 256) tables.Make(threadIdx.x);
  __syncthreads();
  SumByWarps(input, input_bytes, pieces, count, output, tables);
  const auto bytes_of = [&](std::uint64_t i) {
    return i < count ? SummedBytes(pieces[i].from, pieces[i].bytes, input_bytes) : 0;
  };
  for (std::uint64_t first = blockIdx.x; first < count;
       first += std::uint64_t{gridDim.x} * kSumThreads) {
    const std::uint64_t own = first + std::uint64_t{threadIdx.x} * gridDim.x;
    if (__syncthreads_or(bytes_of(own) > kMostOfAWarp) == 0) continue;
    for (unsigned k = 0; k < kSumThreads; ++k) {
      const std::uint64_t i = first + std::uint64_t{k} * gridDim.x;
      if (i >= count) break;
      const std::uint64_t bytes = bytes_of(i);
      if (bytes <= kMostOfAWarp) continue;
      const std::uint32_t sum = SumByBlock(input + pieces[i].from, bytes, tables);
      if (threadIdx.x == 0) output[i] = ~sum;
    }
  }
}

cudaError_t Launch(const SumPieces& kernel, cudaStream_t stream) {
  if (kernel.count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min(kernel.count, kMostBlocks));
  return Enqueue(SumAll, dim3(blocks), dim3(kSumThreads), stream, kernel.input, kernel.input_bytes,
                 kernel.pieces, kernel.count, kernel.output);
}

/// Sums over the block and then into *output. Addition modulo 2^64 gives the same in any order.
__device__ void AddToOutput(unsigned long long sum, unsigned long long* output) {
  __shared__ unsigned long long warp_sums[kThreads / 32];
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xFFFFFFFFU, sum, distance);
  }
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned long long block_sum = 0;
  for (unsigned warp = 0; warp < kThreads / 32; ++warp) block_sum += warp_sums[warp];
  atomicAdd(output, block_sum);
}

/// Two words a load if kAligned, else a byte. *output was set to 0.
template <bool kAligned>
__global__ void AddUp(const std::byte* input, std::uint64_t bytes, unsigned long long* output) {
  std::uint64_t sum = ThreadNumber() == 0 ? bytes : 0;
  std::uint64_t done = 0;  // words
  if constexpr (kAligned) {
    const std::uint64_t pairs = bytes / sizeof(ulonglong2);
    for (std::uint64_t i = ThreadNumber(); i < pairs; i += ThreadCount()) {
      const ulonglong2 pair = reinterpret_cast<const ulonglong2*>(input)[i];
      sum += ChecksumTerm(pair.x, 2 * i) + ChecksumTerm(pair.y, 2 * i + 1);
    }
    done = 2 * pairs;
  }
  const std::uint64_t words = (bytes + 7) / 8;
  for (std::uint64_t i = done + ThreadNumber(); i < words; i += ThreadCount()) {
    const std::uint64_t left = bytes - 8 * i;
    sum += ChecksumTerm(ChecksumWord(input + 8 * i, left < 8 ? left : 8), i);
  }
  AddToOutput(sum, output);
}

cudaError_t Launch(const Checksum& kernel, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(kernel.output, 0, sizeof(*kernel.output), stream);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return error;
  }
  if (kernel.bytes == 0) return cudaSuccess;
  auto* output = reinterpret_cast<unsigned long long*>(kernel.output);
  if (IsOn(kernel.input, sizeof(ulonglong2))) {
    return Enqueue(AddUp<true>, BlocksFor(kernel.bytes / sizeof(ulonglong2)), kThreads, stream,
                   kernel.input, kernel.bytes, output);
  }
  return Enqueue(AddUp<false>, BlocksFor(kernel.bytes / 8), kThreads, stream, kernel.input,
                 kernel.bytes, output);
}

template <typename To, int kChannels>
cudaError_t LoadCast() {
  constexpr int kPack = kStoreBytes / static_cast<int>(sizeof(typename To::Stored));
  return LoadAll(CastInOrder<To, kChannels, kPack>, CastInOrder<To, kChannels, 1>,
                 CastChannelsFirst<To, kChannels, kPack>, CastChannelsFirst<To, kChannels, 1>,
                 CastCropped<To, kChannels, kPack>, CastCropped<To, kChannels, 1>);
}

template <typename To>
cudaError_t LoadCasts() {
  cudaError_t error = LoadCast<To, 1>();
  if (error == cudaSuccess) error = LoadCast<To, 2>();
  if (error == cudaSuccess) error = LoadCast<To, 3>();
  if (error == cudaSuccess) error = LoadCast<To, 4>();
  return error;
}

template <typename Wide>
cudaError_t LoadWiden() {
  return LoadAll(Widen<Wide, kStoreBytes / static_cast<int>(sizeof(Wide))>, Widen<Wide, 1>);
}

}  // namespace

int LoadKernelsOnCuda() {
  cudaError_t error = LoadCasts<ToFloat32>();
  if (error == cudaSuccess) error = LoadCasts<ToFloat16>();
  if (error == cudaSuccess) error = LoadCasts<ToBFloat16>();
  if (error == cudaSuccess) error = LoadWiden<std::int32_t>();
  if (error == cudaSuccess) error = LoadWiden<std::int64_t>();
  if (error != cudaSuccess) return error;
  error = LoadAll(Pad<ulonglong2>, Pad<std::uint64_t>, Pad<std::uint32_t>, Pad<std::uint16_t>,
                  Pad<std::uint8_t>, Gather, SumAll, AddUp<true>, AddUp<false>);
  return error == cudaSuccess ? LoadSpinOnCuda() : error;
}

int LaunchOnCuda(const DeviceKernel& kernel, void* stream) {
  return std::visit(
      [stream](const auto& one) { return Launch(one, static_cast<cudaStream_t>(stream)); }, kernel);
}

}  // namespace ringfeed
