#include "tools/make/data_set.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/signals_blocked.h"
#include "base/random_bits.h"
#include "ringfeed/formats.h"

namespace ringfeed::tools {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};

// A data set's writers at work: each takes the next file until none is left.
class DataSetWork {
 public:
  DataSetWork(const DataSetPlan& plan, std::stop_token stop)
      : plan_(plan), stop_(std::move(stop)) {}

  void Run(const std::function<void(std::uint64_t)>& progress) {
    std::vector<std::jthread> writers(std::clamp<std::size_t>(plan_.threads, 1, plan_.files));
    running_ = writers.size();
    {
      const SignalsBlocked blocked;
      for (std::jthread& writer : writers) writer = std::jthread([this] { WriteFiles(); });
    }
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kProgressInterval, [this] { return running_ == 0; })) {
      progress(payload_bytes_.load(std::memory_order_relaxed));
    }
  }

  const Status& status() const { return status_; }
  const DataSetTotals& totals() const { return totals_; }

 private:
  void WriteFiles() {
    for (;;) {
      const std::size_t file = next_file_.fetch_add(1, std::memory_order_relaxed);
      if (file >= plan_.files || failed_.load(std::memory_order_relaxed)) break;
      DataSetTotals of_file;
      const Status status = WriteFile(file, &of_file);
      const std::scoped_lock lock(mutex_);
      if (!status.ok() && status_.ok()) status_ = status;
      if (!status.ok()) {
        failed_.store(true, std::memory_order_relaxed);
        break;
      }
      totals_.files += 1;
      totals_.records += of_file.records;
      totals_.payload_bytes += of_file.payload_bytes;
    }
    const std::scoped_lock lock(mutex_);
    if (--running_ == 0) ended_.notify_one();
  }

  // The part of `total` that falls to one file: they differ by at most one.
  std::uint64_t Share(std::uint64_t total, std::size_t file) const {
    return total / plan_.files + (file < total % plan_.files ? 1 : 0);
  }

  Status WriteFile(std::size_t file, DataSetTotals* totals) {
    const std::string path = plan_.folder + "/" + DataSetFileName(plan_, file);
    RecordWriterResult opened = OpenRecordWriter(path, DataSetFormat(plan_));
    if (!opened.status.ok()) return opened.status;
    RandomBits seeds(plan_.seed ^ (file + 1) * 0xd1b54a32d192ed03);
    const auto maker = NewRecordMaker(*plan_.kind, plan_.record_bytes, seeds.Next());
    const bool counted = plan_.records > 0;
    const std::uint64_t records =
        counted ? Share(plan_.records, file) : std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t bytes =
        counted ? std::numeric_limits<std::uint64_t>::max() : Share(plan_.bytes, file);
    while (totals->records < records && totals->payload_bytes < bytes) {
      if (stop_.stop_requested()) return Status(StatusCode::kCancelled, "interrupted");
      const std::span<const std::byte> record = maker->Make();
      if (Status status = opened.writer->Write(record); !status.ok()) return status;
      totals->records += 1;
      totals->payload_bytes += record.size();
      payload_bytes_.fetch_add(record.size(), std::memory_order_relaxed);
    }
    return opened.writer->Close();
  }

  const DataSetPlan& plan_;
  const std::stop_token stop_;
  std::atomic<std::size_t> next_file_{0};
  std::atomic<std::uint64_t> payload_bytes_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  std::size_t running_ = 0;
  DataSetTotals totals_;
  Status status_;
};

}  // namespace

std::string DataSetFileName(const DataSetPlan& plan, std::size_t file) {
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "part-%05zu-of-%05zu", file, plan.files);
  return name.data() + std::string(plan.kind->file_ending);
}

std::string DataSetFormat(const DataSetPlan& plan) {
  if (plan.kind->name == "rows") return "rows:" + std::to_string(plan.record_bytes);
  return plan.kind->name == "raw" ? "raw" : "tfrecord";
}

Status WriteDataSet(const DataSetPlan& plan, const std::function<void(std::uint64_t)>& progress,
                    std::stop_token stop, DataSetTotals* totals) {
  DataSetWork work(plan, std::move(stop));
  work.Run(progress);
  *totals = work.totals();
  return work.status();
}

}  // namespace ringfeed::tools
