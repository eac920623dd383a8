#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/ranks.h"
#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "ringfeed/slot.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

class Dataset;
class Parser;

/// Records of files in the order that docs/ORDER.md defines. Names may be globs ("train-*",
/// sorted), have braces as in a shell ("train-{000..003}", "{a,b}-*", in that order), be folders
/// (all files below, sorted, but hidden ones) or be streams ("-", FIFOs, "unix:…", "tcp:…"). A file
/// of exactly that name takes precedence over a glob or braces. A manifest (`ringfeed index
/// --manifest`) that is the only name stands for its files. Throws Error for an empty list, a
/// glob or a folder without a file, an address ("s3://…"), more than a million names or an option
/// that cannot work; a file that turns out missing or unreadable later is a failure of the
/// data.
Reader OpenFiles(const std::vector<std::string>& names, const OpenOptions& options = {});
/// What the first row of CSV files says.
struct CsvColumns {
  std::string header;  ///< the row, for CsvOptions::header
  /// For OpenOptions::format: the first row of each file is no record, and tells where its own
  /// columns stand. A file that lacks one of these is damaged as a whole.
  std::string format;
};
/// Reads the first row of the first of these files that has one; blocks for that. `options` are
/// those that the files are to be opened with: `format` is "", "csv" or "tsv", perhaps with a
/// delimiter. Throws Error if it cannot be read, for streams, and if no file has a row.
CsvColumns ReadCsvColumns(const std::vector<std::string>& names, const OpenOptions& options = {});
/// Records of stores of your own, in the order that OpenFiles has. Takes the sources over; several
/// threads call ReadAt at once. Throws Error for an empty list, a null source or an option that
/// cannot work.
Reader OpenSources(std::vector<std::shared_ptr<Source>> sources, const OpenOptions& options = {});
/// Records of one stream, in a single pass: it cannot start again. Multiplex joins several. Throws
/// Error for a null stream or an option that cannot work.
Reader OpenStreamSource(std::unique_ptr<StreamSource> stream, const OpenOptions& options = {});
/// Instances of a reader of your own, each of them a row of a batch. `fields` declares them: one
/// tensor per field, without a dimension for rows. An instance of another shape fails.
/// OpenOptions::ahead_records says how many are made ahead of the loop. Throws Error for a null
/// source or no fields.
Reader FromInstanceSource(std::unique_ptr<InstanceSource> source, std::vector<FieldSpec> fields,
                          const OpenOptions& options = {});

/// Instances of a reader of your own, as source->slots() declares them: each is checked against
/// that and delivered as it is. Batch joins them along their first dimension and merges their LoD.
/// How many are made ahead OpenOptions::ahead_records says. Throws Error for a null source or no
/// slots.
Reader FromInstanceSource(std::unique_ptr<InstanceSource> source, const OpenOptions& options = {});
/// Records of a data set of your own: each sample is one. How many are made ahead of the loop
/// OpenOptions::ahead_records says. Throws Error for a null data set.
Reader FromDataset(std::unique_ptr<Dataset> dataset, const OpenOptions& options = {});

/// Turns records into fields, one row for each record. That is done last, by several threads,
/// straight into the batch. A record that does not fit the parser is damaged
/// (OpenOptions::on_damage says what follows). Throws Error for a null parser. Like all functions
/// here that take an input, it throws Error if that is empty, is read already or has a consumer.
Reader Parse(Reader records, std::shared_ptr<const Parser> parser);

/// How Shuffle orders records. docs/ORDER.md has the formulas.
enum class ShuffleMode : std::uint8_t {
  kOfSize,  ///< kWindow or kBlock, whichever size is set
  kNone,    ///< as it comes
  kWindow,  ///< record i leaves in the order of i + W * u(seed, epoch, i)
  kBlock,   ///< fill N, permute, drain
  /// The files' stripes (OpenOptions::stripe_bytes) in the order of a keyed permutation of
  /// (seed, epoch), then a window, if one is set: nearly global, and read in large pieces.
  kStripes,
  kGlobal,  ///< a keyed permutation of all records of (seed, epoch)
};
/// Of Shuffle: how far records move, and the seed of their order.
struct ShuffleOptions {
  std::size_t window = 0;  ///< W, of kWindow and kStripes
  std::size_t block = 0;   ///< N, of kBlock
  std::uint64_t seed = 0;
  ShuffleMode mode = ShuffleMode::kOfSize;
};
/// Records in a shuffled order, which depends on the options and the files alone. kStripes and
/// kGlobal take OpenFiles or OpenSources, Parse and Map at most in between, and need an index of
/// the files. Throws Error if the sizes do not suit the mode.
Reader Shuffle(Reader input, const ShuffleOptions& options);

