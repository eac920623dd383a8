#include "ringfeed/queue/blocking_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/live/watching.h"
#include "base/machine/thread_start.h"
#include "base/refuse.h"
#include "base/user_call.h"
#include "queue/live_queues.h"

namespace ringfeed {
namespace {

void CheckSlots(std::span<const SlotSpec> slots, const Instance& instance) {
  Status status = CheckInstance(slots, instance);
  if (!status.ok()) [[unlikely]] {
    throw Error(std::move(status));
  }
  // The consumer reads it long after the producer has gone on.
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (instance[i].owner != nullptr || instance[i].bytes == 0) continue;
    const std::string slot = "slot " + std::to_string(i) + " \"" + slots[i].name + "\"";
    Refuse(slot + ": nothing keeps the tensor's memory alive; set Tensor::owner");
  }
}

Status StatusOfKill(const std::exception_ptr& thrown) noexcept {
  if (thrown == nullptr) return Status(StatusCode::kCancelled, "the queue was killed");
  try {
    std::rethrow_exception(thrown);
  } catch (...) {
    return StatusOfUsers("the producer", ThrownError::kKeepsStatus);
  }
}

}  // namespace

LoDTensorBlockingQueue::LoDTensorBlockingQueue(std::size_t capacity, std::vector<SlotSpec> slots,
                                               const BlockingQueueOptions& options)
    : options_(options),
      slots_known_(!options.learn_dtypes),
      slots_(std::move(slots)),
      channel_(capacity,
               {.spin_ns = options.spin_ns,
                .not_empty_watcher =
                    options.speed_test_mode || options.learn_dtypes ? &first_changed_ : nullptr}) {
  if (slots_.empty()) Refuse("a queue must declare at least one slot");
  if (!IsWatched()) return;
  live_ = std::make_shared<LiveList<QueueCounts>::Membership>(
      LiveQueues().Enter(slots_.front().name, [this](QueueCounts* counts) {
        *counts = {Size(), Cap(), IsClosed(), channel_.Stats()};
        return true;
      }));
}

std::shared_ptr<LoDTensorBlockingQueue> LoDTensorBlockingQueue::OpenAnew() const {
  BlockingQueueOptions options = options_;
  const std::lock_guard lock(first_mutex_);
  if (slots_known_) options.learn_dtypes = false;
  return std::make_shared<LoDTensorBlockingQueue>(Cap(), slots_, options);
}

std::vector<SlotSpec> LoDTensorBlockingQueue::slots() const {
  if (!options_.learn_dtypes) return slots_;
  const std::lock_guard lock(first_mutex_);
  if (!slots_known_) {
    Refuse(
        "the dtypes are those of the first instance, and none was pushed yet: push one, or declare "
        "the dtypes");
  }
  return slots_;
}

QueueResult LoDTensorBlockingQueue::AwaitSlots(Deadline deadline, const std::stop_token& stop) {
  if (!options_.learn_dtypes) return QueueResult::kOk;
  return AwaitFirst(deadline, stop, [&] {
    const bool closed = IsClosed();  // first: pushes before it count
    const std::lock_guard lock(first_mutex_);
    if (slots_known_) return QueueResult::kOk;
    return closed ? QueueResult::kClosed : QueueResult::kEmpty;
  });
}

void LoDTensorBlockingQueue::Check(const Instance& instance) {
  if (!options_.learn_dtypes) return CheckSlots(slots_, instance);
  {
    const std::lock_guard lock(first_mutex_);
    if (slots_known_) return CheckSlots(slots_, instance);
    std::vector<SlotSpec> learnt = slots_;
    for (std::size_t i = 0; i < std::min(learnt.size(), instance.size()); ++i) {
      learnt[i].dtype = instance[i].dtype;
    }
    CheckSlots(learnt, instance);
    if (IsClosed()) return;  // a closed queue learns nothing more
    slots_ = std::move(learnt);
    slots_known_ = true;
  }
  first_changed_.NotifyAll();
}

bool LoDTensorBlockingQueue::Push(Instance&& instance, const std::stop_token& stop) {
  return PushUntil(std::move(instance), kNoDeadline, stop) == QueueResult::kOk;
}

bool LoDTensorBlockingQueue::Push(const Instance& instance, const std::stop_token& stop) {
  return PushUntil(Instance(instance), kNoDeadline, stop) == QueueResult::kOk;
}

QueueResult LoDTensorBlockingQueue::PushUntil(Instance&& instance, Deadline deadline,
                                              const std::stop_token& stop) {
  Check(instance);
  if (options_.speed_test_mode) [[unlikely]] {
    return PushAndKeepFirst(std::move(instance), deadline, stop);
  }
  return channel_.PushUntil(std::move(instance), deadline, stop);
}

// The instance goes into the channel like any other, so that Size, Cap and back-pressure work as
// always; pops deliver a copy that is kept apart. If several pushes come at the same time, any may
// be the first.
QueueResult LoDTensorBlockingQueue::PushAndKeepFirst(Instance&& instance, Deadline deadline,
                                                     const std::stop_token& stop) {
  std::shared_ptr<const Instance> first;
  {
    const std::lock_guard lock(first_mutex_);
    if (first_ == nullptr) first = std::make_shared<const Instance>(instance);
  }
  const QueueResult result = channel_.PushUntil(std::move(instance), deadline, stop);
  if (result != QueueResult::kOk || first == nullptr) return result;
  {
    const std::lock_guard lock(first_mutex_);
    if (first_ == nullptr) first_ = std::move(first);
  }
  first_changed_.NotifyAll();
  return result;
}

