#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/batches/plan_sink.h"

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

/// A run around a sink that writes in the planner's thread, and notes what is delivered.
class FakeHost : public PlanSink::Host {
 public:
  void Submit(WriteTask* task, std::uint32_t /*near_lane*/) override {
    if (scratch_.parser == nullptr) scratch_.parser = parser->NewScratch();
    batch_sink->writer().Write(task, &scratch_);
  }
  void Drop(Block* block, std::uint32_t rows) override {
    ASSERT_GE(block->holds.load(), rows);
    block->holds -= rows;
  }
  void NoteRows(const RowTally& before, const RowTally& now) override {
    ASSERT_EQ(before, counted_);
    counted_ = now;
  }
  void Deliver(std::uint64_t number, Delivery delivery) override {
    ASSERT_EQ(number, delivered_++) << "numbers of deliveries follow each other";
    if (delivery.batch != nullptr) {
      TakeBatch(delivery.batch);
    } else {
      TakeRecords(*delivery.records);
    }
  }
  void NoteSkipped(const RecordSpan& /*record*/, const Status& /*why*/) override { ++skipped; }
  void BatchDone() override {}
  bool HasRoom(std::uint64_t /*number*/) override { return true; }
  std::size_t GrantBatches(std::size_t bytes) override { return std::min(bytes, batches_bytes); }
  void End(std::uint64_t number, const Status& /*status*/) override {
    EXPECT_EQ(number, delivered_);
    EXPECT_TRUE(batch_sink == nullptr || counted_ == batch_sink->tally());
    ended = true;
  }

  BatchSink* batch_sink = nullptr;
  const Parser* parser = nullptr;
  std::vector<Got> got;
  std::size_t skipped = 0;
  std::size_t dropped = 0;  ///< batches: rests that nobody is to see
  std::size_t holes = 0;    ///< places of damaged records in deliveries of records
  std::size_t batches_bytes = ~std::size_t{0};  ///< that GrantBatches gives
  bool ended = false;

 private:
  void TakeBatch(BatchBuffer* slot) {
    if (slot->dropped) {
      ++dropped;
      return batch_sink->Release(slot);
    }
    NoteTaken(slot->missing.empty() ? slot->rows : 0);
    Got one{slot->span, {}, CopyOf(batch_sink->MakeInstance(*slot, nullptr)), {}, {}, 0};
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
    batch_sink->Release(slot);
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
    if (delivery.block != nullptr) Drop(delivery.block, delivery.rows);
    for (const RowRef& ref : delivery.refs) Drop(ref.block, 1);
    NoteTaken(one.rows.size());
    if (!one.rows.empty()) got.push_back(one);
  }
  void NoteTaken(std::size_t rows) {
    taken_rows_ += rows;
    EXPECT_LE(taken_rows_, counted_.delivered) << "whoever has rows finds them in the statistics";
  }

  WriterScratch scratch_;
  std::uint64_t delivered_ = 0;
  RowTally counted_;
  std::uint64_t taken_rows_ = 0;
};

}  // namespace ringfeed
