#include "tests/combinations/progress_watch.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {

namespace {

constexpr std::chrono::milliseconds kLook{200};
constexpr int kAsleepLooks = kSanitized ? 50 : 20;
constexpr double kBusySeconds = kSanitized ? 60 : 8;
constexpr double kVainSeconds = kSanitized ? 120 : 20;

// Relaxed: a count that is compared with itself.
std::atomic<std::uint64_t> progress{0};
std::atomic<std::uint64_t> reads{0};

struct ThreadState {
  std::string name;
  char state = '?';
  std::string waits;
};

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Of all threads but the calling one.
std::vector<ThreadState> OtherThreads() {
  std::vector<ThreadState> threads;
  const auto own = std::to_string(syscall(SYS_gettid));
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return threads;
  while (const dirent* entry = readdir(tasks)) {
    const std::string id = entry->d_name;
    if (id.front() == '.' || id == own) continue;
    const std::string folder = "/proc/self/task/" + id + "/";
    const std::string stat = FirstLine(folder + "stat");
    const std::size_t begin = stat.find('(');
    const std::size_t end = stat.rfind(')');
    if (begin == std::string::npos || end == std::string::npos || end + 2 >= stat.size()) continue;
    threads.push_back({id + " " + stat.substr(begin, end - begin + 1), stat[end + 2],
                       FirstLine(folder + "wchan") + " syscall " + FirstLine(folder + "syscall")});
  }
  closedir(tasks);
  return threads;
}

std::string Describe(const std::vector<ThreadState>& threads) {
  std::string text;
  for (const ThreadState& thread : threads) {
    text +=
        "  thread " + thread.name + " " + thread.state + " " + thread.waits.substr(0, 60) + "\n";
  }
  return text;
}

bool AllSleep(const std::vector<ThreadState>& threads) {
  for (const ThreadState& thread : threads) {
    if (thread.state != 'S') return false;
  }
  return true;
}

/// How long nothing was noted of one kind.
class Silence {
 public:
  explicit Silence(const std::atomic<std::uint64_t>& count) : count_(count) { (void)Ends(); }

  bool Ends() {
    const std::uint64_t now = count_.load(std::memory_order_relaxed);
    if (now == seen_) return false;
    seen_ = now;
    cpu_then_ = ProcessCpuSeconds();
    return true;
  }
  double BusySeconds() const { return ProcessCpuSeconds() - cpu_then_; }

 private:
  const std::atomic<std::uint64_t>& count_;
  std::uint64_t seen_ = ~std::uint64_t{0};
  double cpu_then_ = 0;
};

void Watch(const std::stop_token& stop, const std::function<void(const std::string&)>& on_hang) {
  Silence silence(progress);
  Silence unread(reads);
  int asleep = 0;
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(kLook);
    (void)unread.Ends();
    const double crowding = Crowding();
    const bool vain = unread.BusySeconds() > kVainSeconds * crowding;
    if (silence.Ends()) asleep = 0;
    const auto threads = OtherThreads();
    // One that looks at something from time to time may be seen awake; one that gets no processor
    // is seen awake each time.
    asleep = AllSleep(threads) ? asleep + 1 : std::max(0, asleep - 2);
    const bool sleeps = asleep >= kAsleepLooks * crowding;
    if (!vain && !sleeps && silence.BusySeconds() < kBusySeconds * crowding) continue;
    on_hang((sleeps ? "all threads sleep:\n"
                    : (vain ? "called in vain:\n" : "busy without an end:\n")) +
            Describe(threads));
    return;
  }
}

}  // namespace

void NoteProgress() { progress.fetch_add(1, std::memory_order_relaxed); }

void NoteRead() {
  NoteProgress();
  reads.fetch_add(1, std::memory_order_relaxed);
}

ProgressWatch::ProgressWatch(std::function<void(const std::string& threads)> on_hang)
    : thread_(
          [on_hang = std::move(on_hang)](const std::stop_token& stop) { Watch(stop, on_hang); }) {}

}  // namespace ringfeed
