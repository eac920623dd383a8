#pragma once

#include <csignal>
#include <initializer_list>

namespace ringfeed {

/// Keeps the process's signals from the calling thread as long as it lives, and so from the threads
/// that are started meanwhile, for good: they inherit the mask. What a program does on SIGINT or
/// SIGTERM is a matter of its own threads. Faults of a thread's own (SIGSEGV, SIGBUS, …) still
/// reach it, also where the program has blocked them: the mappings of files that shrink depend on
/// that. To be destroyed by the thread that made it.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept : before_() {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&signals, fault);
    }
    pthread_sigmask(SIG_SETMASK, &signals, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ringfeed
