#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "readers/engine/batches/plan_sink.h"
#include "readers/order/plan_clock.h"

namespace ringfeed {

/// Delivers records in their slabs, without a copy: a block's rows together if the order is the
/// blocks' own, else in runs of views. A damaged record is a null view at its place, so that a
/// delivery's rows have consecutive places.
class RecordSink final : public PlanSink {
 public:
  struct Options {
    std::uint64_t skip_rows = 0;  ///< so many places are left out first
    PlanClock* clock = nullptr;   ///< null: one of its own
    /// Most rows of a delivery that is no piece of a block.
    std::size_t rows_per_delivery = 1024;
    bool count_bytes = false;    ///< of records, see planned()
    bool count_payload = false;  ///< RowTally::delivered_bytes
  };

  RecordSink(const Options& options, const SinkParts& parts)
      : PlanSink(parts),
        clock_(options.clock != nullptr ? options.clock : &own_clock_),
        rows_per_delivery_(options.rows_per_delivery),
        count_bytes_(options.count_bytes),
        count_payload_(options.count_payload),
        skip_rows_(options.skip_rows) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnLost(Block* block, std::uint32_t rows, std::uint64_t bytes) override {
    tally_.unplaced += rows;
    tally_.lost_bytes += bytes;
    parts_.memory->Drop(block, rows);
  }
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;
  bool Continue() override;
  std::uint64_t first_unfinished() const override { return waiting_first_; }
  Planned planned() const override { return {records_, bytes_, next_number_}; }
  bool Outstanding() override {
    FlushRefs();  // records held back for a fuller delivery would keep their memory for ever
    return !waiting_.empty();
  }

 private:
  /// Places that are left out.
  void PassOver(Block* block, std::uint32_t rows);
  std::unique_ptr<Delivery::Records> NewDelivery(std::uint64_t pass) const;
  void Add(std::unique_ptr<Delivery::Records> delivery);
  void FlushRefs();
  /// Counts rows of a block that come to the delivery.
  void NoteRecords(const Block* block, std::uint32_t begin, std::uint32_t rows,
                   Delivery::Records* delivery);
  static bool IsHole(const RecordSpan& record);
  /// Makes the views of a delivery of damaged records alone its own.
  static void HoldNothing(Delivery::Records* delivery);

  PlanClock own_clock_;
  PlanClock* const clock_;
  const std::size_t rows_per_delivery_;
  const bool count_bytes_;
  const bool count_payload_;
  std::uint64_t skip_rows_;
  std::uint64_t records_ = 0;  ///< of all deliveries
  std::uint64_t bytes_ = 0;
  std::uint64_t places_ = 0;
  std::uint64_t next_number_ = 0;    ///< of the next delivery made
  std::uint64_t waiting_first_ = 0;  ///< of waiting_.front(), or of what comes next
  std::deque<std::unique_ptr<Delivery::Records>> waiting_;
  std::unique_ptr<Delivery::Records> open_;
};

}  // namespace ringfeed
