#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace ringfeed {

/// Consecutive records of one file, by their numbers in it from 0, damaged ones counted.
struct RecordRange {
  /// Index in the list of files, from 0; of a mixture, in its lists one after the other.
  std::uint32_t file = 0;
  std::uint64_t first = 0;  ///< number of the first record
  std::uint64_t count = 0;
  friend bool operator==(const RecordRange&, const RecordRange&) = default;
};

/// A record of a batch, as Reader::Which finds it.
struct BatchRecord {
  std::uint64_t number = 0;  ///< in the data set, from 0: Reader::RecordAt takes it
  std::uint32_t file = 0;    ///< as RecordRange::file
  std::uint64_t record = 0;  ///< its number in the file, from 0
  std::uint32_t row = 0;     ///< of the batch on this rank, from 0
  std::uint32_t units = 0;   ///< that a planned batch has of it (StepOptions); 0 of others
  friend bool operator==(const BatchRecord&, const BatchRecord&) = default;
};

struct RunStart;

/// The origin of a batch, or, without Batch, of a record. A plain value of its own.
struct BatchOrigin {
  /// Its number, from 0, over all passes; the same on all ranks. Without Batch the record's.
  std::uint64_t batch = 0;
  std::uint64_t pass = 0;  ///< over the data, of its first row, also if passes are joined
  /// What Reader::Position needs of it besides.
  std::array<std::uint64_t, 4> mark{};
  /// Which records it holds, in the order of their delivery: only with OpenOptions::note_records.
  std::vector<RecordRange> records;
  /// Which damaged records it would have held, had they not been skipped; with note_records too.
  std::vector<RecordRange> damaged;
  /// Of planned batches (StepOptions): units and records of the batch's step, on all ranks
  /// together, as they are planned: the divisor of a loss over tokens, without an all-reduce. 0 of
  /// others.
  std::uint64_t step_units = 0;
  std::uint64_t step_records = 0;
  /// How the batch's run began (ReInit and Restore end a run): Reader::Position needs it too. Only
  /// of mixtures and of a program's own readers and data sets; else null.
  std::shared_ptr<const RunStart> start{};
};

}  // namespace ringfeed
