// How files are read and what a chain tells of it: options, damage, origins, time.
//
// Prints:
//   first batch: pass 0, 2 files
//   damaged: bytes 0 to 27 of bad.tfrecord
//   of 4 places 1 has no record
//   the end is no failure: 1
//   a.tfrecord by mmap: 4 records
//   time at work is known: 1
//   0 requests brought 0 bytes, the cache 0
//   half of the steps waited no longer than the slowest: 1
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "ringfeed/log.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void WriteRecords(const std::string& path, int count) {
  const auto opened = rf::OpenRecordWriter(path, "tfrecord");
  if (!opened.status.ok()) throw rf::Error(opened.status);
  for (int record = 0; record < count; ++record) {
    const rf::Status status = opened.writer->Write(std::as_bytes(std::span("some record", 11)));
    if (!status.ok()) throw rf::Error(status);
  }
  if (const rf::Status status = opened.writer->Close(); !status.ok()) throw rf::Error(status);
}

/// The arena is the pinned memory of all that is read: here one of this chain's own.
rf::OpenOptions Options() {
  rf::OpenOptions options;
  options.files = rf::FileOrder{.shuffle = true, .seed = 7};
  options.index = rf::IndexUse::kAsNeeded;
  options.note_records = true;  // a batch's origin says which records it has
  options.threads = 2;
  options.io = rf::IoOptions{.path = rf::IoPath::kMmap};
  options.arena = std::make_shared<rf::PinnedArena>(std::size_t{256} << 20);
  return options;
}

void Origins() {
  auto records = rf::OpenFiles({"a.tfrecord", "b.tfrecord"}, Options());
  auto shuffled = rf::Shuffle(records, {.seed = 7, .mode = rf::ShuffleMode::kGlobal});
  rf::Reader batches = rf::Batch(shuffled, {.size = 6});
  batches.MakeIndex(rf::IndexPurpose::kReading);  // else the first read does it
  rf::Instance batch;
  rf::BatchOrigin origin;
  const rf::ReadOptions options = {.origin = &origin,
                                   .deadline = rf::DeadlineAfter(std::chrono::minutes(1))};
  if (batches.TryReadNext(&batch, options) != rf::ReadResult::kRecord)
    throw rf::Error(batches.status());
  std::vector<std::uint32_t> files;
  for (const rf::RecordRange& range : origin.records) files.push_back(range.file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  std::cout << "first batch: pass " << origin.pass << ", " << files.size() << " files\n";
}

void Damage() {
  std::filesystem::copy_file("a.tfrecord", "bad.tfrecord");
  std::fstream("bad.tfrecord", std::ios::in | std::ios::out | std::ios::binary).seekp(14).put('?');
  rf::Reader records = rf::OpenFiles({"bad.tfrecord"}, {.on_damage = rf::OnDamage::kSkip});
  rf::RecordBlock block;
  std::size_t places = 0, lost = 0;
  while (records.TryReadBlock(&block) == rf::ReadResult::kRecord) {
    for (const rf::RecordSpan& record : block.records()) lost += record.damaged() ? 1 : 0;
    places += block.size();
  }
  for (const rf::DamagedRange& range : records.Stats().damage) {
    std::cout << "damaged: bytes " << range.begin << " to " << range.end << " of " << range.file
              << "\n";
  }
  for (const rf::DataWarning& warning : records.Stats().warnings) {
    std::cout << warning.file << ": " << warning.text << "\n";
  }
  std::cout << "of " << places << " places " << lost << " has no record\n";
}

void Report() {
  rf::Reader records = rf::OpenFiles({"a.tfrecord"}, Options());
  try {
    while (true) records.ReadNext();
  } catch (const rf::EndOfData&) {
    std::cout << "the end is no failure: " << records.status().ok() << "\n";
  }
  const rf::PipelineStats stats = records.Stats();
  const rf::IoChoice& io = stats.io.at(0);
  std::cout << io.file << " by " << rf::IoPathName(io.path) << ": " << stats.records
            << " records\n";
  double busy_s = 0;
  for (const rf::StageStats& stage : stats.stages) busy_s += stage.busy_s;
  std::cout << "time at work is known: " << (busy_s > 0) << "\n";
  const rf::RemoteStats& remote = stats.remote;  // of objects in stores; a file adds nothing to it
  std::cout << remote.requests << " requests brought " << remote.bytes << " bytes, the cache "
            << remote.cached_bytes << "\n";
  const rf::StepWaits& waits = stats.step_waits;
  std::cout << "half of the steps waited no longer than the slowest: "
            << (waits.p50_s <= waits.max_s) << "\n";
}

/// Set-backs that cost time go to the program's log.
void TakeLog() {
  rf::SetLog([](rf::LogLevel level, const std::string& text) noexcept {
    if (level == rf::LogLevel::kWarn)
      std::clog << "ringfeed is slower than need be: " << text << "\n";
  });
}

int main() try {
  TakeLog();
  WriteRecords("a.tfrecord", 4);
  WriteRecords("b.tfrecord", 4);
  Origins();
  Damage();
  Report();
} catch (const std::exception& error) {
  std::cerr << "reading: " << error.what() << "\n";
  return 1;
}
