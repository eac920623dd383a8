#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/batches/deliveries.h"
#include "readers/engine/blocks/late_sums.h"
#include "readers/engine/blocks/ledger.h"
#include "readers/engine/blocks/ready_blocks.h"
#include "readers/engine/blocks/run_memory.h"
#include "readers/engine/direct_run.h"
#include "readers/engine/files/file_schedule.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/plan/plan_runner.h"
#include "readers/engine/plan/planner.h"
#include "readers/engine/sources/cache_room.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/worker_io.h"
#include "readers/engine/waiting/first_failure.h"
#include "readers/engine/waiting/plan_requests.h"
#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/source_limit.h"
#include "readers/engine/waiting/stall_detector.h"
#include "readers/engine/waiting/task_router.h"
#include "readers/engine/waiting/worker_pool.h"
#include "readers/order/chunk_plan.h"

namespace ringfeed {

class Run;
class RunWorker;

/// How a run works, whatever its plan is.
struct RunOptions {
  EngineFactory engines;
  /// Payloads of so many bytes or more are checked as they are written: see LateSums.
  std::size_t long_payload_bytes = 8192;
  /// After waiting so long for nothing a consumer has all workers look again.
  std::chrono::milliseconds silence{1000};
  /// If threads that do not ask for more let nothing go for so long, what they hold is taken for
  /// held by the program: the threads that wait for it are told.
  std::chrono::milliseconds held_silence{10'000};
};

/// What a chain keeps from run to run.
struct ChainKeeps {
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::shared_ptr<KeptMappings> mappings = std::make_shared<KeptMappings>();
  std::shared_ptr<CacheRoom> cache_room = std::make_shared<CacheRoom>();
  bool read_before = false;  ///< by an earlier run
};

/// What a run is asked for.
struct RunInput {
  const ExecutionPlan& plan;
  std::shared_ptr<Arena> arena;
  RunStart start{};
  std::shared_ptr<IndexedSource> indexed{};  ///< null: records are read as files come
  RewindInput rewind_input{};
  ChainKeeps chain{};
  RunOptions options{};
};

/// The parts of a run, each with one purpose, in the order in which they know each other.
/// RunBuilder makes them; the run owns them; its workers see them all.
struct RunParts {
  /// `its_run`: the run that owns them.
  RunParts(RunInput input, const Run* its_run);
  ~RunParts();
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  bool stopping() const { return stop.stop_requested(); }

  const Run* const run;

  // What it was asked for, and what follows from that.
  const int cpus;
  DirectRun direct;                   ///< empty, if blocks are in host memory
  const std::size_t stages_by_index;  ///< that the order by index has already
  const ExecutionPlan plan;           ///< without these
  const RunStart start;
  const std::shared_ptr<IndexedSource> indexed;
  const RewindInput rewind_input;
  const ChainKeeps chain;
  const RunOptions options;
  const bool unordered;  ///< blocks are planned as they come
  const std::shared_ptr<Arena> arena;

  // What is between the threads.
  std::stop_source stop;
  Workers workers;
  PlanRequests plan_requests;
  ReadAhead read_ahead;
  SourceLimit source;
  TaskRouter tasks;
  ReadyBlocks ready;
  RunMemory memory;
  LateSums sums;
  StallDetector stalls;
  FirstFailure worker_failure;
  Deliveries deliveries;

  // Made by RunBuilder.
  std::unique_ptr<FileSchedule> schedule;
  std::unique_ptr<ChunkPlan> chunks;  ///< or this one, of rows in these files
  std::unique_ptr<OpenedFiles> opened_files;
  std::optional<Planner> planner;
  BatchSink* batch_sink = nullptr;  ///< the planner's; null if records are delivered
  std::optional<PlanRunner> runner;
  std::vector<std::unique_ptr<RunWorker>> threads;  ///< one for each of `workers`
};

}  // namespace ringfeed
