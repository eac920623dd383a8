#include "gpu/feed/copy_pace.h"

#include <algorithm>
#include <span>

namespace ringfeed {

std::int64_t CopyPace::NapAfter(std::int64_t waited_ns) {
  return std::clamp(waited_ns / 4, kShortestNapNs, kLongestNapNs);
}

void CopyPace::NoteEnqueued(std::int64_t now_ns, std::size_t bytes, std::size_t batches) {
  calls_.push_back({now_ns, bytes, batches});
}

void CopyPace::NoteDone(std::int64_t now_ns, std::size_t batches) {
  if (batches == 0 || calls_.empty()) return;
  const std::int64_t begin_ns = std::max(calls_.front().enqueued_ns, last_done_ns_);
  std::size_t bytes = 0;
  while (batches > 0 && !calls_.empty()) {
    Call& call = calls_.front();
    const std::size_t done = std::min(batches, call.batches);
    call.batches -= done;
    batches -= done;
    if (call.batches > 0) break;
    bytes += call.bytes;
    calls_.pop_front();
  }
  // One look sees one stretch of the link's time, however many calls were in it.
  if (bytes > 0) {
    NoteRate(static_cast<double>(std::max<std::int64_t>(now_ns - begin_ns, 1)) /
             static_cast<double>(bytes));
    last_done_ns_ = now_ns;
  }
}

std::int64_t CopyPace::NextLook(std::int64_t now_ns) const {
  if (calls_.empty()) return kNever;
  const Call& oldest = calls_.front();
  const std::int64_t begin_ns = std::max(oldest.enqueued_ns, last_done_ns_);
  const std::int64_t taken_ns = std::max<std::int64_t>(now_ns - begin_ns, 0);
  const std::int64_t first_ns = ExpectedNs(oldest.bytes) / 4 * 3 - taken_ns;
  return now_ns + std::clamp(first_ns, NapAfter(taken_ns), kLongestNapNs);
}

std::int64_t CopyPace::ExpectedNs(std::size_t bytes) const {
  if (rates_ == 0) return 0;
  auto rates = ns_per_byte_;
  const auto known = std::span(rates).first(std::min(rates_, kRates));
  const auto quartile = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 4);
  std::nth_element(known.begin(), quartile, known.end());
  // Cut off at a value beyond every nap.
  return static_cast<std::int64_t>(
      std::min(*quartile * static_cast<double>(bytes), 1e3 * static_cast<double>(kLongestNapNs)));
}

void CopyPace::NoteRate(double ns_per_byte) { ns_per_byte_[rates_++ % kRates] = ns_per_byte; }

}  // namespace ringfeed
