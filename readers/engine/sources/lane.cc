#include "readers/engine/sources/lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/memory/arena_advice.h"
#include "base/refusal.h"
#include "base/user_call.h"
#include "io/remote/remote_source.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

// So much is handed on together, if there is no wait in between.
constexpr std::size_t kMostInstances = 64;
constexpr std::size_t kMostRecords = 4096;
constexpr std::size_t kMostBytes = 256 * 1024;
constexpr std::chrono::milliseconds kLongest{1};
// How many records pass between looks at the clock.
constexpr std::size_t kRecordsPerLook = 16;

constexpr const char* kReader = "the reader";
constexpr const char* kWhyInOrder = "compressed: read inline from start to end";

// Asks a user's code for what comes next. What it throws, or may not return, is a failure.
template <typename Next>
ReadResult AskUser(const std::string& name, const Next& next, Status* status) {
  ReadResult result = ReadResult::kFailed;
  Status thrown = CallUser(
      name, [&] { result = next(); },
      ThrownError::kKeepsStatus);  // a chain that it reads gives its own status
  if (!thrown.ok()) {
    *status = std::move(thrown);
    return ReadResult::kFailed;
  }
  switch (result) {
    case ReadResult::kRecord:
    case ReadResult::kEnd:
    case ReadResult::kFailed:
      return result;
    case ReadResult::kTimeout:
      *status = Status(StatusCode::kUserError, name + " returned kTimeout: it has no deadline");
      break;
    default:
      *status = Status(StatusCode::kUserError, name + " returned no ReadResult, but " +
                                                   std::to_string(static_cast<int>(result)));
  }
  return ReadResult::kFailed;
}

// What Ready throws is a failure after the rows before it.
template <typename User>
bool IsReady(const std::string& name, const User& user, Block* block) {
  bool ready = false;
  Status thrown = CallUser(
      name + "'s Ready", [&] { ready = user.Ready(); }, ThrownError::kKeepsStatus);
  if (!thrown.ok()) block->status = std::move(thrown);
  return ready;
}

}  // namespace

bool UserPasses::Begin(const std::string& name, const std::function<bool()>& rewind, Block* block) {
  if (!ended) return true;
  ended = false;
  ++pass_;
  if (passes_ != 0 && pass_ == passes_) {
    block->stream_ends = true;
    return false;
  }
  records = 0;
  bool began = false;
  block->status = CallUser(
      name + "'s ReInit", [&] { began = rewind(); }, ThrownError::kKeepsStatus);
  if (!began && block->status.ok()) {
    block->status = Status(StatusCode::kUnsupported,
                           name + " cannot start again for another pass: ReInit said no");
  }
  return began;
}

InstanceLane::InstanceLane(InstanceSource* source, std::span<const SlotSpec> slots,
                           std::uint64_t passes, LaneContext* context, std::function<bool()> rewind,
                           std::stop_token stop, AskForRoom room)
    : source_(source),
      slots_(slots),
      passes_(passes),
      context_(context),
      rewind_(std::move(rewind)),
      stop_(std::move(stop)),
      room_(std::move(room)) {}

ReadResult InstanceLane::Next(Instance* instance, Status* status) {
  ReadResult result = AskUser(
      kReader, [&] { return source_->ReadNext(instance, stop_, status); }, status);
  if (result == ReadResult::kFailed && status->ok()) {
    *status = Status(StatusCode::kUserError, "the reader returned kFailed without a status");
  }
  if (result == ReadResult::kRecord && !slots_.empty()) {
    *status = CheckInstance(slots_, *instance);
    if (!status->ok()) result = ReadResult::kFailed;
  }
  return result;
}

