// A data set of one's own on several ranks, and its batches on several devices.
//
// Prints:
//   rank 0 of 2 has 5 of 10 samples, rank 1 has 5
//   passes of 1, 2 and 3 samples; restored, 3
//   step of 2 devices: 2 and 2 rows
//   step of 2 devices: 1 and 0 rows
//   rows 1 and 2 of 4: 2
//   pieces of two bytes: a.part to 2, a.part to 4, b.part to 2
#include <fstream>
#include <iostream>

#include "ringfeed/compat/persistent_in_stream.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Ten samples of one byte, by number.
class Digits final : public rf::RandomAccessDataset {
 public:
  std::uint64_t Size() const override { return 10; }
  void At(std::uint64_t index, std::string* sample) override { *sample = std::to_string(index); }
  bool Ready() const override { return true; }            // it waits for nothing but a disk
  std::string name() const override { return "digits"; }  // in reports and errors
};

/// Passes that differ: each has a sample more than the one before.
class Growing final : public rf::Dataset {
 public:
  bool Next(std::string* sample) override {
    if (next_ > pass_) return false;
    *sample = std::to_string(next_++);
    return true;
  }
  bool ReInit() override { return StartPass(pass_ + 1); }
  std::uint64_t Pass() const override { return pass_; }  // a position names it
  bool StartPass(std::uint64_t pass) override {
    pass_ = pass;
    next_ = 0;
    return true;
  }

 private:
  std::uint64_t pass_ = 0;
  std::uint64_t next_ = 0;
};

rf::Reader Share(std::size_t rank) {
  const rf::DistributedOptions options = {.rank = rank, .ranks = 2, .shuffle = true, .seed = 7};
  auto share =
      std::make_unique<rf::DistributedTrainingDataset>(std::make_unique<Digits>(), options);
  return rf::FromDataset(std::move(share));
}

std::size_t Count(rf::Reader records) {
  std::size_t count = 0;
  while (records.HasNext()) records.ReadNext(), ++count;
  return count;
}

void Passes() {
  rf::Reader samples = rf::FromDataset(std::make_unique<Growing>());
  std::cout << "passes of " << Count(samples);
  samples.ReInit();
  std::cout << ", " << Count(samples);
  samples.ReInit();
  const std::string start = samples.Position();
  std::cout << " and " << Count(samples) << " samples; restored, ";
  rf::Reader others = rf::FromDataset(std::make_unique<Growing>());
  others.Restore(start);
  std::cout << Count(others) << "\n";
}

/// Parts as one stream, for a data set that reads files by itself. No piece is of two parts.
void Pieces() {
  std::ofstream("a.part") << "abcd";
  std::ofstream("b.part") << "ef";
  rf::PersistentInStream parts({"a.part", "b.part"});
  char piece[2];
  std::cout << "pieces of two bytes:";
  for (const char* between = " "; parts.ReadFully(piece, sizeof piece); between = ", ")
    std::cout << between << parts.part() << " to " << parts.offset();
  std::cout << "\n";
}

int main() try {
  std::cout << "rank 0 of 2 has " << Count(Share(0)) << " of 10 samples, rank 1 has "
            << Count(Share(1)) << "\n";

  Passes();

  // At the end of the data the rows are spread, so that all devices step equally often.
  auto numbers = rf::Parse(Share(0), rf::CsvParser({{"x", rf::kInt64, {}}}));
  rf::DeviceBatches steps(rf::Batch(numbers, {.size = 2, .slots = 4}), 2);
  std::vector<rf::Instance> per_device;
  while (steps.ReadNext(&per_device) == rf::ReadResult::kRecord) {
    std::cout << "step of 2 devices: " << rf::RowsOf(per_device[0]) << " and "
              << rf::RowsOf(per_device[1]) << " rows\n";
  }

  // The same by hand.
  const rf::Instance batch = {rf::MakeTensor({4, 2}, std::vector<float>(8))};
  std::cout << "rows 1 and 2 of 4: " << rf::RowsOf(rf::SliceRows(batch, 1, 3)) << "\n";
  if (rf::SpreadRows({batch}, 3).size() != 3) return 1;
  Pieces();
} catch (const std::exception& error) {
  std::cerr << "data_sets: " << error.what() << "\n";
  return 1;
}
