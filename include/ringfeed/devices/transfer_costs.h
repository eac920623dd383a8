#pragma once

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// The cost of bringing rows onto a device, in nanoseconds of the CPU and of the link alike.
/// TransferPlan::kAuto chooses by these. Speed alone: they never change what comes, or in which
/// order.
///
/// The defaults are for an H200 on PCIe 5.0 x16: those of the link and a member were measured
/// there. Those of a copy of cold rows and a gather come from measurements of the CPU alone, on a
/// machine without a GPU (docs/internals/FIGURES.md). Another H200 gave 109, 18.6, 496 and 54 later
/// (docs/PERFORMANCE.md). `ringfeed bench --gpu --costs-out FILE` measures all of them on a device
/// of yours.
struct TransferCosts {
  /// What the CPU takes to copy a KiB of rows into a batch.
  double copy_ns_per_kib = 100;
  /// What a KiB takes over the link: 1024 bytes over the median "peak of pinned copies", 55.0 GB/s.
  double link_ns_per_kib = 18.6;
  /// What each piece of a batched copy takes beyond its bytes: the call's CPU time, and the gap on
  /// the link. Of "batch_to_device" the mean of 4 KiB and 16 KiB: cpu_us_per_member (401 and 408),
  /// and its bytes by gb_per_s less the same bytes by the peak (23 and 20).
  double member_ns = 425;
  /// What each row takes that the device moves to its place: its part of the plan, its entry in the
  /// table, and the kernel.
  double row_ns = 60;
  /// What the checksum of a row takes that the device computes: of the bytes beside it by the CPU,
  /// its part of the plan, the kernel, and the sum of all parts. Counted for every row: which of
  /// them have one is not known when `transfer` chooses lengths.
  double sum_ns = 60;

  /// More than this is taken for a mistake, in any of them.
  static constexpr double kMostNs = 1e6;

  /// kInvalidArgument for one that is not above 0 and at most kMostNs, by its name, with the
  /// remedy. A feed asks when it is made.
  Status Check() const;
  /// The costs as `ringfeed bench --gpu --costs-out` writes them: JSON of a few lines.
  /// `measured_on` is only for people that read the file.
  std::string Text(const std::string& measured_on) const;
  /// Reads such a file. Costs that it does not name stay the defaults. Blocks for the file.
  /// Throws Error: kNotFound and its like for a file that cannot be read; kInvalidArgument for one
  /// that has no such costs, and for costs that Check refuses.
  static TransferCosts Load(const std::string& path);

  bool operator==(const TransferCosts&) const = default;
};

}  // namespace ringfeed
