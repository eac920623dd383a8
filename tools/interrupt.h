#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace ringfeed::tools {

/// Ctrl-C (and SIGTERM) for the life of this object: the first one runs `stop` on a thread of its
/// own, so that what was done so far can be reported; the second one ends the process as usual.
/// One at a time in a process, ended by the thread that made it: that thread, and those it starts
/// meanwhile, do not take the signals themselves.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// True once the first signal has come.
  bool requested() const;

 private:
  void Watch();

  std::function<void()> stop_;
  std::thread watcher_;
  sigset_t mask_before_ = {};
};

}  // namespace ringfeed::tools
