#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace ringfeed {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Bytes in huge pages, as /proc/self/smaps says, of the mappings that begin in [data, data +
/// bytes).
std::size_t HugeBytesIn(const void* data, std::size_t bytes);

/// Why the kernel gives no transparent huge pages at all, in a few words; "" if it may give some.
std::string WhyNoHugePages();

/// Faults an anonymous range in, by pieces of 2 MiB: at once if a piece is required, and in a
/// thread of its own a little ahead of the highest piece required so far. A piece that is never
/// used costs nothing. Thread safe.
class PagePopulator {
 public:
  /// `data` is 2 MiB aligned, `bytes` a multiple of 2 MiB. Nothing is faulted in yet and no thread
  /// runs.
  PagePopulator(std::byte* data, std::size_t bytes);
  ~PagePopulator();
  PagePopulator(const PagePopulator&) = delete;
  PagePopulator& operator=(const PagePopulator&) = delete;

  /// Starts the thread on the first pieces, ahead of their first use.
  void WarmUp();
  /// Returns when [offset, offset + bytes) is faulted in.
  void Require(std::size_t offset, std::size_t bytes);
  std::size_t populated_bytes() const;

 private:
  enum State : std::uint32_t { kUntouched, kUnderWay, kDone };

  void PopulatePiece(std::size_t piece);
  void AskFor(std::size_t pieces);
  void RunAhead();

  std::byte* const data_;
  const std::size_t pieces_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> states_;
  std::atomic<std::size_t> populated_pieces_{0};
  std::atomic<std::size_t> wanted_pieces_{0};  // the thread works up to here

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::thread thread_;
  bool stop_ = false;
};

}  // namespace ringfeed
