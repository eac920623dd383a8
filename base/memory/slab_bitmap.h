#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfeed {

/// Which slabs of a range are taken: one bit each, first fit. Not thread safe.
class SlabBitmap {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  explicit SlabBitmap(std::size_t slabs);

  /// Takes the lowest run of `count` free slabs that begins at a multiple of `align` (a power of
  /// two); returns its first slab, or kNone.
  std::size_t Take(std::size_t count, std::size_t align);
  /// Takes exactly these slabs. If one of them is taken, returns false and changes nothing.
  bool TakeAt(std::size_t first, std::size_t count);
  /// Gives back slabs that are all taken. If one is not, returns false and changes nothing.
  bool Give(std::size_t first, std::size_t count);

  std::size_t taken() const { return taken_; }

 private:
  std::size_t NextFree(std::size_t from) const;
  std::size_t NextTaken(std::size_t from, std::size_t limit) const;
  void Flip(std::size_t first, std::size_t count);

  std::size_t slabs_;
  std::size_t taken_ = 0;
  std::size_t lowest_free_ = 0;       // no slab below it is free
  std::vector<std::uint64_t> words_;  // a set bit is a taken slab; the last word's rest is set
};

}  // namespace ringfeed
