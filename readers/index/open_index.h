#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "readers/formats/record_index.h"
#include "readers/index/folder_index.h"
#include "readers/index/index_file.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

struct IndexOptions {
  std::string folder{};  ///< the folder of kept indexes; "": RINGFEED_INDEX_FOLDER, else beside
                         ///< each file
  bool save = true;      ///< keeps a new index, if it can be kept
  /// What was seen of the files of indexes, for calls that follow; null: of this call alone.
  std::shared_ptr<FolderIndexes> folders{};
  std::stop_token stop{};  ///< a request ends making it, with kCancelled
  /// The manifest of the list of files that is opened, if it has one: for RecordSet.
  std::shared_ptr<const Manifest> manifest{};
};

/// The origin of an index.
enum class IndexOrigin : std::uint8_t {
  kNone,      ///< there is none
  kComputed,  ///< the format tells: by arithmetic, or by an index that belongs to it
  kOpened,    ///< the kept one
  kBuilt,     ///< made now; there was none
  kRebuilt,   ///< made now; the kept one was of no use
  kForeign,   ///< read from another program's
  kManifest,  ///< the manifest's
};
/// "none", "computed", "opened", "built", "rebuilt", "foreign", "manifest".
const char* IndexOriginName(IndexOrigin origin);

struct OpenedIndex {
  Status status;  ///< why there is none
  std::shared_ptr<const RecordIndex> index;
  std::shared_ptr<const PagedIndex> pages;  ///< the same as a file has it; null if it is computed
  IndexOrigin origin = IndexOrigin::kNone;
  KnownFile known;                ///< the file that it is of
  std::string path;               ///< of the index file; empty if it has none
  Status kept;                    ///< why a new index is only in memory, or may not be kept
  std::uint64_t index_bytes = 0;  ///< of it there, or in memory; 0 if it is computed
  /// Messages: why a kept one was not used, a foreign one not believed, a new one not kept.
  std::string why;
};

/// Opens the index of a file that was examined, or makes it, and then reads the file once. A file
/// of a manifest has the index in it, or fails. Else it tries the kept one first, then one of
/// DALI's beside a TFRecord file, or of Energon's beside a tar file. A page that is found damaged
/// later makes the index anew, and its remark() tells. Blocks. Thread safe, also against other
/// processes: the last one leaves the file.
OpenedIndex OpenRecordIndex(const IndexedFile& file, const IndexOptions& options = {});

/// Sets *opened to the index that the format tells by itself, by arithmetic or by a table in the
/// file, or to why it fails; false if only a scan tells. Blocks for reads of the file's head.
bool ComputeRecordIndex(const IndexedFile& file, OpenedIndex* opened);

/// The same, but the kept one is not used: it is made in any case.
OpenedIndex BuildRecordIndex(const IndexedFile& file, const IndexOptions& options = {});

/// Compares every page of the kept index with a scan of the file. kNotFound if there is none; OK if
/// the format needs none. Changes nothing.
Status CheckRecordIndex(const IndexedFile& file, const IndexOptions& options = {});

/// The places at which OpenRecordIndex looks for the index of a file; empty if it is not kept.
IndexPlace IndexPlaceOf(const IndexedFile& file, const IndexOptions& options);
/// The failure for a file, or source, that has no such place.
Status NoPlaceForIndex(const IndexedFile& file);

/// Those of a file of that name.
IndexPlace IndexPlaceFor(const std::string& file, const IndexOptions& options);

}  // namespace ringfeed
