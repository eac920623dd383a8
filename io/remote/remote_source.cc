#include "io/remote/remote_source.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/calls_end.h"
#include "base/per_process.h"
#include "io/read_engine.h"
#include "io/remote/content_range.h"
#include "io/remote/http_client.h"
#include "io/remote/idle_list.h"
#include "io/remote/remote_engine.h"
#include "io/remote/sequential_ranges.h"

namespace ringfeed {
namespace {

/// What is asked for at the opening: the bytes that tell a format, and of a small object all.
constexpr std::uint64_t kFrontBytes = 64 * 1024;
/// Of one range of a read in the caller's thread.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

std::string_view WithoutWeak(std::string_view etag) {
  return etag.starts_with("W/") ? etag.substr(2) : etag;
}

std::string RangeText(std::uint64_t begin, std::uint64_t end) {
  return "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1);
}

std::uint64_t NextId() {
  static constinit std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);  // a number alone
}

/// For reads in the caller's thread.
IdleList<ReadEngine>& IdleEngines() {
  static constinit PerProcess<IdleList<ReadEngine>> idle;
  return idle.Get();
}

class BorrowedEngine {
 public:
  BorrowedEngine() : engine_(IdleEngines().Take()) {
    if (engine_ == nullptr) engine_ = MakeRemoteEngine();
  }
  ~BorrowedEngine() {
    if (engine_ != nullptr) IdleEngines().Give(std::move(engine_));
  }
  BorrowedEngine(const BorrowedEngine&) = delete;
  BorrowedEngine& operator=(const BorrowedEngine&) = delete;

  ReadEngine* operator->() const { return engine_.get(); }
  /// Ends what it reads: it is not used again.
  void Drop() { engine_.reset(); }

 private:
  std::unique_ptr<ReadEngine> engine_;
};

/// An object as an input of an engine.
class RemoteInput : public InputFile {
 public:
  /// `in_cache`: all of it is there, so that it is read as a file in the page cache is.
  explicit RemoteInput(std::shared_ptr<const RemoteSource> source, bool in_cache = false)
      : source_(std::move(source)) {
    name_ = source_->name();
    size_ = source_->Size();
    choice_ = {name_, IoPath::kHttp, false, in_cache,
               in_cache ? "an object of a store, in the cache" : "an object of a store"};
  }
  const RemoteSource* remote() const override { return source_.get(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    return source_->ReadRange(offset, buffer, bytes_read);
  }

 private:
  const std::shared_ptr<const RemoteSource> source_;
};

/// The same for one thread that reads from the start to the end.
class SequentialRemoteInput final : public RemoteInput {
 public:
  explicit SequentialRemoteInput(std::shared_ptr<const RemoteSource> source)
      : RemoteInput(std::move(source)), ranges_(this) {}
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    return ranges_.ReadAt(offset, buffer, bytes_read);
  }

