#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory/arena.h"
#include "io/input_file.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/engine/sources/worker_io.h"
#include "readers/formats/record_index.h"
#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

inline constexpr std::uint32_t kNoFile = ~std::uint32_t{0};

/// The unit that a row is taken out of: its place in its file, then its place in memory.
struct NeededUnit {
  std::uint32_t file = kNoFile;  ///< kNoFile: the place holds no row
  std::uint32_t loss = 0;        ///< 1 + index of why it cannot be had; 0: it can
  std::uint64_t record = 0;      ///< number of the row in its file
  RecordUnit unit;
  std::size_t bytes = 0;  ///< so many of the unit's bytes are used
  const std::byte* data = nullptr;
};

/// Why a unit cannot be had.
struct UnitLoss {
  Status status;
  bool fatal = false;  ///< not caused by the data: it fails whatever is done with damage
};

/// The units of rows, and why some of them cannot be had. One thread.
class NeededUnits {
 public:
  /// Asks the indexes for the places of all rows at once, and replaces the old units by theirs.
  /// Units that an index cannot give are lost for good.
  void Find(const OpenedFiles& files, std::span<const RowNumber> rows);
  void Lose(NeededUnit* unit, const Status& status, bool fatal = false) {
    losses.push_back({status, fatal});
    unit->loss = static_cast<std::uint32_t>(losses.size());
  }

  std::vector<NeededUnit> units;
  std::vector<UnitLoss> losses;

 private:
  void AskIndex(const DataFile& file, std::span<const std::uint32_t> places);

  std::vector<std::uint32_t> places_;   ///< of rows, those of a file together
  std::vector<std::uint64_t> records_;  ///< that one index is asked for
  std::vector<RecordUnit> answers_;     ///< what it says
};

/// Bytes of a file that are needed.
struct NeededRange {
  std::uint32_t file = 0;
  std::uint32_t owner = 0;  ///< whose they are: the caller's number
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// How ranges are merged.
struct MergeRule {
  std::uint32_t alignment = 1;  ///< of offsets, sizes and places in memory
  std::uint64_t gap = 0;        ///< so many bytes that are not needed are read along
  /// But at most a quarter of the needed bytes: for bytes that are read again and again.
  bool thrifty = false;
};

/// Sorts `ranges` by file and offset and merges those that overlap, or have no more than the gap
/// between them. Appends the reads, by file and offset; returns the bytes of memory that they take.
std::size_t MergeRanges(const MergeRule& rule, std::vector<NeededRange>* ranges,
                        std::vector<MergedRead>* reads);

/// The failure of a lane that gets no memory.
Status NoMemory(const LaneContext& context, std::size_t bytes, const std::string& file);

/// Brings the units of some rows into memory. Units of mapped files are there already. Others are
/// read into one run of the arena, neighbours by one read; those of files that are not in the page
/// cache by an engine, all at once. If a read of several units fails, each is read again by itself:
/// so it does not matter which units were asked for together. One thread.
class UnitFetch {
 public:
  /// So many bytes may be read for one part, or one unit if it is larger.
  static constexpr std::size_t kPartBytes = 1024 * 1024;

  explicit UnitFetch(LaneContext* context) : context_(context) {}
  ~UnitFetch();
  UnitFetch(const UnitFetch&) = delete;
  UnitFetch& operator=(const UnitFetch&) = delete;

  /// Keeps as many of the units, from the first on, as suit one part (at least one), and chooses
  /// memory and reads for them. Units that their file cannot have are lost. Nothing is read yet.
  /// A part ends in front of a file that the system refuses to open now.
  void Plan(LaneFiles* files, NeededUnits* needed);
  /// Whether the system refused to open the first unit's file: then the unit is lost, unless this
  /// is planned again when others are done with their files.
  bool was_refused() const { return was_refused_; }
  /// Whether an engine reads for it, and how much memory it takes.
  bool reads_ahead() const { return engine_reads_ > 0; }
  std::size_t memory_bytes() const { return memory_bytes_; }
  /// Reads that it waits for.
  std::size_t waits_for() const {
    return buffer_ == nullptr ? 0 : buffer_->parts.size() - buffer_->parts_done;
  }
  /// Gets the memory and requests what engines read. False if there is no memory for it.
  bool Start();
  /// Nothing more is read.
  void GiveUp() { reads_.clear(); }
  /// Submits what engines take.
  void Pump();
  /// Reads what is read inline, and gives each unit its place in memory, or why it cannot be had.
  /// False if an engine has not delivered yet.
  bool Finish(NeededUnits* needed);

  /// The files that were read, and what was read of them.
  const std::vector<std::shared_ptr<InputFile>>& inputs() const { return inputs_; }
  const std::vector<Block::Framed>& pieces() const { return pieces_; }
  /// The memory of the units, from now on the caller's to free.
  std::vector<SlabRun> TakeRuns();

 private:
  /// Files whose reads are merged together.
  struct ReadAlike {
    bool by_engine = false;  ///< not inline
    bool cached = false;     ///< through the page cache
  };

  bool Check(const LaneFile& file, NeededUnit* unit, NeededUnits* needed) const;
  /// Checks units until a part is full; returns how many. Notes what must be read.
  std::size_t Choose(LaneFiles* files, NeededUnits* needed);
  /// Makes reads for the first `count` units; returns the memory that they take.
  std::size_t Merge(LaneFiles* files, std::size_t count);
  /// The same for files that are read alike, in memory from `at` on; returns where it ends.
  std::size_t MergeSome(LaneFiles* files, const ReadAlike& alike, std::size_t count,
                        std::size_t at);
  /// Whether a file of these reads is read in another way from now on.
  bool MovesToCache(LaneFiles* files) const;
  std::uint64_t CostOf(const LaneFile& file, std::uint64_t bytes) const;
  void TakeEngineOutcomes();
  void ReadInline(MergedRead* read);
  void Settle(const MergedRead& read, NeededUnits* needed);
  /// Whether reads that failed together are being read again, one by one.
  bool StartAgain(NeededUnits* needed);

  LaneContext* const context_;
  std::vector<std::shared_ptr<InputFile>> inputs_;
  std::vector<NeededRange> wanted_;  ///< owner: the number of the unit
  std::vector<NeededRange> ranges_;  ///< as the reads serve them
  std::vector<MergedRead> reads_;    ///< engines' first
  std::size_t engine_reads_ = 0;
  std::size_t memory_bytes_ = 0;
  SlabRun run_;
  std::unique_ptr<ReadBuffer> buffer_;
  std::vector<SlabRun> runs_;  ///< read and done with
  std::vector<Block::Framed> pieces_;
  std::vector<MergedRead> retry_;
  bool again_ = false;  ///< the reads are what was in retry_
  bool was_refused_ = false;
};

}  // namespace ringfeed
