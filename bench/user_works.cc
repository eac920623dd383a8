#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/bare_stores.h"
#include "bench/feed_rows.h"
#include "ringfeed/compat/persistent_in_stream.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kRows = 1024;

struct Pair {
  float x = 0;
  float y = 0;
};

// As both sides parse a line.
bool ParsePair(std::string_view line, Pair* pair) {
  const char* const end = line.data() + line.size();
  const auto x = std::from_chars(line.data(), end, pair->x);
  if (x.ec != std::errc() || x.ptr == end || *x.ptr != ',') return false;
  const auto y = std::from_chars(x.ptr + 1, end, pair->y);
  return y.ec == std::errc() && y.ptr == end;
}

class MiniDataset final : public Dataset {
 public:
  explicit MiniDataset(std::vector<std::string> parts) : parts_(std::move(parts)) {}
  bool Next(std::string* sample) override { return parts_.ReadLine(sample); }
  bool ReInit() override {
    parts_.Rewind();
    return true;
  }

 private:
  PersistentInStream parts_;
};

void MapPair(const MapInput& input, RowWriter& output) {
  Pair pair;
  const RecordSpan& line = input.record;
  if (!ParsePair({reinterpret_cast<const char*>(line.data), line.size}, &pair)) Die("bad line");
  std::memcpy(output.Fixed(0).data(), &pair.x, sizeof(pair.x));
  std::memcpy(output.Fixed(1).data(), &pair.y, sizeof(pair.y));
}

Reader MiniBatches(const BenchFiles& files, const ChainOrder& order) {
  OpenOptions options;
  options.threads = order.threads;
  Reader lines = FromDataset(std::make_unique<MiniDataset>(files.paths), options);
  Reader pairs = Map(lines, {{"x", kFloat32, {}}, {"y", kFloat32, {}}}, MapPair);
  return MultiPass(Batch(pairs, {.size = kRows}), 0);
}

// What a user writes who has no loader.
LoopResult BareMiniLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  const LoopTimer timer;
  LoopResult result;
  BatchDigest digest;
  std::vector<float> x;
  std::vector<float> y;
  const auto end_batch = [&] {
    if (options.digest && !x.empty()) {
      digest.Add(std::as_bytes(std::span(x)));
      digest.Add(std::as_bytes(std::span(y)));
    }
    x.clear();
    y.clear();
  };
  std::string line;
  for (const std::string& name : files) {
    std::ifstream file(name);
    while (std::getline(file, line)) {
      Pair pair;
      if (!ParsePair(line, &pair)) Die("bad line");
      x.push_back(pair.x);
      y.push_back(pair.y);
      ++result.records;
      if (x.size() == options.batch_rows) end_batch();
    }
  }
  end_batch();
  timer.Stop(&result);
  result.bytes = result.records * sizeof(Pair);
  result.digest = digest.value();
  return result;
}

}  // namespace

std::vector<FeedWork> UserWorks() {
  const auto files = [] { return TwoNumberLines(SmokeRun() ? 4'000 : 4'000'000, 4); };
  return {{"mini_dataset", files, kRows, false, {}, MiniBatches, BareMiniLoop}};
}

std::vector<FeedRow> UserRows() {
  return {{"feed.mini_dataset", FeedRow::Measure::kRowsPerCpuSecond, "mini_dataset"}};
}

}  // namespace ringfeed::bench
