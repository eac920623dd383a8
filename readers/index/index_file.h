#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "readers/index/folder_index.h"
#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "readers/index/kept_file.h"
#include "readers/index/paged_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Opens the index of `place` (*path says where it is): one by itself, which is mapped, else that
/// among others. Reads its header and its gaps, and the pages of its first unit and of some gaps;
/// of the file, what these leave out (CheckCover). Fails if it is not there (kNotFound), if it is
/// damaged or lacks some of the file's records (kDamaged), or if it is of another state of the
/// file, not younger than that, or of other options (kInvalidArgument). The message says why it is
/// not used.
Status LoadIndex(const IndexPlace& place, const IndexedFile& file, const FileIdentity& identity,
                 FolderIndexes* folders, std::string* path,
                 std::shared_ptr<const PagedIndex>* index);

/// Keeps it: others see all of it or nothing. One of at most a page joins the others of its folder,
/// and removes what is there of an own one; if the file system has no locks, and if it is larger,
/// it gets a file by itself. Replaces a link of that name, and does not follow it. Does not make
/// the folder. *path is where it is.
Status SaveIndex(const IndexPlace& place, const IndexImage& image, FolderIndexes* folders,
                 std::string* path);
/// The same, by itself at `path`.
Status SaveIndex(const std::string& path, const IndexImage& image);

/// Sets the fields that ScanForIndex leaves open.
void SignIndex(const IndexedFile& file, const FileIdentity& identity, IndexImage* image);

/// Why an index cannot be kept; OK if it can: the file is damaged all over, or was not all read.
Status CanBeKept(const IndexImage& image);

/// An index packed among others: its header, its pages (of the last one what its entries take), its
/// gaps and damage, each where the other file says.
struct PackedIndex {
  IndexHeader header;
  StoredIndex pages;
  StoredIndex lists;  ///< gaps, then damage
};
/// Bytes of these; of a header that CheckPacked took, or of an index that was made.
std::uint64_t PackedPagesBytes(const IndexHeader& header);
std::uint64_t PackedListsBytes(const IndexHeader& header);
std::vector<std::byte> PackLists(const PagedIndex& index);
/// Whether it is a header of an index that `most_bytes` may hold. kDamaged if not.
Status CheckPacked(const IndexHeader& header, std::uint64_t most_bytes);
/// Whether the index is of the format and the options with which the file is to be read.
/// kInvalidArgument, with what differs, if it is not.
Status CheckPurpose(const IndexHeader& header, const IndexedFile& file);
/// Opens one whose header CheckPacked took. Reads the lists alone. kDamaged if they are. Blocks.
Status OpenPacked(PackedIndex packed, std::shared_ptr<const PagedIndex>* index);

/// Bytes that the index has, or would have, as a file.
std::uint64_t IndexBytes(const IndexHeader& header);
/// Bytes of it at `path`, which is one of the two places.
std::uint64_t KeptBytes(const IndexHeader& header, const IndexPlace& place,
                        const std::string& path);

}  // namespace ringfeed
