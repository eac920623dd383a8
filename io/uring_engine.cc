// The engine over an io_uring of its own. One thread, a run's worker, opens it, submits, reaps and
// destroys it. Wake alone comes from any thread: it sets woken_ and writes to an eventfd, which the
// ring always has a read in flight for.
//
// Invariants: from Submit to Reap a request has one slot. It is in the submission queue, in the
// kernel, in delayed_ (to be submitted later) or in finished_. in_flight_ counts all four. After a
// fatal error nothing more is submitted: reads in the kernel still end, the rest are refused. The
// destructor waits until the kernel has ended every read, so no buffer is written to after it.

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "io/read_engine.h"
#include "io/read_progress.h"
#include "io/uring_ring.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kEntries = 128;
/// How long to leave the queue alone when the kernel takes no entries from it, and how often.
constexpr std::chrono::milliseconds kSubmitBackOff{1};
constexpr int kMostSubmitFailures = 5000;
/// Marks completions that belong to no request.
constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
constexpr std::uint64_t kIgnoredTag = kWakeTag - 1;

class UringEngine final : public ReadEngine {
 public:
  explicit UringEngine(const IoOptions& options)
      : retries_(options.retries), most_in_flight_bytes_(options.in_flight_bytes) {}
  ~UringEngine() override;

  Status Open(std::byte* arena_data, std::size_t arena_bytes);

  std::string name() const override { return "uring"; }
  std::string Describe() const override {
    return ring_.FlagNames() + ", " + buffers_->description();
  }
  std::size_t Submit(std::span<ReadRequest* const> requests) override;
  std::size_t room() const override { return free_slots_.size(); }
  std::size_t Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) override;
  void Wake() override;
  std::size_t in_flight() const override { return in_flight_; }
  ReadEngineStats stats() const override { return stats_; }

 private:
  /// One request from Submit to Reap.
  struct Slot {
    ReadProgress progress;
    Clock::time_point not_before;  // while it stands in delayed_
  };

  bool HasRoomFor(std::uint32_t bytes) const {
    return !free_slots_.empty() &&
           (in_flight_ == 0 || in_flight_bytes_ + bytes <= most_in_flight_bytes_);
  }
  void Take(ReadRequest* request);
  void Continue(unsigned slot, ReadProgress::Next next);
  void Prepare(unsigned slot);
  void End(unsigned slot, int error_number);
  void Refuse(unsigned slot, int error_number);
  void Delay(unsigned slot, Clock::duration delay);
  void ResumeDelayed();
  io_uring_sqe* NewEntry();
  void ArmWake();
  void Flush();
  void GiveUp(int error_number);
  void DiscardUnsubmitted(int error_number);
  std::size_t TakeFinished(std::span<ReadRequest*> finished);
  void TakeCompletions();
  void TakeCompletion(const io_uring_cqe& cqe);
  void WaitUntil(Clock::time_point deadline);
  Clock::time_point NextDue(Clock::time_point deadline) const;
  std::uint64_t in_kernel() { return prepared_ - io_uring_sq_ready(ring_.get()) - completed_; }

  const int retries_;
  const std::size_t most_in_flight_bytes_;
  UringRing ring_;
  std::unique_ptr<UringBuffers> buffers_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_slots_;
  std::vector<unsigned> finished_;  // final, not yet reaped
  std::vector<unsigned> delayed_;   // to be submitted, again or later
  std::size_t in_flight_ = 0;
  std::size_t in_flight_bytes_ = 0;
  std::uint64_t prepared_ = 0;   // entries put into the submission queue
  std::uint64_t completed_ = 0;  // completions taken out
  int submit_failures_ = 0;      // in a row
  int fatal_error_ = 0;          // an errno: the ring takes nothing more
  ReadEngineStats stats_;

  int wake_descriptor_ = -1;
  std::uint64_t wake_value_ = 0;  // the kernel writes to it
  bool wake_armed_ = false;
  std::atomic<bool> woken_{false};
};

