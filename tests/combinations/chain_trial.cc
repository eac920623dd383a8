#include "tests/combinations/chain_trial.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/memory/arena.h"
#include "tests/combinations/chain_side.h"
#include "tests/combinations/expected_delivery.h"
#include "tests/combinations/planned_delivery.h"
#include "tests/combinations/progress_watch.h"
#include "tests/combinations/submit_fault.h"
#include "tests/support/random_fault_hook.h"
#include "tests/support/record_data.h"
#include "tests/support/restrictions.h"

namespace ringfeed {

namespace {

/// A difference; it ends the trial.
struct Difference {
  std::string what;
};

std::string TextOf(const std::vector<DeliveredRows>& all, std::size_t from) {
  std::ostringstream text;
  constexpr std::size_t kShown = 3;
  for (std::size_t i = from; i < std::min(all.size(), from + kShown); ++i) {
    text << all[i].number << ":[";
    constexpr std::size_t kShownRows = 8;
    for (std::size_t r = 0; r < std::min(all[i].rows.size(), kShownRows); ++r) {
      text << (r == 0 ? "" : " ") << all[i].rows[r];
    }
    text << (all[i].rows.size() > kShownRows ? " …] " : "] ");
  }
  return text.str();
}

bool IsBeginning(const DeliveredRows& part, const DeliveredRows& whole) {
  return part.number == whole.number && part.rows.size() <= whole.rows.size() &&
         std::equal(part.rows.begin(), part.rows.end(), whole.rows.begin());
}

std::string WhereTheyDiffer(const DeliveredRows& got, const DeliveredRows& expected) {
  const auto at =
      std::mismatch(got.rows.begin(), got.rows.end(), expected.rows.begin(), expected.rows.end());
  return "(row " + std::to_string(at.first - got.rows.begin()) + " of " +
         std::to_string(got.rows.size()) + " and " + std::to_string(expected.rows.size()) + ")";
}

/// "" where `got` is the beginning of `expected`, or all of it where `whole`. `cut`: the last one
/// may be the beginning of its batch. `open`: more would follow than is expected.
std::string Compare(const std::vector<DeliveredRows>& got,
                    const std::vector<DeliveredRows>& expected, bool whole, bool cut, bool open) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i >= expected.size() && open && !expected.empty()) return "";
    if (i >= expected.size()) return "more than there is: " + TextOf(got, i);
    if (got[i] == expected[i]) continue;
    if (cut && i + 1 == got.size() && IsBeginning(got[i], expected[i])) continue;
    return "got " + TextOf(got, i) + "expected " + TextOf(expected, i) +
           WhereTheyDiffer(got[i], expected[i]);
  }
  if (!whole || got.size() == expected.size()) return "";
  return std::to_string(got.size()) + " deliveries of " + std::to_string(expected.size()) +
         ", missing " + TextOf(expected, got.size());
}

/// Parts of one batch become one.
std::vector<DeliveredRows> Joined(const std::vector<DeliveredRows>& parts, bool shows_empty) {
  std::vector<DeliveredRows> whole;
  for (const DeliveredRows& part : parts) {
    if (!whole.empty() && whole.back().number == part.number) {
      whole.back().rows.insert(whole.back().rows.end(), part.rows.begin(), part.rows.end());
    } else {
      whole.push_back(part);
    }
  }
  if (!shows_empty) std::erase_if(whole, [](const auto& each) { return each.rows.empty(); });
  return whole;
}

std::map<std::int64_t, std::int64_t> CountRows(const std::vector<DeliveredRows>& all) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const DeliveredRows& each : all) {
    for (const std::int64_t row : each.rows) {
      if (row >= 0) ++counts[row];
    }
  }
  return counts;
}

/// "" where every row that is expected came as often as it is to come, and no other; or, where not
/// `whole`, no more often.
std::string CompareUnordered(const std::vector<DeliveredRows>& got,
                             const std::vector<DeliveredRows>& expected, bool whole) {
  auto left = CountRows(expected);
  for (const auto& [row, count] : CountRows(got)) left[row] -= count;
  for (const auto& [row, count] : left) {
    if (count < 0) return "record " + std::to_string(row) + " came too often";
    if (count > 0 && whole) return "record " + std::to_string(row) + " did not come";
  }
  return "";
}

template <typename Stats>
std::uint64_t LateWakes(const Stats& stats) {
  if constexpr (requires { stats.late_wakes; }) {
    return stats.late_wakes;
  } else {
    return 0;
  }
}

/// One consumer of one chain.
class Consumer {
 public:
  Consumer(const Configuration& c, ChainSide* side) : c_(c), side_(side) {
    const auto hold = c.Get(Option::kHold);
    hold_ = hold == "all" ? ~std::size_t{0} : static_cast<std::size_t>(c.Number(Option::kHold));
    // Of a small arena there may be fewer slots than were asked for, and of several consumers each
    // may hold its part of all blocks.
    may_be_refused_ = hold == "all" || c.HasSmallArena() ||
                      (c.Is(Option::kRead, "blocks") && c.Number(Option::kShare) > 1);
  }
  ~Consumer() = default;
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  /// Reads until so many deliveries came in all, or the end.
  void ReadTo(std::uint64_t count) {
    while (!ended_ && taken_ < count) ReadOne();
  }

