#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "ringfeed/queue/channel.h"
#include "ringfeed/slot.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// How a LoDTensorBlockingQueue is made, besides its capacity and slots.
struct BlockingQueueOptions {
  /// Every pop delivers the first instance again (its tensors are shared) and takes nothing: what
  /// a training loop does if it never waits for data. Close and Kill end that at once.
  bool speed_test_mode = false;
  /// The slots' dtypes are those of the first instance that is pushed, whatever the slots declare.
  /// Every later one is held against these, also in the queues that a holder opens after this one.
  bool learn_dtypes = false;
  /// How long a wait polls before it sleeps; see RingOptions.
  std::int64_t spin_ns = kAdaptiveSpin;
};

/// Instances between a user's producers and the training loop: Paddle's queue of that name.
/// Bounded, first in, first out, any number of producers and consumers. Every instance is checked
/// against the declared slots when it goes in.
///
/// It ends as a Channel does: after Close its instances can still be popped, Kill fails at once.
/// Neither can be undone; LoDTensorBlockingQueueHolder puts a new queue in its place.
///
/// Instances are moved, tensors never copied: they own their memory (Tensor::owner).
/// Thread safety: every method may be called by any thread at any time. Must outlive every call.
/// After a fork it is as a Channel, a copy that the parent's threads neither fill nor empty.
class LoDTensorBlockingQueue {
 public:
  /// Holds up to `capacity` instances. Throws Error(kInvalidArgument) for 0 and if no slot is
  /// declared.
  LoDTensorBlockingQueue(std::size_t capacity, std::vector<SlotSpec> slots,
                         const BlockingQueueOptions& options = {});

  /// Waits for room. False after Close or Kill, or when stopped: the instance is untouched. Throws
  /// Error(kInvalidArgument), which names the slot, if the instance is not as declared, or a
  /// tensor that has bytes has no owner: before it waits, and after Close too.
  bool Push(Instance&& instance, const std::stop_token& stop = {});
  /// The same with a copy that shares the tensors.
  bool Push(const Instance& instance, const std::stop_token& stop = {});
  /// kOk, kClosed, kTimeout, kStopped. Throws as Push does.
  QueueResult PushUntil(Instance&& instance, Deadline deadline, const std::stop_token& stop = {});

  /// Waits for an instance; none at the end: for a loop `while (auto instance = queue.Pop())`.
  /// Throws Error on failure: after Kill, or after a Close with a failure once what came before it
  /// was popped.
  std::optional<Instance> Pop();
  /// The same in Paddle's form: *ok is false at the end, and the instance empty.
  Instance Pop(bool* ok);
  /// Waits for an instance. kOk; kClosed: the end; kFailed: see status(); kStopped.
  QueueResult Pop(Instance* instance, const std::stop_token& stop = {});
  /// Also kTimeout.
  QueueResult PopUntil(Instance* instance, Deadline deadline, const std::stop_token& stop = {});

  /// No more pushes. Pops deliver what is there, then the end, or `status` if it is a failure. The
  /// first call decides. Wakes all.
  void Close(Status status = {});
  /// Ends at once with a failure and drops its instances. Wakes all.
  void Kill(Status status);
  /// The same with what a producer threw: the Status of an Error, else kUserError.
  void Kill(const std::exception_ptr& thrown);

  /// The failure that Kill or Close was given, else OK.
  Status status() const { return channel_.status(); }
  /// After Close or Kill. True is final.
  bool IsClosed() const noexcept { return channel_.IsClosed(); }
  /// True is final.
  bool IsKilled() const noexcept { return channel_.IsKilled(); }
  /// How many instances are in it; a snapshot if other threads use it.
  std::size_t Size() const noexcept { return channel_.Size(); }
  std::size_t Cap() const noexcept { return channel_.Cap(); }
  /// The slots that instances are checked against. Throws Error(kInvalidArgument) while dtypes are
  /// to be learnt and nothing was pushed yet.
  std::vector<SlotSpec> slots() const;
  /// Waits until slots() are known. kOk; kClosed: it ended before an instance came; kTimeout;
  /// kStopped. A queue that does not learn knows them.
  QueueResult AwaitSlots(Deadline deadline, const std::stop_token& stop = {});

