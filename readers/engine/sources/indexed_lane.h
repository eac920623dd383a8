// A lane of an order by number: it looks up rows, reads their units and puts them into blocks.
//
// The run makes it before its threads start. From then on only the worker that owns the lane calls
// it. It shares the ChunkPlan and the opened files with other lanes; both are thread safe. What
// holds: rows leave in the order of their chunk, and the block with the last of them ends the turn.
// parts_ have that order too, and only the first is handed out. What is read ahead of it is bounded
// (Options::ahead_bytes), except for one part.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "readers/engine/sources/lane.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/row_framer.h"
#include "readers/engine/sources/unit_fetch.h"
#include "readers/order/chunk_plan.h"

namespace ringfeed {

/// Records by their numbers, in the order of a ChunkPlan: each turn is a chunk, in one block or
/// several. Rows that cannot be had are failures or, if damage is skipped, null spans with a range
/// each; places without a row (kNoRow) are only null spans. Blocks know the numbers of their rows.
class IndexedLane final : public Lane {
 public:
  struct Options {
    std::size_t index = 0;  ///< of the plan's lanes
    /// What it may read ahead of the block that is due, beside one part of UnitFetch::kPartBytes;
    /// 0: as much as IoOptions::in_flight_bytes. Several lanes of a thread share the latter.
    std::size_t ahead_bytes = 0;
  };
  IndexedLane(const Options& options, ChunkPlan* plan, OpenedFiles* files, LaneContext* context);
  bool Fill(Block* block) override;
  std::span<const std::byte> Upcoming() const override { return upcoming_; }
  bool frames_hot() const override { return from_memory_; }

 private:
  /// Rows of a chunk that become one block, or a marker.
  struct Part {
    explicit Part(LaneContext* context) : fetch(context) {}
    Chunk::Kind kind = Chunk::Kind::kRows;
    bool ends_chunk = true;
    bool of_dropped_rest = false;
    std::uint64_t data_pass = 0;
    std::vector<RowNumber> rows;
    std::vector<PlannedRow> planned;
    std::vector<StepFacts> steps;
    NeededUnits needed;
    UnitFetch fetch;
    Status status;  ///< after the rows
    std::size_t record_bytes = 0;
    /// What it counts as while it waits: rows that are read once and delivered many times take no
    /// memory, but time in the plan.
    std::size_t ahead_bytes() const { return std::max(fetch.memory_bytes(), record_bytes); }
  };

  /// Whether the chunk has rows that no part has taken; takes the next chunk when it is used up.
  bool HasRows();
  void UseRows(std::size_t count);
  /// How the next `count` rows are planned; before UseRows.
  void TakePlanned(std::size_t count, std::vector<PlannedRow>* planned,
                   std::vector<StepFacts>* steps);
  bool FillDirectly(Block* block);
  /// Null if a file can be opened only after earlier parts are done with theirs.
  std::unique_ptr<Part> PlanPart();
  /// Makes the next part and requests its reads. False if it has to wait for memory.
  bool MakePart();
  /// Makes parts until as much as allowed is requested, at least one.
  void ReadAhead();
  /// Whether that much may be read ahead of the first part, and another part.
  bool MayReadBehind(std::size_t ahead) const;
  void FillFrom(Part* part, Block* block);
  void LookAhead();
  std::span<const RowNumber> RowsLeft() const { return std::span(chunk_.rows).subspan(next_row_); }

  const Options options_;
  ChunkPlan* const plan_;
  OpenedFiles* const opened_;
  LaneContext* const context_;
  LaneFiles files_;
  RowFramer framer_;
  Chunk chunk_;
  bool chunk_taken_ = false;  ///< and not used up
  std::size_t next_row_ = 0;  ///< of the chunk
  std::size_t next_step_ = 0;
  NeededUnits found_;  ///< of the chunk's rows, if they were looked up
  bool is_found_ = false;
  std::size_t rows_at_once_ = 0;     ///< that suited the last part; 0: not known
  std::unique_ptr<Part> next_part_;  ///< planned, but there was no memory
  std::deque<std::unique_ptr<Part>> parts_;
  bool ended_ = false;  ///< nothing follows the last part
  bool from_memory_ = false;
  std::span<const std::byte> upcoming_;
};

}  // namespace ringfeed