  void ReadOne() {
    TakenRead taken;
    std::string wrong;
    const ReadResult result = side_->Next(&taken, &wrong);
    if (!wrong.empty()) throw Difference{wrong};
    if (result == ReadResult::kRecord) return Keep(std::move(taken));
    if (result == ReadResult::kTimeout) throw Difference{"kTimeout without a deadline"};
    if (result == ReadResult::kFailed && side_->status().code() == StatusCode::kResourceExhausted &&
        !held_.empty() && may_be_refused_) {
      // It goes on once something is let go.
      ++refusals_;
      // A refusal takes a while if others hold something, and half a second at a feed.
      constexpr std::uint64_t kMostSlow = 4;
      const bool slow = c_.Is(Option::kReader, "turns") || c_.Is(Option::kWrap, "held") ||
                        !c_.Is(Option::kFeed, "none");
      if (slow && refusals_ >= kMostSlow) hold_ = 0;
      return LetGo(held_.size() > 2 ? held_.size() / 2 : 0);
    }
    ended_ = true;
    end_ = result;
    status_ = result == ReadResult::kFailed ? side_->status() : Status();
  }

  /// Lets go of all but so many, the oldest ones first.
  void LetGo(std::size_t left) {
    while (held_.size() > left) {
      if (held_.front().first.Digest() != held_.front().second) {
        throw Difference{"a delivery that the consumer held changed"};
      }
      held_.pop_front();
    }
  }

  /// After an end it reads on.
  void GoOn() { ended_ = false; }
  /// From here on it is another stream of deliveries.
  void Begin() {
    rows.clear();
    ended_ = false;
    taken_ = 0;
  }
  void Use(ChainSide* side) { side_ = side; }

  bool ended() const { return ended_; }
  ReadResult end() const { return end_; }
  const Status& status() const { return status_; }
  std::uint64_t taken() const { return taken_; }

  std::vector<DeliveredRows> rows;
  std::map<std::uint64_t, std::string> positions;

 private:
  void Keep(TakenRead&& taken) {
    for (DeliveredRows& each : taken.rows) {
      if (!taken.position.empty()) NotePosition(each, taken.position);
      rows.push_back(std::move(each));
    }
    ++taken_;
    constexpr std::uint64_t kSlowOnes = 5;
    if (c_.Is(Option::kPace, "slow") && taken_ <= kSlowOnes) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (hold_ == 0) return;
    const std::uint64_t digest = taken.Digest();
    held_.emplace_back(std::move(taken), digest);
    LetGo(hold_);
  }

  // However it came there. Of other ranks it may say how many records there are, and before not.
  void NotePosition(const DeliveredRows& batch, const std::string& position) {
    const auto [found, added] = positions.emplace(batch.number, position);
    const std::size_t before = std::exchange(sizes_[batch.number], batch.rows.size());
    if (added || found->second == position || c_.Is(Option::kPath, "gives_up")) return;
    // A batch that a failure cut short stands behind its position. With more memory it is whole.
    if (before != batch.rows.size()) {
      found->second = position;
      return;
    }
    if (!c_.Is(Option::kAct, "restore_ranks")) {
      throw Difference{"equal places, other positions: " + position + " and " + found->second};
    }
    found->second = position;
  }

  const Configuration& c_;
  ChainSide* side_;
  std::size_t hold_ = 0;
  bool may_be_refused_ = false;
  bool ended_ = false;
  ReadResult end_ = ReadResult::kRecord;
  Status status_;
  std::uint64_t taken_ = 0;
  std::uint64_t refusals_ = 0;
  std::map<std::uint64_t, std::size_t> sizes_;  ///< of the last delivery of each number
  std::deque<std::pair<TakenRead, std::uint64_t>> held_;
};

/// All signals are blocked in this thread, and in those that it starts, while it lives.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// One trial.
class Trial {
 public:
  Trial(const Configuration& c, TrialBench* bench)
      : c_(c), bench_(bench), data_(&bench->library.Get(c)), arena_(bench->arenas.Get(c)) {}

