#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/memory/arena.h"
#include "gpu/feed/copy_plan.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/memory_batches.h"
#include "gpu/owned_handles.h"
#include "ringfeed/tensor.h"

namespace ringfeed::tools {

/// Measures the TransferCosts of a device, except the link's, with rows in batches' memory. Each
/// call measures once, for about that long. The device is bound to the calling thread.
class CostRows {
 public:
  /// `batches`: of 16 MiB at least, two or more. Throws Error if there is no memory.
  CostRows(const OwnedDevice& device, HostPins* pins, const MemoryBatches& batches);
  ~CostRows();
  CostRows(const CostRows&) = delete;
  CostRows& operator=(const CostRows&) = delete;

  /// The CPU's time to copy a KiB of rows that are in no cache to a batch: each row once.
  double CopyNsPerKib() const;
  /// The time of a piece of a batched copy beyond its bytes on the link, for pieces of `bytes`
  /// bytes.
  double MemberNs(std::size_t bytes, double link_ns_per_kib, double seconds) const;
  /// The time of a row that the device moves to its place: of the plan, of the launch, of the
  /// kernel. Throws Error if the device then has other bytes than the host.
  double RowNs(double seconds) const;
  /// The time of such a row's checksum: of the plan, of the CPU's part, of the launch, of the
  /// kernel.
  double SumNs(double seconds) const;

 private:
  enum class Sums : std::uint8_t { kNone, kOfDevice };

  double PlanNs(Sums which, CopyPlan* plan, double seconds) const;
  double KernelNs(const DeviceKernel& kernel, const OwnedStream& stream, double seconds) const;
  void Copy(const CopyPlan& plan, const OwnedStream& stream, std::byte* slot) const;

  const OwnedDevice device_;
  HostPins* const pins_;
  const MemoryBatches& batches_;
  const std::shared_ptr<Arena> arena_;
  const SlabRun run_;  ///< a batch, and after it the staging memory
};

}  // namespace ringfeed::tools
