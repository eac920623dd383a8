#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "readers/graph.h"
#include "readers/order/file_table.h"
#include "readers/order/record_set.h"
#include "readers/order/row_cursor.h"
#include "readers/plan_clock.h"
#include "readers/position.h"
#include "ringfeed/batch_origin.h"

namespace ringfeed {

/// A chain's files with their indexes, and the order of their records: what a run by index begins
/// with, and what positions are computed from. Immutable but for what it has found out; thread
/// safe.
class PlannedSource {
 public:
  /// Opens the indexes of the program's files, and builds those that are missing. Blocks. Throws
  /// Error where a file cannot be had or has no index. `program` outlives it.
  explicit PlannedSource(const Program& program);

  /// A cursor over the order, to be put to its place by Seek; a mixture's starts from `mix`, where
  /// that is not empty.
  std::unique_ptr<RowCursor> NewCursor(const std::string& mix) const;
  /// Passes of that cursor; 0: without end.
  std::uint64_t passes() const { return passes_; }
  /// Where batch number `batch` (of `rows` places each) begins, over all passes. Only where batches
  /// do not depend on what is in the records.
  PlanMark PlaceOf(std::uint64_t batch, std::uint64_t rows, bool drop_remainder);

  /// Of a mixture: the state (MixState) that a cursor behind these batches goes on from.
  std::string MixBehind(const ChainPosition& position);

  std::uint64_t mean_record_bytes() const { return mean_record_bytes_; }
  const DataFingerprint& fingerprint() const { return fingerprint_; }
  /// The sets of a mixture, else one.
  const std::vector<std::shared_ptr<const RecordSet>>& sets() const { return sets_; }
  /// Their files, one set's behind the other's.
  const std::shared_ptr<const FileTable>& table() const { return table_; }
  /// Joins consecutive ones. Numbers that stand for no record are left out.
  std::vector<RecordRange> RangesOf(std::span<const RowNumber> rows) const;

 private:
  const Program& program_;
  std::vector<std::shared_ptr<const RecordSet>> sets_;
  std::shared_ptr<const FileTable> table_;
  std::uint64_t passes_ = 1;
  DataFingerprint fingerprint_;
  std::uint64_t mean_record_bytes_ = 1;
  bool even_ = true;  ///< all passes have as many places
  std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<RowCursor> counting_;
};

}  // namespace ringfeed