 private:
  SequentialRanges ranges_;
};

bool IsInCache(const RemoteSource& source) {
  return source.cached_object() != nullptr && source.cache()->HasAll(*source.cached_object());
}

OpenInputResult OpenAs(const std::shared_ptr<Source>& source, bool in_sequence) {
  auto remote = std::dynamic_pointer_cast<RemoteSource>(source);
  if (remote == nullptr) return OpenInput(source);
  if (Status status = remote->Begin(); !status.ok()) return {status, nullptr};
  if (in_sequence) return {{}, std::make_unique<SequentialRemoteInput>(std::move(remote))};
  const bool in_cache = IsInCache(*remote);
  if (in_cache) remote->DropFront();
  return {{}, std::make_unique<RemoteInput>(std::move(remote), in_cache)};
}

/// The state that the answer to a request for the first kFrontBytes tells.
Status StateOf(const HttpResponse& response, ObjectState* state) {
  state->etag = response.Header("etag");
  if (state->etag.empty()) state->modified = response.Header("last-modified");
  const auto range = ReadContentRange(response.Header("content-range"));
  const auto length = ReadLength(response.Header("content-length"));
  const bool is_range = response.status == 206 && range && range->begin == 0 && range->size;
  if (!is_range && !(response.status == 200 && length)) {
    return Status(StatusCode::kIoError,
                  "the server tells no size: it answers " + std::to_string(response.status) +
                      " without a Content-Length, or without a Content-Range from 0 on");
  }
  state->bytes = is_range ? *range->size : *length;
  if (response.body.size() == std::min(kFrontBytes, state->bytes)) return {};
  return Status(StatusCode::kIoError, "the server answers a request for the first " +
                                          std::to_string(kFrontBytes) + " bytes of " +
                                          std::to_string(state->bytes) + " by " +
                                          std::to_string(response.body.size()));
}

// Reads all parts in the caller's thread, several at a time. A CallsEnd of the thread ends it:
// those that are not read by then are kCancelled.
void ReadAll(std::vector<ReadRequest>* parts) {
  const CallsEnd::Asked should_end = CallsEnd::OfThread();
  BorrowedEngine engine;
  std::vector<ReadRequest*> waiting;
  for (ReadRequest& part : *parts) waiting.push_back(&part);
  const std::vector<ReadRequest*> all = waiting;
  std::span<ReadRequest* const> left(all);
  std::array<ReadRequest*, 16> finished{};
  while (!left.empty() || engine->in_flight() > 0) {
    left = left.subspan(engine->Submit(left));
    const std::size_t count =
        engine->Reap(finished, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    for (ReadRequest* const part : std::span(finished).first(count)) std::erase(waiting, part);
    if (!should_end || engine->in_flight() == 0 || !should_end()) continue;
    engine.Drop();
    for (ReadRequest* const part : waiting) part->status = CallsEnded();
    return;
  }
}

bool IsHidden(std::string_view key) { return key.starts_with('.') || key.find("/.") != key.npos; }

/// Whether a key matches a pattern: of each name between slashes by fnmatch, "**" for any names.
bool Matches(std::string_view pattern, std::string_view key) {
  const std::size_t pattern_end = std::min(pattern.find('/'), pattern.size());
  const std::size_t key_end = std::min(key.find('/'), key.size());
  const std::string first(pattern.substr(0, pattern_end));
  const bool last = pattern_end == pattern.size();
  if (first == "**") {
    if (last) return true;
    if (Matches(pattern.substr(pattern_end + 1), key)) return true;
    return key_end < key.size() && Matches(pattern, key.substr(key_end + 1));
  }
  const std::string name(key.substr(0, key_end));
  if (fnmatch(first.c_str(), name.c_str(), FNM_NOESCAPE | FNM_PERIOD) != 0) return false;
  if (last || key_end == key.size()) return last && key_end == key.size();
  return Matches(pattern.substr(pattern_end + 1), key.substr(key_end + 1));
}

/// Finds out that a listing does not end. Pages that come again are found by the name of the next
/// one, of which every 2^n-th is kept (Brent's search for cycles).
class EndlessListing {
 public:
  Status Look(const ListingPage& page) {
    constexpr std::size_t kMostPages = 100'000;
    constexpr std::size_t kMostEmptyPages = 1'000;
    ++pages_;
    empty_pages_ = page.objects.empty() ? empty_pages_ + 1 : 0;
    if (page.next.empty()) return {};
    if (page.next == kept_) return Endless("a page comes again");
    if (empty_pages_ == kMostEmptyPages) return Endless("1,000 pages have no object");
    if (pages_ == kMostPages) return Endless("it has more than 100,000 pages");
    if (std::has_single_bit(pages_)) kept_ = page.next;
    return {};
  }

 private:
  static Status Endless(const char* why) {
    return Status(StatusCode::kUnsupported, std::string("the listing does not end (") + why +
                                                "): name the objects by a manifest");
  }

  std::size_t pages_ = 0;
  std::size_t empty_pages_ = 0;
  std::string kept_;
};

/// Those of the store's objects that a key with a last "/", or with a pattern, stands for; sorted.
Status ListMatching(ObjectStore* store, const std::string& pattern, const RetryRule& rule,
                    std::size_t most, std::vector<ListedObject>* found) {
  const std::string prefix =
      pattern.substr(0, std::min(pattern.find_first_of("*?["), pattern.size()));
  const bool is_folder = prefix == pattern;
  std::string next;
  EndlessListing endless;
  do {
    HttpResponse response;
    const auto prepare = [&](HttpRequest* request) {
      return store->PrepareListing(prefix, next, request);
    };
    ListingPage page;
    const auto check = [&](const HttpResponse& answer) {
      page = ListingPage();
      return store->ReadListing(answer, &page);
    };
    Status status = SendPatiently(store, rule, prepare, check, &response);
    if (status.ok()) status = endless.Look(page);
    if (!status.ok()) return status;
    for (ListedObject& object : page.objects) {
      if (object.key.ends_with('/')) continue;  // what stands for a folder
      const bool wanted =
          is_folder
              ? !IsHidden(
                    std::string_view(object.key).substr(std::min(prefix.size(), object.key.size())))
              : Matches(pattern, object.key);
      if (wanted) found->push_back(std::move(object));
    }
    if (found->size() > most) {
      return Status(StatusCode::kInvalidArgument,
                    "it stands for more than " + std::to_string(most) + " objects");
    }
    next = std::move(page.next);
  } while (!next.empty());
  if (found->empty()) return Status(StatusCode::kNotFound, "no object matches it");
  std::ranges::sort(*found, {}, &ListedObject::key);
  return {};
}

}  // namespace

RemoteSource::RemoteSource(std::shared_ptr<ObjectStore> store, RemoteAddress address,
                           std::optional<ObjectState> state,
                           std::shared_ptr<const RemoteReading> reading)
    : store_(std::move(store)),
      address_(std::move(address)),
      name_(address_.kind == StoreKind::kHttp ? ShownAddress(address_.text) : address_.text),
      reading_(std::move(reading)),
      id_(NextId()) {
  if (!state) return;
  state_ = std::move(*state);
  NoteState();
}

// The state is known.
void RemoteSource::NoteState() const {
  const std::string& version = state_.etag.empty() ? state_.modified : state_.etag;
  cached_object_ = {name_, state_.bytes, version};
  // Two queries of one path may be two objects: only an ETag tells them apart.
  const bool may_be_another = state_.etag.empty() && name_ != address_.text;
  is_cached_ = reading_->cache != nullptr && !may_be_another && IsCacheable(cached_object_);
  // Release: pairs with the acquire in Begin.
  begun_.store(true, std::memory_order_release);
}

Status RemoteSource::Make(const std::string& text,
                          const std::shared_ptr<const RemoteReading>& reading,
                          std::shared_ptr<RemoteSource>* source, std::optional<ObjectState> state) {
  RemoteAddress address;
  std::shared_ptr<ObjectStore> store;
  Status status = ParseAddress(text, &address);
  if (status.ok()) status = OpenObjectStore(address, BlockingHttp(), &store);
  if (!status.ok()) return status.WithPlace({ShownAddress(text), -1, -1});
  *source = std::make_shared<RemoteSource>(std::move(store), std::move(address), std::move(state),
                                           reading);
  return {};
}

Status RemoteSource::Begin() const {
  // Acquire: pairs with the release in NoteState, for the state.
  if (begun_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  if (begun_.load(std::memory_order_relaxed)) return {};  // another thread asked: under the lock
  Status status = Ask();
  if (!status.ok()) return status.WithPlace({name(), -1, -1});
  NoteState();
  return {};
}

Status RemoteSource::Ask() const {
  HttpResponse response;
  const auto prepare = [&](HttpRequest* request) {
    request->headers.emplace_back("Range", RangeText(0, kFrontBytes));
    request->enough_bytes = kFrontBytes;  // a server without ranges sends all of the object
    return store_->Prepare(address_.key, {}, request);
  };
  const auto check = [this](const HttpResponse& answer) {
    state_ = ObjectState();
    return StateOf(answer, &state_);
  };
  Status status =
      SendPatiently(store_.get(), RetryRule(patience_ms(), failures()), prepare, check, &response);
  if (response.status == 416) {  // an empty one has no first byte
    const auto range = ReadContentRange(response.Header("content-range"));
    if (range && range->size == 0) return {};
  }
  const std::lock_guard lock(front_mutex_);
  if (status.ok()) front_ = std::move(response.body);
  return status;
}

std::uint64_t RemoteSource::Size() const {
  if (Status status = Begin(); !status.ok()) throw Error(status);
  return state_.bytes;
}

std::string RemoteSource::Version() const {
  if (Status status = Begin(); !status.ok()) throw Error(status);
  return state_.etag.empty() ? state_.modified : state_.etag;
}

Status RemoteSource::Prepare(std::uint64_t begin, std::uint64_t end, HttpRequest* request) const {
  request->headers.emplace_back("Range", RangeText(begin, end));
  const bool is_strong = state_.etag.starts_with('"');
  // Hugging Face redirects to another server, whose ETags are its own.
  if (is_strong && address_.kind != StoreKind::kHuggingFace) {
    request->headers.emplace_back("If-Match", state_.etag);
  }
  return store_->Prepare(address_.key, {}, request);
}

Status RemoteSource::Changed() const {
  return Status(StatusCode::kDamaged, "the object has changed since it was opened (its state was " +
                                          (state_.etag.empty() ? state_.modified : state_.etag) +
                                          "): open it anew, and make its index or manifest anew");
}

Status RemoteSource::CheckState(const HttpResponse& head) const {
  const std::string_view etag = head.Header("etag");
  const bool other_tag =
      !etag.empty() && !state_.etag.empty() && WithoutWeak(etag) != WithoutWeak(state_.etag);
  const std::string_view modified = head.Header("last-modified");
  const bool other_time =
      state_.etag.empty() && !state_.modified.empty() && modified != state_.modified;
  return other_tag || other_time ? Changed() : Status();
}

std::uint32_t RemoteSource::CopyFront(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset >= kFrontBytes) return 0;
  const std::lock_guard lock(front_mutex_);
  if (offset >= front_.size()) return 0;
  const std::size_t bytes = std::min<std::size_t>(into.size(), front_.size() - offset);
  std::memcpy(into.data(), front_.data() + offset, bytes);
  return static_cast<std::uint32_t>(bytes);
}

void RemoteSource::DropFront() const {
  const std::lock_guard lock(front_mutex_);
  std::string().swap(front_);
}

Status RemoteSource::ReadRange(std::uint64_t offset, std::span<std::byte> buffer,
                               std::size_t* bytes_read) const {
  *bytes_read = 0;
  if (Status status = Begin(); !status.ok()) return status;
  const std::uint64_t left = state_.bytes - std::min(offset, state_.bytes);
  buffer = buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left)));
  if (buffer.empty()) return {};
  if (offset + buffer.size() <= kFrontBytes) {
    *bytes_read = CopyFront(offset, buffer);
    if (*bytes_read == buffer.size()) return {};
    *bytes_read = 0;
  }
  // It lives as long as this call: the input owns nothing.
  RemoteInput input(std::shared_ptr<const RemoteSource>(std::shared_ptr<void>(), this));
  std::vector<ReadRequest> parts;
  for (std::size_t at = 0; at < buffer.size(); at += kPartBytes) {
    const auto bytes = static_cast<std::uint32_t>(std::min(kPartBytes, buffer.size() - at));
    parts.push_back({&input, offset + at, buffer.data() + at, bytes});
  }
  ReadAll(&parts);
  for (const ReadRequest& part : parts) {
    *bytes_read += part.got;
    if (!part.status.ok()) return part.status;
  }
  return {};
}

