#include "ringfeed/queue/blocking_queue.h"

#include <string>
#include <utility>

#include "base/machine/signals_blocked.h"

namespace ringfeed {
namespace {

[[noreturn]] void Refuse(const char* message) {
  throw Error(Status(StatusCode::kInvalidArgument, message));
}

void CheckSlots(std::span<const SlotSpec> slots, const Instance& instance) {
  Status status = CheckInstance(slots, instance);
  if (!status.ok()) [[unlikely]] {
    throw Error(std::move(status));
  }
  // It is read when its producer has long gone on.
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (instance[i].owner != nullptr || instance[i].bytes == 0) continue;
    const std::string slot = "slot " + std::to_string(i) + " \"" + slots[i].name + "\"";
    throw Error(Status(StatusCode::kInvalidArgument,
                       slot + ": nothing keeps the tensor's memory alive; set Tensor::owner"));
  }
}

Status StatusOfThrown(const std::exception_ptr& thrown) {
  if (thrown == nullptr) return Status(StatusCode::kCancelled, "the queue was killed");
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    if (!error.status().ok()) return error.status();
    return Status(StatusCode::kUserError, "the producer threw an Error without a failure");
  } catch (const std::exception& error) {
    return Status(StatusCode::kUserError, std::string("the producer threw: ") + error.what());
  } catch (...) {
    return Status(StatusCode::kUserError, "the producer threw what is no std::exception");
  }
}

}  // namespace

LoDTensorBlockingQueue::LoDTensorBlockingQueue(std::size_t capacity, std::vector<SlotSpec> slots,
                                               const BlockingQueueOptions& options)
    : slots_(std::move(slots)),
      options_(options),
      channel_(capacity,
               {.spin_ns = options.spin_ns,
                .not_empty_watcher = options.speed_test_mode ? &first_changed_ : nullptr}) {
  if (slots_.empty()) Refuse("a queue must declare at least one slot");
}

bool LoDTensorBlockingQueue::Push(Instance&& instance, const std::stop_token& stop) {
  return PushUntil(std::move(instance), kNoDeadline, stop) == QueueResult::kOk;
}

bool LoDTensorBlockingQueue::Push(const Instance& instance, const std::stop_token& stop) {
  return PushUntil(Instance(instance), kNoDeadline, stop) == QueueResult::kOk;
}

QueueResult LoDTensorBlockingQueue::PushUntil(Instance&& instance, Deadline deadline,
                                              const std::stop_token& stop) {
  CheckSlots(slots_, instance);
  if (options_.speed_test_mode) [[unlikely]] {
    return PushAndKeepFirst(std::move(instance), deadline, stop);
  }
  return channel_.PushUntil(std::move(instance), deadline, stop);
}

// The instance goes into the channel like any other, so that Size, Cap and back-pressure are as
// they always are; what pops deliver is a copy beside it. Of pushes at the same time any may be
// the first.
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

Instance LoDTensorBlockingQueue::Pop(bool* ok) {
  *ok = false;
  Instance instance;
  const QueueResult result = Pop(&instance);
  if (result == QueueResult::kFailed) throw Error(status());
  *ok = result == QueueResult::kOk;
  return instance;
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
  const auto attempt = [&](LookMode) {
    if (IsClosed()) return QueueResult::kClosed;
    const std::lock_guard lock(first_mutex_);
    first = first_;
    return first != nullptr ? QueueResult::kOk : QueueResult::kEmpty;
  };
  QueueResult result = attempt(LookMode::kFull);
  if (result == QueueResult::kEmpty) {
    const std::int64_t spin_ns = options_.spin_ns < 0 ? DefaultSpinNanos() : options_.spin_ns;
    result = first_changed_.Await(spin_ns, {deadline, &stop}, attempt);
  }
  if (result == QueueResult::kOk) *instance = *first;
  return result == QueueResult::kClosed && !status().ok() ? QueueResult::kFailed : result;
}

void LoDTensorBlockingQueue::Close(Status status) { channel_.Close(std::move(status)); }

void LoDTensorBlockingQueue::Kill(Status status) { channel_.Kill(std::move(status)); }

void LoDTensorBlockingQueue::Kill(const std::exception_ptr& thrown) {
  channel_.Kill(StatusOfThrown(thrown));
}

void LoDTensorBlockingQueueHolder::InitOnce(std::size_t capacity, std::vector<SlotSpec> slots,
                                            const BlockingQueueOptions& options) {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr) Refuse("the queue exists already: InitOnce is called once");
  queue_ = std::make_shared<Queue>(capacity, std::move(slots), options);
  options_ = options;
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
    opened = std::make_shared<Queue>(replaced->Cap(), replaced->slots(), options_);
    queue_ = opened;
  }
  replaced->Close();
  // Whoever holds it still finds the end, not the rest.
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
      // Not Kill: what was pushed before is good.
      Status status = StatusOfThrown(std::current_exception());
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
  const SignalsBlocked blocked;
  thread_ = std::jthread([this, generate = std::move(generate)](std::stop_token stop) {
    (void)Produce(*queue_, generate, std::move(stop));
  });
}

void QueueProducer::Stop() {
  if (!thread_.joinable()) return;
  // First: what the generator throws because of it is no failure any more.
  thread_.request_stop();
  queue_->Close();
  thread_.join();
}

}  // namespace ringfeed
