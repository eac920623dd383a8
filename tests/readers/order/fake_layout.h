#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "readers/order/row_layout.h"

namespace ringfeed {

/// Files by the rows of each of their stripes. Fails while it is broken.
class FakeLayout final : public RowLayout {
 public:
  using Stripes = std::vector<std::uint64_t>;
  explicit FakeLayout(std::vector<Stripes> files) : stripes_(std::move(files)) {
    first_rows_.push_back(0);
    for (const Stripes& file : stripes_) {
      std::uint64_t rows = first_rows_.back();
      for (const std::uint64_t stripe : file) rows += stripe;
      first_rows_.push_back(rows);
    }
  }

  std::size_t files() const override { return stripes_.size(); }
  std::uint64_t rows() const override { return first_rows_.back(); }
  RowNumber FirstRow(std::size_t file) const override { return first_rows_.at(file); }
  std::uint64_t stripes(std::size_t file) const override { return stripes_.at(file).size(); }
  Status FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const override {
    if (broken_) return Status(StatusCode::kDamaged, "an index page");
    *row = first_rows_.at(file);
    for (std::uint64_t i = 0; i < stripe; ++i) *row += stripes_.at(file).at(i);
    return {};
  }
  void set_broken(bool broken) { broken_ = broken; }

 private:
  std::vector<Stripes> stripes_;
  std::vector<RowNumber> first_rows_;
  bool broken_ = false;
};

using Random = std::mt19937_64;

inline std::uint64_t Below(Random& random, std::uint64_t n) { return random() % n; }

/// A few files, some without a stripe, some stripes without a row.
inline FakeLayout RandomLayout(Random& random, std::uint64_t most_rows = 20) {
  std::vector<FakeLayout::Stripes> files(1 + Below(random, 9));
  for (FakeLayout::Stripes& file : files) {
    file.resize(Below(random, 7));
    for (std::uint64_t& rows : file) {
      rows = Below(random, 4) == 0 ? 0 : Below(random, most_rows + 1);
    }
  }
  return FakeLayout(std::move(files));
}

inline OrderOptions RandomOptions(Random& random) {
  OrderOptions options;
  options.cycle = 1 + Below(random, 5);
  options.first_epoch = Below(random, 2) == 0 ? 0 : static_cast<std::uint32_t>(Below(random, 9));
  options.files.shuffle = Below(random, 2) == 0;
  options.files.seed = random();
  options.files.from_pass = Below(random, 3);
  if (Below(random, 3) == 0) {
    options.files.ranks = 1 + Below(random, 4);
    options.files.rank = Below(random, options.files.ranks);
  }
  return options;
}

}  // namespace ringfeed
