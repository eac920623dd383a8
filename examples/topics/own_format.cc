// A file format of one's own: a reader for one file makes OpenFiles read lists of them.
//
// Prints:
//   2 files, 2 instances, sum 10
#include <fstream>
#include <iostream>

#include "ringfeed/file_reader.h"
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
} catch (const std::exception& error) {
  std::cerr << "own_format: " << error.what() << "\n";
  return 1;
}