Status UringEngine::Open(std::byte* arena_data, std::size_t arena_bytes) {
  const Status status = ring_.Open(kEntries);
  if (!status.ok()) return status;
  // Not EFD_NONBLOCK: the ring's read is to wait.
  wake_descriptor_ = eventfd(0, EFD_CLOEXEC);
  if (wake_descriptor_ < 0) return StatusFromErrno(errno, "eventfd");
  buffers_ = std::make_unique<UringBuffers>(ring_.get(), arena_data, arena_bytes);
  // One entry is the wake-up's.
  const unsigned slots = ring_.entries() - 1;
  slots_.resize(slots);
  free_slots_.reserve(slots);
  for (unsigned slot = slots; slot > 0; --slot) free_slots_.push_back(slot - 1);
  finished_.reserve(slots);
  delayed_.reserve(slots);
  ArmWake();
  Flush();
  if (fatal_error_ != 0) return StatusFromErrno(fatal_error_, "io_uring_enter");
  return {};
}

UringEngine::~UringEngine() {
  if (wake_descriptor_ < 0) return;
  DiscardUnsubmitted(ECANCELED);
  // Reads of a disk cannot be cancelled; others can, and then the wait below is short.
  io_uring_sync_cancel_reg cancel{};
  cancel.fd = -1;
  cancel.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
  io_uring_register_sync_cancel(ring_.get(), &cancel);
  const std::uint64_t one = 1;
  if (write(wake_descriptor_, &one, sizeof(one)) < 0) {
    // Only if 2^64 - 2 wake-ups are pending: then its read ends all the same.
  }
  // Closing a ring does not wait for its reads: the kernel would write to memory that others use by
  // then.
  while (in_kernel() > 0) {
    io_uring_cqe* cqe = nullptr;
    const int result = io_uring_wait_cqe(ring_.get(), &cqe);
    // Called by another thread than the owner, against the contract: the owner's reads still end.
    if (result == -EEXIST) std::this_thread::sleep_for(kSubmitBackOff);
    const unsigned count = io_uring_cq_ready(ring_.get());
    io_uring_cq_advance(ring_.get(), count);
    completed_ += count;
  }
  buffers_.reset();
  close(wake_descriptor_);
}

std::size_t UringEngine::Submit(std::span<ReadRequest* const> requests) {
  std::size_t taken = 0;
  while (taken < requests.size() && HasRoomFor(requests[taken]->bytes)) Take(requests[taken++]);
  Flush();
  return taken;
}

void UringEngine::Take(ReadRequest* request) {
  const unsigned index = free_slots_.back();
  free_slots_.pop_back();
  ++in_flight_;
  in_flight_bytes_ += request->bytes;
  ReadProgress& progress = slots_[index].progress;
  progress = ReadProgress(request, retries_);
  if (request->file->descriptor() < 0) return End(index, EBADF);
  Continue(index, progress.Begin());
}

void UringEngine::Continue(unsigned slot, ReadProgress::Next next) {
  // A read that is not done cannot go on any more.
  if (fatal_error_ != 0 && next != ReadProgress::Next::kDone) return Refuse(slot, fatal_error_);
  switch (next) {
    case ReadProgress::Next::kDone:
      finished_.push_back(slot);
      return;
    case ReadProgress::Next::kReadOn:
      Prepare(slot);
      return;
    case ReadProgress::Next::kBackOff:
      Delay(slot, slots_[slot].progress.back_off());
      return;
  }
}

