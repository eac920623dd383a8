#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "base/pending_copy.h"
#include "io/input_file.h"
#include "readers/engine/blocks/failures.h"
#include "readers/engine/files/file_table.h"
#include "readers/formats/format.h"
#include "readers/order/chunk_plan.h"
#include "readers/order/plan_clock.h"
#include "readers/order/row_layout.h"
#include "readers/parsers/current_rows.h"
#include "readers/parsers/parser.h"
#include "ringfeed/instance.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The unit that crosses threads: the records of one stripe of one file (or a part of them, of a
/// stream), framed, checked and, if the parser needs it, located. A reader thread fills it, the
/// planner orders it, writers read it. It is recycled when the last hold on it is dropped.
struct Block {
  /// Bytes of the file that were framed in place.
  struct Framed {
    std::span<const std::byte> bytes;
    std::uint64_t offset = 0;  ///< in the file, or in what a compressed one decompresses to
  };

  // Its place in the order; set by the lane.
  std::uint32_t lane = 0;
  bool turn_ends = true;   ///< the lane's turn is over after this block
  bool pass_ends = false;  ///< a marker without records: the lane has no more stripes in this pass
  bool stream_ends = false;  ///< a marker after the last pass

  // Contents; written by the lane before the block is published, constant afterwards.
  FrameOutput frame;
  std::vector<FieldLocation> locations;  ///< records × fields, only for two-phase parsers
  std::vector<std::int64_t> groups;      ///< of the records, only for GroupBatch and BucketBatch
  /// Not 0 for records that Filter drops; empty if it drops none. They are not located.
  std::vector<std::uint8_t> filtered;
  Status status;  ///< a failure that follows the records
  /// `status` is the system's refusal (base/refusal.h), which has no place in an order: how many
  /// records would have followed is not known, and other lanes read them.
  bool denied = false;
  /// Whether the order is another one than that of the blocks. A record that fails is then damaged
  /// and noted here, since records before it in the order may be read later.
  bool fails_in_order = false;
  std::vector<RowFailure> row_failures;
  /// The first records that the parser refused, in their order; only if they are asked for.
  std::vector<RefusedRow> refused;
  std::uint64_t payload_bytes = 0;   ///< of the records that are not damaged
  std::uint64_t taken_bytes = 0;     ///< BytesOf all rows; only if what is taken ahead counts
  std::uint32_t good_rows = 0;       ///< their number
  std::uint64_t filtered_bytes = 0;  ///< of payload_bytes, those of filtered records
  std::uint32_t filtered_rows = 0;   ///< of good_rows
  std::uint32_t truncated_rows = 0;  ///< rows that Truncate or Pack cut
  std::uint32_t reopened = 0;        ///< so often its stream was opened again before them

  // Memory that the records point into.
  std::vector<SlabRun> runs;
  /// The memory that the runs are of, if only a device can read it: records are then addresses and
  /// lengths, no more. Null: host memory.
  FarMemory* far = nullptr;
  bool cold = false;  ///< reads wrote the runs past the CPU (O_DIRECT): no cache has them yet
  /// Files whose mappings records point into; others may close.
  std::vector<std::shared_ptr<InputFile>> files;
  std::string file_name;
  std::vector<Framed> framed;
  std::uint32_t file_index = 0;    ///< in the list
  std::uint64_t first_record = 0;  ///< number in its file of records[0]
  /// Of records that were read by their numbers: one for each, kNoRow if there is no record, and
  /// the table that they are numbers in, in place of file_name, file_index and first_record.
  std::vector<RowNumber> row_numbers;
  bool scattered = false;           ///< its records are in many places of memory
  std::vector<PlannedRow> planned;  ///< of the records, as of Chunk
  std::vector<StepFacts> steps;     ///< the same
  std::shared_ptr<const FileTable> table;
  std::vector<std::shared_ptr<const void>> storage;  ///< what the first phase made
  std::vector<Instance> instances;  ///< a user's reader: records[i].data points at instances[i]

  std::uint32_t index = 0;   ///< number in its pool
  std::int32_t credits = 1;  ///< of its lane that it takes: more if its memory is larger

  bool of_dropped_rest = false;  ///< its rows are of a rest that Batch drops (BatchSlice)

  // The planner's.
  std::uint64_t pass = 0;  ///< of the run, that its rows are of
  /// Over the data: the same, but by number, if the run's passes may be several joined ones;
  /// then its lane's.
  std::uint64_t data_pass = 0;

  /// One for the planner and one for every row, damaged ones too. Dropped with acq_rel: the thread
  /// that drops the last sees all uses of the block done.
  std::atomic<std::uint32_t> holds{0};

  /// How many batches keep its memory because rows were left in it (PendingCopy), and kHeld until
  /// its last hold is dropped. Dropped with acq_rel, as holds are.
  static constexpr std::uint32_t kHeld = std::uint32_t{1} << 31;
  std::atomic<std::uint32_t> keeps{kHeld};

  /// Whether its records are in its own slabs, and in no other memory.
  bool stands_in_slabs() const { return !runs.empty() && files.empty() && instances.empty(); }

