#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/order/mix_schedule.h"
#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The state of a mixture: all that it needs to go on from there.
struct MixState {
  std::uint64_t pass = 0;  ///< of the mixture
  std::vector<MixCount> sets;

  std::uint64_t place() const;
  friend bool operator==(const MixState&, const MixState&) = default;
};

/// Rows of several sets by weights (MixSchedule). Draw k of set i in pass p of the mixture is place
/// k of its passes p * passes … p * passes + passes - 1, one after the other. A set without end
/// goes on in each pass of the mixture from the place at which it stopped.
class MixCursor final : public RowCursor {
 public:
  struct Set {
    std::unique_ptr<RowCursor> rows;
    bool even = true;  ///< all its passes have as many places
    double weight = 1;
    std::uint64_t passes = 1;        ///< 0: without end
    std::uint64_t most_records = 0;  ///< in a pass of the mixture; 0: all
    RowNumber first_row = 0;         ///< what is added to its numbers
  };
  /// States of the last `kept` places are known to StateAt without long computation.
  MixCursor(std::vector<Set> sets, std::uint64_t kept);

  /// From now on the mixture begins at this state, which Seek reaches at once. If other weights
  /// than these led to it, a new phase begins there, and places before it are unknown. Fails if the
  /// state cannot be one of these sets.
  Status Begin(const MixState& state, bool other_weights);
  /// From that place on, where a phase begins, the sets are mixed by these weights
  /// (IntegerWeights). The place is after the begin and after those of earlier calls. Seek goes
  /// there.
  void ChangeAt(const OrderPlace& at, std::vector<std::uint64_t> weights);
  /// The state in front of a place.
  Status StateAt(std::uint64_t pass, std::uint64_t place, MixState* state);

  /// Changes only by ChangeAt, at a place in this pass. If some sets have an end and some have
  /// none, this makes all draws of a pass, except whole rounds of the weights.
  std::uint64_t Places(std::uint64_t pass) override;
  /// From the nearest known state: makes draws, except whole rounds of the weights.
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

 private:
  struct Member {
    std::unique_ptr<JoinCursor> rows;  ///< its passes in a pass of the mixture as one
    Set options;
    std::vector<RowNumber> taken;  ///< for a piece of Next
    std::size_t at = 0;            ///< in taken
  };
  struct Snapshot {
    MixState state;
    std::uint64_t delivered = 0;
  };

  struct Change {
    OrderPlace at;
    std::vector<std::uint64_t> weights;
  };

  /// The first change after that place.
  std::vector<Change>::const_iterator NextChange(const OrderPlace& at) const;
  /// The place of the next change in the state's pass; kNoChange: there is none.
  std::uint64_t NextChangeIn(const MixState& state) const;
  /// Weights and ends of the sets at a place.
  std::vector<MixSchedule::Set> SetsAt(const OrderPlace& at) const;
  /// It goes on from that state, in a new phase if the weights change there.
  MixSchedule ScheduleAt(const MixState& state) const;
  /// The same after the draws up to a place of the state's pass, or to the end of that.
  MixSchedule Dealt(const MixState& state, std::uint64_t place) const;
  MixState Zero() const;
  /// Moves the state on to the start of that pass.
  void GoToPass(std::uint64_t pass, MixState* state) const;
  /// Moves the state, which is at the end of its pass, to the start of the next.
  static void EndPass(const std::vector<Member>& members, std::uint64_t passes, MixState* state);
  /// The nearest known state at or before that place.
  Status NearestState(std::uint64_t pass, std::uint64_t place, MixState* state) const;
  /// The next draws go on from there.
  void Deal(const MixState& state);
  void TakeSnapshot();
  Status NextPiece(std::span<RowNumber> rows);

  std::vector<Member> members_;
  std::vector<std::uint64_t> weights_;  ///< up to the first change
  std::vector<Change> changes_;
  const std::uint64_t kept_;
  bool even_ = true;
  MixState begin_;
  bool begins_new_ = false;  ///< what is before begin_ is unknown

  MixSchedule schedule_;
  std::uint64_t pass_ = 0;
  std::uint64_t to_change_ = 0;  ///< places up to the next change in the pass
  std::uint64_t delivered_ = 0;  ///< since a seek to another place
  std::deque<Snapshot> snapshots_;
  std::vector<std::uint32_t> chosen_;
};

/// One set of a mixture, as MixSource::Set has it.
struct MixInput {
  const RowLayout* layout = nullptr;  ///< must outlive the cursor
  OrderOptions options{};
  std::span<const OrderStage> stages;
  double weight = 1;
  std::uint64_t passes = 1;
  std::uint64_t most_records = 0;
};

struct MixChain {
  std::unique_ptr<RowCursor> rows;
  MixCursor* mix = nullptr;  ///< at the bottom of `rows`
};

/// The sets, mixed, and the stages on top of the mixture, whose epochs count from first_epoch. Rows
/// are numbered set after set, all of a set's data. States of the last `kept` places of the
/// mixture are kept.
MixChain MakeMixCursor(std::span<const MixInput> sets, std::uint32_t first_epoch,
                       std::span<const OrderStage> stages, std::uint64_t kept);

/// A mixture's state as text, in hexadecimal numbers: the pass, a hash of the weights, and for each
/// set what it gave in this pass and in this phase; of sets without end also what they gave before.
/// As a rule fewer than 24 bytes for each set.
std::string MixText(const MixState& state, std::span<const std::uint64_t> weights);

/// Reads it. *other_weights: other weights than these led to it. Fails with kInvalidArgument.
Status ParseMixText(const std::string& text, std::span<const std::uint64_t> weights,
                    MixState* state, bool* other_weights);

}  // namespace ringfeed
