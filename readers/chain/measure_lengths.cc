#include "readers/chain/measure_lengths.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

namespace {

constexpr std::size_t kRows = 8192;  // of a batch

SourceNode SourceOf(const SourceNode& like, std::span<const CountedFile> files) {
  SourceNode source;
  for (const CountedFile& file : files) {
    source.names.push_back(file.name);
    source.sources.push_back(file.source);
  }
  source.options.format = like.options.format;
  source.options.stripe_bytes = like.options.stripe_bytes;
  source.options.max_record_bytes = like.options.max_record_bytes;
  source.options.io = like.options.io;
  source.options.index_folder = like.options.index_folder;
  source.options.cycle = 1;
  source.options.threads = 1;
  source.options.index = IndexUse::kNever;
  source.options.on_damage = OnDamage::kSkip;
  return source;
}

/// Deals the rows of a chain out to the files that they are of.
class Lengths {
 public:
  explicit Lengths(std::span<const CountedFile> files) : files_(files), units_(files.size()) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      units_[i].reserve(static_cast<std::size_t>(files[i].records));
    }
  }

  void Take(const std::uint32_t* units, const std::byte* mask, std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      while (at_ < files_.size() && units_[at_].size() == files_[at_].records) ++at_;
      if (at_ == files_.size()) {
        // The last batch of a padded chain is filled up.
        if (mask[row] != std::byte{0}) RefuseOtherFile(files_.back().name);
        continue;
      }
      units_[at_].push_back(mask[row] != std::byte{0} ? units[row] : LengthTable::kHole);
    }
  }
  std::vector<std::vector<std::uint32_t>> Finish() && {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (units_[i].size() != files_[i].records) RefuseOtherFile(files_[i].name);
    }
    return std::move(units_);
  }

 private:
  [[noreturn]] static void RefuseOtherFile(const std::string& name) {
    throw Error(Status(StatusCode::kDamaged,
                       "the file changed while its lengths were measured: it has another number of "
                       "records than its index",
                       {name, -1, -1}));
  }

  const std::span<const CountedFile> files_;
  std::vector<std::vector<std::uint32_t>> units_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::vector<std::uint32_t>> MeasureLengths(const SourceNode& like,
                                                       std::span<const CountedFile> files,
                                                       const std::shared_ptr<const Parser>& units,
                                                       const std::stop_token& stop) {
  Reader rows = ReaderAccess::Of(std::make_shared<GraphNode>(SourceOf(like, files), nullptr));
  BatchOptions options;
  options.size = kRows;
  options.pad = true;
  options.empty_batches = true;
  Reader batches = Batch(Parse(std::move(rows), units), options);
  Lengths lengths(files);
  Instance batch;
  while (true) {
    if (stop.stop_requested()) Refuse(StatusCode::kCancelled, "measuring lengths was broken off");
    const ReadResult result = batches.TryReadNext(&batch);
    if (result == ReadResult::kEnd) break;
    if (result != ReadResult::kRecord) throw Error(batches.status());
    lengths.Take(reinterpret_cast<const std::uint32_t*>(batch[0].data), batch[1].data,
                 static_cast<std::size_t>(batch[0].shape[0]));
  }
  return std::move(lengths).Finish();
}

}  // namespace ringfeed
