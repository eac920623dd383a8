// Reads files of tables in batches and writes them to a stream of Arrow's, for a test that compares
// them with what pyarrow reads:
//   read_tables KIND OUTPUT ORDER ON_DAMAGE COLUMNS FILE…
// KIND is parquet or arrow, ORDER none or stripes, COLUMNS a list with commas, or "" for all. With
// the order "touched" the last file gets another time after it was opened.
// Prints the groups that were opened, their rows, and the damaged ones.
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ringfeed/export/arrow_c.h"
#include "ringfeed/ringfeed.h"
#include "ringfeed/tables/table_files.h"

namespace rf = ringfeed;

namespace {

constexpr std::size_t kBatch = 7;

rf::Reader Batches(const std::vector<std::string>& words) {
  rf::TableOptions options;
  options.nulls = {rf::OnNull::kMask, 0};
  if (words[3] == "skip") options.open.on_damage = rf::OnDamage::kSkip;
  std::istringstream columns(words[4]);
  for (std::string column; std::getline(columns, column, ',');) options.columns.push_back(column);
  const std::vector<std::string> files(words.begin() + 5, words.end());
  rf::Reader rows =
      words[0] == "parquet" ? rf::OpenParquet(files, options) : rf::OpenArrowIpc(files, options);
  if (words[2] == "touched") {
    std::filesystem::last_write_time(files.back(), std::filesystem::file_time_type{});
  }
  if (words[2] == "stripes") {
    rows = rf::Shuffle(rows, {.window = 10, .seed = 3, .mode = rf::ShuffleMode::kStripes});
  }
  return rf::Batch(rows, {.size = kBatch});
}

void Write(rf::Reader* batches, const std::string& output) {
  ArrowArrayStream stream;
  const auto next = [&](rf::Instance* batch) {
    return batches->TryReadNext(batch) == rf::ReadResult::kRecord;
  };
  rf::ExportArrowStream(next, &stream);
  const auto reader = arrow::ImportRecordBatchReader(&stream).ValueOrDie();
  const auto file = arrow::io::FileOutputStream::Open(output).ValueOrDie();
  const auto writer = arrow::ipc::MakeStreamWriter(file, reader->schema()).ValueOrDie();
  while (true) {
    const auto batch = reader->Next().ValueOrDie();
    if (batch == nullptr) break;
    if (const auto status = writer->WriteRecordBatch(*batch); !status.ok()) status.Abort();
  }
  if (const auto status = writer->Close(); !status.ok()) status.Abort();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 6) return 2;
  rf::Reader batches = Batches(words);
  Write(&batches, words[1]);
  if (!batches.status().ok()) throw rf::Error(batches.status());
  const rf::PipelineStats stats = batches.Stats();
  std::cout << stats.tables.opened_groups << " " << stats.tables.decoded_rows << " "
            << stats.damaged_records << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
