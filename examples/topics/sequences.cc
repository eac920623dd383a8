// Ragged fields: cut, filled up, batched by length or by tokens, packed into fixed rows.
//
// Prints:
//   cut and filled up: [4, 3]
//   alike in length: batches of 2 2
//   of 6 tokens at most: batches of 3 1
//   packed: [2, 5], segments 1 1 1 2 2 1 0 0 0 0
#include <fstream>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Rows of 3, 2, 1 and 6 tokens.
rf::Reader Rows() {
  std::ofstream("rows.jsonl") << R"({"t": [1, 2, 3]})"
                              << "\n"
                              << R"({"t": [4, 5]})"
                              << "\n"
                              << R"({"t": [6]})"
                              << "\n"
                              << R"({"t": [7, 8, 9, 10, 11, 12]})"
                              << "\n";
  return rf::Parse(rf::OpenFiles({"rows.jsonl"}), rf::JsonLinesParser({{"t", rf::kInt64, {-1}}}));
}

void ShowRows(const std::string& what, rf::Reader batches) {
  std::cout << what << ": batches of";
  while (batches.HasNext()) std::cout << " " << batches.ReadNext().Rows();
  std::cout << "\n";
}

int main() try {
  const rf::PadOptions to_three = {.length = 3};
  rf::Reader padded = rf::Pad(rf::Truncate(Rows(), "t", 3), "t", to_three);
  rf::Instance batch = rf::Batch(padded, {.size = 4}).ReadNext();
  std::cout << "cut and filled up: " << rf::ShapeToString(batch["t"].shape) << "\n";

  const rf::BucketBatchOptions buckets = {.size = 2, .field = "t", .bounds = {2}};
  ShowRows("alike in length", rf::BucketBatch(Rows(), buckets));
  const rf::TokenBatchOptions tokens = {.field = "t", .tokens = 6};
  ShowRows("of 6 tokens at most", rf::TokenBatch(Rows(), tokens));

  const rf::PackOptions packing = {.field = "t", .length = 5, .rows = 2};
  batch = rf::Pack(rf::Truncate(Rows(), "t", 5), packing).ReadNext();
  std::cout << "packed: " << rf::ShapeToString(batch["t"].shape) << ", segments";
  for (const int segment : batch["t_segments"].Values<std::int32_t>()) std::cout << " " << segment;
  std::cout << "\n";
} catch (const std::exception& error) {
  std::cerr << "sequences: " << error.what() << "\n";
  return 1;
}
