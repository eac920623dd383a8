#include "gpu/feed/distributor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/balanced_split.h"
#include "base/user_call.h"
#include "ringfeed/data_balance.h"

namespace ringfeed {

namespace {

std::size_t CopiesOf(std::size_t devices, Distribution distribution, std::size_t replicas) {
  if (distribution != Distribution::kReplicate) return 1;
  return replicas == 0 ? devices : replicas;
}

std::size_t GroupsOf(const FeedOptions& options) {
  const std::size_t devices = options.devices.size();
  return devices / CopiesOf(devices, options.distribution, options.replicas);
}

}  // namespace

Distributor::Distributor(BatchSupply* supply, std::size_t devices, Distribution distribution,
                         LastStep last_step, std::size_t replicas)
    : supply_(supply),
      copies_(CopiesOf(devices, distribution, replicas)),
      devices_(devices / copies_),
      distribution_(distribution),
      last_step_(last_step) {}

// One that is copied and those that wait at each device. The devices of a group hold the same ones.
std::size_t Distributor::HeldBatches(const FeedOptions& options) {
  return NeededBatches(options) + (1 + options.waiting_batches) * GroupsOf(options);
}

// The step that is being collected, and the last step for repeats. Slots keep theirs if fields stay
// on the host.
std::size_t Distributor::NeededBatches(const FeedOptions& options) {
  const std::size_t kept = options.host_fields.empty() ? 0 : options.slots * options.devices.size();
  return kept + (options.last_step == LastStep::kUneven ? 1 : GroupsOf(options) + 1);
}

void FeedItem::Replace(const Instance& tensors, std::int64_t repeated_rows) {
  pending = {};
  const auto all = static_cast<std::uint64_t>(tensors.empty() ? 0 : RowsOf(tensors.front()));
  const NumberRange rows_of_part = BalancedRange(all, parts, part);
  batch = parts == 1 ? tensors
                     : SliceRows(tensors, static_cast<std::int64_t>(rows_of_part.begin),
                                 static_cast<std::int64_t>(rows_of_part.end));
  rows = rows_of_part.end - rows_of_part.begin;
  const std::uint64_t valid = all - static_cast<std::uint64_t>(repeated_rows);
  valid_rows = std::clamp(valid, rows_of_part.begin, rows_of_part.end) - rows_of_part.begin;
}

void Distributor::Reset() {
  LetGo();
  order_.Reset();
  next_number_ = 0;
  most_rows_ = 0;
  pass_.reset();
  end_ = SupplyResult::kBatch;
  end_status_ = Status();
}

void Distributor::LetGo() {
  taken_ = {};
  take_ = SupplyResult::kNotYet;
  settles_ = false;
  step_.clear();
  ready_.clear();
  order_.LetGo();
}

std::int64_t Distributor::Rows(const Instance& batch) const {
  const bool moves = distribution_ == Distribution::kSplit || last_step_ == LastStep::kPad ||
                     last_step_ == LastStep::kShort;
  if (moves) return RowsOf(batch);
  return batch.empty() ? 0 : RowsOf(batch.front());
}

void Distributor::Put(SuppliedBatch&& batch, std::uint64_t valid_rows, bool completes) {
  FeedItem item;
  item.rows = static_cast<std::uint64_t>(Rows(batch.tensors));
  item.valid_rows = valid_rows;
  item.most_rows = std::max(item.rows, MostRows());
  item.copies = copies_;
  item.origin = std::move(batch.origin);
  item.pending = batch.pending;
  item.settling = Settling(&batch, copies_, valid_rows);
  item.batch = std::move(batch.tensors);
  item.completes = false;
  for (std::size_t copy = 1; copy < copies_; ++copy) {
    item.number = next_number_++;
    ready_.push_back(item);
    item.takes_sums = false;
  }
  item.number = next_number_++;
  item.completes = completes;
  ready_.push_back(std::move(item));
}

std::uint64_t Distributor::MostRows() const {
  const auto rows = static_cast<std::uint64_t>(std::max(most_rows_, supply_->rows().most));
  return distribution_ == Distribution::kSplit ? (rows + devices_ - 1) / devices_ : rows;
}

void Distributor::CopyPending(SuppliedBatch* batch) {
  if (const Status status = MakeCopies(std::exchange(batch->pending, {})); !status.ok()) {
    throw Error(status);
  }
}

Instance Distributor::Repeated(const Instance& batch, std::int64_t rows) const {
  const std::int64_t have = Rows(batch);
  if (have >= rows || have == 0) return batch;
  const std::vector<Instance> copies(static_cast<std::size_t>((rows + have - 1) / have), batch);
  return SliceRows(SpreadRows(copies, 1).front(), 0, rows);
}

void Distributor::PadTo(std::int64_t rows, SuppliedBatch* batch) {
  const std::int64_t have = Rows(batch->tensors);
  if (have >= rows || have == 0) return;  // of no rows there is none to repeat
  if (batch->unsettled == nullptr) {      // else it is counted as soon as it is known what is left
    repeated_rows_.fetch_add(static_cast<std::uint64_t>(rows - have), std::memory_order_relaxed);
  }
  CopyPending(batch);
  batch->tensors = Repeated(batch->tensors, rows);
}

void Distributor::AddStep() {
  for (SuppliedBatch& batch : step_) {
    const std::int64_t rows = Rows(batch.tensors);
    if (last_step_ == LastStep::kPad) PadTo(most_rows_, &batch);
    Put(std::move(batch), static_cast<std::uint64_t>(rows));
  }
  step_.clear();
}

void Distributor::AddParts(SuppliedBatch&& supplied) {
  const std::int64_t rows = Rows(supplied.tensors);
  const bool whole = rows >= most_rows_;
  if (!whole && last_step_ == LastStep::kDrop) {
    if (Settling(&supplied, 0, static_cast<std::uint64_t>(rows)) != nullptr) return;
    dropped_rows_.fetch_add(static_cast<std::uint64_t>(rows), std::memory_order_relaxed);
    return;
  }
  if (last_step_ == LastStep::kPad) PadTo(most_rows_, &supplied);
  const auto all = static_cast<std::uint64_t>(Rows(supplied.tensors));
  const std::shared_ptr<SettlingBatch> settling =
      Settling(&supplied, devices_, static_cast<std::uint64_t>(rows));
  for (std::size_t device = 0; device < devices_; ++device) {
    const NumberRange part = BalancedRange(all, devices_, device);
    const auto valid = static_cast<std::uint64_t>(rows);
    SuppliedBatch sliced{SliceRows(supplied.tensors, static_cast<std::int64_t>(part.begin),
                                   static_cast<std::int64_t>(part.end)),
                         supplied.pending, supplied.origin};
    Put(std::move(sliced), std::clamp(valid, part.begin, part.end) - part.begin,
        device + 1 == devices_);
    ready_.back().settling = settling;
    ready_.back().part = device;
    ready_.back().parts = devices_;
  }
}

void Distributor::LearnRows(const SuppliedBatch& batch) {
  if (!pass_) most_rows_ = supply_->rows().before;
  // Then the batch before was whole, even if some of its rows are lost. A run that begins here is
  // told its size.
  if (pass_ == batch.origin.pass) most_rows_ = std::max(most_rows_, supply_->rows().usual);
  pass_ = batch.origin.pass;
  most_rows_ = std::max(most_rows_, Rows(batch.tensors));
}

// With one device (or group), or a part of each batch for every device, later batches keep theirs.
bool Distributor::ComesToNothing(const SuppliedBatch& batch) const {
  if (batch.unsettled == nullptr || devices_ == 1 || distribution_ == Distribution::kSplit) {
    return false;
  }
  const std::span<const PendingSum> sums = batch.unsettled->sums();
  const auto matches = [](const PendingSum& sum) { return sum.Matches(); };
  return !batch.unsettled->IsShownEmpty() &&
         sums.size() == static_cast<std::size_t>(Rows(batch.tensors)) &&
         std::ranges::none_of(sums, matches);
}

std::shared_ptr<SettlingBatch> Distributor::Settling(SuppliedBatch* batch, std::size_t items,
                                                     std::uint64_t rows) {
  if (batch->unsettled == nullptr) return nullptr;
  SettlingBatch::MakeEven make_even;
  if (evens_batches()) {
    make_even = [this, rows = static_cast<std::int64_t>(rows), whole = most_rows_](
                    SettledBatch* settled) { return MakeEven(rows, whole, settled); };
  }
  return order_.Add(std::move(batch->unsettled), next_number_, items, std::move(make_even));
}

std::int64_t Distributor::MakeEven(std::int64_t rows, std::int64_t whole, SettledBatch* settled) {
  const bool is_other = settled->kind == SettledBatch::Kind::kOther;
  const std::int64_t left = is_other ? Rows(settled->tensors) : rows;
  if (left >= whole) return 0;
  if (last_step_ == LastStep::kDrop) {
    dropped_rows_.fetch_add(static_cast<std::uint64_t>(left), std::memory_order_relaxed);
    settled->kind = SettledBatch::Kind::kNothing;
    return 0;
  }
  if (left == 0) return 0;  // there is none to repeat
  repeated_rows_.fetch_add(static_cast<std::uint64_t>(whole - left), std::memory_order_relaxed);
  if (is_other) settled->tensors = Repeated(settled->tensors, whole);
  return whole - left;
}

// What is repeated or dropped depends on the rows of the largest batch: the CPU takes the sums of
// batches until one was whole. And rows of the last step are moved.
bool Distributor::MustSettle() const {
  if (take_ == SupplyResult::kEnd) {
    return std::ranges::any_of(step_, [](const auto& batch) { return batch.unsettled != nullptr; });
  }
  if (take_ != SupplyResult::kBatch || taken_.unsettled == nullptr) return false;
  const std::int64_t whole = std::max(Rows(taken_.tensors), supply_->rows().usual);
  return (evens_batches() && most_rows_ < whole) || ComesToNothing(taken_);
}

bool Distributor::Settle(SuppliedBatch* batch) {
  if (batch->unsettled == nullptr) return true;
  SettledBatch settled = SettlingOrder::SettleByCpu(std::move(batch->unsettled));
  if (!settled.failure.ok()) {
    end_ = SupplyResult::kFailed;
    end_status_ = settled.failure;
  }
  if (settled.kind == SettledBatch::Kind::kNothing) return false;
  batch->origin = std::move(settled.origin);
  if (settled.kind == SettledBatch::Kind::kWhole) return true;
  batch->pending = {};
  batch->tensors = std::move(settled.tensors);
  return true;
}

void Distributor::SettleStep() {
  std::vector<SuppliedBatch> step;
  for (SuppliedBatch& batch : step_) {
    if (end_ != SupplyResult::kFailed && Settle(&batch)) step.push_back(std::move(batch));
  }
  step_ = std::move(step);
}

void Distributor::Add(SuppliedBatch&& batch) {
  LearnRows(batch);
  if (distribution_ == Distribution::kSplit) return AddParts(std::move(batch));
  if (!collects_steps()) {
    const auto rows = static_cast<std::uint64_t>(Rows(batch.tensors));
    return Put(std::move(batch), rows);
  }
  step_.push_back(std::move(batch));
  if (step_.size() == devices_) AddStep();
}

void Distributor::PadStep() {
  CopyPending(&step_.back());
  const SuppliedBatch last = step_.back();
  const std::size_t missing = devices_ - step_.size();
  AddStep();
  for (std::size_t i = 0; i < missing; ++i) {
    SuppliedBatch repeated{Repeated(last.tensors, most_rows_), {}, last.origin};
    repeated_rows_.fetch_add(static_cast<std::uint64_t>(Rows(repeated.tensors)),
                             std::memory_order_relaxed);
    Put(std::move(repeated), 0);
  }
}

void Distributor::SpreadStep() {
  const BatchOrigin last = step_.back().origin;
  std::vector<Instance> batches;
  for (SuppliedBatch& batch : step_) {
    CopyPending(&batch);
    batches.push_back(std::move(batch.tensors));
  }
  std::vector<Instance> parts = SpreadRows(batches, devices_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto rows = static_cast<std::uint64_t>(Rows(parts[i]));
    Put({std::move(parts[i]), {}, last}, rows, i + 1 == parts.size());
  }
}

void Distributor::EndSteps() {
  if (step_.empty()) return;
  std::int64_t rows = 0;
  for (const SuppliedBatch& batch : step_) rows += Rows(batch.tensors);
  switch (last_step_) {
    case LastStep::kUneven:
      break;
    case LastStep::kDrop:
      dropped_rows_.fetch_add(static_cast<std::uint64_t>(rows), std::memory_order_relaxed);
      break;
    case LastStep::kPad:
      PadStep();
      break;
    case LastStep::kShort:
      SpreadStep();
      break;
  }
  step_.clear();
}

void Distributor::Place() {
  const bool settles = std::exchange(settles_, false);
  SuppliedBatch batch = std::exchange(taken_, {});
  end_ = std::exchange(take_, SupplyResult::kNotYet);
  if (settles && order_.has_failed()) {  // nothing comes after that
    step_.clear();
    end_ = SupplyResult::kFailed;
    end_status_ = order_.failure();
  }
  if (settles) SettleStep();
  if (end_ == SupplyResult::kBatch && (!settles || Settle(&batch))) Add(std::move(batch));
  if (end_ == SupplyResult::kBatch) return;
  // Good rows go before the failure, as they came: there is no last step to make even.
  if (end_ == SupplyResult::kFailed) AddStep();
  EndSteps();
}

SupplyResult Distributor::Next(FeedItem* item, Status* status, const std::stop_token& stop,
                               bool batches_come_back) {
  while (ready_.empty() && end_ == SupplyResult::kBatch) {
    try {
      if (take_ == SupplyResult::kNotYet) {
        take_ = supply_->Take(&taken_, &end_status_, stop);
        settles_ = MustSettle();
      }
      if (take_ == SupplyResult::kFailed && batches_come_back &&
          end_status_.code() == StatusCode::kResourceExhausted) {
        end_status_ = Status();
        take_ = SupplyResult::kNotYet;
      }
      if (take_ == SupplyResult::kNotYet || (settles_ && !order_.is_empty())) {
        return SupplyResult::kNotYet;
      }
      Place();
    } catch (...) {  // tensors of different rows, or no memory
      end_ = SupplyResult::kFailed;
      end_status_ = StatusOfThrown("a batch cannot be handed on");
    }
  }
  if (ready_.empty()) {
    *status = end_status_;
    return end_;
  }
  *item = std::move(ready_.front());
  ready_.pop_front();
  return SupplyResult::kBatch;
}

void HandedOut::Note(const FeedItem& item, std::uint64_t start) {
  const std::lock_guard lock(mutex_);
  if (start != starts_ || item.number < next_) return;  // of another start, or noted already
  const auto at = static_cast<std::size_t>(item.number - next_);
  if (at >= ahead_.size()) ahead_.resize(at + 1);
  Place& place = ahead_[at];
  // Without its records, of which there may be many.
  place.origin.batch = item.origin.batch;
  place.origin.pass = item.origin.pass;
  place.origin.mark = item.origin.mark;
  place.origin.start = item.origin.start;
  place.completes = item.completes;
  place.noted = true;
  for (; !ahead_.empty() && ahead_.front().noted; ahead_.pop_front()) {
    if (ahead_.front().completes) last_ = ahead_.front().origin;
    ++next_;
  }
}

std::optional<BatchOrigin> HandedOut::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::uint64_t HandedOut::noted() const {
  const std::lock_guard lock(mutex_);
  return next_;
}

std::uint64_t HandedOut::starts() const {
  const std::lock_guard lock(mutex_);
  return starts_;
}

void HandedOut::Reset() {
  const std::lock_guard lock(mutex_);
  ++starts_;
  ahead_.clear();
  next_ = 0;
  last_.reset();
}

}  // namespace ringfeed
