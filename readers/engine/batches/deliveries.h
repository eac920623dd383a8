#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stop_token>

#include "readers/engine/batches/delivery.h"
#include "readers/engine/batches/parser_judge.h"
#include "readers/engine/waiting/outbox.h"
#include "readers/engine/waiting/plan_requests.h"
#include "readers/engine/waiting/source_limit.h"
#include "readers/engine/waiting/stall_detector.h"
#include "readers/engine/waiting/worker_pool.h"
#include "ringfeed/queue/ring_options.h"

namespace ringfeed {

/// The way of finished batches and records to the consumers: in their order, after the verdict on
/// their parser, and before the end, which comes after the last one.
///
/// Thread safety: the planner calls HasRoom; any thread may call the others. Only TakeUntil waits.
class Deliveries {
 public:
  struct Options {
    std::size_t capacity = 0;  ///< deliveries that are ready at most
    RingOptions ring{};
    ParserJudge::Options judge{};
  };
  /// The other parts, which outlive it. Several are woken as it gets further.
  struct Parts {
    Workers* workers = nullptr;
    PlanRequests* plan = nullptr;
    SourceLimit* source = nullptr;
    StallDetector* stalls = nullptr;
  };
  Deliveries(const Options& options, const Parts& parts);

  // ---- The plan and the writers ----

  /// Whether delivery `number` has room yet. If not, the plan is asked for once it has.
  bool HasRoom(std::uint64_t number) { return out_.HasRoom(number); }
  /// Delivery `number`, which has room, is complete. A batch with a failure is the last one.
  void Put(std::uint64_t number, Delivery delivery);
  /// Nothing follows number - 1, for that reason. The first end in the order counts. `within`: the
  /// end is within number - 1, and so comes before other ends there.
  void End(std::uint64_t number, const Status& status, bool within = false);
  /// What lanes have still to read is not needed any more.
  // Order: acquire pairs with the release in End.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  ParserJudge& judge() { return judge_; }
  const ParserJudge& judge() const { return judge_; }

  // ---- Consumers ----

  /// Takes the next delivery: kOk, kEmpty, kClosed (see end_status).
  QueueResult TryTake(Delivery* delivery);
  /// The same, and waits: also kTimeout, kStopped. A wait in which nothing comes looks for a wake
  /// that was left out.
  QueueResult TakeUntil(Delivery* delivery, Deadline deadline, const std::stop_token& stop);
  /// What was taken is given back.
  void NoteBack() { out_.NoteBack(); }
  /// Everything stops: consumers get no more.
  void Cancel() { out_.Cancel(); }

  /// So many were taken.
  std::uint64_t taken() const { return out_.taken(); }
  /// So many are complete, or taken and not given back: for statistics only.
  std::size_t out() const { return out_.out(); }
  /// Whether something is out, and may come back.
  bool IsAnyOut() const { return out_.IsAnyOut(); }
  /// Why it ended.
  Status end_status() const { return out_.status(); }

 private:
  QueueResult NoteTaken(QueueResult result, const Delivery& delivery);

  const Parts parts_;
  BasicOutbox<NativeQueuePolicy, Delivery> out_;
  ParserJudge judge_;
  /// The plan has come to its end. Partner: ended().
  std::atomic<bool> ended_{false};
};

}  // namespace ringfeed
