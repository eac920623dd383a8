// How the records of a segment are put together: rows of a fixed length for Pack. Pure: what goes
// where depends on the units alone. docs/ORDER.md has the formulas.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
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

/// A set of numbers up to a limit: a bitmap, and a bitmap of its words that are not 0.
class NumberSet {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// For numbers up to `most`, less than 2^30.
  explicit NumberSet(std::uint32_t most) : words_(most / 64 + 1), used_(words_.size() / 64 + 1) {}

  void Add(std::uint32_t number) {
    words_[number / 64] |= std::uint64_t{1} << number % 64;
    used_[number / 4096] |= std::uint64_t{1} << number / 64 % 64;
  }
  void Remove(std::uint32_t number) {
    std::uint64_t& word = words_[number / 64];
    word &= ~(std::uint64_t{1} << number % 64);
    used_[number / 4096] &= ~(std::uint64_t{word == 0} << number / 64 % 64);
  }
  /// The least number of the set that is not less than `number`; kNone if there is none. Looks at
  /// each 4096 numbers once.
  std::uint32_t AtLeast(std::uint32_t number) const {
    const std::uint64_t here = words_[number / 64] >> number % 64;
    if (here != 0) return number + LowestBit(here);
    const std::uint32_t next = number / 64 + 1;
    std::size_t at = next / 64;
    if (at >= used_.size()) return kNone;
    std::uint64_t bits = used_[at] & ~std::uint64_t{0} << next % 64;
    while (bits == 0) {
      if (++at == used_.size()) return kNone;
      bits = used_[at];
    }
    const std::uint32_t word = static_cast<std::uint32_t>(64 * at) + LowestBit(bits);
    return 64 * word + LowestBit(words_[word]);
  }

 private:
  static std::uint32_t LowestBit(std::uint64_t bits) {
    return static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> used_;  ///< a bit for each word that is not 0
};

/// Rows of one length, for items that come by falling units. Each goes into the row with the least
/// room that is enough, of those with the same room into the one that came to it last, else into a
/// new row. Almost constant time for each.
class BestFit {
 public:
  static constexpr std::uint32_t kMostLength = std::uint32_t{1} << 24;

  /// For rows of `length` units, at most kMostLength. `most_records`: of a row; 0: any number.
  explicit BestFit(std::uint32_t length, std::uint32_t most_records = 0)
      : length_(length), most_records_(most_records), rooms_(length), last_(length + 1, kNoRow) {}

  /// The row that takes an item of `units`, at least 1 and at most the length.
  std::uint32_t Place(std::uint32_t units) {
    std::uint32_t room = rooms_.AtLeast(units);
    std::uint32_t row = kNoRow;
    if (room == NumberSet::kNone) {
      room = length_;
      row = static_cast<std::uint32_t>(earlier_.size());
      earlier_.push_back(kNoRow);
      if (most_records_ > 0) records_.push_back(0);
    } else {
      row = last_[room];
      last_[room] = earlier_[row];
      if (last_[room] == kNoRow) rooms_.Remove(room);
    }
    room -= units;
    const bool full = most_records_ > 0 && ++records_[row] == most_records_;
    if (room == 0 || full) return row;
    earlier_[row] = last_[room];
    if (last_[room] == kNoRow) rooms_.Add(room);
    last_[room] = row;
    return row;
  }
  std::size_t rows() const { return earlier_.size(); }
  void Clear() {
    for (std::uint32_t room = 0; (room = rooms_.AtLeast(room)) != NumberSet::kNone;) {
      last_[room] = kNoRow;
      rooms_.Remove(room);
    }
    earlier_.clear();
    records_.clear();
  }

 private:
  static constexpr std::uint32_t kNoRow = std::numeric_limits<std::uint32_t>::max();

  const std::uint32_t length_;
  const std::uint32_t most_records_;
  NumberSet rooms_;                     ///< that some row has
  std::vector<std::uint32_t> last_;     ///< by room, the row that came to it last
  std::vector<std::uint32_t> earlier_;  ///< of each row, the one that came to its room before it
  std::vector<std::uint32_t> records_;  ///< of each row, if they are bounded
};

/// Sorts numbers of items by falling units, equal ones as they stand: by digits of 13 bits.
class ByFallingUnits {
 public:
  /// `items` are numbers into `units`, which are from 1 to `most`.
  void Sort(std::span<const std::uint32_t> units, std::uint32_t most,
            std::vector<std::uint32_t>* items) {
    if (most == 0) return;
    sorted_.resize(items->size());
    for (unsigned shift = 0; shift < 32 && (most - 1) >> shift != 0; shift += kBits) {
      std::array<std::uint32_t, kDigits> begins{};
      const auto digit = [&](std::uint32_t item) {
        return (most - units[item]) >> shift & (kDigits - 1);
      };
      for (const std::uint32_t item : *items) ++begins[digit(item)];
      std::uint32_t begin = 0;
      for (std::uint32_t& count : begins) begin += std::exchange(count, begin);
      for (const std::uint32_t item : *items) sorted_[begins[digit(item)]++] = item;
      items->swap(sorted_);
    }
  }

 private:
  static constexpr unsigned kBits = 13;
  static constexpr std::size_t kDigits = std::size_t{1} << kBits;
  std::vector<std::uint32_t> sorted_;
};

}  // namespace ringfeed
