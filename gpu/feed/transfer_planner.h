#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/pending_copy.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/transfer_costs.h"

namespace ringfeed {

/// How rows come to the device that stayed in the memory they were read into.
enum class LeftRows : std::uint8_t {
  kByCost,    ///< each by itself, with its neighbours, or by the CPU after all
  kEach,      ///< each by itself
  kTogether,  ///< with their neighbours, whatever that costs
};

/// Rows of one slab that may be copied together, in the order of their addresses.
struct RowRun {
  std::size_t rows = 0;
  std::size_t bytes = 0;   ///< from the first one's beginning to the furthest end: all is copied
  std::size_t wanted = 0;  ///< of these
  double alone_ns = 0;     ///< cost of its rows one by one, without their bytes on the link
};

/// Chooses by cost how rows come onto a device. All wanted bytes cross the link in any case, so it
/// compares the other costs, the CPU's time plus the link's:
///
///   by the CPU, into the batch   copy_ns_per_kib of its bytes
///   by itself                    member_ns
///   with neighbours              row_ns, its part of the run's member_ns, link_ns_per_kib of gaps
///   either of these              before it is left: sum_ns, for its checksum
///
/// Immutable. The costs have passed TransferCosts::Check.
class TransferPlanner {
 public:
  explicit TransferPlanner(const TransferCosts& costs = {});

  /// The length from which fields are left: if that costs no more than the CPU's copy. kAuto asks
  /// for half of it after a shuffle, since each row may keep a block then. It leaves only cold
  /// rows. `asked_bytes`: a length instead, and of all rows; 0: none.
  LeftFieldRules RulesFor(TransferPlan plan, std::size_t asked_bytes) const;
  /// RulesFor in words, with the origin of the costs.
  std::string Reason(TransferPlan plan, std::size_t asked_bytes) const;

  /// From so many bytes on kByCost copies a row by itself even if it has neighbours. A row that is
  /// copied together is written on the device twice, so joining has to save half of the row's time
  /// on the link. A row that would not be left by itself is never too long to join.
  std::size_t each_bytes() const { return each_bytes_; }
  /// Whether kByCost has the CPU copy a row that has no neighbours.
  bool IsCopiedByCpu(std::size_t bytes) const { return bytes < alone_bytes_; }
  /// The widest gap that kByCost copies along.
  std::size_t most_gap_bytes() const { return most_gap_bytes_; }

  RowRun Begin(std::size_t bytes) const { return {1, bytes, bytes, AloneNs(bytes)}; }
  /// Adds the next row, which begins `begin` bytes after the first one's beginning, unless a run of
  /// its own is cheaper. A gap may cost as much as that run's member_ns; the row's own row_ns is
  /// the same either way. At least two thirds of the copied bytes stay wanted.
  bool Join(LeftRows how, std::size_t begin, std::size_t bytes, RowRun* run) const;
  /// Whether the rows of a finished run are copied together.
  bool GoesTogether(LeftRows how, const RowRun& run) const;

 private:
  double AloneNs(std::size_t bytes) const;

  TransferCosts costs_;
  std::size_t alone_bytes_;      ///< a copy by itself costs what the CPU's does
  std::size_t left_bytes_;       ///< so it does with the checksum
  std::size_t neighbour_bytes_;  ///< an entry in a table does, with the checksum
  std::size_t each_bytes_;
  std::size_t most_gap_bytes_;
};

}  // namespace ringfeed
