#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

namespace ringfeed {

/// When to look whether a copy is done. A device cannot wake a thread that also waits for other
/// things, so the thread looks by the clock: not before the copy can be done, and not much later.
///
/// A look costs a call and a wake-up; a late look keeps a batch's memory longer. The first look
/// comes after three quarters of the time that the copy's bytes take at the lower quartile of
/// recent rates. Each further look comes after a quarter of the time that the copy has taken so
/// far. So a copy is seen a quarter late at most: after two or three looks if it waits for nothing,
/// and after a few dozen if it waits for a step of the device, of 10 ms. Naps stay between
/// kShortestNapNs and kLongestNapNs.
///
/// All times are the caller's. For one thread.
class CopyPace {
 public:
  static constexpr std::int64_t kShortestNapNs = 10'000;  ///< about what a look costs
  static constexpr std::int64_t kLongestNapNs = 1'000'000;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  /// A rate is the lower quartile of so many looks. Copies that wait for the device's own work, or
  /// that are seen late, say nothing about the link. The best rate of all is no good either: on a
  /// device whose copies differ, every slower copy would get four useless looks.
  static constexpr std::size_t kRates = 8;

  /// How long to wait next, after a useless wait of `waited_ns`.
  static std::int64_t NapAfter(std::int64_t waited_ns);

  /// A call that copies so many batches, all done at its end, was enqueued after the calls before.
  void NoteEnqueued(std::int64_t now_ns, std::size_t bytes, std::size_t batches);
  /// One look saw so many of the oldest batches done.
  void NoteDone(std::int64_t now_ns, std::size_t batches);
  /// When to look at the oldest copy again; kNever if none is under way.
  std::int64_t NextLook(std::int64_t now_ns) const;

 private:
  struct Call {
    std::int64_t enqueued_ns = 0;
    std::size_t bytes = 0;
    std::size_t batches = 0;
  };

  std::int64_t ExpectedNs(std::size_t bytes) const;
  void NoteRate(double ns_per_byte);

  std::deque<Call> calls_;  ///< under way, the oldest first
  std::int64_t last_done_ns_ = std::numeric_limits<std::int64_t>::min();
  std::array<double, kRates> ns_per_byte_{};  ///< of the last looks that saw a copy done
  std::size_t rates_ = 0;                     ///< noted so far
};

}  // namespace ringfeed
