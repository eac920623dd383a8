// Augmentation in a pipe: adds noise to the numbers (float32) of every record of a RecordIO stream.
//
//   cat data.recordio | add_noise 0.01 | ringfeed feed /dev/stdin --format recordio
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <vector>

#include "ringfeed/ringfeed.h"

namespace {

constexpr std::size_t kTable = 1 << 16;  // more noise than a record has numbers

/// Noise that is made once: a record takes it from a place of its own on.
class Noise {
 public:
  explicit Noise(float deviation) : table_(2 * kTable) {
    std::normal_distribution<float> normal(0, deviation);
    for (float& value : table_) value = normal(random_);
  }
  void AddTo(std::vector<float>* values) {
    for (std::size_t begin = 0; begin < values->size(); begin += kTable) {
      const float* const noise = table_.data() + random_() % kTable;
      Add(noise, values->data() + begin, std::min(kTable, values->size() - begin));
    }
  }

 private:
  // Eight numbers at a time, in vectors.
  static void Add(const float* __restrict noise, float* __restrict values, std::size_t count) {
    constexpr std::size_t kAtOnce = 8;
    std::size_t i = 0;
    for (; i + kAtOnce <= count; i += kAtOnce) {
      for (std::size_t k = 0; k < kAtOnce; ++k) values[i + k] += noise[i + k];
    }
    for (; i < count; ++i) values[i] += noise[i];
  }

  std::mt19937 random_{7};
  std::vector<float> table_;
};

ringfeed::Status Filter(ringfeed::Reader reader, ringfeed::RecordWriter* writer, Noise* noise) {
  std::vector<float> values;
  ringfeed::RecordBlock block;
  ringfeed::ReadResult result;
  while ((result = reader.TryReadBlock(&block)) == ringfeed::ReadResult::kRecord) {
    for (const ringfeed::RecordSpan& record : block.records()) {
      values.resize(record.size / sizeof(float));
      const auto bytes = std::as_writable_bytes(std::span(values));
      std::copy_n(record.data, bytes.size(), bytes.data());
      noise->AddTo(&values);
      const ringfeed::Status status = writer->Write(std::as_bytes(std::span(values)));
      if (!status.ok()) return status;
    }
  }
  return result == ringfeed::ReadResult::kFailed ? reader.status() : writer->Close();
}

}  // namespace

int main(int argc, char** argv) try {
  Noise noise(argc > 1 ? std::strtof(argv[1], nullptr) : 0.01F);
  ringfeed::RecordWriterResult output =
      ringfeed::OpenRecordStreamWriter(STDOUT_FILENO, "stdout", "recordio:fluid,none");
  if (!output.status.ok()) throw ringfeed::Error(output.status);
  ringfeed::OpenOptions options;
  options.format = "recordio";
  const ringfeed::Status status =
      Filter(ringfeed::OpenFiles({"/dev/stdin"}, options), output.writer.get(), &noise);
  if (status.ok()) return 0;
  std::fprintf(stderr, "add_noise: %s\n", status.ToString().c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "add_noise: %s\n", error.what());
  return 2;
}
