#include "gpu/backends/emulated/work.h"

#include <algorithm>
#include <cmath>

#include "base/crc32c.h"

namespace ringfeed {
namespace {

constexpr double kComputeBytesPerS = 200e9;
constexpr std::int64_t kLaunchNanos = 3'000;

std::int64_t NanosOf(double bytes, double bytes_per_s) {
  return std::llround(bytes / bytes_per_s * 1e9);
}

}  // namespace

std::string Operation::ToString(const EmulatedMemory& memory, const std::byte* data,
                                std::size_t bytes) const {
  std::string text = what;
  if (stream >= 0) {
    text += " device " + std::to_string(device) + ", stream " + std::to_string(stream);
  } else {
    text += ", actor " + std::to_string(actor);
  }
  return text + ", " + std::to_string(bytes) + " bytes at " + memory.Describe(data);
}

bool IsCopy(const Work& work) {
  return work.kind == WorkKind::kCopyToDevice || work.kind == WorkKind::kCopyToHost;
}

Engine EngineOf(const Work& work) {
  if (work.kind == WorkKind::kCopyToDevice) return Engine::kCopyToDevice;
  return work.kind == WorkKind::kCopyToHost ? Engine::kCopyToHost : Engine::kCompute;
}

std::int64_t LinkNanos(std::size_t bytes, const EmulatedDevice& device) {
  return NanosOf(static_cast<double>(bytes), device.link_bytes_per_s);
}

std::int64_t DurationNanos(const Work& work, const EmulatedDevice& device) {
  if (work.kind == WorkKind::kLoss) return 0;
  if (work.kind == WorkKind::kBusy) {
    return std::llround(static_cast<double>(work.busy_ns) / device.speed);
  }
  std::size_t bytes = 0;
  if (IsCopy(work)) {
    for (const CopyPiece& piece : work.pieces) bytes += piece.bytes;
    return device.copy_latency_ns + LinkNanos(bytes, device);
  }
  for (const MemoryAccess& access : work.accesses) bytes += access.bytes;
  return kLaunchNanos + NanosOf(static_cast<double>(bytes), kComputeBytesPerS * device.speed);
}

void RunEffect(Work& work) {
  switch (work.kind) {
    case WorkKind::kFill:
      for (const CopyPiece& piece : work.pieces) {
        std::fill_n(piece.to, piece.bytes, work.fill_value);
      }
      break;
    case WorkKind::kKernel:
      RunKernelOnHost(work.kernel);
      break;
    case WorkKind::kFunction:
      work.function();
      break;
    default:
      break;
  }
}

bool Touches(std::span<const MemoryAccess> accesses, const std::byte* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return std::any_of(accesses.begin(), accesses.end(), [&](const MemoryAccess& access) {
    const auto other = reinterpret_cast<std::uintptr_t>(access.data);
    return begin < other + access.bytes && other < begin + bytes;
  });
}

std::uint64_t SourceHash(const Work& work) {
  std::uint64_t hash = 0;
  for (const CopyPiece& piece : work.pieces) {
    hash = hash * 0x9E3779B97F4A7C15U + Crc32c(std::span(piece.from, piece.bytes));
  }
  return hash;
}

}  // namespace ringfeed
