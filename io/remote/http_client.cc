#include "io/remote/http_client.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/calls_end.h"
#include "base/log.h"
#include "base/per_process.h"
#include "io/remote/address.h"
#include "io/remote/curl_handle.h"
#include "io/remote/idle_list.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostBodyBytes = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{5000};
/// Failures in a row, or their time, that are no news.
constexpr int kTriesInSilence = 4;
constexpr std::chrono::seconds kSilence{1};

IdleList<CurlHandle>& IdleHandles() {
  static constinit PerProcess<IdleList<CurlHandle>> idle;
  return idle.Get();
}

bool ShouldEnd() {
  const CallsEnd::Asked should_end = CallsEnd::OfThread();
  return should_end && should_end();
}

// libcurl calls it about once a second, while it waits, too.
int Progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return ShouldEnd() ? 1 : 0; }

/// Pauses until then. False if the calls of this thread should end.
bool PauseUntil(RetryRule::Clock::time_point when) {
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  for (auto now = RetryRule::Clock::now(); now < when; now = RetryRule::Clock::now()) {
    if (ShouldEnd()) return false;
    std::this_thread::sleep_until(std::min(when, now + kBetweenLooks));
  }
  return true;
}

struct Body {
  std::string bytes;
  std::size_t enough = 0;
  bool is_cut = false;
};

std::size_t TakeBody(char* data, std::size_t size, std::size_t count, void* into) {
  auto* const body = static_cast<Body*>(into);
  const std::size_t bytes = std::min(size * count, body->enough - body->bytes.size());
  body->bytes.append(data, bytes);
  body->is_cut = bytes < size * count;
  return bytes;
}

Status Call(const HttpRequest& request, HttpResponse* response) {
  std::unique_ptr<CurlHandle> handle = IdleHandles().Take();
  if (handle == nullptr) handle = std::make_unique<CurlHandle>();
  handle->Start(request,
                request.idle_s != 0 ? static_cast<long>(request.idle_s) : CurlHandle::kIdleSeconds);
  Body body{{}, request.enough_bytes != 0 ? request.enough_bytes : kMostBodyBytes};
  curl_easy_setopt(handle->get(), CURLOPT_WRITEFUNCTION, TakeBody);
  curl_easy_setopt(handle->get(), CURLOPT_WRITEDATA, &body);
  curl_easy_setopt(handle->get(), CURLOPT_XFERINFOFUNCTION, Progress);
  curl_easy_setopt(handle->get(), CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(handle->get());
  *response = handle->head();
  response->body = std::move(body.bytes);
  Status status = code == CURLE_ABORTED_BY_CALLBACK ? CallsEnded() : handle->Failure(code);
  if (body.is_cut) {
    status = request.enough_bytes != 0
                 ? Status()
                 : Status(StatusCode::kDamaged, "the answer has more than 64 MiB");
  }
  IdleHandles().Give(std::move(handle));
  return status;
}

// Threads that failed together do not come back together.
std::chrono::milliseconds Jittered(std::chrono::milliseconds pause) {
  const std::int64_t chance = RetryRule::Clock::now().time_since_epoch().count();
  return pause / 2 + std::chrono::milliseconds(chance % (pause.count() + 1));
}

}  // namespace

const HttpCall& BlockingHttp() {
  static const HttpCall call = Call;
  return call;
}

Status CallsEnded() { return Status(StatusCode::kCancelled, "reading was stopped meanwhile"); }

Status RetryRule::Meet(const Status& failure, std::string_view name, std::string_view retry_after,
                       Clock::time_point now, Clock::time_point* when) {
  constexpr int kMostDoublings = 10;
  if (tries_++ == 0) first_failure_ = now;
  const Clock::time_point end = first_failure_ + patience_;
  const std::string patience = std::to_string(patience_.count()) + " ms (remote_patience_ms)";
  if (now >= end) {
    return Status(StatusCode::kResourceExhausted, "the store gave no answer that helps for " +
                                                      patience +
                                                      "; the last failure: " + failure.message());
  }
  auto pause =
      Jittered(std::min(kLongestPause, kFirstPause * (1 << std::min(tries_ - 1, kMostDoublings))));
  std::int64_t seconds = 0;
  const auto [rest, error] =
      std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), seconds);
  if (error == std::errc() && seconds > 0) {
    pause =
        std::max(pause, std::chrono::milliseconds(1000 * std::min<std::int64_t>(seconds, 3600)));
  }
  *when = std::min(now + pause, end);
  if (tries_ >= kTriesInSilence || now - first_failure_ >= kSilence) {
    Tell(LogLevel::kWarn, "a store is waited for",
         std::string(name) + " cannot be read now (" + failure.message() +
             "): it is asked for again, for up to " + patience);
  }
  return budget_ == nullptr ? Status() : budget_->OnFailure(tries_, patience_, now, failure);
}

std::int64_t IdleSeconds(std::int64_t patience_ms) {
  return std::clamp<std::int64_t>(patience_ms / 2000, 1, CurlHandle::kIdleSeconds);
}

bool IsPassing(int status) {
  return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

bool MayPass(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kCancelled:
    case StatusCode::kPermissionDenied:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return false;
    default:
      return true;
  }
}

Status SendPatiently(ObjectStore* store, RetryRule rule,
                     const std::function<Status(HttpRequest*)>& prepare,
                     const std::function<Status(const HttpResponse&)>& check,
                     HttpResponse* response) {
  int lessons = 0;
  int odd_answers = 0;
  while (true) {
    HttpRequest request;
    Status failure = prepare(&request);
    std::string retry_after;
    if (failure.ok()) {
      request.idle_s = IdleSeconds(rule.patience().count());
      failure = BlockingHttp()(request, response);
      const bool is_good = response->status >= 200 && response->status < 300;
      if (failure.ok() && is_good) {
        failure = check(*response);
        if (failure.ok()) rule.Succeed();
        if (failure.ok()) return {};
        const bool is_odd = failure.code() != StatusCode::kResourceExhausted;
        if (is_odd && ++odd_answers == kMostOddAnswers) {
          return Status(StatusCode::kUnsupported, failure.message());
        }
      } else if (failure.ok() && !IsPassing(response->status)) {
        if (lessons++ < kMostLessons && store->Learn(*response)) continue;
        return store->Explain(*response);
      } else if (failure.ok()) {
        retry_after = response->Header("retry-after");
        failure = store->Explain(*response);
      }
    }
    RetryRule::Clock::time_point when;
    if (!MayPass(failure)) return failure;
    failure =
        rule.Meet(failure, ShownAddress(request.url), retry_after, RetryRule::Clock::now(), &when);
    if (!failure.ok()) return failure;
    if (!PauseUntil(when)) return CallsEnded();
  }
}

}  // namespace ringfeed
