#include "base/memory/slab_bitmap.h"

#include <algorithm>
#include <bit>

namespace ringfeed {

namespace {

constexpr std::size_t kBits = 64;

/// The bits of word `word` that stand for slabs in [first, end).
std::uint64_t MaskOf(std::size_t word, std::size_t first, std::size_t end) {
  const std::size_t from = std::max(first, word * kBits) - word * kBits;
  const std::size_t to = std::min(end, (word + 1) * kBits) - word * kBits;
  const std::uint64_t below_to = to == kBits ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
  return below_to & ~((std::uint64_t{1} << from) - 1);
}

}  // namespace

SlabBitmap::SlabBitmap(std::size_t slabs) : slabs_(slabs), words_((slabs + kBits - 1) / kBits, 0) {
  if (slabs % kBits != 0) words_.back() = ~std::uint64_t{0} << (slabs % kBits);
}

std::size_t SlabBitmap::NextFree(std::size_t from) const {
  for (std::size_t word = from / kBits; word < words_.size(); ++word) {
    std::uint64_t free = ~words_[word];
    if (word == from / kBits) free &= ~std::uint64_t{0} << (from % kBits);
    if (free != 0) return word * kBits + static_cast<std::size_t>(std::countr_zero(free));
  }
  return slabs_;
}

std::size_t SlabBitmap::NextTaken(std::size_t from, std::size_t limit) const {
  for (std::size_t word = from / kBits; word < words_.size() && word * kBits < limit; ++word) {
    std::uint64_t taken = words_[word];
    if (word == from / kBits) taken &= ~std::uint64_t{0} << (from % kBits);
    if (taken != 0) return word * kBits + static_cast<std::size_t>(std::countr_zero(taken));
  }
  return limit;
}

void SlabBitmap::Flip(std::size_t first, std::size_t count) {
  const std::size_t end = first + count;
  for (std::size_t word = first / kBits; word * kBits < end; ++word) {
    words_[word] ^= MaskOf(word, first, end);
  }
}

std::size_t SlabBitmap::Take(std::size_t count, std::size_t align) {
  if (count == 0 || count > slabs_ - taken_) return kNone;
  lowest_free_ = NextFree(lowest_free_);
  std::size_t first = lowest_free_;
  while (true) {
    first = (first + align - 1) & ~(align - 1);
    if (first > slabs_ - count) return kNone;
    const std::size_t taken = NextTaken(first, first + count);
    if (taken >= first + count) break;
    first = NextFree(taken + 1);
  }
  Flip(first, count);
  taken_ += count;
  if (first == lowest_free_) lowest_free_ = first + count;
  return first;
}

bool SlabBitmap::TakeAt(std::size_t first, std::size_t count) {
  const std::size_t end = first + count;
  if (end > slabs_ || end < first || NextTaken(first, end) < end) return false;
  Flip(first, count);
  taken_ += count;
  return true;
}

bool SlabBitmap::Give(std::size_t first, std::size_t count) {
  const std::size_t end = first + count;
  if (end > slabs_ || end < first) return false;
  for (std::size_t word = first / kBits; word * kBits < end; ++word) {
    const std::uint64_t mask = MaskOf(word, first, end);
    if ((words_[word] & mask) != mask) return false;
  }
  Flip(first, count);
  taken_ -= count;
  lowest_free_ = std::min(lowest_free_, first);
  return true;
}

}  // namespace ringfeed
