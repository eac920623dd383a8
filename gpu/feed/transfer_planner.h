#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/pending_copy.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/transfer_costs.h"

namespace ringfeed {

/// How rows come to the device that were left where they were read.
enum class LeftRows : std::uint8_t {
  kByCost,    ///< each by itself, with its neighbours, or by the CPU after all
  kEach,      ///< each by itself
  kTogether,  ///< with their neighbours, whatever that costs
};

/// Rows of one slab, in the order of where they begin, that may be copied together.
struct RowRun {
  std::size_t rows = 0;
  std::size_t bytes = 0;   ///< from the first one's beginning to the furthest end: all is copied
  std::size_t wanted = 0;  ///< of these
  double alone_ns = 0;     ///< what its rows cost one by one, beyond their bytes on the link
};

/// Chooses by what things cost how rows come onto a device. All bytes that are wanted cross the
/// link in any case, so it weighs what comes beside that, the CPU's time and the link's added up:
///
///   by the CPU, into the batch   copy_ns_per_kib of its bytes
///   by itself                    member_ns
///   with neighbours              row_ns, its part of the run's member_ns, link_ns_per_kib of gaps
///
/// Immutable; costs that TransferCosts::Check refuses are nobody's.
class TransferPlanner {
 public:
  explicit TransferPlanner(const TransferCosts& costs = {});

  /// From which length on fields are left. A plan that was asked for leaves what costs no more than
  /// the CPU's copy. kAuto leaves what costs at most half of it: rows that stay where they were
  /// read keep memory there, which reading ahead then has not. `asked_bytes`: a length instead; 0:
  /// none.
  LeftFieldRules RulesFor(TransferPlan plan, std::size_t asked_bytes) const;
  /// RulesFor in words, with whose costs they are by.
  std::string Reason(TransferPlan plan, std::size_t asked_bytes) const;

  /// From so many bytes on kByCost copies a row by itself though it has neighbours. What is copied
  /// together takes its place on the device twice, so joining has to save half of what the row
  /// takes on the link; and a row that would not be left by itself is never too long to join.
  std::size_t each_bytes() const { return each_bytes_; }
  /// Whether kByCost has the CPU copy a row that goes by itself.
  bool IsCopiedByCpu(std::size_t bytes) const { return bytes < alone_bytes_; }
  /// The widest gap that kByCost copies along.
  std::size_t most_gap_bytes() const { return most_gap_bytes_; }

  RowRun Begin(std::size_t bytes) const { return {1, bytes, bytes, AloneNs(bytes)}; }
  /// Adds the next row, which begins `begin` bytes after the first one's beginning, unless it is
  /// better off in a run of its own. A gap may be as dear as that run's member_ns: the row's own
  /// row_ns comes in both. Never so that less than two thirds of what is copied are wanted.
  bool Join(LeftRows how, std::size_t begin, std::size_t bytes, RowRun* run) const;
  /// Whether the rows of a run, which nothing joins any more, are copied together.
  bool GoesTogether(LeftRows how, const RowRun& run) const;

 private:
  double AloneNs(std::size_t bytes) const;

  TransferCosts costs_;
  std::size_t alone_bytes_;      ///< a copy by itself costs what the CPU's does
  std::size_t neighbour_bytes_;  ///< an entry in a table does
  std::size_t each_bytes_;
  std::size_t most_gap_bytes_;
};

}  // namespace ringfeed
