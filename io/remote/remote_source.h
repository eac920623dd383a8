#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/input_file.h"
#include "io/remote/failure_budget.h"
#include "io/remote/object_store.h"
#include "io/remote/piece_cache.h"
#include "ringfeed/io_options.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What is known of an object, in the state that is read: bytes of another state are a failure.
struct ObjectState {
  std::uint64_t bytes = 0;
  std::string etag;      ///< as the header has it; "": the server tells none
  std::string modified;  ///< its Last-Modified; told only if there is no ETag
};

/// What was sent and received, of all that a reader reads.
struct RemoteCounters {
  std::atomic<std::uint64_t> requests{0};      ///< for ranges, with those sent again
  std::atomic<std::uint64_t> bytes{0};         ///< of ranges, with those that came twice
  std::atomic<std::uint64_t> retries{0};       ///< after a failure that passes
  std::atomic<std::uint64_t> hedges{0};        ///< ranges slower than others, asked for once more
  std::atomic<std::uint64_t> throttled{0};     ///< answers 429 and 503
  std::atomic<std::uint64_t> by_library{0};    ///< unusual answers, asked for anew by libcurl
  std::atomic<std::uint64_t> cached_bytes{0};  ///< read from the cache
};

/// What the objects of a reader have in common.
struct RemoteReading {
  IoOptions io;
  std::shared_ptr<PieceCache> cache;  ///< null: none
  mutable RemoteCounters counters;
  mutable FailureBudget failures;
};

/// An object of a store as a file: its size and its state by one request, bytes by ranges. Thread
/// safe.
class RemoteSource final : public Source {
 public:
  /// Sends nothing. `state`: what a listing told of it, if one did.
  RemoteSource(std::shared_ptr<ObjectStore> store, RemoteAddress address,
               std::optional<ObjectState> state, std::shared_ptr<const RemoteReading> reading);
  /// The object of an address. Sends nothing. `state`: as above. kInvalidArgument if it is none, or
  /// if the environment's settings of its store cannot be understood.
  static Status Make(const std::string& address,
                     const std::shared_ptr<const RemoteReading>& reading,
                     std::shared_ptr<RemoteSource>* source,
                     std::optional<ObjectState> state = std::nullopt);

  /// Unless its state is known, asks for its first bytes, which tell it. The functions that follow
  /// need that; Size and Version call it, and throw its failure. Blocks for up to
  /// remote_patience_ms. kNotFound, kPermissionDenied, kResourceExhausted, …
  Status Begin() const;

  /// Its address, of a web server without the query, which may be a secret.
  std::string name() const override { return name_; }
  /// All of it, as it was given.
  const std::string& address() const { return address_.text; }
  std::uint64_t Size() const override;
  std::string Version() const override;
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    return ReadRange(offset, buffer, bytes_read);
  }
  /// As ReadAt: several ranges at a time, if the buffer is large. Blocks for up to
  /// remote_patience_ms without a byte.
  Status ReadRange(std::uint64_t offset, std::span<std::byte> buffer,
                   std::size_t* bytes_read) const;

  /// The object of another address, which is read as this one is. Sends nothing.
  Status Other(const std::string& address, std::shared_ptr<RemoteSource>* other) const {
    return Make(address, reading_, other);
  }

  ObjectStore* store() const { return store_.get(); }
  /// Copies what is at hand of the bytes from `offset` on: those that came at its opening. Returns
  /// how many.
  std::uint32_t CopyFront(std::uint64_t offset, std::span<std::byte> into) const;
  /// They are not needed any more: they were read. Looking at a file's first bytes keeps them.
  void DropFront() const;
  const ObjectState& state() const { return state_; }
  std::int64_t patience_ms() const { return reading_->io.remote_patience_ms; }
  RemoteCounters* counters() const { return &reading_->counters; }
  FailureBudget* failures() const { return &reading_->failures; }
  /// Differs from that of every other object that this process made.
  std::uint64_t id() const { return id_; }
  PieceCache* cache() const { return reading_->cache.get(); }
  /// What it is to the cache; null: it is not kept there.
  const CachedObject* cached_object() const { return is_cached_ ? &cached_object_ : nullptr; }

  /// Completes a request for bytes [begin, end) in the state that is known.
  Status Prepare(std::uint64_t begin, std::uint64_t end, HttpRequest* request) const;
  /// Whether the head of a good answer is of another state: kDamaged, with both.
  Status CheckState(const HttpResponse& head) const;
  /// The same for an answer that says so itself (412, 416).
  Status Changed() const;

 private:
  Status Ask() const;
  void NoteState() const;

  const std::shared_ptr<ObjectStore> store_;
  const RemoteAddress address_;
  const std::string name_;
  const std::shared_ptr<const RemoteReading> reading_;
  const std::uint64_t id_;
  mutable std::mutex mutex_;  ///< of the thread that asks
  /// Release by the thread that asked, acquire by those that use what follows.
  mutable std::atomic<bool> begun_{false};
  mutable ObjectState state_;
  mutable std::mutex front_mutex_;
  mutable std::string front_;  ///< guarded by front_mutex_
  mutable CachedObject cached_object_;
  mutable bool is_cached_ = false;
};

/// Sets *object to the one of an address, whose state is known then; to null if there is none, or
/// if it may not be seen: S3 forbids what is not there, to those who may not list the bucket.
/// Blocks as RemoteSource::Begin.
Status FindObject(const std::string& address, const std::shared_ptr<const RemoteReading>& reading,
                  std::shared_ptr<RemoteSource>* object);
/// All bytes of the object of an address, read by itself. kUnsupported if it has more than
/// `most_bytes`, kTruncated if fewer came than it has. Blocks as RemoteSource::ReadRange.
Status ReadObject(const std::string& address, std::uint64_t most_bytes, std::string* bytes);

/// Whether a source is an object of a store, not one of the program's.
inline bool IsOfStore(const Source* source) {
  return dynamic_cast<const RemoteSource*>(source) != nullptr;
}

/// The same of any of several.
bool AnyOfStore(std::span<const std::shared_ptr<Source>> sources);

/// Appends the objects that an address stands for, as ExpandPattern does the files of a pattern:
///   - one without "*", "?", "[" and without a last "/", and any of plain HTTP: that object,
///     whether it is there or not;
///   - with a last "/": all objects whose keys begin so, sorted, but none of a hidden folder or
///     name;
///   - a pattern: all objects whose keys match, sorted, "*" and "?" within a name between slashes,
///     "**" across them.
/// The other two are listed once, in pages; that blocks. kNotFound if nothing matches, kUnsupported
/// if the store has no listings, kInvalidArgument for more than `most`.
Status ExpandAddress(const std::string& pattern,
                     const std::shared_ptr<const RemoteReading>& reading, std::size_t most,
                     std::vector<std::shared_ptr<RemoteSource>>* sources);

/// What an object has that is read by itself, without a cache.
std::shared_ptr<const RemoteReading> ReadingOf(const IoOptions& options);

/// Opens a source as an input: one of a store is read by its engine, one of the program's by its
/// ReadAt, which several threads may call. Blocks until the state of an object is known.
OpenInputResult OpenSource(const std::shared_ptr<Source>& source);
/// The same for one thread that reads by ReadAt from the start to the end: ranges of an object are
/// asked for ahead.
OpenInputResult OpenSequentialSource(const std::shared_ptr<Source>& source);
/// The same of what has that name: an object, if it is an address, else a file (OpenInput).
OpenInputResult OpenNamed(const std::string& name, const IoOptions& options);

}  // namespace ringfeed
