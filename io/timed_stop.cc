#include "io/timed_stop.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/machine/thread_name.h"
#include "base/machine/thread_start.h"

namespace ringfeed {

TimedStop::TimedStop(const std::stop_token& other, std::chrono::duration<double> after)
    : passes_on_(other, [this] { stop_.request_stop(); }) {
  // A longer one would overflow the clock.
  constexpr std::chrono::duration<double> kLongest{1e9};
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(after, kLongest));
  thread_ = StartThread("a timer's thread",
                        [this, deadline](const std::stop_token& ended) { Wait(ended, deadline); });
}

void TimedStop::Wait(const std::stop_token& ended, Clock::time_point deadline) {
  NameThisThread("ringfeed-timer");
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  (void)wake.wait_until(lock, ended, deadline, [] { return false; });
  if (ended.stop_requested()) return;
  expired_.store(true, std::memory_order_relaxed);  // before the stop, which is seen with it
  stop_.request_stop();
}

}  // namespace ringfeed
