#include "io/remote/remote_engine.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "io/remote/cached_engine.h"
#include "io/remote/content_range.h"
#include "io/remote/curl_handle.h"
#include "io/remote/http_client.h"
#include "io/remote/in_flight_rule.h"
#include "io/remote/remote_source.h"

namespace ringfeed {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the body of an answer that is no range: what tells why.
constexpr std::size_t kMostErrorBytes = 64 * 1024;
/// A range is slow if it takes longer than this and so many times the mean.
constexpr std::chrono::seconds kLeastSlow{2};
constexpr int kSlowTimes = 4;

struct RangeRead;

/// One request of a range, or of its rest, and how far its answer came.
struct Attempt {
  CurlHandle handle;
  RangeRead* read = nullptr;
  std::uint32_t begin = 0;  ///< in the read's buffer: where its bytes go
  std::uint32_t got = 0;
  std::uint64_t skip = 0;  ///< bytes of a whole object in front of the range
  bool is_judged = false;  ///< the head was looked at
  Status verdict;          ///< why the bytes are not taken
  std::string error_body;
  Clock::time_point begun;
  Clock::duration first_byte{};
};

/// One request of the engine's caller.
struct RangeRead {
  explicit RangeRead(ReadRequest* its_request)
      : request(its_request), source(its_request->file->remote()), rule(source->patience_ms()) {}

  ReadRequest* request;
  const RemoteSource* source;
  std::uint32_t expected = 0;  ///< bytes, up to the end of the object
  std::uint32_t have = 0;      ///< of them, from the first on
  RetryRule rule;
  Clock::time_point begun;
  Clock::time_point again_at{};  ///< while no attempt runs
  int lessons = 0;
  int odd_answers = 0;
  bool was_hedged = false;
  std::array<std::unique_ptr<Attempt>, 2> attempts{};  ///< those that run

  std::uint64_t offset() const { return request->offset + have; }
};

class RemoteEngine final : public ReadEngine {
 public:
  RemoteEngine() : multi_(curl_multi_init()) {
    if (multi_ == nullptr) Refuse(StatusCode::kResourceExhausted, "libcurl has no memory");
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(2 * InFlightRule::kMost));
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});
  }
  ~RemoteEngine() override {
    for (auto& read : reads_) {
      for (auto& attempt : read->attempts) Drop(&attempt);
    }
    idle_.clear();
    curl_multi_cleanup(multi_);
  }
  RemoteEngine(const RemoteEngine&) = delete;
  RemoteEngine& operator=(const RemoteEngine&) = delete;

  std::string name() const override { return "http"; }
  std::string Describe() const override {
    return "libcurl, " + std::to_string(rule_.limit()) + " ranges at a time";
  }
  std::size_t Submit(std::span<ReadRequest* const> requests) override;
  std::size_t room() const override { return rule_.limit() - std::min(rule_.limit(), in_flight()); }
  std::size_t Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) override;
  void Wake() override {
    // Release: pairs with the acquire in Reap, for what its caller is to see.
    woken_.store(true, std::memory_order_release);
    curl_multi_wakeup(multi_);
  }
  std::size_t in_flight() const override { return reads_.size() + finished_.size(); }
  ReadEngineStats stats() const override { return stats_; }

 private:
  void Begin(RangeRead* read, bool hedge);
  void Finish(RangeRead* read, Status status);
  /// An attempt failed in a way that passes: asks anew later, or gives up.
  void MeetFailure(RangeRead* read, const Status& failure, std::string_view retry_after);
  void Drop(std::unique_ptr<Attempt>* attempt);
  void TakeEnded();
  void OnEnded(Attempt* attempt, CURLcode code);
  void OnAnswer(RangeRead* read, const HttpResponse& answer, bool others_run);
  /// Begins what is to be sent again, and what is slow once more. Returns when to look next.
  Clock::time_point LookAtTimes(Clock::time_point now);
  bool IsSlow(const RangeRead& read, Clock::time_point now) const;

  static std::size_t TakeBytes(char* data, std::size_t size, std::size_t count, void* attempt);
  static void Judge(Attempt* attempt);

  CURLM* const multi_;
  std::vector<std::unique_ptr<RangeRead>> reads_;
  std::deque<ReadRequest*> finished_;
  std::vector<std::unique_ptr<Attempt>> idle_;
  InFlightRule rule_;
  Clock::duration mean_{};  ///< how long a range takes
  ReadEngineStats stats_;
  std::atomic<bool> woken_{false};
};

