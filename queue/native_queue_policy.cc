#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "ringfeed/detail/queue_policy.h"

namespace ringfeed {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t));

// The kernel compares 32 bits; the epoch is the upper half of the word. Only the kernel reads the
// half alone; user code always accesses the whole word.
const std::uint32_t* EpochHalf(const std::atomic<std::uint64_t>& word) noexcept {
  constexpr std::size_t kIndex = std::endian::native == std::endian::little ? 1 : 0;
  return reinterpret_cast<const std::uint32_t*>(&word) + kIndex;
}

// A time of CLOCK_MONOTONIC; the kernel refuses negative times, and zero is past as well.
timespec AbsoluteTime(Deadline deadline) noexcept {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  timespec time{};
  time.tv_sec = nanos > 0 ? static_cast<time_t>(nanos / 1'000'000'000) : 0;
  time.tv_nsec = nanos > 0 ? static_cast<long>(nanos % 1'000'000'000) : 0;
  return time;
}

}  // namespace

std::int64_t DefaultSpinNanos() noexcept {
  static const std::int64_t spin = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    // More CPUs than the set can hold (EINVAL) are more than one.
    const bool single = sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
    return single ? std::int64_t{0} : kAdaptiveSpin;
  }();
  return spin;
}

FutexResult NativeQueuePolicy::FutexWait(const Atomic<std::uint64_t>& word, std::uint32_t epoch,
                                         Deadline deadline) noexcept {
  timespec until{};
  const timespec* timeout = nullptr;
  if (deadline != kNoDeadline) {
    until = AbsoluteTime(deadline);
    timeout = &until;
  }
  for (;;) {
    const long rc = syscall(SYS_futex, EpochHalf(word), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
                            epoch, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (rc == 0) return FutexResult::kWoken;
    if (errno == EAGAIN) return FutexResult::kChanged;
    if (errno == ETIMEDOUT) return FutexResult::kTimedOut;
    if (errno != EINTR) return FutexResult::kWoken;  // the caller looks again in any case
  }
}

void NativeQueuePolicy::SleepUntil(Deadline deadline) noexcept {
  const timespec until = AbsoluteTime(deadline);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void NativeQueuePolicy::FutexWake(const Atomic<std::uint64_t>& word, int count) noexcept {
  syscall(SYS_futex, EpochHalf(word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

}  // namespace ringfeed
