#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <numbers>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/machine/cpu_count.h"
#include "base/random_bits.h"
#include "base/user_call.h"
#include "io/data_file.h"
#include "io/remote/address.h"
#include "readers/formats/format.h"
#include "ringfeed/formats.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/process_usage.h"
#include "tools/progress_bar.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kDefaultFiles = 8;
constexpr std::uint64_t kDefaultBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostRecordBytes = std::uint64_t{16} << 30;  // a record is in memory

/// One kind of data that `ringfeed make` knows.
struct DataKind {
  std::string_view name;
  std::string_view file_ending;
  std::size_t record_bytes;  ///< of a record, about, if no size is asked for
  bool sizable;              ///< true if --record-bytes can be chosen
  std::string_view parse;    ///< what to hand to `feed --parse`
  std::string_view what;     ///< for the help
};
/// A data set to be made. Its contents are a function of these values alone, but the last two.
struct DataSetPlan {
  std::string folder;
  const DataKind* kind = nullptr;
  std::size_t record_bytes = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;    ///< about as many payload bytes in all, if `records` is 0
  std::uint64_t records = 0;  ///< exactly as many
  std::uint64_t seed = 0;
  unsigned threads = 0;  ///< files written at a time, at least one
  bool force = false;    ///< files that are there are written over
};

/// The sums of what was written.
struct DataSetTotals {
  std::uint64_t files = 0;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
};

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

// "part-00003-of-00008.tfrecord".
std::string DataSetFileName(const DataSetPlan& plan, std::size_t file) {
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "part-%05zu-of-%05zu", file, plan.files);
  return name.data() + std::string(plan.kind->file_ending);
}

// The format that its files have, as OpenOptions::format spells it.
std::string DataSetFormat(const DataSetPlan& plan) {
  if (plan.kind->name == "rows") return "rows:" + std::to_string(plan.record_bytes);
  return plan.kind->name == "raw" ? "raw" : "tfrecord";
}

/// Writes the files of a data set, several at a time. A file that is not complete at the end is
/// removed.
class DataSetWork {
 public:
  DataSetWork(const DataSetPlan& plan, std::stop_token stop)
      : plan_(plan), stop_(std::move(stop)) {}

  /// `progress` is called now and then on this thread with the payload bytes so far.
  Status Run(const ByteProgress& progress) {
    const auto tick = [&] { progress(payload_bytes_.load(std::memory_order_relaxed)); };
    const auto done = [&](std::size_t) { tick(); };
    RunInOrder(plan_.files, plan_.threads, {[this](std::size_t file) { Write(file); }, done, tick});
    return status_;
  }
  const DataSetTotals& totals() const { return totals_; }

 private:
  // One file's part of `total`: parts differ by at most one.
  std::uint64_t Share(std::uint64_t total, std::size_t file) const {
    return total / plan_.files + (file < total % plan_.files ? 1 : 0);
  }

  void Write(std::size_t file) {
    if (failed_.load(std::memory_order_relaxed)) return;
    DataSetTotals of_file;
    Status status;
    try {
      status = WriteFile(file, &of_file);
    } catch (...) {  // it would end the process
      status = StatusOfThrown("a file cannot be written");
    }
    const std::scoped_lock lock(mutex_);
    if (!status.ok()) {
      if (status_.ok()) status_ = status;
      failed_.store(true, std::memory_order_relaxed);
      return;
    }
    totals_.files += 1;
    totals_.records += of_file.records;
    totals_.payload_bytes += of_file.payload_bytes;
  }

