#include "gpu/feed/handed_out.h"

#include <cstddef>

namespace ringfeed {

void HandedOut::Note(const FeedItem& item, std::uint64_t start) {
  const std::lock_guard lock(mutex_);
  if (start != starts_) return;
  const auto at = static_cast<std::size_t>(item.number - next_);
  if (at >= ahead_.size()) ahead_.resize(at + 1);
  Place& place = ahead_[at];
  // Without its records, of which there may be many.
  place.origin.batch = item.origin.batch;
  place.origin.pass = item.origin.pass;
  place.origin.mark = item.origin.mark;
  place.completes = item.completes;
  place.noted = true;
  for (; !ahead_.empty() && ahead_.front().noted; ahead_.pop_front()) {
    if (ahead_.front().completes) last_ = ahead_.front().origin;
    ++next_;
  }
}

std::optional<BatchOrigin> HandedOut::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::uint64_t HandedOut::starts() const {
  const std::lock_guard lock(mutex_);
  return starts_;
}

void HandedOut::Reset() {
  const std::lock_guard lock(mutex_);
  ++starts_;
  ahead_.clear();
  next_ = 0;
  last_.reset();
}

}  // namespace ringfeed
