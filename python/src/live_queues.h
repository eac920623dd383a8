#pragma once

#include <atomic>
#include <memory>

#include "ringfeed/queue/blocking_queue.h"

namespace ringfeed::python {

// Threads of Python's and of ringfeed's wait at queues, and the thread that would wake them may
// have ended when the interpreter ends: all queues that still exist are killed then.

/// From now on the queue is killed at exit, if it still exists then. Thread safe.
void NoteQueue(const std::shared_ptr<LoDTensorBlockingQueueHolder>& queue);

/// At exit: kills all of them. Without the lock.
void CloseQueues();

/// Waits until no call is in a queue any more, a second at most, so that the threads drop what they
/// hold. After CloseQueues, without the lock.
void AwaitQueueCalls();

/// A call that waits at a queue, as long as this lives.
class QueueCall {
 public:
  QueueCall();
  ~QueueCall();
  QueueCall(const QueueCall&) = delete;
  QueueCall& operator=(const QueueCall&) = delete;

 private:
  std::atomic<int>* const calls_;
};

}  // namespace ringfeed::python
