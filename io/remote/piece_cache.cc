#include "io/remote/piece_cache.h"

#include <sys/resource.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/refusal.h"

namespace ringfeed {
namespace {

// A piece with the longest footer.
constexpr std::uint64_t kMostFileBytes = kPieceBytes + (std::uint64_t{1} << 15);

std::uint32_t BlockBegin(std::uint32_t offset) { return offset - offset % kPieceBlockBytes; }

std::atomic<int>& Buffers() {
  static constinit std::atomic<int> buffers{0};
  return buffers;
}

}  // namespace

std::shared_ptr<PieceBuffer> PieceBuffer::Take(std::uint32_t bytes) {
  // Relaxed, all of them: a number alone, which hands nothing over.
  int taken = Buffers().load(std::memory_order_relaxed);
  while (taken < kMost) {
    if (!Buffers().compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed)) continue;
    try {
      return std::make_shared<PieceBuffer>(bytes);
    } catch (const std::bad_alloc&) {
      Buffers().fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
  }
  return nullptr;
}

PieceBuffer::~PieceBuffer() { Buffers().fetch_sub(1, std::memory_order_relaxed); }

Status PieceCache::Open(const std::string& folder, std::uint64_t most_bytes,
                        std::shared_ptr<PieceCache>* cache) {
  if (most_bytes < kMostFileBytes) {
    return Status(StatusCode::kInvalidArgument,
                  "a cache of " + std::to_string(most_bytes) +
                      " bytes holds no piece of 4 MiB: give it more, 1 GiB or better");
  }
  std::unique_ptr<PieceFolder> opened;
  Status status = PieceFolder::Open(folder, true, &opened);
  if (!status.ok()) return status;
  cache->reset(new PieceCache(std::move(opened), most_bytes));
  PieceCache* const made = cache->get();
  rlimit files{};
  // The system would end the process by SIGXFSZ.
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < kMostFileBytes) {
    made->Note(Status(StatusCode::kIoError,
                      "this process may not write files of 4 MiB: raise the limit (ulimit -f)"));
    return {};
  }
  std::uint64_t removed = 0;
  made->Note(made->folder_->CountAndTrim(most_bytes, &removed));
  made->Count([&](PieceCacheStats* stats) { stats->removed += removed; });
  return {};
}

Status PieceCache::OpenExisting(const std::string& folder, std::shared_ptr<PieceCache>* cache) {
  std::unique_ptr<PieceFolder> opened;
  Status status = PieceFolder::Open(folder, false, &opened);
  if (!status.ok()) return status;
  cache->reset(new PieceCache(std::move(opened), std::numeric_limits<std::uint64_t>::max()));
  return {};
}

std::unique_ptr<CachedPiece> PieceCache::Find(const CachedObject& object, std::uint64_t number) {
  const auto miss = [this] {
    Count([](PieceCacheStats* stats) { ++stats->misses; });
    return nullptr;
  };
  if (!IsCacheable(object) || PieceBytes(object.bytes, number) == 0) return miss();
  std::string file = PieceFileName(object, number);
  std::shared_ptr<const PieceBuffer> announced;
  Count([&](PieceCacheStats* stats) {
    const auto found = announced_.find(file);
    if (found == announced_.end()) return;
    announced = found->second;
    ++stats->hits;
  });
  if (announced != nullptr) {
    return std::make_unique<CachedPiece>(shared_from_this(), std::move(announced));
  }
  const int descriptor = folder_->OpenPiece(file, true);
  if (descriptor < 0) return miss();
  PieceFooter footer;
  std::uint64_t file_bytes = 0;
  const bool good = folder_->IsSafe(descriptor, &file_bytes) &&
                    ReadPieceFooter(descriptor, file_bytes, &footer).ok() &&
                    footer.object == object && footer.number == number;
  auto piece = std::make_unique<CachedPiece>(shared_from_this(), std::move(file), descriptor,
                                             std::move(footer));
  if (!good) {
    piece->Discard();
    return miss();
  }
  Count([](PieceCacheStats* stats) { ++stats->hits; });
  return piece;
}

bool PieceCache::HasAll(const CachedObject& object) const {
  if (!IsCacheable(object)) return false;
  for (std::uint64_t number = 0; PieceBytes(object.bytes, number) > 0; ++number) {
    if (!folder_->HasPiece(PieceFileName(object, number))) return false;
  }
  return true;
}

