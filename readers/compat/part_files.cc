#include "ringfeed/compat/part_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <utility>

#include "base/balanced_split.h"
#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

NumberRange PartsOf(const PartFileOptions& options) {
  if (options.rank >= options.ranks) {
    Refuse("rank " + std::to_string(options.rank) + " of " + std::to_string(options.ranks) +
           " ranks: the first is 0");
  }
  if (options.ranks > options.data_part_num && options.spare_ranks == SpareRanks::kError) {
    Refuse(std::to_string(options.ranks) + " ranks are more than " +
           std::to_string(options.data_part_num) +
           " parts: write the data in more parts, or let spare_ranks be kIdle");
  }
  return BalancedRange(options.data_part_num, options.ranks, options.rank);
}

/// Checked before anything is read: a missing part would be found only after hours.
void CheckThere(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    struct stat info {};
    if (stat(name.c_str(), &info) == 0) continue;
    throw Error(StatusFromErrno(errno, "examine a part").WithPlace({name, -1, -1}));
  }
}

std::uint64_t SeedOf(std::int64_t seed) {
  if (seed >= 0) return static_cast<std::uint64_t>(seed);
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

std::vector<std::string> PartFileNames(const PartFileOptions& options) {
  if (options.data_part_num == 0) Refuse("data_part_num must be at least 1");
  const std::filesystem::path folder(options.data_dir);
  std::vector<std::string> names;
  for (std::size_t part = 0; part < options.data_part_num; ++part) {
    std::string number = std::to_string(part);
    const auto digits = static_cast<int>(number.size());
    if (digits < options.part_name_suffix_length) {
      number.insert(0, static_cast<std::size_t>(options.part_name_suffix_length - digits), '0');
    }
    const std::filesystem::path name = folder / (options.part_name_prefix + number);
    names.push_back(name.lexically_normal().string());
  }
  return names;
}

std::vector<std::string> PartFilesOfRank(const PartFileOptions& options) {
  const std::vector<std::string> names = PartFileNames(options);
  const NumberRange parts = PartsOf(options);
  return {names.begin() + static_cast<std::ptrdiff_t>(parts.begin),
          names.begin() + static_cast<std::ptrdiff_t>(parts.end)};
}

std::size_t LocalBatchSize(const PartFileOptions& options) {
  if (options.ranks == 0 || options.batch_size % options.ranks != 0) {
    Refuse("a batch of " + std::to_string(options.batch_size) + " cannot be split over " +
           std::to_string(options.ranks) + " ranks: batch_size is that of all ranks together");
  }
  return options.batch_size / options.ranks;
}

Reader OpenPartFiles(const PartFileOptions& options, const OpenOptions& open) {
  const std::size_t batch_rows = LocalBatchSize(options);
  const std::vector<std::string> names = PartFileNames(options);
  const std::vector<std::string> first = PartFilesOfRank(options);
  CheckThere(options.shuffle_after_epoch ? names : first);
  OpenOptions opened = open;
  opened.files = {.shuffle = options.shuffle_after_epoch,
                  .seed = options.file_seed,
                  .from_pass = 1,
                  .rank = options.rank,
                  .ranks = options.ranks};
  Reader reader = OpenFiles(names, opened);
  if (options.random_shuffle) {
    reader = Shuffle(reader, {.window = options.shuffle_buffer_size, .seed = SeedOf(options.seed)});
  }
  // A rank without parts has nothing to repeat: it would never come to an end.
  if (!first.empty()) reader = MultiPass(reader, options.passes);
  return batch_rows == 0 ? reader : Batch(reader, {.size = batch_rows});
}

}  // namespace ringfeed
