#include "readers/chain/taken.h"

#include <vector>

#include "readers/engine/files/file_table.h"
#include "readers/order/position.h"

namespace ringfeed {

namespace {

std::vector<RecordRange> RangesOf(const StartedRun& of, std::span<const std::uint64_t> numbers) {
  if (numbers.empty()) return {};
  if (of.run->indexed() != nullptr) return of.run->indexed()->RangesOf(numbers);
  return RangesOf(numbers, UnpackRecord);
}

BatchOrigin OriginIn(std::uint64_t pass, const ExecutionPlan& plan, const StartedRun& of,
                     std::span<const std::uint64_t> numbers) {
  BatchOrigin origin;
  origin.pass = pass;
  if (HasUserSource(plan) || plan.source.mix != nullptr) origin.start = of.start;
  origin.records = RangesOf(of, numbers);
  return origin;
}

// The rows of one read have consecutive places.
void SetPlace(const OrderSpan& span, std::size_t place, const RunStart& start,
              BatchOrigin* origin) {
  origin->batch = start.batch + span.first_place + place;
  origin->mark = {span.begin.pass, span.begin.place + place + 1};
}

}  // namespace

BatchOrigin OriginOf(const ExecutionPlan& plan, const StartedRun& of, const BatchBuffer& batch,
                     std::span<const std::uint64_t> passed_damage) {
  BatchOrigin origin = OriginIn(batch.pass, plan, of, batch.row_numbers);
  origin.batch = of.start->batch + batch.span.number;
  origin.mark = OriginMarkOf(batch.span);
  origin.step_units = batch.span.step.units;
  origin.step_records = batch.span.step.records;
  std::vector<std::uint64_t> damaged(passed_damage.begin(), passed_damage.end());
  damaged.insert(damaged.end(), batch.damaged_numbers.begin(), batch.damaged_numbers.end());
  origin.damaged = RangesOf(of, damaged);
  return origin;
}

BatchOrigin OriginOfRow(const ExecutionPlan& plan, const StartedRun& of, const BatchBuffer& batch,
                        std::size_t row) {
  std::span<const std::uint64_t> numbers = batch.row_numbers;
  if (!numbers.empty()) numbers = numbers.subspan(row, 1);
  BatchOrigin origin = OriginIn(batch.pass, plan, of, numbers);
  SetPlace(batch.span, batch.PlaceOf(static_cast<std::uint32_t>(row)), *of.start, &origin);
  return origin;
}

BatchOrigin OriginOfRow(const ExecutionPlan& plan, const StartedRun& of,
                        const Delivery::Records& records, std::size_t row, std::size_t rows) {
  std::vector<std::uint64_t> numbers;
  if (plan.source.options.note_records) {
    for (std::size_t each = row + 1 - rows; each <= row; ++each) {
      numbers.push_back(records.NumberOf(static_cast<std::uint32_t>(each)));
    }
  }
  BatchOrigin origin = OriginIn(records.pass, plan, of, numbers);
  SetPlace(records.span, row, *of.start, &origin);
  return origin;
}

}  // namespace ringfeed
