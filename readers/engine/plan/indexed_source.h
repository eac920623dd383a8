#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/engine/files/file_lengths.h"
#include "readers/engine/files/file_table.h"
#include "readers/engine/files/record_set.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/order/chunk_plan.h"
#include "readers/order/mix_cursor.h"
#include "readers/order/plan_clock.h"
#include "readers/order/position.h"
#include "readers/order/row_cursor.h"
#include "readers/order/share_plan.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Starts the input of a user's decorator once more, for a further pass; false if that is
/// impossible. Empty if a chain's source is not such a decorator.
using RewindInput = std::function<bool()>;

/// The start of a run of a chain.
struct RunStart {
  std::uint64_t batch = 0;      ///< over all runs, of this one's batch number 0
  PlanPosition mark{};          ///< other than the beginning only by index, except for its outputs
  std::uint64_t step = 0;       ///< if shares make the batches: steps before `mark`, in all passes
  std::uint64_t leave_out = 0;  ///< so many batches (rows, without Batch) after `mark`
  /// Counts of a mixture's sets at `mark` (MixState); empty: as from the mixture's beginning on.
  std::string mix{};
  bool by_index = false;          ///< as it is read from there
  std::uint64_t source_pass = 0;  ///< of a data set whose passes differ, the first one (pass())
  /// The position is of a chain that does something else with damage: what is left out must have no
  /// damage without a record's number, since the order after it would be another one.
  bool other_policy = false;
};

/// A chain's files with their indexes, and the order of their records: what a run by index begins
/// with, and what positions are computed from. Thread safe.
class IndexedSource {
 public:
  /// Opens the indexes of the plan's files, and builds those that are missing. Blocks. Throws
  /// Error if a file cannot be had or has no index, and with kCancelled if `stop` is
  /// requested meanwhile. `plan` outlives it.
  IndexedSource(const ExecutionPlan& plan, const std::stop_token& stop);

  /// A cursor over the order, to be put to its place by Seek, with the first `stages` of the
  /// plan's. A mixture begins where `start` says; throws Error if that is of another mixture.
  std::unique_ptr<RowCursor> NewCursor(const RunStart& start, std::size_t stages) const;
  /// Throws Error if a start is of another mixture, or of one with other weights at a place at
  /// which they do not change.
  void CheckMix(const RunStart& start) const;
  /// Passes of that cursor; 0: without end.
  std::uint64_t passes(std::size_t stages) const;
  /// The begin of batch number `batch` (of `rows` places each), over all passes. Only if batches do
  /// not depend on what is in the records.
  PlanPosition PlaceOf(std::uint64_t batch, std::uint64_t rows, bool drop_remainder);
  /// The same number, or that of the end if there are not so many batches.
  std::uint64_t BatchOrEnd(std::uint64_t batch, std::uint64_t rows, bool drop_remainder);
  /// The place `batches` after the start of a mixture's run.
  PlanPosition PlaceBehind(const RunStart& start, std::uint64_t batches);
  /// The state (MixState) that the mixture of a run goes on from at that place, as text for a
  /// position: up to 24 bytes for each set. So many steps are before the place, in all passes:
  /// batches, or rows without Batch. Throws Error if it cannot be found out.
  std::string MixBehind(const RunStart& start, const PlanPosition& mark, std::uint64_t step);

