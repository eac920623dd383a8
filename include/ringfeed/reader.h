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
#include "ringfeed/queue/deadline.h"
#include "ringfeed/record.h"
#include "ringfeed/slot.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

class GraphNode;
class ReaderSession;

/// What a read found.
enum class ReadResult : std::uint8_t {
  kRecord,   ///< the output was filled
  kEnd,      ///< the data are at their end; not an error
  kFailed,   ///< see status(); everything good before the failure was delivered
  kTimeout,  ///< the deadline passed; of the calls that take one, which may be called again
};

/// What an index of the files is made for: see Reader::MakeIndex.
enum class IndexPurpose : std::uint8_t {
  kReading,   ///< the order that the chain reads in
  kCounting,  ///< records by their numbers: counts and places
};

/// Thrown by Reader::ReadNext at the end of the data.
class EndOfData : public std::runtime_error {
 public:
  EndOfData() : EndOfData("there is no next record: the data are at their end") {}
  /// With a message that says more of where.
  explicit EndOfData(const std::string& message) : std::runtime_error(message) {}
};

/// A run of records in the order of delivery, as views into memory that this object holds. A
/// damaged one that was skipped is a null view at its place (RecordSpan::damaged). Move only;
/// holding one holds its slabs, so release it (destroy or overwrite it) before reading many more.
class RecordBlock {
 public:
  RecordBlock();
  ~RecordBlock();
  RecordBlock(RecordBlock&&) noexcept;
  RecordBlock& operator=(RecordBlock&&) noexcept;

  std::span<const RecordSpan> records() const { return records_; }
  std::size_t size() const { return records_.size(); }

 private:
  friend class ReaderSession;
  std::span<const RecordSpan> records_;
  std::shared_ptr<const void> hold_;
};

/// A handle on a chain of readers and decorators. Copies are the same reader. Building a chain
/// starts nothing; the first read starts its threads, on the node that is read: from then on
/// attaching to or reading another node of the chain throws. All methods may be called from several
/// threads.
///
/// Behind a failure nothing comes. What is good and stands before it in the chain's order is
/// delivered first, in a short last batch, whatever BatchOptions::drop_remainder says, and wherever
/// in the files it stands: a record or a row that fails ends the order at its own place. (After
/// damage of a stream, or that hides where records begin, nothing is read: then what stands before
/// it in both is delivered. Where memory runs out, groups' rows are, but none that a shuffle
/// holds.)
///
/// A child of fork has none of what batches, instances and blocks show: the memory is not copied,
/// as devices and the kernel write to it, and touching it there is SIGSEGV. What a child is to have
/// is copied before the fork. It may open readers of its own.
class Reader {
 public:
  Reader() = default;
  explicit Reader(std::shared_ptr<GraphNode> node);

  /// Names, dtypes and shapes of what ReadNext delivers; -1 stands for a dimension that varies.
  std::vector<FieldSpec> fields() const;
  std::vector<Shape> shapes() const;
  /// The same with levels of LoD.
  std::vector<SlotSpec> slots() const;

