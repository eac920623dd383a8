// The position of a chain, as a text, and the start of its next run.
//
// A user's threads call this through Reader, several at once. OriginOf and NoteDelivered belong to
// reads. mutex_ guards the chain's position and its aim. It is never held while an index is made or
// a text is written. planned_mutex_ guards the index, and is taken first.
//
// What holds: within a run the position only moves forward. It counts what was handed out, not what
// was read ahead or looked at ahead. A new aim changes nothing in a run that goes on: Resume takes
// it. Before the first run it is taken at once.

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/engine/files/file_table.h"

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

std::shared_ptr<IndexedSource> ReaderSession::Plan(const std::stop_token& stop) {
  std::stop_source planning;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) Refuse(StatusCode::kCancelled, "the reader was closed");
    planning_ = planning;
  }
  const std::stop_callback forward(stop, [&planning] { planning.request_stop(); });
  return std::make_shared<IndexedSource>(plan_, planning.get_token());
}

std::shared_ptr<IndexedSource> ReaderSession::Planned(std::string* why,
                                                      const std::stop_token& stop) {
  const std::lock_guard lock(planned_mutex_);
  if (indexed_ != nullptr) return indexed_;
  if (!not_planned_.empty() || !plan_.may_have_index()) {
    *why = not_planned_.empty() ? "this source has no index" : not_planned_;
    return nullptr;
  }
  try {
    indexed_ = Plan(stop);
  } catch (const Error& error) {
    kept_.ledger->NoteFile(error.status().place().file, error.status());
    if (plan_.needs_index() || error.status().code() == StatusCode::kCancelled) throw;
    *why = not_planned_ = error.status().ToString();
  }
  return indexed_;
}

DataFingerprint ReaderSession::Fingerprint() {
  const std::lock_guard lock(planned_mutex_);
  if (indexed_ != nullptr) return indexed_->fingerprint();
  if (!fingerprint_) {
    const std::shared_ptr<ReaderSession> input = InputSession();
    fingerprint_ = input != nullptr ? input->FingerprintAsInput() : FingerprintOf(plan_.source);
  }
  return *fingerprint_;
}

// What needs an index is known only by it. For other chains records are not counted.
DataFingerprint ReaderSession::FingerprintAsInput() {
  std::string unused;
  if (plan_.needs_index()) (void)Planned(&unused);
  DataFingerprint print = Fingerprint();
  print.records = 0;
  return print;
}

std::shared_ptr<ReaderSession> ReaderSession::InputSession() const {
  if (plan_.source.instances == nullptr) return nullptr;
  const Reader input = plan_.source.instances->input();
  return input ? ReaderAccess::NodeOf(input)->InnerSession() : nullptr;
}

std::string ReaderSession::WhyNoPosition() const {
  std::string why = plan_.WhyNoPosition();
  if (!why.empty() || plan_.source.instances == nullptr) return why;
  const Reader input = plan_.source.instances->input();
  if (!input) return why;
  // If Share had a session of its own, no other chain could be built on it.
  const GraphNode& node = *ReaderAccess::NodeOf(input);
  if (std::holds_alternative<ShareNode>(node.kind())) return LowerChain(node).WhyNoPosition();
  return InputSession()->WhyNoPosition();
}

std::string ReaderSession::OrderText() const {
  const std::string text = plan_.OrderText();
  const std::shared_ptr<ReaderSession> input = InputSession();
  if (input == nullptr) return text;
  return ShortOrder(text + "; it reads (" + input->OrderText() + ")");
}

void ReaderSession::RefuseWithoutPosition() const {
  const std::string why = WhyNoPosition();
  if (!why.empty()) Refuse(StatusCode::kUnsupported, "this chain has no position: " + why);
}

std::int64_t ReaderSession::RowsBefore() const {
  const std::lock_guard lock(mutex_);
  // A pass may have fewer rows than a batch: if nothing of it came before, none was whole.
  return start_->mark.place == 0 ? 0 : UsualRows();
}

std::int64_t ReaderSession::UsualRows() const {
  return plan_.looks_into_records() ? 0 : WholeRows();
}

std::int64_t ReaderSession::WholeRows() const {
  if (!plan_.batched) return 0;
  const auto ranks = static_cast<std::uint64_t>(plan_.batch.rank.world_size);
  return static_cast<std::int64_t>(plan_.batch.size / ranks);
}

ReaderSession::Places ReaderSession::Progress() const {
  const std::lock_guard lock(mutex_);
  Places places{began_, delivered_, *start_};
  if (run_ == nullptr && HasUserSource()) places.start.source_pass = SourcePass();
  return places;
}

std::string ReaderSession::Position(const BatchOrigin* behind) {
  RefuseWithoutPosition();
  if (behind == nullptr) (void)AwaitPosition(kNoDeadline);
  const auto [began, delivered, start] = Progress();
  if (behind == nullptr) return TextOf(delivered, start);
  return TextOf(PlaceBehind(*behind), behind->start != nullptr ? *behind->start : start);
}

