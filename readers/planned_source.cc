#include "readers/planned_source.h"

#include <algorithm>
#include <utility>

#include "readers/order/make_row_cursor.h"

namespace ringfeed {

namespace {

[[maybe_unused]] OrderOptions OrderOptionsOf(const OpenOptions& options) {
  return {options.files, options.cycle, options.first_epoch};
}

/// Passes of a cursor in which the stages join some into one.
[[maybe_unused]] std::uint64_t PassesOf(const Program& program) {
  std::uint64_t joined = 1;
  for (const OrderStage& stage : program.order_stages()) {
    if (stage.kind == OrderStage::Kind::kMultiPass) joined *= stage.amount;
  }
  if (joined == 0) return 1;  // one pass that has no end
  return program.passes / joined;
}

std::uint64_t BatchesOf(std::uint64_t places, std::uint64_t rows, bool drop_remainder) {
  return places / rows + (drop_remainder || places % rows == 0 ? 0 : 1);
}

}  // namespace

PlanMark PlannedSource::PlaceOf(std::uint64_t batch, std::uint64_t rows, bool drop_remainder) {
  const std::lock_guard lock(mutex_);
  if (counting_ == nullptr) counting_ = NewCursor({});
  std::uint64_t pass = 0;
  std::uint64_t batches = BatchesOf(counting_->Places(0), rows, drop_remainder);
  if (even_ && batches > 0) {
    pass = batch / batches;
    batch %= batches;
    if (passes_ != 0 && pass >= passes_) return {passes_, 0, 0};
    return {pass, batch * rows, 0};
  }
  while (batch >= batches) {
    batch -= batches;
    if (++pass == passes_) return {pass, 0, 0};
    batches = BatchesOf(counting_->Places(pass), rows, drop_remainder);
    if (batches == 0 && passes_ == 0) return {pass, 0, 0};
  }
  return {pass, batch * rows, 0};
}

}  // namespace ringfeed
