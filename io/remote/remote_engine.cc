#include "io/remote/remote_engine.h"

#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "io/remote/cached_engine.h"
#include "io/remote/curl_handle.h"
#include "io/remote/direct_connections.h"
#include "io/remote/host_share.h"
#include "io/remote/http_client.h"
#include "io/remote/in_flight_rule.h"
#include "io/remote/remote_attempt.h"
#include "io/remote/remote_source.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the body of an answer that is no range: what tells why.
constexpr std::size_t kMostErrorBytes = 64 * 1024;
/// A range is slow if it takes longer than this and so many times the mean.
constexpr std::chrono::seconds kLeastSlow{2};
constexpr int kSlowTimes = 4;
/// Until it is looked again whether other engines left some of a host's requests.
constexpr std::chrono::milliseconds kShareWait{5};

/// Where its read keeps it.
std::unique_ptr<Attempt>& PlaceOf(const Attempt* attempt) {
  auto& attempts = attempt->read->attempts;
  return attempts[0].get() == attempt ? attempts[0] : attempts[1];
}

class RemoteEngine final : public ReadEngine {
 public:
  RemoteEngine(HttpPath path, const InFlightRule& rule)
      : path_(path), multi_(MakeMulti()), direct_(multi_.get()), rule_(rule) {}
  ~RemoteEngine() override {
    for (auto& read : reads_) {
      for (auto& attempt : read->attempts) Drop(&attempt);
    }
  }
  RemoteEngine(const RemoteEngine&) = delete;
  RemoteEngine& operator=(const RemoteEngine&) = delete;

  std::string name() const override { return "http"; }
  std::string Describe() const override {
    return std::to_string(rule_.limit()) + " ranges at a time";
  }
  std::size_t Submit(std::span<ReadRequest* const> requests) override;
  std::size_t room() const override {
    const std::size_t limit = waits_for_share_ ? 0 : rule_.limit();
    return limit - std::min(limit, in_flight());
  }
  std::size_t Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) override;
  void Wake() override {
    // Release: pairs with the acquire in Reap, for what its caller is to see.
    woken_.store(true, std::memory_order_release);
    direct_.Wake();
  }
  std::size_t in_flight() const override { return reads_.size() + finished_.size(); }
  ReadEngineStats stats() const override { return stats_; }

 private:
  struct MultiCleanup {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  using OwnMulti = std::unique_ptr<CURLM, MultiCleanup>;

  static OwnMulti MakeMulti();
  void Begin(RangeRead* read, bool hedge);
  /// Null if the host has as many requests as it may have; then the read waits.
  HostShare* TakeShare(const std::string& url);
  std::unique_ptr<Attempt> NewAttempt();
  /// Sends it by libcurl.
  void BeginByLibrary(const HttpRequest& request, long idle_s, bool fresh, Attempt* attempt);
  /// Lets libcurl and the connections move what they can, for up to so long.
  void Move(int wait_ms);
  void Finish(RangeRead* read, Status status);
  /// An attempt failed in a way that passes: asks anew later, or gives up.
  void MeetFailure(RangeRead* read, const Status& failure, std::string_view retry_after);
  void Drop(std::unique_ptr<Attempt>* attempt);
  void TakeLibraryEnds();
  void TakeDirectEnds();
  void OnLibraryEnd(Attempt* attempt, CURLcode code);
  /// `failure`: of the connection; OK if the answer is whole.
  void OnEnded(Attempt* attempt, const Status& failure);
  void OnAnswer(RangeRead* read, const HttpResponse& answer, bool others_run);
  /// Begins what is to be sent again, and what is slow once more.
  void LookAtTimes(Clock::time_point now);
  bool IsSlow(const RangeRead& read, Clock::time_point now) const;
  /// Of a connection of our own that gave no byte for too long. Null: none. libcurl looks after
  /// its own.
  static Attempt* SilentAttempt(const RangeRead& read, Clock::time_point now);

  static std::size_t TakeBytes(char* data, std::size_t size, std::size_t count, void* attempt);

  const HttpPath path_;
  const OwnMulti multi_;
  DirectConnections direct_;
  std::size_t by_library_ = 0;  ///< attempts that libcurl sends
  std::vector<std::unique_ptr<RangeRead>> reads_;
  std::deque<ReadRequest*> finished_;
  std::vector<std::unique_ptr<Attempt>> idle_;
  InFlightRule rule_;
  Clock::duration mean_{};                               ///< how long a range takes
  Clock::time_point look_at_{};                          ///< when something may be due
  std::map<std::string, HostShare, std::less<>> hosts_;  ///< of reads_
  bool waits_for_share_ = false;                         ///< a read of reads_
  ReadEngineStats stats_;
  std::atomic<bool> woken_{false};
};

