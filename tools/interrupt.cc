#include "tools/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/machine/thread_name.h"
#include "base/machine/thread_start.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

// The signals that would end the process. An ignored one stays ignored: a shell makes its
// background jobs ignore Ctrl-C, nohup the end of the terminal; but a signalfd would also get
// these.
sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    const bool known = sigaction(number, nullptr, &action) == 0;
    if (!known || action.sa_handler != SIG_IGN) sigaddset(&signals, number);
  }
  return signals;
}

int Checked(int descriptor, const char* what) {
  if (descriptor < 0) throw Error(StatusFromErrno(errno, what));
  return descriptor;
}

}  // namespace

Interrupt::Interrupt(std::function<void()> stop) : stop_(std::move(stop)) {
  const sigset_t signals = Signals();
  signals_ = Checked(signalfd(-1, &signals, SFD_CLOEXEC), "signalfd");
  ended_ = Checked(eventfd(0, EFD_CLOEXEC), "eventfd");
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
  watcher_ = StartThread("the thread that waits for signals", [this] { Watch(); });
}

Interrupt::~Interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(ended_, &one, sizeof one);  // an eventfd takes it
  watcher_.join();
  close(signals_);
  close(ended_);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

int Interrupt::ExitStatus(int exit_status) const {
  constexpr int kEndedBySignal = 128;  // as a shell has it
  const int signal = signal_.load(std::memory_order_relaxed);
  return signal == SIGTERM || signal == SIGHUP ? kEndedBySignal + signal : exit_status;
}

void Interrupt::Watch() {
  NameThisThread("ringfeed-signal");
  std::array<pollfd, 2> ready{{{signals_, POLLIN, 0}, {ended_, POLLIN, 0}}};
  while (poll(ready.data(), ready.size(), -1) < 0) {
    if (errno != EINTR) return;
  }
  if (ready[0].revents == 0) return;
  signalfd_siginfo taken{};
  [[maybe_unused]] const ssize_t got = read(signals_, &taken, sizeof taken);  // it was ready
  signal_.store(static_cast<int>(taken.ssi_signo), std::memory_order_relaxed);
  // From now on there is a thread that takes them as usual.
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  stop_();
}

}  // namespace ringfeed::tools