std::unique_ptr<PieceWriter> PieceCache::Begin(const CachedObject& object, std::uint64_t number) {
  PieceFolder::Reservation reservation;
  std::string file = PieceFileName(object, number);
  if (IsCacheable(object) && PieceBytes(object.bytes, number) != 0 && !IsOff()) {
    Note(folder_->Reserve(file, PieceFileBytes(object, number), most_bytes_, &reservation));
  }
  Count([&](PieceCacheStats* stats) {
    stats->removed += reservation.removed;
    if (reservation.descriptor < 0) ++stats->declined;
  });
  if (reservation.descriptor < 0) return nullptr;
  return std::make_unique<PieceWriter>(shared_from_this(), std::move(file), reservation.descriptor,
                                       PieceFooter{object, number, {}});
}

bool PieceCache::Add(const CachedObject& object, std::uint64_t number,
                     std::span<const std::byte> bytes) {
  const std::unique_ptr<PieceWriter> writer = Begin(object, number);
  if (writer == nullptr) return false;
  writer->Write(0, bytes);
  return writer->Finish();
}

PieceCacheStats PieceCache::Stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool PieceCache::IsOff() const {
  const std::lock_guard lock(mutex_);
  return !stats_.off_reason.empty();
}

void PieceCache::Note(const Status& failure) {
  if (failure.ok() || IsRefusal(failure)) return;
  Count([&](PieceCacheStats* stats) {
    if (stats->off_reason.empty()) stats->off_reason = failure.message();
  });
}

void PieceCache::RemoveBad(const std::string& file, int descriptor) {
  Note(folder_->Remove(file, descriptor));
  Count([](PieceCacheStats* stats) { ++stats->bad; });
}

Status PieceCache::Examine(bool all, const std::function<void(const Examined&)>& take) {
  std::vector<PieceFolder::File> files;
  Status status = folder_->List(&files);
  std::vector<std::byte> bytes(all ? kPieceBytes : 0);
  for (const PieceFolder::File& file : files) {
    if (!status.ok()) return status;
    if (!IsPieceFileName(file.name)) continue;
    const ScopedDescriptor opened(folder_->OpenPiece(file.name, false));
    if (opened.get() < 0 && errno == ENOENT) continue;  // another process has removed it
    Examined piece;
    piece.file = file.name;
    piece.used_ns = file.used_ns;
    PieceFooter footer;
    if (folder_->IsSafe(opened.get(), &piece.file_bytes) &&
        ReadPieceFooter(opened.get(), piece.file_bytes, &footer).ok() &&
        PieceFileName(footer.object, footer.number) == file.name) {
      const auto content = std::span(bytes).first(all ? footer.piece_bytes() : 0);
      piece.bad = ReadAllAt(opened.get(), 0, content) != 0 || !PieceBlocksMatch(footer, 0, content);
      piece.footer = std::move(footer);
    } else {
      piece.bad = true;
    }
    if (piece.bad && all) status = folder_->Remove(file.name, opened.get());
    take(piece);
  }
  return status;
}

Status PieceCache::Trim(std::uint64_t most_bytes) {
  std::uint64_t removed = 0;
  Status status = folder_->CountAndTrim(most_bytes, &removed);
  Count([&](PieceCacheStats* stats) { stats->removed += removed; });
  return status;
}

bool CachedPiece::Check(std::uint32_t offset, std::span<const std::byte> blocks) const {
  if (PieceBlocksMatch(footer_, offset, blocks)) return true;
  Discard();
  return false;
}

