#include "io/remote/cached_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "io/remote/piece_cache.h"
#include "io/remote/remote_source.h"

namespace ringfeed {
namespace {

using Clock = std::chrono::steady_clock;

/// Which piece of which object of this process.
using PieceKey = std::pair<std::uint64_t, std::uint64_t>;

constexpr std::size_t kMostOpenPieces = 256;

/// A request of the caller, of which some parts are still to come.
struct Waiting {
  ReadRequest* request = nullptr;
  std::size_t parts_left = 0;
  std::uint32_t failed_at = 0;  ///< the part whose failure is the request's
};

/// Bytes of one piece that a request waits for.
struct Part {
  Waiting* of = nullptr;
  std::uint32_t at = 0;  ///< in the request's buffer
  std::uint32_t bytes = 0;
  std::uint32_t in_piece = 0;
};

/// What the inner engine was asked for: a whole piece for the cache, or one part.
struct Fetch : ReadRequest {
  std::unique_ptr<PieceWriter> writer;  ///< null: one part, into its request's buffer
  std::shared_ptr<PieceBuffer> piece;
  PieceKey key;
  std::vector<Part> parts;
};

/// A piece that is all there, and is written to the disk by a thread of the pool.
struct PieceWrite : ReadRequest {
  std::unique_ptr<PieceWriter> writer;
  std::shared_ptr<PieceBuffer> piece;
};

void Write(ReadRequest* request, int /*retries*/, ReadEngineStats* /*stats*/) {
  auto* const write = static_cast<PieceWrite*>(request);
  write->writer->Write(0, write->piece->bytes());
  (void)write->writer->Finish();  // a failure turns the cache off, which its stats tell
  write->writer.reset();
  write->piece.reset();
}

class CachedEngine final : public ReadEngine {
 public:
  explicit CachedEngine(std::unique_ptr<ReadEngine> engine)
      : engine_(std::move(engine)), writing_(MakePoolEngine(IoOptions(), Write)) {}
  /// Waits until what was fetched is written.
  ~CachedEngine() override {
    engine_.reset();  // it writes to the fetches until then
    while (!writes_.empty()) TakeWritten(Clock::now() + std::chrono::seconds(1));
  }

  std::string name() const override { return engine_->name(); }
  std::string Describe() const override { return engine_->Describe(); }
  std::size_t Submit(std::span<ReadRequest* const> requests) override;
  std::size_t room() const override { return std::max<std::size_t>(1, engine_->room()); }
  std::size_t Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) override;
  void Wake() override { engine_->Wake(); }
  std::size_t in_flight() const override { return waiting_.size() + finished_.size() + direct_; }
  ReadEngineStats stats() const override { return engine_->stats(); }

 private:
  /// Splits a request at the borders of pieces, and reads or fetches each. False if there is no
  /// room now.
  bool Begin(ReadRequest* request);
  /// Reads a part from the cache. False if it is not there.
  bool ReadCached(const RemoteSource& source, PieceKey key, const Part& part);
  void Ask(const RemoteSource& source, PieceKey key, const Part& part);
  void SubmitFetches();
  void OnFetched(std::unique_ptr<Fetch> fetch);
  void TakeWritten(Clock::time_point deadline);
  void EndPart(const Part& part, std::uint32_t got, const Status& status);
  bool IsFull() const { return in_flight() > 0 && engine_->room() <= unsent_.size(); }

