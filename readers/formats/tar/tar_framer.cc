#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/memory/arena_advice.h"
#include "readers/formats/stepped_framer.h"
#include "readers/formats/tar/tar.h"
#include "readers/formats/tar/tar_loss.h"
#include "readers/formats/tar/tar_unit.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBlock = TarLayout::kBlockBytes;
// What is asked for after a member: the headers of a few small ones and of the next sample.
constexpr std::uint64_t kAhead = 8 * kBlock;
// How far past a damaged header the framer looks for the next intact one while it keeps back the
// sample in front: if the header was one of that sample's, its members go on there.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 20;
// From this many questions for one sample on, each asks for half as much again: linear time.
constexpr int kFewQuestions = 16;

class TarFramer final : public SteppedFramer {
 public:
  using SteppedFramer::SteppedFramer;

  /// Starts at `offset`, after a loss.
  void StartBehindGap(std::uint64_t offset);

 private:
  void Run(FrameCall* call) override;
  FrameStep NextStep(FrameCall* call);
  FrameStep NextUnit(FrameCall* call);
  FrameStep Member(TarUnit unit, FrameCall* call);
  FrameStep PassOver(TarUnit unit, FrameCall* call);
  void Advance(TarUnit unit);
  FrameStep EndMark(FrameCall* call);
  FrameStep Tail(FrameCall* call);
  FrameStep AtEnd(FrameCall* call);
  void WarnOfEnd(FrameCall* call);
  FrameStep CutShort(FrameCall* call);
  FrameStep Lose(const TarUnit& unit, FrameCall* call);
  FrameStep LoseMember(const TarUnit& unit, FrameCall* call);
  FrameStep StartSearch(std::uint64_t from, std::uint64_t boundary, FrameCall* call);
  FrameStep Search(FrameCall* call);
  bool TryBoundary(FrameCall* call, FrameStep* step);
  bool Tiles(const FrameInput& input, std::uint64_t at, std::uint64_t end) const;
  FrameStep Resolve(std::string_view after, std::string_view after_member, FrameCall* call);
  bool LearnFromNext(FrameCall* call, FrameStep* step);
  TarLoss::Verdict Verdict(std::string_view after, std::string_view after_member) const;
  FrameStep TooLong(TarUnit unit, FrameCall* call);
  FrameStep Unsupported(const TarUnit& unit, FrameCall* call);
  FrameStep EndSampleBefore(std::string_view key, std::string_view extension, FrameCall* call);
  FrameStep Failed(StatusCode code, const std::string& reason, std::uint64_t at, FrameCall* call);
  FrameStep More(std::uint64_t target, FrameCall* call);
  void BeginSample(std::string_view key);
  FrameStep Close(FrameCall* call);
  void Drop(std::uint64_t begin, std::string_view key);
  bool LostIsDue(FrameCall* call);
  void NoteLoss(std::uint64_t begin, std::uint64_t end, const std::string& reason, FrameCall* call);
  FrameStep Emit(FrameCall* call);

  /// Whether the sample at hand has a member of that extension.
  bool IsThere(std::string_view extension) const { return pending_ && members_.Has(extension); }
  static std::span<const std::byte> From(const FrameInput& input, std::uint64_t at) {
    return input.bytes.subspan(static_cast<std::size_t>(at - input.offset));
  }
  /// The place of a null span that is due.
  std::uint64_t LostPlace(const FrameInput& input) const {
    return std::min(at_, std::max<std::uint64_t>(1, FileEnd(input)) - 1);
  }
  /// The first byte that is still needed.
  std::uint64_t Base() const { return pending_ ? begin_ : searching_ ? search_at_ : at_; }

  std::uint64_t at_ = 0;  // the next unit
  /// The unit before it, and the state before that: it may prove to be cut short.
  struct Last {
    TarUnit unit;
    std::uint64_t at = 0;
    std::uint64_t end = 0;
    std::size_t members = 0;
  };
  Last last_;
  TarGlobals globals_;
  std::string key_;        // of the sample at hand
  bool pending_ = false;   // its members so far are intact
  bool dropping_ = false;  // it is damaged: the rest of it is passed over
  /// The null span of a sample that was lost after another one: it belongs to the stripe of at_.
  bool lost_is_due_ = false;
  std::uint64_t begin_ = 0;  // of the sample, or of the damage
  std::uint64_t end_ = 0;    // of its last member
  int questions_ = 0;        // for more of it
  TarMembers members_;       // of it
  TarExtensions usual_;      // of the last whole sample
  TarGlobals sample_globals_;
  std::string drop_reason_;
  bool tail_ = false;  // after the end of the archive, which starts at begin_
  bool lost_ = false;  // loss_ was not attributed yet
  TarLoss loss_;
  bool searching_ = false;  // for the next intact header
  bool anywhere_ = false;   // even between blocks
  std::uint64_t search_at_ = 0;
  std::uint64_t boundary_ = 0;  // the place that the damaged header gives for the next one; 0:
                                // tried
  bool warned_ = false;         // of an archive without its end
};

