#include "tests/readers/pipeline_fixture.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include "readers/chain/reader_access.h"
#include "tests/support/record_data.h"

namespace ringfeed {

std::string PipelineTest::MakeFile(std::span<const std::size_t> sizes) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%05zu.tfrecord", next_file_++);
  const std::string path = directory_.File(name.data());
  WriteTfRecords(path, next_id_, sizes);
  next_id_ += sizes.size();
  return path;
}

std::vector<std::string> PipelineTest::MakeFiles(std::size_t count, std::size_t records,
                                                 std::size_t least, std::size_t most) {
  std::vector<std::string> names;
  for (std::size_t file = 0; file < count; ++file) {
    names.push_back(MakeFile(RandomSizes(next_id_ + 1, records, least, most)));
  }
  return names;
}

void PipelineTest::TearDown() {
  if (expects_late_wakes_) return;
  EXPECT_EQ(Run::LateWakesOfProcess(), late_wakes_before_) << "a worker slept beside its work";
}

void PipelineTest::Inject(const Reader& reader, std::uint64_t seed, const FaultPlan& plan) {
  RunOptions run_options;
  run_options.engines.uring = [=](const IoOptions& options, std::byte* data, std::size_t bytes,
                                  std::unique_ptr<ReadEngine>* engine) {
    const Status status = MakeUringEngine(options, data, bytes, engine);
    if (status.ok()) *engine = MakeFaultEngine(std::move(*engine), seed, plan);
    return status;
  };
  run_options.engines.pool = [=](const IoOptions& options) {
    return MakeFaultEngine(MakePoolEngine(options), seed, plan);
  };
  ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
}

std::vector<std::byte> MakeChunksOfTen(const std::string& path, std::uint64_t first_id,
                                       std::uint64_t count) {
  const RecordWriterResult out = OpenRecordWriter(path, "recordio");
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_TRUE(out.writer->Write(RecordPayload(first_id + i, 8 + i % 900)).ok());
    if (i % 10 != 9) continue;
    EXPECT_TRUE(out.writer->Flush().ok());
  }
  EXPECT_TRUE(out.writer->Close().ok());
  const std::string text = ReadBytes(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string RangesText(const std::vector<RecordRange>& ranges) {
  std::string text;
  for (const RecordRange& range : ranges) {
    text += " " + std::to_string(range.file) + ":" + std::to_string(range.first) + "+" +
            std::to_string(range.count);
  }
  return text;
}

std::vector<std::uint64_t> Numbers(std::uint64_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  return numbers;
}

std::vector<std::uint64_t> Sorted(std::vector<std::uint64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace ringfeed