void UringEngine::Prepare(unsigned slot) {
  io_uring_sqe* const sqe = NewEntry();
  if (sqe == nullptr && fatal_error_ != 0) return Refuse(slot, fatal_error_);
  if (sqe == nullptr) return Delay(slot, kSubmitBackOff);
  const ReadProgress& progress = slots_[slot].progress;
  const int descriptor = progress.request()->file->descriptor();
  const int index = buffers_->IndexFor(progress.buffer(), progress.bytes());
  if (index >= 0) {
    io_uring_prep_read_fixed(sqe, descriptor, progress.buffer(), progress.bytes(),
                             progress.offset(), index);
  } else {
    io_uring_prep_read(sqe, descriptor, progress.buffer(), progress.bytes(), progress.offset());
  }
  io_uring_sqe_set_data64(sqe, slot);
}

void UringEngine::End(unsigned slot, int error_number) {
  slots_[slot].progress.Abort(error_number);
  finished_.push_back(slot);
}

void UringEngine::Refuse(unsigned slot, int error_number) {
  slots_[slot].progress.Refuse(error_number);
  finished_.push_back(slot);
}

void UringEngine::Delay(unsigned slot, Clock::duration delay) {
  slots_[slot].not_before = Clock::now() + delay;
  delayed_.push_back(slot);
}

void UringEngine::ResumeDelayed() {
  if (delayed_.empty()) return;
  const Clock::time_point now = Clock::now();
  const auto due = std::stable_partition(delayed_.begin(), delayed_.end(), [&](unsigned slot) {
    return slots_[slot].not_before > now;
  });
  const std::vector<unsigned> resumed(due, delayed_.end());
  delayed_.erase(due, delayed_.end());
  for (const unsigned slot : resumed) Prepare(slot);
}

io_uring_sqe* UringEngine::NewEntry() {
  if (fatal_error_ != 0) return nullptr;
  io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
  if (sqe == nullptr) {
    Flush();
    sqe = io_uring_get_sqe(ring_.get());
  }
  if (sqe != nullptr) ++prepared_;
  return sqe;
}

void UringEngine::ArmWake() {
  io_uring_sqe* const sqe = NewEntry();
  wake_armed_ = sqe != nullptr;
  if (sqe == nullptr) return;
  io_uring_prep_read(sqe, wake_descriptor_, &wake_value_, sizeof(wake_value_), 0);
  io_uring_sqe_set_data64(sqe, kWakeTag);
}

void UringEngine::Flush() {
  while (fatal_error_ == 0 && io_uring_sq_ready(ring_.get()) > 0) {
    ++stats_.enters;
    const int result = io_uring_submit(ring_.get());
    if (result > 0) {
      submit_failures_ = 0;
      continue;
    }
    if (result == -EINTR) continue;
    // Completions have to be taken first, or memory is short: the entries stay in the queue, and
    // Reap comes back to them.
    const bool passes = result == 0 || result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    if (passes && ++submit_failures_ < kMostSubmitFailures) return;
    GiveUp(result == 0 ? EAGAIN : -result);
  }
}

void UringEngine::GiveUp(int error_number) {
  fatal_error_ = error_number;
  DiscardUnsubmitted(error_number);
  for (const unsigned slot : std::exchange(delayed_, {})) Refuse(slot, error_number);
}

void UringEngine::DiscardUnsubmitted(int error_number) {
  // The kernel has not seen these entries yet, so each can become a no-op.
  io_uring_sq& queue = ring_.get()->sq;
  const unsigned ready = io_uring_sq_ready(ring_.get());
  for (unsigned number = queue.sqe_tail - ready; number != queue.sqe_tail; ++number) {
    io_uring_sqe* const sqe = &queue.sqes[number & *queue.kring_mask];
    const std::uint64_t tag = sqe->user_data;
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kIgnoredTag);
    if (tag == kWakeTag) wake_armed_ = false;
    if (tag < slots_.size()) Refuse(static_cast<unsigned>(tag), error_number);
  }
}

