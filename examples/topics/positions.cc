// Where a chain stands and how it goes on from there; what can be asked before it reads.
//
// Prints:
//   record: uint8 [-1], 0 levels of LoD
//   files of 3 and 2 records
//   10 records in 2 passes, the last begins in pass 1
//   after 1 of 5 batches it goes on with 4
//   from batch 3 there are 2, without the next one 1
//   a position of another chain: invalid_argument
//   2 ends of one graph: 5 records together, and again 5
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Need(const rf::Status& status) {
  if (!status.ok()) throw rf::Error(status);
}

std::string WriteRecords(const std::string& path, int count) {
  const auto opened = rf::OpenRecordWriter(path, "tfrecord");
  Need(opened.status);
  for (int record = 0; record < count; ++record)
    Need(opened.writer->Write(std::as_bytes(std::span("record", 6))));
  Need(opened.writer->Close());
  return path;
}

rf::Reader Records() { return rf::OpenFiles({"three.tfrecord", "two.tfrecord"}); }

/// Five batches of two passes.
rf::Reader Batches() { return rf::Batch(rf::MultiPass(Records(), 2), {.size = 2}); }

std::size_t Count(rf::Reader reader) {
  std::size_t count = 0;
  while (reader.HasNext()) reader.ReadNext(), ++count;
  return count;
}

/// None of these waits for more than the files' indexes.
void Before() {
  rf::Reader records = Records();
  const rf::SlotSpec slot = records.slots().at(0);
  std::cout << slot.name << ": " << rf::DTypeName(slot.dtype) << " "
            << rf::ShapeToString(records.shapes().at(0)) << ", " << slot.lod_levels
            << " levels of LoD\n";
  const std::vector<std::uint64_t> counts = records.FileRecords();
  std::cout << "files of " << counts.at(0) << " and " << counts.at(1) << " records\n";
}

void Passes() {
  rf::Reader records = rf::MultiPass(Records(), 2);
  std::optional<std::uint64_t> pass = records.NextPass();
  if (pass != 0) throw std::runtime_error("the first pass is 0");
  std::size_t count = 0;
  std::uint64_t last = 0;
  // A deadline that is past asks without waiting; kTimeout would then say "not known yet".
  while (records.TryHasNext(rf::kNoDeadline) == rf::ReadResult::kRecord) {
    if (records.TryNextPass(&pass, rf::kNoDeadline) == rf::ReadResult::kRecord) last = *pass;
    records.ReadNext(), ++count;
  }
  std::cout << count << " records in 2 passes, the last begins in pass " << last << "\n";
}

void Resume() {
  rf::Reader batches = Batches();
  batches.ReserveBatches(2);  // so many are held at a time
  const std::string start = batches.StartPosition();
  const rf::Instance held = batches.ReadNext(), next = Batches().ReadNext();
  const std::string position = batches.Position();
  rf::Reader later = Batches();
  later.CheckPosition(position);  // throws if Restore would
  later.Restore(position);
  if (!later.AwaitPosition(rf::DeadlineAfter(std::chrono::minutes(1))) || !later.KnowsPosition())
    throw std::runtime_error("where it stands is not known");
  std::cout << "after 1 of 5 batches it goes on with " << Count(later) << "\n";

  later.CheckSeek();
  later.SeekTo(3);
  std::cout << "from batch 3 there are " << Count(later);
  later.SeekTo(3);
  later.SkipBatches(1);
  std::cout << ", without the next one " << Count(later) << "\n";
  later.Restore(start);
  if (Count(later) != 5) throw std::runtime_error("the start is another");
  try {
    rf::Reader other = rf::Batch(Records(), {.size = 3});
    other.CheckPosition(position);
  } catch (const rf::Error& error) {
    std::cout << "a position of another chain: " << rf::StatusCodeName(error.status().code())
              << "\n";
  }
}

/// Chains on one shared reader take its records in turns, and start again together.
void Graph() {
  const rf::Reader shared = rf::Share(Records());
  rf::Reader one = rf::Batch(shared, {.size = 1}), two = rf::Batch(shared, {.size = 1});
  const std::vector<rf::Reader> ends = one.EndPoints();
  const bool both = (ends.at(0).id() == one.id()) != (ends.at(0).id() == two.id());
  if (!both) throw std::runtime_error("the ends are others");
  std::cout << ends.size() << " ends of one graph: " << Count(one) + Count(two);
  shared.EndPoints().at(0).ResetAll();
  std::cout << " records together, and again " << Count(one) + Count(two) << "\n";
}

int main() try {
  WriteRecords("three.tfrecord", 3);
  WriteRecords("two.tfrecord", 2);
  Before();
  Passes();
  Resume();
  Graph();
} catch (const std::exception& error) {
  std::cerr << "positions: " << error.what() << "\n";
  return 1;
}
