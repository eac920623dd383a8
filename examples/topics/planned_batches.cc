// Packed rows of two ranks, planned from the records' lengths: each step has the same records as
// one rank alone would get, and costs both ranks about as much.
//
// Prints:
//   3 steps of 4 rows on each rank
//   rank 0: 2 rows of step 0, which has 56 tokens
//   rank 1: 2 rows of step 0, which has 56 tokens
//   3 steps have 136 tokens and 8 empty places
//   token batches: 2 in a step
//   alike in length: 2 steps of 4 rows
//   of the even records: 1 step of 4 rows
//   row 0 of step 0 begins with record 5 of rows.jsonl, 10 tokens
#include <fstream>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Rows of 1 to 16 tokens.
rf::Reader Rows(const rf::OpenOptions& options = {}) {
  std::ofstream file("rows.jsonl");
  for (int row = 0; row < 16; ++row) {
    file << R"({"t": [0)";
    for (int i = 0; i < (row * 5) % 16; ++i) file << ", " << i;
    file << "]}\n";
  }
  file.close();
  const rf::ShuffleOptions shuffle = {.seed = 7, .mode = rf::ShuffleMode::kGlobal};
  return rf::Parse(rf::Shuffle(rf::OpenFiles({"rows.jsonl"}, options), shuffle),
                   rf::JsonLinesParser({{"t", rf::kInt64, {-1}}}));
}

/// Steps that ranks share by what a record of u tokens costs: 16 u + u².
rf::StepOptions StepsOf(int rank, rf::Rest rest) {
  rf::StepOptions steps;
  steps.rank = {rank, 2};
  steps.balance = rf::Balance{.linear = 16, .square = 1};
  steps.rest = rest;
  return steps;
}

int main() try {
  rf::PackOptions packing = {.field = "t", .length = 16, .rows = 4};
  packing.fit = rf::PackFit::kBest;
  for (const int rank : {0, 1}) {
    packing.steps = StepsOf(rank, rf::Rest::kShort);
    rf::Reader reader = rf::Pack(Rows(), packing);
    if (rank == 0) std::cout << reader.CountBatches() << " steps of 4 rows on each rank\n";
    rf::Instance batch;
    rf::BatchOrigin origin;
    (void)reader.TryReadNext(&batch, {.origin = &origin});
    std::cout << "rank " << rank << ": " << batch.Rows() << " rows of step " << origin.batch
              << ", which has " << origin.step_units << " tokens\n";
    if (rank == 0) continue;
    while (reader.TryReadNext(&batch) == rf::ReadResult::kRecord) {
    }
    const rf::PlannedStats planned = reader.Stats().planned;
    std::cout << planned.steps << " steps have " << planned.units << " tokens and "
              << planned.padding_units << " empty places\n";
  }

  rf::TokenBatchOptions tokens = {.field = "t", .tokens = 20, .shares = 4};
  tokens.steps = StepsOf(0, rf::Rest::kDrop);
  std::cout << "token batches: " << rf::TokenBatch(Rows(), tokens).BatchesOfStep()
            << " in a step\n";

  rf::BucketBatchOptions buckets = {.size = 8, .field = "t", .bounds = {8}, .segment = 16};
  buckets.steps = StepsOf(1, rf::Rest::kPad);
  rf::Reader reader = rf::BucketBatch(Rows(), buckets);
  std::cout << "alike in length: " << reader.CountBatches() << " steps of "
            << reader.ReadNext().Rows() << " rows\n";

  // Records that are left out are in no row, and nobody reads them.
  const std::vector<std::uint64_t> even = {0, 2, 4, 6, 8, 10, 12, 14};
  rf::WriteSubset(rf::OpenFiles({"rows.jsonl"}), even, "even.rfs");
  packing.steps = StepsOf(0, rf::Rest::kShort);
  const rf::Reader some = rf::Pack(Rows({.subset = "even.rfs"}), packing);
  std::cout << "of the even records: " << some.CountBatches() << " step of 4 rows\n";

  // Which records a step has is known before it is read, and a record is read by its number.
  packing.steps = StepsOf(1, rf::Rest::kShort);
  const rf::Reader known = rf::Pack(Rows(), packing);
  const rf::BatchRecord first = known.Which(0).front();
  const rf::Instance record = known.RecordAt(first.number);
  std::cout << "row " << first.row << " of step 0 begins with record " << first.record << " of "
            << known.FileNames()[first.file] << ", " << record["t"].shape[0] << " tokens\n";
  if (known.RecordsAt(std::vector<std::uint64_t>{2, 3}).Rows() != 2) return 1;
} catch (const std::exception& error) {
  std::cerr << "planned_batches: " << error.what() << "\n";
  return 1;
}
