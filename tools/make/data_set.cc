#include "tools/make/data_set.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <span>
#include <thread>
#include <utility>

#include "base/machine/thread_start.h"
#include "base/random_bits.h"
#include "base/user_call.h"
#include "readers/formats/format.h"
#include "ringfeed/formats.h"

namespace ringfeed::tools {
namespace {

/// Makes the records of one file of a data set, one after another.
class RecordMaker {
 public:
  virtual ~RecordMaker() = default;
  /// The next record, valid until the next call.
  virtual std::span<const std::byte> Make() = 0;
};

constexpr std::size_t kFloats = 13;
constexpr std::size_t kIntegers = 26;
constexpr std::uint64_t kClasses = 1000;

// Sizes of encoded photographs: log-normal about the mean.
class LogNormalSize {
 public:
  explicit LogNormalSize(std::size_t mean)
      : mean_(static_cast<double>(mean)), log_median_(std::log(mean_) - kSpread * kSpread / 2) {}
  std::size_t Draw(RandomBits* random) const {
    const double radius = std::sqrt(-2 * std::log(1 - random->Unit()));
    const double normal = radius * std::cos(2 * std::numbers::pi * random->Unit());
    const double size = std::exp(log_median_ + kSpread * normal);
    return static_cast<std::size_t>(std::clamp(size, mean_ / 16 + 1, mean_ * 16));
  }

 private:
  static constexpr double kSpread = 0.4;
  double mean_;
  double log_median_;
};

class ImageMaker : public RecordMaker {
 public:
  ImageMaker(std::size_t record_bytes, std::uint64_t seed) : random_(seed), size_(record_bytes) {}
  std::span<const std::byte> Make() override {
    image_.resize(size_.Draw(&random_));
    random_.Fill(image_);
    const auto label = static_cast<std::int64_t>(random_.Below(kClasses));
    return example_.AddBytes("image", image_).AddInts("label", std::span(&label, 1)).Finish();
  }

 private:
  RandomBits random_;
  LogNormalSize size_;
  std::vector<std::byte> image_;
  ExampleBuilder example_;
};

// The numbers of one row of a click log: 13 counts, 26 hashed categories, a label.
struct TableRow {
  std::array<float, kFloats> floats;
  std::array<std::int64_t, kIntegers> integers;
  std::int64_t label;

  void Draw(RandomBits* random) {
    for (float& value : floats) value = static_cast<float>(-8 * std::log(1 - random->Unit()));
    for (std::int64_t& value : integers) value = static_cast<std::int64_t>(random->Next() >> 32);
    label = random->Unit() < 0.25 ? 1 : 0;
  }
};

class TableMaker : public RecordMaker {
 public:
  explicit TableMaker(std::uint64_t seed) : random_(seed) {}
  std::span<const std::byte> Make() override {
    row_.Draw(&random_);
    return example_.AddFloats("dense", row_.floats)
        .AddInts("cat", row_.integers)
        .AddInts("label", std::span(&row_.label, 1))
        .Finish();
  }

 private:
  RandomBits random_;
  TableRow row_;
  ExampleBuilder example_;
};

std::string FloatKey(std::size_t i) { return "i" + std::to_string(i + 1); }
std::string IntegerKey(std::size_t i) { return "c" + std::to_string(i + 1); }

// The same numbers, each a feature of its own.
class FeaturesMaker : public RecordMaker {
 public:
  explicit FeaturesMaker(std::uint64_t seed) : random_(seed) {}
  std::span<const std::byte> Make() override {
    row_.Draw(&random_);
    for (std::size_t i = 0; i < kFloats; ++i) {
      example_.AddFloats(FloatKey(i), std::span(&row_.floats[i], 1));
    }
    for (std::size_t i = 0; i < kIntegers; ++i) {
      example_.AddInts(IntegerKey(i), std::span(&row_.integers[i], 1));
    }
    return example_.AddInts("label", std::span(&row_.label, 1)).Finish();
  }

