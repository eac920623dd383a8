#pragma once

#include <memory>
#include <string>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "readers/index/paged_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The path of a file's kept index: beside it as .NAME.rfx, or in `folder` under its name and a
/// hash of its full path.
std::string IndexPath(const std::string& file, const std::string& folder);

/// Opens the index at `path`, mapped: reads its header and its gaps, and the pages of its first
/// unit and of some gaps; of the file, what these leave out (CheckCover). Fails if it is not there
/// (kNotFound), if it is damaged or lacks some of the file's records (kDamaged), or if it is of
/// another state of the file, not younger than that, or of other options (kInvalidArgument). The
/// message says why it is not used.
Status LoadIndex(const std::string& path, const IndexedFile& file, const FileIdentity& identity,
                 std::shared_ptr<const PagedIndex>* index);

/// Writes it under a name of its own and renames it: others see all of it or nothing. Replaces a
/// link of that name, and does not follow it. Does not make the folder.
Status SaveIndex(const std::string& path, const IndexImage& image);

/// Sets the fields that ScanForIndex leaves open.
void SignIndex(const IndexedFile& file, const FileIdentity& identity, IndexImage* image);

/// Bytes that the index has, or would have, as a file.
std::uint64_t IndexBytes(const IndexHeader& header);

}  // namespace ringfeed