bool InstanceLane::Fill(Block* block) {
  if (!passes_.Begin(kReader, rewind_, block)) return true;
  const InputTimer timer(*context_->read_clock, *context_->wait_clock);
  // They must not move: records point at them.
  block->instances.reserve(kMostInstances);
  block->first_record = passes_.records;
  const LaneRoom room = room_ ? room_() : LaneRoom();
  std::uint64_t bytes = 0;
  const Clock::time_point started = Clock::now();
  do {
    Instance instance;
    Status status;
    const ReadResult result = Next(&instance, &status);
    if (result == ReadResult::kFailed) {
      block->status = status;
    } else if (result == ReadResult::kEnd) {
      block->pass_ends = passes_.ended = true;
    } else {
      block->instances.push_back(std::move(instance));
      const Instance& held = block->instances.back();
      block->frame.records.push_back({reinterpret_cast<const std::byte*>(&held), sizeof(Instance)});
      bytes += block->BytesOf(static_cast<std::uint32_t>(block->instances.size() - 1));
    }
  } while (block->status.ok() && !block->pass_ends && !stop_.stop_requested() &&
           block->instances.size() < std::min<std::uint64_t>(kMostInstances, room.records) &&
           bytes < room.bytes && IsReady(kReader, *source_, block) &&
           Clock::now() - started < kLongest);
  passes_.records += block->instances.size();
  return true;
}

FileLane::FileLane(std::size_t index, FileSchedule* schedule, const SourceNode& source,
                   LaneContext* context, std::stop_token stop, FileNews news, FileRereads rereads)
    : index_(index),
      schedule_(schedule),
      source_(source),
      context_(context),
      stop_(std::move(stop)),
      news_(std::move(news)),
      rereads_(std::move(rereads)) {}

bool FileLane::Fill(Block* block) {
  if (reader_ == nullptr && user_lane_ == nullptr) {
    if (turns_left_ > 0) {  // of a file that had less than was scheduled
      --turns_left_;
      return true;
    }
    const Assignment assignment = schedule_->Next(index_);
    waiting_ = assignment.kind == Assignment::Kind::kWait;
    waits_since_ = assignment.version;
    if (waiting_) return false;
    if (assignment.kind == Assignment::Kind::kPassEnd) {
      block->pass_ends = true;
      return true;
    }
    if (assignment.kind == Assignment::Kind::kEnd) {
      block->stream_ends = true;
      return true;
    }
    file_index_ = static_cast<std::uint32_t>(assignment.file);
    tells_turns_ = assignment.stripes == kUnknownSize;
    turns_left_ = tells_turns_ ? 0 : assignment.stripes;
    if (source_.file_readers ? !OpenByUser(assignment, block) : !Open(assignment, block)) {
      EndTurn(true, block);
      return true;
    }
  }
  block->file_index = file_index_;
  if (user_lane_ != nullptr) return FillByUser(block);
  if (!reader_->ReadPart(block)) return false;
  frames_hot_ = reader_->frames_hot();
  const bool ends = reader_->stripes_left() == 0 || !block->status.ok();
  if (block->turn_ends) EndTurn(ends, block);
  if (ends) reader_.reset();
  return true;
}

// A file with a known number of turns takes that many, even if another file has its name since they
// were counted: other lanes' reads and waits depend on the number.
void FileLane::EndTurn(bool file_ends, Block* block) {
  if (tells_turns_) {
    schedule_->EndTurn(index_, file_ends);
  } else if (turns_left_ == 1 && !file_ends) {
    block->turn_ends = false;
  } else {
    --turns_left_;
  }
}

namespace {

// No pass reads bytes that were appended to a file. If another file is longer, its end is lost.
Status CheckScheduled(const Assignment& assignment, const InputFile& file) {
  const bool is_same = assignment.inode == 0 || assignment.inode == file.state().inode;
  if (is_same || file.size() <= assignment.bytes) return {};
  return Status(StatusCode::kDamaged,
                "the file was replaced by a longer one: it had " +
                    std::to_string(assignment.bytes) +
                    " bytes when its turns were counted and has " + std::to_string(file.size()),
                {assignment.name, -1, -1});
}

}  // namespace

