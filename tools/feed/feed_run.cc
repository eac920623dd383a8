#include "tools/feed/feed_run.h"

#include <numeric>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/feed_trail.h"
#include "tools/process_usage.h"

namespace ringfeed::tools {
namespace {

// Without an index, an audit counts them itself.
std::vector<std::uint64_t> FileRecordsIfKnown(const Reader& reader) {
  try {
    return reader.FileRecords();
  } catch (const Error&) {
    return {};
  }
}

// The journal's description of the chain; the rest is in its position.
JournalStart JournalStartOf(const FeedPlan& plan) {
  const BatchOptions& batching = plan.batching;
  JournalStart start;
  start.rank = batching.rank.rank;
  start.ranks = batching.rank.world_size;
  start.replica = batching.rank.replica;
  start.replicas = batching.rank.replicas;
  start.batch_rows = plan.batch;
  start.drop_remainder = batching.drop_remainder;
  start.split_by_files = batching.split_by_files;
  start.launch = LaunchName(batching.rank);
  start.epoch = plan.open.first_epoch;
  return start;
}

}  // namespace

FeedRun::FeedRun(const FeedPlan& plan, bool keep_deliveries)
    : plan_(plan), reader_(BuildChain(plan)), ledger_(plan.hash, keep_deliveries) {}

FeedResult FeedRun::Run(const FeedProgress& progress) {
  FeedResult result;
  const double start_s = NowSeconds();
  const double cpu_start_s = ProcessCpuSeconds();
  Deliver(progress, &result);
  result.wall_s = NowSeconds() - start_s;
  result.cpu_s = ProcessCpuSeconds() - cpu_start_s;
  result.peak_rss_bytes = ProcessPeakRssBytes();
  result.stats = reader_.Stats();
  if (result.status.code() == StatusCode::kCancelled) {
    result.status = Status();
    result.interrupted = true;
  }
  result.delivered = ledger_.totals();
  result.batches = ledger_.deliveries();
  const bool bytes_unknown = plan_.batched() && plan_.hash == PayloadHash::kNone;
  if (bytes_unknown) result.delivered.payload_bytes = result.stats.batch_payload_bytes;
  Finish(&result);
  return result;
}

HostFeedRun::HostFeedRun(const FeedPlan& plan, bool keep_deliveries, const TrailOptions& trail)
    : HostFeedRun(plan, keep_deliveries) {
  if (!trail.position_in.empty()) reader_.Restore(ReadPositionFile(trail.position_in));
  if (!trail.follows_batches()) return;
  JournalStart start = JournalStartOf(plan);
  if (!trail.journal.empty()) start.records = FileRecordsIfKnown(reader_);
  start.total_records =
      std::accumulate(start.records.begin(), start.records.end(), std::uint64_t{0});
  start.subset = !plan.open.subset.empty();
  if (start.subset) start.records.clear();
  trail_.emplace(trail, std::move(start), [this] { return reader_.Position(); });
}

ReadResult HostFeedRun::NextFollowed() {
  if (trail_->done()) return ReadResult::kEnd;
  BatchOrigin origin;
  const ReadResult result = reader_.TryReadNext(&batch_, {.origin = &origin});
  if (result != ReadResult::kRecord) {
    at_end_ = result == ReadResult::kEnd;
    return result;
  }
  trail_->Deliver(origin);
  ledger_.AddBatch(batch_);
  return result;
}

// Streams and chains without an order have none.
void HostFeedRun::TakePosition(FeedResult* result) const {
  if (trail_) {
    result->position = trail_->position();
  } else if (!plan_.batched()) {
    result->no_position = "blocks of records were read, not batches: --batch";
  } else {
    try {
      result->position = reader_.Position();
    } catch (const Error& error) {
      result->no_position = error.status().ToString();
    }
  }
}

ReadResult HostFeedRun::Next() {
  if (trail_) return NextFollowed();
  if (plan_.batched()) {
    const ReadResult result = reader_.TryReadNext(&batch_);
    if (result == ReadResult::kRecord) ledger_.AddBatch(batch_);
    return result;
  }
  const ReadResult result = reader_.TryReadBlock(&block_);
  if (result == ReadResult::kRecord) ledger_.AddBlock(block_.records());
  return result;
}

void HostFeedRun::Deliver(const FeedProgress& progress, FeedResult* result) {
  const double start_s = NowSeconds();
  ReadResult read;
  while ((read = Next()) == ReadResult::kRecord) {
    if (ledger_.deliveries() == 1) result->first_batch_s = NowSeconds() - start_s;
    if (!progress(ledger_.totals())) break;
  }
  if (read == ReadResult::kFailed) result->status = reader_.status();
}

void HostFeedRun::Finish(FeedResult* result) {
  if (trail_) trail_->Finish(at_end_, result->stats.damaged_records);
  TakePosition(result);
  batch_.clear();
  block_ = RecordBlock();
}

}  // namespace ringfeed::tools
