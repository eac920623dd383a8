#include "tools/feed/feed_trail.h"

#include <algorithm>
#include <utility>

#include "readers/order/position.h"
#include "ringfeed/status.h"
#include "tools/feed/position_file.h"

namespace ringfeed::tools {

FeedTrail::FeedTrail(const TrailOptions& options, JournalStart start, Position position)
    : options_(options), position_(std::move(position)) {
  position_text_ = position_();
  const PositionSummary summary = SummaryOf(position_text_);
  next_ = summary.batch;
  if (options_.max_batches > 0) limit_ = next_ + options_.max_batches;
  if (options_.journal.empty()) return;
  start.batch = summary.batch;
  start.data = summary.data;
  start.total_records = std::max(start.total_records, summary.records);
  journal_.emplace(options_.journal, start);
}

void FeedTrail::Deliver(const BatchOrigin& origin) {
  if (journal_) {
    if (const Status status = journal_->Append(origin); !status.ok()) throw Error(status);
  }
  if (IsCutShort(origin)) return;  // the failure follows, and is to be met
  const std::uint64_t before = next_;
  next_ = origin.batch + 1;
  const std::uint64_t every = options_.position_every;
  if (every == 0 || next_ / every == before / every) return;
  position_text_ = position_();
  Save();
}

void FeedTrail::Finish(bool at_end, std::uint64_t damaged) {
  position_text_ = position_();
  if (journal_ && damaged > 0) {
    if (const Status status = journal_->Damage(damaged); !status.ok()) throw Error(status);
  }
  if (journal_ && at_end) {
    const Status status = journal_->End(SummaryOf(position_text_).batch);
    if (!status.ok()) throw Error(status);
  }
  Save();
}

void FeedTrail::Save() {
  if (!options_.position_out.empty()) WritePositionFile(options_.position_out, position_text_);
}

}  // namespace ringfeed::tools