bool FileLane::Open(const Assignment& assignment, Block* block) {
  if (!assignment.status.ok()) {
    Fail(assignment, assignment.status, block);
    return false;
  }
  const std::shared_ptr<Source> source =
      assignment.object != nullptr ? assignment.object : schedule_->source(assignment.file);
  const std::string& name = assignment.name;
  if (context_->check_format) {
    const Status unfit = context_->check_format(assignment.format->name());
    if (!unfit.ok()) {
      block->Deny(unfit.WithPlace({name, -1, -1}));
      return false;
    }
  }
  const IoOptions& io = context_->options->io;
  const bool compressed = assignment.compression != Compression::kNone;
  OpenInputResult opened = source ? (compressed ? OpenSequentialSource(source) : OpenSource(source))
                                  : (compressed ? OpenSequentialInput(name, io, kWhyInOrder)
                                                : OpenInput(name, io, RulesFor(assignment)));
  if (!opened.status.ok()) {
    const Status why = opened.status.WithPlace({name, -1, -1});
    if (!IsNoDamage(why)) {
      Fail(assignment, why, block);
      return false;
    }
    if (news_.failed) news_.failed(name, why);
    block->Deny(why);
    return false;
  }
  const std::shared_ptr<InputFile> file = std::move(opened.file);
  Status status = CheckScheduled(assignment, *file);
  if (!status.ok()) {
    Fail(assignment, status, block);
    return false;
  }
  reader_ = MakeStripeReader(context_, file, assignment, &status);
  if (reader_ == nullptr) {
    block->Deny(status);  // no engine reads it
    return false;
  }
  if (news_.opened) news_.opened(*file);
  frames_hot_ = reader_->frames_hot();
  return true;
}

OpenRules FileLane::RulesFor(const Assignment& assignment) const {
  OpenRules rules;
  // The first pass may be the only one; from the second on a resident file is worth mapping.
  rules.may_map = assignment.pass > 0 || rereads_.read_before;
  if (!rereads_.PayFor(assignment.pass)) return rules;
  rules.may_load = [this, &assignment](std::uint64_t bytes) {
    CacheRoom& room = *rereads_.room;
    const auto name = [this](std::size_t file) -> const std::string& {
      return schedule_->name(file);
    };
    // A file that was loaded before and is cold again was pushed out, and would be once more.
    return room.HasRoomForAll(schedule_->files(), name, rereads_.ranks) &&
           room.Take(assignment.name, bytes) == CacheRoom::Taken::kNew;
  };
  return rules;
}

bool FileLane::OpenByUser(const Assignment& assignment, Block* block) {
  Status status = assignment.status;
  if (status.ok()) {
    status = CallUser("the format's constructor", [&] {
      user_reader_ = (*source_.file_readers)(assignment.name, source_.slots);
    });
    if (status.ok() && user_reader_ == nullptr) {
      status = Status(StatusCode::kUserError, "the format's constructor made no reader");
    }
  }
  if (!status.ok()) {
    Fail(assignment, status.WithPlace({assignment.name, -1, -1}), block);
    return false;
  }
  assignment_ = assignment;
  if (news_.read) news_.read(assignment.name);
  user_lane_ = std::make_unique<InstanceLane>(user_reader_.get(), source_.slots, 1, context_,
                                              std::function<bool()>(), stop_);
  return true;
}

bool FileLane::FillByUser(Block* block) {
  (void)user_lane_->Fill(block);
  block->turn_ends = std::exchange(block->pass_ends, false);
  if (block->status.ok() && !block->turn_ends) return true;
  user_lane_.reset();
  user_reader_.reset();
  EndTurn(true, block);
  if (block->status.ok()) return true;
  const Status status = std::exchange(block->status, Status());
  block->turn_ends = true;
  Fail(assignment_, status.WithPlace({assignment_.name, -1, -1}), block);
  return true;
}

