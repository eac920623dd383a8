#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "ringfeed/batch_origin.h"
#include "ringfeed/instance.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/record.h"
#include "ringfeed/slot.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

class GraphNode;
class ReaderAccess;
class ReaderSession;

/// What a read found.
enum class ReadResult : std::uint8_t {
  kRecord,   ///< the output was filled
  kEnd,      ///< the data are at their end; not an error
  kFailed,   ///< see status(); everything good before the failure was delivered
  kTimeout,  ///< the deadline passed and nothing was lost: call again
};

/// How a read waits, and what else it returns.
struct ReadOptions {
  /// Filled with the origin of the instance. Of a block it has the number of the last record, and
  /// the list of its records. Not owned; may be null.
  BatchOrigin* origin = nullptr;
  /// The read gives kTimeout if nothing came until then. An available instance is delivered even
  /// after the deadline, so a past deadline asks without waiting. The call that starts the chain,
  /// and one while ReInit starts it again, may come back later: opening files and making an index
  /// are not broken off. With a `stop` that can be requested the deadline does not count.
  Deadline deadline = kNoDeadline;
  /// For a thread that hands on what it reads: the read gives kFailed soon after the request, and
  /// the next call goes on. Such a thread also waits for batches that it was handed itself, for as
  /// long as that takes, so ReserveBatches must know how many batches it keeps.
  std::stop_token stop{};
};

/// The purpose of an index of the files: see Reader::MakeIndex.
enum class IndexPurpose : std::uint8_t {
  kReading,   ///< the order that the chain reads in
  kCounting,  ///< records by their numbers: counts and places
};

/// Thrown by Reader::ReadNext at the end of the data.
class EndOfData : public std::runtime_error {
 public:
  EndOfData() : EndOfData("there is no next record: the data are at their end") {}
  /// With a message that tells the place more exactly.
  explicit EndOfData(const std::string& message) : std::runtime_error(message) {}
};

/// A run of records in the order of delivery, as views into memory that this object holds. A
/// damaged one that was skipped is a null view at its place (RecordSpan::damaged). Move only. The
/// block holds its memory until it is destroyed or overwritten: release it before you read many
/// more.
class RecordBlock {
 public:
  RecordBlock();
  ~RecordBlock();
  RecordBlock(RecordBlock&&) noexcept;
  RecordBlock& operator=(RecordBlock&&) noexcept;

  /// Views of the records; valid as long as the block.
  std::span<const RecordSpan> records() const { return records_; }
  /// How many there are, damaged ones counted.
  std::size_t size() const { return records_.size(); }

 private:
  friend class ReaderSession;
  std::span<const RecordSpan> records_;
  std::shared_ptr<const void> hold_;
};

/// A handle on a chain of readers and decorators. OpenFiles and others (decorators.h) make one.
/// Copies are the same reader. Building a chain starts nothing. The first read starts its threads,
/// on the reader that is read: from then on, attaching to or reading another one of the chain
/// throws. The threads end with the last handle, or at Close.
///
/// Thread safety: all methods may be called from several threads. On an empty handle all but
/// fields, shapes, slots, EndPoints, ResetAll and id throw Error(kInvalidArgument).
///
/// Nothing comes after a failure. Everything good before it in the chain's order is delivered
/// first, in a short last batch, whatever BatchOptions::drop_remainder says: a record or a row that
/// fails ends the order at its own place, at whatever place in the files that is. (After damage
/// that hides the beginnings of records, and after damage of a stream, nothing more is read: then
/// everything before it both in the files and in the order is delivered. If memory runs out, rows
/// of groups are delivered, but none that a shuffle holds.)
///
/// A child of fork has none of the memory of batches, instances and blocks: it is not copied,
/// because devices and the kernel write to it, and an access to it there is SIGSEGV. Copy before
/// the fork what a child needs. A child may open readers of its own; a reader that was read before
/// throws Error.
class Reader {
 public:
  /// An empty handle.
  Reader() = default;

  /// Names, dtypes and shapes of the fields that a read delivers; -1 stands for a dimension that
  /// varies. Reads nothing. Empty for an empty handle, as the next two.
  std::vector<FieldSpec> fields() const;
  /// The shapes of fields().
  std::vector<Shape> shapes() const;
  /// fields() with their levels of LoD.
  std::vector<SlotSpec> slots() const;

