#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "readers/graph.h"
#include "readers/run.h"
#include "readers/stage_clock.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// The life of one chain from its first read on: holds the program, starts runs, hands their
/// deliveries to consumers and keeps what must outlast a run (the failure, the clock of the first
/// read). Thread safe.
class ReaderSession {
 public:
  explicit ReaderSession(Program program);
  ~ReaderSession();

  const Program& program() const { return program_; }
  std::vector<FieldSpec> Fields() const;

  ReadResult ReadNext(Instance* instance);
  ReadResult ReadBlock(RecordBlock* block);
  bool HasNext();
  void ReInit();
  void Close();
  Status status() const;
  PipelineStats Stats() const;

  /// For tests: set before the first read.
  void set_hooks(const RunHooks& hooks) { hooks_ = hooks; }

 private:
  std::shared_ptr<Run> CurrentRun();
  std::shared_ptr<Run> MakeRun();
  ReadResult NextDelivery(Run& run, Delivery* delivery);
  ReadResult WaitForDelivery(Run& run, Delivery* delivery);
  ReadResult Fail(const Status& status);
  ReadResult ReadBatch(Instance* instance);
  ReadResult ReadRow(Instance* instance);
  bool TakeRow(Instance* instance);
  void CopyParsedRow(Instance* instance);
  Instance CopyRecord(const RecordSpan& record) const;
  void NameBottleneck(PipelineStats* stats) const;

  const Program program_;
  RunHooks hooks_;

  mutable std::mutex mutex_;  ///< guards run_, the failure and what was looked at ahead
  std::shared_ptr<Run> run_;
  Status failure_;
  bool failed_ = false;
  bool closed_ = false;
  std::optional<Delivery> peeked_;

  // Rows of a delivery on their way out one by one, on chains without Batch.
  std::mutex rows_mutex_;
  Instance rows_instance_;
  std::shared_ptr<const void> rows_hold_;
  std::span<const RecordSpan> rows_records_;
  std::size_t rows_ = 0;
  std::size_t row_ = 0;

  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::int64_t> wait_ns_{0};   ///< consumers' waiting
  std::atomic<std::int64_t> start_ns_{0};  ///< clock at the first read, 0 before
  std::atomic<std::int64_t> first_ns_{0};  ///< clock at the first delivery
  std::atomic<std::int64_t> end_ns_{0};
};

}  // namespace ringfeed