void TarFramer::Run(FrameCall* call) {
  at_ = std::max(at_, call->input.offset);  // the first bytes may be at any place
  while (NextStep(call) == FrameStep::kGoOn) {
  }
  // If a null span waits for a later stripe at the file's end, a byte is kept: else no call comes.
  const std::uint64_t wanted = lost_is_due_ ? std::min(Base(), LostPlace(call->input)) : Base();
  const std::uint64_t base = std::clamp(wanted, call->input.offset, call->end());
  call->pos = static_cast<std::size_t>(base - call->input.offset);
}

void TarFramer::StartBehindGap(std::uint64_t offset) {
  at_ = offset;
  loss_.Begin(offset, offset, StatusCode::kDamaged, "what stood in front of it is lost");
  loss_.AddHeader({});
  lost_ = true;
  searching_ = true;
  anywhere_ = true;
  search_at_ = offset;
}

FrameStep TarFramer::NextStep(FrameCall* call) {
  if (searching_) return Search(call);
  if (tail_) return Tail(call);
  return NextUnit(call);
}

// Stops, and asks for the bytes up to `target` of the file.
FrameStep TarFramer::More(std::uint64_t target, FrameCall* call) {
  const std::uint64_t base = Base();
  const std::uint64_t have = call->end() - std::min(base, call->end());
  if (++questions_ > kFewQuestions) target = std::max(target, base + have + have / 2);
  target = std::min(target, FileEnd(call->input));
  return call->Need(std::max<std::uint64_t>(target - base, 1));
}

FrameStep TarFramer::NextUnit(FrameCall* call) {
  const FrameInput& input = call->input;
  const std::uint64_t end = call->end();
  if (at_ > end) {
    if (input.at_end) return CutShort(call);
    if (pending_) return More(at_ + kAhead, call);
    return call->Need(end < input.limit ? kBlock : 0);
  }
  if (at_ >= FileEnd(input)) {
    WarnOfEnd(call);
    return AtEnd(call);
  }
  if (!pending_ && at_ >= input.limit) return FrameStep::kStop;
  TarUnit unit = ReadTarUnit(From(input, at_), FileEnd(input) - at_, &globals_);
  switch (unit.kind) {
    case TarUnit::Kind::kMember:
      return Member(std::move(unit), call);
    case TarUnit::Kind::kPassOver:
      return PassOver(std::move(unit), call);
    case TarUnit::Kind::kZeros:
      return EndMark(call);
    case TarUnit::Kind::kMore:
      return More(at_ + unit.need_bytes, call);
    case TarUnit::Kind::kDamage:
      break;
  }
  return unit.code == StatusCode::kUnsupported ? Unsupported(unit, call) : Lose(unit, call);
}

void TarFramer::Advance(TarUnit unit) {
  last_ = {std::move(unit), at_, end_, members_.first().size()};
  at_ += last_.unit.end;
}

FrameStep TarFramer::PassOver(TarUnit unit, FrameCall* call) {
  if (unit.end > FileEnd(call->input) - at_) return LoseMember(unit, call);
  Advance(std::move(unit));
  return FrameStep::kGoOn;
}

FrameStep TarFramer::Member(TarUnit unit, FrameCall* call) {
  if (lost_ && loss_.takes_next()) {
    loss_.TakeNext(unit.name);
    return PassOver(std::move(unit), call);
  }
  std::string_view key;
  std::string_view extension;
  if (!SplitTarName(unit.name, &key, &extension)) return PassOver(std::move(unit), call);
  FrameStep step = FrameStep::kGoOn;
  if (lost_ && usual_.empty() && pending_ && LearnFromNext(call, &step)) return step;
  if (EndSampleBefore(key, extension, call) == FrameStep::kStop) return FrameStep::kStop;
  if (!pending_ && !dropping_) {
    if (at_ >= call->input.limit) return FrameStep::kStop;
    BeginSample(key);
  }
  if (unit.end > FileEnd(call->input) - at_) return LoseMember(unit, call);
  if (pending_ && at_ + unit.end - begin_ > options_.max_record_bytes) {
    return TooLong(std::move(unit), call);
  }
  const std::string member(extension);
  Advance(std::move(unit));
  end_ = at_;
  members_.Add(member);
  return FrameStep::kGoOn;
}

