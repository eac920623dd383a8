#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A record of a data set by its number: the files' records one file after the other, in the order
/// of the list. Damaged records that an index could count have numbers too.
using RowNumber = std::uint64_t;
/// A place of the order that holds no record: it was added to fill up a batch.
inline constexpr RowNumber kNoRow = ~RowNumber{0};

/// The rows of a data set that are kept, the others being left out. Thread safe.
class KeptRows {
 public:
  virtual ~KeptRows() = default;
  virtual std::uint64_t count() const = 0;
  /// Rows of the data set.
  virtual RowNumber all() const = 0;
  /// Kept ones among the first `row` rows.
  virtual std::uint64_t Before(RowNumber row) const = 0;
  /// Puts in place of each number below count() the row that it stands for. kDamaged if the medium
  /// fails.
  virtual Status ToRows(std::span<RowNumber> numbers) const = 0;
};

/// What the order of a data set is computed from. Thread safe.
class RowLayout {
 public:
  virtual ~RowLayout() = default;
  virtual std::size_t files() const = 0;
  /// Records of all files.
  virtual std::uint64_t rows() const = 0;
  /// Number of the first record of `file`; files() is the end of the last.
  virtual RowNumber FirstRow(std::size_t file) const = 0;
  /// Stripes of the order that the file has (docs/ORDER.md); a raw file has one.
  virtual std::uint64_t stripes(std::size_t file) const = 0;
  /// Number of the first record that starts in that stripe or a later one: at stripe 0
  /// FirstRow(file), at stripes(file) FirstRow(file + 1).
  virtual Status FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const = 0;
  /// If rows are left out, those that its numbers stand for; else null.
  virtual const KeptRows* kept() const { return nullptr; }
};

/// A layout of which only some rows are kept. Its numbers count these: all orders are those of a
/// data set that has no others, and cursors over it give the numbers of the data set.
class KeptLayout final : public RowLayout {
 public:
  /// Both outlive it; `kept` is of the rows of `all`.
  KeptLayout(const RowLayout& all, const KeptRows& kept) : all_(all), kept_(kept) {
    for (std::size_t file = 0; file <= all.files(); ++file) {
      first_rows_.push_back(kept.Before(all.FirstRow(file)));
    }
  }

  std::size_t files() const override { return all_.files(); }
  std::uint64_t rows() const override { return first_rows_.back(); }
  RowNumber FirstRow(std::size_t file) const override { return first_rows_[file]; }
  std::uint64_t stripes(std::size_t file) const override { return all_.stripes(file); }
  Status FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const override {
    const Status status = all_.FirstRowOfStripe(file, stripe, row);
    if (status.ok()) *row = kept_.Before(*row);
    return status;
  }
  const KeptRows* kept() const override { return &kept_; }

 private:
  const RowLayout& all_;
  const KeptRows& kept_;
  std::vector<RowNumber> first_rows_;  ///< of each file, and the end of the last
};

/// The parts of OpenOptions that the order by index depends on, besides a RowLayout's stripes.
struct OrderOptions {
  FileOrder files{};
  std::size_t cycle = 8;
  std::uint32_t first_epoch = 0;
};

/// A step that orders records without looking into them, or joins passes.
struct OrderStage {
  enum class Kind : std::uint8_t { kWindow, kBlock, kMultiPass, kStripes, kGlobal };
  Kind kind = Kind::kWindow;
  std::uint64_t amount = 0;  ///< window, block rows or passes; else 0
  std::uint64_t seed = 0;
};

}  // namespace ringfeed
