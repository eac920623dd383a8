#include "readers/session.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringfeed {

namespace {

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Status Closed() { return Status(StatusCode::kCancelled, "the reader was closed"); }

}  // namespace

ReaderSession::ReaderSession(Program program) : program_(std::move(program)) {}

ReaderSession::~ReaderSession() { Close(); }

std::vector<FieldSpec> ReaderSession::Fields() const {
  if (program_.parser == nullptr) return {{"record", kUInt8, {-1}}};
  std::vector<FieldSpec> fields = program_.parser->fields();
  if (!program_.batched) return fields;
  for (FieldSpec& field : fields) {
    // Rows vary (the last batch), and so do the joined steps of ragged rows.
    if (field.ragged()) {
      field.shape[0] = -1;
    } else {
      field.shape.insert(field.shape.begin(), -1);
    }
  }
  return fields;
}

std::shared_ptr<Run> ReaderSession::MakeRun() {
  const OpenOptions& options = program_.source.options;
  auto arena = options.arena ? options.arena->arena() : Arena::Default();
  auto run = std::make_shared<Run>(program_, std::move(arena), hooks_);
  run->Start();
  return run;
}

std::shared_ptr<Run> ReaderSession::CurrentRun() {
  const std::lock_guard lock(mutex_);
  if (closed_) return nullptr;
  if (run_ == nullptr) {
    start_ns_.store(NowNs(), std::memory_order_relaxed);
    run_ = MakeRun();
  }
  return run_;
}

ReadResult ReaderSession::Fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!failed_) failure_ = status;
  failed_ = true;
  return ReadResult::kFailed;
}

ReadResult ReaderSession::WaitForDelivery(Run& run, Delivery* delivery) {
  QueueResult result = run.TryNext(delivery);
  if (result != QueueResult::kOk && result != QueueResult::kClosed) {
    BatchSink* sink = run.batch_sink();
    if (sink != nullptr && sink->slot_limit() > 0 &&
        sink->slots_held_by(std::this_thread::get_id()) >= sink->slot_limit()) {
      // Not final: releasing a batch and reading again goes on where this left off.
      const std::lock_guard lock(mutex_);
      failure_ = Status(StatusCode::kResourceExhausted,
                        "this thread holds all " + std::to_string(sink->slot_limit()) +
                            " batches of the reader; let one go, or raise BatchOptions::slots");
      return ReadResult::kFailed;
    }
    const std::int64_t before = NowNs();
    result = run.Next(delivery);
    wait_ns_.fetch_add(NowNs() - before, std::memory_order_relaxed);
  }
  if (result == QueueResult::kOk) return ReadResult::kRecord;
  if (run.stopping()) return Fail(Closed());
  std::int64_t unset = 0;
  end_ns_.compare_exchange_strong(unset, NowNs(), std::memory_order_relaxed);
  const Status status = run.end_status();
  return status.ok() ? ReadResult::kEnd : Fail(status);
}

ReadResult ReaderSession::NextDelivery(Run& run, Delivery* delivery) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return ReadResult::kFailed;
    if (peeked_) {
      *delivery = std::move(*peeked_);
      peeked_.reset();
      return ReadResult::kRecord;
    }
  }
  return WaitForDelivery(run, delivery);
}

bool ReaderSession::HasNext() {
  {
    const std::lock_guard lock(rows_mutex_);
    if (row_ < rows_) return true;
  }
  const std::shared_ptr<Run> run = CurrentRun();
  if (run == nullptr) return true;
  {
    const std::lock_guard lock(mutex_);
    if (failed_ || peeked_) return true;
  }
  Delivery delivery;
  const ReadResult result = WaitForDelivery(*run, &delivery);
  if (result != ReadResult::kRecord) return result == ReadResult::kFailed;
  const std::lock_guard lock(mutex_);
  peeked_ = std::move(delivery);
  return true;
}

