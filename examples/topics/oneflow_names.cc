// OneFlow's data sets by their names there: part files, decorators, a loop over threads.
//
// Prints:
//   rank 1 of 2 reads part-1
//   2 rows of 4 are this rank's
//   batches of 2 1
//   of one group 2 1
//   shuffled 2 1
//   a loader read 2 rows of at least 2 records, closed: cancelled
//   squares end at 9
#include <fstream>
#include <iostream>

#include "ringfeed/compat/data_reader.h"
#include "ringfeed/compat/part_files.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void ShowRows(const std::string& what, rf::Reader batches) {
  std::cout << what;
  while (batches.HasNext()) {
    const rf::Instance batch = batches.ReadNext();
    std::cout << " " << batch["bytes"].lod[0].size() - 1;
  }
  std::cout << "\n";
}

/// A loader's batches, and what else there is of its chain.
void Load() {
  rf::DataReader loader(rf::OpenFiles({"part-0.txt"}), {.batch_size = 2});
  rf::Instance batch;
  if (!loader.Read(&batch)) throw std::runtime_error("there is a batch");
  const bool two = loader.batches().Stats().records >= 2;
  std::cout << "a loader read " << batch["bytes"].lod[0].size() - 1 << " rows of "
            << (two ? "at least 2" : "less") << " records, closed: ";
  loader.Close();  // who waits in Read gets this, too
  try {
    while (loader.Read(&batch)) {
    }
  } catch (const rf::Error& error) {
    std::cout << rf::StatusCodeName(error.status().code()) << "\n";
  }
}

int main() try {
  std::ofstream("part-0.txt") << "one\ntwo\nthree\n";
  std::ofstream("part-0") << "one\ntwo\nthree\n";
  std::ofstream("part-1") << "four\nfive\nsix\n";
  rf::PartFileOptions parts;
  parts.data_dir = ".";
  parts.data_part_num = 2;
  parts.batch_size = 4;
  parts.rank = 1;
  parts.ranks = 2;
  parts.spare_ranks = rf::SpareRanks::kIdle;
  std::cout << "rank 1 of 2 reads " << rf::PartFilesOfRank(parts).at(0) << "\n"
            << rf::LocalBatchSize(parts) << " rows of 4 are this rank's\n";
  ShowRows("batches of", rf::OpenPartFiles(parts, {.format = "lines"}));

  const auto group = [](const rf::RecordSpan& line) { return std::int64_t{line.size == 3}; };
  ShowRows("of one group", rf::GroupBatchDataset(rf::OpenFiles({"part-0.txt"}), 2, group));
  rf::Reader samples = rf::RandomShuffleDataset(rf::OpenFiles({"part-0.txt"}), 8, 7);
  const rf::Reader batches = rf::BatchDataset(samples, 2);
  ShowRows("shuffled", batches);

  Load();

  std::vector<int> squares(4);
  rf::MultiThreadLoop(
      squares.size(), [&](std::size_t i) { squares[i] = static_cast<int>(i * i); }, 2);
  std::cout << "squares end at " << squares.back() << "\n";
} catch (const std::exception& error) {
  std::cerr << "oneflow_names: " << error.what() << "\n";
  return 1;
}
