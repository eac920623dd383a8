#include "readers/index/open_index.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "io/remote/address.h"
#include "readers/index/index_builder.h"
#include "readers/index/index_file.h"
#include "readers/index/known_scan.h"
#include "readers/index/manifest.h"
#include "readers/index/paged_index.h"
#include "readers/index/pointed_content.h"

namespace ringfeed {
namespace {

/// A kept index. If a page turns out damaged when it is used, the index is made again, once, and
/// the call goes on with the new one. Thread safe; a call blocks while the file is read for it.
class MendingIndex final : public RecordIndex {
 public:
  using Build = std::function<Status(std::shared_ptr<const PagedIndex>*)>;

  MendingIndex(std::shared_ptr<const PagedIndex> kept, Build build)
      : kept_(std::move(kept)), build_(std::move(build)) {}

  std::uint64_t records() const override { return kept_->records(); }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  std::span<const IndexDamage> damage() const override { return kept_->damage(); }
  IndexLoss loss() const override { return kept_->loss(); }
  std::string remark() const override;

 private:
  /// The index that replaces the kept one.
  Status Mended(const Status& damage, std::shared_ptr<const PagedIndex>* index) const;

  const std::shared_ptr<const PagedIndex> kept_;
  const Build build_;
  mutable std::mutex mutex_;  ///< guards what follows
  mutable std::shared_ptr<const PagedIndex> mended_;
  mutable Status failure_;
  mutable std::string remark_;
};

Status MendingIndex::Mended(const Status& damage, std::shared_ptr<const PagedIndex>* index) const {
  const std::lock_guard lock(mutex_);
  if (mended_ == nullptr && failure_.ok()) {
    std::shared_ptr<const PagedIndex> made;
    failure_ = build_(&made);
    if (failure_.ok() && made->records() != records()) {
      failure_ =
          Status(StatusCode::kDamaged,
                 damage.message() + ", and the file has " + std::to_string(made->records()) +
                     " records where it had " + std::to_string(records()) + ": it has changed");
    }
    if (failure_.ok()) mended_ = std::move(made);
    remark_ = damage.message() + "; it was made again";
  }
  *index = mended_;
  return failure_;
}

Status MendingIndex::Find(std::span<const std::uint64_t> records,
                          std::span<RecordUnit> units) const {
  Status status = kept_->Find(records, units);
  if (status.code() != StatusCode::kDamaged) return status;
  std::shared_ptr<const PagedIndex> mended;
  status = Mended(status, &mended);
  return status.ok() ? mended->Find(records, units) : status;
}

Status MendingIndex::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  Status status = kept_->FirstFrom(offset, record);
  if (status.code() != StatusCode::kDamaged) return status;
  std::shared_ptr<const PagedIndex> mended;
  status = Mended(status, &mended);
  return status.ok() ? mended->FirstFrom(offset, record) : status;
}

std::string MendingIndex::remark() const {
  const std::lock_guard lock(mutex_);
  return remark_;
}

std::string Folder(const IndexOptions& options) {
  if (!options.folder.empty()) return options.folder;
  const char* const folder = std::getenv("RINGFEED_INDEX_FOLDER");
  return folder == nullptr ? "" : folder;
}

void Say(const std::string& what, std::string* why) { *why += (why->empty() ? "" : "; ") + what; }

Status ReadHead(const IndexedFile& file, std::size_t bytes, std::vector<std::byte>* head) {
  OpenInputResult opened = OpenIndexed(file, "its head is read");
  if (!opened.status.ok()) return opened.status;
  head->resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, file.bytes)));
  std::size_t got = 0;
  Status status = opened.file->ReadAt(0, *head, &got);
  head->resize(got);
  return status;
}

/// Reads another program's index of the file. kNotFound if there is none that is believed; then
/// *why gets the reason; else *path is its path.
Status ReadForeign(const IndexedFile& file, const std::stop_token& stop, IndexImage* image,
                   std::string* path, std::string* why) {
  const Status none(StatusCode::kNotFound, "no other program's index");
  const ForeignIndex kind = file.format->foreign_index();
  if (kind == ForeignIndex::kNone || file.source != nullptr) return none;
  const auto read = kind == ForeignIndex::kOfTar ? ReadTarIndex : ReadDaliIndex;
  std::vector<std::string> paths = {file.name + ".idx"};
  // wds2idx names the index of a.x.tar so, if it is not told a name.
  const std::size_t dot = file.name.find('.', file.name.rfind('/') + 2);
  if (kind == ForeignIndex::kOfTar && dot != std::string::npos) {
    paths.push_back(file.name.substr(0, dot) + ".idx");
  }
  for (const std::string& at : paths) {
    const Status status = read(at, file, image, stop);
    if (status.ok()) *path = at;
    if (status.ok() || status.code() == StatusCode::kCancelled) return status;
    if (status.code() == StatusCode::kNotFound) continue;
    Say("the index " + at + " was not believed: " + status.message(), why);
  }
  return none;
}

