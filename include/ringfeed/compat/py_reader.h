#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// Reads what your own threads push into a queue: the reader that Paddle's py_reader makes. One
/// pass is what goes into one queue until its Close. A Kill, or a Close with a failure, is the
/// reader's failure.
///
/// Thread safety: none, as of every InstanceSource; the queue may be used by any thread meanwhile.
/// It owns the reading end: its destructor closes the queue that it reads, so that producers wake.
class PyReader final : public InstanceSource {
 public:
  /// Reads the holder's queues. Throws Error(kInvalidArgument) for null.
  explicit PyReader(std::shared_ptr<LoDTensorBlockingQueueHolder> holder);
  /// Reads one queue, once. Throws Error(kInvalidArgument) for null.
  explicit PyReader(std::shared_ptr<LoDTensorBlockingQueue> queue);
  ~PyReader() override;

  /// Waits for an instance, the end or a failure. The first call of all takes the queue that the
  /// holder has then; it throws Error if there is none.
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override;

  /// Goes on with a new queue: the old one is closed, its remaining instances are discarded, and
  /// producers start again on the holder's GetQueue(). If the holder was re-opened since the last
  /// call, it takes that queue, and before the first ReadNext it does nothing: what was pushed for
  /// the pass that starts is never lost. False without a holder. Throws Error with the reason if
  /// the queue was killed.
  bool ReInit() override;

  bool Ready() const override;
  /// Those of the queue. Throws Error if there is none yet.
  std::vector<SlotSpec> slots() const override;

 private:
  std::shared_ptr<LoDTensorBlockingQueueHolder> holder_;
  std::shared_ptr<LoDTensorBlockingQueue> queue_;  // null before the first ReadNext
};

/// A reader of the holder's queues, whose slots it declares. Throws Error before InitOnce. A pass
/// starts again by Reader::ReInit, then a producer on the holder's GetQueue(). Beside what the loop
/// got and what is in the queue it takes so many instances as OpenOptions::ahead_records says, by
/// default 4, or of Batch those of the batches that wait.
Reader OpenPyReader(std::shared_ptr<LoDTensorBlockingQueueHolder> holder,
                    const OpenOptions& options = {});

}  // namespace ringfeed
