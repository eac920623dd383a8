// Files that ringfeed keeps of data files: their indexes, and the lengths of their records. A kept
// file stands by itself, or, if it is small, among others of its folder.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "io/file_mapping.h"
#include "readers/index/fetched_bytes.h"
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

/// Those of its seek points: .NAME.rfp by itself, NAME/points among others.
IndexPlace PlaceOfPoints(const IndexPlace& index);

/// The bytes of an index file: mapped, or, if many are mapped already, read into memory; of a store
/// read as they are needed; or a piece of a larger file.
struct StoredIndex {
  std::shared_ptr<const FileMapping> mapping{};  ///< if all of these are null: `memory` has them
  std::vector<std::byte> memory{};
  std::shared_ptr<const FetchedBytes> fetched{};
  std::shared_ptr<const StoredIndex> whole{};  ///< the larger file, of which `piece` is these
  std::span<const std::byte> piece{};
  std::string remedy{};  ///< follows what is found damaged in it

  std::span<const std::byte> bytes() const {
    if (whole != nullptr) return piece;
    if (fetched != nullptr) return fetched->bytes();
    return mapping != nullptr ? mapping->bytes() : std::span<const std::byte>(memory);
  }
  /// To be called before a part of bytes() is first looked at: blocks while it is fetched.
  Status Need(std::span<const std::byte> wanted) const {
    if (whole != nullptr) return whole->Need(wanted);
    return fetched != nullptr ? fetched->Need(wanted) : Status();
  }
  const std::string& Remedy() const { return whole != nullptr ? whole->Remedy() : remedy; }
  /// Whether the file was cut since it was mapped.
  bool was_cut() const {
    if (whole != nullptr) return whole->was_cut();
    return mapping != nullptr && mapping->damaged();
  }
};

struct KeptFile {
  std::string path;  ///< of the two places, that at which it is, or would be
  StoredIndex stored;
  std::int64_t written_ns = 0;
};
/// Opens what is kept at `place`: by itself, else among others. kNotFound if there is none. Blocks.
Status ReadKept(const IndexPlace& place, FolderIndexes* folders, KeptFile* kept);

/// The same of a file that stands by itself, of any name.
Status ReadByItself(const std::string& path, KeptFile* kept);

/// Keeps a small one among the others of its folder, and removes what is there of one by itself,
/// which would be found first. Fails as FolderIndexes::Append. *path is where it is. Blocks.
Status KeepAmongOthers(const IndexPlace& place, std::span<const std::byte> bytes,
                       FolderIndexes* folders, std::string* path);
/// Keeps the pieces, one after another, as a file at `path`: others see all of it or nothing.
/// Replaces a link of that name, and does not follow it. Blocks.
Status KeepByItself(const std::string& path,
                    std::initializer_list<std::span<const std::byte>> pieces);

/// Among others if there are few, else by itself.
Status KeepWhereItFits(const IndexPlace& place, std::span<const std::byte> bytes,
                       FolderIndexes* folders, std::string* path);

/// Whether a header has its kind's magic and version; `what` is the kind in words.
template <typename Header>
Status CheckKind(const Header& header, const std::string& what) {
  if (std::string_view(header.magic.data(), header.magic.size()) != Header::kMagic) {
    return Status(StatusCode::kDamaged, "it is no " + what + " of ringfeed's");
  }
  if (header.version != Header::kVersion) {
    return Status(StatusCode::kInvalidArgument, "it is of version " +
                                                    std::to_string(header.version) + ", not " +
                                                    std::to_string(Header::kVersion));
  }
  return {};
}

/// The CRC-32C of a header, with zero in place of its checksum, and of what follows it.
template <typename Header>
std::uint32_t HeaderChecksum(Header header, std::span<const std::byte> rest = {}) {
  header.checksum = 0;
  return ExtendCrc32c(Crc32c(std::as_bytes(std::span(&header, 1))), rest);
}

/// Which pages of a kept file were found whole, a bit for each. Two threads may both check a page:
/// that is harmless. Thread safe.
class CheckedPages {
 public:
  explicit CheckedPages(std::uint64_t pages) : words_(static_cast<std::size_t>(pages / 64 + 1)) {}

  bool Has(std::uint64_t page) const {
    return (WordOf(page).load(std::memory_order_acquire) >> page % 64 & 1) != 0;  // partner: Add
  }
  void Add(std::uint64_t page) {
    words_[static_cast<std::size_t>(page / 64)].fetch_or(
        std::uint64_t{1} << page % 64,
        std::memory_order_release);  // partner: Has
  }

 private:
  const std::atomic<std::uint64_t>& WordOf(std::uint64_t page) const {
    return words_[static_cast<std::size_t>(page / 64)];
  }

  std::vector<std::atomic<std::uint64_t>> words_;
};

/// Whether what was made of a file in the state `then`, and written at `written_ns`, is of the file
/// in the state `now`. kInvalidArgument, with what differs, if it is not.
Status CheckState(const FileIdentity& then, const FileIdentity& now, std::int64_t written_ns);

}  // namespace ringfeed
