#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/batch_origin.h"
#include "ringfeed/reader.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// How often a pass delivers each record; an audit checks its journals against it.
enum class DeliveryRule : std::uint8_t {
  kOnce,        ///< exactly once
  kAtMostOnce,  ///< some are left out: Filter, MixSet::most_records, a file that another rank reads
  kAnyTimes,    ///< MixSet::passes other than 1, or batches over the ends of passes
};

/// The beginning of one rank's part of a run.
struct JournalStart {
  std::uint64_t batch = 0;  ///< number of the first batch after the position that it starts from
  std::uint64_t run = 0;    ///< a number of the program's own, e.g. of restarts; audits ignore it
  int rank = 0;
  int ranks = 1;
  /// Of the Rank. An audit counts what replica 0 was given, and holds the others against it.
  int replica = 0;
  int replicas = 1;
  /// Records of a batch of all ranks together; 0: it varies (packing, buckets, batches by tokens).
  std::uint64_t batch_rows = 1;
  bool drop_remainder = false;  ///< as of BatchOptions
  bool split_by_files = false;  ///< as of BatchOptions
  DeliveryRule rule = DeliveryRule::kOnce;
  std::string data{};  ///< identifies the data set: journals that differ are not merged
  /// A name that all ranks of one launch share and no other launch has; "" if there is none.
  std::string launch{};
  std::uint64_t started_ns = 0;  ///< since 1970; 0: the time at which it is written
  /// Records of the data set, damaged ones counted; 0 if they are not known.
  std::uint64_t total_records = 0;
  /// Whether only some records are delivered (OpenOptions::subset): total_records counts these, and
  /// `records` is empty.
  bool subset = false;
  /// Of each file; may be empty if they are not known, or of too many files to be listed.
  std::vector<std::uint64_t> records{};
  /// The epoch of the order; journals of two epochs are not merged. None: it says nothing about
  /// epochs.
  std::optional<std::uint64_t> epoch{};
  friend bool operator==(const JournalStart&, const JournalStart&) = default;
};

/// One line of a journal.
struct JournalEntry {
  /// What the line says, and so which of the members below count.
  enum class Kind : std::uint8_t {
    kStart,   ///< `start`
    kBatch,   ///< `origin`: of one batch that was handed out
    kCut,     ///< `origin`: of a batch that a failure cut short: positions do not count it, and it
              ///< is to come again
    kEnd,     ///< the data came to their end; origin.batch is the number after the last batch
    kDamage,  ///< `damaged`: so many damaged records or ranges the run reported in all
  };
  Kind kind = Kind::kStart;
  JournalStart start{};
  BatchOrigin origin{};
  std::uint64_t damaged = 0;
};

/// Appends the deliveries of one process to a file: a line of text with a checksum for each entry,
/// written by one call, so that a killed process loses at most the entry that it was writing.
/// Journals of all ranks and runs together show what was delivered: `ringfeed audit`. A machine
/// that loses its power may lose more: nothing is synced to the disk. One thread at a time.
class JournalWriter {
 public:
  /// Opens or makes the file, removes an entry that a killed process left incomplete, and begins.
  /// Throws Error: the file cannot be written, is no journal, or another process writes to it.
  JournalWriter(std::string path, const JournalStart& start);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Notes a batch that was handed out. Call it before you save the position after that batch: then
  /// the journal has everything that the position counts. An entry that could not be written whole
  /// is removed again.
  Status Append(const BatchOrigin& origin);
  /// Notes that the data are at their end, after `batches` batches counted from the beginning.
  Status End(std::uint64_t batches);
  /// Notes that the run is over and reported so many damaged records or ranges (PipelineStats),
  /// also those that no batch names because their losses cannot be counted.
  Status Damage(std::uint64_t damaged);

 private:
  Status Write();

  const std::string path_;
  int descriptor_ = -1;
  std::string line_;
};

/// Reads a journal from its beginning. One thread at a time.
class JournalReader {
 public:
  /// Throws Error if the file cannot be opened.
  explicit JournalReader(std::string path);
  ~JournalReader();
  JournalReader(const JournalReader&) = delete;
  JournalReader& operator=(const JournalReader&) = delete;

  /// Reads the next entry. An incomplete one at the end is the end. kFailed for a file that is no
  /// journal and for an entry that is damaged: status() names its line.
  ReadResult Next(JournalEntry* entry);
  const Status& status() const { return status_; }
  /// Bytes of an incomplete last entry; known at the end.
  std::uint64_t cut_bytes() const { return cut_bytes_; }

 private:
  struct Input;

  ReadResult Fail(StatusCode code, const std::string& what);

  const std::string path_;
  std::unique_ptr<Input> input_;
  std::int64_t line_ = 0;  ///< number of the last line, from 1
  Status status_;
  std::uint64_t cut_bytes_ = 0;
};

}  // namespace ringfeed
