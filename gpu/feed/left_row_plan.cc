#include "gpu/feed/left_row_plan.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace ringfeed {

void LeftRowPlan::Clear() {
  rows_.clear();
  gathered_.clear();
  direct_.clear();
  far_parts_.clear();
  summed_.clear();
  sums_ = 0;
  each_bytes_ = together_bytes_ = direct_bytes_ = summed_bytes_ = 0;
}

// Rows that were left are in an arena, as their batch is.
std::size_t LeftRowPlan::AddField(const std::byte* data, std::size_t bytes, std::size_t room,
                                  std::span<const PendingCopy> pending, SlotLayout* layout) {
  const std::size_t to = layout->AddRoom(std::max(bytes, room));
  std::size_t done = 0;
  const auto add_written = [&](std::size_t end) {
    if (end == done) return;
    layout->Add({.from = data + done, .to = to + done, .bytes = end - done, .field = false});
  };
  for (const PendingCopy& copy : pending) {
    const auto at = static_cast<std::size_t>(copy.to - data);
    add_written(at);
    const bool far = copy.far != nullptr;
    assert(!far || copy.sum == PendingCopy::kNoSum);  // the CPU could not compute its sum
    rows_.push_back({copy.from, to + at, copy.bytes, copy.slab, far, copy.sum});
    done = at + copy.bytes;
  }
  add_written(bytes);
  return to;
}

RowRun LeftRowPlan::RunOf(std::span<const LeftRow> rows, LeftRows how,
                          const TransferPlanner& planner) {
  const LeftRow& first = rows.front();
  RowRun run = planner.Begin(first.bytes);
  for (const LeftRow& row : rows.subspan(1)) {
    const auto begin = static_cast<std::size_t>(row.from - first.from);
    if (row.slab != first.slab || !planner.Join(how, begin, row.bytes, &run)) break;
  }
  return run;
}

void LeftRowPlan::AddPiece(const GatheredPiece& piece, std::vector<GatheredPiece>* table) {
  ForEachChunk(piece.bytes, [&](std::uint64_t at, std::uint64_t bytes) {
    table->push_back({piece.from + at, piece.to + at, bytes});
  });
}

void LeftRowPlan::AddRun(std::span<const LeftRow> rows, std::size_t bytes, SlotLayout* layout) {
  const std::byte* const begin = rows.front().from;
  const std::size_t to = layout->AddRoom(bytes);
  layout->Add({.from = begin, .to = to, .bytes = bytes, .field = false});
  for (const LeftRow& row : rows) {
    const std::size_t from = to - fields_end_ + static_cast<std::size_t>(row.from - begin);
    AddPiece({from, row.to, row.bytes}, &gathered_);
    together_bytes_ += row.bytes;
  }
}

bool LeftRowPlan::IsBefore(const LeftRow& a, const LeftRow& b) {
  return std::less<>()(a.from, b.from) || (a.from == b.from && a.bytes > b.bytes);
}

// Without a shuffle, rows of one slab come in the order of their addresses: such stretches are
// sorted as wholes.
void LeftRowPlan::SortRows() {
  constexpr std::size_t kRowsOfStretch = 8;  // on average, for that to pay
  std::vector<std::span<const LeftRow>> stretches;
  for (std::size_t begin = 0, end = 1; begin < rows_.size(); begin = end++) {
    while (end < rows_.size() && rows_[end].slab == rows_[end - 1].slab &&
           IsBefore(rows_[end - 1], rows_[end])) {
      ++end;
    }
    stretches.push_back(std::span<const LeftRow>(rows_).subspan(begin, end - begin));
  }
  if (stretches.size() == 1) return;
  const auto overlap = [](const auto& a, const auto& b) { return !IsBefore(a.back(), b.front()); };
  bool apart = kRowsOfStretch * stretches.size() <= rows_.size();
  if (apart) {
    std::sort(stretches.begin(), stretches.end(),
              [](const auto& a, const auto& b) { return IsBefore(a.front(), b.front()); });
    apart = std::adjacent_find(stretches.begin(), stretches.end(), overlap) == stretches.end();
  }
  if (!apart) return std::sort(rows_.begin(), rows_.end(), IsBefore);
  sorted_.clear();
  for (const auto& stretch : stretches) {
    sorted_.insert(sorted_.end(), stretch.begin(), stretch.end());
  }
  rows_.swap(sorted_);
}

