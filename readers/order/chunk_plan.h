// The order by number, cut into chunks for the lanes.
//
// The run makes it. Each lane asks Next on its worker's thread. The planner asks TakeRowsOf when a
// pass has ended, on whichever worker runs the plan. One mutex guards all of it. Under it Next
// makes the chunks up to the caller's own; those of other lanes wait in their queues. What holds:
// chunk k of a pass belongs to lane k mod lanes, and no chunk spans two passes. So what each lane
// gets depends on the order alone, never on which lane asks first.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "readers/order/plan_clock.h"
#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// How a row was planned, if shares make the batches (ShareRules).
struct PlannedRow {
  static constexpr std::uint8_t kEndsShare = 1;
  static constexpr std::uint8_t kEndsStep = 2;  ///< of this rank's part of the step
  static constexpr std::uint8_t kRepeated = 4;  ///< its share came before in this pass
  static constexpr std::uint8_t kNoShare = 8;   ///< kNoRow of a step of which the rank has nothing
  static constexpr std::uint8_t kBeginsStep = 16;

  std::uint32_t units = 0;  ///< that it takes; 0 of kNoRow and of a hole
  std::uint8_t marks = 0;
};

/// What a lane must bring next.
struct Chunk {
  enum class Kind : std::uint8_t { kRows, kPassEnd, kEnd };
  Kind kind = Kind::kEnd;
  std::uint64_t pass = 0;
  std::uint64_t data_pass = 0;   ///< of its rows, as RowCursor::DataPass
  std::uint64_t place = 0;       ///< of the first row; one past the last at kPassEnd
  std::vector<RowNumber> rows;   ///< at least one if the status is OK
  bool of_dropped_rest = false;  ///< the rows are of a rest that BatchSlice::drop_remainder drops
  std::vector<PlannedRow> planned;  ///< of each row, if shares make the batches; else empty
  std::vector<StepFacts> steps;     ///< that begin in it
  std::uint64_t pass_rows = 0;      ///< at kPassEnd: rows of the pass, from the start on
  Status status;                    ///< the order failed after these rows: nothing follows
};

/// Makes the chunks of an order, one after another. One thread at a time.
class ChunkMaker {
 public:
  virtual ~ChunkMaker() = default;
  /// The next rows, the end of a pass, or kEnd. The chunk's vectors come in empty. Nothing is asked
  /// for after kEnd or a failure.
  virtual void Make(Chunk* chunk) = 0;
  /// Of shares, so far.
  virtual LeftOutRecords left_out() const { return {}; }
};

/// How many rows a chunk should have if a record takes so many bytes on average: enough that reads
/// can be merged, and few enough that a chunk stays in a core's cache.
std::size_t RowsPerChunk(std::uint64_t mean_record_bytes);

/// Deals chunks out to lanes: chunk k of a pass belongs to lane k mod lanes, so that the lanes'
/// chunks, taken in turn, are the order. Every pass starts afresh with lane 0, even one that begins
/// in its middle; no chunk spans passes. Chunks are made in order, as far as any lane has asked.
/// Chunks of other lanes wait for them, so a lane should not run far ahead. Thread safe.
class ChunkPlan {
 public:
  ChunkPlan(std::size_t lanes, std::unique_ptr<ChunkMaker> maker);

  std::size_t lanes() const { return queues_.size(); }
  /// The lane's next piece of work: its chunks of a pass, then kPassEnd, then those of the next
  /// pass, …, then kEnd for ever. Reuses the memory of `chunk`'s rows. One thread asks for each
  /// lane.
  void Next(std::size_t lane, Chunk* chunk);
  /// How many rows a pass that is over has, by arithmetic. Of a pass that began in its middle:
  /// those from there on. Once for each pass.
  std::uint64_t TakeRowsOf(std::uint64_t pass);
  /// Of planned batches, so far, on all ranks together; and the time of all planning.
  struct Counts {
    LeftOutRecords left_out;
    std::uint64_t busy_ns = 0;
  };
  Counts counts() const;  ///< any thread; waits for nothing

 private:
  /// Makes the next chunk, or the end of a pass or of all.
  void Make();

  std::mutex mutex_;  ///< guards what follows, but for the counts
  const std::unique_ptr<ChunkMaker> maker_;
  std::vector<std::deque<Chunk>> queues_;  ///< of the lanes
  std::vector<std::vector<RowNumber>> spare_;
  std::map<std::uint64_t, std::uint64_t>
      rows_of_;  ///< of passes that are over, and were not asked for yet
  bool ended_ = false;
  std::uint64_t pass_ = 0;  ///< of the chunk that was made last
  std::size_t turn_ = 0;    ///< lane that gets the next chunk
  std::atomic<std::uint64_t> empty_records_{0};
  std::atomic<std::uint64_t> dropped_records_{0};
  std::atomic<std::uint64_t> busy_ns_{0};
};

}  // namespace ringfeed