  /// The steps from a start on, of a chain whose batches shares make; SharePlan::Seek begins it.
  /// `rules`: those of the plan, or, without a mixture, others of the same field's lengths.
  std::unique_ptr<SharePlan> NewSharePlan(const RunStart& start, const ShareRules& rules) const;
  /// The order from a start on, with the first `stages` of the plan's: of a rank that shares
  /// batches, its part of each. About so many rows a chunk.
  std::unique_ptr<ChunkMaker> NewChunks(const RunStart& start, std::size_t stages,
                                        std::size_t rows_per_chunk) const;
  /// The rows that this rank plans of the first batch after a start, or, without Batch, of the
  /// first record. False if there is no batch. Only if batches do not depend on what is in the
  /// records, or are planned. Throws Error if the order or the lengths fail.
  struct BatchRow {
    RowNumber row = 0;
    std::uint32_t batch_row = 0;  ///< of the batch on this rank
    std::uint32_t units = 0;      ///< that are planned for it; 0 if none are
  };
  bool FirstBatch(const RunStart& start, std::vector<BatchRow>* rows) const;
  /// The place `steps` steps after a start, and how many of them there are. Plans all of them.
  /// Throws Error if the order or the lengths fail.
  struct StepPlace {
    PlanPosition mark;
    std::uint64_t steps = 0;
  };
  StepPlace StepsBehind(const RunStart& start, std::uint64_t steps) const;
  /// FileLengths::digest of the field whose units are planned; 0 if none are.
  std::uint64_t lengths_digest() const { return lengths_ == nullptr ? 0 : lengths_->digest(); }
  const DataFingerprint& fingerprint() const { return fingerprint_; }
  /// The sets of a mixture, else one.
  const std::vector<std::shared_ptr<const RecordSet>>& sets() const { return sets_; }
  /// Their files, one set's after the other's.
  const std::shared_ptr<const FileTable>& table() const { return table_; }
  /// How the indexes were found or made, in words: of the first that has something to say.
  std::string Describe() const;
  /// The rows that are read of a set.
  const RowLayout& LayoutOf(std::size_t set) const;
  /// Whether a set is read by a subset.
  bool leaves_rows_out() const { return !kept_.empty(); }
  /// The units of the field that is planned by; null if none is.
  const FileLengths* lengths() const { return lengths_.get(); }
  /// Rounded up; 1 if there are no records.
  std::uint64_t mean_record_bytes() const;
  /// What all records of the files lost that pass `pass` of the cursor with the first `stages`
  /// reads: it has no place in the order. `count` may be more than are listed.
  struct Losses {
    std::vector<DamagedRange> ranges;
    std::uint64_t count = 0;
    std::vector<DataWarning> warnings;
  };
  Losses LossesOf(std::uint64_t pass, std::size_t stages) const;
  /// Rows of that pass by the files' indexes; of a mixture, and of passes without end that are
  /// joined into one, none.
  std::optional<std::uint64_t> RowsOf(std::uint64_t pass, std::size_t stages) const;
  /// Whether the files are dealt out anew in each pass, and any rank's have a row: then a pass
  /// without one tells nothing of the others.
  bool HasOtherFilesInEachPass() const;
  /// Of rows by their numbers.
  std::vector<RecordRange> RangesOf(std::span<const std::uint64_t> rows) const;

 private:
  /// Where the weights of a mixture changed in a run whose steps are known only as they are
  /// planned, in order: by the mixture's places, and to which of the schedule.
  struct MixChange {
    OrderPlace at;
    std::size_t weights = 0;
  };

  bool has_even_passes() const;
  MixChain NewMix(const RunStart& start) const;
  /// Tells the run's mixture of changes that were noted after the first *known ones. Whether there
  /// are some. Under mutex_.
  bool AddChanges(const RunStart& start, MixCursor* mix, std::size_t* known) const;
  /// Notes that a segment begins at that place, before it is dealt: weights may change there. Under
  /// mutex_.
  void NoteSegment(const RunStart& start, const OrderPlace& at, std::uint64_t step) const;
  /// The step in which the first share of the mark's segment lies; else the step behind the mark.
  std::uint64_t FirstStepOf(const PlanPosition& mark, std::uint64_t step) const;
  /// Which weights of the schedule that step has.
  std::size_t WeightsAt(std::uint64_t step) const;
  std::vector<std::uint64_t> IntegersOf(std::size_t weights) const;
  /// What a position tells other weights by.
  std::vector<std::uint64_t> WeightsBehind(const PlanPosition& mark, std::uint64_t step) const;
  const SourceNode& SourceOf(std::size_t set) const;
  /// Throws Error if a subset is of other data.
  void UseSubsets();
  void OpenLengths(const std::stop_token& stop);
  /// Counts those of the rows that are read.
  void CountHoles(const FileLengths::Columns& columns);
  static void AddLosses(const RecordSet::File& file, Losses* losses);
  /// The chain that began there; under mutex_.
  const MixChain& MixFrom(const RunStart& start);

  const ExecutionPlan& plan_;
  std::vector<std::shared_ptr<const RecordSet>> sets_;
  std::vector<std::unique_ptr<const KeptLayout>> kept_;  ///< by set, null of a whole one; or empty
  std::shared_ptr<const FileTable> table_;
  std::uint64_t passes_ = 1;  ///< after all stages
  bool even_ = true;          ///< passes have as many places, while the weights are the same
  std::shared_ptr<const FileLengths> lengths_;
  std::string lengths_how_;           ///< how they were come by, for Describe
  std::vector<std::uint64_t> holes_;  ///< of lengths_, by file of table_
  DataFingerprint fingerprint_;

  mutable std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<RowCursor> counting_;
  /// By MixStartOf.
  mutable std::map<std::string, std::vector<MixChange>> mix_changes_;
  std::string mix_begin_;      ///< MixStartOf of mix_
  std::size_t mix_known_ = 0;  ///< changes that were added to it
  MixChain mix_;
};

/// How indexes of a source's files are found and kept.
IndexOptions IndexOptionsOf(const SourceNode& source);
/// Of a source's files, of which it reads pieces; of another source nothing. A missing file counts
/// as an empty one. Throws Error if one cannot be read now, even after some tries.
DataFingerprint FingerprintOf(const SourceNode& source);

}  // namespace ringfeed
