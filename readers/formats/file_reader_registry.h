#pragma once

#include <memory>
#include <string>

#include "ringfeed/file_reader.h"

namespace ringfeed {

/// What makes the readers of a registered format: the one of that tag, or, where `tag` is empty,
/// the one that the file's name or first bytes say. Null where there is none. Thread safe.
std::shared_ptr<const FileReaderFactory> FindFileReader(const std::string& tag,
                                                        const std::string& file);

}  // namespace ringfeed
