#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// What happens if there are more ranks than parts.
enum class SpareRanks : std::uint8_t {
  kError,
  kIdle,  ///< ranks without a part are at their end at once
};

/// A data set in numbered parts, by the names that OneFlow's OFRecordReader has for it.
struct PartFileOptions {
  std::string data_dir{};
  std::size_t data_part_num = 1;
  std::string part_name_prefix = "part-";
  /// Digits of a part's number at least, filled with zeros in front; -1: no zeros.
  int part_name_suffix_length = -1;
  /// Of all ranks together, and a multiple of their number; 0: records, and no batches.
  std::size_t batch_size = 0;
  /// The samples of a pass are shuffled by Shuffle's window of shuffle_buffer_size: as from a
  /// buffer of so many, but what is in it at the end of a pass belongs to that pass.
  bool random_shuffle = false;
  std::size_t shuffle_buffer_size = 1024;
  /// Of random_shuffle; -1: a fresh one, which the reader's Stats().seeds tells.
  std::int64_t seed = -1;
  /// The list of all parts is permuted anew after each pass, the same on all ranks, before it is
  /// split; the first pass has it as it is. By file_seed, which is the same on all ranks, while
  /// `seed` need not be.
  bool shuffle_after_epoch = false;
  std::uint64_t file_seed = 524287;
  std::size_t rank = 0;
  std::size_t ranks = 1;
  SpareRanks spare_ranks = SpareRanks::kError;
  std::uint64_t passes = 1;  ///< 0: without end
};

/// The paths of all parts: data_dir/part_name_prefix and the number. Throws Error if the options
/// have no part.
std::vector<std::string> PartFileNames(const PartFileOptions& options);
/// The parts that the rank reads in the first pass: consecutive; if the division leaves a
/// remainder, each of the first ranks has one more. Throws Error for more ranks than parts, if that
/// is an error.
std::vector<std::string> PartFilesOfRank(const PartFileOptions& options);
/// Rows of a batch on one rank. Throws Error if batch_size is no multiple of the ranks.
std::size_t LocalBatchSize(const PartFileOptions& options);

/// A chain over this rank's parts: in each pass all ranks together deliver each record once. Passes
/// follow one another without a seam: a batch may hold the end of one and the start of the next,
/// and only the very last is short. Parse may stand after it; for Map leave batch_size 0, and put
/// Batch after Map. `open` is for the rest; its order of files is set by the options above.
///
/// Throws Error for options that cannot work and for a part that is missing (of those that this
/// rank may come to), by its name. Damaged parts are as open.on_damage says.
Reader OpenPartFiles(const PartFileOptions& options, const OpenOptions& open = {});

}  // namespace ringfeed