std::size_t RemoteEngine::Submit(std::span<ReadRequest* const> requests) {
  std::size_t taken = 0;
  for (ReadRequest* const request : requests) {
    if (taken > 0 && room() == 0) break;
    if (taken == 0 && in_flight() >= rule_.limit()) break;
    ++taken;
    request->got = 0;
    request->status = Status();
    auto read = std::make_unique<RangeRead>(request);
    const std::uint64_t size = read->source->Size();
    const std::uint64_t left = size - std::min(size, request->offset);
    read->expected = static_cast<std::uint32_t>(std::min<std::uint64_t>(request->bytes, left));
    read->begun = Clock::now();
    const std::span<const std::byte> front = read->source->front();
    if (read->expected == 0 || request->offset + read->expected <= front.size()) {
      if (read->expected > 0) {
        std::memcpy(request->buffer, front.data() + request->offset, read->expected);
      }
      request->got = read->expected;
      ++stats_.reads;
      finished_.push_back(request);
      continue;
    }
    reads_.push_back(std::move(read));
    Begin(reads_.back().get(), false);
  }
  return taken;
}

void RemoteEngine::Begin(RangeRead* read, bool hedge) {
  HttpRequest request;
  const Status prepared =
      read->source->Prepare(read->offset(), read->request->offset + read->expected, &request);
  if (!prepared.ok()) {
    if (hedge) return;
    if (!MayPass(prepared) || prepared.code() == StatusCode::kNotFound) {
      return Finish(read, prepared);
    }
    return MeetFailure(read, prepared, {});
  }
  std::unique_ptr<Attempt> attempt;
  if (idle_.empty()) {
    attempt = std::make_unique<Attempt>();
  } else {
    attempt = std::move(idle_.back());
    idle_.pop_back();
  }
  attempt->read = read;
  attempt->begin = read->have;
  attempt->got = 0;
  attempt->skip = 0;
  attempt->is_judged = false;
  attempt->verdict = Status();
  attempt->error_body.clear();
  attempt->begun = Clock::now();
  attempt->first_byte = {};
  attempt->handle.Start(request, static_cast<long>(IdleSeconds(read->source->patience_ms())));
  CURL* const easy = attempt->handle.get();
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, TakeBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, attempt.get());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, attempt.get());
  // Behind a slow connection the next range would wait, too.
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, hedge || read->rule.tries() > 0 ? 1L : 0L);
  curl_multi_add_handle(multi_, easy);
  read->source->counters()->requests.fetch_add(1, std::memory_order_relaxed);
  if (hedge) {
    read->was_hedged = true;
    read->source->counters()->hedges.fetch_add(1, std::memory_order_relaxed);
  }
  (read->attempts[0] == nullptr ? read->attempts[0] : read->attempts[1]) = std::move(attempt);
}

// Looks at the head of an answer, before its first byte is taken.
void RemoteEngine::Judge(Attempt* attempt) {
  attempt->is_judged = true;
  attempt->first_byte = Clock::now() - attempt->begun;
  const RangeRead& read = *attempt->read;
  const HttpResponse& head = attempt->handle.head();
  if (head.status != 200 && head.status != 206) return;
  attempt->verdict = read.source->CheckState(head);
  if (!attempt->verdict.ok()) return;
  const std::uint64_t begin = read.request->offset + attempt->begin;
  const auto odd = [&](const std::string& what) {
    attempt->verdict = Status(StatusCode::kIoError, "the server answers bytes from " +
                                                        std::to_string(begin) + " on by " + what);
  };
  if (head.status == 200) {
    const auto length = ReadLength(head.Header("content-length"));
    if (length && *length != read.source->Size()) return odd("an object of another size");
    attempt->skip = begin;
    return;
  }
  const auto range = ReadContentRange(head.Header("content-range"));
  if (!range) return odd("206 without a Content-Range that can be read");
  if (range->begin != begin || range->end > read.request->offset + read.expected) {
    return odd("the range from " + std::to_string(range->begin) + " to " +
               std::to_string(range->end));
  }
  if (range->size && *range->size != read.source->Size()) odd("a range of another size");
}