std::string ReaderSession::StartPosition() {
  RefuseWithoutPosition();
  (void)AwaitPosition(kNoDeadline);
  const auto [began, delivered, start] = Progress();
  return TextOf(began, start);
}

bool ReaderSession::KnowsPosition() {
  const std::lock_guard lock(mutex_);
  return Settle();
}

bool ReaderSession::Settle() {
  if (settled_ || closed_) return true;
  const std::optional<PlanPosition> mark = run_ != nullptr ? run_->left_out() : std::nullopt;
  if (!mark) return false;
  if (delivered_.batch == began_.batch) delivered_.mark = mark;
  began_.mark = mark;
  settled_ = true;
  return true;
}

bool ReaderSession::AwaitPosition(Deadline deadline) {
  // The plan learns the position before the next delivery, which may never come, and then wakes
  // nobody. So this looks again and again: only a thread that aimed the chain asks, once.
  constexpr std::chrono::milliseconds kBetweenLooks{10};
  try {
    while (!KnowsPosition()) {
      const Deadline look = std::min(deadline, DeadlineAfter(kBetweenLooks));
      if (LookAhead(look, true) != ReadResult::kTimeout) break;
      if (NativeQueuePolicy::Expired(deadline)) return KnowsPosition();
    }
  } catch (const Error&) {
    return true;  // the next read says so
  }
  (void)KnowsPosition();
  return true;
}

std::string ReaderSession::TextOf(ChainPosition position, const RunStart& start) {
  std::string unused;
  const std::shared_ptr<IndexedSource> indexed = plan_.needs_index() ? Planned(&unused) : nullptr;
  if (!plan_.looks_into_records()) position.mark.reset();
  if (plan_.looks_into_records() && !position.mark) position.mark = PlanPosition{};
  if (plan_.source.mix != nullptr) {
    if (!position.mark) position.mark = MarkOfMixture(*indexed, start, position.batch);
    position.mix = indexed->MixBehind(start.mix, *position.mark);
  }
  position.source_pass = start.source_pass;
  position.order = OrderText();
  // Damage without a record's number has a place if it fails, and none if it is skipped.
  const bool shuffles_files = plan_.shuffled() && !OrdersByNumber(plan_);
  position.on_damage = shuffles_files ? PolicyName() : "";
  position.data = Fingerprint();
  // If their number need not be known, on any number of ranks, it would be in some texts of a place
  // and not in others.
  if (!OrdersByNumber(plan_)) position.data.records = 0;
  return position.ToJson();
}

// A mixture's weights may have changed since its beginning: counts from the run's start.
PlanPosition ReaderSession::MarkOfMixture(IndexedSource& indexed, const RunStart& start,
                                          std::uint64_t batch) const {
  return indexed.PlaceBehind(start.mark, start.mix, batch - std::min(batch, start.batch),
                             PositionRows(), plan_.batch.drop_remainder);
}

void ReaderSession::MakeIndex(IndexPurpose purpose, const std::stop_token& stop) {
  std::string unused;
  if (purpose == IndexPurpose::kCounting || plan_.needs_index()) (void)Planned(&unused, stop);
}

std::vector<std::uint64_t> ReaderSession::FileRecords() {
  std::string why;
  const std::shared_ptr<IndexedSource> indexed = Planned(&why);
  if (indexed == nullptr) Refuse(StatusCode::kUnsupported, "records cannot be counted: " + why);
  std::vector<std::uint64_t> records;
  for (const auto& set : indexed->sets()) {
    for (std::size_t file = 0; file < set->files(); ++file) {
      records.push_back(set->FirstRow(file + 1) - set->FirstRow(file));
    }
  }
  return records;
}

void ReaderSession::RefuseToGoBack() const {
  if (plan_.rewindable()) return;
  const std::lock_guard lock(mutex_);
  if (run_ == nullptr) return;
  Refuse(StatusCode::kUnsupported, "a stream that is being read cannot be read from elsewhere");
}

std::uint64_t ReaderSession::BatchOrEnd(IndexedSource* indexed, std::uint64_t batch) const {
  const bool counted = indexed != nullptr && !plan_.looks_into_records();
  if (!counted || plan_.source.mix != nullptr) return batch;
  return indexed->BatchOrEnd(batch, PositionRows(), plan_.batch.drop_remainder);
}

