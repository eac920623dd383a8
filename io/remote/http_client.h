#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include "io/remote/failure_budget.h"
#include "io/remote/http.h"
#include "io/remote/object_store.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Sends requests of a few bytes in the caller's thread, by libcurl: listings, heads, credentials.
/// Connections are kept for the next call of any thread. An answer's body has at most 64 MiB. A
/// CallsEnd of the thread ends them.
const HttpCall& BlockingHttp();

/// How failures of one request are met: the same wherever requests are sent.
class RetryRule {
 public:
  using Clock = std::chrono::steady_clock;

  /// `budget`: of the reader that the request is of; null: none.
  explicit RetryRule(std::int64_t patience_ms, FailureBudget* budget = nullptr)
      : patience_(patience_ms), budget_(budget) {}

  /// Something came: the patience and the pauses begin anew.
  void Progress() { tries_ = 0; }
  /// The answer is whole.
  void Succeed() {
    if (budget_ != nullptr) budget_->OnSuccess();
  }
  /// Meets a failure of the kind that passes, of the object `name`. OK: the request is to be sent
  /// again at *when. Else what the read fails with, kResourceExhausted since it says nothing about
  /// the data: the patience, which begins with the first failure, has ended, or the budget is
  /// spent. Tells once in a process that a store is waited for. `retry_after`: the header's value,
  /// or "".
  Status Meet(const Status& failure, std::string_view name, std::string_view retry_after,
              Clock::time_point now, Clock::time_point* when);
  int tries() const { return tries_; }
  std::chrono::milliseconds patience() const { return patience_; }

 private:
  std::chrono::milliseconds patience_;
  FailureBudget* budget_;
  int tries_ = 0;
  Clock::time_point first_failure_;
};

/// How often a request is prepared anew because an answer told something (ObjectStore::Learn):
/// another region, then other credentials, then once more.
inline constexpr int kMostLessons = 3;

/// How long a connection may give no byte: half of the patience, at least a second.
std::int64_t IdleSeconds(std::int64_t patience_ms);
/// Whether an answer says "later": 408, 429, and 5xx but 501 and 505.
bool IsPassing(int status);
/// Whether a failure to get an answer may pass: not a name or a certificate that is wrong.
bool MayPass(const Status& failure);
/// What a CallsEnd of the thread ended.
Status CallsEnded();

/// How often a good answer may make no sense before the server is believed to mean it.
inline constexpr int kMostOddAnswers = 4;

/// Sends what `prepare` makes, anew for each try, until the answer is final: 2xx that `check`
/// accepts, or a failure that does not pass, which becomes the store's words. An answer that
/// `check` fails is asked for anew; the last of kMostOddAnswers is kUnsupported, and one that
/// `check` calls kResourceExhausted is met as a 5xx. Blocks for as long as the patience of `rule`;
/// a CallsEnd of the thread ends it.
Status SendPatiently(ObjectStore* store, RetryRule rule,
                     const std::function<Status(HttpRequest*)>& prepare,
                     const std::function<Status(const HttpResponse&)>& check,
                     HttpResponse* response);

}  // namespace ringfeed