Status FindObject(const std::string& address, const std::shared_ptr<const RemoteReading>& reading,
                  std::shared_ptr<RemoteSource>* object) {
  Status status = RemoteSource::Make(address, reading, object);
  if (status.ok()) status = (*object)->Begin();
  if (status.ok()) return status;
  object->reset();
  const bool is_missing =
      status.code() == StatusCode::kNotFound || status.code() == StatusCode::kPermissionDenied;
  return is_missing ? Status() : status;
}

Status ReadObject(const std::string& address, std::uint64_t most_bytes, std::string* bytes) {
  std::shared_ptr<RemoteSource> object;
  Status status = RemoteSource::Make(address, ReadingOf({}), &object);
  if (status.ok()) status = object->Begin();
  if (!status.ok()) return status;
  const std::uint64_t size = object->Size();
  if (size > most_bytes) {
    return Status(StatusCode::kUnsupported,
                  "it has more than " + std::to_string(most_bytes) + " bytes",
                  {object->name(), -1, -1});
  }
  bytes->resize(static_cast<std::size_t>(size));
  std::size_t got = 0;
  status = object->ReadRange(0, std::as_writable_bytes(std::span(*bytes)), &got);
  if (status.ok() && got < size) {
    status = Status(StatusCode::kTruncated, "it ends before its size",
                    {object->name(), static_cast<std::int64_t>(got), -1});
  }
  return status;
}