/// Of Batch: how many rows, whose rows, and how many batches are kept in memory.
struct BatchOptions {
  std::size_t size = 0;  ///< rows of a batch
  /// Drop the rest of a pass instead of delivering a short batch. The rest is read and parsed all
  /// the same: a failure in it counts, and good rows before the failure are delivered.
  bool drop_remainder = false;
  /// Batches in memory, including those that are handed out. 0: at least 4, or 2 if memory is
  /// short.
  std::size_t slots = 0;
  /// Every batch has all its rows, even if records are damaged and at the end of a pass: zeros
  /// (of ragged fields nothing) stand for rows that are not there, and a last field "mask" (uint8,
  /// one per row) is 0 for these, 1 for all others.
  bool pad = false;
  /// Of each batch of `size` rows this process gets rows [rank * size / ranks, (rank + 1) * size /
  /// ranks), rounded down, and reads no more than it needs for these; FindRank() asks the launcher.
  /// `size` must be at least the number of ranks. A short last batch is uneven: later ranks have
  /// fewer rows of it, or none. All ranks take as many steps (see empty_batches). Needs an index of
  /// the files.
  Rank rank{};
  /// Instead each rank reads files of its own (FileOrder::rank), size / ranks rows at a time:
  /// `size` must be a multiple of the ranks. That needs no index, but the order is another one for
  /// each number of ranks, and so are the steps.
  bool split_by_files = false;
  /// Whether to deliver a batch with no rows here, because its rows are other ranks' or damaged,
  /// with tensors of no rows. Otherwise it is not shown, and counts with the delivery that comes
  /// next, or with the end. If not set: with several ranks it is delivered, so that all take as
  /// many steps; with one rank, and with split_by_files, it is not.
  std::optional<bool> empty_batches{};
  /// In place of rank, drop_remainder and pad: batches are planned, so that ranks may get rows by
  /// weights, or as much work. `size` is of all ranks together, and keeps its order of rows only
  /// without Balance.
  std::optional<StepOptions> steps{};
  std::string field{};  ///< the ragged field whose units StepOptions::balance counts
};
/// Joins `size` rows to a batch in one piece of pinned memory. A fixed field becomes [rows,
/// shape…]. A ragged one becomes the values of all rows with their offsets in lod[0] (LoDTensors:
/// see their parser); so do the bytes of records on a chain without Parse. Instance::Rows says how
/// many rows there are. A batch's memory is filled again after the last copy of its tensors is
/// gone; a caller that holds all `slots` gets kResourceExhausted instead of a hang. Throws Error
/// for impossible sizes.
Reader Batch(Reader input, const BatchOptions& options);

/// Whether a record is kept; called by several threads at once. What it throws becomes the stream's
/// failure at that record.
using FilterFunction = std::function<bool(const RecordSpan& record)>;
/// Only the records that `keep` keeps; a batch has its size in these. It is asked of the raw record
/// before that is parsed, even if Filter stands after Parse; several are asked in the order of
/// the chain. Dropped records are counted (PipelineStats::filtered_records). `keep` is not called
/// for a damaged record that is skipped, which keeps its place. Put it after Shuffle, so that the
/// order does not depend on what is dropped, and before Batch. `keep` must give the same answer for
/// a record each time: positions, and the share of each rank, rely on it.
Reader Filter(Reader input, FilterFunction keep);

/// Writes a file for OpenOptions::subset that keeps the records of these numbers: those of the data
/// that `files` reads, one file after the other from 0, damaged ones counted. They may be in any
/// order. Makes the files' indexes if they are missing, and reads no record. Others see all of the
/// file or nothing. Blocks. Throws Error for a number that there is not, for streams and mixtures,
/// and if the file cannot be written.
void WriteSubset(const Reader& files, std::span<const std::uint64_t> numbers,
                 const std::string& path);
/// The same of the records that a chain delivers, as behind Filter; its files are opened with
/// OpenOptions::note_records. Reads it to its end. A damaged record that is skipped is not kept.
/// Throws Error if reading fails.
void WriteSubset(Reader chain, const std::string& path);

/// The group that a record belongs to; called by several threads at once. What it throws becomes
/// the stream's failure at that record.
using GroupFunction = std::function<std::int64_t(const RecordSpan& record)>;
/// Of GroupBatch: the group of a record, and how long its rows are held back.
struct GroupBatchOptions {
  std::size_t size = 0;      ///< rows of a batch
  GroupFunction group_of{};  ///< gets the raw record, even after Parse
  /// So many records, damaged ones counted, are grouped among themselves; 0: 64 batches' rows. At
  /// their end no row is held back.
  std::size_t segment = 0;
  /// Drop the rest of the groups instead of delivering short batches. The rest is parsed all the
  /// same: a failure in it counts, and good rows before the failure in its batch are delivered.
  bool drop_remainder = false;
  std::size_t slots = 0;  ///< as of BatchOptions
};
/// Batches whose rows are all of one group. A batch leaves as soon as it is full; at the end of a
/// segment the others follow, short, in the order in which their first rows came. Rows of a group
/// keep their order.
Reader GroupBatch(Reader input, const GroupBatchOptions& options);

