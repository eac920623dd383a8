#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/ranks.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// @file
/// @details Decorators for ragged fields: sequences of tokens, frames, points. A unit is one step
/// of the field's first dimension. All of them give the same for the same order, whatever the
/// threads, and go on from a position exactly. Functions throw Error if the field does not exist or
/// is not ragged, once the chain is read or asked for its fields. They stand after Parse.

/// Cuts rows of `field` (a name) off after `length` units. Shorter rows pass as they are.
Reader Truncate(Reader input, const std::string& field, std::size_t length);

/// Of Pad: the length of the rows, one of `length` and `multiple`, and the value that fills them
/// up.
struct PadOptions {
  std::size_t length = 0;    ///< rows of exactly so many units
  std::size_t multiple = 0;  ///< instead: of the next multiple of so many units
  /// The value after a row's own units, in each element; a number that the field's type holds
  /// exactly.
  double value = 0;
};
/// Fills rows of `field` up. With `length` it becomes a fixed field [length, …], and a longer row
/// is damaged (put Truncate in front); with `multiple` it stays ragged. For a field x it adds
/// "x_length" as the last field: int64, one per row, the number of its own units.
Reader Pad(Reader input, const std::string& field, const PadOptions& options);

/// Of BucketBatch: the lengths that are alike, and how long rows are held back.
struct BucketBatchOptions {
  std::size_t size = 0;  ///< rows of a batch
  std::string field{};   ///< a ragged field
  /// Ascending: rows of up to bounds[0] units are batched among themselves, so are those of more
  /// and up to bounds[1], and those of more than the last bound.
  std::vector<std::uint64_t> bounds{};
  /// So many records, damaged ones counted, are grouped among themselves; 0: 64 batches' rows. At
  /// their end no row is held back.
  std::size_t segment = 0;
  bool drop_remainder = false;  ///< drop the rest of the buckets instead of short batches
  std::size_t slots = 0;        ///< as BatchOptions::slots
  /// If it is set, `size` is of all ranks together, `segment` a multiple of it (0: the largest
  /// below 2^16), and the rests of a segment's buckets are joined to whole batches, one bucket's
  /// after the other's.
  std::optional<StepOptions> steps{};
};
/// Batches whose rows are alike in length. A batch leaves as soon as its bucket is full; at the end
/// of a segment the others follow, short, in the order in which their first rows came. Rows of a
/// bucket keep their order.
Reader BucketBatch(Reader input, const BucketBatchOptions& options);

/// Of TokenBatch: what a batch may hold, by one of `tokens` and `bytes`.
struct TokenBatchOptions {
  std::string field{};     ///< a ragged field, of `tokens`
  std::size_t tokens = 0;  ///< units of the field in a batch at most
  std::size_t bytes = 0;   ///< instead: of the records' payloads
  /// Rows of a batch at most, skipped damaged records counted; fixed fields take the memory of so
  /// many.
  std::size_t most_rows = 1024;
  std::size_t slots = 0;  ///< as of BatchOptions
  /// Token batches of a step. More than 1, or several ranks, which need it: the batches are planned
  /// (StepOptions). A rank gets its token batches of a step one after another, each rank as many:
  /// empty ones are added.
  std::size_t shares = 0;
  std::size_t segment = 0;  ///< of planned batches: records that are put together; 0: 65,535
  bool best_fit = false;    ///< planned: records of a segment by length, batches in random order
  bool padded = false;      ///< planned, by best fit: rows times the longest count, not their sum
  std::optional<StepOptions> steps{};
};
/// Batches of as many rows as fit: one ends in front of the row that would make it larger than
/// `tokens` or `bytes`. A row that is larger by itself is a batch of its own. The rest of a pass is
/// a batch, too.
Reader TokenBatch(Reader input, const TokenBatchOptions& options);

/// How Pack puts records into rows.
enum class PackFit : std::uint8_t {
  kFirst,  ///< each into the first row that has room for it
  /// Planned (StepOptions): the longest records of a segment first, each into the row that it fills
  /// best. A hundredth of the padding, or less; rows leave in random order.
  kBest,
};

/// Of Pack: the packed rows, and how many records are packed among themselves.
struct PackOptions {
  std::string field{};     ///< the chain's only field, ragged
  std::size_t length = 0;  ///< units of a packed row
  std::size_t rows = 0;    ///< packed rows of a batch
  /// So many records, damaged ones counted, are packed among themselves; 0: 256 batches' rows, if
  /// planned 65,535.
  std::size_t segment = 0;
  double pad_value = 0;         ///< as PadOptions::value, in the empty places
  bool drop_remainder = false;  ///< drop a pass's last batch if it is short
  std::size_t slots = 0;        ///< as of BatchOptions
  PackFit fit = PackFit::kFirst;
  std::size_t multiple = 1;      ///< planned: a record takes the next multiple of so many units
  std::size_t most_records = 0;  ///< of a row, by best fit; 0: any number
  std::optional<StepOptions> steps{};  ///< if it is set, `rows` is of all ranks together
};
/// Records packed into rows of `length` units, first fit: each goes to the end of the first row of
/// its segment that has room for it, or, planned, by best fit. Of a longer record the first
/// `length` units are taken (PipelineStats::truncated_records); one without units is left out. At
/// the end of a segment its rows leave in the order in which they were begun. Batches run over the
/// ends of segments: only a pass's last one may be short. Of a field x the batch has these:
/// - `x`: [rows, length, …]
/// - `x_segments`: int32 [rows, length]: 1, 2, … for the records of a row, 0 if it is empty
/// - `x_positions`: int32 [rows, length]: a unit's number in its record
Reader Pack(Reader input, const PackOptions& options);

}  // namespace ringfeed
