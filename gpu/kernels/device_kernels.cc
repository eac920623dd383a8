#include "ringfeed/devices/device_kernels.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

namespace ringfeed {
namespace {

using Accesses = std::array<MemoryAccess, 3>;

MemoryAccess Read(const void* data, std::uint64_t bytes) {
  if (bytes == 0) return {};
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes), false};
}

MemoryAccess Write(const void* data, std::uint64_t bytes) {
  if (bytes == 0) return {};
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes), true};
}

Accesses AccessesOf(const CastNormalize& kernel) {
  const std::uint64_t input = kernel.rows * kernel.height * kernel.width * kernel.channels;
  const std::uint64_t output =
      kernel.rows * kernel.output_height() * kernel.output_width() * kernel.channels;
  const MemoryAccess written = Write(kernel.output, output * DTypeBytes(kernel.output_dtype));
  if (input == 0 || kernel.crops == nullptr) return {Read(kernel.input, input), written};
  const std::uint64_t places = kernel.rows * CastNormalize::kCropNumbers;
  return {Read(kernel.input, input), Read(kernel.crops, places * sizeof(*kernel.crops)), written};
}

Accesses AccessesOf(const WidenTokens& kernel) {
  return {Read(kernel.input, kernel.count * sizeof(std::uint16_t)),
          Write(kernel.output, kernel.count * DTypeBytes(kernel.output_dtype))};
}

Accesses AccessesOf(const RaggedToPadded& kernel) {
  if (kernel.rows == 0 || kernel.length == 0) return {};
  return {Read(kernel.input, kernel.input_units * kernel.unit_bytes),
          Read(kernel.offsets, (kernel.rows + 1) * sizeof(std::int64_t)),
          Write(kernel.output, kernel.rows * kernel.length * kernel.unit_bytes)};
}

Accesses AccessesOf(const GatherPieces& kernel) {
  if (kernel.count == 0) return {};
  return {Read(kernel.input, kernel.input_bytes),
          Read(kernel.pieces, kernel.count * sizeof(GatheredPiece)),
          Write(kernel.output, kernel.output_bytes)};
}

Accesses AccessesOf(const SumPieces& kernel) {
  if (kernel.texts == 0) return {};
  return {Read(kernel.input, kernel.count == 0 ? 0 : kernel.input_bytes),
          Read(kernel.pieces, kernel.count * sizeof(SummedPiece)),
          Write(kernel.output, kernel.texts * sizeof(*kernel.output))};
}

Accesses AccessesOf(const Checksum& kernel) {
  return {Read(kernel.input, kernel.bytes), Write(kernel.output, sizeof(*kernel.output))};
}

Status Refused(std::string_view kernel, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, std::string(kernel) + ": " + why);
}

/// Whether that many bytes can be counted by a pointer difference.
bool Fits(std::initializer_list<std::uint64_t> factors) {
  for (const std::uint64_t factor : factors) {
    if (factor == 0) return true;
  }
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return false;
  }
  return product <= static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max());
}

/// One of a kernel's pointers, in the order of KernelAccesses.
struct Operand {
  std::string_view name;
  const void* data = nullptr;
  std::size_t boundary = 1;
};

bool Overlap(const MemoryAccess& one, const MemoryAccess& other) {
  const auto one_begin = reinterpret_cast<std::uintptr_t>(one.data);
  const auto other_begin = reinterpret_cast<std::uintptr_t>(other.data);
  return one.bytes > 0 && other.bytes > 0 && one_begin < other_begin + other.bytes &&
         other_begin < one_begin + one.bytes;
}

/// The rules for the pointers of all kernels, after their sizes are known to make sense.
Status CheckOperands(std::string_view kernel, const Accesses& accesses,
                     std::initializer_list<Operand> operands) {
  std::size_t i = 0;
  for (const Operand& operand : operands) {
    const MemoryAccess& access = accesses[i++];
    if (access.bytes == 0) continue;
    const std::string name(operand.name);
    if (operand.data == nullptr) return Refused(kernel, name + " is null");
    if (reinterpret_cast<std::uintptr_t>(operand.data) % operand.boundary != 0) {
      return Refused(
          kernel, name + " is not on a boundary of " + std::to_string(operand.boundary) + " bytes");
    }
    if (access.writes) continue;
    for (const MemoryAccess& other : accesses) {
      if (other.writes && Overlap(access, other)) {
        return Refused(kernel, name + " and output overlap");
      }
    }
  }
  return {};
}

Status CheckCrop(std::string_view name, std::uint64_t crop, std::string_view side,
                 std::uint64_t all) {
  if (crop <= all) return {};
  return Refused("CastNormalize", std::string(name) + " is " + std::to_string(crop) + ", and " +
                                      std::string(side) + " " + std::to_string(all));
}

