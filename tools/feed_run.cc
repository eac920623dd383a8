#include "tools/feed_run.h"

#include <chrono>

#include "tools/process_usage.h"

namespace ringfeed::tools {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

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
  const double cpu_start = ProcessCpuSeconds();
  const Clock::time_point start = Clock::now();
  ReadResult read;
  while ((read = Deliver()) == ReadResult::kRecord) {
    if (ledger_.deliveries() == 1) result.first_batch_s = SecondsSince(start);
    if (!progress(ledger_.totals())) break;
  }
  result.wall_s = SecondsSince(start);
  result.cpu_s = ProcessCpuSeconds() - cpu_start;
  result.peak_rss_bytes = ProcessPeakRssBytes();
  result.stats = reader_.Stats();
  if (read == ReadResult::kFailed) result.status = reader_.status();
  if (result.status.code() == StatusCode::kCancelled) {
    result.status = Status();
    result.interrupted = true;
  }
  result.delivered = ledger_.totals();
  result.batches = ledger_.deliveries();
  const bool bytes_unknown = plan_.batched() && plan_.hash == PayloadHash::kNone;
  if (bytes_unknown) result.delivered.payload_bytes = result.stats.payload_bytes;
  batch_.clear();
  block_ = RecordBlock();
  return result;
}

}  // namespace ringfeed::tools
