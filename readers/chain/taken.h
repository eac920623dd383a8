#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/run.h"
#include "ringfeed/batch_origin.h"

namespace ringfeed {

/// A run and its start. Each run has a start of its own, whose address tells runs apart.
struct StartedRun {
  std::shared_ptr<Run> run{};
  std::shared_ptr<const RunStart> start{};
};

/// A delivery and the run that made it: they stay together even if a ReInit comes.
struct Taken {
  StartedRun of{};
  Delivery delivery{};
};

/// Whether a program's own code makes its records or instances.
inline bool HasUserSource(const ExecutionPlan& plan) {
  return plan.source.instances != nullptr || plan.source.records != nullptr;
}

/// The origin of a batch. `passed_damage`: damaged records of batches before it that are not shown.
BatchOrigin OriginOf(const ExecutionPlan& plan, const StartedRun& of, const BatchBuffer& batch,
                     std::span<const std::uint64_t> passed_damage);
/// On chains without Batch: of a row of what was read. `rows`: so many, up to this one, were handed
/// out together.
BatchOrigin OriginOfRow(const ExecutionPlan& plan, const StartedRun& of, const BatchBuffer& batch,
                        std::size_t row);
BatchOrigin OriginOfRow(const ExecutionPlan& plan, const StartedRun& of,
                        const Delivery::Records& records, std::size_t row, std::size_t rows = 1);

}  // namespace ringfeed
