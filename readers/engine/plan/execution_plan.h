#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/pending_copy.h"
#include "io/remote/remote_source.h"
#include "readers/engine/files/file_lengths.h"
#include "readers/engine/files/subset_file.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/order/place_chunks.h"
#include "readers/order/rank_shares.h"
#include "readers/order/row_layout.h"
#include "readers/order/share_plan.h"
#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/reader.h"
#include "ringfeed/slot.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Gives records that are made in memory, one after another. Used by one thread.
class RecordProvider {
 public:
  virtual ~RecordProvider() = default;
  /// The next record, valid until the next call. kFailed puts the reason into *status. An exception
  /// is a failure too. (The token is passed by reference: a copy for each record would write to
  /// memory that the workers read for each row.)
  virtual ReadResult Next(std::span<const std::byte>* record, const std::stop_token& stop,
                          Status* status) = 0;
  /// Whether the next call will not wait.
  virtual bool Ready() const = 0;
  /// Starts the next pass; false if that cannot be done.
  virtual bool ReInit() = 0;
  /// The pass that it is in, if passes differ; StartPass goes to the beginning of one.
  virtual std::uint64_t pass() const { return 0; }
  virtual bool StartPass(std::uint64_t /*pass*/) { return ReInit(); }
  /// No more is asked for before ReInit. It must keep nothing that other threads may wait for.
  virtual void LetGo() {}
  virtual std::string name() const = 0;
};

class DirectReads;
struct MixSource;

/// A stream and the name of its format; if empty, the bytes tell it.
struct StreamInput {
  std::shared_ptr<StreamSource> stream;
  std::string format;
  std::uint64_t reopen_limit = 0;
  double reopen_until = 0;  ///< seconds without a byte; in place of the limit, if not 0
  bool reopens() const { return reopen_limit > 0 || reopen_until > 0; }
};
/// The source of a chain's records: one of files, streams, instances and records.
struct SourceNode {
  std::vector<std::string> names;  ///< of the files
  /// Empty, or for each file what is read in place of one of that name; null: that.
  std::vector<std::shared_ptr<Source>> sources;
  bool own_sources = false;                     ///< they are the program's
  std::shared_ptr<const RemoteReading> remote;  ///< of stores' objects; null: there are none
  std::shared_ptr<const Manifest> manifest;     ///< that listed these; null: there is none
  std::shared_ptr<std::atomic<std::uint64_t>> given_up_reads;  ///< of these; null without a timeout
  std::shared_ptr<const FileReaderFactory> file_readers;  ///< of a registered format; else null
  std::vector<StreamInput> streams;                       ///< several: first come, first served
  std::shared_ptr<InstanceSource> instances;              ///< a user's reader
  std::shared_ptr<RecordProvider> records;                ///< made in memory
  std::vector<SlotSpec> slots;                 ///< of instances that are delivered as they are
  std::shared_ptr<const Parser> batch_parser;  ///< joins these; null: as their slots say
  std::shared_ptr<const Parser> parser;        ///< of instances that are rows
  OpenOptions options;
  std::shared_ptr<const SubsetFile> subset;  ///< of options.subset; null: all records
  /// The user's code makes its records on request: what is taken ahead has a default.
  bool generated = false;
  bool shared = false;                   ///< other chains take from the same input
  std::shared_ptr<const MixSource> mix;  ///< sets of files, mixed
};
/// What Mix mixes: the sets as their chains were lowered.
struct MixSource {
  struct Set {
    SourceNode source;
    std::vector<OrderStage> stages;
    std::uint64_t passes = 1;
    std::uint64_t most_records = 0;
    std::shared_ptr<const Parser> parser;  ///< null: the sets are parsed after they are mixed
    bool ends() const { return passes != 0 || most_records != 0; }
  };
  std::vector<Set> sets;
  std::vector<MixWeights> schedule;  ///< one at least

  bool is_scheduled() const { return schedule.size() > 1; }
  /// Whether the length of a pass depends on the weights: a set without end gives as many records
  /// as come beside those of the sets that have one.
  bool has_passes_by_weights() const;
};
/// Reads of the source, or of all that it mixes, that took longer than their timeout.
std::uint64_t GivenUpReads(const SourceNode& source);
/// Whether some files of the source, or of all that it mixes, are objects of stores.
bool ReadsStores(const SourceNode& source);
/// Adds what the stores' objects of the source, or of all that it mixes, took.
void AddRemote(const SourceNode& source, RemoteStats* remote);
/// An order in words as positions hold it. If it is too long or no UTF-8: the start of it, and a
/// hash of all of it.
std::string ShortOrder(const std::string& text);
/// The last tensor of a padded batch: which of its rows are there.
inline constexpr const char* kMaskName = "mask";

/// One file of a source, and how many records its index has.
struct CountedFile {
  std::string name;
  std::shared_ptr<Source> source;  ///< in place of a file of that name, if not null
  std::uint64_t records = 0;
};
/// Measures files by reading them once: of each file the units of each record,
/// LengthTable::kHole of one that is damaged. `units` is of MakeUnitsParser, `like` the source that
/// has the files. Blocks; throws Error.
using MeasureFiles = std::function<std::vector<std::vector<std::uint32_t>>(
    const SourceNode& like, std::span<const CountedFile> files,
    const std::shared_ptr<const Parser>& units, const std::stop_token& stop)>;

