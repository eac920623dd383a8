#pragma once

#include <csignal>

namespace ringfeed {

/// Keeps the process's signals from the calling thread as long as it lives, and so from the threads
/// that are started meanwhile, for good: they inherit the mask. What a program does on SIGINT or
/// SIGTERM is a matter of its own threads. Faults of a thread's own (SIGSEGV, SIGBUS, …) still
/// reach it: the mappings of files that shrink depend on that. To be destroyed by the thread that
/// made it.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ringfeed
