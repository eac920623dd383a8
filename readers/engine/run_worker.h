#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "readers/engine/batches/batch_writer.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/run_parts.h"
#include "readers/engine/sources/lane.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/engine/sources/worker_io.h"
#include "readers/engine/waiting/stage_clock.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// What a worker's time goes to. It alone writes them; any thread may read them.
struct StageClocks {
  StageClock read, decompress, frame, filter, plan, write, wait_medium, wait_slot, wait_other;
  StageCount read_bytes;
};

/// One thread of a run. It fills the blocks of its own lanes, writes rows into batches, runs the
/// plan if it finds something for it, and sleeps.
///
/// Thread safety: AddLane and context are for the time before the start; Main is the thread's life;
/// any thread may call the others.
class RunWorker {
 public:
  /// `parts` outlive it. Its number is that of its thread in RunParts::workers.
  RunWorker(std::size_t number, RunParts* parts);

  /// The lane of that number is read by this worker.
  void AddLane(std::uint32_t number, std::unique_ptr<Lane> lane);
  /// Of its lanes.
  LaneContext* context() { return &context_; }
  void Main();

  /// Ends a wait of the thread in its engine.
  void WakeIo();
  const StageClocks& clocks() const { return clocks_; }

 private:
  /// A lane as its worker sees it.
  struct OwnLane {
    std::uint32_t number = 0;
    std::unique_ptr<Lane> lane;
    Block* filling = nullptr;
    /// Passes ended, and stripes of this one published. Lanes are filled in the order of this pair,
    /// which is the order of the plan.
    std::pair<std::uint64_t, std::uint64_t> place;
    bool done = false;
  };
  enum class Tasks : std::uint8_t { kOwn, kAny };

  void SetUp();
  void WorkOnce();
  bool RequestPlan() { return parts_.runner->Request(number_, &clocks_.plan); }
  /// Ends the run with this failure after what is planned: the worker reads no more.
  void FailBehindPlan(const Status& status);
  /// Nothing more is read: see Lane::LetGo.
  void LetGoOfLanes();
  /// Frames the next part of the worker's turn; false if it should write first.
  bool FrameTurn();
  bool WriteRows(Tasks tasks);
  /// While rows are written, fetches what this worker will frame next into its cache.
  void FetchUpcoming();
  bool ReadLane();
  OwnLane* NextLane(const std::vector<OwnLane*>& tried);
  bool FillBlock(OwnLane& lane);
  /// Locates the rows of a block that was read, and asks of them what the chain's content needs.
  void LocateFields(Block* block);
  /// Whether checksums of that pass may be left.
  bool MayLeaveSums(const Block& block, std::uint64_t pass) const;
  void Publish(OwnLane& lane);
  void SleepUntilWork();
  /// Whether it may not sleep. A thread that makes it true calls Wake: see the definition.
  bool HasWork() const;
  /// Whether an empty lane may begin a block.
  bool MayFill(const OwnLane& lane) const;
  /// Whether a block that a lane has begun may get further.
  bool MayGoOn(const OwnLane& lane) const;

  const std::size_t number_;
  RunParts& parts_;
  LaneContext context_;
  std::unique_ptr<WorkerIo> io_;
  std::vector<OwnLane> lanes_;  ///< after these: lanes that go use them
  std::mutex io_mutex_;         ///< guards io_ against WakeIo while it is made and destroyed
  WriterScratch scratch_;
  std::unique_ptr<Parser::Scratch> locate_scratch_;
  StageClocks clocks_;
  bool has_let_go_ = false;             ///< of its lanes
  bool frames_turn_ = true;             ///< rather than writing: its turn is not framed
  const std::byte* fetched_ = nullptr;  ///< the start of the bytes that were last asked for ahead
};

}  // namespace ringfeed
