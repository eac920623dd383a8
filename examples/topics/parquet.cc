// Parquet files as a data set: row groups permuted, and their rows shuffled. Of each row group the
// wanted columns alone are read. Arrow's IPC files are read in the same way, by OpenArrowIpc.
//
//   topic_parquet words.parquet        (or more files, a folder, a pattern, s3://…)
#include <iostream>
#include <string>
#include <vector>

#include "ringfeed/ringfeed.h"
#include "ringfeed/tables/table_files.h"

namespace rf = ringfeed;

rf::Reader Open(const std::vector<std::string>& files) {
  if (files.front().ends_with(".arrow")) return rf::OpenArrowIpc(files);
  rf::TableOptions options;
  options.columns = {"id", "word"};
  return rf::OpenParquet(files, options);
}

int main(int argc, char** argv) try {
  if (argc < 2) return 2;
  rf::Reader rows = Open({argv + 1, argv + argc});
  rows = rf::Shuffle(rows, {.window = 1000, .seed = 7, .mode = rf::ShuffleMode::kStripes});
  rf::Reader batches = rf::Batch(rows, {.size = 4});
  for (const rf::FieldSpec& field : batches.fields()) std::cout << field.name << " ";
  rf::Instance batch;
  std::int64_t sum = 0;
  while (batches.TryReadNext(&batch) == rf::ReadResult::kRecord) {
    for (const std::int64_t id : batch["id"].Values<std::int64_t>()) sum += id;
  }
  if (!batches.status().ok()) throw rf::Error(batches.status());
  const rf::TableStats cost = batches.Stats().tables;
  std::cout << "of " << cost.taken_rows << " rows in " << cost.opened_groups
            << " groups, ids sum up to " << sum << "\n";
} catch (const std::exception& error) {
  std::cerr << "parquet: " << error.what() << "\n";
  return 1;
}