ReadResult ReaderSession::ReadNext(Instance* instance) {
  return program_.batched ? ReadBatch(instance) : ReadRow(instance);
}

ReadResult ReaderSession::ReadBatch(Instance* instance) {
  const std::shared_ptr<Run> run = CurrentRun();
  if (run == nullptr) return Fail(Closed());
  instance->clear();
  Delivery delivery;
  const ReadResult result = NextDelivery(*run, &delivery);
  if (result != ReadResult::kRecord) return result;
  BatchSlot* const slot = delivery.batch;
  const Status after = slot->status;
  const bool empty = slot->rows == 0;
  const auto owner = run->Lease(std::move(delivery));
  if (!after.ok()) {
    (void)Fail(after);
    // The rows before the failure, if any, are good and go first.
    if (empty) return ReadResult::kFailed;
  }
  *instance = run->batch_sink()->MakeInstance(*slot, owner);
  std::int64_t unset = 0;
  first_ns_.compare_exchange_strong(unset, NowNs(), std::memory_order_relaxed);
  batches_.fetch_add(1, std::memory_order_relaxed);
  return ReadResult::kRecord;
}

ReadResult ReaderSession::ReadBlock(RecordBlock* block) {
  *block = RecordBlock();
  const std::shared_ptr<Run> run = CurrentRun();
  if (run == nullptr) return Fail(Closed());
  Delivery delivery;
  const ReadResult result = NextDelivery(*run, &delivery);
  if (result != ReadResult::kRecord) return result;
  block->records_ = delivery.records->records;
  block->hold_ = run->Lease(std::move(delivery));
  std::int64_t unset = 0;
  first_ns_.compare_exchange_strong(unset, NowNs(), std::memory_order_relaxed);
  batches_.fetch_add(1, std::memory_order_relaxed);
  return ReadResult::kRecord;
}

ReadResult ReaderSession::ReadRow(Instance* instance) {
  const std::lock_guard lock(rows_mutex_);
  while (!TakeRow(instance)) {
    rows_instance_.clear();
    rows_hold_.reset();
    rows_ = row_ = 0;
    if (program_.parser != nullptr) {
      const ReadResult result = ReadBatch(&rows_instance_);
      if (result != ReadResult::kRecord) return result;
      const Tensor& first = rows_instance_.front();
      rows_ =
          first.lod.empty() ? static_cast<std::size_t>(first.shape[0]) : first.lod[0].size() - 1;
    } else {
      RecordBlock block;
      const ReadResult result = ReadBlock(&block);
      if (result != ReadResult::kRecord) return result;
      rows_records_ = block.records_;
      rows_hold_ = std::move(block.hold_);
      rows_ = rows_records_.size();
    }
  }
  return ReadResult::kRecord;
}

bool ReaderSession::TakeRow(Instance* instance) {
  if (row_ == rows_) return false;
  if (program_.parser != nullptr) {
    CopyParsedRow(instance);
  } else {
    *instance = CopyRecord(rows_records_[row_]);
  }
  if (++row_ == rows_) {
    rows_instance_.clear();
    rows_hold_.reset();
  }
  return true;
}

Instance ReaderSession::CopyRecord(const RecordSpan& record) const {
  Tensor tensor;
  auto bytes =
      std::make_shared<std::vector<std::byte>>(record.bytes().begin(), record.bytes().end());
  tensor.shape = {static_cast<std::int64_t>(record.size)};
  tensor.data = bytes->data();
  tensor.bytes = record.size;
  tensor.owner = std::move(bytes);
  return {std::move(tensor)};
}