void FileLane::Fail(const Assignment& assignment, const Status& status, Block* block) {
  if (news_.failed) news_.failed(assignment.name, status);
  if (IsRefusal(status)) {
    block->Deny(status);
    return;
  }
  const bool of_store = IsOfStore(schedule_->source(assignment.file).get());
  if (context_->options->on_damage == OnDamage::kFail || IsNoDamage(status, of_store)) {
    block->status = status;
    return;
  }
  // Skipped: its first turn reports it, the others are empty.
  block->frame.damage.push_back({assignment.name, 0, assignment.bytes, status.ToString()});
}

RecordLane::RecordLane(RecordProvider* provider, std::uint64_t passes, LaneContext* context,
                       std::stop_token stop, AskForRoom room)
    : provider_(provider),
      passes_(passes),
      context_(context),
      stop_(std::move(stop)),
      room_(std::move(room)) {}

ReadResult RecordLane::Next(std::span<const std::byte>* record, Status* status) {
  ReadResult result = AskUser(
      provider_->name(), [&] { return provider_->Next(record, stop_, status); }, status);
  if (result == ReadResult::kFailed && status->ok()) {
    *status = Status(StatusCode::kCancelled, provider_->name() + " was stopped");
  }
  if (result == ReadResult::kRecord && record->size() > context_->options->max_record_bytes) {
    *status = Status(StatusCode::kResourceExhausted,
                     "a record of " + std::to_string(record->size()) +
                         " bytes is longer than max_record_bytes (" +
                         std::to_string(context_->options->max_record_bytes) + ")");
    result = ReadResult::kFailed;
  }
  return result;
}

bool RecordLane::Append(std::span<const std::byte> record, BlockMemory* memory, Block* block) {
  // An empty record has a place too.
  std::byte* const to = memory->Allocate(std::max<std::size_t>(1, record.size()));
  if (to == nullptr) {
    block->Deny(Status(StatusCode::kResourceExhausted,
                       NoMemoryFor("a record of " + std::to_string(record.size()) + " bytes")));
    return false;
  }
  std::copy(record.begin(), record.end(), to);
  block->frame.records.push_back({to, record.size()});
  return true;
}

bool RecordLane::Fill(Block* block) {
  const auto rewind = [this] { return provider_->ReInit(); };
  if (!passes_.Begin(provider_->name(), rewind, block)) return true;
  const InputTimer timer(*context_->read_clock, *context_->wait_clock);
  const Clock::time_point started = Clock::now();
  BlockMemory memory(context_->arena);
  std::vector<RecordSpan>& records = block->frame.records;
  const LaneRoom room = room_ ? room_() : LaneRoom();
  const std::uint64_t most_records = std::min<std::uint64_t>(kMostRecords, room.records);
  const std::uint64_t most_bytes = std::min<std::uint64_t>(kMostBytes, room.bytes);
  std::size_t bytes = 0;
  block->file_name = provider_->name();
  block->first_record = passes_.records;
  do {
    if (records.size() % kRecordsPerLook == 1 && Clock::now() - started > kLongest) break;
    std::span<const std::byte> record;
    Status status;
    const ReadResult result = Next(&record, &status);
    if (result == ReadResult::kEnd) {
      block->pass_ends = passes_.ended = true;
    } else if (result == ReadResult::kFailed) {
      const std::uint64_t number = passes_.records + records.size();
      // A place with a file counts from that file's start, not from the data set's.
      block->status =
          status.place().file.empty()
              ? status.WithPlace({block->file_name, -1, static_cast<std::int64_t>(number)})
              : status;
    } else if (Append(record, &memory, block)) {
      bytes += record.size();
    }
  } while (!block->pass_ends && block->status.ok() && records.size() < most_records &&
           bytes < most_bytes && IsReady(block->file_name, *provider_, block) &&
           !stop_.stop_requested());
  passes_.records += records.size();
  memory.GiveTo(block);
  return true;
}

}  // namespace ringfeed