// A member of that name starts at at_. It begins another sample if its key is another one, or if
// the sample at hand has such a member: joined archives may have samples of one key next to each
// other. After a loss it is unknown at which member such a sample begins: all of the key are
// dropped.
FrameStep TarFramer::EndSampleBefore(std::string_view key, std::string_view extension,
                                     FrameCall* call) {
  if (lost_ && Resolve(key, extension, call) == FrameStep::kStop) return FrameStep::kStop;
  if (LostIsDue(call)) return FrameStep::kStop;
  const bool is_other = ((pending_ || dropping_) && key != key_) || IsThere(extension);
  return is_other ? Close(call) : FrameStep::kGoOn;
}

// The members before it are whole samples unless they are of its own one.
FrameStep TarFramer::Unsupported(const TarUnit& unit, FrameCall* call) {
  std::string_view key;
  std::string_view extension;
  const bool is_member = SplitTarName(unit.name, &key, &extension);
  if (is_member && EndSampleBefore(key, extension, call) == FrameStep::kStop) {
    return FrameStep::kStop;
  }
  if (!pending_ && at_ >= call->input.limit) return FrameStep::kStop;
  return Failed(unit.code, unit.reason, at_ + unit.header_at, call);
}

void TarFramer::BeginSample(std::string_view key) {
  pending_ = true;
  key_ = key;
  begin_ = at_;
  end_ = at_;
  questions_ = 0;
  members_.Clear();
  sample_globals_ = globals_;
}

// The sample is known to its end, but is too long to be held.
FrameStep TarFramer::TooLong(TarUnit unit, FrameCall* call) {
  const std::string reason = AboveLimit("sample " + key_);
  if (options_.on_damage == OnDamage::kFail) {
    return Failed(StatusCode::kResourceExhausted, reason, begin_, call);
  }
  drop_reason_ = reason;
  std::string_view key;
  std::string_view extension;
  if (SplitTarName(unit.name, &key, &extension)) members_.Add(extension);
  LoseRecord(begin_, call);
  Drop(begin_, key_);
  Advance(std::move(unit));
  return FrameStep::kGoOn;
}

void TarFramer::Drop(std::uint64_t begin, std::string_view key) {
  pending_ = false;
  dropping_ = true;
  begin_ = begin;
  key_ = std::string(key);
}

// True if a due null span must wait for the stripe that at_ lies in. How much of the file is at
// hand must not change the stripe that a record is counted in.
bool TarFramer::LostIsDue(FrameCall* call) {
  if (!lost_is_due_) return false;
  const std::uint64_t place = LostPlace(call->input);
  if (place >= call->input.limit) return true;
  lost_is_due_ = false;
  LoseRecord(place, call);
  return false;
}

// Ends the sample at hand in front of at_.
FrameStep TarFramer::Close(FrameCall* call) {
  if (std::exchange(pending_, false)) return Emit(call);
  if (std::exchange(dropping_, false)) {
    NoteLoss(begin_, std::min(at_, call->end()), drop_reason_, call);
  }
  return FrameStep::kGoOn;
}

// If global headers name or size the sample's members, it is copied after a header that does.
FrameStep TarFramer::Emit(FrameCall* call) {
  const auto bytes = From(call->input, begin_).first(static_cast<std::size_t>(end_ - begin_));
  RecordSpan record{bytes.data(), bytes.size()};
  if (sample_globals_.any()) {
    std::string text;
    if (!sample_globals_.path.empty()) text += PaxRecord("path", sample_globals_.path);
    if (!sample_globals_.size.empty()) text += PaxRecord("size", sample_globals_.size);
    const auto padded = static_cast<std::size_t>(TarPadded(text.size()));
    record.size = kBlock + padded + bytes.size();
    std::byte* const to = call->input.memory->Allocate(record.size);
    if (to == nullptr) {
      return Failed(StatusCode::kResourceExhausted,
                    NoMemoryFor("a sample of " + std::to_string(record.size) + " bytes"), begin_,
                    call);
    }
    WriteTarHeader("pax_global_header", 'g', text.size(), to);
    std::memset(to + kBlock, 0, padded);
    std::memcpy(to + kBlock, text.data(), text.size());
    std::memcpy(to + kBlock + padded, bytes.data(), bytes.size());
    record.data = to;
  }
  Append(record, {begin_, end_, 1, false, sample_globals_.any()}, call);
  members_.SwapFirst(&usual_);
  return FrameStep::kGoOn;
}

