#pragma once

#include <functional>
#include <string>
#include <thread>

namespace ringfeed {

/// Something was delivered, asked or made: whoever waits does not wait in vain. Any thread.
void NoteProgress();
/// The consumer's read came back: user's functions that are called without an end are no progress.
void NoteRead();

/// Looks, from a thread of its own, whether a process goes on. It hangs where nothing was noted
/// while all its threads slept for a few seconds, or while they used more seconds of CPU time than
/// any step needs. A machine that is busy with others counts for neither.
class ProgressWatch {
 public:
  /// `on_hang` is called once, with what each thread does, and must end the process.
  explicit ProgressWatch(std::function<void(const std::string& threads)> on_hang);
  ~ProgressWatch() = default;
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace ringfeed
