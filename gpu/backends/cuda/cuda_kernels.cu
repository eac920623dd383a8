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
constexpr unsigned kLanes = 32;  // of a warp
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// Blocks that a multiprocessor runs at a time: their registers allow no more.
constexpr unsigned kGatherBlocks = 6;
constexpr unsigned kSumThreads = 512;
constexpr unsigned kSumBlocks = 4;

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

/// Before a kernel that adds to it.
cudaError_t SetToZero(void* data, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(data, 0, bytes, stream);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
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

/// The host cuts pieces so that none is long, and a warp takes a piece, or one of the parts of it
/// along y. Neighbours go to different blocks, so that all multiprocessors get some of few pieces.
__device__ std::uint64_t WarpNumber() {
  return std::uint64_t{threadIdx.x / kLanes} * gridDim.x + blockIdx.x;
}
__device__ std::uint64_t WarpCount() { return std::uint64_t{blockDim.x / kLanes} * gridDim.x; }

struct Part {
  std::uint64_t begin;
  std::uint64_t bytes;
};
/// The block's part of a piece.
__device__ Part PartOf(std::uint64_t piece_bytes) {
  if (gridDim.y == 1) return {0, piece_bytes};
  constexpr std::uint64_t kStep = 1024;
  const std::uint64_t each = (piece_bytes / (gridDim.y * kStep) + 1) * kStep;
  const std::uint64_t begin = blockIdx.y * each;
  if (begin >= piece_bytes) return {0, 0};
  return {begin, each < piece_bytes - begin ? each : piece_bytes - begin};
}

/// As many blocks as there are pieces, but no more than run at a time. If that leaves
/// multiprocessors without work, several blocks share each piece.
cudaError_t BlocksForPieces(std::uint64_t pieces, unsigned on_each, dim3* blocks) {
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return error;
  }
  const unsigned most = on_each * static_cast<unsigned>(multiprocessors);
  blocks->x = static_cast<unsigned>(std::min<std::uint64_t>(pieces, most));
  blocks->y = most / blocks->x;
  return cudaSuccess;
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

/// Copies a part of a piece by a warp: whole words if its places have the same alignment, else
/// words of the input that are shifted in registers. The first of these may begin before the part,
/// in the same 16 bytes and so in the same allocation; none ends after it. Of the bytes before the
/// first word of `to`, and of those after the last one, each is a lane's.
template <bool kShifted>
__device__ void CopyPart(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned misaligned = reinterpret_cast<std::uintptr_t>(to) % kStoreBytes;
  std::uint64_t head = misaligned == 0 ? 0 : kStoreBytes - misaligned;
  if (head > bytes) head = bytes;
  const unsigned at = kShifted ? reinterpret_cast<std::uintptr_t>(from + head) % kStoreBytes : 0;
  const unsigned behind = kShifted ? kStoreBytes - at : 0;  // of the last word that is read
  const std::uint64_t rest = bytes - head;
  const std::uint64_t words = rest > behind ? (rest - behind) / kStoreBytes : 0;
  const std::uint64_t tail = head + words * kStoreBytes;
  if (lane < head) to[lane] = from[lane];
  if (tail + lane < bytes) to[tail + lane] = from[tail + lane];
  const auto* words_from = reinterpret_cast<const uint4*>(from + head - at);
  const auto* const words_end = words_from + words;
  auto* words_to = reinterpret_cast<uint4*>(to + head) + lane;
  words_from += lane;
  // Several loads are under way before the first store waits for one.
  constexpr unsigned kTrips = kShifted ? 2 : 4;
#pragma unroll 1
  for (; words_from + (kTrips - 1) * kLanes < words_end; words_from += kTrips * kLanes) {
    uint4 loaded[kTrips];
    uint4 next[kTrips];
#pragma unroll
    for (unsigned trip = 0; trip < kTrips; ++trip) {
      loaded[trip] = words_from[trip * kLanes];
      if constexpr (kShifted) next[trip] = words_from[trip * kLanes + 1];
    }
#pragma unroll
    for (unsigned trip = 0; trip < kTrips; ++trip) {
      if constexpr (kShifted) loaded[trip] = BytesFrom(loaded[trip], next[trip], at);
      words_to[trip * kLanes] = loaded[trip];
    }
    words_to += kTrips * kLanes;
  }
#pragma unroll 1
  for (; words_from < words_end; words_from += kLanes, words_to += kLanes) {
    uint4 word = *words_from;
    if constexpr (kShifted) word = BytesFrom(word, words_from[1], at);
    *words_to = word;
  }
}

/// Source and target of a piece seldom have the same alignment.
__global__ void __launch_bounds__(kThreads, kGatherBlocks)
    Gather(const std::byte* input, std::uint64_t input_bytes, const GatheredPiece* pieces,
           std::uint64_t count, std::byte* output, std::uint64_t output_bytes) {
  for (std::uint64_t i = WarpNumber(); i < count; i += WarpCount()) {
    const GatheredPiece piece = pieces[i];
    const Part part =
        PartOf(GatheredBytes(piece.from, piece.to, piece.bytes, input_bytes, output_bytes));
    if (part.bytes == 0) continue;
    std::byte* to = output + piece.to + part.begin;
    const std::byte* from = input + piece.from + part.begin;
    const std::uint64_t apart =
        reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
    if (apart % kStoreBytes == 0) {
      CopyPart<false>(to, from, part.bytes);
    } else {
      CopyPart<true>(to, from, part.bytes);
    }
  }
}

cudaError_t Launch(const GatherPieces& kernel, cudaStream_t stream) {
  if (kernel.count == 0) return cudaSuccess;
  dim3 blocks;
  const cudaError_t error = BlocksForPieces(kernel.count, kGatherBlocks, &blocks);
  if (error != cudaSuccess) return error;
  return Enqueue(Gather, blocks, dim3(kThreads), stream, kernel.input, kernel.input_bytes,
                 kernel.pieces, kernel.count, kernel.output, kernel.output_bytes);
}

__device__ const Crc32cShifts sum_shifts = AllCrc32cShifts();
__device__ const Crc32cStep sum_step = Crc32cStepOf(kLanes * sizeof(std::uint32_t));

/// The remainder that so many bytes come after. Lengths have few bytes that are not 0.
__device__ std::uint32_t Shifted(std::uint32_t remainder, std::uint64_t bytes) {
  for (int i = 0; bytes != 0; ++i, bytes >>= 8) {
    const unsigned low = bytes & 0xFFU;
    if (low != 0) remainder = MultiplyCrc32c(remainder, sum_shifts.of[i][low]);
  }
  return remainder;
}

/// A lane's share in the remainder of so many bytes. Of the words, which are aligned, a lane takes
/// each 32nd. The first word may begin before the bytes; none ends after them.
__device__ std::uint32_t ShareOfLane(const std::byte* data, std::uint64_t bytes,
                                     const Crc32cStep& step) {
  constexpr std::uint64_t kWord = sizeof(std::uint32_t);
  const unsigned lane = threadIdx.x % kLanes;
  const std::uint64_t before =
      bytes < kWord ? 0 : reinterpret_cast<std::uintptr_t>(data) % kWord;  // of the first word
  const auto* const words = reinterpret_cast<const std::uint32_t*>(data - before);
  const std::uint64_t all = before + bytes;
  // A CRC-32C begins with ones: those that the first word has no room for are the second one's.
  const std::uint32_t ahead = ~(0xFFFFFFFFU << 8 * before);
  std::uint32_t sum = lane == 1 ? ahead : 0;
  if (lane == 0) sum = before == 0 ? ~ahead : ~ahead ^ (words[0] & ahead);
  std::uint64_t i = lane;
#pragma unroll 8
  for (; (i + kLanes) * kWord < all; i += kLanes) sum = step.Of(sum ^ words[i]);
  if (i * kWord >= all) return 0;
  const std::uint64_t left = all - i * kWord;  // in its last word and after it, 128 at most
  if (left >= kWord) {
    sum ^= words[i];
  } else {
    for (unsigned n = 0; n < left; ++n) {
      sum ^= static_cast<std::uint32_t>(data[bytes - left + n]) << 8 * n;
    }
  }
  return MultiplyCrc32c(sum, sum_shifts.of[0][left]);
}

/// CRCs are linear: the shares of lanes, parts and pieces add up by exclusive or. The output was
/// set to 0.
__global__ void __launch_bounds__(kSumThreads, kSumBlocks)
    SumAll(const std::byte* input, std::uint64_t input_bytes, const SummedPiece* pieces,
           std::uint64_t count, std::uint32_t* output, std::uint64_t texts) {
  __shared__ Crc32cStep step;
  for (unsigned i = threadIdx.x; i < 4 * 256; i += kSumThreads) {
    step.of[i / 256][i % 256] = sum_step.of[i / 256][i % 256];
  }
  __syncthreads();
  for (std::uint64_t i = WarpNumber(); i < count; i += WarpCount()) {
    const SummedPiece piece = pieces[i];
    const std::uint64_t bytes = SummedBytes(piece.from, piece.bytes, input_bytes);
    const Part part = PartOf(bytes);
    if (part.bytes == 0 || piece.text >= texts) continue;
    const std::uint64_t behind = piece.behind + bytes - part.begin - part.bytes;
    std::uint32_t sum = ShareOfLane(input + piece.from + part.begin, part.bytes, step);
    for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
      sum ^= __shfl_down_sync(kAllLanes, sum, distance);
    }
    if (threadIdx.x % kLanes == 0) atomicXor(&output[piece.text], Shifted(~sum, behind));
  }
}