/// Reads files or a stream that were opened, and not read yet, as `format`, instead of the format
/// that was asked for or would be found. `opened` is used up. Throws Error for other readers and
/// for a format that is not known.
Reader ReadAs(const Reader& opened, const std::string& format);

/// Records of several streams: of any that has some, in turn if all have. Each reader is one of
/// OpenStreamSource, or of OpenFiles with a stream's name, as it was opened; it is used up. A slow
/// stream does not hold up the others, and they go on when one ends. They also go on when one
/// breaks off, if damage is skipped or the stream is opened again (reopen_limit); otherwise that is
/// the failure of all, after what came before it. `options` are for all of them, but each stream
/// keeps its format, and its reopen_limit and reopen_until if that is the larger one. Throws Error
/// for other readers.
Reader Multiplex(const std::vector<Reader>& streams, const OpenOptions& options = {});

/// One data set of a mixture.
struct MixSet {
  /// OpenFiles, OpenSources or a table, perhaps with Parse and Shuffle; used up. Of parsed sets all
  /// are parsed, into the same fields.
  Reader records;
  double weight = 1;               ///< more than 0; only the proportions count
  std::uint64_t passes = 1;        ///< over this set in a pass of the mixture; 0: without end
  std::uint64_t most_records = 0;  ///< of it in a pass of the mixture; 0: as many as there are
};
/// Records of several sets: of n in a row set i has given weight_i / sum * n, give or take less
/// than one, always in the same order. A set at its end leaves the others to share by their
/// weights. A pass ends when all sets that have an end are at it. Needs an index of the files.
/// `options` are for all of them, on_damage too; other order options stay each set's own.
Reader Mix(const std::vector<MixSet>& sets, const OpenOptions& options = {});

/// The weights of a mixture's sets from a step on.
struct MixWeights {
  std::uint64_t from_step = 0;  ///< counted over all passes
  std::vector<double> weights;  ///< one a set, as MixSet::weight
};
/// How a mixture's weights change while it is read.
struct MixOptions {
  /// The first from step 0, and each from a later step than the one before it. Other weights share
  /// from there on, as if a chain were restored there with other weights: each set goes on where it
  /// was. A step is a batch of all ranks, and a record in a chain without Batch. Of batches with
  /// StepOptions a whole segment is mixed by the weights of the step in which its first share lies.
  std::vector<MixWeights> schedule;
};
/// The same with weights that change: MixSet::weight stays 1. A position holds the state of the
/// mixture, so a chain goes on from it with another schedule, where it could with other weights.
/// Throws Error if the schedule is none. A chain is refused when it is first used if its batches
/// have no place before they are read (Filter and GroupBatch; Pack, TokenBatch and BucketBatch that
/// are not planned), if Shuffle stands after Mix, and if MultiPass in front of Batch joins passes
/// of sets with an end and sets without.
Reader Mix(const std::vector<MixSet>& sets, const MixOptions& mix, const OpenOptions& options = {});

/// A reader that several chains may be built on: each takes what comes next, together they get
/// everything once, in an order that depends on their speed.
///
/// Each chain takes ahead of its consumer: what its shuffle holds, the batches that it has prepared
/// (BatchOptions::slots), and for what comes after them twice OpenOptions::threads blocks or more,
/// each of one instance or of up to 256 KiB of records. If a generator or a queue makes the
/// records, each takes what OpenOptions::ahead_records says. A chain that is closed or destroyed
/// before the end takes these with it: no other chain gets them. If every record counts, read every
/// chain to its end; ReInit of one starts all of them again, with everything.
Reader Share(Reader input);

/// Goes `passes` times over the data, as one stream; 0: without end. The next pass is prefetched
/// while one ends.
Reader MultiPass(Reader input, std::uint64_t passes);

