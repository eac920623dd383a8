#include "ringfeed/reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/chain/user_code.h"

namespace ringfeed {

RecordBlock::RecordBlock() = default;
RecordBlock::~RecordBlock() = default;

RecordBlock::RecordBlock(RecordBlock&& other) noexcept
    : records_(std::exchange(other.records_, {})), hold_(std::move(other.hold_)) {}

RecordBlock& RecordBlock::operator=(RecordBlock&& other) noexcept {
  records_ = std::exchange(other.records_, {});
  hold_ = std::move(other.hold_);
  return *this;
}

namespace {

std::shared_ptr<ReaderSession> SessionOf(const std::shared_ptr<GraphNode>& node) {
  if (node == nullptr) Refuse("the reader is empty: OpenFiles makes one");
  std::shared_ptr<ReaderSession> session = node->Session();
  if (UserCodeLocked::IsOf(session.get())) node->RefuseFromWithin();
  return session;
}

// For calls that wait for the chain's threads.
std::shared_ptr<ReaderSession> AwaitedSessionOf(const std::shared_ptr<GraphNode>& node) {
  std::shared_ptr<ReaderSession> session = SessionOf(node);
  node->RefuseFromWithin();
  return session;
}

// For calls that read: they may start the chain's threads.
std::shared_ptr<ReaderSession> ReadSessionOf(const std::shared_ptr<GraphNode>& node) {
  std::shared_ptr<ReaderSession> session = AwaitedSessionOf(node);
  node->NoteRead();
  return session;
}

}  // namespace

Reader::Reader(std::shared_ptr<GraphNode> node) : node_(std::move(node)) {}

std::vector<FieldSpec> Reader::fields() const {
  if (node_ == nullptr) return {};
  const ExecutionPlan plan = LowerChain(*node_);
  const std::span<const FieldSpec> parsed =
      plan.parser == nullptr ? std::span<const FieldSpec>() : plan.parser->fields();
  auto next = parsed.begin();  // slots are in the order of the parser's fields
  std::vector<FieldSpec> fields;
  for (SlotSpec& slot : plan.Slots()) {
    fields.push_back({std::move(slot.name), slot.dtype, std::move(slot.dims)});
    next = std::find_if(next, parsed.end(),
                        [&](const FieldSpec& field) { return field.name == fields.back().name; });
    if (next != parsed.end()) fields.back().logical_type = next->logical_type;
  }
  return fields;
}

std::vector<SlotSpec> Reader::slots() const {
  if (node_ == nullptr) return {};
  return LowerChain(*node_).Slots();
}

std::vector<Shape> Reader::shapes() const {
  std::vector<Shape> shapes;
  for (FieldSpec& field : fields()) shapes.push_back(std::move(field.shape));
  return shapes;
}

Instance Reader::ReadNext() {
  Instance instance;
  switch (TryReadNext(&instance)) {
    case ReadResult::kRecord:
      return instance;
    case ReadResult::kEnd:
      throw EndOfData();
    case ReadResult::kFailed:
    case ReadResult::kTimeout:  // without a deadline there is none
      break;
  }
  throw Error(status());
}

namespace {

ReadLimits LimitsOf(const ReadOptions& options) {
  return {options.stop, options.stop.stop_possible() ? kNoDeadline : options.deadline};
}

}  // namespace

ReadResult Reader::TryReadNext(Instance* instance, const ReadOptions& options) {
  BatchOrigin unused;
  BatchOrigin* const origin = options.origin != nullptr ? options.origin : &unused;
  return ReadSessionOf(node_)->ReadNext(instance, origin, LimitsOf(options));
}

std::shared_ptr<ReaderSession> ReaderAccess::SessionOf(const Reader& reader) {
  return ringfeed::SessionOf(reader.node_);
}

std::shared_ptr<ReaderSession> ReaderAccess::ReadSessionOf(const Reader& reader) {
  return ringfeed::ReadSessionOf(reader.node_);
}

ReadResult Reader::TryReadBlock(RecordBlock* block, const ReadOptions& options) {
  const std::shared_ptr<ReaderSession> session = ReadSessionOf(node_);
  if (session->plan().parser != nullptr || session->plan().passes_instances()) {
    Refuse("TryReadBlock delivers records as they are: not after Parse, Map or Batch");
  }
  return session->ReadBlock(block, options.origin, LimitsOf(options));
}

std::string Reader::Position() const { return AwaitedSessionOf(node_)->Position(); }

std::string Reader::Position(const BatchOrigin& origin) const {
  return SessionOf(node_)->Position(&origin);
}

std::string Reader::StartPosition() const { return AwaitedSessionOf(node_)->StartPosition(); }

bool Reader::AwaitPosition(Deadline deadline) const {
  return AwaitedSessionOf(node_)->AwaitPosition(deadline);
}

bool Reader::KnowsPosition() const { return SessionOf(node_)->KnowsPosition(); }

void Reader::CheckPosition(const std::string& position) const {
  SessionOf(node_)->CheckPosition(position);
}

void Reader::MakeIndex(IndexPurpose purpose, const std::stop_token& stop) {
  SessionOf(node_)->order().MakeIndex(purpose, stop);
}

std::vector<std::uint64_t> Reader::FileRecords() const {
  return SessionOf(node_)->order().FileRecords();
}

std::vector<std::string> Reader::FileNames() const {
  const std::shared_ptr<const RowReader> rows = SessionOf(node_)->order().Rows();
  std::vector<std::string> names;
  for (std::size_t file = 0; file < rows->table().files(); ++file) {
    names.push_back(rows->table().file(file).name);
  }
  return names;
}

Instance Reader::RecordAt(std::uint64_t number) const {
  return SessionOf(node_)->order().Rows()->Row(number);
}

Instance Reader::RecordsAt(std::span<const std::uint64_t> numbers) const {
  return SessionOf(node_)->order().Rows()->Rows(numbers);
}

std::vector<BatchRecord> Reader::Which(std::uint64_t batch, const std::string& position) const {
  return SessionOf(node_)->order().Which(batch, position);
}

std::uint64_t Reader::CountBatches() const { return SessionOf(node_)->order().CountBatches(); }

std::uint64_t Reader::BatchesOfStep() const { return SessionOf(node_)->order().BatchesOfStep(); }

void Reader::Restore(const std::string& position) {
  AwaitedSessionOf(node_)->AimAt(position);
  node_->GoToAim();
}

void Reader::SeekTo(std::uint64_t batch) {
  AwaitedSessionOf(node_)->AimAt(batch);
  node_->GoToAim();
}

void Reader::CheckSeek() const { SessionOf(node_)->CheckSeek(); }

void Reader::SkipBatches(std::uint64_t batches) {
  AwaitedSessionOf(node_)->AimBehind(batches);
  node_->GoToAim();
}

void Reader::ReserveBatches(std::size_t batches) { SessionOf(node_)->ReserveBatches(batches); }

bool Reader::HasNext() { return TryHasNext(kNoDeadline) == ReadResult::kRecord; }

ReadResult Reader::TryHasNext(Deadline deadline) { return ReadSessionOf(node_)->HasNext(deadline); }

std::optional<std::uint64_t> Reader::NextPass() {
  std::optional<std::uint64_t> pass;
  (void)TryNextPass(&pass, kNoDeadline);
  return pass;
}

ReadResult Reader::TryNextPass(std::optional<std::uint64_t>* pass, Deadline deadline) {
  return ReadSessionOf(node_)->NextPass(pass, deadline);
}

void Reader::ReInit() {
  AwaitedSessionOf(node_)->CheckOpen();
  node_->ReInit();
}

std::vector<Reader> Reader::EndPoints() const {
  std::vector<Reader> readers;
  if (node_ == nullptr) return readers;
  for (auto& node : node_->EndPoints()) readers.push_back(ReaderAccess::Of(std::move(node)));
  return readers;
}

void Reader::ResetAll() {
  if (node_ != nullptr) node_->ReInit();
}

void Reader::Close() { AwaitedSessionOf(node_)->Close(); }

Status Reader::status() const { return SessionOf(node_)->status(); }

PipelineStats Reader::Stats() const { return SessionOf(node_)->Stats(); }

}  // namespace ringfeed