/// Of a chain whose batches shares make: what makes them, of which lengths, and who gets them.
struct SharedSteps {
  ShareRules rules;
  RankSplit split;
  std::uint64_t rank = 0;
  std::string field;   ///< whose units count
  FieldLengths units;  ///< what the field's lengths are kept under, and measured by
  std::vector<FieldLengths> set_units;  ///< these of each set, if a mixture's have own parsers
  bool is_named = false;                ///< by the user: a function of the user's makes the field
  std::vector<LengthChange> changes;
  MeasureFiles measure;
  std::size_t most_rows = 0;  ///< of a token batch; else 0

  /// Whether each share is a batch of its own, and a step several of them.
  bool in_pieces() const { return rules.kind == ShareRules::Kind::kTokens; }
  /// Batches of a step on each rank.
  std::uint64_t pieces() const { return in_pieces() ? SharesOfRank() : 1; }
  /// Shares of a step that a rank gets at most.
  std::uint64_t SharesOfRank() const;
  /// Shares that a step is filled up to: those of all ranks, if all get as many.
  std::uint64_t FillTo() const;
};

/// A chain in the form that a run executes: the source of its records, the plan stages that order
/// them, the form in which they are delivered. LowerChain makes it of the nodes that a user builds.
struct ExecutionPlan {
  using Stage = OrderStage;
  static constexpr std::uint64_t kMostPassesThatEnd = std::uint64_t{1} << 20;

  SourceNode source;
  std::uint64_t passes = 1;              ///< over the source; 0: without end
  std::vector<Stage> stages;             ///< from the source on
  std::shared_ptr<const Parser> parser;  ///< null: records as they are
  /// The parser of Parse: `parser` without what Map, Truncate, Pad or Pack make of its fields.
  std::shared_ptr<const Parser> record_parser;
  /// Makes the row of a record: `parser` without what Pack makes of rows; null without parser.
  std::shared_ptr<const Parser> row_parser;
  bool batched = false;  ///< by the user's Batch
  BatchOptions batch;
  std::size_t buffered = 0;             ///< instances, by DoubleBuffer; 0: it is not said
  std::size_t held_batches = 0;         ///< that the reading thread may hold at a time
  std::size_t needed_batches = 0;       ///< of these, those that do not come back by themselves
  LeftFieldRules left_fields;           ///< as BatchRules
  std::shared_ptr<DirectReads> direct;  ///< asked for memory by each run; null: by none
  std::vector<ContentStep> content;     ///< after the stages
  std::optional<SharedSteps> shares;    ///< then the last step is of their stage

  /// Whether a stage holds rows back.
  bool shuffled() const;
  /// How far before a place the stages look for its rows.
  std::uint64_t LookBack() const;
  /// Whether joined passes of the mixture differ in length by its weights.
  bool JoinsByWeights() const;
  /// ContentStep::marks_rows of the last step.
  bool marks_rows() const { return !content.empty() && content.back().marks_rows; }
  /// Whether batches depend on what is in the records: then their number alone is no place.
  bool looks_into_records() const { return !content.empty(); }
  /// Whether the order cannot be had as files are read.
  bool needs_index() const;
  /// Whether an index could be made: of a list of files or stores, which IndexUse allows.
  bool may_have_index() const;
  /// Why the order does not come again; empty if it does.
  std::string WhyNoPosition() const;
  /// Rows of a batch on this rank, if the batch is whole.
  std::size_t RowsOfRank() const;
  /// The part of each batch that this rank reads, of batches of so many rows each.
  BatchSlice SliceOfRank() const;
  /// Whether a batch without rows is handed out: see BatchOptions::empty_batches.
  bool shows_empty_batches() const {
    const bool splits = batch.rank.world_size > 1 && !batch.split_by_files;
    return batched && batch.empty_batches.value_or(splits);
  }
  /// The order in words, as positions hold it.
  std::string OrderText() const;
  /// Why all checksums of payloads are taken as records are framed, though left_fields would leave
  /// them: if a record turned out damaged only later, the result could not be the same. Empty if
  /// they are left. For a plan without the stages that its index has done.
  std::string WhySumsAreEarly() const;
  /// The same for checksums that the writers of rows take, whatever the readers ask for.
  std::string WhySumsAreFramed() const;
  /// Of the order of files and of the shuffles, in the chain's order.
  std::vector<std::uint64_t> Seeds() const;
  bool rewindable() const { return source.streams.empty(); }
  /// Whether passes that deliver nothing would go on for ever, or for years: then they fail.
  bool is_endless() const { return passes == 0 || passes > kMostPassesThatEnd; }
  /// Instances that leave as they came.
  bool passes_instances() const { return parser == nullptr && !source.slots.empty(); }
  /// What one read delivers.
  std::vector<SlotSpec> Slots() const;
};

}  // namespace ringfeed