void ReaderSession::Aim(ChainPosition position, bool counted) {
  RefuseToGoBack();
  std::string why;
  const std::shared_ptr<IndexedSource> indexed = Planned(&why);
  position.batch = BatchOrEnd(indexed.get(), position.batch);
  Aimed aimed;
  RunStart& start = aimed.start;
  start.by_index = indexed != nullptr;
  if (indexed == nullptr) {
    start.mark.outputs = position.batch;
  } else if (plan_.looks_into_records()) {
    start.mark = position.mark.value_or(PlanPosition{0, 0, position.batch});
  } else if (plan_.source.mix != nullptr && position.mark) {
    start.mark = *position.mark;
  } else {
    start.mark = indexed->PlaceOf(position.batch, PositionRows(), plan_.batch.drop_remainder);
  }
  start.mix = position.mix;
  start.source_pass = counted ? Progress().start.source_pass : position.source_pass;
  start.other_policy =
      position.batch > 0 && !position.on_damage.empty() && position.on_damage != PolicyName();
  start.batch = position.batch - std::min(position.batch, start.mark.outputs);
  aimed.how = (start.by_index ? "by index" : "by reading up to there (" + why + ")") + ": pass " +
              std::to_string(start.mark.pass) + ", place " + std::to_string(start.mark.place);
  if (start.mark.outputs > 0) {
    aimed.how += ", leaving " + std::to_string(start.mark.outputs) +
                 (plan_.batched ? " batches" : " rows") + " out";
  }
  aimed.settled = !counted || !plan_.looks_into_records() || start.mark.outputs == 0;
  aimed.delivered = std::move(position);
  if (!aimed.delivered.mark) aimed.delivered.mark = start.mark;
  const std::lock_guard lock(mutex_);
  if (run_ == nullptr && (!HasUserSource() || start.source_pass == SourcePass())) {
    TakeAim(std::move(aimed));
  } else {
    aim_ = std::move(aimed);
  }
}

void ReaderSession::TakeAim(Aimed aimed) {
  start_ = std::make_shared<RunStart>(std::move(aimed.start));
  settled_ = aimed.settled;
  began_ = aimed.delivered;
  delivered_ = std::move(aimed.delivered);
  restored_ = std::move(aimed.how);
}

ChainPosition ReaderSession::Understood(const std::string& text) {
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
  std::string unused;
  const std::shared_ptr<IndexedSource> indexed = Planned(&unused);  // its fingerprint knows more
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
  // Checks whether its weights may have changed before anything is lost.
  if (plan_.source.mix != nullptr) indexed->CheckMix(position.mix, position.mark);
  return position;
}

void ReaderSession::CheckPosition(const std::string& text) {
  (void)Understood(text);
  RefuseToGoBack();
}

void ReaderSession::AimAt(const std::string& text) { Aim(Understood(text), false); }

void ReaderSession::AimAt(std::uint64_t batch) {
  RefuseWithoutPosition();
  ChainPosition position;
  position.batch = batch;
  Aim(position, true);
}

void ReaderSession::CheckSeek() {
  RefuseWithoutPosition();
  RefuseToGoBack();
  std::string unused;
  (void)Planned(&unused);
}

void ReaderSession::AimBehind(std::uint64_t batches) {
  RefuseWithoutPosition();
  const auto [began, delivered, start] = Progress();
  ChainPosition position = delivered;
  position.batch = SumOrMost(position.batch, batches);
  position.mix = start.mix;
  if (plan_.looks_into_records()) {
    if (position.mark) position.mark->outputs = SumOrMost(position.mark->outputs, batches);
  } else if (plan_.source.mix != nullptr) {
    std::string unused;
    position.mark = MarkOfMixture(*Planned(&unused), start, position.batch);
  }
  Aim(position, true);
}

bool ReaderSession::has_aim() const {
  const std::lock_guard lock(mutex_);
  return aim_.has_value();
}

std::vector<RecordRange> ReaderSession::RangesOf(const Origin& origin,
                                                 std::span<const std::uint64_t> numbers) {
  if (numbers.empty()) return {};
  if (origin.indexed != nullptr) return origin.indexed->RangesOf(numbers);
  return ringfeed::RangesOf(numbers, UnpackRecord);
}

BatchOrigin ReaderSession::OriginOf(const Origin& origin, std::size_t row) const {
  const OrderSpan& span = origin.span;
  BatchOrigin result;
  result.pass = origin.pass;
  if (HasUserSource() || plan_.source.mix != nullptr) result.start = origin.start;
  if (plan_.batched) {
    result.batch = origin.start->batch + span.number;
    result.mark = OriginMarkOf(span);
    result.records = RangesOf(origin, origin.numbers);
    result.damaged = RangesOf(origin, origin.damaged);
    return result;
  }
  if (!origin.numbers.empty()) result.records = RangesOf(origin, {&origin.numbers[row], 1});
  // The rows of one read have consecutive places.
  for (const std::size_t failed : origin.failed) row += failed <= row ? 1 : 0;
  result.batch = origin.start->batch + span.first_place + row;
  result.mark = {span.begin.pass, span.begin.place + row + 1, 0};
  return result;
}

void ReaderSession::NoteDelivered(const Origin& origin, const BatchOrigin& last) {
  const std::lock_guard lock(mutex_);
  if (origin.generation != generation_) return;
  const ChainPosition behind = PlaceBehind(last);
  if (behind.batch <= delivered_.batch) return;
  delivered_.batch = behind.batch;
  delivered_.mark = behind.mark;
}

}  // namespace ringfeed
