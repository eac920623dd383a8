#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/batches/deliveries.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/blocks/ready_blocks.h"
#include "readers/engine/blocks/run_memory.h"

namespace ringfeed {

/// A delivery as the test looks at it.
struct Got {
  OrderSpan span;
  std::vector<std::uint64_t> rows;
  Instance batch;                      ///< copies, of batches
  std::vector<std::uint64_t> numbers;  ///< BatchBuffer::row_numbers
  std::vector<std::uint64_t> places;   ///< of a chain without Batch: of the rows, since the start
  std::uint64_t next_place = 0;        ///< then: behind them and the damaged records among them
};

/// The parts of a run around its plan, without threads, lanes or files. The test does what workers
/// and consumers would.
struct PlanParts {
  struct Options {
    std::size_t asked_bytes = 0;  ///< as MemoryBudget
    std::size_t reading_bytes = 0;
    std::size_t lanes = 1;
    bool holds_blocks = false;          ///< as RunMemory
    KeepLimit* device_limit = nullptr;  ///< as RunMemory
  };
  PlanParts(std::shared_ptr<Arena> arena, const Options& options)
      : memory({.arena = arena,
                .block_arena = arena,
                .asked_bytes = options.asked_bytes,
                .name = "a test",
                .holds_blocks = options.holds_blocks,
                .device_limit = options.device_limit},
               &workers, &lanes, &plan) {
    workers.Add(true);
    lanes.AddWorker();
    for (std::size_t i = 0; i < options.lanes; ++i) {
      lanes.AddLane(0, kCredits);
      ready.AddLane(kCredits);
    }
    memory.budget().Reserve(options.reading_bytes);
  }
  explicit PlanParts(std::shared_ptr<Arena> arena) : PlanParts(std::move(arena), Options()) {}

  SinkParts of_sink() { return {&memory, &ledger, &deliveries, &tasks}; }
  /// Good rows that came to the sink's end so far, as statistics have them.
  std::uint64_t counted_rows() const {
    PipelineStats stats;
    Ledger::PathCounts paths{};
    ledger.FillCounts(&stats, &paths);
    return stats.records + ledger.damaged();
  }

  static constexpr std::int64_t kCredits = 64;
  Workers workers{{}};
  PlanRequests plan{&workers};
  ReadAhead lanes;
  SourceLimit source{&workers};
  TaskRouter tasks{&workers, &lanes};
  ReadyBlocks ready{&workers, &lanes};
  RunMemory memory;
  StallDetector stalls{&workers, &plan, &lanes, false, std::chrono::milliseconds(1000)};
  Deliveries deliveries{{.capacity = 128}, {&workers, &plan, &source, &stalls}};
  Ledger ledger;
};

/// Writes what a sink plans, and takes what it delivers, in the planner's thread.
class SinkConsumer {
 public:
  SinkConsumer(PlanParts* parts, PlanSink* sink) : parts_(*parts), sink_(*sink) {}
  SinkConsumer(PlanParts* parts, BatchSink* sink, const Parser* parser)
      : parts_(*parts), sink_(*sink), batch_sink_(sink) {
    scratch_.parser = parser->NewScratch();
  }

  /// Until nothing that was planned waits for a slot or for room.
  void Work() {
    do {
      WriteAll();
      TakeAll();
    } while (sink_.Continue());
    WriteAll();
    TakeAll();
    if (const auto end = sink_.TakeEnd()) {
      EXPECT_EQ(end->number, delivered_);
      EXPECT_FALSE(ended) << "a run ends once";
      EXPECT_EQ(parts_.counted_rows(), sink_.tally().delivered + sink_.tally().dropped);
      ended = true;
    }
  }
  std::uint64_t skipped() const { return parts_.ledger.damaged(); }

  std::vector<Got> got;
  std::size_t dropped = 0;  ///< batches: rests that nobody is to see
  std::size_t holes = 0;    ///< places of damaged records in deliveries of records
  bool ended = false;

 private:
  void WriteAll() {
    WriteTask* task = nullptr;
    while (parts_.workers.TakeTask(0, &task)) batch_sink_->writer().Write(task, &scratch_);
  }
  void TakeAll() {
    Delivery delivery;
    while (parts_.deliveries.TryTake(&delivery) == QueueResult::kOk) {
      ++delivered_;
      delivery.batch != nullptr ? TakeBatch(delivery.batch) : TakeRecords(*delivery.records);
      parts_.deliveries.NoteBack();
    }
  }
  void TakeBatch(BatchBuffer* slot) {
    if (slot->dropped) {
      ++dropped;
      return batch_sink_->pool().Release(slot);
    }
    NoteTaken(slot->missing.empty() ? slot->rows : 0);
    Got one{slot->span, {}, CopyOf(batch_sink_->MakeInstance(*slot, nullptr)), {}, {}, 0};
    one.numbers = slot->row_numbers;
    const Tensor& first = one.batch[0];
    if (first.dtype == kInt64) {
      for (const std::int64_t number : first.Values<std::int64_t>()) {
        one.rows.push_back(static_cast<std::uint64_t>(number));
      }
    } else {  // packed bytes
      for (const std::uint8_t byte : first.Values<std::uint8_t>()) one.rows.push_back(byte);
    }
    for (std::uint32_t row = 0; row < slot->rows; ++row) {
      one.places.push_back(slot->span.first_place + slot->PlaceOf(row));
      one.next_place = one.places.back() + 1;
    }
    got.push_back(one);
    batch_sink_->pool().Release(slot);
  }
  static Instance CopyOf(const Instance& batch) {
    Instance copy = batch;
    for (Tensor& tensor : copy) {
      auto bytes =
          std::make_shared<std::vector<std::byte>>(tensor.data, tensor.data + tensor.bytes);
      tensor.data = bytes->data();
      if (tensor.lod.empty()) {
        tensor.owner = std::move(bytes);
        continue;
      }
      auto offsets =
          std::make_shared<std::vector<std::int64_t>>(tensor.lod[0].begin(), tensor.lod[0].end());
      tensor.lod[0] = *offsets;
      tensor.owner =
          std::make_shared<std::pair<decltype(bytes), decltype(offsets)>>(bytes, offsets);
    }
    return copy;
  }
  void TakeRecords(const Delivery::Records& delivery) {
    Got one{delivery.span, {}, {}, {}, {}, 0};
    for (std::size_t row = 0; row < delivery.records.size(); ++row) {
      const RecordSpan& record = delivery.records[row];
      if (record.damaged()) continue;
      one.rows.emplace_back();
      std::memcpy(&one.rows.back(), record.data, 8);
      one.places.push_back(delivery.span.first_place + row);
    }
    one.next_place = delivery.span.first_place + delivery.records.size();
    holes += delivery.records.size() - one.rows.size();
    if (delivery.block != nullptr) parts_.memory.Drop(delivery.block, delivery.rows);
    for (const RowRef& ref : delivery.refs) parts_.memory.Drop(ref.block, 1);
    NoteTaken(one.rows.size());
    if (!one.rows.empty()) got.push_back(one);
  }
  void NoteTaken(std::size_t rows) {
    taken_rows_ += rows;
    EXPECT_LE(taken_rows_, parts_.counted_rows())
        << "a consumer that has rows finds them in the statistics";
  }

  PlanParts& parts_;
  PlanSink& sink_;
  BatchSink* const batch_sink_ = nullptr;
  WriterScratch scratch_;
  std::uint64_t delivered_ = 0;
  std::uint64_t taken_rows_ = 0;
};

}  // namespace ringfeed