void ReaderSession::CopyParsedRow(Instance* instance) {
  const std::vector<FieldSpec>& fields = program_.parser->fields();
  instance->assign(fields.size(), Tensor());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Tensor& batch = rows_instance_[f];
    const std::size_t unit = fields[f].unit_bytes();
    std::size_t begin = row_ * unit;
    std::size_t bytes = unit;
    Tensor& tensor = (*instance)[f];
    tensor.dtype = batch.dtype;
    tensor.shape = fields[f].shape;
    if (fields[f].ragged()) {
      begin = static_cast<std::size_t>(batch.lod[0][row_]) * unit;
      bytes = static_cast<std::size_t>(batch.lod[0][row_ + 1]) * unit - begin;
      tensor.shape[0] = batch.lod[0][row_ + 1] - batch.lod[0][row_];
    }
    auto copy =
        std::make_shared<std::vector<std::byte>>(batch.data + begin, batch.data + begin + bytes);
    tensor.data = copy->data();
    tensor.bytes = bytes;
    tensor.owner = std::move(copy);
  }
}

void ReaderSession::ReInit() {
  if (!program_.rewindable()) {
    throw Error(Status(StatusCode::kUnsupported,
                       "a stream cannot start again: ReInit needs files, or a reader that can"));
  }
  const std::lock_guard rows_lock(rows_mutex_);
  const std::lock_guard lock(mutex_);
  if (closed_) throw Error(Closed());
  if (run_ != nullptr) run_->Stop();
  if (run_ != nullptr && program_.source.instances != nullptr &&
      !program_.source.instances->ReInit()) {
    throw Error(Status(StatusCode::kUnsupported, "the reader cannot start again: ReInit said no"));
  }
  peeked_.reset();
  rows_instance_.clear();
  rows_hold_.reset();
  rows_ = row_ = 0;
  failed_ = false;
  failure_ = Status();
  if (run_ != nullptr) run_ = MakeRun();
}

void ReaderSession::Close() {
  std::shared_ptr<Run> run;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    run = run_;
  }
  if (run != nullptr) run->Stop();
}

Status ReaderSession::status() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

PipelineStats ReaderSession::Stats() const {
  PipelineStats stats;
  std::shared_ptr<Run> run;
  {
    const std::lock_guard lock(mutex_);
    run = run_;
  }
  if (run == nullptr) return stats;
  run->FillStats(&stats);
  stats.batches = batches_.load(std::memory_order_relaxed);
  const std::int64_t start = start_ns_.load(std::memory_order_relaxed);
  const std::int64_t first = first_ns_.load(std::memory_order_relaxed);
  const std::int64_t end = end_ns_.load(std::memory_order_relaxed);
  if (first > start) stats.first_batch_s = 1e-9 * static_cast<double>(first - start);
  stats.wall_s = 1e-9 * static_cast<double>((end > start ? end : NowNs()) - start);
  StageStats deliver{"deliver", 0, 0, "a batch"};
  deliver.wait_s = 1e-9 * static_cast<double>(wait_ns_.load(std::memory_order_relaxed));
  stats.stages.push_back(std::move(deliver));
  const ArenaReport arena = run->arena_report();
  stats.arena_bytes = arena.bytes;
  stats.arena_peak_bytes = arena.peak_in_use_bytes;
  stats.pages = arena.pages;
  NameBottleneck(&stats);
  return stats;
}

void ReaderSession::NameBottleneck(PipelineStats* stats) const {
  // The consumer waited for little: it is the slow end. Else the threads' largest share names the
  // stage.
  const double consumer_wait = stats->stages.back().wait_s;
  if (consumer_wait < 0.05 * stats->wall_s) {
    stats->bottleneck = "consumer: it waited for batches less than 5 % of the time";
    return;
  }
  double largest = 0;
  for (const StageStats& stage : stats->stages) {
    if (stage.name == "idle" || stage.name == "deliver") continue;
    if (stage.busy_s > largest) {
      largest = stage.busy_s;
      stats->bottleneck = stage.name + ": most of the reader threads' work";
    }
  }
  if (stats->stages.front().wait_s > largest) {
    stats->bottleneck = "read: the threads wait for the medium most of the time";
  }
}

}  // namespace ringfeed
