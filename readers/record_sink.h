#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "readers/plan_sink.h"

namespace ringfeed {

/// Delivers records as they stand in their slabs, without a copy: a block's rows together where the
/// order is the blocks' own, else in runs of views.
class RecordSink final : public PlanSink {
 public:
  explicit RecordSink(PlanHost* host) : host_(host) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override { FlushRefs(); }
  void OnEnd(const Status& status) override;
  bool Continue() override;
  bool Outstanding() override {
    FlushRefs();  // what is held back for a fuller delivery would hold memory for ever
    return !waiting_.empty();
  }

 private:
  static constexpr std::size_t kRowsPerDelivery = 1024;

  void Add(std::unique_ptr<RecordDelivery> delivery);
  void FlushRefs();

  PlanHost* const host_;
  std::uint64_t next_number_ = 0;    ///< of the next delivery made
  std::uint64_t waiting_first_ = 0;  ///< of waiting_.front()
  std::deque<std::unique_ptr<RecordDelivery>> waiting_;
  std::unique_ptr<RecordDelivery> open_;
};

}  // namespace ringfeed
