#include "base/machine/cpu_time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace ringfeed {
namespace {

void Compute(std::int64_t nanos) {
  const std::int64_t until = ThreadCpuNanos() + nanos;
  while (ThreadCpuNanos() < until) {
  }
}

TEST(CpuTimeTest, AThreadsIsItsOwnAndTheProcesssIsOfAll) {
  constexpr std::int64_t kNanos = 20'000'000;
  const std::int64_t thread_ns = ThreadCpuNanos();
  const std::int64_t process_ns = ProcessCpuNanos();
  std::thread(Compute, kNanos).join();
  EXPECT_LT(ThreadCpuNanos() - thread_ns, kNanos);
  EXPECT_GE(ProcessCpuNanos() - process_ns, kNanos);
  Compute(kNanos);
  EXPECT_GE(ThreadCpuNanos() - thread_ns, kNanos);
  EXPECT_GE(ProcessCpuNanos() - process_ns, 2 * kNanos);
  EXPECT_NEAR(ThreadCpuSeconds(), static_cast<double>(ThreadCpuNanos()) * 1e-9, 1e-2);
}

}  // namespace
}  // namespace ringfeed
