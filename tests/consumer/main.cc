// What a user's first program does with an installed ringfeed: writes records, feeds them shuffled
// and in batches, and finds each of them once.

#include <ringfeed/ringfeed.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kRecords = 1000;

ringfeed::Status WriteRecords(const std::string& path) {
  auto [status, writer] = ringfeed::OpenRecordWriter(path, "tfrecord");
  ringfeed::ExampleBuilder example;
  for (std::int64_t label = 0; status.ok() && label < kRecords; ++label) {
    status = writer->Write(example.AddInts("label", {&label, 1}).Finish());
  }
  return status.ok() ? writer->Close() : status;
}

std::vector<int> CountLabels(const std::string& path) {
  using namespace ringfeed;
  auto labels = Parse(OpenFiles({path}), ExampleParser({{"label", kInt64, {1}}}));
  auto batches = Batch(Shuffle(labels, {.window = 100, .seed = 7}), {.size = 64});
  std::vector<int> seen(kRecords);
  while (batches.HasNext()) {
    const Instance batch = batches.ReadNext();
    for (std::int64_t label : batch["label"].Values<std::int64_t>()) {
      ++seen.at(static_cast<std::size_t>(label));
    }
  }
  return seen;
}

// Whether malloc is the program's own, and memory that cannot be had an exception.
bool KeepsItsMalloc() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("malloc") < line.size()) return false;
  }
  try {
    std::vector<std::byte> much;
    much.reserve(std::size_t{1} << 50);
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  if (!KeepsItsMalloc()) {
    std::puts("the library replaces the program's malloc");
    return 1;
  }
  const std::string path = "consumer.tfrecord";
  const ringfeed::Status written = WriteRecords(path);
  if (!written.ok()) {
    std::puts(written.ToString().c_str());
    return 1;
  }
  if (CountLabels(path) != std::vector<int>(kRecords, 1)) {
    std::puts("the labels did not come once each");
    return 1;
  }
  std::puts("ringfeed is installed: every record came once");
  return 0;
}