cudaError_t Launch(const SumPieces& kernel, cudaStream_t stream) {
  if (kernel.texts == 0) return cudaSuccess;
  cudaError_t error = SetToZero(kernel.output, kernel.texts * sizeof(*kernel.output), stream);
  if (error != cudaSuccess || kernel.count == 0) return error;
  dim3 blocks;
  error = BlocksForPieces(kernel.count, kSumBlocks, &blocks);
  if (error != cudaSuccess) return error;
  return Enqueue(SumAll, blocks, dim3(kSumThreads), stream, kernel.input, kernel.input_bytes,
                 kernel.pieces, kernel.count, kernel.output, kernel.texts);
}

/// Sums over the block and then into *output. Addition modulo 2^64 gives the same in any order.
__device__ void AddToOutput(unsigned long long sum, unsigned long long* output) {
  __shared__ unsigned long long warp_sums[kThreads / kLanes];
  for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(kAllLanes, sum, distance);
  }
  if (threadIdx.x % kLanes == 0) warp_sums[threadIdx.x / kLanes] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned long long block_sum = 0;
  for (unsigned warp = 0; warp < kThreads / kLanes; ++warp) block_sum += warp_sums[warp];
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
  const cudaError_t error = SetToZero(kernel.output, sizeof(*kernel.output), stream);
  if (error != cudaSuccess || kernel.bytes == 0) return error;
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
