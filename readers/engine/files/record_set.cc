#include "readers/engine/files/record_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/machine/cpu_count.h"
#include "base/machine/in_parallel.h"
#include "base/refusal.h"
#include "base/user_call.h"
#include "io/remote/remote_source.h"
#include "readers/formats/examined_file.h"
#include "readers/index/compressed_file.h"
#include "readers/index/manifest.h"
#include "readers/index/pointed_content.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostThreads = 16;
/// So that no sum of them comes near the largest number.
constexpr std::uint64_t kMostNumbered = std::uint64_t{1} << 56;

// Damage that is in no record has no turn at which to fail, so it fails here.
Status LossAsFailure(const RecordSet::File& file) {
  const IndexLoss loss = file.index->loss();
  if (loss.ranges == 0) return {};
  return Status(StatusCode::kDamaged,
                std::to_string(loss.ranges) + (loss.ranges == 1 ? " piece" : " pieces") +
                    " of the file cannot be read, and nobody knows how many records were there; "
                    "skip damage, or repair the file (ringfeed verify says more)",
                {file.name, static_cast<std::int64_t>(loss.first_offset), -1});
}

RecordSet::File OpenOne(const std::string& name, const std::shared_ptr<Source>& source,
                        std::size_t number, const RecordSet::Options& options) {
  RecordSet::File file;
  if (options.index.stop.stop_requested()) {
    file.status = Status(StatusCode::kCancelled, "opening the files was broken off");
    return file;
  }
  ExaminedFile examined =
      ExamineListed(options.index, number, name, source, options.format, options.stripe_bytes);
  file.name = std::move(examined.name);
  file.source = examined.object != nullptr ? examined.object : source;
  file.bytes = examined.bytes;
  file.format = std::move(examined.format);
  file.status = std::move(examined.status);
  // One that is not as its manifest says.
  file.unfit =
      options.index.manifest != nullptr && file.status.code() == StatusCode::kInvalidArgument;
  if (!file.status.ok()) return file;
  if (options.check_format) file.status = options.check_format(file.format->name());
  file.unfit = !file.status.ok();
  if (file.unfit) {
    file.status = file.status.WithPlace({file.name, -1, -1});
    return file;
  }
  const IndexedFile indexed{file.name,
                            file.source,
                            file.bytes,
                            file.format,
                            examined.compression,
                            options.max_record_bytes,
                            options.check_elements,
                            options.index.manifest,
                            number};
  OpenedIndex opened = OpenRecordIndex(indexed, options.index);
  file.status = std::move(opened.status);
  file.origin = opened.origin;
  file.how = IndexOriginName(opened.origin);
  if (!opened.why.empty()) file.how += ": " + opened.why;
  if (IsOfFile(file.source.get())) file.known = opened.known;
  file.sample = opened.known.identity.sample;
  file.unfit = file.status.code() == StatusCode::kInvalidArgument;
  if (!file.status.ok()) return file;
  file.index = std::move(opened.index);
  file.stripes = file.format->Stripes(file.bytes, options.stripe_bytes);
  if (options.on_damage == OnDamage::kFail) file.status = LossAsFailure(file);
  return file;
}

// Of an object the answer is waited for, not a processor.
std::size_t OpeningThreads(const std::vector<std::shared_ptr<Source>>& sources,
                           const RecordSet::Options& options) {
  if (options.threads != 0) return options.threads;
  if (AnyOfStore(sources)) return kMostThreads;
  return std::min(kMostThreads, static_cast<std::size_t>(CountCpus().usable));
}

}  // namespace

RecordSet::Options RecordSet::OptionsOf(const OpenOptions& options) {
  Options result;
  result.format = options.format;
  result.max_record_bytes = options.max_record_bytes;
  result.stripe_bytes = options.stripe_bytes;
  result.on_damage = options.on_damage;
  result.index.folder = options.index_folder;
  result.index.folders = std::make_shared<FolderIndexes>();
  return result;
}

RecordSet::RecordSet(const std::vector<std::string>& names,
                     const std::vector<std::shared_ptr<Source>>& sources, const Options& options)
    : stripe_bytes_(options.stripe_bytes) {
  OpenAll(names, sources, options);
  first_rows_.push_back(0);
  for (File& file : files_) {
    if (file.status.ok() && file.index->records() > kMostNumbered - first_rows_.back()) {
      file.status =
          Status(StatusCode::kUnsupported,
                 "with it there are more records than 2^56, which is more than are counted",
                 {file.name, -1, -1});
    }
    const bool has_rows = file.status.ok() && file.stripes != 0;
    if (!file.status.ok()) file.stripes = 0;
    first_rows_.push_back(first_rows_.back() + (has_rows ? file.index->records() : 0));
  }
  TakeFingerprint();
}

void RecordSet::OpenAll(const std::vector<std::string>& names,
                        const std::vector<std::shared_ptr<Source>>& sources,
                        const Options& options) {
  files_.resize(names.size());
  for (std::size_t i = 0; i < files_.size(); ++i) {
    files_[i].name = names[i];
  }
  // What a Source throws is its file's failure: this may be another thread than the caller's, and
  // must not throw if memory is short.
  const auto open_one = [&](std::size_t i) noexcept {
    try {
      files_[i] = OpenOne(names[i], sources.empty() ? nullptr : sources[i], i, options);
    } catch (...) {
      files_[i].status = StatusOfThrown("it cannot be opened");
    }
  };
  ForEachInParallel(files_.size(), OpeningThreads(sources, options), open_one);
  // If the system refused, several at a time were too many.
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (IsRefusal(files_[i].status)) open_one(i);
    if (!files_[i].status.ok()) {
      files_[i].status = files_[i].status.WithPlace({files_[i].name, -1, -1});
    }
  }
}

Status RecordSet::FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const {
  const File& its = files_[file];
  *row = stripe == 0 ? first_rows_[file] : first_rows_[file + 1];
  if (stripe == 0 || stripe >= its.stripes) return {};
  std::uint64_t record = 0;
  Status status = its.index->FirstFrom(stripe * stripe_bytes_, &record);
  *row = first_rows_[file] + record;
  return status.ok() ? status : status.WithPlace({its.name, -1, -1});
}

Status RecordSet::status() const {
  for (const File& file : files_) {
    if (!file.status.ok()) return file.status;
  }
  return {};
}

bool RecordSet::has_losses() const {
  return std::any_of(files_.begin(), files_.end(), [](const File& file) {
    return file.index != nullptr &&
           (file.bytes == 0 || file.index->loss().ranges != 0 || !file.index->warnings().empty());
  });
}

void RecordSet::TakeFingerprint() {
  std::vector<FileFacts> facts;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const File& file = files_[i];
    const std::uint64_t bytes = StoredBytes(file.source.get(), file.bytes);
    facts.push_back({bytes, first_rows_[i + 1] - first_rows_[i], file.sample});
  }
  fingerprint_ = FingerprintOf(facts);
}

}  // namespace ringfeed
