#include "tools/feed_run.h"

#include "tools/process_usage.h"

namespace ringfeed::tools {
FeedClock::FeedClock()
    : start_(std::chrono::steady_clock::now()), cpu_start_s_(ProcessCpuSeconds()) {}

double FeedClock::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void FeedClock::Finish(const FeedPlan& plan, const Reader& reader, const DeliveryLedger& ledger,
                       FeedResult* result) const {
  result->wall_s = Seconds();
  result->cpu_s = ProcessCpuSeconds() - cpu_start_s_;
  result->peak_rss_bytes = ProcessPeakRssBytes();
  result->stats = reader.Stats();
  if (result->status.code() == StatusCode::kCancelled) {
    result->status = Status();
    result->interrupted = true;
  }
  result->delivered = ledger.totals();
  result->batches = ledger.deliveries();
  const bool bytes_unknown = plan.batched() && plan.hash == PayloadHash::kNone;
  if (bytes_unknown) result->delivered.payload_bytes = result->stats.payload_bytes;
}

FeedRun::FeedRun(const FeedPlan& plan, bool keep_deliveries)
    : plan_(plan), reader_(BuildChain(plan)), ledger_(plan.hash, keep_deliveries) {}

void FeedRun::Stop() { reader_.Close(); }

ReadResult FeedRun::Deliver() {
  if (plan_.batched()) {
    const ReadResult result = reader_.TryReadNext(&batch_);
    if (result == ReadResult::kRecord) ledger_.AddBatch(batch_);
    return result;
  }
  const ReadResult result = reader_.TryReadBlock(&block_);
  if (result == ReadResult::kRecord) ledger_.AddBlock(block_.records());
  return result;
}

FeedResult FeedRun::Run(const std::function<bool(const HashSums& so_far)>& progress) {
  FeedResult result;
  const FeedClock clock;
  ReadResult read;
  while ((read = Deliver()) == ReadResult::kRecord) {
    if (ledger_.deliveries() == 1) result.first_batch_s = clock.Seconds();
    if (!progress(ledger_.totals())) break;
  }
  if (read == ReadResult::kFailed) result.status = reader_.status();
  clock.Finish(plan_, reader_, ledger_, &result);
  batch_.clear();
  block_ = RecordBlock();
  return result;
}

}  // namespace ringfeed::tools
