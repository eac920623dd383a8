#include "readers/order/block_cursor.h"

#include <algorithm>
#include <utility>

#include "base/philox.h"

namespace ringfeed {

BlockCursor::BlockCursor(std::unique_ptr<RowCursor> input, std::uint64_t block_rows,
                         std::uint64_t seed, std::uint32_t first_epoch)
    : input_(std::move(input)), block_rows_(block_rows), seed_(seed), first_epoch_(first_epoch) {}

Status BlockCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  pass_ = pass;
  places_ = input_->Places(pass);
  next_block_ = place / block_rows_;
  skipped_ = place % block_rows_;
  block_.clear();
  at_ = 0;
  return input_->Seek(pass, place - skipped_);
}

OrderPlace BlockCursor::Origin(std::uint64_t pass, std::uint64_t place) {
  return input_->Origin(pass, place - place % block_rows_);
}

Status BlockCursor::Fill() {
  const std::uint64_t base = next_block_++ * block_rows_;
  block_.resize(std::min(block_rows_, places_ - base));
  std::size_t count = 0;
  const Status status = input_->Next(block_, &count);
  block_.resize(status.ok() ? count : 0);
  DrawSequence draws(seed_, static_cast<std::uint32_t>(first_epoch_ + pass_),
                     DrawPurpose::kBlockShuffle);
  for (std::uint64_t j = block_.size(); j-- > 1;) {
    std::swap(block_[j], block_[(std::uint64_t{draws.At(base + j)} * (j + 1)) >> 32]);
  }
  at_ = std::min<std::size_t>(std::exchange(skipped_, 0), block_.size());
  return status;
}

Status BlockCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  while (*count < rows.size()) {
    if (at_ == block_.size()) {
      if (next_block_ * block_rows_ >= places_) break;
      const Status status = Fill();
      if (!status.ok()) return status;
      continue;
    }
    const std::size_t many = std::min(block_.size() - at_, rows.size() - *count);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(at_), many,
                rows.begin() + static_cast<std::ptrdiff_t>(*count));
    at_ += many;
    *count += many;
  }
  return {};
}

}  // namespace ringfeed