  /// The next batch of a chain with Batch, else the next record. Blocks until there is one. Throws
  /// EndOfData at the end and Error on failure. Its memory is its own as long as the instance or a
  /// copy of its tensors is held.
  Instance ReadNext();
  /// Reads the next batch or record into *instance, after dropping its old tensors. Blocks as
  /// `options` say. Whatever data can cause, and Close at any time, is a result; errors of the
  /// set-up still throw Error at the first call. If every batch is held, so that no next one can
  /// come, it fails with kResourceExhausted: soon, if the threads that hold them wait for more
  /// themselves; otherwise after 10 seconds without a release. After one is released the next call
  /// goes on.
  ReadResult TryReadNext(Instance* instance, const ReadOptions& options = {});
  /// Reads the next records in bulk, without copying them. Only for chains without Parse, Map and
  /// Batch; on others it throws Error(kInvalidArgument). Else as TryReadNext.
  ReadResult TryReadBlock(RecordBlock* block, const ReadOptions& options = {});
  /// Says before the first read that the caller holds up to `batches` batches at a time. There are
  /// then more than that (BatchOptions::slots is raised), or reading fails. Only for a chain that
  /// ends in Batch; on others it changes nothing. Throws Error if reading has begun, or for more
  /// than there can be.
  void ReserveBatches(std::size_t batches);
  /// Whether ReadNext would deliver something. Blocks until that is known. Exact for one consumer;
  /// several use TryReadNext, as another one may take it. A failure counts as true: ReadNext then
  /// throws it. False is the end: batches that are not shown (BatchOptions::empty_batches) count
  /// for Position from then on.
  bool HasNext();
  /// The same until a deadline: kRecord, kEnd, or kTimeout if it is not known until then. A
  /// deadline that is past asks without waiting; ReadOptions::deadline says more about the start of
  /// the chain.
  ReadResult TryHasNext(Deadline deadline);
  /// The pass over the data, from 0, in which the next instance begins. A pass has ended when it
  /// changes. Blocks until that is known. None at the end, if a failure comes next, and if another
  /// consumer took it. After a Shuffle of joined passes it is that of the row that comes first, or,
  /// if records are read by number, of the record that had that place before.
  std::optional<std::uint64_t> NextPass();
  /// The same until a deadline, as TryHasNext: *pass becomes what NextPass gives, none if this is
  /// no kRecord.
  ReadResult TryNextPass(std::optional<std::uint64_t>* pass, Deadline deadline);
  /// Starts again at the first pass, at any time, even while other threads read: their next
  /// instances are of the new pass. Drops what was prefetched. Throws Error if the source cannot
  /// rewind (a stream), before anything is lost. Chains on one shared reader start again together.
  void ReInit();
  /// The reader's position after the instances handed out: a line of JSON of at most 1 KiB (24
  /// bytes more for each set of a mixture), the same on all ranks. Restore takes it. With Filter or
  /// groups, and after SeekTo, it reads up to there first, and blocks. Throws Error if no order
  /// comes again (unordered, several streams, Share).
  std::string Position() const;
  /// The position after the batch of that origin, for a program that reads batches ahead of their
  /// use. Else as Position().
  std::string Position(const BatchOrigin& origin) const;
  /// The position before anything was handed out: at the beginning, or at the target of the last
  /// Restore, SeekTo or SkipBatches. Else as Position().
  std::string StartPosition() const;
  /// Waits until the target of SeekTo, Restore or SkipBatches is known: Position and StartPosition
  /// wait for that. False: it is not known by the deadline. True at once for a chain that knows it
  /// at once. As TryHasNext.
  bool AwaitPosition(Deadline deadline) const;
  /// Whether that is known: then Position returns at once. Begins no read, and does not block.
  bool KnowsPosition() const;
  /// How many records each file of the list has, damaged ones that can be counted too, of a subset
  /// the kept ones; of a mixture one list after the other. Takes that from the files' indexes, and
  /// makes those that are missing. Throws Error if there can be none.
  std::vector<std::uint64_t> FileRecords() const;
  /// The names of the files that FileRecords counts, in its order, and as RecordRange::file numbers
  /// them: patterns as the files that they match. Throws Error as FileRecords.
  std::vector<std::string> FileNames() const;
  /// Record number `number` of the data set, from 0, file after file, of a mixture set after set:
  /// as Parse, Map, Truncate and Pad make a row of it, in the first pass; without Parse its bytes.
  /// Filter, Shuffle and batches are left out. Reads it in this thread, from the file, and starts
  /// nothing; a child of fork may call it of a reader that was not read. Takes its place from the
  /// file's index, which is made if it is missing. Throws Error if there is no such record, if it
  /// is damaged or refused, with its place, and if records have no numbers.
  Instance RecordAt(std::uint64_t number) const;
  /// The same of several at once, as a batch in that order. Throws Error without Parse.
  Instance RecordsAt(std::span<const std::uint64_t> numbers) const;
  /// Which records batch number `batch`, as BatchOrigin::batch counts, has on this rank; without
  /// Batch, which record. By the order alone: reads nothing but indexes and lengths, so damaged
  /// records are among them, and rows that only fill a batch up are not. `position`: of a run that
  /// began there, by other weights of a mixture; empty: from the beginning. Throws Error if there
  /// is no such batch, and (kUnsupported) if batches depend on what is in the records and are not
  /// planned (StepOptions), or records have no numbers.
  std::vector<BatchRecord> Which(std::uint64_t batch, const std::string& position = {}) const;
  /// How many batches there are from the beginning to the end of all passes, as BatchOrigin::batch
  /// counts them: on each rank as many. Of a chain without Batch, rows. By the files' index, which
  /// is made if it is missing; planned batches (StepOptions) are planned for it, at about 20
  /// million records a second. Reads no record. Throws Error (kUnsupported) if it cannot be known:
  /// passes without end, Filter, groups, batches by content that are not planned, mixtures,
  /// streams.
  std::uint64_t CountBatches() const;
  /// In how many batches this rank gets a step: TokenBatch over several shares delivers them one
  /// after another, and a position lies between steps and counts these. 1 of all other chains.
  std::uint64_t BatchesOfStep() const;
  /// Opens the files' indexes now, and makes those that are missing, which may read all of the
  /// files once. kReading does what the first read does of a chain that is read by index alone, and
  /// nothing for other chains. kCounting does what FileRecords, Restore and SeekTo do, for every
  /// chain that can have an index. Blocks. Soon after `stop` is requested, or Close called, it
  /// throws Error(kCancelled) and leaves no files; the next call begins anew. Throws Error if these
  /// calls would.
  void MakeIndex(IndexPurpose purpose, const std::stop_token& stop = {});
  /// Goes on after a position of a chain like this one, at any time, as ReInit does; the position
  /// may have been saved by another number of ranks. Returns before anything is read. With an index
  /// the next read starts there, else it reads up to there first (PipelineStats::restored says
  /// which). If the data or the chain are not those of the position it throws Error, with what
  /// changed, before anything is lost.
  void Restore(const std::string& position);
  /// Throws Error if Restore would, and changes nothing.
  void CheckPosition(const std::string& position) const;
  /// Goes on after the first `batch` batches from the beginning, all ranks alike. As Restore.
  void SeekTo(std::uint64_t batch);
  /// Throws Error if SeekTo would, and changes nothing. As Restore, reads nothing but indexes.
  void CheckSeek() const;
  /// Leaves the next `batches` batches out. As Restore.
  void SkipBatches(std::uint64_t batches);
  /// The readers that no other reader is built on, of all that are connected with this one.
  std::vector<Reader> EndPoints() const;
  /// ReInit of all end points at once, from any reader of the graph.
  void ResetAll();
  /// Ends the threads and wakes waiting threads. Reads then give kFailed with kCancelled. The
  /// pinned memory goes back to the arena, for other chains: all but the held batches, which follow
  /// when they are released; for records, as soon as no block of them is held. A second call
  /// changes nothing.
  void Close();