std::size_t RemoteEngine::TakeBytes(char* data, std::size_t size, std::size_t count, void* which) {
  auto* const attempt = static_cast<Attempt*>(which);
  const std::size_t bytes = size * count;
  if (!attempt->is_judged) Judge(attempt);
  const int status = attempt->handle.head().status;
  if (!attempt->verdict.ok()) return 0;
  if (status != 200 && status != 206) {
    const std::size_t room = kMostErrorBytes - attempt->error_body.size();
    attempt->error_body.append(data, std::min(room, bytes));
    return bytes <= room ? bytes : 0;
  }
  const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(attempt->skip, bytes));
  attempt->skip -= skipped;
  RangeRead& read = *attempt->read;
  const std::size_t room = read.expected - attempt->begin - attempt->got;
  const std::size_t taken = std::min(room, bytes - skipped);
  std::memcpy(read.request->buffer + attempt->begin + attempt->got, data + skipped, taken);
  attempt->got += static_cast<std::uint32_t>(taken);
  read.have = std::max(read.have, attempt->begin + attempt->got);
  read.source->counters()->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes - skipped <= room) return bytes;
  if (status == 206) {
    attempt->verdict =
        Status(StatusCode::kIoError, "the server sends more bytes than its head says");
  }
  return 0;  // the rest of an object that was sent whole is of no use
}

void RemoteEngine::Drop(std::unique_ptr<Attempt>* attempt) {
  if (*attempt == nullptr) return;
  curl_multi_remove_handle(multi_, (*attempt)->handle.get());
  idle_.push_back(std::move(*attempt));
}

void RemoteEngine::Finish(RangeRead* read, Status status) {
  for (auto& attempt : read->attempts) Drop(&attempt);
  ReadRequest* const request = read->request;
  request->got = read->have;
  request->status =
      status.WithPlace({read->source->name(), static_cast<std::int64_t>(read->offset()), -1});
  ++stats_.reads;
  stats_.bytes += request->got;
  if (!status.ok()) ++stats_.failures;
  finished_.push_back(request);
  std::erase_if(reads_, [read](const auto& each) { return each.get() == read; });
}

void RemoteEngine::MeetFailure(RangeRead* read, const Status& failure,
                               std::string_view retry_after) {
  if (!read->rule.Again(retry_after, Clock::now(), &read->again_at)) {
    return Finish(read, PatienceEnded(read->rule, failure));
  }
  ++stats_.retries;
  read->source->counters()->retries.fetch_add(1, std::memory_order_relaxed);
}

void RemoteEngine::OnAnswer(RangeRead* read, const HttpResponse& answer, bool others_run) {
  ObjectStore* const store = read->source->store();
  if (answer.status == 412 || answer.status == 416) return Finish(read, read->source->Changed());
  if (answer.status == 429 || answer.status == 503) {
    rule_.OnThrottled(Clock::now());
    read->source->counters()->throttled.fetch_add(1, std::memory_order_relaxed);
  }
  if (IsPassing(answer.status)) {
    if (others_run) return;
    return MeetFailure(read, store->Explain(answer), answer.Header("retry-after"));
  }
  if (read->lessons++ < kMostLessons && store->Learn(answer)) {
    if (!others_run) Begin(read, false);
    return;
  }
  Finish(read, store->Explain(answer));
}

