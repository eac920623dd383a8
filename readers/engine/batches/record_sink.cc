#include "readers/engine/batches/record_sink.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

void RecordSink::PassOver(Block* block, std::uint32_t rows) {
  skip_rows_ -= std::min<std::uint64_t>(skip_rows_, rows);
  places_ += rows;
  clock_->Advance(rows);
  if (skip_rows_ == 0) NoteLeftOut(clock_->BeforeBatch());
  parts_.memory->Drop(block, rows);
}

std::unique_ptr<Delivery::Records> RecordSink::NewDelivery(std::uint64_t pass) const {
  auto delivery = std::make_unique<Delivery::Records>();
  delivery->pass = pass;
  delivery->span.first_place = places_;
  delivery->span.begin = clock_->BeforeBatch();
  return delivery;
}

void RecordSink::NoteRecords(const Block* block, std::uint32_t begin, std::uint32_t rows,
                             Delivery::Records* delivery) {
  records_ += rows;
  for (std::uint32_t i = 0; count_bytes_ && i < rows; ++i) {
    const std::uint64_t bytes = block->BytesOf(begin + i);
    bytes_ += bytes;
    delivery->bytes += bytes;
  }
}

void RecordSink::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  const auto skipped = static_cast<std::uint32_t>(std::min<std::uint64_t>(skip_rows_, end - begin));
  if (skipped > 0) {
    tally_.left_out += skipped;
    tally_.lost_bytes += block->PayloadOf(begin, begin + skipped);
    PassOver(block, skipped);
  }
  begin += skipped;
  if (begin == end) return;
  const std::uint32_t rows = end - begin;
  auto delivery = NewDelivery(block->data_pass);
  delivery->rows = rows;
  delivery->records = std::span(block->frame.records).subspan(begin, rows);
  const auto holes = static_cast<std::uint32_t>(
      std::count_if(delivery->records.begin(), delivery->records.end(), IsHole));
  tally_.damaged += holes;
  tally_.delivered += rows - holes;
  if (count_payload_) tally_.delivered_bytes += block->PayloadOf(begin, end);
  places_ += rows;
  clock_->Advance(rows);
  NoteRecords(block, begin, rows, delivery.get());
  if (holes == rows) {
    HoldNothing(delivery.get());
    parts_.memory->Drop(block, rows);
  } else {
    delivery->block = block;
    delivery->first_row = begin;
  }
  Add(std::move(delivery));
}

bool RecordSink::IsHole(const RecordSpan& record) { return record.damaged(); }

// A look ahead for a good record passes over as many of these as there are.
void RecordSink::HoldNothing(Delivery::Records* delivery) {
  delivery->gathered.assign(delivery->rows, RecordSpan());
  delivery->records = delivery->gathered;
}

void RecordSink::OnRefs(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) {
    if (skip_rows_ > 0) {
      ++tally_.left_out;
      tally_.lost_bytes += ref.block->PayloadOf(ref.row);
      FlushRefs();
      PassOver(ref.block, 1);
      continue;
    }
    if (open_ != nullptr && open_->pass != ref.block->data_pass) FlushRefs();
    if (open_ == nullptr) open_ = NewDelivery(ref.block->data_pass);
    ++(ref.hole() ? tally_.damaged : tally_.delivered);
    if (count_payload_) tally_.delivered_bytes += ref.block->PayloadOf(ref.row);
    NoteRecords(ref.block, ref.row, 1, open_.get());
    open_->refs.push_back(ref);
    open_->gathered.push_back(ref.block->frame.records[ref.row]);
    ++places_;
    clock_->Advance(1);
    if (open_->refs.size() >= rows_per_delivery_) FlushRefs();
  }
  // The next call's rows may have other places.
  if (clock_->kept()) FlushRefs();
}

void RecordSink::OnPassEnd() {
  ++tally_.passes;
  if (!clock_->kept()) clock_->EndPass();
  FlushRefs();
}

void RecordSink::FlushRefs() {
  if (open_ == nullptr) return;
  open_->records = open_->gathered;
  open_->rows = static_cast<std::uint32_t>(open_->gathered.size());
  if (std::all_of(open_->records.begin(), open_->records.end(), IsHole)) {
    for (const RowRef& ref : open_->refs) parts_.memory->Drop(ref.block, 1);
    open_->refs.clear();
  }
  Add(std::move(open_));
}

void RecordSink::Add(std::unique_ptr<Delivery::Records> delivery) {
  delivery->span.end = clock_->AfterBatch();
  delivery->span.number = next_number_++;
  waiting_.push_back(std::move(delivery));
  (void)Continue();
}

bool RecordSink::Continue() {
  while (!waiting_.empty()) {
    if (!parts_.deliveries->HasRoom(waiting_first_)) return true;
    EnterTally();
    ++steps_;
    parts_.deliveries->Put(waiting_first_++, {nullptr, std::move(waiting_.front())});
    waiting_.pop_front();
  }
  return false;
}

void RecordSink::OnEnd(const Status& status) {
  FlushRefs();
  EndAt(next_number_, status, count_payload_);
}

}  // namespace ringfeed