std::optional<Instance> LoDTensorBlockingQueue::Pop() {
  std::optional<Instance> instance(std::in_place);
  const QueueResult result = Pop(&*instance);
  if (result == QueueResult::kFailed) throw Error(status());
  if (result != QueueResult::kOk) instance.reset();
  return instance;
}

Instance LoDTensorBlockingQueue::Pop(bool* ok) {
  *ok = false;
  std::optional<Instance> instance = Pop();
  *ok = instance.has_value();
  return std::move(instance).value_or(Instance());
}

QueueResult LoDTensorBlockingQueue::Pop(Instance* instance, const std::stop_token& stop) {
  return PopUntil(instance, kNoDeadline, stop);
}

QueueResult LoDTensorBlockingQueue::PopUntil(Instance* instance, Deadline deadline,
                                             const std::stop_token& stop) {
  if (options_.speed_test_mode) [[unlikely]] {
    return CopyFirst(instance, deadline, stop);
  }
  return channel_.PopUntil(*instance, deadline, stop);
}

QueueResult LoDTensorBlockingQueue::CopyFirst(Instance* instance, Deadline deadline,
                                              const std::stop_token& stop) {
  std::shared_ptr<const Instance> first;
  const QueueResult result = AwaitFirst(deadline, stop, [&] {
    if (IsClosed()) return QueueResult::kClosed;
    const std::lock_guard lock(first_mutex_);
    first = first_;
    return first != nullptr ? QueueResult::kOk : QueueResult::kEmpty;
  });
  if (result == QueueResult::kOk) *instance = *first;
  return result == QueueResult::kClosed && !status().ok() ? QueueResult::kFailed : result;
}

QueueResult LoDTensorBlockingQueue::AwaitFirst(Deadline deadline, const std::stop_token& stop,
                                               const std::function<QueueResult()>& look) {
  const QueueResult result = look();
  if (result != QueueResult::kEmpty) return result;
  const std::int64_t spin_ns = options_.spin_ns < 0 ? DefaultSpinNanos() : options_.spin_ns;
  return first_changed_.Await(spin_ns, {deadline, &stop}, [&](LookMode) { return look(); });
}

void LoDTensorBlockingQueue::Close(Status status) { channel_.Close(std::move(status)); }

void LoDTensorBlockingQueue::Kill(Status status) { channel_.Kill(std::move(status)); }

void LoDTensorBlockingQueue::Kill(const std::exception_ptr& thrown) {
  channel_.Kill(StatusOfKill(thrown));
}

void LoDTensorBlockingQueueHolder::InitOnce(std::size_t capacity, std::vector<SlotSpec> slots,
                                            const BlockingQueueOptions& options) {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr) Refuse("the queue exists already: InitOnce is called once");
  queue_ = std::make_shared<Queue>(capacity, std::move(slots), options);
}

std::shared_ptr<LoDTensorBlockingQueue> LoDTensorBlockingQueueHolder::QueueLocked() const {
  if (queue_ == nullptr) Refuse("there is no queue yet: call InitOnce first");
  return queue_;
}

std::shared_ptr<LoDTensorBlockingQueue> LoDTensorBlockingQueueHolder::GetQueue() const {
  const std::lock_guard lock(mutex_);
  return QueueLocked();
}

std::shared_ptr<LoDTensorBlockingQueue> LoDTensorBlockingQueueHolder::ReOpen() {
  return ReOpenAfter(nullptr);
}

std::shared_ptr<LoDTensorBlockingQueue> LoDTensorBlockingQueueHolder::ReOpenAfter(
    const std::shared_ptr<Queue>& old) {
  std::shared_ptr<Queue> replaced;
  std::shared_ptr<Queue> opened;
  {
    const std::lock_guard lock(mutex_);
    replaced = QueueLocked();
    if (old != nullptr && old != replaced) return replaced;
    if (replaced->IsKilled()) throw Error(replaced->status());
    opened = replaced->OpenAnew();
    queue_ = opened;
  }
  replaced->Close();
  // A consumer that still holds the old queue finds its end, not the rest of its items.
  Instance rest;
  while (replaced->PopUntil(&rest, kNoDeadline) == QueueResult::kOk) {
  }
  return opened;
}

Status Produce(LoDTensorBlockingQueue& queue, const QueueGenerator& generate,
               std::stop_token stop) {
  try {
    generate(queue, stop);
  } catch (...) {
    if (!queue.IsClosed() && !stop.stop_requested()) {
      // Close, not Kill: the instances pushed before are good.
      Status status = StatusOfUsers("the producer", ThrownError::kKeepsStatus);
      queue.Close(status);
      return status;
    }
  }
  queue.Close();
  return {};
}

QueueProducer::QueueProducer(std::shared_ptr<LoDTensorBlockingQueue> queue, QueueGenerator generate)
    : queue_(std::move(queue)) {
  if (queue_ == nullptr) Refuse("the queue is null");
  if (!generate) Refuse("the generator is empty");
  thread_ = StartThread("the generator's thread",
                        [this, generate = std::move(generate)](std::stop_token stop) {
                          (void)Produce(*queue_, generate, std::move(stop));
                        });
}

void QueueProducer::Stop() {
  if (!thread_.joinable()) return;
  // First, so that an exception that the generator throws because of the close is no failure.
  thread_.request_stop();
  queue_->Close();
  thread_.join();
}

}  // namespace ringfeed
