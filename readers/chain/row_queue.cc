#include "readers/chain/row_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "queue/lock_until.h"
#include "readers/parsers/parser.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

namespace {

// Makes a level of LoD that of the row alone: its ends count from the row's start.
void CountFrom(std::int64_t start, std::span<std::byte> ends) {
  for (std::size_t at = 0; at < ends.size(); at += sizeof(std::int64_t)) {
    StoreLe(ends.data() + at, LoadLe<std::int64_t>(ends.data() + at) - start);
  }
}

Tensor CopyOf(const RecordSpan& record) {
  const std::span<const std::byte> bytes = record.bytes();
  return MakeTensor(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

}  // namespace

std::unique_lock<std::timed_mutex> RowQueue::Lock(Deadline deadline) {
  return LockUntil(mutex_, deadline);
}

void RowQueue::Put(StartedRun of, const BatchBuffer* batch, Instance columns) {
  of_ = std::move(of);
  batch_ = batch;
  columns_ = std::move(columns);
  rows_ = static_cast<std::size_t>(columns_.Rows());
}

void RowQueue::Put(StartedRun of, const Delivery::Records* records,
                   std::shared_ptr<const void> hold) {
  of_ = std::move(of);
  records_ = records;
  hold_ = std::move(hold);
  rows_ = records_->records.size();
  while (rows_ > 0 && records_->records[rows_ - 1].damaged()) --rows_;
}

void RowQueue::LetGo() {
  batch_ = nullptr;
  columns_.clear();
  records_ = nullptr;
  hold_.reset();
  of_.run.reset();
}

void RowQueue::Drop() {
  LetGo();
  rows_ = next_ = 0;
}

RowQueue::Row RowQueue::Take(Instance* row, BatchOrigin* origin) {
  if (records_ != nullptr) {
    while (!empty() && records_->records[next_].damaged()) ++next_;  // the last one is not
  }
  if (empty()) return Row::kNone;
  const std::size_t at = next_++;
  if (batch_ != nullptr) {
    CopyParsed(at, row);
    *origin = OriginOfRow(plan_, of_, *batch_, at);
  } else {
    const RecordSpan& record = records_->records[at];
    if (plan_.passes_instances()) {
      // No other code sees this row: it was handed to this chain.
      *row = std::move(*reinterpret_cast<Instance*>(const_cast<std::byte*>(record.data)));
    } else {
      row->push_back(CopyOf(record));
      row->set_is_record(true);
      // Checked after the copy: what was copied before the check came from the file as it was.
      if (records_->ShrunkAt(static_cast<std::uint32_t>(at))) {
        row->clear();
        return Row::kLost;
      }
    }
    *origin = OriginOfRow(plan_, of_, *records_, at);
  }
  if (empty()) LetGo();
  return Row::kTaken;
}

void RowQueue::CopyParsed(std::size_t at, Instance* row) const {
  const Parser& parser = *plan_.parser;
  const std::vector<FieldSpec>& fields = parser.fields();
  Instance tensors(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Tensor& column = columns_[f];
    const std::size_t unit = fields[f].unit_bytes();
    std::size_t begin = at * unit;
    std::size_t bytes = unit;
    Tensor& tensor = tensors[f];
    tensor.dtype = column.dtype;
    tensor.shape = fields[f].shape;
    if (fields[f].ragged()) {
      begin = static_cast<std::size_t>(column.lod[0][at]) * unit;
      bytes = static_cast<std::size_t>(column.lod[0][at + 1]) * unit - begin;
      tensor.shape[0] = column.lod[0][at + 1] - column.lod[0][at];
    }
    const std::size_t lead = LeadBytes(parser, f);
    std::shared_ptr<std::byte[]> copy(new std::byte[lead + bytes]);  // not cleared first
    std::fill_n(copy.get(), lead, std::byte{});
    std::byte* const data = copy.get() + lead;
    std::copy_n(column.data + begin, bytes, data);
    if (lead != 0) CountFrom(columns_[f + 1].lod[0][at], {data, bytes});
    tensor.data = data;
    tensor.bytes = bytes;
    tensor.owner = std::move(copy);
  }
  *row = JoinLevels(parser, std::move(tensors));
  row->set_is_record(parser.gives_records());
}

}  // namespace ringfeed