  /// The failure after kFailed, else OK.
  Status status() const;
  /// What the chain has done so far; at any time.
  PipelineStats Stats() const;

  /// Tells readers apart: equal for all handles on one reader, different for two readers that both
  /// exist. Null of an empty handle. Do not dereference it.
  const void* id() const { return node_.get(); }
  /// Whether the handle is not empty.
  explicit operator bool() const { return node_ != nullptr; }

 private:
  friend class ReaderAccess;
  explicit Reader(std::shared_ptr<GraphNode> node);

  std::shared_ptr<GraphNode> node_;
};

/// A reader that you write: FromInstanceSource makes a Reader of it. One thread of ringfeed's calls
/// it at a time.
class InstanceSource {
 public:
  virtual ~InstanceSource() = default;
  /// Fills `instance`, which is empty, with one tensor per declared field. They must own their
  /// memory (Tensor::owner), as those of MakeTensor do. May block, and returns soon after `stop` is
  /// requested. Returns kRecord; kEnd at the end of a pass; or kFailed, after it has put the reason
  /// into *status. What it throws becomes the stream's failure.
  virtual ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) = 0;
  /// Starts again at the beginning; false if that cannot be done.
  virtual bool ReInit() { return false; }
  /// Whether the next ReadNext will not wait. Its instance may then be handed on together with
  /// those before it, which is cheaper. If it is false, nothing that was read waits for the next.
  virtual bool Ready() const { return false; }
  /// Its slots, for a FromInstanceSource that gets none.
  virtual std::vector<SlotSpec> slots() const { return {}; }
  /// The reader that it reads from, if any: see DecoratedReader.
  virtual Reader input() const { return {}; }
  /// Whether its tensors lie on a device. Then no decorator may follow it.
  virtual bool on_device() const { return false; }
};

}  // namespace ringfeed