// `anew`: by a scan in any case. Else another program's index is used if it fits the file, and then
// kept, as what a scan finds is: to compare it with the file again would cost more.
void Scan(const IndexedFile& file, const IndexPlace& place, const IndexOptions& options, bool anew,
          OpenedIndex* opened) {
  IndexImage image;
  Status lasts;
  std::string foreign;  // its path
  const auto make = [&](IndexImage* made) {
    if (anew) return ScanForIndex(file, made, options.stop);
    const Status read = ReadForeign(file, options.stop, made, &foreign, &opened->why);
    const bool is_done = read.code() != StatusCode::kNotFound;
    return is_done ? read : ScanForIndex(file, made, options.stop);
  };
  opened->status = ScanKnown(file, opened->known, &image, &lasts, options.stop, make);
  if (!opened->status.ok()) return;
  if (!foreign.empty()) {
    opened->origin = IndexOrigin::kForeign;
    opened->path = std::move(foreign);
  }
  SignIndex(file, opened->known.identity, &image);
  opened->index_bytes = IndexBytes(image.header);
  if (!options.save) {
    opened->kept = lasts.ok() ? CanBeKept(image) : lasts;
  } else if (!place.own.empty()) {
    std::string path;
    opened->kept = lasts.ok() ? SaveIndex(place, image, options.folders.get(), &path) : lasts;
    if (opened->kept.ok()) {
      opened->path = path;
      opened->index_bytes = KeptBytes(image.header, place, path);
      const char* const others = path == place.shared ? ", perhaps of others," : "";
      Tell(LogLevel::kInfo, path, "the index of " + file.name + others + " was made: " + path);
    } else if (foreign.empty()) {
      Say("it is kept in memory alone: " + opened->kept.ToString(), &opened->why);
      Tell(LogLevel::kWarn, "index in memory",
           "the index of " + file.name +
               ", perhaps of others, is in memory alone, so each process makes it anew: " +
               opened->kept.ToString() + "; RINGFEED_INDEX_FOLDER names a folder for indexes");
    }
  }
  opened->pages = std::make_shared<const PagedIndex>(std::move(image));
  opened->index = opened->pages;
}

/// The index that the file's manifest has, if it has one. What the format tells is of the same
/// number of records.
void OpenListed(const IndexedFile& file, OpenedIndex* opened) {
  if (opened->index == nullptr) {
    opened->status = file.manifest->OpenIndex(file.entry, file, &opened->pages);
    if (!opened->status.ok()) return;
    opened->index = opened->pages;
    opened->index_bytes = IndexBytes(opened->pages->header());
    opened->origin = IndexOrigin::kManifest;
    opened->path = file.manifest->path();
  }
  opened->status = file.manifest->CheckRecords(file.entry, opened->index->records());
}

bool OpenKept(const IndexedFile& file, const IndexPlace& place, const IndexOptions& options,
              OpenedIndex* opened) {
  std::shared_ptr<const PagedIndex> kept;
  std::string path;
  const Status status =
      LoadIndex(place, file, opened->known.identity, options.folders.get(), &path, &kept);
  if (status.ok()) {
    opened->origin = IndexOrigin::kOpened;
    opened->path = path;
    opened->index_bytes = KeptBytes(kept->header(), place, path);
    opened->pages = kept;
    const auto build = [file, place, folders = options.folders, save = options.save,
                        known = opened->known](std::shared_ptr<const PagedIndex>* made) {
      IndexImage image;
      Status lasts;
      Status scanned = ScanKnown(file, known, &image, &lasts);
      if (!scanned.ok()) return scanned;
      SignIndex(file, known.identity, &image);
      // If it cannot be kept, the next process that opens it makes it again.
      std::string saved_at;
      if (save && lasts.ok()) (void)SaveIndex(place, image, folders.get(), &saved_at);
      *made = std::make_shared<const PagedIndex>(std::move(image));
      return Status();
    };
    opened->index = std::make_shared<const MendingIndex>(std::move(kept), build);
    return true;
  }
  opened->origin = IndexOrigin::kBuilt;
  if (status.code() == StatusCode::kNotFound) return false;
  opened->origin = IndexOrigin::kRebuilt;
  Say("the index " + path + " was of no use: " + status.message(), &opened->why);
  return false;
}