Status CheckOne(const CastNormalize& kernel) {
  constexpr std::string_view kName = "CastNormalize";
  if (kernel.channels < 1 || kernel.channels > CastNormalize::kMostChannels) {
    return Refused(kName, "channels is " + std::to_string(kernel.channels) + ", not 1 to " +
                              std::to_string(CastNormalize::kMostChannels));
  }
  const DType dtype = kernel.output_dtype;
  if (dtype != kFloat32 && dtype != kFloat16 && dtype != kBFloat16) {
    return Refused(kName, "output_dtype is " + std::string(DTypeName(dtype)) +
                              "; it gives float32, float16 and bfloat16");
  }
  for (std::size_t i = 0; i < kernel.channels; ++i) {
    const std::string channel = "[" + std::to_string(i) + "] is not a finite number";
    if (!std::isfinite(kernel.mean[i])) return Refused(kName, "mean" + channel);
    if (!std::isfinite(kernel.scale[i])) return Refused(kName, "scale" + channel);
  }
  const std::size_t size = DTypeBytes(dtype);
  if (!Fits({kernel.rows, kernel.height, kernel.width, kernel.channels, size})) {
    return Refused(kName, "rows * height * width * channels overflows");
  }
  Status crop = CheckCrop("crop_height", kernel.crop_height, "height", kernel.height);
  if (crop.ok()) crop = CheckCrop("crop_width", kernel.crop_width, "width", kernel.width);
  if (!crop.ok()) return crop;
  const Accesses accesses = AccessesOf(kernel);
  const Operand input{"input", kernel.input, 1};
  const Operand output{"output", kernel.output, size};
  if (kernel.crops == nullptr) return CheckOperands(kName, accesses, {input, output});
  if (!Fits({kernel.rows, CastNormalize::kCropNumbers, sizeof(*kernel.crops)})) {
    return Refused(kName, "rows overflows");
  }
  const Operand crops{"crops", kernel.crops, alignof(std::int32_t)};
  return CheckOperands(kName, accesses, {input, crops, output});
}

Status CheckOne(const WidenTokens& kernel) {
  constexpr std::string_view kName = "WidenTokens";
  const DType dtype = kernel.output_dtype;
  if (dtype != kInt32 && dtype != kInt64) {
    return Refused(
        kName, "output_dtype is " + std::string(DTypeName(dtype)) + "; it gives int32 and int64");
  }
  const std::size_t size = DTypeBytes(dtype);
  if (!Fits({kernel.count, size})) return Refused(kName, "count overflows");
  return CheckOperands(
      kName, AccessesOf(kernel),
      {{"input", kernel.input, sizeof(std::uint16_t)}, {"output", kernel.output, size}});
}

Status CheckOne(const RaggedToPadded& kernel) {
  constexpr std::string_view kName = "RaggedToPadded";
  const std::uint32_t step = kernel.padding_bytes;
  if (step != 1 && step != 2 && step != 4 && step != 8) {
    return Refused(kName, "padding_bytes is " + std::to_string(step) + ", not 1, 2, 4 or 8");
  }
  if (kernel.unit_bytes == 0 || kernel.unit_bytes % step != 0) {
    return Refused(kName, "unit_bytes is " + std::to_string(kernel.unit_bytes) +
                              ", not a multiple of padding_bytes");
  }
  if (!Fits({kernel.rows, kernel.length, kernel.unit_bytes})) {
    return Refused(kName, "rows * length * unit_bytes overflows");
  }
  if (!Fits({kernel.input_units, kernel.unit_bytes})) {
    return Refused(kName, "input_units * unit_bytes overflows");
  }
  // With a length of 0 the checks above allow any number of rows.
  if (kernel.rows == std::numeric_limits<std::uint64_t>::max() ||
      !Fits({kernel.rows + 1, sizeof(std::int64_t)})) {
    return Refused(kName, "rows overflows");
  }
  return CheckOperands(kName, AccessesOf(kernel),
                       {{"input", kernel.input, step},
                        {"offsets", kernel.offsets, alignof(std::int64_t)},
                        {"output", kernel.output, step}});
}

Status CheckOne(const GatherPieces& kernel) {
  constexpr std::string_view kName = "GatherPieces";
  if (!Fits({kernel.input_bytes}) || !Fits({kernel.output_bytes})) {
    return Refused(kName, "input_bytes or output_bytes overflows");
  }
  if (!Fits({kernel.count, sizeof(GatheredPiece)})) return Refused(kName, "count overflows");
  return CheckOperands(kName, AccessesOf(kernel),
                       {{"input", kernel.input, 1},
                        {"pieces", kernel.pieces, alignof(GatheredPiece)},
                        {"output", kernel.output, 1}});
}

Status CheckOne(const SumPieces& kernel) {
  constexpr std::string_view kName = "SumPieces";
  if (!Fits({kernel.input_bytes})) return Refused(kName, "input_bytes overflows");
  if (!Fits({kernel.count, sizeof(SummedPiece)})) return Refused(kName, "count overflows");
  if (!Fits({kernel.texts, sizeof(*kernel.output)})) return Refused(kName, "texts overflows");
  return CheckOperands(kName, AccessesOf(kernel),
                       {{"input", kernel.input, 1},
                        {"pieces", kernel.pieces, alignof(SummedPiece)},
                        {"output", kernel.output, alignof(std::uint32_t)}});
}

Status CheckOne(const Checksum& kernel) {
  constexpr std::string_view kName = "Checksum";
  if (!Fits({kernel.bytes})) return Refused(kName, "bytes overflows");
  return CheckOperands(
      kName, AccessesOf(kernel),
      {{"input", kernel.input, 1}, {"output", kernel.output, alignof(std::uint64_t)}});
}

}  // namespace

std::vector<MemoryAccess> KernelAccesses(const DeviceKernel& kernel) {
  const Accesses accesses = std::visit([](const auto& one) { return AccessesOf(one); }, kernel);
  std::vector<MemoryAccess> all(accesses.begin(), accesses.end());
  const auto* const gather = std::get_if<GatherPieces>(&kernel);
  if (gather == nullptr || gather->input_parts.empty() || gather->count == 0) return all;
  all.erase(all.begin());
  all.insert(all.begin(), gather->input_parts.begin(), gather->input_parts.end());
  return all;
}

Status CheckKernel(const DeviceKernel& kernel) {
  return std::visit([](const auto& one) { return CheckOne(one); }, kernel);
}

}  // namespace ringfeed
