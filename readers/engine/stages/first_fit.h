#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfeed {

/// Rows of one length, in which items find room: each in the first row that has it, else in a new
/// one. A tournament tree over the rooms that are left, so an item costs the logarithm of the rows.
class FirstFit {
 public:
  explicit FirstFit(std::uint32_t length) : length_(length), most_(2, 0) {}

  /// The row that takes an item of `units`, at most the length.
  std::size_t Place(std::uint32_t units) {
    if (most_[1] < units) Open();
    std::size_t at = 1;
    while (at < leaves()) at = 2 * at + (most_[2 * at] >= units ? 0 : 1);
    SetRoom(at, most_[at] - units);
    return at - leaves();
  }
  std::size_t rows() const { return rows_; }
  std::uint32_t room(std::size_t row) const { return most_[leaves() + row]; }
  void Clear() {
    std::fill(most_.begin(), most_.end(), 0);
    rows_ = 0;
  }

 private:
  std::size_t leaves() const { return most_.size() / 2; }

  void Open() {
    if (rows_ == leaves()) Grow();
    SetRoom(leaves() + rows_++, length_);
  }
  void Grow() {
    const std::vector<std::uint32_t> rooms(most_.begin() + static_cast<std::ptrdiff_t>(leaves()),
                                           most_.end());
    most_.assign(2 * most_.size(), 0);
    std::copy(rooms.begin(), rooms.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves()));
    for (std::size_t at = leaves() - 1; at > 0; --at) {
      most_[at] = std::max(most_[2 * at], most_[2 * at + 1]);
    }
  }
  void SetRoom(std::size_t at, std::uint32_t room) {
    most_[at] = room;
    while (at > 1) {
      at /= 2;
      most_[at] = std::max(most_[2 * at], most_[2 * at + 1]);
    }
  }

  const std::uint32_t length_;
  /// Node i has the nodes 2i and 2i + 1 below it, and the most room of both; the second half are
  /// the rows, 0 for those that are not open.
  std::vector<std::uint32_t> most_;
  std::size_t rows_ = 0;
};

}  // namespace ringfeed