  std::unique_ptr<ReadEngine> engine_;
  const std::unique_ptr<ReadEngine> writing_;        ///< the pool
  std::vector<std::unique_ptr<PieceWrite>> writes_;  ///< that the pool has
  std::size_t direct_ = 0;  ///< requests that the inner engine has as they are
  std::list<Waiting> waiting_;
  std::deque<ReadRequest*> finished_;
  std::vector<std::unique_ptr<Fetch>> fetches_;
  std::deque<Fetch*> unsent_;  ///< of them
  std::map<PieceKey, std::unique_ptr<CachedPiece>> open_;
  std::deque<PieceKey> opened_;  ///< the oldest first
};

std::size_t CachedEngine::Submit(std::span<ReadRequest* const> requests) {
  std::size_t taken = 0;
  for (ReadRequest* const request : requests) {
    if (request->file->remote()->cached_object() == nullptr) {
      if (engine_->Submit({&request, 1}) == 0) break;
      ++direct_;
    } else if (IsFull() || !Begin(request)) {
      break;
    }
    ++taken;
  }
  SubmitFetches();
  return taken;
}

bool CachedEngine::Begin(ReadRequest* request) {
  const RemoteSource& source = *request->file->remote();
  source.DropFront();  // it is of a piece that is fetched as a whole
  request->got = 0;
  request->status = Status();
  const std::uint64_t left = source.Size() - std::min(source.Size(), request->offset);
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(request->bytes, left));
  if (bytes == 0) {
    finished_.push_back(request);
    return true;
  }
  Waiting& waiting = waiting_.emplace_back(Waiting{request});
  std::vector<std::pair<PieceKey, Part>> parts;
  for (std::uint32_t at = 0; at < bytes;) {
    const std::uint64_t offset = request->offset + at;
    const auto in_piece = static_cast<std::uint32_t>(offset % kPieceBytes);
    const std::uint32_t size = std::min(bytes - at, kPieceBytes - in_piece);
    parts.push_back({{source.id(), offset / kPieceBytes}, {&waiting, at, size, in_piece}});
    at += size;
  }
  waiting.parts_left = parts.size();
  request->got = bytes;
  for (const auto& [key, part] : parts) {
    if (ReadCached(source, key, part)) {
      EndPart(part, part.bytes, {});
    } else {
      Ask(source, key, part);
    }
  }
  return true;
}

bool CachedEngine::ReadCached(const RemoteSource& source, PieceKey key, const Part& part) {
  const std::span<std::byte> into(part.of->request->buffer + part.at, part.bytes);
  auto found = open_.find(key);
  if (found == open_.end()) {
    const auto being_fetched = [key](const auto& fetch) {
      return fetch->writer != nullptr && fetch->key == key;
    };
    if (std::ranges::any_of(fetches_, being_fetched)) return false;
    auto piece = source.cache()->Find(*source.cached_object(), key.second);
    if (piece == nullptr) return false;
    if (piece->is_in_memory()) {
      source.counters()->cached_bytes.fetch_add(part.bytes, std::memory_order_relaxed);
      return piece->Read(part.in_piece, into);
    }
    if (open_.size() >= kMostOpenPieces) {
      open_.erase(opened_.front());
      opened_.pop_front();
    }
    found = open_.emplace(key, std::move(piece)).first;
    opened_.push_back(key);
  }
  if (found->second->Read(part.in_piece, into)) {
    source.counters()->cached_bytes.fetch_add(part.bytes, std::memory_order_relaxed);
    return true;
  }
  open_.erase(found);
  std::erase(opened_, key);
  return false;
}

void CachedEngine::Ask(const RemoteSource& source, PieceKey key, const Part& part) {
  for (const auto& fetch : fetches_) {
    if (fetch->writer != nullptr && fetch->key == key) {
      fetch->parts.push_back(part);
      return;
    }
  }
  auto fetch = std::make_unique<Fetch>();
  fetch->file = part.of->request->file;
  fetch->key = key;
  fetch->parts.push_back(part);
  const std::uint32_t bytes = PieceBytes(source.cached_object()->bytes, key.second);
  fetch->piece = PieceBuffer::Take(bytes);
  if (fetch->piece != nullptr) {
    fetch->writer = source.cache()->Begin(*source.cached_object(), key.second);
  }
  if (fetch->writer != nullptr) {
    fetch->offset = key.second * kPieceBytes;
    fetch->buffer = fetch->piece->bytes().data();
    fetch->bytes = bytes;
  } else {
    fetch->offset = part.of->request->offset + part.at;
    fetch->buffer = part.of->request->buffer + part.at;
    fetch->bytes = part.bytes;
    fetch->piece.reset();
  }
  unsent_.push_back(fetch.get());
  fetches_.push_back(std::move(fetch));
}

