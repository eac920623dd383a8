#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

namespace ringfeed {

/// What each other thread of the process has done so far. It tells a thread that sleeps from a
/// thread that has work and gets no processor, which may last for seconds on an overloaded machine.
///
/// Linux tells it by the thread's state and its running time in clock ticks, of 10 ms mostly
/// (proc_pid_stat(5)). If it does not tell, no thread was passed over.
class ProcessorTurns {
 public:
  /// Asks for these; how tests put in their own.
  using Look = std::function<ProcessorTurns()>;

  /// As it is now, without the calling thread. Reads a file for each thread.
  static ProcessorTurns Now();

  /// Notes a thread. `stat` is what its file says; what cannot be understood is left out.
  void Add(pid_t thread, std::string_view stat);

  /// Whether a thread did not sleep, neither then nor at `later`, and has not run for a tick
  /// between the two: it waited for a processor, or something stopped it (a debugger, a page that
  /// is on a disk).
  bool SomeonePassedOverUntil(const ProcessorTurns& later) const;

 private:
  std::map<pid_t, std::uint64_t> ready_;  ///< threads that do not sleep, with the ticks they ran
};

}  // namespace ringfeed
