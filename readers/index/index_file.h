#pragma once

#include <memory>
#include <string>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "readers/index/paged_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Where the index of a file is kept: beside it as .NAME.rfx, or in `folder` under its name and a
/// hash of where it lies.
std::string IndexPath(const std::string& file, const std::string& folder);

/// Opens the index at `path`, mapped: reads its header and its gaps, and the pages of its first
/// unit and of some gaps; of the file, what these leave out (CheckCover). Fails where it is not
/// there (kNotFound), damaged or without some of the file's records (kDamaged), or of another state
/// of the file, not younger than that, or of other options (kInvalidArgument); the message says why
/// it is not used.
Status LoadIndex(const std::string& path, const IndexedFile& file, const FileIdentity& identity,
                 std::shared_ptr<const PagedIndex>* index);

/// Writes it under a name of its own and renames it: others see all of it or nothing. A link in its
/// place is replaced, not followed. The folder is not made.
Status SaveIndex(const std::string& path, const IndexImage& image);

/// Sets what ScanForIndex leaves open.
void SignIndex(const IndexedFile& file, const FileIdentity& identity, IndexImage* image);

/// Bytes that the index has, or would have, as a file.
std::uint64_t IndexBytes(const IndexHeader& header);

}  // namespace ringfeed
