#include "readers/engine/plan/open_lengths.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/machine/cpu_count.h"
#include "base/machine/in_parallel.h"
#include "base/refuse.h"
#include "io/remote/address.h"
#include "readers/index/length_column.h"
#include "readers/index/manifest.h"
#include "readers/index/open_index.h"
#include "readers/index/pointed_content.h"

namespace ringfeed {

namespace {

/// One rank measures whatever is missing. Several ranks that would all read more are told the
/// command.
constexpr std::uint64_t kMostBytesOfRanks = std::uint64_t{1} << 30;
/// Files that one thread measures in one go.
constexpr std::uint64_t kTogetherBytes = std::uint64_t{64} << 20;
constexpr std::size_t kTogetherFiles = 256;
/// Records whose places are asked for in one go.
constexpr std::uint64_t kTogetherRecords = 8192;
constexpr std::size_t kMostThreads = 16;

class ColumnOpener {
 public:
  ColumnOpener(const RecordSet& set, const SourceNode& source, const SharedSteps& steps,
               const std::stop_token& stop)
      : set_(set),
        source_(source),
        steps_(steps),
        stop_(stop),
        index_(RecordSet::OptionsOf(source.options).index),
        columns_(set.files()) {}

  OpenedColumns Open() {
    const std::size_t first =
        static_cast<std::size_t>(steps_.rank * set_.files() / steps_.split.ranks);
    const auto file_at = [&](std::size_t i) { return (first + i) % set_.files(); };
    std::vector<Origin> origins(set_.files(), Origin::kNone);
    const Manifest* const manifest = source_.manifest.get();
    const bool is_far = manifest != nullptr && IsRemote(manifest->path());
    ForEachInParallel(set_.files(), is_far || steps_.units.unit_bytes != 0 ? kMostThreads : 1,
                      [&](std::size_t i) {
                        const std::size_t file = file_at(i);
                        if (RecordsOf(file) == 0) return;
                        origins[i] = Load(file)      ? Origin::kKept
                                     : Compute(file) ? Origin::kComputed
                                                     : Origin::kMade;
                      });
    // That the parser fits no record at all is a mistake of the program, which measuring tells.
    const auto is_kept = [](Origin one) { return one == Origin::kKept; };
    if (!fits_.load(std::memory_order_relaxed) && std::ranges::none_of(origins, is_kept)) {
      std::ranges::replace(origins, Origin::kComputed, Origin::kMade);
    }
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < set_.files(); ++i) {
      if (origins[i] == Origin::kMade) missing.push_back(file_at(i));
    }
    if (!missing.empty()) Measure(missing);
    const auto count = [&](Origin one) {
      return static_cast<std::size_t>(std::ranges::count(origins, one));
    };
    return {std::move(columns_), count(Origin::kComputed), count(Origin::kKept), missing.size()};
  }

 private:
  enum class Origin : std::uint8_t { kNone, kComputed, kKept, kMade };

  std::uint64_t RecordsOf(std::size_t file) const {
    return set_.FirstRow(file + 1) - set_.FirstRow(file);
  }
  IndexPlace PlaceOf(std::size_t file) const {
    return PlaceOfLengths(IndexPlaceFor(set_.file(file).name, index_), steps_.units.key);
  }
  /// A store of the user's own has no place of which others know.
  bool IsKept(std::size_t file) const { return IsOfFile(set_.file(file).source.get()); }

  FileIdentity IdentityOf(std::size_t file) const {
    if (set_.file(file).known) return set_.file(file).known->identity;
    FileIdentity identity;
    identity.bytes = set_.file(file).bytes;
    return identity;
  }

  /// By the index alone, if a record's bytes tell its units.
  bool Compute(std::size_t file) {
    const RecordIndex& index = *set_.file(file).index;
    const std::uint64_t unit_bytes = steps_.units.unit_bytes;
    if (unit_bytes == 0 || !index.units_are_payload()) return false;
    std::vector<std::uint32_t> units;
    units.reserve(static_cast<std::size_t>(index.records()));
    std::vector<std::uint64_t> numbers;
    std::vector<RecordUnit> found;
    while (units.size() < index.records()) {
      if (stop_.stop_requested()) {
        Refuse(StatusCode::kCancelled, "computing lengths was broken off");
      }
      const std::uint64_t first = units.size();
      numbers.resize(std::min(kTogetherRecords, index.records() - first));
      std::iota(numbers.begin(), numbers.end(), first);
      found.assign(numbers.size(), {});
      const Status status = index.Find(numbers, found);
      if (!status.ok()) throw Error(status);
      for (const RecordUnit& unit : found) units.push_back(UnitsOf(unit, unit_bytes));
    }
    const auto is_hole = [](std::uint32_t each) { return each == LengthTable::kHole; };
    if (!std::ranges::all_of(units, is_hole)) fits_.store(true, std::memory_order_relaxed);
    const Status status = LengthColumn::Open(Encode(file, units), &columns_[file]);
    if (!status.ok()) throw Error(status);
    return true;
  }
  /// LengthTable::kHole of a record that the parser will refuse.
  std::uint32_t UnitsOf(const RecordUnit& unit, std::uint64_t unit_bytes) const {
    const std::uint64_t units = unit.bytes / unit_bytes;
    const bool fits =
        !unit.lost && unit.bytes % unit_bytes == 0 &&
        unit.bytes <= std::min<std::uint64_t>(source_.options.max_record_bytes, LengthTable::kHole);
    return fits ? static_cast<std::uint32_t>(units) : LengthTable::kHole;
  }
  StoredIndex Encode(std::size_t file, std::span<const std::uint32_t> units) const {
    StoredIndex stored;
    stored.memory =
        EncodeLengths(units, steps_.units.key, IdentityOf(file), source_.options.max_record_bytes);
    return stored;
  }

