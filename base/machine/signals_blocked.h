#pragma once

#include <csignal>
#include <initializer_list>

namespace ringfeed {

/// Blocks the process's signals in the calling thread for as long as the object lives. Threads that
/// start meanwhile inherit the mask and keep it for good. What a program does on SIGINT or SIGTERM
/// is a matter for its own threads. A thread's own faults (SIGSEGV, SIGBUS, …) still reach it, even
/// if the program has blocked them: mappings of files that shrink depend on that. The thread that
/// made it must destroy it.
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
