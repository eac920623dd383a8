#include "readers/index/pointed_content.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "base/memory/memory_limit.h"
#include "base/per_process.h"
#include "io/careful_reads.h"
#include "io/data_file.h"

namespace ringfeed {
namespace {

struct Content {
  std::unique_ptr<std::byte[]> data;
  std::size_t bytes = 0;
};

/// The spans that were decompressed last, of all files of the process. Thread safe.
class DecompressedSpans {
 public:
  using Key = std::pair<std::uint64_t, std::size_t>;  ///< a file's number, and a span
  using Make = std::function<Status(Content*)>;

  /// Calls `make` if it does not have the span. A failure is not kept.
  Status Get(const Key& key, const Make& make, std::shared_ptr<const Content>* content);
  /// So many bytes of a span were read: one that gave as many as it has is the next to be dropped.
  void NoteRead(const Key& key, std::uint64_t bytes);
  /// Drops all spans of a file.
  void Forget(std::uint64_t file);

 private:
  static constexpr std::uint64_t kLeastBytes = 2 * SeekPoints::kMostSpanBytes;

  struct Span {
    std::mutex mutex;  ///< guards what follows
    std::shared_ptr<const Content> content;
  };
  struct Kept {
    std::shared_ptr<Span> span;
    std::uint64_t bytes = 0;  ///< 0 until it is decompressed
    std::uint64_t read_bytes = 0;
    std::list<Key>::iterator use;
  };

  std::shared_ptr<Span> Find(const Key& key);
  void Count(const Key& key, std::uint64_t bytes);
  void Drop(std::map<Key, Kept>::iterator kept);

  const std::uint64_t most_bytes_ = std::max(kLeastBytes, AvailableMemory() / 16);
  std::mutex mutex_;  ///< guards what follows
  std::map<Key, Kept> kept_;
  std::list<Key> uses_;  ///< the last one first
  std::uint64_t bytes_ = 0;
};

std::shared_ptr<DecompressedSpans::Span> DecompressedSpans::Find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  if (found != kept_.end()) {
    uses_.splice(uses_.begin(), uses_, found->second.use);
    return found->second.span;
  }
  uses_.push_front(key);
  auto span = std::make_shared<Span>();
  kept_.emplace(key, Kept{span, 0, 0, uses_.begin()});
  return span;
}

void DecompressedSpans::Drop(std::map<Key, Kept>::iterator kept) {
  bytes_ -= kept->second.bytes;
  uses_.erase(kept->second.use);
  kept_.erase(kept);
}

void DecompressedSpans::Count(const Key& key, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end()) return;  // it was dropped meanwhile
  if (bytes == 0) {
    Drop(found);
    return;
  }
  found->second.bytes = bytes;
  bytes_ += bytes;
  while (bytes_ > most_bytes_ && uses_.back() != key) Drop(kept_.find(uses_.back()));
}

Status DecompressedSpans::Get(const Key& key, const Make& make,
                              std::shared_ptr<const Content>* content) {
  const std::shared_ptr<Span> span = Find(key);
  const std::lock_guard lock(span->mutex);
  if (span->content == nullptr) {
    auto made = std::make_shared<Content>();
    Status status = make(made.get());
    Count(key, status.ok() ? made->bytes : 0);
    if (!status.ok()) return status;
    span->content = std::move(made);
  }
  *content = span->content;
  return {};
}

void DecompressedSpans::NoteRead(const Key& key, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end()) return;
  found->second.read_bytes += bytes;
  if (found->second.read_bytes < found->second.bytes) return;
  uses_.splice(uses_.end(), uses_, found->second.use);  // it may be read once more
}

void DecompressedSpans::Forget(std::uint64_t file) {
  const std::lock_guard lock(mutex_);
  while (true) {
    const auto next = kept_.lower_bound({file, 0});
    if (next == kept_.end() || next->first.first != file) return;
    Drop(next);
  }
}

DecompressedSpans& Spans() {
  static PerProcess<DecompressedSpans> spans;
  return spans.Get();
}

std::uint64_t NextNumber() {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);  // only unique
}

Status ReadFile(const std::string& name, const KnownFile& known, std::uint64_t offset,
                std::span<std::byte> to, std::size_t* got) {
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(name, &descriptor, &facts);
  if (!status.ok()) return status;
  status = CheckKnown(name, known, FileState::Of(facts));
  if (status.ok()) {
    status = ReadPatiently([&] { return ReadWhole(descriptor, offset, to, got); });
  }
  close(descriptor);
  return status;
}

ReadStored StoredReader(const IndexedFile& stored, const KnownFile& known) {
  return [&stored, &known](std::uint64_t offset, std::span<std::byte> to) {
    std::size_t got = 0;
    Status status;
    if (stored.source == nullptr) {
      status = ReadFile(stored.name, known, offset, to, &got);
    } else {
      while (status.ok() && got < to.size()) {
        std::size_t some = 0;
        status = ReadPatiently(
            [&] { return stored.source->ReadAt(offset + got, to.subspan(got), &some); });
        got += some;
        if (some == 0) break;
      }
    }
    if (!status.ok() || got == to.size()) return status;
    return Status(StatusCode::kTruncated, "the file is shorter than its seek points say");
  };
}

}  // namespace

PointedContent::PointedContent(IndexedFile stored, const KnownFile& known,
                               std::shared_ptr<const SeekPoints> points)
    : stored_(std::move(stored)),
      known_(known),
      points_(std::move(points)),
      number_(NextNumber()) {}

PointedContent::~PointedContent() { Spans().Forget(number_); }

std::string PointedContent::Version() const {
  return stored_.source == nullptr ? std::string() : stored_.source->Version();
}

Status PointedContent::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                              std::size_t* bytes_read) {
  *bytes_read = 0;
  while (!buffer.empty() && offset < Size()) {
    const std::size_t span = points_->SpanOf(offset);
    const auto decompress = [&](Content* made) {
      made->bytes = points_->ContentBytes(span);
      made->data = std::make_unique_for_overwrite<std::byte[]>(made->bytes);
      return DecompressSpan(*points_, span, StoredReader(stored_, known_),
                            {made->data.get(), made->bytes});
    };
    std::shared_ptr<const Content> content;
    const Status status = Spans().Get({number_, span}, decompress, &content);
    // The next read, which begins here, tells the failure.
    if (!status.ok()) return *bytes_read > 0 ? Status() : status;
    const auto from = static_cast<std::size_t>(offset - points_->points[span].content_begin);
    const std::size_t some = std::min(buffer.size(), content->bytes - from);
    std::copy_n(content->data.get() + from, some, buffer.begin());
    Spans().NoteRead({number_, span}, some);
    buffer = buffer.subspan(some);
    offset += some;
    *bytes_read += some;
  }
  return {};
}

const PointedContent* PointedContentOf(const Source* source) {
  return dynamic_cast<const PointedContent*>(source);
}

std::shared_ptr<Source> StoredSource(const std::shared_ptr<Source>& source) {
  const PointedContent* const content = PointedContentOf(source.get());
  return content != nullptr ? content->stored().source : source;
}

std::uint64_t StoredBytes(const Source* source, std::uint64_t bytes) {
  const PointedContent* const content = PointedContentOf(source);
  return content != nullptr ? content->stored().bytes : bytes;
}

bool IsOfFile(const Source* source) {
  if (source == nullptr) return true;
  const PointedContent* const content = PointedContentOf(source);
  return content != nullptr && content->stored().source == nullptr;
}

}  // namespace ringfeed
