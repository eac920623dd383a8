#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <new>

namespace ringfeed {

/// Another process that stops one thread of this one for a while, as a debugger does: for the
/// others that thread is one that gets no processor. Make it while there is one thread.
class ThreadStopper {
 public:
  ThreadStopper() {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    shared_ = new (memory) Shared;
    child_ = fork();
    if (child_ == 0) Serve();
    // Where the system lets only a process's parents trace it.
    if (child_ > 0) prctl(PR_SET_PTRACER, child_, 0, 0, 0);
  }
  ~ThreadStopper() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      (void)waitpid(child_, nullptr, 0);
    }
    if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
  }
  ThreadStopper(const ThreadStopper&) = delete;
  ThreadStopper& operator=(const ThreadStopper&) = delete;

  /// Comes back after the calling thread was stopped for so long; at once and false where the
  /// system refuses.
  bool StopMe(std::chrono::milliseconds time) {
    if (child_ <= 0) return false;
    shared_->time_ms = static_cast<int>(time.count());
    shared_->thread = gettid();
    // Order: release and acquire of `phase` on both sides: what is beside it is seen.
    shared_->phase.store(kAsked, std::memory_order_release);
    int phase = kAsked;
    // It does not sleep: a thread that sleeps waits for no processor.
    while (phase == kAsked) phase = shared_->phase.load(std::memory_order_acquire);
    return phase == kDone;
  }

 private:
  enum Phase { kIdle, kAsked, kDone, kRefused };
  struct Shared {
    std::atomic<int> phase{kIdle};
    pid_t thread = 0;
    int time_ms = 0;
  };

  [[noreturn]] void Serve() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) {
      if (shared_->phase.load(std::memory_order_acquire) == kAsked) {
        shared_->phase.store(Stop() ? kDone : kRefused, std::memory_order_release);
      }
      usleep(200);
    }
  }
  bool Stop() const {
    if (ptrace(PTRACE_SEIZE, shared_->thread, nullptr, nullptr) != 0) return false;
    const bool stopped = ptrace(PTRACE_INTERRUPT, shared_->thread, nullptr, nullptr) == 0 &&
                         waitpid(shared_->thread, nullptr, __WALL) == shared_->thread;
    if (stopped) usleep(static_cast<useconds_t>(shared_->time_ms) * 1000);
    return ptrace(PTRACE_DETACH, shared_->thread, nullptr, nullptr) == 0 && stopped;
  }

  Shared* shared_ = nullptr;
  pid_t child_ = -1;
};

}  // namespace ringfeed
