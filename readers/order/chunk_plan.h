// The order by number, cut into chunks for the lanes.
//
// The run makes it. Each lane asks Next on its worker's thread. The planner asks TakeRowsOf when a
// pass has ended, on whichever worker runs the plan. One mutex guards all of it. Under it Next
// makes the chunks up to the caller's own; those of other lanes wait in their queues. What holds:
// chunk k of a pass belongs to lane k mod lanes, and no chunk spans two passes. So what each lane
// gets depends on the order alone, never on which lane asks first.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a lane must bring next.
struct Chunk {
  enum class Kind : std::uint8_t { kRows, kPassEnd, kEnd };
  Kind kind = Kind::kEnd;
  std::uint64_t pass = 0;
  std::uint64_t data_pass = 0;   ///< of its rows, as RowCursor::DataPass
  std::uint64_t place = 0;       ///< of the first row; one past the last at kPassEnd
  std::vector<RowNumber> rows;   ///< at least one if the status is OK
  bool of_dropped_rest = false;  ///< the rows are of a rest that BatchSlice::drop_remainder drops
  Status status;                 ///< the order failed after these rows: nothing follows
};

/// The part of each batch that one of several ranks reads: of the places [b·B, (b+1)·B) of a pass
/// those from b·B + rank·B/ranks up to b·B + (rank+1)·B/ranks. If the last batch ends before this
/// part, it gets one kNoRow, so that batches have the same numbers on all ranks.
struct BatchSlice {
  std::uint64_t batch = 0;  ///< B, a multiple of ranks; 0: no slices, every place is given
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  /// The rest of a pass that fills no batch is given in chunks of its own: the code that drops it
  /// then knows, and a failure in it is still a failure. Its missing places get no kNoRow.
  bool drop_remainder = false;
  bool pad = false;  ///< else: its missing places are given as kNoRow
};

/// How many rows a chunk should have if a record takes so many bytes on average: enough that reads
/// can be merged, and few enough that a chunk stays in a core's cache.
std::size_t RowsPerChunk(std::uint64_t mean_record_bytes);

/// Why endless passes bring nothing, if one has so many rows (unknown: none) and a rest that fills
/// no batch of `batch` is dropped.
Status NoBatchInAPass(std::optional<std::uint64_t> rows, std::uint64_t batch);

/// Cuts the order of the rows into chunks and deals them out to lanes: chunk k of a pass belongs to
/// lane k mod lanes, so that the lanes' chunks, taken in turn, are the order. Every pass starts
/// afresh with lane 0, even one that begins in its middle; no chunk spans passes. Chunks are made
/// in order, as far as any lane has asked. Chunks of other lanes wait for them, so a lane should
/// not run far ahead. Thread safe.
class ChunkPlan {
 public:
  struct Options {
    std::size_t lanes = 1;
    std::size_t rows_per_chunk = 1024;
    /// Number of the last one + 1; 0: without end, which fails at a pass without places.
    std::uint64_t passes = 1;
    bool other_files = false;  ///< passes have different files: one without places is no reason to
                               ///< fail
    std::uint64_t pass = 0;    ///< the pass it starts in
    std::uint64_t place = 0;   ///< at most the places of that pass
    BatchSlice slice{};
  };
  ChunkPlan(std::unique_ptr<RowCursor> cursor, const Options& options);

  std::size_t lanes() const { return options_.lanes; }
  /// The lane's next piece of work: its chunks of a pass, then kPassEnd, then those of the next
  /// pass, …, then kEnd for ever. Reuses the memory of `chunk`'s rows. One thread asks for each
  /// lane.
  void Next(std::size_t lane, Chunk* chunk);
  /// How many rows a pass that is over has, by arithmetic. Of a pass that began in its middle:
  /// those from there on. Once for each pass.
  std::uint64_t TakeRowsOf(std::uint64_t pass);

 private:
  /// Places [begin, end) of the pass, as the slice has them.
  struct Wanted {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  /// Makes the next chunk, or the end of a pass or of all.
  void Make();
  void StartPass();
  /// What is wanted next, from `at` on: empty if nothing is left of this pass.
  Wanted NextWanted(std::uint64_t at) const;
  Status FillChunk(Chunk* chunk);
  /// Finds the pass over the data that the place is of. False if it ends the chunk in front of it.
  bool FindDataPass(std::uint64_t place, Chunk* chunk);
  Status Take(Wanted wanted, std::vector<RowNumber>* rows);
  /// Moves the cursor to `place`, which is not before it.
  Status MoveTo(std::uint64_t place);
  void Give(Chunk::Kind kind);
  /// Places of this pass from `begin` on that the slice has, those without a row too.
  std::uint64_t CountWanted(std::uint64_t begin) const;

  const std::unique_ptr<RowCursor> cursor_;
  const Options options_;

  std::mutex mutex_;                       ///< guards what follows
  std::vector<std::deque<Chunk>> queues_;  ///< of the lanes
  std::vector<std::vector<RowNumber>> spare_;
  std::vector<RowNumber> passed_over_;
  std::map<std::uint64_t, std::uint64_t>
      rows_of_;  ///< of passes that are over, and were not asked for yet
  bool ended_ = false;
  bool started_ = false;     ///< this pass
  bool positioned_ = false;  ///< the cursor is at cursor_at_
  std::uint64_t pass_;
  std::uint64_t next_place_;       ///< of this pass: what was before it was given or left out
  std::uint64_t cursor_at_ = 0;    ///< the place that the cursor gives next
  std::uint64_t places_ = 0;       ///< of this pass
  std::uint64_t places_end_ = 0;   ///< the same with what is padded
  std::uint64_t rest_begin_ = 0;   ///< a rest that is dropped begins here; else places_end_
  RowCursor::DataPass data_pass_;  ///< the one of next_place_, or past its end the last one
  std::size_t turn_ = 0;           ///< lane that gets the next chunk
};

}  // namespace ringfeed