std::size_t UringEngine::TakeFinished(std::span<ReadRequest*> finished) {
  const std::size_t count = std::min(finished.size(), finished_.size());
  for (std::size_t number = 0; number < count; ++number) {
    const ReadProgress& progress = slots_[finished_[number]].progress;
    progress.AddTo(&stats_);
    finished[number] = progress.request();
    in_flight_bytes_ -= progress.request()->bytes;
    free_slots_.push_back(finished_[number]);
  }
  in_flight_ -= count;
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void UringEngine::TakeCompletions() {
  io_uring* const ring = ring_.get();
  // A ring that defers its work shows completions only to a thread that asks for them. The kernel
  // sets a flag if there are some, or if the completion queue has overflowed.
  if (io_uring_cq_ready(ring) == 0) {
    io_uring_cqe* cqe = nullptr;
    io_uring_peek_batch_cqe(ring, &cqe, 1);
  }
  io_uring_cqe* cqe = nullptr;
  unsigned head = 0;
  unsigned count = 0;
  io_uring_for_each_cqe(ring, head, cqe) {
    TakeCompletion(*cqe);
    ++count;
  }
  io_uring_cq_advance(ring, count);
  completed_ += count;
}

void UringEngine::TakeCompletion(const io_uring_cqe& cqe) {
  if (cqe.user_data == kWakeTag) {
    wake_armed_ = false;
    return;
  }
  if (cqe.user_data >= slots_.size()) return;
  const auto slot = static_cast<unsigned>(cqe.user_data);
  Continue(slot, slots_[slot].progress.OnResult(cqe.res));
}

Clock::time_point UringEngine::NextDue(Clock::time_point deadline) const {
  for (const unsigned slot : delayed_) deadline = std::min(deadline, slots_[slot].not_before);
  // If the kernel does not know of the wake-up read, a wake-up does not end the wait.
  if (submit_failures_ > 0 || !wake_armed_)
    deadline = std::min(deadline, Clock::now() + kSubmitBackOff);
  return deadline;
}

void UringEngine::WaitUntil(Clock::time_point deadline) {
  io_uring_cqe* cqe = nullptr;
  ++stats_.enters;
  if (deadline == Clock::time_point::max()) {
    io_uring_wait_cqe(ring_.get(), &cqe);
    return;
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
  const std::int64_t nanoseconds = std::max<std::int64_t>(left.count(), 1);
  __kernel_timespec timeout{};
  timeout.tv_sec = nanoseconds / 1000000000;
  timeout.tv_nsec = nanoseconds % 1000000000;
  // Whatever it returns (a signal, the time), the queue is looked at next.
  io_uring_wait_cqes(ring_.get(), &cqe, 1, &timeout, nullptr);
}

std::size_t UringEngine::Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) {
  if (in_flight_ == 0 || finished.empty()) return 0;
  std::size_t count = 0;
  while (true) {
    TakeCompletions();
    ResumeDelayed();
    if (!wake_armed_) ArmWake();
    Flush();
    count = TakeFinished(finished);
    // Acquire: pairs with the release in Wake, for what its caller did before.
    if (count > 0 || woken_.load(std::memory_order_acquire)) break;
    if (Clock::now() >= deadline) break;
    WaitUntil(NextDue(deadline));
  }
  // Acquire: as above, for a wake-up between the two.
  woken_.exchange(false, std::memory_order_acquire);
  return count;
}

void UringEngine::Wake() {
  // Release: pairs with the acquire in Reap. Acquire: nothing; only the first of several wake-ups
  // makes the system call.
  if (woken_.exchange(true, std::memory_order_release)) return;
  const std::uint64_t one = 1;
  while (write(wake_descriptor_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace

Status MakeUringEngine(const IoOptions& options, std::byte* arena_data, std::size_t arena_bytes,
                       std::unique_ptr<ReadEngine>* engine) {
  auto made = std::make_unique<UringEngine>(options);
  const Status status = made->Open(arena_data, arena_bytes);
  if (!status.ok()) return status;
  *engine = std::move(made);
  return {};
}

}  // namespace ringfeed
