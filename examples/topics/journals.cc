// What each process delivered, as a file that survives it: written beside a loop, and read again.
//
// Prints:
//   start of rank 0, 2 batches, the end, 1 damaged
//   a line was cut off: 1
#include <fstream>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Need(const rf::Status& status) {
  if (!status.ok()) throw rf::Error(status);
}

void Train() {
  std::ofstream("lines.txt") << "one\ntwo\nthree\n";
  rf::Reader batches = rf::Batch(rf::OpenFiles({"lines.txt"}, {.note_records = true}), {.size = 2});
  const rf::JournalStart start = {
      .batch_rows = 2, .rule = rf::DeliveryRule::kOnce, .data = "lines"};
  rf::JournalWriter journal("rank0.journal", start);
  rf::Instance batch;
  rf::BatchOrigin origin;
  rf::ReadResult result;
  while ((result = batches.TryReadNext(&batch, {.origin = &origin})) == rf::ReadResult::kRecord) {
    Need(journal.Append(origin));  // before the position after it is saved
  }
  if (result == rf::ReadResult::kFailed) throw rf::Error(batches.status());
  Need(journal.End(origin.batch + 1));
  Need(journal.Damage(1));  // as PipelineStats counts it
}

int main() try {
  Train();
  rf::JournalReader journal("rank0.journal");
  rf::JournalEntry entry;
  int batches = 0;
  while (journal.Next(&entry) == rf::ReadResult::kRecord) {
    switch (entry.kind) {
      case rf::JournalEntry::Kind::kStart:
        std::cout << "start of rank " << entry.start.rank << ", ";
        break;
      case rf::JournalEntry::Kind::kBatch:
        ++batches;
        break;
      case rf::JournalEntry::Kind::kEnd:
        std::cout << batches << " batches, the end, ";
        break;
      case rf::JournalEntry::Kind::kDamage:
        std::cout << entry.damaged << " damaged\n";
        break;
      default:
        break;
    }
  }
  Need(journal.status());
  std::ofstream("rank0.journal", std::ios::app) << "half a li";  // a process was killed
  rf::JournalReader again("rank0.journal");
  while (again.Next(&entry) == rf::ReadResult::kRecord) {
  }
  std::cout << "a line was cut off: " << (again.cut_bytes() == 9) << "\n";
} catch (const std::exception& error) {
  std::cerr << "journals: " << error.what() << "\n";
  return 1;
}