RemoteEngine::OwnMulti RemoteEngine::MakeMulti() {
  OwnMulti multi(curl_multi_init());
  if (multi == nullptr) Refuse(StatusCode::kResourceExhausted, "libcurl has no memory");
  // Those of DirectConnections are idle to libcurl, which is to close none of them.
  constexpr long kMostConnections = 8 * static_cast<long>(InFlightRule::kMost);
  curl_multi_setopt(multi.get(), CURLMOPT_MAXCONNECTS, kMostConnections);
  curl_multi_setopt(multi.get(), CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});
  return multi;
}

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
    read->have =
        read->source->CopyFront(request->offset, std::span(request->buffer, read->expected));
    if (read->have > 0 && request->bytes > read->have) read->source->DropFront();
    if (read->have == read->expected) {
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
  HostShare* const share = TakeShare(request.url);
  if (share == nullptr) {
    if (hedge) return;
    waits_for_share_ = true;
    read->again_at = Clock::time_point();  // at the next look
    look_at_ = std::min(look_at_, Clock::now() + kShareWait);
    return;
  }
  std::unique_ptr<Attempt> attempt = NewAttempt();
  attempt->Restart(read);
  attempt->share = share;
  // After a failure the next range could wait for the same slow connection, too.
  const bool fresh = hedge || read->rule.tries() > 0;
  const auto idle_s = static_cast<long>(IdleSeconds(read->source->patience_ms()));
  if (path_ == HttpPath::kLibrary || fresh || read->is_unusual ||
      !direct_.Begin(request, idle_s, attempt.get())) {
    BeginByLibrary(request, idle_s, fresh, attempt.get());
  }
  read->source->counters()->requests.fetch_add(1, std::memory_order_relaxed);
  if (hedge) {
    read->was_hedged = true;
    read->source->counters()->hedges.fetch_add(1, std::memory_order_relaxed);
  }
  (read->attempts[0] == nullptr ? read->attempts[0] : read->attempts[1]) = std::move(attempt);
}

HostShare* RemoteEngine::TakeShare(const std::string& url) {
  const std::string_view host = PartsOf(url).host;
  auto found = hosts_.find(host);
  if (found == hosts_.end()) found = hosts_.try_emplace(std::string(host), std::string(host)).first;
  return found->second.Take() ? &found->second : nullptr;
}

std::unique_ptr<Attempt> RemoteEngine::NewAttempt() {
  if (idle_.empty()) return std::make_unique<Attempt>();
  std::unique_ptr<Attempt> attempt = std::move(idle_.back());
  idle_.pop_back();
  return attempt;
}

void RemoteEngine::BeginByLibrary(const HttpRequest& request, long idle_s, bool fresh,
                                  Attempt* attempt) {
  if (attempt->handle == nullptr) attempt->handle = std::make_unique<CurlHandle>();
  attempt->handle->Start(request, idle_s);
  CURL* const easy = attempt->handle->get();
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, TakeBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, attempt);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, attempt);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L);
  curl_multi_add_handle(multi_.get(), easy);
  attempt->is_of_library = true;
  ++by_library_;
}

std::size_t RemoteEngine::TakeBytes(char* data, std::size_t size, std::size_t count, void* which) {
  auto* const attempt = static_cast<Attempt*>(which);
  const std::size_t bytes = size * count;
  if (!attempt->is_judged) {
    attempt->answer = attempt->handle->head();
    attempt->Judge();
  }
  const int status = attempt->answer.status;
  if (!attempt->verdict.ok()) return 0;
  if (status != 200 && status != 206) {
    const std::size_t left = kMostErrorBytes - attempt->answer.body.size();
    attempt->answer.body.append(data, std::min(left, bytes));
    return bytes <= left ? bytes : 0;
  }
  const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(attempt->skip, bytes));
  attempt->skip -= skipped;
  const std::span<std::byte> room = attempt->Room();
  const std::size_t taken = std::min(room.size(), bytes - skipped);
  std::memcpy(room.data(), data + skipped, taken);
  attempt->Took(taken);
  attempt->read->source->counters()->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes - skipped <= room.size()) return bytes;
  if (status == 206) {
    attempt->verdict =
        Status(StatusCode::kIoError, "the server sends more bytes than its head says");
  }
  return 0;  // the rest of an object that was sent whole is of no use
}

void RemoteEngine::Drop(std::unique_ptr<Attempt>* attempt) {
  if (*attempt == nullptr) return;
  if ((*attempt)->is_of_library) {
    curl_multi_remove_handle(multi_.get(), (*attempt)->handle->get());
    (*attempt)->is_of_library = false;
    --by_library_;
  } else {
    direct_.Drop(attempt->get());
  }
  (*attempt)->share->Give();
  if (waits_for_share_) look_at_ = Clock::time_point();
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
  if (reads_.empty()) hosts_.clear();  // others may have its share
}

