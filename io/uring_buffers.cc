#include "io/uring_buffers.h"

#include <sys/resource.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "ringfeed/status.h"

namespace ringfeed {

namespace {

/// A huge page: what an arena populates at a time.
constexpr std::size_t kLeastPieceBytes = std::size_t{2} << 20;
/// Of one registered buffer, by the kernel's rule.
constexpr std::size_t kMostPieceBytes = std::size_t{1} << 30;
constexpr std::size_t kMostPieces = 16384;  // likewise, of one table

bool MayLockAnything() {
  constexpr int kCapIpcLock = 14;
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("CapEff:", 0) != 0) continue;
    return ((std::stoull(line.substr(7), nullptr, 16) >> kCapIpcLock) & 1) != 0;
  }
  return false;
}

/// Locked memory is counted per user, and the rings themselves take of it: a registration that
/// nearly used the limit up would leave the next thread without a ring. Returns why not, or
/// nothing.
std::string WhyNotToRegister(std::size_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || MayLockAnything()) return {};
  if (limit.rlim_cur / 2 >= bytes) return {};
  return "the memlock limit of " + std::to_string(limit.rlim_cur / 1024) + " KiB has no room for " +
         std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

UringBuffers::UringBuffers(io_uring* ring, std::byte* data, std::size_t bytes)
    : ring_(ring), data_(data), bytes_(bytes) {
  piece_bytes_ = kLeastPieceBytes;
  while (bytes_ > piece_bytes_ * kMostPieces) piece_bytes_ *= 2;
  const std::string why_not = WhyNotToRegister(bytes_);
  if (bytes_ == 0) {
    Refuse("no arena");
  } else if (!why_not.empty()) {
    Refuse(why_not);
  } else if (piece_bytes_ > kMostPieceBytes) {
    Refuse("the arena is too large");
  } else {
    usable_ = MakeTable();
  }
}

UringBuffers::~UringBuffers() {
  if (has_table_) io_uring_unregister_buffers(ring_);
}

bool UringBuffers::MakeTable() {
  const std::size_t pieces = (bytes_ + piece_bytes_ - 1) / piece_bytes_;
  const int result = io_uring_register_buffers_sparse(ring_, static_cast<unsigned>(pieces));
  if (result < 0) {
    Refuse(StatusFromErrno(-result, "registering").message());
    return false;
  }
  has_table_ = true;
  registered_.assign(pieces, false);
  description_ = "fixed buffers";
  return true;
}

void UringBuffers::Refuse(const std::string& why) {
  usable_ = false;
  description_ = "plain buffers: " + why;
}

int UringBuffers::IndexFor(const std::byte* buffer, std::size_t bytes) {
  if (!has_table_ || buffer < data_ || buffer + bytes > data_ + bytes_) return -1;
  const auto offset = static_cast<std::size_t>(buffer - data_);
  const std::size_t piece = offset / piece_bytes_;
  if ((offset + bytes - 1) / piece_bytes_ != piece) return -1;
  if (registered_[piece]) return static_cast<int>(piece);
  if (!usable_) return -1;
  const std::size_t begin = piece * piece_bytes_;
  iovec range{data_ + begin, std::min(piece_bytes_, bytes_ - begin)};
  // The kernel wants an array of tags, though 0 stands for none.
  const __u64 no_tag = 0;
  const int result =
      io_uring_register_buffers_update_tag(ring_, static_cast<unsigned>(piece), &range, &no_tag, 1);
  if (result < 0) {
    Refuse(StatusFromErrno(-result, "registering").message());
    return -1;
  }
  registered_[piece] = true;
  return static_cast<int>(piece);
}

}  // namespace ringfeed
