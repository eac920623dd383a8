#include "tools/feed_trail.h"

#include <utility>

#include "ringfeed/status.h"
#include "tools/position_file.h"

namespace ringfeed::tools {

FeedTrail::FeedTrail(const TrailOptions& options, JournalStart start, Position position)
    : options_(options), position_(std::move(position)) {
  position_text_ = position_();
  const PositionSummary summary = SummaryOf(position_text_);
  next_ = summary.batch;
  if (options_.max_batches > 0) limit_ = next_ + options_.max_batches;
  if (options_.journal.empty()) return;
  start.batch = summary.batch;
  start.run = summary.run;
  start.data = summary.data;
  start.total_records = summary.records;
  journal_.emplace(options_.journal, start);
}

bool FeedTrail::Deliver(const BatchOrigin& origin) {
  if (limit_ > 0 && origin.batch >= limit_) {
    beyond_ = true;
    return false;
  }
  if (journal_) {
    if (const Status status = journal_->Append(origin); !status.ok()) throw Error(status);
  }
  const std::uint64_t before = next_;
  next_ = origin.batch + 1;
  const std::uint64_t every = options_.position_every;
  const bool due = every > 0 && next_ / every != before / every;
  // A rank that has no part of the last batches may be handed one beyond the limit.
  if (due || limit_ > 0) position_text_ = position_();
  if (due) Save();
  return true;
}

void FeedTrail::Finish(bool at_end) {
  if (!beyond_) position_text_ = position_();
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