void RemoteEngine::MeetFailure(RangeRead* read, const Status& failure,
                               std::string_view retry_after) {
  Status end =
      read->rule.Meet(failure, read->source->name(), retry_after, Clock::now(), &read->again_at);
  if (!end.ok()) return Finish(read, std::move(end));
  look_at_ = std::min(look_at_, read->again_at);
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

void RemoteEngine::OnLibraryEnd(Attempt* ended, CURLcode code) {
  const Status failure = ended->handle->Failure(code);
  if (!ended->is_judged) {  // no byte of a body came
    ended->answer = ended->handle->head();
    if (code == CURLE_OK) ended->Judge();
  }
  OnEnded(ended, failure);
}

void RemoteEngine::OnEnded(Attempt* ended, const Status& failure) {
  RangeRead* const read = ended->read;
  auto& place = PlaceOf(ended);
  const std::uint32_t got = ended->got;
  const Status verdict = ended->verdict;
  const Clock::duration first_byte = ended->first_byte;
  const HttpResponse answer = std::move(ended->answer);
  Drop(&place);
  const bool others_run = read->attempts[0] != nullptr || read->attempts[1] != nullptr;
  if (got > 0) read->rule.Progress();
  if (read->have == read->expected && verdict.ok()) {
    const Clock::time_point now = Clock::now();
    const Clock::duration took = now - read->begun;
    mean_ = mean_ == Clock::duration() ? took : (15 * mean_ + took) / 16;
    rule_.OnEnd(now, first_byte, read->expected, in_flight());
    read->rule.Succeed();
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

void RemoteEngine::TakeLibraryEnds() {
  int left = 0;
  while (CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    if (direct_.OnConnected(message->easy_handle, code)) continue;
    Attempt* attempt = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &attempt);
    OnLibraryEnd(attempt, code);
  }
}

void RemoteEngine::TakeDirectEnds() {
  while (const auto end = direct_.TakeEnd()) {
    RangeRead* const read = end->attempt->read;
    read->source->counters()->bytes.fetch_add(end->attempt->got, std::memory_order_relaxed);
    if (end->flow == DirectConnection::Flow::kWhole ||
        end->flow == DirectConnection::Flow::kEnded) {
      OnEnded(end->attempt, end->failure);
      continue;
    }
    if (end->flow == DirectConnection::Flow::kUnusual) {
      read->is_unusual = true;
      read->source->counters()->by_library.fetch_add(1, std::memory_order_relaxed);
    }
    Drop(&PlaceOf(end->attempt));
    Begin(read, false);
  }
}

Attempt* RemoteEngine::SilentAttempt(const RangeRead& read, Clock::time_point now) {
  const std::chrono::seconds patience(IdleSeconds(read.source->patience_ms()));
  for (const auto& attempt : read.attempts) {
    if (attempt == nullptr || attempt->is_of_library) continue;
    if (now - attempt->last_byte >= patience) return attempt.get();
  }
  return nullptr;
}

bool RemoteEngine::IsSlow(const RangeRead& read, Clock::time_point now) const {
  if (read.was_hedged || read.attempts[0] == nullptr || read.attempts[1] != nullptr) return false;
  return now - read.attempts[0]->begun > std::max<Clock::duration>(kLeastSlow, kSlowTimes * mean_);
}

void RemoteEngine::LookAtTimes(Clock::time_point now) {
  look_at_ = now + std::chrono::seconds(1);  // slow ranges are looked for
  waits_for_share_ = false;
  // Those that fail for good leave the list.
  for (std::size_t i = reads_.size(); i > 0; --i) {
    RangeRead* const read = reads_[i - 1].get();
    if (read->attempts[0] == nullptr && read->attempts[1] == nullptr) {
      if (read->again_at <= now) {
        Begin(read, false);
      } else {
        look_at_ = std::min(look_at_, read->again_at);
      }
    } else if (Attempt* const silent = SilentAttempt(*read, now); silent != nullptr) {
      OnEnded(silent, Status(StatusCode::kDeadlineExceeded,
                             "no byte came for " +
                                 std::to_string(IdleSeconds(read->source->patience_ms())) + " s"));
    } else if (IsSlow(*read, now)) {
      Begin(read, true);
    }
  }
}

void RemoteEngine::Move(int wait_ms) {
  if (by_library_ == 0 && direct_.connecting() == 0) return direct_.Wait(wait_ms);
  if (wait_ms > 0) {
    curl_waitfd direct{direct_.descriptor(), CURL_WAIT_POLLIN, 0};
    curl_multi_poll(multi_.get(), &direct, 1, wait_ms, nullptr);
  }
  int running = 0;
  curl_multi_perform(multi_.get(), &running);
  TakeLibraryEnds();
  direct_.Wait(0);
}

std::size_t RemoteEngine::Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) {
  while (in_flight() > 0) {
    const Clock::time_point now = Clock::now();
    if (look_at_ <= now) LookAtTimes(now);
    const Clock::time_point until = finished_.empty() ? std::min(deadline, look_at_) : now;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    ++stats_.enters;
    Move(static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 1000)));
    TakeDirectEnds();
    // Acquire: pairs with the release in Wake.
    const bool woken = woken_.exchange(false, std::memory_order_acquire);
    if (!finished_.empty() || woken || Clock::now() >= deadline) break;
  }
  const std::size_t count = std::min(finished.size(), finished_.size());
  std::copy_n(finished_.begin(), count, finished.begin());
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

}  // namespace

std::unique_ptr<ReadEngine> MakeHttpEngine(HttpPath path, const InFlightRule& rule) {
  return std::make_unique<RemoteEngine>(path, rule);
}

std::unique_ptr<ReadEngine> MakeRemoteEngine() { return MakeCachedEngine(MakeHttpEngine()); }

}  // namespace ringfeed
