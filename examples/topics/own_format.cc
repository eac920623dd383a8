// File formats of one's own: a reader for one file makes OpenFiles read lists of them, and where a
// record ends is enough for every order.
//
// Prints:
//   2 files, 2 instances, sum 10
//   shuffled globally: 6 records, all there: yes
#include <fstream>
#include <iostream>

#include "ringfeed/file_reader.h"
#include "ringfeed/formats.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Files of numbers as text, each file one instance: "*.numbers".
class NumbersFile final : public rf::FileReader {
 public:
  using FileReader::FileReader;

 protected:
  bool ReadNextImpl(rf::Instance* instance) override {
    if (done_) return false;
    done_ = true;
    std::ifstream file(path());
    std::vector<float> numbers;
    for (float number; file >> number;) numbers.push_back(number);
    *instance = {rf::MakeTensor(std::move(numbers))};
    return true;
  }
  bool ReInitImpl() override { return done_ = false, true; }

 private:
  bool done_ = false;
};

/// Records with a length of one byte before each: "*.short".
class ShortRecords final : public rf::RecordFormat {
 public:
  rf::FoundRecord Find(std::span<const std::byte> bytes, std::uint64_t /*offset*/,
                       bool /*at_end*/) const override {
    rf::FoundRecord found;
    found.begin = 1;
    found.bytes = std::to_integer<std::size_t>(bytes[0]);
    found.end = 1 + found.bytes;
    if (found.end > bytes.size()) found.need_bytes = found.end;
    return found;
  }
};

/// Its records come in any order, by an index that ringfeed makes.
void EveryOrder() {
  rf::RegisterRecordFormat("short", std::make_shared<const ShortRecords>());
  std::ofstream("words.short") << "\1a\2be\3sea\4deep\5eight\6fathom";
  rf::Reader words =
      rf::Shuffle(rf::OpenFiles({"words.short"}), {.seed = 3, .mode = rf::ShuffleMode::kGlobal});
  rf::RecordBlock block;
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (words.TryReadBlock(&block) == rf::ReadResult::kRecord) {
    for (const rf::RecordSpan& word : block.records()) bytes += word.size;
    count += block.size();
  }
  std::cout << "shuffled globally: " << count
            << " records, all there: " << (bytes == 1 + 2 + 3 + 4 + 5 + 6 ? "yes" : "no") << "\n";
}

int main() try {
  rf::RegisterFormat("numbers",
                     [](const std::string& path, const std::vector<rf::SlotSpec>& slots) {
                       return std::make_unique<NumbersFile>(path, slots);
                     });
  std::ofstream("a.numbers") << "1 2 3";
  std::ofstream("b.numbers") << "4";
  rf::OpenOptions options;
  options.slots = {{"x", rf::kFloat32, {-1}}};  // what the readers deliver
  rf::Reader instances = rf::OpenFiles({"*.numbers"}, options);
  int count = 0;
  float sum = 0;
  while (instances.HasNext()) {
    const rf::Instance instance = instances.ReadNext();
    for (const float x : instance["x"].Values<float>()) sum += x;
    ++count;
  }
  std::cout << "2 files, " << count << " instances, sum " << sum << "\n";
  EveryOrder();
} catch (const std::exception& error) {
  std::cerr << "own_format: " << error.what() << "\n";
  return 1;
}