void RemoteEngine::OnEnded(Attempt* ended, CURLcode code) {
  RangeRead* const read = ended->read;
  auto& place = read->attempts[0].get() == ended ? read->attempts[0] : read->attempts[1];
  const Status failure = ended->handle.Failure(code);
  if (code == CURLE_OK && !ended->is_judged) Judge(ended);  // without a body
  const std::uint32_t got = ended->got;
  const Status verdict = ended->verdict;
  const Clock::duration first_byte = ended->first_byte;
  HttpResponse answer = ended->handle.head();
  answer.body = std::move(ended->error_body);
  Drop(&place);
  const bool others_run = read->attempts[0] != nullptr || read->attempts[1] != nullptr;
  if (got > 0) read->rule.Progress();
  if (read->have == read->expected && verdict.ok()) {
    const Clock::time_point now = Clock::now();
    const Clock::duration took = now - read->begun;
    mean_ = mean_ == Clock::duration() ? took : (15 * mean_ + took) / 16;
    rule_.OnEnd(now, first_byte, read->expected, in_flight());
    return Finish(read, Status());
  }
  if (verdict.code() == StatusCode::kDamaged) return Finish(read, verdict);
  if (!verdict.ok() && ++read->odd_answers >= kMostOddAnswers) {
    return Finish(read, Status(StatusCode::kUnsupported, verdict.message()));
  }
  const bool is_range = answer.status == 200 || answer.status == 206;
  if (verdict.ok() && answer.status != 0 && !is_range && (failure.ok() || answer.status >= 300)) {
    return OnAnswer(read, answer, others_run);
  }
  if (others_run) return;
  Status why = !verdict.ok() ? verdict : failure;
  if (why.ok()) {
    why = Status(StatusCode::kIoError, "the answer ended " +
                                           std::to_string(read->expected - read->have) +
                                           " bytes before the end of its range");
  }
  if (!MayPass(why)) return Finish(read, why);
  MeetFailure(read, why, {});
}

void RemoteEngine::TakeEnded() {
  int left = 0;
  while (CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Attempt* attempt = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &attempt);
    OnEnded(attempt, message->data.result);
  }
}

bool RemoteEngine::IsSlow(const RangeRead& read, Clock::time_point now) const {
  if (read.was_hedged || read.attempts[0] == nullptr || read.attempts[1] != nullptr) return false;
  return now - read.attempts[0]->begun > std::max<Clock::duration>(kLeastSlow, kSlowTimes * mean_);
}

Clock::time_point RemoteEngine::LookAtTimes(Clock::time_point now) {
  Clock::time_point next = now + std::chrono::seconds(1);  // slow ranges are looked for
  // Those that fail for good leave the list.
  for (std::size_t i = reads_.size(); i > 0; --i) {
    RangeRead* const read = reads_[i - 1].get();
    if (read->attempts[0] == nullptr && read->attempts[1] == nullptr) {
      if (read->again_at <= now) {
        Begin(read, false);
        next = now;
      } else {
        next = std::min(next, read->again_at);
      }
    } else if (IsSlow(*read, now)) {
      Begin(read, true);
      next = now;
    }
  }
  return next;
}

std::size_t RemoteEngine::Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) {
  while (in_flight() > 0) {
    int running = 0;
    curl_multi_perform(multi_, &running);
    TakeEnded();
    const Clock::time_point now = Clock::now();
    const Clock::time_point next = LookAtTimes(now);
    // Acquire: pairs with the release in Wake.
    const bool woken = woken_.exchange(false, std::memory_order_acquire);
    if (!finished_.empty() || woken || now >= deadline) break;
    ++stats_.enters;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline, next) - now);
    const auto wait_ms = static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 1000));
    curl_multi_poll(multi_, nullptr, 0, wait_ms, nullptr);
  }
  const std::size_t count = std::min(finished.size(), finished_.size());
  std::copy_n(finished_.begin(), count, finished.begin());
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

}  // namespace

std::unique_ptr<ReadEngine> MakeHttpEngine() { return std::make_unique<RemoteEngine>(); }

std::unique_ptr<ReadEngine> MakeRemoteEngine() { return MakeCachedEngine(MakeHttpEngine()); }

}  // namespace ringfeed
