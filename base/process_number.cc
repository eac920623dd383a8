#include "base/process_number.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

namespace ringfeed {

namespace {

// The numbers are relaxed: the kernel clears the page, and they publish nothing.
constinit std::atomic<std::uint64_t> last_number{0};
constinit std::uint64_t plain_number = 0;  // used if the kernel wipes no page
constinit std::atomic<std::uint64_t*> own_number{nullptr};

// The number in a page that reads as 0 in a child, however it was forked.
std::uint64_t* MakeWipedNumber() noexcept {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return static_cast<std::uint64_t*>(page);
  munmap(page, bytes);
  return nullptr;
}

std::uint64_t* OwnNumber() noexcept {
  // Acquire: partner of the exchange below, for the mapping of the page.
  std::uint64_t* own = own_number.load(std::memory_order_acquire);
  if (own != nullptr) [[likely]] {
    return own;
  }
  std::uint64_t* made = MakeWipedNumber();
  if (made == nullptr) {
    made = &plain_number;
    pthread_atfork(nullptr, nullptr,
                   [] { std::atomic_ref(plain_number).store(0, std::memory_order_relaxed); });
  }
  // If several first calls come at once, one call's page stays and the others' are not used.
  // Order: release for the page that this call made, acquire for another call's.
  return own_number.compare_exchange_strong(own, made, std::memory_order_acq_rel,
                                            std::memory_order_acquire)
             ? made
             : own;
}

}  // namespace

std::uint64_t ProcessNumber() noexcept {
  const std::atomic_ref own(*OwnNumber());
  std::uint64_t number = own.load(std::memory_order_relaxed);
  if (number != 0) [[likely]] {
    return number;
  }
  // A child knows the last number of its parent, so it takes a later one.
  const std::uint64_t next = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  return own.compare_exchange_strong(number, next, std::memory_order_relaxed) ? next : number;
}

}  // namespace ringfeed
