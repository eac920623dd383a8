#include "readers/engine/direct_run.h"

#include <algorithm>

#include "readers/engine/batches/batch_pool.h"
#include "readers/engine/sources/unit_fetch.h"

namespace ringfeed {

namespace {

constexpr std::size_t kPage = 4096;

/// What a record takes that is read alone, on whole pages.
std::size_t BytesRead(std::uint64_t record_bytes) {
  return static_cast<std::size_t>((record_bytes + 2 * (kPage - 1)) / kPage * kPage);
}

std::size_t RowsOf(const ExecutionPlan& plan) {
  return std::max<std::size_t>(1, plan.RowsOfRank());
}

/// Batches that there are at a time, at most.
std::size_t SlotsOf(const ExecutionPlan& plan, std::size_t batch_bytes) {
  const std::size_t slots =
      plan.batch.slots > 0 ? plan.batch.slots : BatchPool::DefaultSlots(batch_bytes);
  return std::max(slots, plan.held_batches + 2);
}

}  // namespace

std::string WhyNotDirect(const ExecutionPlan& plan, const IndexedSource* indexed) {
  if (!plan.batched || plan.parser == nullptr) return "its records are not parsed into batches";
  if (plan.looks_into_records() || plan.parser->ReadsBytes()) {
    return "the chain looks into its records (their format, a Map, Filter, Pad, Pack or a "
           "conversion does)";
  }
  if (indexed == nullptr) {
    return "its records come in the order of their files: records asked for by number (a global "
           "shuffle, say) are read directly";
  }
  const FileTable& table = *indexed->table();
  for (std::size_t i = 0; i < table.files(); ++i) {
    const DataFile& file = table.file(i);
    if (file.source != nullptr) return "a Source of the program's own is no file";
    if (file.index == nullptr || !file.index->fixed()) {
      return "where records stand in " + file.name +
             ", or their checksums, is known by reading alone";
    }
  }
  return {};
}

DirectRun::DirectRun(const ExecutionPlan& plan, const IndexedSource* indexed,
                     const Reading& reading) {
  if (plan.direct != nullptr) Begin(plan, indexed, reading);
}

void DirectRun::Begin(const ExecutionPlan& plan, const IndexedSource* indexed,
                      const Reading& reading) {
  const std::string unfit = WhyNotDirect(plan, indexed);
  if (!unfit.empty()) return plan.direct->NoteUnfit(unfit);
  const FileTable& table = *indexed->table();
  DirectNeed need;
  need.record_bytes = indexed->mean_record_bytes();
  for (std::size_t i = 0; i < table.files() && need.file.empty(); ++i) {
    if (table.FirstRow(i) != table.FirstRow(i + 1)) need.file = table.file(i).name;
  }
  if (need.file.empty()) return plan.direct->NoteUnfit("there are no records");
  const std::size_t row_bytes = BytesRead(need.record_bytes);
  const std::size_t rows = RowsOf(plan);
  const std::size_t slots =
      SlotsOf(plan, std::max<std::size_t>(1, rows * static_cast<std::size_t>(need.record_bytes)));
  // One part more at either end: its other rows are in other batches.
  const std::size_t most_kept = slots * rows * row_bytes + 4 * (UnitFetch::kPartBytes + row_bytes);
  // Twice what lanes may have, since pieces of it must be found in one run; a long row is one that
  // is read, one that is framed and one that is planned.
  const std::size_t lane_bytes = reading.lane_bytes + 3 * row_bytes + UnitFetch::kPartBytes;
  need.memory_bytes = 2 * reading.lanes * lane_bytes + most_kept + most_kept / 4;
  keep_limit_.set_bytes(most_kept);
  memory_ = plan.direct->Begin(need);
  if (memory_ != nullptr) reads_ = plan.direct;
}

}  // namespace ringfeed