OpenedIndex Open(const IndexedFile& file, IndexOptions options, bool anew) {
  OpenedIndex opened;
  if (options.folders == nullptr) options.folders = std::make_shared<FolderIndexes>();
  opened.status = CanBeIndexed(file);
  if (opened.status.ok()) opened.status = IdentifyFile(file, &opened.known);
  if (opened.status.ok() && opened.known.identity.bytes != file.bytes) {
    opened.status = Status(StatusCode::kIoError, "the file changed while it was opened");
  }
  const bool listed = file.manifest != nullptr && !anew;
  const bool found = !opened.status.ok() || ComputeRecordIndex(file, &opened);
  if (listed && opened.status.ok()) OpenListed(file, &opened);
  if (found || listed) {
    opened.status = opened.status.WithPlace({file.name, -1, -1});
    return opened;
  }
  const IndexPlace place = IndexPlaceOf(file, options);
  if (place.own.empty() && !anew && IsRemote(file.name)) {
    opened.status = NoPlaceForIndex(file);
    return opened;
  }
  opened.origin = IndexOrigin::kBuilt;
  if (!place.own.empty() && !anew && OpenKept(file, place, options, &opened)) return opened;
  Scan(file, place, options, anew, &opened);
  if (!opened.status.ok()) opened.origin = IndexOrigin::kNone;
  return opened;
}

}  // namespace

bool ComputeRecordIndex(const IndexedFile& file, OpenedIndex* opened) {
  FramerOptions options{file.name, file.bytes};
  options.max_record_bytes = file.max_record_bytes;
  options.check_elements = file.check_elements;
  std::vector<std::byte> head;
  OwnIndexResult own = file.format->OwnIndex(options, head);
  while (own.need_bytes > head.size() && opened->status.ok()) {
    opened->status = ReadHead(file, own.need_bytes, &head);
    const bool shrank = head.size() < std::min<std::uint64_t>(own.need_bytes, file.bytes);
    if (opened->status.ok() && shrank) {
      opened->status = Status(StatusCode::kTruncated, "the file shrank");
    }
    if (opened->status.ok()) own = file.format->OwnIndex(options, head);
  }
  if (!own.status.ok()) opened->status = own.status;
  if (opened->status.ok() && own.index == nullptr) return false;
  opened->index = std::move(own.index);
  if (opened->status.ok()) opened->origin = IndexOrigin::kComputed;
  return true;
}

const char* IndexOriginName(IndexOrigin origin) {
  switch (origin) {
    case IndexOrigin::kNone:
      return "none";
    case IndexOrigin::kComputed:
      return "computed";
    case IndexOrigin::kOpened:
      return "opened";
    case IndexOrigin::kBuilt:
      return "built";
    case IndexOrigin::kRebuilt:
      return "rebuilt";
    case IndexOrigin::kForeign:
      return "foreign";
    case IndexOrigin::kManifest:
      return "manifest";
  }
  return "none";
}

OpenedIndex OpenRecordIndex(const IndexedFile& file, const IndexOptions& options) {
  return Open(file, options, false);
}

OpenedIndex BuildRecordIndex(const IndexedFile& file, const IndexOptions& options) {
  return Open(file, options, true);
}

Status CheckRecordIndex(const IndexedFile& file, const IndexOptions& options) {
  OpenedIndex computed;
  std::string path;
  Status status = CanBeIndexed(file);
  if (status.ok()) status = IdentifyFile(file, &computed.known);
  if (!status.ok()) return status;
  if (ComputeRecordIndex(file, &computed)) return computed.status;
  std::shared_ptr<const PagedIndex> kept;
  FolderIndexes folders;
  if (file.manifest != nullptr) {
    path = file.manifest->path();
    status = file.manifest->OpenIndex(file.entry, file, &kept);
  } else {
    status = LoadIndex(IndexPlaceOf(file, options), file, computed.known.identity,
                       options.folders != nullptr ? options.folders.get() : &folders, &path, &kept);
  }
  if (status.ok()) status = kept->CheckPages();
  IndexImage image;
  if (status.ok()) status = ScanForIndex(file, &image);
  if (status.ok() && !kept->SameUnits(PagedIndex(std::move(image)))) {
    status = Status(StatusCode::kDamaged, "it says other places than a scan of the file finds");
  }
  return status.WithPlace({path, -1, -1});
}

IndexPlace IndexPlaceOf(const IndexedFile& file, const IndexOptions& options) {
  const std::string folder = Folder(options);
  if (IsOfFile(file.source.get())) return PlaceOfIndex(file.name, folder);
  if (folder.empty() || file.source->Version().empty()) return {};
  return PlaceOfSourceIndex(file.name, folder);
}

// Each process of a job would read the whole object for itself.
Status NoPlaceForIndex(const IndexedFile& file) {
  return Status(StatusCode::kInvalidArgument,
                "an order by number needs the places of its records: name a manifest in place of "
                "the objects (ringfeed index --manifest makes it), or a folder that keeps their "
                "indexes (index_folder, RINGFEED_INDEX_FOLDER; the server has to tell an ETag)",
                {file.name, -1, -1});
}

IndexPlace IndexPlaceFor(const std::string& file, const IndexOptions& options) {
  const std::string folder = Folder(options);
  if (!IsRemote(file)) return PlaceOfIndex(file, folder);
  return folder.empty() ? IndexPlace() : PlaceOfSourceIndex(file, folder);
}

}  // namespace ringfeed
