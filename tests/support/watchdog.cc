#include "tests/support/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace ringfeed {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlowness = 10;
#else
constexpr int kSlowness = 1;
#endif

class Watchdog final : public testing::EmptyTestEventListener {
 public:
  explicit Watchdog(std::chrono::seconds limit) : limit_(limit) {}

  void OnTestStart(const testing::TestInfo& info) override {
    name_ = std::string(info.test_suite_name()) + "." + info.name();
    over_ = false;
    watching_ = false;
    thread_ = std::thread([this] { Watch(); });
    // A test may fork: a thread that is being born then may hold a lock of a sanitizer's allocator,
    // which nobody in the child would ever release.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return watching_; });
  }
  void OnTestEnd(const testing::TestInfo& /*info*/) override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void Watch() {
    std::unique_lock lock(mutex_);
    watching_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, limit_, [this] { return over_; })) return;
    std::fprintf(stderr, "watchdog: %s hangs\n", name_.c_str());
    std::abort();
  }

  const std::chrono::seconds limit_;
  std::string name_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  bool over_ = false;
};

}  // namespace

void InstallWatchdog(int seconds) {
  // The listener belongs to the framework from here on.
  testing::UnitTest::GetInstance()->listeners().Append(
      new Watchdog(std::chrono::seconds(seconds * kSlowness)));
}

}  // namespace ringfeed
