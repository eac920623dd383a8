#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "readers/chain/taken.h"
#include "readers/engine/plan/execution_plan.h"
#include "ringfeed/instance.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Holds the rows of one delivery, which a chain without Batch hands out one by one, as copies.
/// Calls are made under its lock.
class RowQueue {
 public:
  enum class Row : std::uint8_t {
    kTaken,
    kNone,
    kLost  ///< it is of a mapped file that was cut meanwhile
  };

  /// `plan` outlives it.
  explicit RowQueue(const ExecutionPlan& plan) : plan_(plan) {}

  /// Owns nothing if the deadline came first.
  std::unique_lock<std::timed_mutex> Lock(Deadline deadline);

  // Only after Drop.

  /// Parsed rows, which are copied out of the columns of `batch`.
  void Put(StartedRun of, const BatchBuffer* batch, Instance columns);
  /// Records that are views of `records`, or whole instances of the user's. `hold` keeps both.
  void Put(StartedRun of, const Delivery::Records* records, std::shared_ptr<const void> hold);

  /// Takes the next row that is no damaged record. `origin` is set if it is taken.
  Row Take(Instance* row, BatchOrigin* origin);
  /// Lets go of the rows that are left.
  void Drop();

  bool empty() const { return next_ >= rows_; }
  /// The pass of the rows that are left.
  std::uint64_t pass() const { return batch_ != nullptr ? batch_->pass : records_->pass; }
  /// Of the run that the rows are of, also after the last one was taken.
  const std::shared_ptr<const RunStart>& start() const { return of_.start; }

  // Of a row that is lost.
  const StartedRun& run() const { return of_; }
  const Delivery::Records& records() const { return *records_; }
  std::size_t lost() const { return next_ - 1; }

 private:
  void CopyParsed(std::size_t at, Instance* row) const;
  void LetGo();

  const ExecutionPlan& plan_;
  std::timed_mutex mutex_;
  StartedRun of_;
  const BatchBuffer* batch_ = nullptr;  ///< kept by columns_
  Instance columns_;
  const Delivery::Records* records_ = nullptr;  ///< kept by hold_
  std::shared_ptr<const void> hold_;
  std::size_t rows_ = 0;
  std::size_t next_ = 0;
};

}  // namespace ringfeed
