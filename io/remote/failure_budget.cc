#include "io/remote/failure_budget.h"

#include <string>

namespace ringfeed {

Status FailureBudget::OnFailure(int tries, std::chrono::milliseconds patience,
                                Clock::time_point now, const Status& last) {
  const std::lock_guard lock(mutex_);
  const auto window = kPatiences * patience;
  if (looked_ == Clock::time_point()) {
    looked_ = now;
  } else if (now - failed_ >= window) {  // what failed before is long over
    looked_ = now;
    failures_ = counted_ = 0;
    successes_.store(0, std::memory_order_relaxed);
  }
  failed_ = now;
  ++failures_;
  if (tries <= kCounted) ++counted_;
  if (now - looked_ < window) return {};
  const std::uint64_t successes = successes_.exchange(0, std::memory_order_relaxed);
  const std::uint64_t failures = failures_;
  const bool is_spent = counted_ > kFree && counted_ > successes;
  looked_ = now;
  failures_ = 0;
  counted_ = 0;
  if (!is_spent) return {};
  return Status(StatusCode::kResourceExhausted,
                "the store failed " + std::to_string(failures) + " of " +
                    std::to_string(failures + successes) + " requests within " +
                    std::to_string(kPatiences) +
                    " times remote_patience_ms; the last failure: " + last.message());
}

}  // namespace ringfeed
