#include "readers/parsers/wrappers/timed_map.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/user_call.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

/// One row, by value: the block that it is from may be gone when the function asks.
class OneRow final : public CurrentRows {
 public:
  OneRow(const RecordSpan* record, DataPlace place, FileRecord at, std::uint64_t pass)
      : CurrentRows({record, 1}), place_(std::move(place)), at_(at), pass_(pass) {}
  DataPlace PlaceOf(std::size_t /*row*/) const override { return place_; }
  FileRecord RecordOf(std::size_t /*row*/) const override { return at_; }
  std::uint64_t PassOf(std::size_t /*row*/) const override { return pass_; }

 private:
  const DataPlace place_;
  const FileRecord at_;
  const std::uint64_t pass_;
};

// Keeps the slowest, the slowest first.
void AddSlow(SlowRow row, std::vector<SlowRow>* slowest) {
  constexpr std::size_t kMost = 10;
  const auto at = std::find_if(slowest->begin(), slowest->end(),
                               [&](const SlowRow& other) { return other.seconds < row.seconds; });
  slowest->insert(at, std::move(row));
  if (slowest->size() > kMost) slowest->pop_back();
}

}  // namespace

void RowTimes::Note(const DataPlace& place, Clock::duration took, bool given_up) {
  const double seconds = std::chrono::duration<double>(took).count();
  const std::lock_guard lock(mutex_);
  given_up_ += given_up ? 1 : 0;
  AddSlow({place.file, place.record, seconds}, &slowest_);
}

void RowTimes::AddTo(PipelineStats* stats) const {
  const std::lock_guard lock(mutex_);
  stats->given_up_rows += given_up_;
  for (const SlowRow& row : slowest_) AddSlow(row, &stats->slowest_rows);
}

struct TimedMap::Call {
  explicit Call(std::shared_ptr<const MapRules> its_rules)
      : rules(std::move(its_rules)), row(*rules) {}
  /// The thread's work.
  void Fill() noexcept {
    const RecordSpan span{record.data(), record.size()};
    try {
      const OneRow rows(&span, place, at, pass);
      row.place()->BeginRow();
      status = row.Fill(span, &rows);
    } catch (...) {
      status = StatusOfThrown("a row could not be mapped");
    }
  }

  const std::shared_ptr<const MapRules> rules;
  MapRow row;
  std::vector<std::byte> record;
  DataPlace place;
  FileRecord at;
  std::uint64_t pass = 0;
  Status status;
};

TimedMap::TimedMap(std::shared_ptr<const MapRules> rules, std::shared_ptr<RowTimes> times)
    : rules_(std::move(rules)), times_(std::move(times)) {}
TimedMap::~TimedMap() = default;

Status TimedMap::Start() {
  if (thread_) return {};
  call_ = std::make_shared<Call>(rules_);
  try {
    thread_.emplace("the thread of " + rules_->options.name + ", which row_timeout_ms asks for,",
                    [call = call_] { call->Fill(); });
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

Status TimedMap::Fill(const RecordSpan& record, const CurrentRows* rows, RowPlace* place) {
  if (WorkerStop::Requested()) return WorkerStop::Why();
  if (Status status = Start(); !status.ok()) return status;
  Call& call = *call_;
  const std::size_t row = rows != nullptr ? rows->IndexOf(record) : 0;
  // A record of no bytes has an address, too: a null one would be damaged.
  call.record.reserve(record.size + 1);
  call.record.assign(record.data, record.data + record.size);
  call.place = rows != nullptr ? rows->PlaceOf(row) : DataPlace();
  call.at = rows != nullptr ? rows->RecordOf(row) : FileRecord();
  call.pass = rows != nullptr ? rows->PassOf(row) : 0;
  const auto begin = Clock::now();
  const bool done = thread_->Run(std::chrono::milliseconds(rules_->options.row_timeout_ms));
  times_->Note(call.place, Clock::now() - begin, !done);
  if (!done) {
    thread_.reset();
    return Status(StatusCode::kDeadlineExceeded,
                  rules_->options.name + " did not return within " +
                      std::to_string(rules_->options.row_timeout_ms) +
                      " ms; its thread is given up");
  }
  for (std::size_t f = 0; call.status.ok() && f < rules_->fields.size(); ++f) {
    place->Set(f, call.row.place()->place(f));
  }
  (void)call.row.place()->TakeStorage();
  return std::exchange(call.status, Status());
}

}  // namespace ringfeed