void CachedEngine::SubmitFetches() {
  while (!unsent_.empty()) {
    ReadRequest* const next[] = {unsent_.front()};
    if (engine_->Submit(next) == 0) return;
    unsent_.pop_front();
  }
}

void CachedEngine::EndPart(const Part& part, std::uint32_t got, const Status& status) {
  Waiting* const waiting = part.of;
  ReadRequest* const request = waiting->request;
  // What counts is in front of the first part that lacks something.
  if (got < part.bytes) request->got = std::min(request->got, part.at + got);
  if (!status.ok() && (request->status.ok() || part.at < waiting->failed_at)) {
    request->status = status;
    waiting->failed_at = part.at;
  }
  if (--waiting->parts_left > 0) return;
  finished_.push_back(request);
  waiting_.remove_if([waiting](const Waiting& each) { return &each == waiting; });
}

void CachedEngine::OnFetched(std::unique_ptr<Fetch> fetch) {
  if (fetch->writer == nullptr) {
    const Part part = fetch->parts.front();
    return EndPart(part, fetch->got, fetch->status);
  }
  const bool is_whole = fetch->status.ok() && fetch->got == fetch->bytes;
  for (const Part& part : fetch->parts) {
    const std::uint32_t has = fetch->got - std::min(fetch->got, part.in_piece);
    const std::uint32_t got = std::min(has, part.bytes);
    std::memcpy(part.of->request->buffer + part.at, fetch->buffer + part.in_piece, got);
    EndPart(part, got, got < part.bytes ? fetch->status : Status());
  }
  if (!is_whole) return;
  auto write = std::make_unique<PieceWrite>();
  write->writer = std::move(fetch->writer);
  write->piece = std::move(fetch->piece);
  write->writer->Announce(write->piece);
  ReadRequest* const request = write.get();
  writes_.push_back(std::move(write));
  try {
    (void)writing_->Submit({&request, 1});  // of no bytes: all are taken
  } catch (const Error&) {                  // the system has no thread to give
    Write(request, 0, nullptr);
    writes_.pop_back();
  }
}

void CachedEngine::TakeWritten(Clock::time_point deadline) {
  std::array<ReadRequest*, PieceBuffer::kMost> written;
  for (std::size_t left = written.size(); left == written.size();) {
    left = writing_->Reap(written, deadline);
    for (ReadRequest* const request : std::span(written).first(left)) {
      std::erase_if(writes_, [request](const auto& write) { return write.get() == request; });
    }
  }
}

std::size_t CachedEngine::Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) {
  SubmitFetches();
  if (!writes_.empty()) TakeWritten(Clock::time_point());
  std::size_t count = 0;
  std::array<ReadRequest*, 16> ended;
  if (!finished_.empty()) deadline = Clock::time_point();
  while (engine_->in_flight() > 0) {
    const std::size_t some = engine_->Reap(ended, deadline);
    for (ReadRequest* const request : std::span(ended).first(some)) {
      const auto at = std::ranges::find_if(
          fetches_, [request](const auto& fetch) { return fetch.get() == request; });
      if (at == fetches_.end()) {
        --direct_;
        finished_.push_back(request);
        continue;
      }
      std::unique_ptr<Fetch> fetch = std::move(*at);
      fetches_.erase(at);
      OnFetched(std::move(fetch));
    }
    SubmitFetches();
    if (!finished_.empty() || some == 0) break;
  }
  while (count < finished.size() && !finished_.empty()) {
    finished[count++] = finished_.front();
    finished_.pop_front();
  }
  return count;
}

}  // namespace

std::unique_ptr<ReadEngine> MakeCachedEngine(std::unique_ptr<ReadEngine> engine) {
  return std::make_unique<CachedEngine>(std::move(engine));
}

}  // namespace ringfeed
