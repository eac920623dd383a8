#include "readers/record_sink.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

void RecordSink::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  if (begin == end) return;
  auto delivery = std::make_unique<RecordDelivery>();
  delivery->block = block;
  delivery->pass = block->pass;
  const auto rows = std::span<const RecordSpan>(block->frame.records).subspan(begin, end - begin);
  const bool damaged =
      std::any_of(rows.begin(), rows.end(), [](const RecordSpan& row) { return row.damaged(); });
  if (damaged) {
    for (const RecordSpan& row : rows) {
      if (!row.damaged()) delivery->gathered.push_back(row);
    }
    delivery->records = delivery->gathered;
  } else {
    delivery->records = rows;
  }
  delivery->rows = static_cast<std::uint32_t>(delivery->records.size());
  if (delivery->rows > 0) Add(std::move(delivery));
}

void RecordSink::OnRefs(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) {
    if (open_ != nullptr && open_->pass != ref.block->pass) FlushRefs();
    if (open_ == nullptr) {
      open_ = std::make_unique<RecordDelivery>();
      open_->pass = ref.block->pass;
    }
    open_->refs.push_back(ref);
    open_->gathered.push_back(ref.block->frame.records[ref.row]);
    if (open_->refs.size() == kRowsPerDelivery) FlushRefs();
  }
}

void RecordSink::FlushRefs() {
  if (open_ == nullptr) return;
  open_->records = open_->gathered;
  open_->rows = static_cast<std::uint32_t>(open_->gathered.size());
  Add(std::move(open_));
}

void RecordSink::Add(std::unique_ptr<RecordDelivery> delivery) {
  if (waiting_.empty()) waiting_first_ = next_number_;
  ++next_number_;
  waiting_.push_back(std::move(delivery));
  (void)Continue();
}

bool RecordSink::Continue() {
  while (!waiting_.empty()) {
    if (!host_->HasRoom(waiting_first_)) return true;
    host_->Deliver(waiting_first_++, {nullptr, std::move(waiting_.front())});
    waiting_.pop_front();
  }
  return false;
}

void RecordSink::OnEnd(const Status& status) {
  FlushRefs();
  host_->End(next_number_, status);
}

}  // namespace ringfeed
