#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "readers/engine/batches/delivery.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/blocks/failures.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Tells Refusals of a run's records in their order, whichever thread parses them. Rows that are
/// located as their block comes: by the planner. Rows that are written without that: in the order
/// of their batches, so that batches done before their turn wait here.
class ParserJudge {
 public:
  struct Options {
    bool asked = false;           ///< whether to report a parser that fits no record
    bool by_batches = false;      ///< records are parsed as batches are written
    bool from_beginning = false;  ///< and all are read here: an end tells that there are no more
  };
  using Put = std::function<void(std::uint64_t number, Delivery delivery)>;
  using ChangeStatus = std::function<void(const std::function<void(Status*)>&)>;

  /// `put` hands out a batch that was judged; `change_status` changes what the end says. Both are
  /// called under a lock, in the order of the batches.
  ParserJudge(const Options& options, Put put, ChangeStatus change_status);

  /// Whether the reasons of refusals must be noted. Any thread.
  bool open() const { return refusals_.open(); }
  /// What a writer looks at; null if batches are not judged.
  const Refusals* of_batches() const { return options_.by_batches ? &refusals_ : nullptr; }

  /// Whether the parser fits no record, as far as located blocks tell: the mistake, or OK. The
  /// planner's call.
  Status JudgeBlock(const Block& block);
  /// The status to report for a failure or an end that comes before the parser took any record. The
  /// planner's call.
  Status EndOr(const Status& status);

  /// A batch was written. Takes it, and hands out those whose turn it is; false if there is
  /// nothing to judge any more, and the batch is still the caller's. Any thread.
  bool Take(std::uint64_t number, Delivery* delivery);
  /// There are so many batches. The planner's call.
  void NoteEnd(std::uint64_t batches);

 private:
  void Judge(BatchBuffer* slot);
  void JudgeEnd();

  const Options options_;
  const Put put_;
  const ChangeStatus change_status_;
  Refusals refusals_;  ///< the planner's if rows are located, else under mutex_
  std::mutex mutex_;   ///< guards what follows; not taken once the parser took a record
  std::map<std::uint64_t, Delivery> waiting_;
  std::uint64_t judged_ = 0;              ///< batches
  std::optional<std::uint64_t> batches_;  ///< if their number is known
};

}  // namespace ringfeed
