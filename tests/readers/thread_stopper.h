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

  /// Readies the calling thread, once; false where the system refuses. Blocks until it is.
  bool Attach() {
    if (child_ <= 0) return false;
    shared_->thread = gettid();
    // Order: release and acquire of `phase` on both sides: what is beside it is seen.
    shared_->phase.store(kAsked, std::memory_order_release);
    while (phase() == kAsked) usleep(200);
    return phase() == kAttached;
  }
  /// Stops the calling thread, which is attached, at once, and comes back after so long. Once.
  void StopMe(std::chrono::milliseconds time) {
    shared_->time_ms.store(static_cast<int>(time.count()), std::memory_order_release);
    // A signal stops a thread that is traced before it goes on, however late its tracer hears.
    (void)tgkill(getpid(), gettid(), kStop);
  }

 private:
  static constexpr int kStop = SIGURG;  // ignored, where nobody traces
  enum Phase { kIdle, kAsked, kAttached, kRefused };
  struct Shared {
    std::atomic<int> phase{kIdle};
    pid_t thread = 0;
    std::atomic<int> time_ms{0};
  };

  int phase() const { return shared_->phase.load(std::memory_order_acquire); }

  [[noreturn]] void Serve() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (phase() != kAsked) usleep(200);
    const bool attached = ptrace(PTRACE_SEIZE, shared_->thread, nullptr, nullptr) == 0;
    shared_->phase.store(attached ? kAttached : kRefused, std::memory_order_release);
    if (attached) StopOnce();
    while (true) pause();
  }
  void StopOnce() const {
    const pid_t thread = shared_->thread;
    int status = 0;
    while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
      const int signal = WSTOPSIG(status);
      if (signal == kStop) {
        usleep(static_cast<useconds_t>(shared_->time_ms.load(std::memory_order_acquire)) * 1000);
        (void)ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
        return;
      }
      (void)ptrace(PTRACE_CONT, thread, nullptr, signal);  // somebody else's
    }
  }

  Shared* shared_ = nullptr;
  pid_t child_ = -1;
};

}  // namespace ringfeed
