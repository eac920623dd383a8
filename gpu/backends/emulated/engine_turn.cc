#include "gpu/backends/emulated/engine_turn.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ringfeed {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

// Every outcome of the system call is a reason to look again.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns) {
  const timespec most{.tv_sec = most_ns / kNanosPerSecond, .tv_nsec = most_ns % kNanosPerSecond};
  (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &most, nullptr, 0);
}

void WakeAll(const std::atomic<std::uint32_t>& word) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ringfeed
