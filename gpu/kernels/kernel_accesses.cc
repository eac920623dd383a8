#include "ringfeed/device_kernels.h"

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
  const std::uint64_t elements = kernel.rows * kernel.height * kernel.width * kernel.channels;
  return {Read(kernel.input, elements),
          Write(kernel.output, elements * DTypeBytes(kernel.output_dtype))};
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

Accesses AccessesOf(const Checksum& kernel) {
  return {Read(kernel.input, kernel.bytes), Write(kernel.output, sizeof(*kernel.output))};
}

}  // namespace

std::array<MemoryAccess, 3> KernelAccesses(const DeviceKernel& kernel) {
  return std::visit([](const auto& one) { return AccessesOf(one); }, kernel);
}

}  // namespace ringfeed
