#include "readers/chain/chain_order.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "base/calls_end.h"
#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"

namespace ringfeed {

namespace {

// Whether the order itself counts records, and not only the split between several ranks.
bool OrdersByNumber(const ExecutionPlan& plan) {
  const auto by_number = [](const OrderStage& stage) {
    return stage.kind == OrderStage::Kind::kStripes || stage.kind == OrderStage::Kind::kGlobal;
  };
  return plan.source.mix != nullptr ||
         std::any_of(plan.stages.begin(), plan.stages.end(), by_number);
}

// A sum that cannot be counted is past the end, too.
std::uint64_t SumOrMost(std::uint64_t batches, std::uint64_t more) {
  return batches + std::min(more, std::numeric_limits<std::uint64_t>::max() - batches);
}

}  // namespace

ChainOrder::ChainOrder(const ExecutionPlan& plan, Ledger* ledger,
                       std::shared_ptr<IndexedSource> indexed)
    : plan_(plan), ledger_(ledger), indexed_(std::move(indexed)) {}

std::shared_ptr<IndexedSource> ChainOrder::known_index() const {
  const std::lock_guard lock(mutex_);
  return indexed_;
}

std::shared_ptr<IndexedSource> ChainOrder::Index(std::string* why, const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (indexed_ != nullptr) return indexed_;
  if (not_indexed_.empty() && plan_.may_have_index()) {
    std::stop_source making;
    const auto end = [&making] { making.request_stop(); };
    const std::stop_callback on_close(closing_.get_token(), end);
    const std::stop_callback on_stop(stop, end);
    const CallsEnd end_of_calls([&making] { return making.stop_requested(); });
    try {
      if (closing_.stop_requested()) Refuse(StatusCode::kCancelled, "the reader was closed");
      indexed_ = std::make_shared<IndexedSource>(plan_, making.get_token());
      return indexed_;
    } catch (const Error& error) {
      ledger_->NoteFile(error.status().place().file, error.status());
      if (plan_.needs_index() || error.status().code() == StatusCode::kCancelled) throw;
      not_indexed_ = error.status().ToString();
    }
  }
  if (why != nullptr) *why = not_indexed_.empty() ? "this source has no index" : not_indexed_;
  return nullptr;
}

void ChainOrder::MakeIndex(IndexPurpose purpose, const std::stop_token& stop) {
  if (purpose == IndexPurpose::kCounting || plan_.needs_index()) (void)Index(nullptr, stop);
}

std::vector<std::uint64_t> ChainOrder::FileRecords() {
  std::string why;
  const std::shared_ptr<IndexedSource> indexed = Index(&why);
  if (indexed == nullptr) Refuse(StatusCode::kUnsupported, "records cannot be counted: " + why);
  std::vector<std::uint64_t> records;
  for (std::size_t i = 0; i < indexed->sets().size(); ++i) {
    const RowLayout& set = indexed->LayoutOf(i);
    for (std::size_t file = 0; file < set.files(); ++file) {
      records.push_back(set.FirstRow(file + 1) - set.FirstRow(file));
    }
  }
  return records;
}

std::uint64_t ChainOrder::CountBatches() {
  const auto refuse = [](const std::string& why) {
    Refuse(StatusCode::kUnsupported, "batches cannot be counted before they are read: " + why);
  };
  if (plan_.is_endless()) refuse("the passes are without end");
  if (plan_.looks_into_records() && !plan_.shares) refuse("they depend on what is in the records");
  if (plan_.source.mix != nullptr && !plan_.shares) refuse("sets of files are mixed");
  std::string why;
  const std::shared_ptr<IndexedSource> indexed = Index(&why);
  if (indexed == nullptr) refuse(why);
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  if (!plan_.shares) {
    return indexed->BatchOrEnd(kAll, PositionRows(), plan_.batch.drop_remainder);
  }
  return indexed->StepsBehind({}, kAll).steps * BatchesOfStep();
}

std::shared_ptr<const RowReader> ChainOrder::Rows() {
  std::string why;
  const std::shared_ptr<IndexedSource> indexed = Index(&why);
  if (indexed == nullptr) {
    Refuse(StatusCode::kUnsupported, "records cannot be read by their numbers: " + why);
  }
  const std::lock_guard lock(mutex_);
  if (rows_ == nullptr) {
    rows_ =
        std::make_shared<const RowReader>(indexed->table(), plan_.row_parser, plan_.source.options);
  }
  return rows_;
}

std::vector<BatchRecord> ChainOrder::Which(std::uint64_t batch, const std::string& position) {
  if (plan_.looks_into_records() && !plan_.shares) {
    Refuse(StatusCode::kUnsupported,
           "the records of a batch are not known before they are read: they depend on what is in "
           "them, and are not planned (StepOptions)");
  }
  const std::shared_ptr<const RowReader> rows = Rows();
  const std::shared_ptr<IndexedSource> indexed = known_index();
  const Beginning from = BeginningAt(position.empty() ? ChainPosition{} : Understood(position));
  const std::uint64_t before = from.delivered.batch;
  if (batch < before) {
    Refuse("batch " + std::to_string(batch) + " is before the position, which is behind " +
           std::to_string(before) + " batches");
  }
  RunStart start = from.start;
  if (batch > before) start = BeginningAt(Further(from.delivered, start, batch - before)).start;
  std::vector<IndexedSource::BatchRow> planned;
  if (start.batch + start.leave_out < batch || !indexed->FirstBatch(start, &planned)) {
    Refuse("there is no batch " + std::to_string(batch));
  }
  std::vector<BatchRecord> records;
  for (const IndexedSource::BatchRow& row : planned) {
    const FileRecord place = rows->PlaceOf(row.row);
    records.push_back({row.row, place.file, place.record, row.batch_row, row.units});
  }
  return records;
}

DataFingerprint ChainOrder::Fingerprint() {
  const std::lock_guard lock(mutex_);
  if (indexed_ != nullptr) return indexed_->fingerprint();
  if (!fingerprint_) {
    const std::shared_ptr<ReaderSession> input = InputSessionOf(plan_);
    fingerprint_ =
        input != nullptr ? input->order().FingerprintAsInput() : FingerprintOf(plan_.source);
  }
  return *fingerprint_;
}

// What needs an index is known only by it. For other chains records are not counted.
DataFingerprint ChainOrder::FingerprintAsInput() {
  if (plan_.needs_index()) (void)Index();
  DataFingerprint print = Fingerprint();
  print.records = 0;
  return print;
}

std::string ChainOrder::WhyNoPosition() const {
  std::string why = plan_.WhyNoPosition();
  if (!why.empty() || plan_.source.instances == nullptr) return why;
  const Reader input = plan_.source.instances->input();
  if (!input) return why;
  // If Share had a session of its own, no other chain could be built on it.
  const GraphNode& node = *ReaderAccess::NodeOf(input);
  if (std::holds_alternative<ShareNode>(node.kind())) return LowerChain(node).WhyNoPosition();
  return InputSessionOf(plan_)->order().WhyNoPosition();
}

std::string ChainOrder::OrderText() const {
  const std::string text = plan_.OrderText();
  const std::shared_ptr<ReaderSession> input = InputSessionOf(plan_);
  if (input == nullptr) return text;
  return ShortOrder(text + "; it reads (" + input->order().OrderText() + ")");
}

void ChainOrder::RefuseWithoutPosition() const {
  const std::string why = WhyNoPosition();
  if (!why.empty()) Refuse(StatusCode::kUnsupported, "this chain has no position: " + why);
}

std::string ChainOrder::TextOf(ChainPosition place, const RunStart& start) {
  if (!plan_.looks_into_records()) place.mark.reset();
  if (plan_.looks_into_records() && !place.mark) place.mark = PlanPosition{};
  if (plan_.source.mix != nullptr) {
    if (!place.mark) place.mark = MarkOfMixture(start, place.batch);
    place.mix = Index()->MixBehind(start, *place.mark, place.batch / BatchesOfStep());
  }
  if (plan_.shares) {
    place.lengths = Index()->lengths_digest();
    place.batch /= BatchesOfStep();  // steps, which are the same for any number of ranks
  }
  place.source_pass = start.source_pass;
  place.order = OrderText();
  // Damage without a record's number has a place if it fails, and none if it is skipped.
  const bool shuffles_files = plan_.shuffled() && !OrdersByNumber(plan_);
  place.on_damage = shuffles_files ? PolicyName() : "";
  if (plan_.needs_index()) (void)Index();  // its fingerprint knows more
  place.data = Fingerprint();
  // If their number need not be known, on any number of ranks, it would be in some texts of a place
  // and not in others.
  if (!OrdersByNumber(plan_)) place.data.records = 0;
  return place.ToJson();
}

// A mixture's weights may have changed since its beginning: counts from the run's start.
PlanPosition ChainOrder::MarkOfMixture(const RunStart& start, std::uint64_t batch) {
  return Index()->PlaceBehind(start, batch - std::min(batch, start.batch));
}

void ChainOrder::LeaveOut(std::uint64_t batches, PlanPosition* mark) const {
  std::uint64_t& left_out = plan_.marks_rows() ? mark->done : mark->outputs;
  left_out = SumOrMost(left_out, batches);
}

ChainPosition ChainOrder::Further(ChainPosition place, const RunStart& start,
                                  std::uint64_t batches) {
  const std::uint64_t before = place.batch;
  place.batch = SumOrMost(place.batch, batches);
  place.mix = start.mix;
  place.source_pass = start.source_pass;
  if (plan_.shares) {
    const std::uint64_t pieces = BatchesOfStep();
    RunStart from = start;
    from.step = before / pieces;
    from.mark = place.mark.value_or(start.mark);
    const bool mixed = plan_.source.mix != nullptr;
    if (mixed) from.mix = Index()->MixBehind(start, from.mark, from.step);
    const std::uint64_t steps = place.batch / pieces - from.step;
    const IndexedSource::StepPlace reached = Index()->StepsBehind(from, steps);
    place.mark = reached.mark;
    if (mixed) place.mix = Index()->MixBehind(from, reached.mark, from.step + reached.steps);
    if (reached.steps < steps) place.batch = (from.step + reached.steps) * pieces;
  } else if (plan_.looks_into_records()) {
    if (place.mark) LeaveOut(batches, &*place.mark);
  } else if (plan_.source.mix != nullptr) {
    place.mark = MarkOfMixture(start, place.batch);
    place.mix = Index()->MixBehind(start, *place.mark, place.batch);
  }
  return place;
}

std::uint64_t ChainOrder::BatchOrEnd(IndexedSource* indexed, std::uint64_t batch) const {
  const bool counted = indexed != nullptr && !plan_.looks_into_records();
  if (!counted || plan_.source.mix != nullptr) return batch;
  return indexed->BatchOrEnd(batch, PositionRows(), plan_.batch.drop_remainder);
}

Beginning ChainOrder::BeginningAt(ChainPosition position) {
  std::string why;
  const std::shared_ptr<IndexedSource> indexed = Index(&why);
  position.batch = BatchOrEnd(indexed.get(), position.batch);
  Beginning beginning;
  RunStart& start = beginning.start;
  start.by_index = indexed != nullptr;
  if (indexed == nullptr) {
    LeaveOut(position.batch, &start.mark);
  } else if (plan_.shares) {
    BeginAtStep(*indexed, &position, &start);
  } else if (plan_.looks_into_records()) {
    if (position.mark) {
      start.mark = *position.mark;
    } else {
      LeaveOut(position.batch, &start.mark);
    }
  } else if (plan_.source.mix != nullptr && position.mark) {
    start.mark = *position.mark;
  } else {
    start.mark = indexed->PlaceOf(position.batch, PositionRows(), plan_.batch.drop_remainder);
  }
  start.mix = position.mix;
  start.source_pass = position.source_pass;
  start.other_policy =
      position.batch > 0 && !position.on_damage.empty() && position.on_damage != PolicyName();
  if (!position.mark) position.mark = start.mark;
  if (plan_.marks_rows()) {
    start.leave_out = std::exchange(start.mark.done, 0);
  } else if (!plan_.shares) {
    start.leave_out = start.mark.outputs;
  }
  start.batch = position.batch - std::min(position.batch, start.leave_out);
  beginning.how = (start.by_index ? "by index" : "by reading up to there (" + why + ")") +
                  ": pass " + std::to_string(start.mark.pass) + ", place " +
                  std::to_string(start.mark.place);
  if (start.leave_out > 0) {
    beginning.how += ", leaving " + std::to_string(start.leave_out) +
                     (plan_.batched ? " batches" : " rows") + " out";
  }
  beginning.delivered = std::move(position);
  return beginning;
}

void ChainOrder::BeginAtStep(const IndexedSource& indexed, ChainPosition* position,
                             RunStart* start) const {
  const std::uint64_t pieces = BatchesOfStep();
  start->step = position->batch / pieces;
  start->leave_out = position->batch % pieces;
  if (position->mark) {
    start->mark = *position->mark;
    return;
  }
  const std::uint64_t steps = std::exchange(start->step, 0);
  const IndexedSource::StepPlace reached = indexed.StepsBehind(*start, steps);
  start->step = reached.steps;
  start->mark = reached.mark;
  if (reached.steps == steps) return;
  start->leave_out = 0;
  position->batch = reached.steps * pieces;
}

void ChainOrder::CheckLengths(const IndexedSource& indexed, ChainPosition* position) const {
  const SharedSteps& steps = *plan_.shares;
  if (position->lengths != indexed.lengths_digest()) {
    Refuse(StatusCode::kInvalidArgument, "the position is of records with other lengths of \"" +
                                             steps.field + "\": their steps have other records");
  }
  const PlanPosition& mark = *position->mark;
  if (mark.place % steps.rules.segment != 0 || mark.done >= steps.rules.alike ||
      mark.done > position->batch) {
    Refuse(StatusCode::kInvalidArgument, "the position is between no two steps: it is damaged");
  }
  if (__builtin_mul_overflow(position->batch, BatchesOfStep(), &position->batch)) {
    Refuse(StatusCode::kInvalidArgument, "the position is behind more batches than are counted");
  }
}

Beginning ChainOrder::BeginningAtCount(ChainPosition position) {
  Beginning beginning = BeginningAt(std::move(position));
  beginning.settled = !plan_.looks_into_records() || plan_.shares || beginning.start.leave_out == 0;
  return beginning;
}

ChainPosition ChainOrder::Understood(const std::string& text) {
  ChainPosition position;
  const Status parsed = ParsePosition(text, &position);
  if (!parsed.ok()) throw Error(parsed);
  RefuseWithoutPosition();
  const std::string order = OrderText();
  if (position.order != order) {
    Refuse(StatusCode::kInvalidArgument,
           "the position is of a chain with another order: it was \"" + position.order +
               "\", this is \"" + order + "\"");
  }
  const std::shared_ptr<IndexedSource> indexed = Index();  // its fingerprint knows more
  const std::string difference = DifferenceOf(position.data, Fingerprint());
  if (!difference.empty()) {
    Refuse(StatusCode::kInvalidArgument,
           "the position is of other data; what changed: " + difference);
  }
  if (const std::uint64_t end = BatchOrEnd(indexed.get(), position.batch); end < position.batch) {
    Refuse(StatusCode::kInvalidArgument,
           "the position is behind " + std::to_string(position.batch) + " batches, and there are " +
               std::to_string(end) + ": read as many passes as were read before");
  }
  if (plan_.shares) CheckLengths(*indexed, &position);
  // Checks whether its weights may have changed before anything is lost.
  if (plan_.source.mix != nullptr) {
    RunStart start;
    start.batch = position.batch;
    start.mark = position.mark.value_or(PlanPosition{});
    start.step = position.batch / BatchesOfStep();
    start.mix = position.mix;
    indexed->CheckMix(start);
  }
  return position;
}

}  // namespace ringfeed
