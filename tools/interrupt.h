#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace ringfeed::tools {

/// Ctrl-C (and SIGTERM, and SIGHUP, the end of the terminal), each if it is not ignored, for the
/// life of this object. The first one runs `stop` on a thread of its own, so that the work done so
/// far can be reported; the second one ends the process as usual. Make it before other threads that
/// do not block these signals; the thread that made it must destroy it.
///
/// It uses no signal handler: ThreadSanitizer holds a handler back while its thread sleeps in a
/// call that it does not know.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// True after the first signal has come.
  bool requested() const { return signal_.load(std::memory_order_relaxed) != 0; }
  /// The exit status of a run that reports what it did so far: 128 + the signal after SIGTERM and
  /// SIGHUP, which no user at the terminal sent, else `exit_status`.
  int ExitStatus(int exit_status) const;

 private:
  void Watch();

  const std::function<void()> stop_;
  int signals_ = -1;            ///< a signalfd
  int ended_ = -1;              ///< an eventfd: the destructor waits for the watcher
  sigset_t mask_before_ = {};   ///< of the thread that made this
  std::atomic<int> signal_{0};  ///< the first one; a value alone: relaxed on both sides
  std::jthread watcher_;
};

}  // namespace ringfeed::tools