  void Run() {
    std::optional<BlockedSignals> blocked;
    if (c_.Is(Option::kSignals, "blocked")) blocked.emplace();
    NoteRead();
    Prepare();
    at_ = c_.Number(Option::kAt);
    if (IsPlanned(c_)) RefuseMoreRanks();
    const std::uint64_t ranks = RanksOf(c_);
    std::map<std::uint64_t, std::string> positions;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      expected_ = Expect(c_, *data_, rank, ranks, 3 * Most());
      NoteRead();
      if (expected_.never_ends) return;
      try {
        c_.Number(Option::kShare) > 1 ? RunShared() : RunRank(rank, ranks, &positions);
      } catch (const Error& error) {
        Refused(error.status());
      }
    }
  }

 private:
  void Prepare() {
    if (c_.Is(Option::kPath, "refused")) (void)ForbidUring(EPERM);
    if (c_.Is(Option::kPath, "faulty")) {
      faults_.emplace(
          c_.Number(Option::kSeed),
          ReadFaults{.short_read = 0.2, .interrupted = 0.1, .again = 0.05, .io_error = 0.02});
    }
    if (c_.Is(Option::kPath, "gives_up")) short_reads_.emplace();
    if (c_.Is(Option::kChange, "none")) return;
    std::filesystem::remove_all(bench_->scratch);
    copied_ = CopyOf(*data_, bench_->scratch);
    data_ = &*copied_;
  }

  /// A step is not split among more ranks than it has shares.
  void RefuseMoreRanks() const {
    const std::uint64_t shares = c_.Number(Option::kSize);
    try {
      (void)BuildChain(c_, *data_, arena_, shares, shares + 1);
    } catch (const Error& error) {
      if (error.status().code() == StatusCode::kInvalidArgument) return;
    }
    throw Difference{"more ranks than shares"};
  }

  std::uint64_t Most() const {
    constexpr std::uint64_t kMore = 15;
    return at_ + kMore;
  }

  /// Whether the arena may be too small for what is asked for, by the program's own fault. Batches
  /// of so many packed rows have 138 MB each, and such of the largest records 166.
  bool IsSmall() const {
    const bool wide = (c_.Is(Option::kGather, "pack") && c_.Is(Option::kSize, "60000")) ||
                      c_.Is(Option::kRecords, "giant");
    return c_.HasSmallArena() || c_.Is(Option::kWindow, "4000000000") ||
           (wide && c_.Number(Option::kShare) > 1);
  }

  /// Whether it is the machine that does not let it go on.
  bool MayFailBy(StatusCode code) const {
    const bool limited =
        IsSmall() || c_.Is(Option::kArena, "fits") || c_.Is(Option::kPath, "gives_up");
    return limited && code == StatusCode::kResourceExhausted;
  }

  /// Whether a reader that is closed may say that it failed by `code`: another thread may have seen
  /// the failure before, that of a file that is gone in the next pass too.
  bool MayStandWhenClosed(StatusCode code) const {
    return code == StatusCode::kCancelled || expected_.fails || expected_.refused ||
           MayFailBy(code) || !c_.Is(Option::kChange, "none");
  }

  /// Set-up failed.
  void Refused(const Status& status) const {
    if (expected_.refused || !c_.Is(Option::kChange, "none")) return;
    if (MayFailBy(status.code()) && !c_.Is(Option::kArena, "fits")) return;
    if (!expected_.exact && expected_.fails) return;
    if (expected_.fails && !expected_.orders.empty() && expected_.orders.front().empty()) return;
    throw Difference{"refused: " + status.ToString().substr(0, 300)};
  }

  /// Chains like it, with fewer threads, that were read from and stay open.
  void OpenOthers() {
    Configuration other;
    for (const Option option :
         {Option::kSource, Option::kFiles, Option::kRecords, Option::kPath, Option::kPlace}) {
      other.Set(option, c_.value(option));
    }
    for (std::uint64_t i = others_.size(); i < c_.Number(Option::kBeside); ++i) {
      others_.push_back(BuildChain(other, *data_, arena_, 0, 1));
      Instance instance;
      Reader& reader = others_.back().reader();
      const bool failed = reader.TryReadNext(&instance) == ReadResult::kFailed;
      if (failed && reader.status().code() == StatusCode::kResourceExhausted) {
        throw Difference{"a chain beside: " + reader.status().ToString()};
      }
      NoteRead();
    }
  }

  /// Goes on with an arena that has room for what these chains take of a large one, and no more.
  void UseFittingArena(std::uint64_t rank, std::uint64_t ranks) {
    arena_ = bench_->arenas.Get(c_);
    const std::size_t before = arena_->arena()->unreserved_bytes();
    OpenOthers();
    BuiltChain chain = BuildChain(c_, *data_, arena_, rank, ranks);
    Instance instance;
    (void)chain.reader().TryReadNext(&instance);
    NoteRead();
    const std::size_t taken = before - arena_->arena()->unreserved_bytes();
    others_.clear();
    arena_ = std::make_shared<PinnedArena>(taken, false);
  }

  std::unique_ptr<ChainSide> SideOf(BuiltChain* chain) const {
    if (!c_.Is(Option::kFeed, "none")) return MakeFeedSide(c_, *data_, chain->reader());
    return MakeReaderSide(c_, *data_, chain->reader(), true);
  }

  void RunRank(std::uint64_t rank, std::uint64_t ranks,
               std::map<std::uint64_t, std::string>* positions) {
    rank_ = rank;
    ranks_ = ranks;
    if (c_.Is(Option::kArena, "fits")) UseFittingArena(rank, ranks);
    OpenOthers();
    chain_ = BuildChain(c_, *data_, arena_, rank, ranks);
    side_ = SideOf(&chain_);
    Consumer consumer(c_, side_.get());
    if (c_.Is(Option::kCalls, "slow")) SlowUserCalls(kSlowCalls);
    if (c_.Is(Option::kAct, "close_other")) return ReadAndCloseElsewhere(&consumer);
    consumer.ReadTo(at_);
    CheckPart(consumer, false);
    if (consumer.ended()) {
      CheckEnd(consumer, 0);
    } else if (c_.IsAnyOf(Option::kAct, "reinit_other restore_other seek_other")) {
      ReadAndMoveElsewhere(&consumer);
    } else {
      Act(&consumer);
    }
    if (c_.Is(Option::kAct, "none")) CheckStats(consumer);
    consumer.LetGo(0);
    CheckPositions(consumer, positions);
  }

  void ReadAndCloseElsewhere(Consumer* consumer) {
    std::string waited;
    std::uint64_t closed = ~std::uint64_t{0};
    std::atomic<std::uint64_t> seen{0};
    std::jthread closer([&](const std::stop_token& stop) {
      while (seen.load() < at_ && !stop.stop_requested()) std::this_thread::yield();
      waited = CallsWhile([this] { side_->Close(); });
      closed = UserCalls();
    });
    while (!consumer->ended()) {
      consumer->ReadOne();
      seen.store(consumer->taken());
    }
    closer.request_stop();
    closer.join();
    consumer->LetGo(0);
    if (waited.empty()) waited = CallsSince(closed);
    if (!waited.empty()) throw Difference{waited};
    CheckPart(*consumer, true);
  }

  /// Another thread has the chain start elsewhere while this one reads.
  void ReadAndMoveElsewhere(Consumer* consumer) {
    const std::string position =
        c_.Is(Option::kAct, "restore_other") ? side_->Position() : std::string();
    const std::uint64_t pieces = PiecesOf(c_, ranks_);
    const std::uint64_t from = c_.Is(Option::kAct, "reinit_other") ? 0
                               : c_.Is(Option::kAct, "restore_other")
                                   ? NextNumber(*consumer) / pieces * pieces
                                   : at_ / 2;
    std::string threw;
    std::jthread mover([&] {
      try {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * (at_ % 4)));
        if (c_.Is(Option::kAct, "reinit_other")) side_->ReInit();
        if (c_.Is(Option::kAct, "restore_other")) side_->Restore(position);
        if (c_.Is(Option::kAct, "seek_other")) side_->SeekTo(from);
      } catch (const std::exception& error) {
        threw = error.what();
      }
    });
    consumer->ReadTo(~std::uint64_t{0});
    mover.join();
    if (!threw.empty()) throw Difference{"another thread's call threw: " + threw};
    // What it saw may have been the end of before.
    consumer->GoOn();
    consumer->ReadTo(~std::uint64_t{0});
    if (consumer->end() != ReadResult::kEnd) {
      throw Difference{"moved by another thread it fails: " + consumer->status().ToString()};
    }
    if (!expected_.exact || expected_.orders.empty()) return;
    const std::vector<DeliveredRows>& got = consumer->rows;  // two that follow may have one number
    const std::vector<DeliveredRows>& all = expected_.orders.front();
    std::vector<DeliveredRows> rest = all;
    std::erase_if(rest, [from](const DeliveredRows& each) { return each.number < from; });
    const std::size_t before = got.size() - std::min(got.size(), rest.size());
    const std::vector<DeliveredRows> first(got.begin(),
                                           got.begin() + static_cast<std::ptrdiff_t>(before));
    const std::vector<DeliveredRows> second(got.begin() + static_cast<std::ptrdiff_t>(before),
                                            got.end());
    std::string difference = Compare(first, all, false, false, false);
    if (difference.empty()) difference = Compare(second, rest, true, false, false);
    if (!difference.empty()) throw Difference{"moved by another thread: " + difference};
  }

  /// A chain like it whose mixture has other weights goes on, or refuses to.
  void RestoreWithOtherWeights(Consumer* consumer) {
    const std::string position = side_->Position();
    consumer->LetGo(0);
    side_.reset();
    chain_ = BuiltChain();
    constexpr double kOtherWeight = 5;
    chain_ = BuildChain(c_, *data_, arena_, rank_, ranks_, kOtherWeight);
    side_ = SideOf(&chain_);
    static const std::regex kWithin("\"mark\":\\[[0-9]+,[0-9]+,(0,)?[1-9]");
    const bool refuses =
        c_.IsAnyOf(Option::kOrder, "window block") || std::regex_search(position, kWithin);
    try {
      side_->Restore(position);
    } catch (const Error& error) {
      if (refuses && error.status().code() == StatusCode::kInvalidArgument) return;
      throw;
    }
    Consumer rest(c_, side_.get());
    rest.ReadTo(~std::uint64_t{0});
    std::vector<DeliveredRows> all = consumer->rows;
    // What a failure cut short comes again.
    std::erase_if(all, [at = BatchOf(position)](const auto& each) { return each.number >= at; });
    all.insert(all.end(), rest.rows.begin(), rest.rows.end());
    // What a failure or a small arena ends, and which rests are dropped, goes by the order.
    const bool known = expected_.exact && !expected_.fails && !expected_.refused && ranks_ == 1 &&
                       rest.end() == ReadResult::kEnd && !c_.Is(Option::kRest, "drop");
    if (!known) return CheckSane(all);
    const std::string difference = CompareUnordered(all, expected_.orders.front(), true);
    if (!difference.empty()) throw Difference{"other weights: " + difference};
  }

  void CheckPositions(const Consumer& consumer, std::map<std::uint64_t, std::string>* positions) {
    for (const auto& [number, position] : consumer.positions) {
      const auto [found, added] = positions->emplace(number, position);
      if (added || found->second == position || c_.Is(Option::kAct, "restore_ranks")) continue;
      if (c_.Is(Option::kSplit, "yes")) continue;  // of other files
      // A rank that failed there stands in front of it.
      if (std::min(BatchOf(position), BatchOf(found->second)) <= number) continue;
      throw Difference{"ranks have other positions behind batch " + std::to_string(number) + ": " +
                       position + " and " + found->second};
    }
  }

  /// The position behind what was handed out is that behind the last batch.
  void CheckEqualPositions(const Consumer& consumer, const std::string& position) const {
    if (consumer.rows.empty()) return;
    const auto found = consumer.positions.find(consumer.rows.back().number);
    if (found == consumer.positions.end() || found->second == position) return;
    throw Difference{"equal places, other positions: " + position + " and " + found->second};
  }

  /// How many batches went before a position.
  std::uint64_t BatchOf(const std::string& position) const {
    constexpr std::string_view kName = "\"batch\":";
    const std::size_t at = position.find(kName);
    return at == std::string::npos
               ? ~std::uint64_t{0}
               : std::stoull(position.substr(at + kName.size())) * PiecesOf(c_, ranks_);
  }

  bool ShowsEmpty() const { return ringfeed::ShowsEmpty(c_, ranks_); }

  /// Where a chain stands that went there without delivering is where one stands that read up to
  /// there.
  void CheckSought(const Consumer& consumer, std::uint64_t number) const {
    const auto found = number == 0 ? consumer.positions.end() : consumer.positions.find(number - 1);
    // What failed there stands in front of it.
    if (found == consumer.positions.end() || BatchOf(found->second) != number) return;
    const std::string position = side_->Position();
    // What goes on by number may need more of a small arena; then the next read says so.
    if (position == found->second || c_.HasSmallArena()) return;
    throw Difference{"sought: " + position + ", read up to there: " + found->second};
  }

  void Act(Consumer* consumer) {
    Change();
    const auto act = c_.Get(Option::kAct);
    if (act == "leave") {
      side_->EndOther();  // the chain goes on until its look is over
      const std::string waited = CallsWhile([this] {
        side_.reset();
        chain_ = BuiltChain();
      });
      if (!waited.empty()) throw Difference{waited};
      return;
    }
    if (act == "close") return CloseAndRead(consumer);
    if (act == "none") return ReadRest(consumer, 0);
    if (act == "reinit") {
      side_->ReInit();
      Begin(consumer, 0);
      return ReadRest(consumer, 0);
    }
    if (act == "seek_new") {
      Again(consumer, RanksOf(c_));
      side_->SeekTo(at_);
      CheckSought(*consumer, at_);
      Begin(consumer, at_);
      return ReadRest(consumer, at_);
    }
    if (act == "seek") {
      side_->SeekTo(at_ / 2);
      CheckSought(*consumer, at_ / 2);
      Begin(consumer, at_ / 2);
      return ReadRest(consumer, at_ / 2);
    }
    if (act == "restore_weights") return RestoreWithOtherWeights(consumer);
    const std::uint64_t next = NextNumber(*consumer);
    if (act == "skip") {
      side_->SkipBatches(2);
      Begin(consumer, next + 2);
      return ReadRest(consumer, next + 2);
    }
    const std::string position = side_->Position();
    CheckEqualPositions(*consumer, position);
    const std::uint64_t step = next / PiecesOf(c_, ranks_);
    if (act == "restore_here") {
      consumer->ReadTo(at_ + 2);
      CheckPart(*consumer, false);
    } else {
      Again(consumer, OtherRanks());
    }
    side_->Restore(position);
    const std::string restored = side_->Position();
    // Within a step it stands in front of it.
    const std::uint64_t from = IsPlanned(c_) ? step * PiecesOf(c_, ranks_) : next;
    Begin(consumer, from);
    ReadRest(consumer, from);
    if (PlaceOf(restored) != PlaceOf(position)) {
      throw Difference{"restored to " + position + ", it stands at " + restored};
    }
  }

  /// A position without how many records there are: chains that need an index alone say that, which
  /// may be those of some numbers of ranks.
  std::string PlaceOf(const std::string& position) const {
    if (!c_.Is(Option::kAct, "restore_ranks")) return position;
    static const std::regex kRecords("\"records\":[0-9]+,");
    return std::regex_replace(position, kRecords, "");
  }

  /// The number of the first delivery that was not handed out.
  std::uint64_t NextNumber(const Consumer& consumer) const {
    if (consumer.rows.empty()) return 0;
    const DeliveredRows last = Joined(consumer.rows, ShowsEmpty()).back();
    // What a failure cut short stands in front of its position, which may come of the machine.
    if (expected_.fails || c_.Is(Option::kPath, "gives_up")) {
      return std::min(last.number + 1, BatchOf(side_->Position()));
    }
    const auto noted = consumer.positions.find(last.number);
    if (MayFailBy(StatusCode::kResourceExhausted) && noted != consumer.positions.end()) {
      return std::min(last.number + 1, BatchOf(noted->second));
    }
    if (!c_.Is(Option::kFeed, "split")) return last.number + 1;
    for (const auto& order : expected_.orders) {
      for (const DeliveredRows& each : order) {
        if (each.number == last.number && each.rows.size() > last.rows.size()) return last.number;
      }
    }
    // A part without rows may be left of it.
    return std::clamp(BatchOf(side_->Position()), last.number, last.number + 1);
  }

  std::uint64_t OtherRanks() const {
    const std::uint64_t ranks = RanksOf(c_);
    if (!c_.Is(Option::kAct, "restore_ranks")) return ranks;
    return ranks % (IsPlanned(c_) ? c_.Number(Option::kSize) : 3) + 1;
  }

  /// A chain like it, as after the program's end; of one of so many ranks.
  void Again(Consumer* consumer, std::uint64_t ranks) {
    consumer->LetGo(0);
    side_.reset();
    chain_ = BuiltChain();
    ranks_ = ranks;
    if (ranks != RanksOf(c_)) {
      expected_ = Expect(c_, *data_, rank_ % ranks, ranks, 3 * Most());
    }
    chain_ = BuildChain(c_, *data_, arena_, rank_ % ranks, ranks);
    side_ = SideOf(&chain_);
    consumer->Use(side_.get());
  }

  /// It goes on at that number; records of blocks have none of their own.
  void Begin(Consumer* consumer, std::uint64_t next) {
    side_->set_next_number(next);
    consumer->Begin();
  }

  void ReadRest(Consumer* consumer, std::uint64_t from) {
    const std::uint64_t most = expected_.whole ? ~std::uint64_t{0} : Most();
    consumer->ReadTo(most);
    if (consumer->ended()) {
      CheckEnd(*consumer, from);
    } else {
      ComparePart(*consumer, from, false);
    }
  }

  /// What is wrong where the end of a chain waits for more of user's functions than are under way:
  /// a stop is looked at between records, and each thread is in one at most.
  std::string CallsWhile(const std::function<void()>& end) const {
    // However late this thread is, no more are made than are under way.
    const HeldUserCalls held;
    const std::uint64_t before = UserCalls();
    end();
    return CallsSince(before);
  }

  std::string CallsSince(std::uint64_t before) const {
    const std::uint64_t calls = UserCalls() - before;
    // Others may have begun before the end was seen.
    const std::uint64_t late = c_.Is(Option::kAct, "close_other") ? kLateCalls : 2;
    if (calls <= 2 * c_.Number(Option::kThreads) + late || HasFeed()) return "";
    return "Close waited for " + std::to_string(calls) + " calls";
  }

  bool HasFeed() const { return !c_.Is(Option::kFeed, "none"); }

  void CloseAndRead(Consumer* consumer) {
    const std::string waited = CallsWhile([this] { side_->Close(); });
    if (!waited.empty()) throw Difference{waited};
    const std::uint64_t closed = UserCalls();
    TakenRead taken;
    std::string wrong;
    const ReadResult result = side_->Next(&taken, &wrong);
    if (result == ReadResult::kRecord) throw Difference{"a delivery after Close"};
    if (result == ReadResult::kFailed && !MayStandWhenClosed(side_->status().code())) {
      throw Difference{"after Close: " + side_->status().ToString()};
    }
    consumer->LetGo(0);
    // A feed that is closed leaves its reader to whoever made it.
    if (UserCalls() != closed && c_.Is(Option::kFeed, "none"))
      throw Difference{"functions are called after Close"};
  }

  /// What came so far, wherever it stopped.
  void CheckPart(const Consumer& consumer, bool closed) const {
    if (consumer.ended() && !closed) return;
    if (closed && consumer.end() == ReadResult::kFailed &&
        !MayStandWhenClosed(consumer.status().code())) {
      throw Difference{"closed, but " + consumer.status().ToString()};
    }
    if (closed && !expected_.whole) return CheckSane(Joined(consumer.rows, ShowsEmpty()));
    // Short of memory it may have failed before it was closed, and cut what was begun.
    if (consumer.end() == ReadResult::kFailed && MayFailBy(consumer.status().code())) {
      return CheckShort(consumer, 0);
    }
    ComparePart(consumer, 0, false);
  }

  void CheckEnd(const Consumer& consumer, std::uint64_t from) const {
    if (consumer.end() == ReadResult::kFailed) {
      const StatusCode code = consumer.status().code();
      if (MayFailBy(code)) return CheckShort(consumer, from);
      if (expected_.refused && consumer.rows.empty()) return;
      const bool refused = code == StatusCode::kResourceExhausted || code == StatusCode::kCancelled;
      // Of data that may be lost as a whole passes without end deliver nothing.
      const bool vain = expected_.may_end && c_.Is(Option::kPasses, "0");
      if ((!expected_.fails || refused) && !vain && c_.Is(Option::kChange, "none")) {
        throw Difference{"failed: " + consumer.status().ToString().substr(0, 300)};
      }
    } else if (expected_.refused) {
      throw Difference{"delivered what cannot be read in this order: " +
                       std::to_string(consumer.rows.size()) + " deliveries and an end"};
    } else if (expected_.fails && !expected_.may_end && c_.Is(Option::kChange, "none") &&
               !LeftFailureOut(from)) {
      throw Difference{"an end where a failure was to come"};
    }
    ComparePart(consumer, from, true);
  }

  void ComparePart(const Consumer& consumer, std::uint64_t from, bool whole) const {
    if (expected_.refused) return;
    std::vector<DeliveredRows> got = Joined(consumer.rows, ShowsEmpty());
    // What fails may stand in a group that was flushed.
    const bool flushed = expected_.may_flush && (!consumer.ended() || expected_.fails);
    // What reads that are given up leave of a batch comes in a short one, where no rest comes else.
    const bool gives_up = c_.Is(Option::kPath, "gives_up") && c_.Is(Option::kRest, "drop");
    if (!expected_.exact || flushed || gives_up || LeftFailureOut(from)) return CheckSane(got);
    // A batch that a failure cuts short may be padded or not: where it is known, see below.
    const bool fails_soon = c_.Is(Option::kPath, "gives_up") || IsSmall();
    const bool ends_well = consumer.ended() && consumer.end() == ReadResult::kEnd;
    if (fails_soon && !ends_well && !got.empty()) Unpad(&got.back());
    // Nor is it told whether batches of padding alone come in front of it.
    if (c_.Is(Option::kRow, "misfit")) std::erase_if(got, IsPadding);
    // A batch that a failure cuts short comes before it.
    const bool cut = !whole && (c_.Is(Option::kFeed, "split") || fails_soon);
    std::string first;
    for (const auto& order : expected_.orders) {
      std::vector<DeliveredRows> expected = order;
      std::vector<DeliveredRows> received = got;
      if (expected_.fails && ReachesLast(received, expected, from)) {
        Unpad(&received.back());
        Unpad(&expected.back());
      }
      std::erase_if(expected, [from](const DeliveredRows& each) { return each.number < from; });
      const bool all = whole && expected_.whole;
      std::string difference = expected_.ordered
                                   ? Compare(received, expected, all, cut, !expected_.whole)
                                   : CompareUnordered(received, expected, all);
      // Ranks that have nothing of the batch that a failure cuts short may take a step for it.
      if (!difference.empty() && expected_.fails && ranks_ > 1) {
        auto& longer = received.size() > expected.size() ? received : expected;
        if (!longer.empty() && IsPadding(longer.back())) longer.pop_back();
        difference = Compare(received, expected, all, cut, !expected_.whole);
      }
      if (difference.empty()) return;
      if (first.empty()) first = difference;
    }
    throw Difference{first.empty() ? "nothing was to be delivered" : first};
  }

  /// What came before the machine did not let it go on: the beginning of the order, the last batch
  /// a short one.
  void CheckShort(const Consumer& consumer, std::uint64_t from) const {
    std::vector<DeliveredRows> got = Joined(consumer.rows, ShowsEmpty());
    const bool known = expected_.exact && expected_.ordered && !expected_.may_flush &&
                       !expected_.refused && !LeftFailureOut(from) && c_.Is(Option::kRest, "keep");
    if (!known) return CheckSane(got);
    // Ranks that have nothing of the batch that a failure cuts short may take a step for it.
    if (ranks_ > 1 && !got.empty() && IsPadding(got.back())) got.pop_back();
    std::string first;
    for (std::vector<DeliveredRows> expected : expected_.orders) {
      std::erase_if(expected, [from](const DeliveredRows& each) { return each.number < from; });
      const std::string difference = Compare(got, expected, false, true, !expected_.whole);
      if (difference.empty()) return;
      if (first.empty()) first = difference;
    }
    if (!first.empty()) throw Difference{first};
  }

  /// Whether what was got from that number on goes as far as what was expected.
  static bool ReachesLast(const std::vector<DeliveredRows>& got,
                          const std::vector<DeliveredRows>& expected, std::uint64_t from) {
    if (got.empty() || expected.empty()) return false;
    return expected.size() <= from + got.size() || expected.back().number <= got.back().number;
  }

  static bool IsPadding(const DeliveredRows& batch) {
    return std::all_of(batch.rows.begin(), batch.rows.end(),
                       [](std::int64_t row) { return row == kPadding || row == kEndOfPacked; });
  }

  static void Unpad(DeliveredRows* batch) {
    Places& rows = batch->rows;
    while (!rows.empty() && (rows.back() == kPadding || rows.back() == kEndOfPacked)) {
      rows.pop_back();
    }
  }

  /// Whether the consumer went on behind the place of the failure.
  bool LeftFailureOut(std::uint64_t from) const {
    if (!expected_.fails) return false;
    return std::any_of(expected_.orders.begin(), expected_.orders.end(), [from](const auto& order) {
      return from > 0 && (order.empty() || order.back().number < from);
    });
  }

  /// Without a model: no record more often than there are passes.
  void CheckSane(const std::vector<DeliveredRows>& got) const {
    const std::uint64_t passes = c_.Number(Option::kPasses);
    if (passes == 0 || c_.IsAnyOf(Option::kChange, "grown replaced")) return;
    for (const auto& [row, count] : CountRows(got)) {
      if (static_cast<std::uint64_t>(count) > passes) {
        throw Difference{"record " + std::to_string(row) + " came " + std::to_string(count) +
                         " times in " + std::to_string(passes) + " passes"};
      }
    }
  }

  /// All that was delivered is counted.
  void CheckRecords(const PipelineStats& stats, const Consumer& consumer) const {
    if (!c_.Is(Option::kRest, "keep") || c_.IsAnyOf(Option::kGather, "pack first best") ||
        c_.Is(Option::kRead, "blocks")) {
      return;
    }
    std::uint64_t rows = 0;
    for (const DeliveredRows& each : consumer.rows) rows += each.rows.size();
    if (stats.records == rows) return;
    throw Difference{"Stats().records is " + std::to_string(stats.records) + " of " +
                     std::to_string(rows) + " rows"};
  }

  void CheckStats(const Consumer& consumer) const {
    const PipelineStats stats = side_->Stats();
    if (LateWakes(stats) != 0) throw Difference{"late wakes in Stats()"};
    if (consumer.end() != ReadResult::kEnd || !expected_.whole || expected_.refused) return;
    if (!c_.Is(Option::kWrap, "none")) return;  // they are of its instances
    if (expected_.exact) CheckRecords(stats, consumer);
    if (expected_.filtered && stats.filtered_records != *expected_.filtered) {
      throw Difference{"filtered_records " + std::to_string(stats.filtered_records) + ", not " +
                       std::to_string(*expected_.filtered)};
    }
    if (expected_.damaged && stats.damaged_records != *expected_.damaged) {
      throw Difference{"damaged_records " + std::to_string(stats.damaged_records) + ", not " +
                       std::to_string(*expected_.damaged)};
    }
    if (expected_.damage_met && RanksOf(c_) == 1 && stats.damaged_records == 0) {
      throw Difference{"damage that was not reported"};
    }
  }

  void Change() {
    if (c_.Is(Option::kChange, "none")) return;
    if (c_.Is(Option::kPace, "slow")) {
      // So long that what can be read ahead is.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const std::string& name = data_->names[data_->names.size() / 2];
    const auto& image = data_->images[data_->names.size() / 2];
    if (c_.Is(Option::kChange, "cut")) {
      if (truncate(name.c_str(), static_cast<off_t>(image.size() / 3)) != 0) return;
    } else if (c_.Is(Option::kChange, "grown")) {
      std::vector<std::byte> twice = image;
      twice.insert(twice.end(), image.begin(), image.end());
      WriteBytes(name + ".new", twice);
      std::filesystem::rename(name + ".new", name);
    } else if (c_.Is(Option::kChange, "replaced")) {
      WriteBytes(name + ".new", data_->images.front());
      std::filesystem::rename(name + ".new", name);
    } else {
      std::filesystem::remove(name);
    }
  }

  void RunShared() {
    chain_ = BuildChain(c_, *data_, arena_, 0, 1);
    std::vector<std::unique_ptr<ChainSide>> sides;
    std::vector<std::unique_ptr<Consumer>> consumers;
    // Where nothing stands on the shared reader they are all the same one.
    const bool apart = chain_.readers[0].id() != chain_.readers[1].id();
    for (const Reader& reader : chain_.readers) {
      sides.push_back(MakeReaderSide(c_, *data_, reader, apart));
      consumers.push_back(std::make_unique<Consumer>(c_, sides.back().get()));
    }
    std::vector<std::string> wrong(sides.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < sides.size(); ++i) {
        threads.emplace_back([&, i] {
          try {
            consumers[i]->ReadTo(~std::uint64_t{0});
            consumers[i]->LetGo(0);
          } catch (const Difference& difference) {
            wrong[i] = difference.what;
          } catch (const Error& error) {
            if (!expected_.refused && !IsSmall()) wrong[i] = error.what();
          }
          if (!wrong[i].empty()) sides[i]->Close();
        });
      }
    }
    for (const std::string& each : wrong) {
      if (!each.empty()) throw Difference{each};
    }
    CheckShared(consumers);
  }

  void CheckShared(const std::vector<std::unique_ptr<Consumer>>& consumers) const {
    std::vector<DeliveredRows> all;
    bool whole = true;
    for (const auto& consumer : consumers) {
      all.insert(all.end(), consumer->rows.begin(), consumer->rows.end());
      whole = whole && consumer->end() == ReadResult::kEnd;
      const bool small = IsSmall();
      if (consumer->end() != ReadResult::kFailed || expected_.fails || small) continue;
      if (!expected_.refused) throw Difference{"failed: " + consumer->status().ToString()};
    }
    if (expected_.refused) return;
    if (!expected_.exact) return CheckSane(all);
    std::string first;
    for (const auto& order : expected_.orders) {
      const std::string difference = CompareUnordered(all, order, whole);
      if (difference.empty()) return;
      if (first.empty()) first = difference;
    }
    if (!first.empty()) throw Difference{first};
  }

  static constexpr std::int64_t kSlowCalls = 400;
  static constexpr std::uint64_t kLateCalls = 60;

  const Configuration& c_;
  TrialBench* const bench_;
  const ChainData* data_;
  std::shared_ptr<PinnedArena> arena_;
  std::uint64_t at_ = 0;
  std::uint64_t rank_ = 0;
  std::uint64_t ranks_ = 1;  ///< of the chain that is read now
  std::optional<RandomFaultHook> faults_;
  std::optional<ShortAfterRefusal> short_reads_;
  std::optional<ChainData> copied_;
  Expectation expected_;
  std::vector<BuiltChain> others_;
  BuiltChain chain_;
  std::unique_ptr<ChainSide> side_;
};

}  // namespace

std::string RunTrial(const Configuration& configuration, TrialBench* bench) {
  try {
    ForgetDraws();
    Trial(configuration, bench).Run();
  } catch (const Difference& difference) {
    return difference.what;
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
  return "";
}

}  // namespace ringfeed
