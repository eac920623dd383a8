// Chains of more than one branch or set: groups, mixtures, shared readers, functions over batches.
//
// Prints:
//   groups: even odd
//   mixture: 8 records
//   other weights from the second batch on: 0415 6723
//   two chains on one reader: 8 records
//   a function over whole batches: 6
//   odd ones alone: 2 records
//   as many as it says: 0 values of 0, 3 values of 3
//   every second: 2 records
#include <fstream>
#include <iostream>
#include <string>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void WriteLines(const std::string& path, int first, int count) {
  std::ofstream file(path);
  for (int line = first; line < first + count; ++line) file << line << "\n";
}

std::int64_t LastDigit(const rf::RecordSpan& line) {
  return static_cast<std::int64_t>(line.bytes().back());
}

std::size_t Count(rf::Reader records) {
  std::size_t count = 0;
  while (records.HasNext()) records.ReadNext(), ++count;
  return count;
}

void Groups() {
  rf::GroupBatchOptions options;
  options.size = 2;
  options.group_of = [](const rf::RecordSpan& line) { return LastDigit(line) % 2; };
  rf::Reader batches = rf::GroupBatch(rf::OpenFiles({"one.txt"}), options);
  std::cout << "groups:";
  while (batches.HasNext()) {
    const rf::Instance batch = batches.ReadNext();
    std::cout << ((batch["bytes"].data[0] == std::byte{'0'}) ? " even" : " odd");
  }
  std::cout << "\n";
}

void Mixture() {
  const rf::MixSet often = {.records = rf::OpenFiles({"one.txt"}), .weight = 3};
  const rf::MixSet seldom = {.records = rf::OpenFiles({"two.txt"}), .weight = 1};
  std::cout << "mixture: " << Count(rf::Mix({often, seldom})) << " records\n";
}

void WeightsByTheStep() {
  rf::MixOptions mix;
  mix.schedule = {{0, {1, 1}}, {1, {1, 3}}};
  const rf::MixSet one = {.records = rf::OpenFiles({"one.txt"})};
  const rf::MixSet two = {.records = rf::OpenFiles({"two.txt"})};
  rf::Reader batches = rf::Batch(rf::Mix({one, two}, mix), {.size = 4});
  std::cout << "other weights from the second batch on:";
  while (batches.HasNext()) {
    const rf::Instance batch = batches.ReadNext();
    const rf::Tensor& bytes = batch["bytes"];
    std::cout << " " << std::string(reinterpret_cast<const char*>(bytes.data), bytes.bytes);
  }
  std::cout << "\n";
}

void Shared() {
  const rf::Reader shared = rf::Share(rf::OpenFiles({"one.txt", "two.txt"}));
  rf::Reader large = rf::Batch(shared, {.size = 3}), small = rf::Batch(shared, {.size = 1});
  std::int64_t rows = 0;
  for (rf::Reader* chain : {&large, &small}) {
    while (chain->HasNext()) {
      const rf::Instance batch = chain->ReadNext();
      rows += static_cast<std::int64_t>(batch["bytes"].lod[0].size()) - 1;
    }
  }
  std::cout << "two chains on one reader: " << rows << " records\n";
}

/// What is made of a whole batch needs one thread; Map makes rows by several.
void Functions() {
  auto rows = rf::Parse(rf::OpenFiles({"one.txt"}), rf::CsvParser({{"x", rf::kInt64, {}}}));
  auto sums = rf::Preprocess(rf::Batch(rows, {.size = 4}), {{"sum", rf::kInt64, {1}}},
                             [](const rf::Instance& batch, rf::Instance* sum) {
                               std::int64_t total = 0;
                               for (const auto x : batch["x"].Values<std::int64_t>()) total += x;
                               *sum = {rf::MakeTensor(std::vector{total})};
                             });
  rf::Reader two_ahead = rf::DoubleBuffer(sums, 2);
  const rf::Instance sum = two_ahead.ReadNext();
  std::cout << "a function over whole batches: " << sum["sum"].Values<std::int64_t>()[0] << "\n";
}

/// Rows are dropped by their records; what is made of each may be of any length.
void Rows() {
  const auto is_odd = [](const rf::RecordSpan& line) { return LastDigit(line) % 2 == 1; };
  std::cout << "odd ones alone: " << Count(rf::Filter(rf::OpenFiles({"one.txt"}), is_odd))
            << " records\n";
  auto rows = rf::Parse(rf::OpenFiles({"one.txt"}), rf::CsvParser({{"x", rf::kInt64, {}}}));
  rf::Reader repeated = rf::Map(
      rows, {{"xs", rf::kInt64, {-1}}}, [](const rf::MapInput& input, rf::RowWriter& output) {
        const std::int64_t x = (*input.fields)["x"].Values<std::int64_t>()[0];
        const std::vector<std::int64_t> values(static_cast<std::size_t>(x), x);
        output.Ragged(0, std::as_bytes(std::span(values)));
      });
  const rf::Instance batch = rf::Batch(repeated, {.size = 4}).ReadNext();
  const auto offsets = batch["xs"].lod[0];
  std::cout << "as many as it says: " << offsets[1] << " values of 0, " << offsets[4] - offsets[3]
            << " values of 3\n";
}

/// A decorator of one's own, in one thread.
class EverySecond final : public rf::DecoratedReader {
 public:
  explicit EverySecond(rf::Reader reader) : DecoratedReader(std::move(reader)) {
    if (input().fields().size() != 1) throw std::invalid_argument("rows have one field here");
  }
  rf::ReadResult ReadNext(rf::Instance* out, std::stop_token stop, rf::Status* status) override {
    const rf::ReadResult skipped = ReadInput(out, stop, status);
    if (skipped != rf::ReadResult::kRecord) return skipped;
    return ReadInput(out, stop, status);
  }
};

int main() try {
  WriteLines("one.txt", 0, 4);
  WriteLines("two.txt", 4, 4);
  Groups();
  Mixture();
  WeightsByTheStep();
  Shared();
  Functions();
  Rows();
  auto rows = rf::Parse(rf::OpenFiles({"one.txt"}), rf::CsvParser({{"x", rf::kInt64, {}}}));
  auto second = rf::FromInstanceSource(std::make_unique<EverySecond>(rows));
  std::cout << "every second: " << Count(second) << " records\n";
} catch (const std::exception& error) {
  std::cerr << "chains: " << error.what() << "\n";
  return 1;
}
