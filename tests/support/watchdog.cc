#include "tests/support/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/stress_scale.h"

namespace ringfeed {

namespace {

constexpr unsigned kSlowness = kSanitized ? 10 : 1;

// The kernel's alarm, not a thread: some tests fork, and a sanitizer's allocator does not survive
// that where another thread is in it. No handler either, which a sanitizer might hold back.
class Watchdog final : public testing::EmptyTestEventListener {
 public:
  explicit Watchdog(unsigned seconds) : seconds_(seconds) {}

  void OnTestStart(const testing::TestInfo& /*info*/) override {
    alarm(static_cast<unsigned>(seconds_ * Crowding()));
  }
  void OnTestEnd(const testing::TestInfo& /*info*/) override { alarm(0); }

 private:
  const unsigned seconds_;
};

}  // namespace

void InstallWatchdog(unsigned seconds) {
  // The listener belongs to the framework from here on.
  testing::UnitTest::GetInstance()->listeners().Append(new Watchdog(seconds * kSlowness));
}

}  // namespace ringfeed