  /// Throws Error if those of the manifest are damaged.
  bool Load(std::size_t file) {
    if (!IsKept(file) && source_.manifest == nullptr) return false;
    const LengthPurpose purpose{steps_.units.key, IdentityOf(file), RecordsOf(file),
                                source_.options.max_record_bytes};
    if (source_.manifest != nullptr) {
      const Status status = source_.manifest->OpenLengths(file, purpose, &columns_[file]);
      if (status.ok()) return true;
      if (status.code() != StatusCode::kNotFound) throw Error(status);
      if (!IsKept(file)) return false;
    }
    std::string path;
    return LoadLengths(PlaceOf(file), purpose, index_.folders.get(), &path, &columns_[file]).ok();
  }

  void Measure(const std::vector<std::size_t>& missing) {
    std::uint64_t bytes = 0;
    for (const std::size_t file : missing) bytes += set_.file(file).bytes;
    if (steps_.split.ranks > 1 && bytes >= kMostBytesOfRanks) RefuseToMeasure(missing);
    GroupFiles(missing);
    const std::size_t cpus = static_cast<std::size_t>(CountCpus().usable);
    ForEachInParallel(groups_.size(), std::min(kMostThreads, cpus),
                      [this](std::size_t group) { MeasureGroup(groups_[group]); });
  }

  [[noreturn]] void RefuseToMeasure(const std::vector<std::size_t>& missing) const {
    Refuse(
        "batches of " + std::to_string(steps_.split.ranks) + " ranks need the lengths of \"" +
        steps_.field + "\": " + set_.file(missing.front()).name + " has none" +
        (missing.size() == 1 ? ""
                             : ", nor have " + std::to_string(missing.size() - 1) + " files more") +
        (steps_.is_named ? "; one process that opens this chain as the only rank makes and keeps "
                           "them"
                         : "; make them once, on as many machines as there are (--part): "
                           "ringfeed index FILES --lengths '" +
                               steps_.units.key + "'"));
  }

  void GroupFiles(const std::vector<std::size_t>& missing) {
    std::uint64_t bytes = kTogetherBytes;
    for (const std::size_t file : missing) {
      if (bytes >= kTogetherBytes || groups_.back().size() == kTogetherFiles) {
        groups_.emplace_back();
        bytes = 0;
      }
      groups_.back().push_back(file);
      bytes += set_.file(file).bytes;
    }
  }

  void MeasureGroup(std::vector<std::size_t> files) {
    if (steps_.split.ranks > 1) std::erase_if(files, [this](std::size_t f) { return Load(f); });
    if (files.empty()) return;
    std::vector<CountedFile> counted;
    for (const std::size_t file : files) {
      counted.push_back(
          {set_.file(file).name, StoredSource(set_.file(file).source), RecordsOf(file)});
    }
    const auto units = steps_.measure(source_, counted, steps_.units.parser, stop_);
    for (std::size_t i = 0; i < files.size(); ++i) Take(files[i], units[i]);
  }

  void Take(std::size_t file, std::span<const std::uint32_t> units) {
    StoredIndex stored = Encode(file, units);
    // One that is not kept is measured again by the next program.
    std::string path;
    if (IsKept(file)) {
      const Status kept = SaveLengths(PlaceOf(file), stored.memory, index_.folders.get(), &path);
      if (!kept.ok()) TellNotKept(file, kept);
    }
    const Status status = LengthColumn::Open(std::move(stored), &columns_[file]);
    if (!status.ok()) throw Error(status);
  }

  void TellNotKept(std::size_t file, const Status& why) const {
    Tell(LogLevel::kWarn, "lengths in memory",
         "the lengths of " + set_.file(file).name +
             ", perhaps of others, are in memory alone, so each process measures them anew: " +
             why.ToString() + "; RINGFEED_INDEX_FOLDER names a folder for them");
  }

  const RecordSet& set_;
  const SourceNode& source_;
  const SharedSteps& steps_;
  const std::stop_token& stop_;
  const IndexOptions index_;
  FileLengths::Columns columns_;  ///< each by the thread that has its file
  std::vector<std::vector<std::size_t>> groups_;
  /// Whether a record's units were computed. Relaxed: who looks has waited for the threads.
  std::atomic<bool> fits_{false};
};

}  // namespace

OpenedColumns OpenColumns(const RecordSet& set, const SourceNode& source, const SharedSteps& steps,
                          const std::stop_token& stop) {
  return ColumnOpener(set, source, steps, stop).Open();
}

void CheckHoles(const FileTable& table, std::span<const std::uint64_t> holes) {
  for (std::size_t file = 0; file < holes.size(); ++file) {
    if (holes[file] == 0) continue;
    throw Error(Status(
        StatusCode::kDamaged,
        std::to_string(holes[file]) +
            " records of the file were damaged, or no records of the parser's, when their lengths "
            "were measured: skip damage, or repair the file (ringfeed verify says more)",
        {table.file(file).name, -1, -1}));
  }
}

}  // namespace ringfeed