void LeftRowPlan::Make(LeftRows how, const TransferPlanner& planner,
                       std::span<const PendingSum> sums, SlotLayout* layout) {
  if (rows_.empty()) return;
  SortRows();
  fields_end_ = SlotLayout::AlignUp(layout->slot_bytes());  // runs of rows begin there
  for (std::span<const LeftRow> rest = rows_; !rest.empty();) {
    if (rest.front().far) {
      rest = rest.subspan(AddFarRows(rest));
      continue;
    }
    const RowRun run = RunOf(rest, how, planner);
    const auto rows = rest.first(run.rows);
    rest = rest.subspan(run.rows);
    if (planner.GoesTogether(how, run)) {
      AddRun(rows, run.bytes, layout);
      continue;
    }
    for (const LeftRow& row : rows) {
      // From the memory it was read into or, if that is cheaper, by way of staging memory.
      const bool staged = how == LeftRows::kByCost && planner.IsCopiedByCpu(row.bytes);
      layout->Add(
          {.from = row.from, .to = row.to, .bytes = row.bytes, .staged = staged, .field = false});
      if (!staged) each_bytes_ += row.bytes;
    }
  }
  runs_end_ = layout->slot_bytes();
  const auto add_table = [layout](const auto& table, std::size_t* at) {
    if (!table.empty()) *at = layout->AddWhole(table.data(), std::span(table).size_bytes());
  };
  add_table(gathered_, &gathered_at_);
  add_table(direct_, &direct_at_);
  PlanSums(sums);
  if (summed_.empty()) return;
  add_table(summed_, &summed_at_);
  sums_at_ = layout->AddRoom(sums_bytes());
  sums_staging_at_ = layout->AddStagingRoom(sums_bytes());
}

// All of it is in one allocation of the device's: a run has its slabs there.
std::size_t LeftRowPlan::AddFarRows(std::span<const LeftRow> rows) {
  MemoryAccess part{rows.front().from, 0, false};
  const std::byte* const begin = far_parts_.empty() ? part.data : far_parts_.front().data;
  std::size_t taken = 0;
  for (const LeftRow& row : rows) {
    if (!row.far || row.slab != rows.front().slab) break;
    part.bytes = std::max(part.bytes, static_cast<std::size_t>(row.from - part.data) + row.bytes);
    AddPiece({static_cast<std::size_t>(row.from - begin), row.to, row.bytes}, &direct_);
    direct_bytes_ += row.bytes;
    ++taken;
  }
  far_parts_.push_back(part);
  return taken;
}

// The sums of the rows at their places, computed after all copies and gathers.
void LeftRowPlan::PlanSums(std::span<const PendingSum> sums) {
  for (const LeftRow& row : rows_) {
    if (sums.empty() || row.sum == PendingCopy::kNoSum) continue;
    const std::size_t behind = sums[row.sum].BytesBehind({nullptr, row.from, row.bytes});
    ForEachChunk(row.bytes, [&](std::uint64_t at, std::uint64_t bytes) {
      summed_.push_back({row.to + at, behind + row.bytes - at - bytes,
                         static_cast<std::uint32_t>(bytes), row.sum});
    });
    summed_bytes_ += row.bytes;
  }
  if (!summed_.empty()) sums_ = sums.size();
}

void LeftRowPlan::AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const {
  if (!gathered_.empty()) {
    GatherPieces gather;
    gather.input = slot + fields_end_;
    gather.input_bytes = runs_end_ - fields_end_;
    gather.output = slot;
    gather.output_bytes = fields_end_;
    gather.pieces = reinterpret_cast<const GatheredPiece*>(slot + gathered_at_);
    gather.count = gathered_.size();
    kernels->emplace_back(gather);
  }
  if (!direct_.empty()) {
    GatherPieces gather;
    gather.input = far_parts_.front().data;
    gather.input_bytes =
        static_cast<std::size_t>(far_parts_.back().data - gather.input) + far_parts_.back().bytes;
    gather.pieces = reinterpret_cast<const GatheredPiece*>(slot + direct_at_);
    gather.count = direct_.size();
    gather.output = slot;
    gather.output_bytes = fields_end_;
    gather.input_parts = far_parts_;
    kernels->emplace_back(gather);
  }
  if (!summed_.empty()) {
    SumPieces sums;
    sums.input = slot;
    sums.input_bytes = fields_end_;
    sums.pieces = reinterpret_cast<const SummedPiece*>(slot + summed_at_);
    sums.count = summed_.size();
    sums.output = reinterpret_cast<std::uint32_t*>(slot + sums_at_);
    sums.texts = sums_;
    kernels->emplace_back(sums);
  }
}

}  // namespace ringfeed
