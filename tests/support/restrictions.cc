#include "tests/support/restrictions.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <stdexcept>

namespace ringfeed {

namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the filter needs this architecture's name"
#endif

// io_uring_setup, _enter and _register have these numbers everywhere.
constexpr unsigned kFirstCall = 425;
constexpr unsigned kEnterCall = 426;
constexpr unsigned kLastCall = 427;
constexpr unsigned kNobody = 65534;

}  // namespace

namespace {

unsigned Refusal(int error_number) {
  return static_cast<unsigned>(SECCOMP_RET_ERRNO) | static_cast<unsigned>(error_number);
}

bool Install(std::span<sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

bool ForbidUring(int error_number) {
  std::array<sock_filter, 7> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstCall, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kLastCall, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, Refusal(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return Install(filter);
}

bool ForbidUringSubmits(int error_number) {
  // The second argument's lower half: how many entries are handed in.
  constexpr std::size_t kToSubmit = offsetof(seccomp_data, args) + sizeof(__u64) +
                                    (std::endian::native == std::endian::little ? 0 : 4);
  std::array<sock_filter, 8> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kEnterCall, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kToSubmit),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, Refusal(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return Install(filter);
}

bool DropPrivileges() {
  if (geteuid() != 0) return true;
  return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0 &&
         // Changing the user makes /proc/self root's; being dumpable gives it back.
         prctl(PR_SET_DUMPABLE, 1) == 0;
}

bool LimitMemlock(std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

void RestrictByEnvironment() {
  if (const char* bytes = std::getenv("RINGFEED_TEST_MEMLOCK"); bytes != nullptr) {
    if (!LimitMemlock(std::stoul(bytes))) throw std::runtime_error("cannot limit locked memory");
  }
  if (std::getenv("RINGFEED_TEST_UNPRIVILEGED") != nullptr && !DropPrivileges()) {
    throw std::runtime_error("cannot become nobody");
  }
  if (const char* name = std::getenv("RINGFEED_TEST_SECCOMP"); name != nullptr) {
    const int error = std::string(name) == "ENOSYS" ? ENOSYS : EPERM;
    if (!ForbidUring(error)) throw std::runtime_error("cannot install a seccomp filter");
  }
}

ChildResult RunInChild(const std::function<int(std::string*)>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    close(ends[0]);
    std::string text;
    int status = 125;
    try {
      status = body(&text);
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (write(ends[1], text.data(), text.size()) < 0) status = 126;
    // No exit handlers: what they would end belongs to the parent.
    _exit(status);
  }
  close(ends[1]);
  ChildResult result;
  std::array<char, 4096> piece{};
  ssize_t count = 0;
  while ((count = read(ends[0], piece.data(), piece.size())) != 0) {
    if (count > 0) result.text.append(piece.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.signalled = WIFSIGNALED(status);
  result.status = result.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace ringfeed