FrameStep TarFramer::AtEnd(FrameCall* call) {
  if (lost_ && Resolve({}, {}, call) == FrameStep::kStop) return FrameStep::kStop;
  if (Close(call) == FrameStep::kGoOn) LostIsDue(call);
  return FrameStep::kStop;
}

// Two blocks of zeros should be there. A file that grew has them after the part that is read.
void TarFramer::WarnOfEnd(FrameCall* call) {
  if (lost_ || options_.has_grown || std::exchange(warned_, true)) return;
  call->output->warnings.push_back({options_.file, std::string(kTarHasNoEnd)});
}

// A block of zeros is at at_: the end of the archive, if another one follows.
FrameStep TarFramer::EndMark(FrameCall* call) {
  const FrameInput& input = call->input;
  const std::uint64_t left = FileEnd(input) - at_;
  const std::uint64_t mark = std::min<std::uint64_t>(2 * kBlock, left);
  if (at_ + mark > call->end()) return More(at_ + mark, call);
  if (!TarBlockIsZero(From(input, at_).first(static_cast<std::size_t>(mark)))) {
    if (!lost_) {
      loss_.Begin(at_, at_, StatusCode::kDamaged, "a block of zeros stands in place of a header");
    }
    loss_.AddHeader({});
    lost_ = true;
    return StartSearch(at_ + kBlock, 0, call);
  }
  if (lost_ && Resolve({}, {}, call) == FrameStep::kStop) return FrameStep::kStop;
  if (Close(call) == FrameStep::kStop || LostIsDue(call)) return FrameStep::kStop;
  tail_ = true;
  begin_ = at_;
  at_ += mark;
  return FrameStep::kGoOn;
}

// After the end of an archive come zeros up to the end of the file. Another archive there, or
// members after a hole, must not be lost in silence.
FrameStep TarFramer::Tail(FrameCall* call) {
  const FrameInput& input = call->input;
  while (at_ < FileEnd(input) && at_ < input.limit) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kBlock, FileEnd(input) - at_);
    if (at_ + bytes > call->end()) return More(at_ + bytes, call);
    if (!TarBlockIsZero(From(input, at_).first(static_cast<std::size_t>(bytes)))) {
      tail_ = false;
      loss_.Begin(begin_, at_, StatusCode::kDamaged,
                  "bytes that are no zeros stand after the end of the archive");
      lost_ = true;
      return StartSearch(at_, 0, call);
    }
    at_ += bytes;
  }
  return FrameStep::kStop;
}

// The last unit turned out to reach past the end of a file whose size was not known, or that
// shrank.
FrameStep TarFramer::CutShort(FrameCall* call) {
  at_ = last_.at;
  end_ = last_.end;
  members_.CutTo(last_.members);
  return LoseMember(last_.unit, call);
}

// A header that is wrong or cut.
FrameStep TarFramer::Lose(const TarUnit& unit, FrameCall* call) {
  const FrameInput& input = call->input;
  const std::uint64_t header = at_ + unit.header_at;
  // As much of it as there is may say whose it was, even if the file's size says that it is cut.
  const std::uint64_t header_end = std::min(header + kBlock, FileEnd(input));
  if (header_end > call->end()) return More(header_end, call);
  if (!lost_) loss_.Begin(at_, header, unit.code, unit.reason);
  lost_ = true;
  const auto rest = From(input, std::min(header, call->end()));
  const auto block = rest.first(std::min(kBlock, rest.size()));
  // A name from extension headers is reliable.
  if (unit.long_name) {
    loss_.AddName(unit.name);
  } else {
    loss_.AddHeader(block);
  }
  std::uint64_t size = 0;
  std::uint64_t boundary = 0;
  if (block.size() == kBlock && TarHeaderSize(block, &size)) {
    boundary = header + kBlock + TarPadded(size);
  }
  return StartSearch(std::min(header + kBlock, FileEnd(input)), boundary, call);
}

