#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// The order of files that take turns, as FileSchedule assigns them to lanes (docs/ORDER.md,
/// "Files, stripes, interleave"). A place is found by the number of rows that all lanes gave in a
/// number of turns, which the layout knows: a logarithm of the turns, not their number.
class InterleaveCursor final : public RowCursor {
 public:
  /// `layout` must outlive the cursor.
  InterleaveCursor(const RowLayout& layout, const OrderOptions& options);

  std::uint64_t Places(std::uint64_t pass) override;
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

 private:
  /// A file in a lane.
  struct Piece {
    std::size_t file = 0;
    std::uint64_t stripes = 0;
    std::uint64_t first_turn = 0;   ///< of the lane
    std::uint64_t rows_before = 0;  ///< of the lane
  };
  struct Lane {
    std::vector<Piece> pieces;
    std::uint64_t turns = 0;
    std::uint64_t rows = 0;
  };
  /// A lane that has turns left.
  struct Turn {
    std::size_t lane = 0;
    std::size_t piece = 0;
    std::uint64_t stripe = 0;
    RowNumber first = 0;  ///< of the stripe
  };

  void Plan(std::uint64_t pass);
  void AddFile(std::size_t file, Lane* lane) const;
  Status RowsBefore(const Lane& lane, std::uint64_t turns, std::uint64_t* rows) const;
  /// Of all lanes.
  Status RowsBefore(std::uint64_t turns, std::uint64_t* rows) const;
  /// The most turns of each lane that hold `place` rows or fewer.
  Status FindRound(std::uint64_t place, std::uint64_t* round, std::uint64_t* rows) const;
  Status StartRound(std::uint64_t round);
  /// Takes the next turn of the pass; false at its end.
  Status TakeTurn(bool* taken);

  const RowLayout& layout_;
  const OrderOptions options_;
  bool planned_ = false;
  std::uint64_t planned_pass_ = 0;
  std::vector<Lane> lanes_;
  std::uint64_t rounds_ = 0;  ///< turns of the lane that has most
  std::uint64_t places_ = 0;

  std::vector<Turn> turns_;  ///< lanes that are in use, in their order
  std::size_t next_turn_ = 0;
  RowNumber row_ = 0;  ///< the rest of the stripe that was taken
  RowNumber end_ = 0;
};

}  // namespace ringfeed
