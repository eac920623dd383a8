#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ringfeed {

/// Lets the system calls of io_uring fail with `error_number` from now on, in this process and its
/// children. False where seccomp filters cannot be installed.
bool ForbidUring(int error_number);

/// Lets io_uring_enter fail with `error_number` where it is to hand entries in, from now on, in
/// this thread and those that it starts; what is under way still ends. False as above.
bool ForbidUringSubmits(int error_number);

/// Gives root's rights up for those of `nobody`; nothing where the process is no root. False
/// where it fails.
bool DropPrivileges();

/// Sets RLIMIT_MEMLOCK, soft and hard.
bool LimitMemlock(std::size_t bytes);

/// Applies what the environment asks for, before the first test runs: RINGFEED_TEST_SECCOMP=EPERM
/// or ENOSYS, RINGFEED_TEST_MEMLOCK=<bytes>, RINGFEED_TEST_UNPRIVILEGED=1. Throws where it cannot
/// be done.
void RestrictByEnvironment();

/// Whether a child of fork may start threads: ThreadSanitizer ends it for that.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadsAfterFork = false;
#else
inline constexpr bool kThreadsAfterFork = true;
#endif

/// Whether a process may fork beside its threads: a lock that one of them holds in
/// AddressSanitizer's run time stays locked in the child.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kForkBesideThreads = false;
#else
inline constexpr bool kForkBesideThreads = true;
#endif

/// What a child process that ran `body` printed and how it ended. `body` returns the exit status;
/// it must not return into the test (no gtest assertions in it).
struct ChildResult {
  bool signalled = false;
  int status = 0;    ///< exit status, or the signal's number
  std::string text;  ///< what `body` left in the string it was given
};
ChildResult RunInChild(const std::function<int(std::string*)>& body);

}  // namespace ringfeed