bool AnyOfStore(std::span<const std::shared_ptr<Source>> sources) {
  return std::ranges::any_of(sources, [](const auto& each) { return IsOfStore(each.get()); });
}

Status ExpandAddress(const std::string& pattern,
                     const std::shared_ptr<const RemoteReading>& reading, std::size_t most,
                     std::vector<std::shared_ptr<RemoteSource>>* sources) {
  RemoteAddress address;
  Status status = ParseAddress(pattern, &address);
  if (!status.ok()) return status;
  const std::size_t wild = address.key.find_first_of("*?[");
  const bool is_plain_http = address.kind == StoreKind::kHttp;  // "?" begins a query there
  if (is_plain_http || (wild == std::string::npos && !address.key.ends_with('/'))) {
    std::shared_ptr<RemoteSource> source;
    status = RemoteSource::Make(pattern, reading, &source);
    if (status.ok()) sources->push_back(std::move(source));
    return status;
  }
  std::shared_ptr<ObjectStore> store;
  status = OpenObjectStore(address, BlockingHttp(), &store);
  std::vector<ListedObject> found;
  const RetryRule rule(reading->io.remote_patience_ms, &reading->failures);
  if (status.ok()) status = ListMatching(store.get(), address.key, rule, most, &found);
  if (!status.ok()) return status.WithPlace({ShownAddress(pattern), -1, -1});
  const std::string before = address.text.substr(0, address.text.size() - address.key.size());
  for (ListedObject& object : found) {
    RemoteAddress its = address;
    its.text = before + object.key;
    its.key = std::move(object.key);
    sources->push_back(std::make_shared<RemoteSource>(
        store, std::move(its), ObjectState{object.bytes, std::move(object.etag), {}}, reading));
  }
  return {};
}

OpenInputResult OpenSource(const std::shared_ptr<Source>& source) { return OpenAs(source, false); }

OpenInputResult OpenSequentialSource(const std::shared_ptr<Source>& source) {
  return OpenAs(source, true);
}

std::shared_ptr<const RemoteReading> ReadingOf(const IoOptions& options) {
  auto reading = std::make_shared<RemoteReading>();
  reading->io = options;
  return reading;
}

OpenInputResult OpenNamed(const std::string& name, const IoOptions& options) {
  if (!IsRemote(name)) return OpenInput(name, options);
  std::shared_ptr<RemoteSource> source;
  Status status = RemoteSource::Make(name, ReadingOf(options), &source);
  return status.ok() ? OpenSource(source) : OpenInputResult{std::move(status), nullptr};
}

}  // namespace ringfeed
