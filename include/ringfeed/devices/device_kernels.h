#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// @file
/// @details Kernels that a device runs on a batch after the copy, so that fewer bytes cross the
/// link. Pointers are device memory, on boundaries of their element type; inputs and outputs do not
/// overlap.

/// A piece of memory that an operation reads or writes.
struct MemoryAccess {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

/// Images as numbers: u8 → f32, f16 or bf16, output = (input - mean[c]) * scale[c], computed in f32
/// and rounded once, to nearest even. mean and scale are finite. Input [rows, height, width,
/// channels]; output [rows, output_height(), output_width(), channels], or with channels_first
/// [rows, channels, output_height(), output_width()].
///
/// With crop_height or crop_width a part of each image is taken. `crops` gives its place in each
/// row: a device draws nothing at random. A part that would reach beyond an edge is moved to it,
/// since a device cannot fail: no place leads out of the image.
struct CastNormalize {
  static constexpr std::size_t kMostChannels = 4;
  static constexpr std::size_t kCropNumbers = 3;  ///< of a row in `crops`

  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t height = 1;
  std::uint64_t width = 1;
  std::uint64_t channels = 1;  ///< 1 to kMostChannels
  DType output_dtype = DType::kFloat32;
  bool channels_first = false;  ///< NHWC → NCHW
  std::array<float, kMostChannels> mean{};
  std::array<float, kMostChannels> scale{1, 1, 1, 1};
  std::uint64_t crop_height = 0;  ///< of what is taken, at most `height`; 0: all of it
  std::uint64_t crop_width = 0;   ///< the same for `width`
  /// In device memory too, [rows, 3]: top, left, and 1 to mirror the crop, left to right (0: as it
  /// is; other numbers mirror, too). Null: from the middle, (height - crop_height) / 2 and (width -
  /// crop_width) / 2, rounded down, not mirrored.
  const std::int32_t* crops = nullptr;

  std::uint64_t output_height() const { return crop_height == 0 ? height : crop_height; }
  std::uint64_t output_width() const { return crop_width == 0 ? width : crop_width; }
  /// Whether every image is taken whole and as it is.
  bool takes_all() const {
    return crops == nullptr && output_height() == height && output_width() == width;
  }
};

/// u16 → i32 or i64, as unsigned numbers.
struct WidenTokens {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;
  DType output_dtype = DType::kInt64;  ///< kInt32 or kInt64
};

/// Rows of any length, in steps of unit_bytes, as [rows, length, unit]: longer rows are cut,
/// shorter ones filled up with `padding`. Row r is steps [offsets[r], offsets[r + 1]) of `input`,
/// the offsets being device memory too; they must not fall, and end at `input_units` at most: rows
/// beyond are filled up, never read.
struct RaggedToPadded {
  const std::byte* input = nullptr;
  const std::int64_t* offsets = nullptr;  ///< rows + 1
  std::byte* output = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t length = 0;       ///< steps of an output row
  std::uint64_t input_units = 0;  ///< steps that `input` has
  std::uint32_t unit_bytes = 1;
  std::uint32_t padding_bytes = 1;     ///< 1, 2, 4 or 8; unit_bytes is a multiple
  std::array<std::byte, 8> padding{};  ///< the first padding_bytes of it, over and over
};

/// A piece of memory and its target.
struct GatheredPiece {
  std::uint64_t from = 0;  ///< offset in the input
  std::uint64_t to = 0;    ///< offset in the output
  std::uint64_t bytes = 0;
};

/// Copies pieces of the input to their places in the output, which do not overlap each other.
/// Leaves out the part of a piece beyond the input or the output. Pieces are shared out one by one:
/// cut long ones into pieces of 16 KiB, and none holds up the others.
struct GatherPieces {
  const std::byte* input = nullptr;
  std::uint64_t input_bytes = 0;
  const GatheredPiece* pieces = nullptr;  ///< device memory too
  std::uint64_t count = 0;
  std::byte* output = nullptr;
  std::uint64_t output_bytes = 0;
  /// What of the input the pieces lie in, as KernelAccesses names it; empty: all of it. The list is
  /// in host memory, and no longer needed after Launch.
  std::span<const MemoryAccess> input_parts{};
};

/// A piece of memory, and its place in what is summed.
struct SummedPiece {
  std::uint64_t from = 0;    ///< offset in the input
  std::uint64_t behind = 0;  ///< bytes of its text after the piece
  std::uint32_t bytes = 0;
  std::uint32_t text = 0;  ///< number of the text that it is a part of
};

/// The CRC-32C of texts that stand in the input in pieces, to output[t] for text t. The pieces of a
/// text come in any order. If some are missing, output[t] is their share: the shares of one text,
/// which several launches compute, give its CRC by exclusive or. Of no piece it is 0. Leaves out
/// the part of a piece beyond the input, and pieces of other texts. Cut long pieces, as for
/// GatherPieces.
struct SumPieces {
  const std::byte* input = nullptr;
  std::uint64_t input_bytes = 0;
  const SummedPiece* pieces = nullptr;  ///< device memory too
  std::uint64_t count = 0;
  std::uint32_t* output = nullptr;
  std::uint64_t texts = 0;
};

/// A checksum that does not depend on how the work is split: over the 8-byte little-endian words
/// w_i of the input (the last one filled up with zeros) the sum, modulo 2^64, of (w_i + 1) * (2 i +
/// 0x9E3779B97F4A7C15), plus the number of bytes. Stores it to *output.
struct Checksum {
  const std::byte* input = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t* output = nullptr;
};

/// Any kernel, for DeviceBackend::Launch.
using DeviceKernel =
    std::variant<CastNormalize, WidenTokens, RaggedToPadded, GatherPieces, SumPieces, Checksum>;

/// Whether the kernel's numbers make sense, without a look at memory: kInvalidArgument names the
/// wrong one (a pointer that is null with work to do, misaligned or into another one's memory, a
/// dtype it cannot give, sizes that overflow).
Status CheckKernel(const DeviceKernel& kernel);

/// The kernel's CPU twin, on host memory: what every device computes, bit by bit. The kernel was
/// checked.
void RunKernelOnHost(const DeviceKernel& kernel);

/// What the kernel, which was checked, reads (of a ragged or cropped input at most) and writes:
/// inputs first, then the output; unused ones are empty.
std::vector<MemoryAccess> KernelAccesses(const DeviceKernel& kernel);

}  // namespace ringfeed
