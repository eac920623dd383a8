#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

namespace ringfeed {

/// When to look whether a copy is done. A device wakes no thread that also waits for other things,
/// so whoever waits looks by the clock: not before the copy can be done, and not much later.
///
/// A look costs a call and a wake-up; a look that comes late keeps a batch's memory for so long.
/// The first look at a copy comes after three quarters of the time that its bytes took lately, if
/// one leaves out the slower three quarters of the looks. Each further one comes after a quarter of
/// the time that the copy has taken. So a copy is seen a quarter late at most, by two or three
/// looks if it waits for nothing, and by a few dozen if it waits for a step of the device, of 10
/// ms. Naps stay between kShortestNapNs and kLongestNapNs.
///
/// All times are those that the caller gives. For one thread.
class CopyPace {
 public:
  static constexpr std::int64_t kShortestNapNs = 10'000;  ///< about what a look costs
  static constexpr std::int64_t kLongestNapNs = 1'000'000;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  /// A rate is the lower quartile of so many looks: copies that wait for the device's own work, or
  /// that are seen late, say nothing of the link. Nor does the best of all: on a device whose
  /// copies differ, each of the others would be looked at four times in vain.
  static constexpr std::size_t kRates = 8;

  /// How long to wait, after a wait in vain of so long.
  static std::int64_t NapAfter(std::int64_t waited_ns);

  /// A call that copies so many batches, all done at its end, was enqueued after those before.
  void NoteEnqueued(std::int64_t now_ns, std::size_t bytes, std::size_t batches);
  /// One look saw so many batches done, the oldest ones.
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
  std::array<double, kRates> ns_per_byte_{};  ///< of the last looks that saw something done
  std::size_t rates_ = 0;                     ///< noted so far
};

}  // namespace ringfeed