// A member whose header is right, but which reaches past the end of the file. The rest of the file
// is searched for headers. If the member was passed over before the file's end was known, it is not
// searched: its bytes may be gone, and whether they are must make no difference.
FrameStep TarFramer::LoseMember(const TarUnit& unit, FrameCall* call) {
  if (!lost_) {
    loss_.Begin(at_, at_ + unit.header_at, StatusCode::kTruncated,
                "member " + unit.name + " of " + std::to_string(unit.size) +
                    " bytes reaches past the end of the file");
  }
  lost_ = true;
  loss_.AddName(unit.name);
  const FrameInput& input = call->input;
  const bool gone = options_.file_bytes == kUnknownSize || at_ < input.offset;
  if (pending_ || !gone) return StartSearch(at_ + unit.data_at, 0, call);
  at_ = call->end();
  return AtEnd(call);
}

FrameStep TarFramer::StartSearch(std::uint64_t from, std::uint64_t boundary, FrameCall* call) {
  // If nothing is kept back, a failure needs no search.
  if (options_.on_damage == OnDamage::kFail && !pending_) return Resolve({}, {}, call);
  searching_ = true;
  search_at_ = from;
  boundary_ = boundary;
  return FrameStep::kGoOn;
}

// Whether whole units stand back to back from `at` to `end`, all of it at hand.
bool TarFramer::Tiles(const FrameInput& input, std::uint64_t at, std::uint64_t end) const {
  TarGlobals globals = globals_;
  while (at < end) {
    const TarUnit unit = ReadTarUnit(From(input, at), end - at, &globals);
    const bool whole = unit.kind == TarUnit::Kind::kMember || unit.kind == TarUnit::Kind::kPassOver;
    if (!whole || unit.end > end - at) return false;
    at += unit.end;
  }
  return true;
}

// Tries the place at which the damaged header puts the next one. If a header is there, the headers
// in between are one of two things. Either they are of an archive within the member, which ends in
// zeros: then they are passed over. Or the size is damaged, and they are back to back. True if that
// decides the step.
bool TarFramer::TryBoundary(FrameCall* call, FrameStep* step) {
  const FrameInput& input = call->input;
  const std::uint64_t boundary = boundary_;
  const bool near = boundary > search_at_ && boundary - search_at_ <= kWindow &&
                    boundary <= FileEnd(input) && FileEnd(input) - boundary >= kBlock;
  if (near && boundary + kBlock > call->end()) {
    *step = More(boundary + kBlock, call);
    return true;
  }
  boundary_ = 0;
  if (!near || !TarHeaderMatches(From(input, boundary).first(kBlock))) return false;
  std::uint64_t first = search_at_;
  while (!TarHeaderMatches(From(input, first).first(kBlock))) first += kBlock;
  if (first < boundary && !Tiles(input, first, boundary)) search_at_ = boundary;
  return false;
}

// Examines every block once.
FrameStep TarFramer::Search(FrameCall* call) {
  const FrameInput& input = call->input;
  FrameStep step = FrameStep::kGoOn;
  if (boundary_ != 0 && TryBoundary(call, &step)) return step;
  while (search_at_ <= call->end() && call->end() - search_at_ >= kBlock) {
    if (!pending_ && search_at_ >= input.limit) return FrameStep::kStop;
    const auto block = From(input, search_at_).first(kBlock);
    if ((!anywhere_ || TarHasMagic(block)) && TarHeaderMatches(block)) {
      searching_ = anywhere_ = false;
      at_ = search_at_;
      return FrameStep::kGoOn;
    }
    if (anywhere_) {
      ++search_at_;
      continue;
    }
    if (TarHasMagic(block)) loss_.AddHeader(block);
    search_at_ += kBlock;
    if (pending_ && search_at_ - loss_.begin() > kWindow) {
      // Nothing is known of the next sample, which may have lost members too.
      const bool before = Verdict({}, {}).before;
      if (before) {
        if (options_.on_damage == OnDamage::kFail) return Resolve({}, {}, call);
        drop_reason_ = loss_.reason();
        LoseRecord(begin_, call);
        Drop(begin_, key_);
      } else {
        if (Close(call) == FrameStep::kStop) return FrameStep::kStop;
        if (options_.on_damage == OnDamage::kFail) return Resolve({}, {}, call);
      }
    }
  }
  if (FileEnd(input) - search_at_ >= kBlock) {
    if (!pending_ && search_at_ >= input.limit) return FrameStep::kStop;
    return More(search_at_ + (pending_ ? kAhead : kBlock), call);
  }
  searching_ = false;
  at_ = FileEnd(input);
  return AtEnd(call);
}

