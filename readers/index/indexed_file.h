#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "io/file_state.h"
#include "io/input_file.h"
#include "readers/formats/compression/decompressor.h"
#include "readers/formats/format.h"
#include "readers/index/index_image.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

class Manifest;

/// A file, or a store of the user's own, whose records get numbers.
struct IndexedFile {
  std::string name;                ///< of the file that holds the records
  std::shared_ptr<Source> source;  ///< read in place of a file of that name; null: that
  std::uint64_t bytes = 0;
  std::shared_ptr<const Format> format;
  Compression compression = Compression::kNone;
  std::size_t max_record_bytes = std::size_t{1} << 30;
  ElementCheck check_elements{};  ///< FramerOptions' own
  /// If not null, the manifest that has its index, and tells whether it has changed: as which file.
  std::shared_ptr<const Manifest> manifest{};
  std::size_t entry = 0;
};

/// A file as it was when it was identified.
struct KnownFile {
  FileIdentity identity;
  FileState state;  ///< all zeros of a store of the user's own
};

/// Opens it for ReadAt from its start to its end; `reason` is the choice's.
OpenInputResult OpenIndexed(const IndexedFile& file, const std::string& reason);

/// Reads a few pieces of the contents: the first and the last 4 KiB, and six in between; of a small
/// file all of it; nothing if a manifest and the source's version tell. Blocks for these reads.
/// Of the content of a compressed file the contents that are read, and the times, are those of the
/// file. Fails as Manifest::CheckState if a manifest has another state of it. changed_ns and inode
/// hold on the same machine alone: a copy of the file has others.
Status IdentifyFile(const IndexedFile& file, KnownFile* known);

/// Whether the file of that name, opened in the state `now`, is still the one that is known. Reads
/// nothing if its state is the same. Else it reads a few pieces: its mode and its links may have
/// changed, and something may have been appended. kTruncated if it is shorter, kDamaged if it was
/// replaced or written, kIoError if it is being replaced now. Blocks.
Status CheckKnown(const std::string& name, const KnownFile& known, const FileState& now);

}  // namespace ringfeed
