#include "tests/fuzz/frame_run.h"

#include <algorithm>
#include <memory>

#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

/// Memory of a call that counts what is asked of it.
class BoundedMemory final : public FrameMemory {
 public:
  explicit BoundedMemory(std::size_t most) : most_(most) {}

  std::byte* Allocate(std::size_t bytes) override {
    FuzzExpect(bytes > 0 && bytes <= most_, "no more memory is asked for than a record may have",
               [&] { return std::to_string(bytes) + " of " + std::to_string(most_); });
    pieces_.emplace_back(new std::byte[bytes]);
    return pieces_.back().get();
  }

 private:
  const std::size_t most_;
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
};

class Run {
 public:
  Run(std::span<const std::byte> file, const FrameControl& control, std::unique_ptr<Framer> framer)
      : file_(file), control_(control), framer_(std::move(framer)), state_(control.pieces) {
    if (control.limit_step != 0) limit_ = control.limit_step;
    end_ = EndFor(0);
  }

  FrameRun Finish() &&;

 private:
  bool Call();
  void Take(const FrameOutput& output, std::span<const std::byte> bytes);
  std::size_t EndFor(std::size_t at_least);

  const std::span<const std::byte> file_;
  const FrameControl& control_;
  const std::unique_ptr<Framer> framer_;
  FrameRun run_;
  unsigned state_;  // of the series of pieces
  std::uint64_t limit_ = kUnknownSize;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  int calls_ = 0;
};

// Some bytes more than there must be: of small files few, so that there are many ends, and never
// hundreds of calls.
std::size_t Run::EndFor(std::size_t at_least) {
  if (control_.pieces == 0 || at_least >= file_.size()) return file_.size();
  state_ = state_ * 1103515245U + 12345U;
  const std::size_t more = (state_ >> 16) % (2 + file_.size() / 4);
  return std::min(file_.size(), at_least + more);
}

void Run::Take(const FrameOutput& output, std::span<const std::byte> bytes) {
  for (const RecordSpan& record : output.records) {
    if (record.damaged()) {
      run_.records.push_back({FrameRun::kDamaged, FrameRun::kNoPlace});
      continue;
    }
    std::uint64_t at = FrameRun::kNoPlace;
    // What begins at their very end may be the next piece of memory.
    const std::byte* const end = bytes.data() + bytes.size();
    if (record.data >= bytes.data() &&
        (record.data < end || (record.data == end && record.size == 0))) {
      const auto into = static_cast<std::size_t>(record.data - bytes.data());
      FuzzExpect(record.size <= bytes.size() - into, "a record ends where its bytes do");
      at = at_ + into;
    }
    run_.records.push_back({record.size, at});
    run_.payload.append(reinterpret_cast<const char*>(record.data), record.size);
  }
  run_.damage.insert(run_.damage.end(), output.damage.begin(), output.damage.end());
}

// False at the end.
bool Run::Call() {
  // A copy for itself, also of the whole file: the framer must not look behind what it was given.
  const ExactCopy copy(file_.subspan(at_, end_ - at_));
  // A tar sample has a header of its own in front where a global one is in force.
  BoundedMemory memory(control_.max_record_bytes + file_.size() + 4096);
  FrameOutput output;
  const FrameResult result =
      framer_->Frame({copy.bytes(), at_, limit_, end_ == file_.size(), &memory}, &output);
  FuzzExpect(result.consumed <= copy.bytes().size(), "no more is consumed than there is");
  Take(output, copy.bytes());
  run_.status = result.status;
  if (!result.status.ok()) return false;
  at_ += result.consumed;
  end_ = std::max(end_, at_);
  if (result.need_bytes != 0) {
    FuzzExpect(end_ != file_.size(), "at the end of the file nothing more is asked for");
    end_ = EndFor(std::min(file_.size(), std::max(at_ + result.need_bytes, end_ + 1)));
  } else if (at_ >= limit_) {
    limit_ += (at_ - limit_) / control_.limit_step * control_.limit_step + control_.limit_step;
  } else if (end_ == file_.size()) {
    return false;
  } else {
    end_ = EndFor(end_ + 1);
  }
  FuzzExpect(++calls_ < 1 << 20, "framing ends");
  return true;
}

FrameRun Run::Finish() && {
  while (Call()) {
  }
  return std::move(run_);
}

void ExpectOrderly(const FrameRun& run, std::uint64_t file_bytes) {
  std::uint64_t before = 0;
  for (const DamagedRange& range : run.damage) {
    // Nothing may be left of the file where an index beside it is wrong.
    FuzzExpect(before <= range.begin && range.begin <= range.end && range.end <= file_bytes,
               "damage is in order, apart and inside of the file", [&] { return Described(run); });
    FuzzExpect(!range.reason.empty() && range.file == "file", "damage has a place and a reason");
    before = range.end;
  }
  before = 0;
  auto damage = run.damage.begin();
  for (const FrameRun::Record& record : run.records) {
    if (record.at == FrameRun::kNoPlace) continue;
    FuzzExpect(before <= record.at, "records are in order and apart",
               [&] { return Described(run); });
    before = record.at + record.bytes;
    while (damage != run.damage.end() && damage->end <= record.at) ++damage;
    // An empty record may stand where a range ends.
    FuzzExpect(damage == run.damage.end() || before <= damage->begin,
               "what is delivered is not reported as damaged", [&] { return Described(run); });
  }
}

}  // namespace

FrameRun RunFramer(const MakeFramer& make_framer, std::span<const std::byte> file,
                   OnDamage on_damage, const FrameControl& control) {
  FramerOptions options;
  options.file = "file";
  options.on_damage = on_damage;
  options.max_record_bytes = control.max_record_bytes;
  if (control.known_size) options.file_bytes = file.size();
  FrameRun run = Run(file, control, make_framer(options)).Finish();
  ExpectOrderly(run, file.size());
  return run;
}

std::string Described(const FrameRun& run) {
  std::string text = "\n" + std::to_string(run.records.size()) + " records:";
  for (const FrameRun::Record& record : run.records) {
    text += record.bytes == FrameRun::kDamaged ? " (damaged)" : " " + std::to_string(record.bytes);
    if (record.at != FrameRun::kNoPlace) text += "@" + std::to_string(record.at);
  }
  for (const DamagedRange& range : run.damage) {
    text += "\n" + std::to_string(range.begin) + " to " + std::to_string(range.end) + ": " +
            range.reason;
  }
  return text + "\n" + run.status.ToString();
}

}  // namespace ringfeed
