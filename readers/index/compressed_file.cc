#include "readers/index/compressed_file.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "readers/formats/compression/seek_points.h"
#include "readers/index/kept_points.h"
#include "readers/index/known_scan.h"
#include "readers/index/manifest.h"
#include "readers/index/pointed_content.h"

namespace ringfeed {
namespace {

FolderIndexes* FoldersOf(const IndexOptions& index, FolderIndexes* own) {
  return index.folders != nullptr ? index.folders.get() : own;
}

// The points of a file that has them itself.
Status OwnPoints(const IndexedFile& file, SeekPoints* points) {
  if (file.compression != Compression::kZstd) return Status(StatusCode::kNotFound, "no table");
  const OpenInputResult opened = OpenIndexed(file, "its table of frames is read");
  if (!opened.status.ok()) return opened.status;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to) {
    std::size_t got = 0;
    return opened.file->ReadAt(offset, to, &got);
  };
  return ReadSeekTable(file.bytes, read, points);
}

// The kept points of a file, if they are of its state; else those that it has itself.
Status FindPoints(const IndexedFile& file, const IndexOptions& index, KnownFile* known,
                  SeekPoints* points) {
  FolderIndexes own;
  FolderIndexes* const folders = FoldersOf(index, &own);
  const IndexPlace place = PlaceOfPoints(IndexPlaceOf(file, index));
  KeptPoints kept;
  Status status(StatusCode::kNotFound, "they are not kept");
  if (!place.own.empty()) status = LoadPoints(place, folders, &kept);
  // An index is made anew in the folder that is asked for, points are not.
  if (status.code() == StatusCode::kNotFound && file.source == nullptr) {
    const IndexPlace beside = PlaceOfPoints(PlaceOfIndex(file.name, ""));
    if (beside.own != place.own) status = LoadPoints(beside, folders, &kept);
  }
  if (status.ok()) status = IdentifyFile(file, known);
  if (status.ok()) status = CheckState(kept.file, known->identity, kept.written_ns);
  if (status.ok()) {
    *points = std::move(kept.points);
    return status;
  }
  if (status.code() != StatusCode::kNotFound) {
    Tell(LogLevel::kWarn, kept.path,
         "the seek points of " + file.name + " in " + kept.path + " are of no use (" +
             status.message() + "): ringfeed index makes them anew");
  }
  status = OwnPoints(file, points);
  return status.ok() ? IdentifyFile(file, known) : status;
}

void ExamineContent(const IndexedFile& stored, const KnownFile& known, SeekPoints points,
                    std::uint64_t stripe_bytes, ExaminedFile* file) {
  auto content = std::make_shared<PointedContent>(
      stored, known, std::make_shared<const SeekPoints>(std::move(points)));
  file->bytes = content->Size();
  file->compression = Compression::kNone;
  file->inode = 0;
  std::shared_ptr<const Format> own;
  file->status = file->format
                     ->ReadEnd(
                         file->bytes,
                         [&](std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
                           return content->ReadAt(offset, to, got);
                         },
                         &own)
                     .WithPlace({file->name, -1, -1});
  if (own != nullptr) file->format = std::move(own);
  // In the order of files, as without points: an empty one takes a turn.
  file->stripes = std::max<std::uint64_t>(1, file->format->Stripes(file->bytes, stripe_bytes));
  file->object = std::move(content);
}

}  // namespace

ExaminedFile ExamineListed(const IndexOptions& index, std::size_t number, const std::string& name,
                           const std::shared_ptr<Source>& source, const std::string& format,
                           std::uint64_t stripe_bytes) {
  if (index.manifest != nullptr) {
    return index.manifest->Examine(number, source.get(), format, stripe_bytes);
  }
  ExaminedFile file = ExamineFile(name, source.get(), format, stripe_bytes);
  if (!file.status.ok() || file.compression == Compression::kNone) return file;
  const IndexedFile stored{file.name, file.object != nullptr ? file.object : source, file.bytes,
                           file.format, file.compression};
  KnownFile known;
  SeekPoints points;
  const Status found = FindPoints(stored, index, &known, &points);
  if (found.ok() && points.compression == file.compression) {
    ExamineContent(stored, known, std::move(points), stripe_bytes, &file);
  }
  return file;
}

MadePoints MakePoints(const IndexedFile& file, const IndexOptions& options) {
  MadePoints made;
  FolderIndexes own;
  const IndexPlace place = PlaceOfPoints(IndexPlaceOf(file, options));
  if (place.own.empty()) {
    made.status = NoPlaceForIndex(file);
    return made;
  }
  KnownFile known;
  made.status = IdentifyFile(file, &known);
  if (!made.status.ok()) return made;
  SeekPoints points;
  std::uint64_t offset = 0;
  const auto make = [&](IndexImage*) {
    const OpenInputResult opened = OpenIndexed(file, "its seek points are made");
    if (!opened.status.ok()) return opened.status;
    return MakeSeekPoints(
        file.compression,
        [&](std::span<std::byte> to, std::size_t* got) {
          if (options.stop.stop_requested()) return Status(StatusCode::kCancelled, "stopped");
          to = to.first(std::min<std::uint64_t>(to.size(), file.bytes - offset));
          *got = 0;
          Status status = to.empty() ? Status() : opened.file->ReadAt(offset, to, got);
          offset += *got;
          return status;
        },
        &points);
  };
  IndexImage unused;
  Status lasts;
  made.status = ScanKnown(file, known, &unused, &lasts, options.stop, make);
  if (made.status.ok()) made.status = lasts;
  if (made.status.ok()) {
    made.status = SavePoints(place, known.identity, points, FoldersOf(options, &own), &made.path,
                             &made.bytes);
  }
  made.status = made.status.WithPlace({file.name, -1, -1});
  made.points = points.points.size();
  return made;
}

}  // namespace ringfeed
