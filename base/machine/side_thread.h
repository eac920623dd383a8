#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace ringfeed {

/// A thread that does one work again and again, and is let go if the work does not return in time.
/// One thread at a time calls it.
class SideThread {
 public:
  /// Starts it. `work` throws nothing, and owns all that it uses: a thread that was let go may use
  /// it until the process ends. Throws Error(kResourceExhausted), which begins with `who`, if there
  /// is no thread.
  SideThread(const std::string& who, std::function<void()> work);
  /// Waits for the thread, unless it was let go.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// Does the work once and waits for it. False after `timeout`: the thread was let go, and ends
  /// when the work returns. Run is not called again then.
  bool Run(std::chrono::milliseconds timeout);

 private:
  struct Shared;
  static void Serve(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  std::jthread thread_;
};

}  // namespace ringfeed
