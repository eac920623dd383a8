// Files that ringfeed keeps of data files: their indexes, and the lengths of their records. A kept
// file stands by itself, or, if it is small, among others of its folder.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file_mapping.h"
#include "readers/index/folder_index.h"
#include "readers/index/index_image.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The places of a file's kept index.
struct IndexPlace {
  /// Of an index by itself: beside the file as .NAME.rfx, or in a folder of indexes under its name
  /// and a hash of its full path. Empty: it is not kept.
  std::string own;
  /// Of the indexes of small files: beside them as .rfx, or in the folder of indexes under their
  /// folder's name and hash.
  std::string shared;
  std::string name;  ///< in that one
};
/// Those of a file, if its index is kept in `folder`; "": beside it.
IndexPlace PlaceOfIndex(const std::string& file, const std::string& folder);
/// The same for a store of the user's own: in `folder`, by hashes of its name.
IndexPlace PlaceOfSourceIndex(const std::string& name, const std::string& folder);
/// The places of the lengths of the same file's records that are told by `key`: .NAME.HASH.rfl by
/// itself, NAME/HASH among others.
IndexPlace PlaceOfLengths(const IndexPlace& index, const std::string& key);

/// The bytes of an index file: mapped, or, if many are mapped already, read into memory.
struct StoredIndex {
  std::shared_ptr<const FileMapping> mapping;  ///< null: `memory` has them
  std::vector<std::byte> memory;
  std::span<const std::byte> bytes() const {
    return mapping != nullptr ? mapping->bytes() : std::span<const std::byte>(memory);
  }
};

struct KeptFile {
  std::string path;  ///< of the two places, that at which it is, or would be
  StoredIndex stored;
  std::int64_t written_ns = 0;
};
/// Opens what is kept at `place`: by itself, else among others. kNotFound if there is none. Blocks.
Status ReadKept(const IndexPlace& place, FolderIndexes* folders, KeptFile* kept);

/// Whether what was made of a file in the state `then`, and written at `written_ns`, is of the file
/// in the state `now`. kInvalidArgument, with what differs, if it is not.
Status CheckState(const FileIdentity& then, const FileIdentity& now, std::int64_t written_ns);

}  // namespace ringfeed