/// Takes the fields of one row from a Map function.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  /// The row's place of a fixed field: unit_bytes() bytes, not initialised. It is in the batch
  /// itself if all fields are fixed.
  virtual std::span<std::byte> Fixed(std::size_t field) = 0;
  /// Sets the values of a ragged field, a multiple of its unit_bytes(). They are copied, unless
  /// they begin where the field's Reserve does.
  virtual void Ragged(std::size_t field, std::span<const std::byte> values) = 0;
  /// `bytes` of memory for the values of a ragged field, not initialised. Write them there and call
  /// Ragged with the part that they take. Valid until the next call for the field, or the end of
  /// the row.
  virtual std::span<std::byte> Reserve(std::size_t field, std::size_t bytes) = 0;
  /// Refuses the row: it is damaged, and the reader's policy decides (OnDamage, max_damaged). No
  /// field needs to be written. An Error with kDamaged that the function throws does the same.
  virtual void Skip(std::string_view reason) = 0;
};

/// The random numbers of a row, for as long as you like.
class RowDraws {
 public:
  /// Draws of a function of no chain: those of record 0 of file 0.
  explicit RowDraws(std::uint64_t seed = 0, std::uint64_t epoch = 0, std::uint32_t file = 0,
                    std::uint64_t record = 0);
  /// Number k: 64 bits. docs/ORDER.md has the formula.
  std::uint64_t operator()(std::uint64_t k) const;

 private:
  std::array<std::uint32_t, 4> key_;
};

class CurrentRows;
/// The row that a Map function is called with. Valid during the call.
struct MapInput {
  RecordSpan record{};               ///< the raw record
  const Instance* fields = nullptr;  ///< its parsed fields, also by name; null without Parse
  std::uint64_t pass = 0;            ///< over the data, that the row is of, from 0
  std::uint64_t epoch = 0;           ///< of the order: OpenOptions::first_epoch + pass

  /// Its file, byte offset and number in the file, as far as they are known. Takes memory for the
  /// name.
  DataPlace Place() const;
  /// Its random numbers. They depend on MapOptions::seed, the epoch, the number of the file in the
  /// list and that of the record in the file alone. So they are the same on any number of threads
  /// and ranks, in every order and after Restore, and new in each epoch. A mixture that gives a
  /// record twice in a pass gives it the same numbers. Records of a Share, whose order depends on
  /// speed, are numbered as they come.
  RowDraws Draws() const;
  std::uint64_t Draw(std::uint64_t k) const { return Draws()(k); }

  std::uint64_t seed = 0;             ///< MapOptions::seed
  const CurrentRows* rows = nullptr;  ///< ringfeed's own
  std::size_t row = 0;                ///< of these
};
/// The function that Map calls with each row: writes the row's new fields. Called by several
/// threads at once.
using MapFunction = std::function<void(const MapInput& input, RowWriter& output)>;
/// How Map calls a function.
struct MapOptions {
  /// Parsed fields that follow the function's own, unchanged. Other parsed fields end here.
  std::vector<std::string> keep{};
  std::uint64_t seed = 0;                 ///< of MapInput::Draw
  std::string name = "the Map function";  ///< as messages call it
  /// Not 0: a row that takes the function longer fails (kDeadlineExceeded, with file and record),
  /// or is passed over as damage. The function is called by threads of its own, which costs about
  /// 10 µs a row. A thread whose call is given up ends when the function returns; what the function
  /// refers to must live so long. Stats names the slowest rows.
  std::int64_t row_timeout_ms = 0;
};
/// Calls a function of yours with every row, from several threads at once; the results are in
/// order. `fields` declares what it writes: all of them, in each call that does not Skip. What it
/// throws becomes the stream's failure at that row, and so does a field that it did not write.
/// Throws Error for an empty function, no fields, a field to keep that is not there, or a timeout
/// below 0.
Reader Map(Reader input, std::vector<FieldSpec> fields, MapFunction function,
           const MapOptions& options = {});

/// Keeps `slots` (at least 2) batches in memory, so that the next is filled while one is used.
/// Batch does so by itself; this names the number. After instances of a reader of your own that
/// are delivered as they are it says how many of them are taken ahead (OpenOptions::ahead_records
/// wins). In other chains it changes nothing: records are read ahead anyway. Throws Error for less
/// than 2.
Reader DoubleBuffer(Reader input, std::size_t slots = 2);

/// Batches of `input` as tensors on a device, copied ahead of the consumer: what Paddle's
/// create_double_buffer_reader promised for a device place. They are ready when ReadNext returns
/// (Tensor::place names the device), and do not change until the last copy of a batch's tensors is
/// destroyed. By then all work on them must be done, since no stream is known to wait for. A
/// training loop that should not wait for its own work uses DeviceFeed.
///
/// `slots` batches are on the device at a time (2 or more), including those handed out: while all
/// are held, ReadNext waits until one is released, or Close. The reader is the end of its chain;
/// for the CPU it is DoubleBuffer. Throws Error if there is no such device, with the reason.
Reader DoubleBufferOn(Reader input, Place place, std::size_t slots = 2);

}  // namespace ringfeed