 private:
  friend class LoDTensorBlockingQueueHolder;

  /// A new, empty queue like this one, which knows the dtypes that this one has learnt.
  std::shared_ptr<LoDTensorBlockingQueue> OpenAnew() const;
  /// Throws what Push throws; learns.
  void Check(const Instance& instance);
  QueueResult PushAndKeepFirst(Instance&& instance, Deadline deadline, const std::stop_token& stop);
  /// Waits until look() gives another result than kEmpty.
  QueueResult AwaitFirst(Deadline deadline, const std::stop_token& stop,
                         const std::function<QueueResult()>& look);
  QueueResult CopyFirst(Instance* instance, Deadline deadline, const std::stop_token& stop);

  const BlockingQueueOptions options_;
  mutable std::mutex first_mutex_;         // guards what the first instance decides, written once
  std::shared_ptr<const Instance> first_;  // of speed test mode: that was accepted
  bool slots_known_;                       // false: its dtypes are to be learnt
  std::vector<SlotSpec> slots_;            // constant, without a mutex, if nothing is to be learnt
  EventCount first_changed_;               // the channel notifies it too
  Channel<Instance> channel_;
  std::shared_ptr<void> live_;  // lets observers see it; destroyed before all else
};

/// A place for a queue whose capacity and slots are known later, and that can be started again.
/// Thread safety: every method may be called by any thread at any time.
class LoDTensorBlockingQueueHolder {
 public:
  using Queue = LoDTensorBlockingQueue;

  /// Makes the queue. Throws Error(kInvalidArgument) on a second call and as the queue's
  /// constructor does; a call that threw does not count.
  void InitOnce(std::size_t capacity, std::vector<SlotSpec> slots,
                const BlockingQueueOptions& options = {});

  /// The present queue. Throws Error(kInvalidArgument) before InitOnce.
  std::shared_ptr<Queue> GetQueue() const;

  /// Puts a new, empty queue in the place of the old one and returns it. The old one is closed and
  /// its instances are discarded; threads that wait there wake. Throws as GetQueue, and, if the old
  /// one was killed, Error with its status.
  std::shared_ptr<Queue> ReOpen();
  /// The same, unless the present queue is already another than `old`: then returns that.
  std::shared_ptr<Queue> ReOpenAfter(const std::shared_ptr<Queue>& old);

 private:
  std::shared_ptr<Queue> QueueLocked() const;

  mutable std::mutex mutex_;
  std::shared_ptr<Queue> queue_;
};

/// A function of the user's that fills a queue: it pushes until its data are at their end or Push
/// returns false. `stop` is requested when the producer has to stop: for waits of its own.
using QueueGenerator = std::function<void(LoDTensorBlockingQueue& queue, std::stop_token stop)>;

/// Runs `generate` on the calling thread and closes the queue when it returns; if it throws, with
/// that failure. So consumers get all that it pushed, then the end or its failure, and never wait
/// for ever. An exception after other code closed the queue, or after `stop`, is no failure of the
/// data: Push may well have ended it. Returns the failure, if there was one.
Status Produce(LoDTensorBlockingQueue& queue, const QueueGenerator& generate,
               std::stop_token stop = {});

/// Produce on a thread of its own.
class QueueProducer {
 public:
  /// Starts at once. Throws Error(kInvalidArgument) for a null queue or an empty generator, and
  /// std::system_error if the system has no thread.
  QueueProducer(std::shared_ptr<LoDTensorBlockingQueue> queue, QueueGenerator generate);
  /// Stop. Not from the generator itself.
  ~QueueProducer() { Stop(); }
  QueueProducer(const QueueProducer&) = delete;
  QueueProducer& operator=(const QueueProducer&) = delete;

  /// Stops the generator: closes the queue, which wakes it if it is pushing, requests its stop and
  /// waits until it has returned. Pushed instances can still be popped. One thread at a time.
  void Stop();

 private:
  std::shared_ptr<LoDTensorBlockingQueue> queue_;
  std::jthread thread_;
};

}  // namespace ringfeed
