#include "readers/index/fetched_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace ringfeed {

Status FetchedBytes::Open(std::shared_ptr<Source> source,
                          std::shared_ptr<const FetchedBytes>* fetched) {
  const std::uint64_t bytes = source->Size();
  if (bytes == 0 || bytes > kMostBytes) {
    return Status(StatusCode::kInvalidArgument, "it has " + std::to_string(bytes) + " bytes");
  }
  void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return StatusFromErrno(errno, "mmap");
  *fetched = std::make_shared<const FetchedBytes>(
      std::move(source),
      std::span(static_cast<std::byte*>(memory), static_cast<std::size_t>(bytes)));
  return {};
}

FetchedBytes::FetchedBytes(std::shared_ptr<Source> source, std::span<std::byte> memory)
    : source_(std::move(source)), memory_(memory), read_(memory.size() / kPieceBytes + 1) {}

FetchedBytes::~FetchedBytes() { munmap(memory_.data(), memory_.size()); }

Status FetchedBytes::Need(std::span<const std::byte> wanted) const {
  if (wanted.empty()) return {};
  const auto begin = static_cast<std::size_t>(wanted.data() - memory_.data());
  const std::size_t last = (begin + wanted.size() - 1) / kPieceBytes;
  for (std::size_t piece = begin / kPieceBytes; piece <= last; ++piece) {
    if (read_[piece].load(std::memory_order_acquire)) continue;  // partner: NeedPiece's store
    if (Status status = NeedPiece(piece); !status.ok()) return status;
  }
  return {};
}

Status FetchedBytes::NeedPiece(std::size_t piece) const {
  const std::lock_guard lock(reading_[piece % reading_.size()]);
  if (read_[piece].load(std::memory_order_relaxed)) return {};
  const std::size_t begin = piece * kPieceBytes;
  const std::span<std::byte> to =
      memory_.subspan(begin, std::min(kPieceBytes, memory_.size() - begin));
  std::size_t got = 0;
  Status status = source_->ReadAt(begin, to, &got);
  if (!status.ok()) return status;
  if (got != to.size()) {
    return Status(StatusCode::kDamaged, "it ends at byte " + std::to_string(begin + got) + " of " +
                                            std::to_string(memory_.size()));
  }
  read_[piece].store(true, std::memory_order_release);  // partner: Need's load
  return {};
}

}  // namespace ringfeed
