// Chunks of places: the order as it is, or one rank's part of each batch of a fixed number of
// places.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "readers/order/chunk_plan.h"
#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The part of each batch that one of several ranks reads: of the places [b·B, (b+1)·B) of a pass
/// those from b·B + ⌊rank·B/ranks⌋ up to b·B + ⌊(rank+1)·B/ranks⌋. If the last batch ends before
/// this part, it gets one kNoRow, so that batches have the same numbers on all ranks.
struct BatchSlice {
  std::uint64_t batch = 0;  ///< B, at least ranks; 0: no slices, every place is given
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  /// The rest of a pass that fills no batch is given in chunks of its own: the code that drops it
  /// then knows, and a failure in it is still a failure. Its missing places get no kNoRow.
  bool drop_remainder = false;
  bool pad = false;  ///< else: its missing places are given as kNoRow

  /// The part of each batch.
  std::uint64_t begin() const { return rank * batch / ranks; }
  std::uint64_t end() const { return (rank + 1) * batch / ranks; }
};

/// Why endless passes bring nothing, if one has so many rows (unknown: none) and a rest that fills
/// no batch of `batch` is dropped.
Status NoBatchInAPass(std::optional<std::uint64_t> rows, std::uint64_t batch);

/// Cuts the places of an order into chunks.
class PlaceChunks final : public ChunkMaker {
 public:
  struct Options {
    std::size_t rows_per_chunk = 1024;
    /// Number of the last one + 1; 0: without end, which fails at a pass without places.
    std::uint64_t passes = 1;
    bool other_files = false;  ///< passes have different files: one without places is no reason to
                               ///< fail
    std::uint64_t pass = 0;    ///< the pass it starts in
    std::uint64_t place = 0;   ///< at most the places of that pass
    BatchSlice slice{};
  };
  PlaceChunks(std::unique_ptr<RowCursor> cursor, const Options& options);
  void Make(Chunk* chunk) override;

 private:
  /// Places [begin, end) of the pass, as the slice has them.
  struct Wanted {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void StartPass();
  /// What is wanted next, from `at` on: empty if nothing is left of this pass.
  Wanted NextWanted(std::uint64_t at) const;
  Status FillChunk(Chunk* chunk);
  /// Finds the pass over the data that the place is of. False if it ends the chunk in front of it.
  bool FindDataPass(std::uint64_t place, Chunk* chunk);
  Status Take(Wanted wanted, std::vector<RowNumber>* rows);
  /// Moves the cursor to `place`, which is not before it.
  Status MoveTo(std::uint64_t place);
  /// Places of this pass from `begin` on that the slice has, those without a row too.
  std::uint64_t CountWanted(std::uint64_t begin) const;

  const std::unique_ptr<RowCursor> cursor_;
  const Options options_;

  std::vector<RowNumber> passed_over_;
  bool started_ = false;     ///< this pass
  bool positioned_ = false;  ///< the cursor is at cursor_at_
  std::uint64_t pass_;
  std::uint64_t next_place_;       ///< of this pass: what was before it was given or left out
  std::uint64_t cursor_at_ = 0;    ///< the place that the cursor gives next
  std::uint64_t places_ = 0;       ///< of this pass
  std::uint64_t places_end_ = 0;   ///< the same with what is padded
  std::uint64_t rest_begin_ = 0;   ///< a rest that is dropped begins here; else places_end_
  RowCursor::DataPass data_pass_;  ///< the one of next_place_, or past its end the last one
};

}  // namespace ringfeed
