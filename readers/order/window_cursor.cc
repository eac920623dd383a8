#include "readers/order/window_cursor.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

WindowCursor::WindowCursor(std::unique_ptr<RowCursor> input, std::uint64_t window,
                           std::uint64_t seed, std::uint32_t first_epoch)
    : input_(std::move(input)),
      window_(window),
      seed_(seed),
      first_epoch_(first_epoch),
      draws_(seed, first_epoch, DrawPurpose::kWindowShuffle),
      buckets_(window) {}

std::uint64_t WindowCursor::FirstArrival(std::uint64_t place) const {
  const std::uint64_t first = place > window_ ? place - window_ : 0;
  return first - first % kTogether;
}

Status WindowCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  const std::uint64_t first = FirstArrival(place);
  draws_ = DrawSequence(seed_, static_cast<std::uint32_t>(first_epoch_ + pass),
                        DrawPurpose::kWindowShuffle);
  buckets_.Restart(first);
  ended_ = false;
  skip_ = place - first;
  out_.clear();
  at_ = 0;
  return input_->Seek(pass, first);
}

OrderPlace WindowCursor::Origin(std::uint64_t pass, std::uint64_t place) {
  return input_->Origin(pass, FirstArrival(place));
}

Status WindowCursor::TakeInput() {
  std::size_t count = 0;
  const Status status = input_->Next(arrivals_, &count);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < count; ++i) {
    const RowNumber row = arrivals_[i];
    const auto target = buckets_.At(draws_.At(buckets_.arrived()));
    const auto high = static_cast<std::uint32_t>(row >> 32);
    buckets_.Put(target, {target.fraction, static_cast<std::uint32_t>(row),
                          high * kTogether + target.within});
    buckets_.Arrive();
  }
  if (count < kTogether) {
    ended_ = true;
    buckets_.Close();
  }
  return {};
}

void WindowCursor::TakeBucket() {
  if (skip_ >= buckets_.oldest()) {
    skip_ -= buckets_.oldest();
    buckets_.Drop();
    return;
  }
  const std::span<const Held> bucket = buckets_.Take().subspan(std::exchange(skip_, 0));
  out_.resize(bucket.size());
  std::transform(bucket.begin(), bucket.end(), out_.begin(),
                 [](const Held& held) { return held.row(); });
  at_ = 0;
}

Status WindowCursor::Fill() {
  while (at_ == out_.size() && (buckets_.due() || !ended_ || buckets_.holds())) {
    if (buckets_.due() || ended_) {
      TakeBucket();
      continue;
    }
    const Status status = TakeInput();
    if (!status.ok()) return status;
  }
  return {};
}

Status WindowCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  while (*count < rows.size()) {
    const Status status = Fill();
    if (!status.ok()) return status;
    const std::size_t many = std::min(out_.size() - at_, rows.size() - *count);
    if (many == 0) break;
    std::copy_n(out_.begin() + static_cast<std::ptrdiff_t>(at_), many,
                rows.begin() + static_cast<std::ptrdiff_t>(*count));
    at_ += many;
    *count += many;
  }
  return {};
}

}  // namespace ringfeed