TarLoss::Verdict TarFramer::Verdict(std::string_view after, std::string_view after_member) const {
  static const TarExtensions kNone;
  const bool at_hand = pending_ || dropping_;
  TarLoss::Around around;
  if (at_hand) around.before = key_;
  around.before_members = at_hand ? &members_.first() : &kNone;
  around.after = after;
  around.after_member = after_member;
  around.usual = &usual_;
  return loss_.Whose(around);
}

// For the first sample no earlier one says what a whole sample holds. The sample after the loss, at
// at_, says it if it holds the same members. True if more of that sample must be at hand, which
// decides the step.
bool TarFramer::LearnFromNext(FrameCall* call, FrameStep* step) {
  const FrameInput& input = call->input;
  TarGlobals globals = globals_;
  TarExtensions next;
  std::string first_key;
  for (std::uint64_t at = at_; at < FileEnd(input);) {
    if (at - at_ > kWindow || next.size() > members_.first().size()) return false;
    TarUnit unit;
    unit.kind = TarUnit::Kind::kMore;
    unit.need_bytes = kBlock;
    if (at <= call->end()) unit = ReadTarUnit(From(input, at), FileEnd(input) - at, &globals);
    if (unit.kind == TarUnit::Kind::kMore) {
      *step = More(at + unit.need_bytes, call);
      return true;
    }
    if (unit.kind == TarUnit::Kind::kZeros) break;
    if (unit.kind == TarUnit::Kind::kDamage || unit.end > FileEnd(input) - at) return false;
    std::string_view key;
    std::string_view extension;
    if (unit.kind == TarUnit::Kind::kMember && SplitTarName(unit.name, &key, &extension)) {
      if (first_key.empty()) first_key = key;
      const bool is_there = std::find(next.begin(), next.end(), extension) != next.end();
      if (first_key != key || is_there) break;
      next.emplace_back(extension);
    }
    at += unit.end;
  }
  if (next == members_.first()) usual_ = next;
  return false;
}

// Says which samples the loss made incomplete: the one at hand, and the one that starts at at_ with
// the key `after` (empty: none does, or it is not known).
FrameStep TarFramer::Resolve(std::string_view after, std::string_view after_member,
                             FrameCall* call) {
  lost_ = false;
  const bool at_hand = pending_ || dropping_;
  const bool goes_on = at_hand && key_ == after && !IsThere(after_member);
  const TarLoss::Verdict verdict = Verdict(after, after_member);
  const bool drops = pending_ && (goes_on || verdict.before);
  if (options_.on_damage == OnDamage::kFail) {
    if (pending_ && !drops && Close(call) == FrameStep::kStop) return FrameStep::kStop;
    return Failed(loss_.code(), loss_.reason(), loss_.at(), call);
  }
  if (goes_on) {
    if (pending_) {
      drop_reason_ = loss_.reason();
      LoseRecord(begin_, call);
      Drop(begin_, key_);
    }
    return FrameStep::kGoOn;
  }
  std::uint64_t begin = loss_.begin();
  if (drops || dropping_) {
    begin = begin_;
    if (drops) LoseRecord(begin_, call);
    pending_ = false;
    dropping_ = false;
  } else if (Close(call) == FrameStep::kStop) {
    return FrameStep::kStop;
  }
  if (verdict.after && !after.empty()) {
    drop_reason_ = loss_.reason();
    members_.Clear();
    Drop(begin, after);
    lost_is_due_ = true;
    return FrameStep::kGoOn;
  }
  lost_is_due_ = begin == loss_.begin() && loss_.stands_alone(verdict);
  NoteLoss(begin, at_, loss_.reason(), call);
  return FrameStep::kGoOn;
}

FrameStep TarFramer::Failed(StatusCode code, const std::string& reason, std::uint64_t at,
                            FrameCall* call) {
  searching_ = false;
  return Fail(code, reason, at, call);
}

void TarFramer::NoteLoss(std::uint64_t begin, std::uint64_t end, const std::string& reason,
                         FrameCall* call) {
  if (begin < end) Note(begin, end, reason, call);
}

}  // namespace

std::unique_ptr<Framer> NewTarFramer(const FramerOptions& options) {
  return std::make_unique<TarFramer>(options);
}

std::unique_ptr<Framer> NewTarFramerBehindGap(const FramerOptions& options, std::uint64_t offset) {
  auto framer = std::make_unique<TarFramer>(options);
  framer->StartBehindGap(offset);
  return framer;
}

}  // namespace ringfeed