bool CachedPiece::Read(std::uint32_t offset, std::span<std::byte> into) const {
  assert(offset <= bytes() && into.size() <= bytes() - offset);
  if (is_in_memory()) {
    std::ranges::copy(buffer_->bytes().subspan(offset, into.size()), into.begin());
    return true;
  }
  if (into.empty()) return true;
  // Whole blocks go to where they belong. Those of which only a part is asked for are read, and
  // checked, elsewhere.
  std::array<std::byte, kPieceBlockBytes> first;
  std::array<std::byte, kPieceBlockBytes> last;
  const auto end = static_cast<std::uint32_t>(offset + into.size());
  const std::uint32_t begin = BlockBegin(offset);
  const auto block_end = [this](std::uint32_t at) {
    return std::min(BlockBegin(at) + kPieceBlockBytes, bytes());
  };
  const bool cuts_first = begin != offset || end < block_end(begin);
  const std::uint32_t whole_begin = cuts_first ? std::min(block_end(begin), end) : offset;
  const bool cuts_last = whole_begin < end && block_end(end - 1) != end;
  const std::uint32_t whole_end = cuts_last ? BlockBegin(end - 1) : end;
  const auto first_block = std::span(first).first(cuts_first ? block_end(begin) - begin : 0);
  const auto whole = into.subspan(whole_begin - offset, whole_end - whole_begin);
  const auto last_block = std::span(last).first(cuts_last ? block_end(whole_end) - whole_end : 0);
  const std::array<iovec, 3> parts = {iovec{first_block.data(), first_block.size()},
                                      iovec{whole.data(), whole.size()},
                                      iovec{last_block.data(), last_block.size()}};
  const std::size_t all = first_block.size() + whole.size() + last_block.size();
  ssize_t got = 0;
  do {
    got = preadv(descriptor(), parts.data(), static_cast<int>(parts.size()), begin);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(all)) {
    Discard();
    return false;
  }
  if (cuts_first) {
    std::memcpy(into.data(), first.data() + (offset - begin), whole_begin - offset);
  }
  if (cuts_last) std::memcpy(into.data() + (whole_end - offset), last.data(), end - whole_end);
  const auto is_good = [this](std::uint32_t at, std::span<const std::byte> blocks) {
    return blocks.empty() || Check(at, blocks);
  };
  return is_good(begin, first_block) && is_good(whole_begin, whole) &&
         is_good(whole_end, last_block);
}

void CachedPiece::Discard() const {
  if (discarded_.exchange(true, std::memory_order_relaxed)) return;
  cache_->RemoveBad(file_, descriptor());
}

PieceWriter::PieceWriter(std::shared_ptr<PieceCache> cache, std::string file, int descriptor,
                         PieceFooter footer)
    : cache_(std::move(cache)),
      file_(std::move(file)),
      descriptor_(descriptor),
      footer_(std::move(footer)) {
  footer_.sums.resize((bytes() + kPieceBlockBytes - 1) / kPieceBlockBytes);
}

void PieceWriter::Announce(std::shared_ptr<const PieceBuffer> buffer) {
  is_announced_ = true;
  const std::lock_guard lock(cache_->mutex_);
  cache_->announced_[file_] = std::move(buffer);
}

void PieceWriter::Withdraw() {
  if (!std::exchange(is_announced_, false)) return;
  const std::lock_guard lock(cache_->mutex_);
  cache_->announced_.erase(file_);
}

PieceWriter::~PieceWriter() {
  Withdraw();
  if (!done_) (void)cache_->folder_->Abandon(file_, descriptor());
}

void PieceWriter::Note(std::uint32_t offset, std::span<const std::byte> bytes) {
  assert(offset % kPieceBlockBytes == 0 && offset + bytes.size() <= this->bytes());
  for (std::size_t n = offset / kPieceBlockBytes; !bytes.empty(); ++n) {
    const auto block = bytes.first(std::min<std::size_t>(bytes.size(), kPieceBlockBytes));
    footer_.sums[n] = PieceBlockSum(block);
    bytes = bytes.subspan(block.size());
    ++noted_blocks_;
  }
}

void PieceWriter::Write(std::uint32_t offset, std::span<const std::byte> bytes) {
  if (done_) return;
  Note(offset, bytes);
  const int error = WriteAllAt(descriptor(), offset, bytes);
  if (error != 0) Fail(error);
}

void PieceWriter::Fail(int error_number) {
  if (std::exchange(done_, true)) return;
  cache_->Note(PieceFolder::Failure(error_number, "write to " + cache_->folder_->path()));
  (void)cache_->folder_->Abandon(file_, descriptor());
}

bool PieceWriter::Finish() {
  if (done_ || noted_blocks_ != footer_.sums.size()) return false;
  const int error = WriteAllAt(descriptor(), bytes(), EncodePieceFooter(footer_));
  if (error != 0) {
    Fail(error);
    return false;
  }
  const Status status = cache_->folder_->Publish(file_, descriptor());
  cache_->Note(status);
  if (!status.ok()) return false;  // the destructor removes it
  done_ = true;
  cache_->Count([&](PieceCacheStats* stats) {
    ++stats->written;
    stats->written_bytes += bytes();
  });
  return true;
}

}  // namespace ringfeed