  std::size_t rows() const { return frame.records.size(); }
  /// Ends the block with what the system, or the arena, refused.
  void Deny(const Status& why) {
    status = why;
    denied = true;
  }
  /// A row that cannot be delivered. If the order is the blocks', it ends the stream before the
  /// records after it; false then.
  bool FailAt(std::uint32_t row, const Status& why);
  /// A failure that follows the records takes the place of the next one.
  void FailBehindRows();
  /// Why a damaged row ends the stream; null if it does not.
  const Status* FailureOf(std::uint32_t row) const;
  /// Of a record that is not damaged.
  bool Filtered(std::uint32_t row) const { return !filtered.empty() && filtered[row] != 0; }
  /// The memory of a row's record: of a user's instance that of its tensors.
  std::uint64_t BytesOf(std::uint32_t row) const;
  /// What payload_bytes without filtered_bytes counts for a row; for rows [begin, end).
  std::uint64_t PayloadOf(std::uint32_t row) const {
    const RecordSpan& record = frame.records[row];
    return record.damaged() || Filtered(row) ? 0 : record.size;
  }
  std::uint64_t PayloadOf(std::uint32_t begin, std::uint32_t end) const;
  /// Whether the checksum of the row's payload is still to be taken.
  bool Unchecked(std::uint32_t row) const {
    return row < frame.unchecked.size() && frame.unchecked[row] != 0 &&
           !frame.records[row].damaged();
  }
  /// Whether records are damaged. Cheaper than a look at the records, which are not in the cache.
  bool has_holes() const { return good_rows < rows(); }
  /// The place of a record; without the offset if it is not in the file as it is (decompressed,
  /// moved since).
  DataPlace PlaceOf(std::uint32_t row) const;
  /// The bytes of its file, decompressed, in front of a record, if all of them were framed together
  /// with the record; none if that is not known.
  std::optional<std::span<const std::byte>> BytesBefore(std::uint32_t row) const;
  /// How many records that are not damaged begin at or after that byte, decompressed.
  std::uint64_t RecordsFrom(std::uint64_t place) const;
  /// Whether a mapped file of the block was found shorter than its mapping, and whether it is the
  /// row's file: its bytes may be zeros in place of data.
  bool shrunk() const;
  bool ShrunkAt(std::uint32_t row) const;
  /// Why that row cannot be had.
  Status WhyDamagedAt(std::uint32_t row) const;
  /// Which record a row is: its RowNumber if that is known, else its file and number in it,
  /// packed (readers/engine/files/file_table.h).
  std::uint64_t NumberOf(std::uint32_t row) const {
    return row_numbers.empty() ? PackRecord({file_index, first_record + row}) : row_numbers[row];
  }
  /// The same as file and number in it, in every order.
  FileRecord RecordOf(std::uint32_t row) const;
  /// Notes that these bytes were framed into this block, after those before.
  void NoteFramed(std::span<const std::byte> bytes, std::uint64_t offset);
  std::size_t slab_bytes() const {
    std::size_t bytes = 0;
    for (const SlabRun& run : runs) bytes += run.bytes;
    return bytes;
  }
};

/// One row of a block.
struct RowRef {
  Block* block = nullptr;
  std::uint32_t row = 0;

  bool hole() const { return block->has_holes() && block->frame.records[row].damaged(); }
};

/// Which records rows are, for the user's functions.
class RowsOfBlocks final : public CurrentRows {
 public:
  /// Rows of one block, from `first` on.
  RowsOfBlocks(std::span<const RecordSpan> records, Block* block, std::uint32_t first)
      : CurrentRows(records), first_{block, first} {}
  RowsOfBlocks(std::span<const RecordSpan> records, std::span<const RowRef> refs)
      : CurrentRows(records), refs_(refs) {}

  DataPlace PlaceOf(std::size_t row) const override {
    const RowRef ref = RefOf(row);
    return ref.block->PlaceOf(ref.row);
  }
  FileRecord RecordOf(std::size_t row) const override {
    const RowRef ref = RefOf(row);
    return ref.block->RecordOf(ref.row);
  }
  std::uint64_t PassOf(std::size_t row) const override { return RefOf(row).block->data_pass; }

 private:
  RowRef RefOf(std::size_t row) const {
    if (first_.block == nullptr) return refs_[row];
    return {first_.block, first_.row + static_cast<std::uint32_t>(row)};
  }

  const RowRef first_;
  const std::span<const RowRef> refs_;
};

/// Memory of the arena for what a framer decompresses into a block: small pieces share a run.
class BlockMemory final : public FrameMemory {
 public:
  explicit BlockMemory(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  ~BlockMemory() override;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  std::byte* Allocate(std::size_t bytes) override;
  /// Whether there was no more.
  bool exhausted() const { return exhausted_; }
  /// Gives the block what was allocated since the last call; frees the rest of the last run.
  void GiveTo(Block* block);

 private:
  void CloseRun();

  const std::shared_ptr<Arena> arena_;
  SlabRun run_;           ///< pieces are cut off it
  std::size_t used_ = 0;  ///< of run_
  std::vector<SlabRun> full_;
  bool exhausted_ = false;
};

}  // namespace ringfeed