 private:
  RandomBits random_;
  TableRow row_;
  ExampleBuilder example_;
};

std::string FeaturesSpec() {
  std::string text = "example:";
  for (std::size_t i = 0; i < kFloats; ++i) text += " " + FloatKey(i) + "=f4[1]";
  for (std::size_t i = 0; i < kIntegers; ++i) text += " " + IntegerKey(i) + "=i8[1]";
  return text + " label=i8[1]";
}

class BytesMaker : public RecordMaker {
 public:
  BytesMaker(std::size_t record_bytes, std::uint64_t seed) : random_(seed), record_(record_bytes) {}
  std::span<const std::byte> Make() override {
    random_.Fill(record_);
    return record_;
  }

 private:
  RandomBits random_;
  std::vector<std::byte> record_;
};

// A maker of that kind for the file with that `seed`. `record_bytes` as in DataKind.
std::unique_ptr<RecordMaker> NewRecordMaker(const DataKind& kind, std::size_t record_bytes,
                                            std::uint64_t seed) {
  if (kind.name == "image") return std::make_unique<ImageMaker>(record_bytes, seed);
  if (kind.name == "table") return std::make_unique<TableMaker>(seed);
  if (kind.name == "features") return std::make_unique<FeaturesMaker>(seed);
  return std::make_unique<BytesMaker>(record_bytes, seed);
}

constexpr std::chrono::milliseconds kProgressInterval{100};

// The writers of a data set: each takes the next file until none is left.
class DataSetWork {
 public:
  DataSetWork(const DataSetPlan& plan, std::stop_token stop)
      : plan_(plan), stop_(std::move(stop)) {}

  void Run(const std::function<void(std::uint64_t)>& progress) {
    const std::size_t most = std::clamp<std::size_t>(plan_.threads, 1, plan_.files);
    std::vector<std::jthread> writers;
    std::unique_lock lock(mutex_);  // so that none ends before it is counted
    try {
      while (writers.size() < most) {
        writers.push_back(StartThread("a writer's thread", [this] { WriteFiles(); }));
        ++running_;
      }
    } catch (const Error&) {
      if (writers.empty()) throw;  // else those that run write all
    }
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
      const Status status = TryToWriteFile(file, &of_file);
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

  // One file's part of `total`: parts differ by at most one.
  std::uint64_t Share(std::uint64_t total, std::size_t file) const {
    return total / plan_.files + (file < total % plan_.files ? 1 : 0);
  }

  // An exception in a thread would end the process.
  Status TryToWriteFile(std::size_t file, DataSetTotals* totals) {
    try {
      return WriteFile(file, totals);
    } catch (...) {
      return StatusOfThrown("a file cannot be written");
    }
  }

  Status WriteFile(std::size_t file, DataSetTotals* totals) {
    const std::string path = plan_.folder + "/" + DataSetFileName(plan_, file);
    RecordWriterResult opened = OpenDerivedRecordWriter(path, DataSetFormat(plan_));
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

const std::vector<DataKind>& DataKinds() {
  static const std::string kFeaturesSpec = FeaturesSpec();
  static const std::vector<DataKind> kKinds = {
      {"image", ".tfrecord", 110'000, true, "example: image=u1[] label=i8[1]",
       "tf.Example of an image of about 110 KB, log-normal, and a label"},
      {"table", ".tfrecord", 230, false, "example: dense=f4[13] cat=i8[26] label=i8[1]",
       "tf.Example of 13 floats, 26 integers and a label, in three features"},
      {"features", ".tfrecord", 700, false, kFeaturesSpec,
       "tf.Example of the same numbers in 40 features of their own"},
      {"bytes", ".tfrecord", 234, true, "raw", "TFRecord of random payloads of --record-bytes"},
      {"rows", ".rows", 160, true, "rows: f4[13] i4[26] i4",
       "rows of --record-bytes (160) without any framing; read with --format rows:BYTES"},
      {"raw", ".raw", 110'000, true, "raw", "a file for each record"},
  };
  return kKinds;
}

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
