#include "tools/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};
constexpr std::uint64_t kSignalled = 1;
constexpr std::uint64_t kEnded = std::uint64_t{1} << 32;

// What the handler touches: a signal handler has no other way to its object.
std::atomic<bool> signalled{false};
std::atomic<int> event_descriptor{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void Notify(std::uint64_t what) {
  [[maybe_unused]] const ssize_t written =
      write(event_descriptor.load(), &what, sizeof what);  // an eventfd takes it whole
}

void OnSignal(int) {
  const int saved_errno = errno;
  signalled.store(true);
  Notify(kSignalled);
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  errno = saved_errno;
}

}  // namespace

Interrupt::Interrupt(std::function<void()> stop) : stop_(std::move(stop)) {
  const int descriptor = eventfd(0, EFD_CLOEXEC);
  if (descriptor < 0) throw Error(StatusFromErrno(errno, "eventfd"));
  event_descriptor.store(descriptor);
  signalled.store(false);
  watcher_ = std::thread([this] { Watch(); });
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kSignals) {
    sigaction(signal, &action, nullptr);
    sigaddset(&signals, signal);
  }
  // The watcher, made before this, is to take them: this thread may sleep in a futex, where
  // ThreadSanitizer keeps a signal back until the sleep ends.
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
}

Interrupt::~Interrupt() {
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  Notify(kEnded);
  watcher_.join();
  close(event_descriptor.exchange(-1));
}

bool Interrupt::requested() const { return signalled.load(); }

void Interrupt::Watch() {
  for (;;) {
    std::uint64_t events = 0;
    if (read(event_descriptor.load(), &events, sizeof events) != sizeof events) {
      if (errno == EINTR) continue;
      return;
    }
    if (events >= kEnded) return;
    stop_();
  }
}

}  // namespace ringfeed::tools
