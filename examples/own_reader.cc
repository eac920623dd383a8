// A reader of one's own: points around two middles, made as they are read. own_reader COUNT
#include <cstdlib>
#include <iostream>
#include <random>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Each row is a point, its class, and a text of its own length.
class Points final : public rf::InstanceSource {
 public:
  explicit Points(std::uint64_t count) : count_(count) {}

  rf::ReadResult ReadNext(rf::Instance* row, std::stop_token, rf::Status*) override {
    if (made_ == count_) return rf::ReadResult::kEnd;
    const std::int64_t label = static_cast<std::int64_t>(made_++ % 2);
    const float middle = label == 0 ? -1.0F : 1.0F;
    std::vector<float> point = {middle + noise_(random_), middle + noise_(random_)};
    *row = {rf::MakeTensor(std::move(point)), rf::MakeScalar(label),
            rf::MakeBytes("point " + std::to_string(made_))};
    return rf::ReadResult::kRecord;
  }
  bool ReInit() override { return made_ = 0, random_.seed(), true; }
  bool Ready() const override { return true; }

 private:
  const std::uint64_t count_;
  std::uint64_t made_ = 0;
  std::mt19937 random_;
  std::normal_distribution<float> noise_{0, 0.5F};
};

int main(int argc, char** argv) try {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  auto points = rf::FromInstanceSource(
      std::make_unique<Points>(count),
      {{"point", rf::kFloat32, {2}}, {"label", rf::kInt64, {}}, {"text", rf::kUInt8, {-1}}});
  auto batches = rf::Batch(rf::Shuffle(points, {.window = 256, .seed = 7}), {.size = 64});
  std::int64_t rows = 0, right = 0;
  std::size_t text_bytes = 0;
  rf::Instance batch;
  rf::ReadResult result;
  while ((result = batches.TryReadNext(&batch)) == rf::ReadResult::kRecord) {
    const auto xy = batch["point"].Values<float>();
    const auto labels = batch["label"].Values<std::int64_t>();
    for (std::size_t row = 0; row < labels.size(); ++row) {
      right += (xy[2 * row] + xy[2 * row + 1] > 0) == (labels[row] == 1) ? 1 : 0;
    }
    rows += batch.Rows();
    text_bytes += batch["text"].bytes;  // lod[0] says which are whose
  }
  if (result == rf::ReadResult::kFailed) throw rf::Error(batches.status());
  std::cout << rows << " points, " << right << " on their own side, " << text_bytes
            << " bytes of text\n";
} catch (const std::exception& error) {
  std::cerr << "own_reader: " << error.what() << "\n";
  return 1;
}