  Status WriteFile(std::size_t file, DataSetTotals* totals) {
    const std::string path = plan_.folder + "/" + DataSetFileName(plan_, file);
    RecordWriterResult opened = OpenRecordWriter(path, DataSetFormat(plan_), {true, !plan_.force});
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
  // These two order nothing.
  std::atomic<std::uint64_t> payload_bytes_{0};
  std::atomic<bool> failed_{false};  // then no other file is begun
  std::mutex mutex_;                 // guards what follows
  DataSetTotals totals_;
  Status status_;
};

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

std::string Help() {
  std::string text = "Makes a data set of real shape, for trying things out. The kinds are:\n\n";
  for (const DataKind& kind : DataKinds()) {
    text += "  " + std::string(kind.name) + std::string(10 - kind.name.size(), ' ') +
            std::string(kind.what) + "\n";
  }
  text +=
      "\nThe same options and seed make the same bytes on every machine.\n\n"
      "  ringfeed make data/images --kind image --bytes 2GiB\n"
      "  ringfeed make data/table --kind table --records 1000000 --files 4 --seed 7";
  return text;
}

class MakeCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("make", Help());
    sub->add_option("FOLDER", plan_.folder, "where the files go; made if it is missing; or s3://…")
        ->required();
    sub->add_option("--kind", kind_, "what the records are")->capture_default_str();
    auto* bytes = AddSize(sub, "--bytes", &plan_.bytes, "payload in all, about; 1GiB by default");
    sub->add_option("--records", plan_.records, "records in all, exactly")->excludes(bytes);
    sub->add_option("--files", plan_.files, "files to spread them over; 8 by default");
    AddSize(sub, "--record-bytes", &plan_.record_bytes, "size of a record, or their mean");
    sub->add_option("--seed", plan_.seed, "another seed, other data")->capture_default_str();
    sub->add_option("--threads", plan_.threads, "files written at a time; 0: one per core");
    sub->add_flag("--force", plan_.force, "write over files that are there");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    Complete();
    Prepare();
    std::stop_source stop;
    const Interrupt interrupt([&] { stop.request_stop(); });
    DataSetWork work(plan_, stop.get_token());
    const double start_s = NowSeconds();
    ProgressBar bar("making " + plan_.folder, ExpectedBytes());
    const Status status = work.Run([&](std::uint64_t bytes) { bar.Update(bytes, bytes); });
    bar.Clear();
    Report(work.totals(), NowSeconds() - start_s);
    TellFailure(status);
    return ExitStatusOf(status);
  }

 private:
  void Complete() {
    const auto& kinds = DataKinds();
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const DataKind& kind) { return kind.name == kind_; });
    if (found == kinds.end()) {
      std::vector<std::string> names;
      for (const DataKind& kind : kinds) names.emplace_back(kind.name);
      throw Refuse("--kind " + kind_ + " is not known" + DidYouMean(kind_, names) +
                   "\nRun with --help for more information.");
    }
    plan_.kind = &*found;
    if (plan_.record_bytes > 0 && !found->sizable) {
      throw Refuse("records of --kind " + kind_ +
                   " have a size of their own: leave --record-bytes out");
    }
    if (plan_.record_bytes > kMostRecordBytes) {
      throw Refuse("--record-bytes is more than " + BytesText(kMostRecordBytes));
    }
    if (plan_.record_bytes == 0) plan_.record_bytes = found->record_bytes;
    if (plan_.bytes == 0 && plan_.records == 0) plan_.bytes = kDefaultBytes;
    if (kind_ == "raw") {
      if (plan_.files > 0)
        throw Refuse("--kind raw makes a file for each record: leave --files out");
      if (plan_.records == 0)
        plan_.records = std::max<std::uint64_t>(1, plan_.bytes / plan_.record_bytes);
      plan_.files = plan_.records;
    } else if (plan_.files == 0) {
      plan_.files = kDefaultFiles;
    }
    if (plan_.threads == 0) plan_.threads = static_cast<unsigned>(CountCpus().usable);
  }

  void Prepare() const {
    if (IsRemote(plan_.folder)) return;  // a store has no folders
    if (Status status = RefuseAddress(plan_.folder); !status.ok()) throw Error(status);
    std::error_code failure;
    std::filesystem::create_directories(plan_.folder, failure);
    if (failure) throw Error(StatusFromErrno(failure.value(), "make the folder " + plan_.folder));
    for (std::size_t file = 0; !plan_.force && file < plan_.files; ++file) {
      const std::string path = plan_.folder + "/" + DataSetFileName(plan_, file);
      if (std::filesystem::exists(path))
        throw Refuse(path + " is there already; --force writes over it");
    }
  }

  std::uint64_t ExpectedBytes() const {
    return plan_.records > 0 ? plan_.records * plan_.record_bytes : plan_.bytes;
  }

  void Report(const DataSetTotals& totals, double seconds) const {
    if (json_) {
      PrintJson("make", {{"folder", plan_.folder},
                         {"kind", kind_},
                         {"format", DataSetFormat(plan_)},
                         {"parse", plan_.kind->parse},
                         {"files", totals.files},
                         {"records", totals.records},
                         {"payload_bytes", totals.payload_bytes},
                         {"seed", plan_.seed},
                         {"wall_s", seconds}});
      return;
    }
    std::printf("%s records, %s, in %llu files under %s (%s)\n", CountText(totals.records).c_str(),
                BytesText(totals.payload_bytes).c_str(),
                static_cast<unsigned long long>(totals.files), plan_.folder.c_str(),
                RateText(static_cast<double>(totals.payload_bytes) / seconds).c_str());
    const std::string format = kind_ == "rows" ? " --format " + DataSetFormat(plan_) : "";
    std::printf("feed them: ringfeed feed %s/*%s%s --parse '%s'\n", plan_.folder.c_str(),
                std::string(plan_.kind->file_ending).c_str(), format.c_str(),
                std::string(plan_.kind->parse).c_str());
  }

  DataSetPlan plan_;
  std::string kind_ = "image";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewMakeCommand() { return std::make_unique<MakeCommand>(); }

}  // namespace ringfeed::tools
