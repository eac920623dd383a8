#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/io_options.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// The time of one stage, summed over its threads, in seconds of wall clock.
struct StageStats {
  std::string name;       ///< as docs/METRICS.md lists them: "read", "frame", …
  double busy_s = 0;      ///< doing this stage's work
  double wait_s = 0;      ///< waiting for what this stage needs
  std::string waits_for;  ///< "the medium", "a free slot", "a batch"
};

/// A row that took a user's function long.
struct SlowRow {
  std::string file;
  std::int64_t record = -1;  ///< its number in the file
  double seconds = 0;
};

/// How long the steps of a loop waited for their batches, in seconds. A step that found its batch
/// ready counts with 0.
struct StepWaits {
  std::uint64_t steps = 0;
  double p50_s = 0;  ///< half of the steps waited no longer; right to an eighth
  double p99_s = 0;  ///< the same of 99 of 100
  double max_s = 0;
};

/// What the ranges of objects in stores took, over all passes.
struct RemoteStats {
  std::uint64_t requests = 0;      ///< for ranges, with those sent again
  std::uint64_t bytes = 0;         ///< of ranges, with those that came twice
  std::uint64_t retries = 0;       ///< after a failure that passes
  std::uint64_t hedges = 0;        ///< ranges slower than the others, asked for once more
  std::uint64_t throttled = 0;     ///< answers 429 and 503: the store asked for fewer at a time
  std::uint64_t by_library = 0;    ///< unusual answers, asked for once more by libcurl
  std::uint64_t cached_bytes = 0;  ///< read from OpenOptions::cache
};

/// What the rows of tables cost (OpenTable).
struct TableStats {
  std::uint64_t opened_groups = 0;  ///< how often a group was opened and decoded
  std::uint64_t decoded_rows = 0;   ///< the rows of these
  /// Rows that were taken out of them. decoded_rows is as many if each row was decoded once.
  std::uint64_t taken_rows = 0;
};

/// What planned batches (StepOptions) are made of: of the steps whose last batch this rank handed
/// out, on all ranks together, as they are planned.
struct PlannedStats {
  std::uint64_t steps = 0;
  std::uint64_t units = 0;          ///< of their records, without what fills them up
  std::uint64_t padding_units = 0;  ///< of packed rows, empty ones too: places without a unit
  /// The largest load of a rank over the mean of all ranks, by the costs of Balance (units, without
  /// one): on average over the steps, and of the worst. 1.25: the others wait for a fifth of the
  /// step, if a step takes as long as its load says. 0: no step yet.
  double imbalance = 0;
  double worst_imbalance = 0;
  // So far as is planned, of all ranks:
  std::uint64_t empty_records = 0;    ///< without a unit: Pack and TokenBatch leave them out
  std::uint64_t dropped_records = 0;  ///< of the rests that Rest::kDrop leaves out
  double plan_s = 0;                  ///< time that the order by number took, of all batches
};

/// A pipeline's report. All counts are of what was delivered or met so far, over all passes and all
/// starts (ReInit, Restore, SeekTo); times and stages are of the time since the last start.
struct PipelineStats {
  std::uint64_t records = 0;              ///< planned for delivery
  std::uint64_t payload_bytes = 0;        ///< of these, and of those that a shuffle holds
  std::uint64_t batches = 0;              ///< handed out
  std::uint64_t batch_payload_bytes = 0;  ///< of the records in batches that were handed out
  std::uint64_t passes_ended = 0;
  std::uint64_t reopened_streams = 0;  ///< see OpenOptions::reopen_limit
  /// Skipped or failed: known records, and damaged ranges without any. A chunk of RecordIO counts
  /// once, however many records it holds.
  std::uint64_t damaged_records = 0;
  std::uint64_t lost_ranges = 0;     ///< of damaged_records: ranges of which no record is known
  std::vector<DamagedRange> damage;  ///< the first 1,000, by file and place
  /// Oddities of files that were read to their end, each once; the first 1,000. See
  /// OpenOptions::strict.
  std::vector<DataWarning> warnings;
  std::uint64_t dropped_records = 0;  ///< the rest of a pass that Batch was told to drop
  /// Different files and stores of this process's share: read (also empty ones); refused (they
  /// could not be opened, or their format is not known); missing. One that was read once and later
  /// could not be is counted by both. Streams do not count.
  std::uint64_t files_read = 0;
  std::uint64_t files_refused = 0;
  std::uint64_t files_missing = 0;
  /// Asked of the medium or the page cache. Of a table what was read of its files
  /// (TableSource::read_bytes), footers too.
  std::uint64_t read_bytes = 0;
  /// read_bytes for each of payload_bytes; 0 if there are none, and of tables. More than about 1:
  /// unneeded bytes are read along, or bytes are read again.
  double read_per_byte = 0;
  double first_batch_s = 0;  ///< from the first read call to the first batch
  double wall_s = 0;         ///< from the first read call to the end, or now
  std::vector<StageStats> stages;
  StepWaits step_waits;    ///< of reads of batches; if a DeviceFeed reads, of that: see its own
  std::string bottleneck;  ///< the stage that the others waited for, and why in words
  std::string advice;      ///< what that means and what would change it: a sentence
  /// One per file in order of opening, the latest choice; at most 10,000.
  std::vector<IoChoice> io;
  std::size_t arena_bytes = 0;
  std::size_t arena_peak_bytes = 0;
  std::string pages;  ///< "huge", or why not
  /// Of the order of files, if they are shuffled, then of each shuffle: a run with the same seeds
  /// has the same order.
  std::vector<std::uint64_t> seeds;
  std::string order;     ///< "as files are read", or "by index: " and the indexes' origin
  std::string restored;  ///< how Restore or SeekTo got there; "" without one
  std::string ranks;     ///< "rank 3 of 8 by torchrun"; "" if there is one
  std::uint64_t filtered_records = 0;  ///< dropped by Filter
  /// Rows that Truncate or Pack shortened; not counted for Truncate in front of Map.
  std::uint64_t truncated_records = 0;
  RemoteStats remote;
  TableStats tables;
  PlannedStats planned;
  std::uint64_t given_up_reads = 0;  ///< of a Source, that took longer than read_timeout_ms
  // Of Map with row_timeout_ms.
  std::uint64_t given_up_rows = 0;    ///< that took longer
  std::vector<SlowRow> slowest_rows;  ///< the ten slowest, the slowest first
  std::uint64_t grown_batches = 0;    ///< batches that outgrew their slot and were moved
  /// How often a thread slept though there was work for it, and a consumer that waited for a second
  /// woke it. Not 0: a defect of ringfeed, please report it.
  std::uint64_t late_wakes = 0;
};

}  // namespace ringfeed
