#include "base/machine/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/calls_end.h"
#include "base/machine/signals_blocked.h"

namespace ringfeed {

void ForEachInParallel(std::size_t count, std::size_t threads,
                       const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};  // joining the threads publishes what they did
  std::mutex mutex;                  // guards what follows
  std::exception_ptr failure;
  const CallsEnd::Asked should_end = CallsEnd::OfThread();
  const auto do_some = [&]() noexcept {
    try {
      const CallsEnd end(should_end);
      for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        work(i);
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      const SignalsBlocked blocked;
      for (std::size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(do_some);
    } catch (const std::system_error&) {
      // No more threads can be started: those that exist do all of it.
    }
    do_some();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace ringfeed
