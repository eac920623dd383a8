#include "base/memory/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <system_error>

#include "base/machine/cgroup.h"
#include "base/machine/signals_blocked.h"
#include "base/machine/thread_name.h"

namespace ringfeed {

namespace {

/// How many pieces the thread runs ahead of use. A piece takes about 200 us, so this is more than a
/// pipeline asks for between two looks, and little enough to waste.
constexpr std::size_t kAheadPieces = 4;

constexpr std::size_t kSmallPageBytes = 4096;

/// Faults one piece in for writing.
void FaultIn(std::byte* piece) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(piece, kHugePageBytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  // Before Linux 5.14: nobody else uses these pages yet, so their (zero) bytes may be written.
  for (std::size_t at = 0; at < kHugePageBytes; at += kSmallPageBytes) {
    *static_cast<volatile std::byte*>(piece + at) = std::byte{0};
  }
}

template <typename Function>
std::thread ThreadWithoutSignals(Function function) {
  const SignalsBlocked blocked;
  try {
    return std::thread(function);
  } catch (const std::system_error&) {
    return {};  // no thread: all pieces are faulted in on demand
  }
}

}  // namespace

std::size_t HugeBytesIn(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = begin + bytes;
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  std::size_t huge = 0;
  bool ours = false;
  while (std::getline(smaps, line)) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      ours = from >= begin && from < end;
    } else if (ours && std::sscanf(line.c_str(), "AnonHugePages: %zu kB", &kibibytes) == 1) {
      huge += kibibytes * 1024;
    }
  }
  return huge;
}

std::string WhyNoHugePages() {
  const std::optional<std::string> mode =
      FirstLineOf("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!mode) return "the kernel has no transparent huge pages";
  if (mode->find("[never]") != std::string::npos) {
    return "transparent_hugepage/enabled is \"never\"";
  }
  return {};
}

PagePopulator::PagePopulator(std::byte* data, std::size_t bytes)
    : data_(data),
      pieces_(bytes / kHugePageBytes),
      states_(std::make_unique<std::atomic<std::uint32_t>[]>(pieces_)) {}

PagePopulator::~PagePopulator() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void PagePopulator::WarmUp() { AskFor(std::min(pieces_, kAheadPieces)); }

void PagePopulator::Require(std::size_t offset, std::size_t bytes) {
  const std::size_t first = offset / kHugePageBytes;
  const std::size_t end = (offset + bytes + kHugePageBytes - 1) / kHugePageBytes;
  AskFor(std::min(pieces_, end + kAheadPieces));
  for (std::size_t piece = first; piece < end; ++piece) PopulatePiece(piece);
}

std::size_t PagePopulator::populated_bytes() const {
  return populated_pieces_.load(std::memory_order_relaxed) * kHugePageBytes;
}

void PagePopulator::PopulatePiece(std::size_t piece) {
  std::atomic<std::uint32_t>& state = states_[piece];
  std::uint32_t seen = kUntouched;
  // Relaxed: the claim publishes nothing; the pages do not exist yet.
  if (state.compare_exchange_strong(seen, kUnderWay, std::memory_order_relaxed)) {
    FaultIn(data_ + piece * kHugePageBytes);
    populated_pieces_.fetch_add(1, std::memory_order_relaxed);
    // Release: pairs with the acquire loads below, so that zeroes written by FaultIn come before
    // whatever the other thread writes.
    state.store(kDone, std::memory_order_release);
    state.notify_all();
    return;
  }
  // Acquire, both: pair with the release store above.
  while ((seen = state.load(std::memory_order_acquire)) != kDone) {
    state.wait(seen, std::memory_order_acquire);
  }
}

void PagePopulator::AskFor(std::size_t pieces) {
  // Relaxed: a hint, looked at again under the mutex.
  if (wanted_pieces_.load(std::memory_order_relaxed) >= pieces) return;
  {
    const std::lock_guard lock(mutex_);
    if (wanted_pieces_.load(std::memory_order_relaxed) >= pieces) return;
    wanted_pieces_.store(pieces, std::memory_order_relaxed);
    if (!thread_.joinable())
      thread_ = ThreadWithoutSignals([this] {
        NameThisThread("ringfeed-pages");
        RunAhead();
      });
  }
  wake_.notify_one();
}

void PagePopulator::RunAhead() {
  std::size_t next = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock,
               [&] { return stop_ || next < wanted_pieces_.load(std::memory_order_relaxed); });
    if (stop_) return;
    lock.unlock();
    PopulatePiece(next++);
    lock.lock();
  }
}

}  // namespace ringfeed
