// How many threads of a chain are at work at a time: a matter of how work is handed out, not of
// speed. A parser's work is a sleep here, which takes as long on any number of cores.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

constexpr int kThreads = 8;
/// Records whose checksums are taken by who writes them, and those that are checked as framed:
/// these come in smaller parts where the file is mapped.
constexpr std::size_t kLong = 12'000;
constexpr std::size_t kShort = 4'000;
/// So many of them are to be at work.
constexpr double kWanted = 0.7 * kThreads;

/// How many are at work whenever one begins, on average.
class AtWork {
 public:
  void Begin() {
    all_.fetch_add(static_cast<std::uint64_t>(++now_));
    ++times_;
  }
  void End() { --now_; }
  double mean() const { return static_cast<double>(all_) / static_cast<double>(times_); }

 private:
  std::atomic<int> now_{0};
  std::atomic<std::uint64_t> all_{0};
  std::atomic<std::uint64_t> times_{0};
};

/// Sleeps for each byte in both of its phases.
class SleepingParser final : public Parser {
 public:
  explicit SleepingParser(AtWork* at_work) : at_work_(at_work) {
    AddField({"bytes", DType::kUInt64, {}});
    two_phase_ = true;
  }

  std::string name() const override { return "sleeping"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch*,
              std::vector<RowFailure>*) const override {
    Work(rows);
    for (std::size_t row = 0; row < rows.size(); ++row) locations[row].data = rows[row].data;
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation*,
             std::span<const ColumnTarget> targets, Scratch*,
             std::vector<RowFailure>*) const override {
    Work(rows);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::uint64_t bytes = rows[row].size;
      std::memcpy(targets[0].data + row * sizeof(bytes), &bytes, sizeof(bytes));
    }
  }

 private:
  void Work(std::span<const RecordSpan> rows) const {
    constexpr std::size_t kNanosOfByte = 17;
    std::size_t bytes = 0;
    for (const RecordSpan& row : rows) bytes += row.size;
    at_work_->Begin();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kNanosOfByte * bytes));
    at_work_->End();
  }

  AtWork* const at_work_;
};

class ParallelWorkTest : public PipelineTest {
 protected:
  /// The mean number of threads at work while a chain over files of a lane for each thread is read.
  double MeanAtWork(bool shuffled, IoPath path, std::size_t record_bytes) {
    constexpr std::uint64_t kFileBytes = 7'000'000;
    const std::uint64_t records = kFileBytes / record_bytes;
    OpenOptions options = Options();
    options.threads = kThreads;
    options.cycle = kThreads;
    options.stripe_bytes = std::size_t{1} << 20;
    options.io.path = path;
    AtWork at_work;
    Reader reader = OpenFiles(MakeFiles(kThreads, records, record_bytes, record_bytes), options);
    if (shuffled) reader = Shuffle(reader, {.window = 1'200'000 / record_bytes});
    reader = Batch(Parse(reader, std::make_shared<SleepingParser>(&at_work)),
                   {.size = 400'000 / record_bytes});
    Instance batch;
    std::uint64_t rows = 0;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      rows += static_cast<std::uint64_t>(batch.Rows());
    }
    EXPECT_EQ(rows, kThreads * records);
    return at_work.mean();
  }
  /// The best of a few runs, up to one that has what is wanted: a busy machine wakes threads late
  /// and lowers the mean now and then, a mistake in handing work out does so in each run.
  double BestMeanAtWork(bool shuffled, IoPath path, std::size_t record_bytes) {
    double best = 0;
    for (int run = 0; run < 5 && best <= kWanted; ++run) {
      best = std::max(best, MeanAtWork(shuffled, path, record_bytes));
    }
    return best;
  }
};

TEST_F(ParallelWorkTest, EachThreadHasALaneToWorkOnInFileOrder) {
  EXPECT_GT(BestMeanAtWork(false, IoPath::kPread, kLong), kWanted);
}

TEST_F(ParallelWorkTest, EachThreadHasALaneToWorkOnBeforeAWindow) {
  EXPECT_GT(BestMeanAtWork(true, IoPath::kPread, kLong), kWanted);
}

TEST_F(ParallelWorkTest, EachThreadHasALaneToWorkOnInMappedFiles) {
  EXPECT_GT(BestMeanAtWork(false, IoPath::kMmap, kShort), kWanted);
}

TEST_F(ParallelWorkTest, EachThreadHasALaneToWorkOnInMappedFilesBeforeAWindow) {
  EXPECT_GT(BestMeanAtWork(true, IoPath::kMmap, kShort), kWanted);
}

}  // namespace
}  // namespace ringfeed
