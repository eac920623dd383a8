#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "readers/order/length_table.h"
#include "readers/order/row_cursor.h"

namespace ringfeed {

/// Rows as the files have them, or those of kGlobal; each pass is several of the data.
class TestOrder final : public RowCursor {
 public:
  struct Options {
    std::uint64_t rows = 0;
    bool global = false;
    std::uint64_t joined = 1;
    std::uint64_t seed = 7;
  };
  explicit TestOrder(const Options& options) : options_(options) {}

  std::uint64_t Places(std::uint64_t pass) override {
    return pass == empty_pass ? 0 : options_.rows * options_.joined;
  }
  Status Seek(std::uint64_t pass, std::uint64_t place) override {
    pass_ = pass;
    place_ = place;
    return {};
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) override {
    *count = 0;
    for (RowNumber& row : rows) {
      if (place_ == fails_at) return Status(StatusCode::kDamaged, "a page of the index");
      if (place_ == Places(pass_)) break;
      row = RowAt(pass_, place_++);
      ++*count;
    }
    return {};
  }

  std::uint64_t fails_at = ~std::uint64_t{0};
  std::uint64_t empty_pass = ~std::uint64_t{0};

 private:
  RowNumber RowAt(std::uint64_t pass, std::uint64_t place) const {
    const std::uint64_t epoch = pass * options_.joined + place / options_.rows;
    place %= options_.rows;
    if (!options_.global) return place;
    return KeyedPermutation(options_.rows, options_.seed, static_cast<std::uint32_t>(epoch),
                            DrawPurpose::kGlobalOrder)
        .At(place);
  }

  const Options options_;
  std::uint64_t pass_ = 0;
  std::uint64_t place_ = 0;
};

/// The units of rows, by their numbers.
class TestLengths final : public LengthTable {
 public:
  explicit TestLengths(std::vector<std::uint32_t> units) : units_(std::move(units)) {}
  Status UnitsOf(std::span<const RowNumber> rows, std::span<std::uint32_t> units) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == fails_at) return Status(StatusCode::kDamaged, "a page of the lengths");
      units[i] = units_.at(rows[i]);
    }
    return {};
  }
  std::uint32_t most() const override { return *std::max_element(units_.begin(), units_.end()); }

  RowNumber fails_at = ~std::uint64_t{0};

 private:
  const std::vector<std::uint32_t> units_;
};

}  // namespace ringfeed
