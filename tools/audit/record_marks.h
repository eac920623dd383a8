#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace ringfeed::tools {

/// A set of record numbers in a bit each, in pages that are made when needed.
class RecordMarks {
 public:
  /// Marks `count` records from `first` on. Calls `again`, if it is set, for each that was marked
  /// before. Returns their number.
  std::uint64_t Mark(std::uint64_t first, std::uint64_t count,
                     const std::function<void(std::uint64_t record)>& again = nullptr);
  std::uint64_t marked() const { return marked_; }
  /// One more than the largest number that was marked; 0 if there is none.
  std::uint64_t end() const { return end_; }
  bool Has(std::uint64_t record) const;
  /// How many are in both.
  std::uint64_t Common(const RecordMarks& other) const;
  /// The first `most` numbers below `end` that are neither here nor in `others`, which may be null.
  std::vector<std::uint64_t> FirstAbsent(std::uint64_t end, const RecordMarks* others,
                                         std::size_t most) const;

 private:
  static constexpr std::uint64_t kWordBits = 64;
  static constexpr std::uint64_t kPageWords = 1024;
  using Page = std::array<std::uint64_t, kPageWords>;

  std::uint64_t* WordToMark(std::uint64_t word);
  std::uint64_t Word(std::uint64_t word) const;

  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t last_page_ = ~std::uint64_t{0};
  Page* last_ = nullptr;
  std::uint64_t marked_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace ringfeed::tools
