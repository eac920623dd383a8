#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "readers/formats/format.h"

namespace ringfeed {

/// Whether a call of Frame goes on after one of its steps.
enum class FrameStep : std::uint8_t { kGoOn, kStop };

/// One call of Frame, as its steps see it.
struct FrameCall {
  const FrameInput& input;
  FrameOutput* output;
  std::size_t pos = 0;  ///< so many bytes of the input are done with
  FrameResult result{};

  /// The place in the file of the bytes that are left, the first of them, and their number.
  std::uint64_t at() const { return input.offset + pos; }
  const std::byte* data() const { return input.bytes.data() + pos; }
  std::size_t left() const { return input.bytes.size() - pos; }
  /// The end in the file of the bytes at hand.
  std::uint64_t end() const { return input.offset + input.bytes.size(); }

  /// Stops: the next call must have so many bytes from at() on.
  FrameStep Need(std::uint64_t bytes) {
    result.need_bytes = static_cast<std::size_t>(bytes);
    return FrameStep::kStop;
  }
  /// Stops after all bytes at hand. If they are not the last ones, nor at the limit, so many more
  /// are needed.
  FrameStep PassRest(std::size_t more) {
    pos = input.bytes.size();
    return Need(input.at_end || at() >= input.limit ? 0 : more);
  }
};

/// A framer that goes over the bytes at hand in steps. It numbers the records, and fails for good.
class SteppedFramer : public Framer {
 public:
  explicit SteppedFramer(const FramerOptions& options) : options_(options) {}

  FrameResult Frame(const FrameInput& input, FrameOutput* output) final {
    FrameCall call{input, output};
    call.result.status = failed_;
    if (failed_.ok()) Run(&call);
    call.result.consumed = call.pos;
    return std::move(call.result);
  }

 protected:
  /// Takes the steps of a call. It has not failed before.
  virtual void Run(FrameCall* call) = 0;

  FrameStep Fail(Status failure, FrameCall* call) {
    call->result.status = failed_ = std::move(failure);
    return FrameStep::kStop;
  }
  /// Fails with the next record, at that place.
  FrameStep Fail(StatusCode code, std::string reason, std::uint64_t at, FrameCall* call) {
    const DataPlace place{options_.file, static_cast<std::int64_t>(at), next_record_};
    return Fail(Status(code, std::move(reason), place), call);
  }
  /// Damage that is passed over.
  void Note(std::uint64_t begin, std::uint64_t end, std::string reason, FrameCall* call) const {
    call->output->damage.push_back({options_.file, begin, end, std::move(reason)});
  }
  /// Damage whose end is known: it fails, or is passed over.
  FrameStep Damaged(StatusCode code, std::string reason, std::uint64_t begin, std::uint64_t end,
                    FrameCall* call) {
    if (options_.on_damage == OnDamage::kFail) return Fail(code, std::move(reason), begin, call);
    Note(begin, end, std::move(reason), call);
    return FrameStep::kGoOn;
  }
  void Append(RecordSpan record, const FramedUnit& unit, FrameCall* call) {
    call->output->records.push_back(record);
    if (call->output->units != nullptr) call->output->units->push_back(unit);
    ++next_record_;
  }
  /// The next record is lost, and keeps its number.
  void LoseRecord(std::uint64_t at, FrameCall* call) { Append({}, {at, at, 1, true}, call); }

  std::string ShrankTo(std::uint64_t bytes) const {
    return "the file shrank from " + std::to_string(options_.file_bytes) + " to " +
           std::to_string(bytes) + " bytes";
  }
  std::string AboveLimit(const std::string& what) const {
    return what + " is longer than max_record_bytes (" + std::to_string(options_.max_record_bytes) +
           ")";
  }

  bool known_size() const { return options_.file_bytes != kUnknownSize; }
  /// How many bytes of a file of known size follow `at`.
  std::uint64_t FileLeft(std::uint64_t at) const {
    return options_.file_bytes - std::min(at, options_.file_bytes);
  }
  /// The same of any file, as far as it is known.
  std::uint64_t FileLeft(std::uint64_t at, const FrameInput& input) const {
    return known_size() ? FileLeft(at) : FileEnd(input) - at;
  }
  /// The end of the file as far as it is known: the bytes at hand reach it if at_end is set.
  std::uint64_t FileEnd(const FrameInput& input) const {
    return input.at_end ? input.offset + input.bytes.size() : options_.file_bytes;
  }

  const FramerOptions options_;
  std::int64_t next_record_ = 0;

 private:
  Status failed_;
};

/// A framer of files in which nothing marks the start of a record: after damage of unknown length
/// the rest of the file is one range of damage.
class RestLosingFramer : public SteppedFramer {
 public:
  using SteppedFramer::SteppedFramer;

 protected:
  /// Takes records up to the limit, the end, or LoseRest.
  virtual void Walk(FrameCall* call) = 0;
  /// Whether no record begins at the place of the call: it is the limit, or the file's end. If a
  /// file of known size ends there too early, the rest is lost.
  bool IsAtEnd(FrameCall* call) {
    const std::uint64_t at = call->at();
    if (known_size() && at >= options_.file_bytes) return true;
    const bool ends = call->left() == 0 && call->input.at_end;
    if (ends && known_size()) (void)LoseRest(StatusCode::kTruncated, ShrankTo(at), call);
    return ends || at >= call->input.limit;
  }
  /// Damage at the place of the call: it fails, or the rest of the file is lost.
  FrameStep LoseRest(StatusCode code, std::string reason, FrameCall* call) {
    if (options_.on_damage == OnDamage::kFail)
      return Fail(code, std::move(reason), call->at(), call);
    lost_ = true;
    lost_at_ = call->at();
    lost_reason_ = std::move(reason);
    if (known_size()) NoteLost(options_.file_bytes, call);
    return FrameStep::kStop;
  }

 private:
  void Run(FrameCall* call) final {
    if (!lost_) Walk(call);
    if (lost_) PassOver(call);
  }
  // If the file's size is not known, this waits for its end.
  void PassOver(FrameCall* call) {
    // Until the end is known a byte is kept: without one no call would come to tell it.
    const std::size_t kept = noted_ || call->input.at_end ? 0 : 1;
    call->pos = call->input.bytes.size() - std::min(kept, call->left());
    const std::uint64_t at = call->at();
    if (!noted_ && call->input.at_end) NoteLost(at, call);
    const bool done =
        call->input.at_end || at >= call->input.limit || (known_size() && FileLeft(at) == 0);
    call->Need(done ? 0 : kept + 1);
  }
  void NoteLost(std::uint64_t end, FrameCall* call) {
    Note(lost_at_, end, std::move(lost_reason_), call);
    noted_ = true;
  }

  bool lost_ = false;  ///< nothing from lost_at_ on is believed any more
  bool noted_ = false;
  std::uint64_t lost_at_ = 0;
  std::string lost_reason_;
};

}  // namespace ringfeed