  /// The next instance (a batch behind Batch, else one record). Blocks until there is one. Throws
  /// EndOfData at the end, Error on failure. What views show (Tensor::Values) is there as long as
  /// the instance or a copy of its tensors is held.
  Instance ReadNext();
  /// The same without exceptions for what data can do, and for Close at any time; set-up errors
  /// still throw at the first call.
  ReadResult TryReadNext(Instance* instance);
  /// For a thread that hands on what it reads: waits also for what it was handed itself (of what it
  /// keeps ReserveBatches is to know), until `stop`: then kFailed, and the next call goes on.
  ReadResult TryReadNext(Instance* instance, const std::stop_token& stop);
  /// The same, and where it comes from.
  ReadResult TryReadNext(Instance* instance, BatchOrigin* origin);
  /// The two together.
  ReadResult TryReadNext(Instance* instance, BatchOrigin* origin, const std::stop_token& stop);
  /// The same as without a deadline, but kTimeout where nothing came until then: nothing is lost,
  /// the next call goes on. What is there is delivered also behind the deadline, so a deadline that
  /// is past asks without waiting. The call that starts the chain, and one while ReInit starts it
  /// again, may come back later: opening files and making an index are not broken off.
  ReadResult TryReadNext(Instance* instance, BatchOrigin* origin, Deadline deadline);
  /// The next records in bulk: only on chains without Batch and Parse, where they are not copied.
  /// Fails with kResourceExhausted, here and in TryReadNext, where all threads that hold what they
  /// were handed wait for more, and nothing comes before one of them lets something go; after that
  /// the next call goes on.
  ReadResult TryReadBlock(RecordBlock* block);
  /// The same until a deadline, as TryReadNext has one.
  ReadResult TryReadBlock(RecordBlock* block, Deadline deadline);
  /// Before the first read: whoever reads holds up to `batches` batches at a time, so there are
  /// more than that (BatchOptions::slots is raised), or reading fails. Behind Batch alone;
  /// elsewhere it changes nothing. Throws Error where reading has begun, or for more than there can
  /// be.
  void ReserveBatches(std::size_t batches);
  /// True where ReadNext would deliver. Blocks until that is known. Exact for one consumer; with
  /// several a snapshot: they use TryReadNext. A failure counts as true: ReadNext then throws it.
  bool HasNext();
  /// The pass over the data, from 0, that the next instance begins in: where it changes, a pass has
  /// ended. Blocks until that is known. None at the end, where a failure comes next, and, with
  /// several consumers, where another one took it. Behind a Shuffle that joins passes it is that of
  /// the row that comes first.
  std::optional<std::uint64_t> NextPass();
  /// Starts again at the first pass, at any time, also while other threads read: what they get next
  /// is of the new pass. What was prefetched is dropped; throws Error where the source cannot
  /// rewind (a stream), before anything is lost. Chains on one shared reader start again together.
  void ReInit();
  /// Where it stands after what was handed out: a line of JSON of at most 1 KiB (24 bytes more for
  /// a mixture's sets), the same on all ranks. With Filter or groups it reads up to there after
  /// SeekTo. Throws Error where no order comes again (unordered, several streams, Share).
  std::string Position() const;
  /// The same behind that batch of this reader, for whoever takes batches ahead of their use.
  std::string Position(const BatchOrigin& origin) const;
  /// Where it stood before anything was handed out: at the beginning, or where Restore, SeekTo or
  /// SkipBatches went last. Throws Error as Position.
  std::string StartPosition() const;
  /// Records of each file of the list, of a mixture's lists one behind the other, damaged ones that
  /// can be counted too: by the index, which is made where it is missing. Throws Error where there
  /// can be none.
  std::vector<std::uint64_t> FileRecords() const;
  /// Opens the files' indexes now, and makes those that are missing, which may read all of the
  /// files once: what the first read does of a chain that is read by index alone (kReading; others
  /// are left as they are), and what FileRecords, Restore and SeekTo do of every chain that can
  /// have one (kCounting). Blocks. Soon after `stop` is requested, or Close called, it throws Error
  /// with kCancelled and leaves nothing behind; the next call begins anew. Throws Error where these
  /// do.
  void MakeIndex(IndexPurpose purpose, const std::stop_token& stop = {});
  /// Goes on behind a position of a chain like this one, at any time, as ReInit does; also where it
  /// was saved by another number of ranks. Returns before anything is read: by an index the next
  /// read starts where it stands, else (PipelineStats::restored says so) it reads up to there
  /// first. Throws Error, with what changed, where the data or the chain are not those of the
  /// position, before anything is lost.
  void Restore(const std::string& position);
  /// Throws Error where Restore would, and changes nothing.
  void CheckPosition(const std::string& position) const;
  /// Goes on behind the first `batch` batches from the beginning, all ranks alike. As Restore.
  void SeekTo(std::uint64_t batch);
  /// Leaves the next `batches` out.
  void SkipBatches(std::uint64_t batches);
  /// The readers that no other reader is built on, of all that are connected with this one.
  std::vector<Reader> EndPoints() const;
  /// ReInit of all end points at once, from any reader of the graph.
  void ResetAll();
  /// Ends the threads; reads then return kFailed with kCancelled. Wakes whoever waits. Idempotent.
  void Close();

  /// The failure after kFailed, else OK.
  Status status() const;
  PipelineStats Stats() const;

  const std::shared_ptr<GraphNode>& node() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  std::shared_ptr<GraphNode> node_;
};

/// A reader that the user wrote: a boundary of the chain, called by one thread of ringfeed's.
class InstanceSource {
 public:
  virtual ~InstanceSource() = default;
  /// Fills `instance` with one tensor per declared field; it must own its memory (Tensor::owner).
  /// May block, and returns soon after `stop` is requested. kFailed puts the reason into *status.
  /// An exception becomes the stream's failure.
  virtual ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) = 0;
  /// Starts again at the beginning; false where that cannot be done.
  virtual bool ReInit() { return false; }
  /// Whether the next ReadNext will not wait: then its instance may be handed on together with
  /// those before it, which is cheaper. What is not ready keeps nothing waiting.
  virtual bool Ready() const { return false; }
  /// What it delivers, where it is opened without being told.
  virtual std::vector<SlotSpec> slots() const { return {}; }
  /// What it reads from: see DecoratedReader.
  virtual Reader input() const { return {}; }
  /// Whether its tensors lie on a device: then nothing but their consumer stands behind it.
  virtual bool on_device() const { return false; }
};

}  // namespace ringfeed
