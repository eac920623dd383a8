#include "examples/mlp_data.h"

#include <array>
#include <filesystem>
#include <random>
#include <system_error>

#include "examples/mlp.h"
#include "ringfeed/decorators.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"

namespace mlp {
namespace {

constexpr std::uint64_t kFiles = 4;
constexpr std::size_t kShuffleWindow = 4096;

void Check(const ringfeed::Status& status) {
  if (!status.ok()) throw ringfeed::Error(status);
}

/// Four clouds of points. The two of a class lie opposite each other.
class Clouds {
 public:
  std::int64_t Draw(std::array<float, kInputs>* x) {
    const std::uint64_t bits = random_();
    const std::int64_t label = (bits & 1) != 0 ? 1 : 0;
    float middle = (bits & 2) != 0 ? 1.0F : -1.0F;
    for (float& value : *x) {
      value = middle + noise_(random_);
      if (label == 1) middle = -middle;
    }
    return label;
  }

 private:
  std::mt19937 random_{11};
  std::normal_distribution<float> noise_{0, 0.7F};
};

void WriteFile(const std::string& path, std::uint64_t records, Clouds* clouds) {
  const ringfeed::RecordWriterResult opened = ringfeed::OpenRecordWriter(path, "tfrecord");
  Check(opened.status);
  ringfeed::ExampleBuilder example;
  std::array<float, kInputs> x;
  for (std::uint64_t i = 0; i < records; ++i) {
    const std::int64_t label = clouds->Draw(&x);
    example.AddFloats("x", x).AddInts("label", {&label, 1});
    Check(opened.writer->Write(example.Finish()));
  }
  Check(opened.writer->Close());
}

}  // namespace

void MakeData(const std::string& folder, std::uint64_t records) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    Check(ringfeed::StatusFromErrno(failure.value(), "make the folder " + folder));
  }
  Clouds clouds;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    const std::string path = folder + "/clouds-" + std::to_string(file) + ".tfrecord";
    WriteFile(path, records * (file + 1) / kFiles - records * file / kFiles, &clouds);
  }
}

ringfeed::Reader OpenData(const std::vector<std::string>& files, std::uint64_t passes,
                          std::size_t batch_size) {
  auto parser = ringfeed::ExampleParser(
      {{"x", ringfeed::kFloat32, {kInputs}}, {"label", ringfeed::kInt64, {}}});
  auto rows = ringfeed::Parse(ringfeed::OpenFiles(files), parser);
  auto shuffled = ringfeed::Shuffle(rows, {.window = kShuffleWindow, .seed = 7});
  return ringfeed::Batch(ringfeed::MultiPass(shuffled, passes), {.size = batch_size});
}

}  // namespace mlp
